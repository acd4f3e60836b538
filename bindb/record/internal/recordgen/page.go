package main

import (
	"fmt"
	"strings"
)

const intro = `# Binary DB v0: the format

This page lists every fixed record that Writ reads and writes, byte by byte. It is generated from the declarations in
[bindb/record](../bindb/record); change those and run ` + "`go generate ./bindb/record`" + `.

## How to read it

- Each .bin and .idx file begins with a header of 4 bytes, the little-endian u32 layout id 1. An empty family is only that header.
- All integers are unsigned and little-endian. Fields follow one another without padding.
- Record *i* of a family with record size *s* takes the bytes from 4 + *i* · *s*. The first record is record 0.
- An *index + 1* is a reference that may be absent: 0 means none. An *index* is always there. Both point into the same root.
- An *offset* counts from the beginning of the payload file, so it is at least 4.
- Fields and bits that are reserved are written as zero. Anything else in them is corruption, and so is a value of an
  enumeration that has no name, unless the enumeration is open.
- Times are Unix seconds.
- Ordinals count from 0 to 63 and are shown as 01 to 64.
`

var families = []struct{ name, title string }{
	{"registry", "Registry"},
	{"workflow", "Workflow"},
	{"plan", "Plans"},
	{"content", "Content"},
	{"queue", "Worker Jobs"},
	{"", "Beside the authority"},
}

// page is the generated documentation page.
func (m *model) page() []byte {
	var w writer
	w.f("%s", intro)
	w.f("## Inventory\n")
	m.inventory(&w, "registry", "The registry root, one for an installation:")
	m.inventory(&w, "authority", "The authority root of a Repository:")
	w.f("Index files (.idx) may be missing; they are rebuilt from the records.\n")
	w.f("| payload file | root | holds | grammar |\n|---|---|---|---|")
	for _, p := range m.payloads {
		w.f("| `%s` | %s | %s | `%s` |", p.file, p.root, p.doc, p.grammar)
	}
	w.f("\nA name followed by a length in brackets is that many bytes of UTF-8. A name alone is the rest of the payload.\n")
	for _, f := range families {
		w.f("## %s\n", f.title)
		for _, y := range m.layouts {
			if y.family == f.name && y.chain == nil {
				w.f("### `%s`%s\n", y.file, m.part(y))
				y.page(&w)
			}
		}
		if f.name == "workflow" {
			m.chainPage(&w)
		}
	}
	w.f("## Enumerations\n")
	for _, e := range m.enums {
		w.f("### %s\n", spaced(e.goName))
		w.f("%s\n", sentence(e.doc, e.goName))
		w.f("| value | name | remark |\n|---|---|---|")
		for _, v := range e.values {
			w.f("| %d | `%s` | %s |", v.value, v.name, v.doc)
		}
		if e.open {
			w.f("\nThis enumeration is open.")
		}
		w.f("")
	}
	return []byte(strings.TrimRight(w.String(), "\n") + "\n")
}

// part tells two layouts of one file apart.
func (m *model) part(y *layout) string {
	for _, other := range m.layouts {
		if other != y && other.file == y.file {
			return ", " + y.name
		}
	}
	return ""
}

func (m *model) inventory(w *writer, root, title string) {
	w.f("%s\n", title)
	w.f("| file | kind | family | bytes a record | record |\n|---|---|---|---|---|")
	for _, y := range m.layouts {
		if y.root == root {
			w.f("| `%s` | %s | %s | %d | `%s` |", y.file, y.kind, y.family, y.record.size, y.name)
		}
	}
	w.f("")
}

// sentence drops the Go name from the front of a comment.
func sentence(doc, goName string) string {
	rest, ok := strings.CutPrefix(doc, goName+" ")
	if !ok {
		return doc
	}
	for _, verb := range []string{"is ", "are "} {
		if r, ok := strings.CutPrefix(rest, verb); ok {
			rest = r
			break
		}
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

func (y *layout) page(w *writer) {
	con := ""
	if y.con != "" {
		con = ", size constant `" + y.con + "`"
	}
	w.f("`%s`, %d bytes%s, Go type `record.%s`.\n", y.name, y.record.size, con, y.record.goName)
	w.f("%s\n", sentence(y.doc, y.record.goName))
	y.record.table(w)
	for _, f := range y.record.fields {
		if f.bits != nil {
			f.bitsTable(w)
		}
	}
}

func (r *record) table(w *writer) {
	w.f("| offset | width | type | field | meaning |\n|---|---|---|---|---|")
	for _, f := range r.fields {
		w.f("| %d | %d | %s | `%s` | %s |", f.offset, f.width, f.typ(), f.name, f.meaning())
	}
	w.f("")
}

func (f *field) meaning() string {
	text := f.doc
	switch {
	case f.goType == "Ref" && f.target != "":
		text += "; index + 1 in `" + f.target + "`"
	case f.target != "" && f.width == 8:
		text += "; offset in `" + f.target + "`"
	case f.target != "":
		text += "; index in `" + f.target + "`"
	case f.enum != nil:
		text += "; see " + link(f.enum)
	}
	return text
}

func link(e *enum) string {
	title := spaced(e.goName)
	return fmt.Sprintf("[%s](#%s)", title, strings.ToLower(strings.ReplaceAll(title, " ", "-")))
}

func (f *field) bitsTable(w *writer) {
	rest := ", the others being reserved"
	if f.bits.mask() == 1<<(8*f.bits.width)-1 {
		rest = ""
	}
	w.f("Bits of `%s`%s:\n", f.name, rest)
	w.f("| bits | name | values |\n|---|---|---|")
	for _, b := range f.bits.bits {
		pos := itoa(b.lo)
		if b.hi > b.lo {
			pos += ".." + itoa(b.hi)
		}
		values := "flag"
		switch {
		case b.enum != nil:
			values = link(b.enum)
		case b.hi > b.lo:
			values = "number"
		}
		w.f("| %s | `%s` | %s |", pos, b.name, values)
	}
	w.f("")
}

// chainPage shows the two forms of chain rows once, and the names that the
// fields have in each file.
func (m *model) chainPage(w *writer) {
	w.f("### Chains\n")
	w.f("Row *i* of a chain file belongs to record *i* of its owner and heads the list of the members that the owner has.")
	w.f("Chain rows are authority, but they can be rebuilt from the members.\n")
	for _, r := range m.records {
		if r.chains == nil {
			continue
		}
		w.f("#### %s\n", spaced(r.goName))
		w.f("%s Go type `record.%s`.\n", sentence(r.doc, r.goName), r.goName)
		r.table(w)
		w.f("| file | record | owner | members | fields |\n|---|---|---|---|---|")
		for _, y := range m.layouts {
			if y.record == r {
				w.f("| `%s` | `%s` | `%s` | `%s` | `%s` |", y.file, y.name, y.chain["owner"], y.chain["member"], strings.Join(y.names, "`, `"))
			}
		}
		w.f("")
	}
}
