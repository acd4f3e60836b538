package main

import "strings"

// model is what the declarations say, resolved and in inventory order.
type model struct {
	records  []*record // in order of declaration
	layouts  []*layout // in inventory order
	bits     []*bitsType
	enums    []*enum
	arrays   map[string]int // named byte arrays
	payloads []payload
	checked  map[string]bool // types with a Check method
}

// record is one Go type with a bindb:record directive.
type record struct {
	goName string
	size   int
	doc    string
	fields []*field
	chains []directive
	attrs  directive
}

type field struct {
	goName string // empty for a reserved field
	name   string
	goType string
	width  int
	array  bool
	offset int
	doc    string
	target string
	show   string
	enum   *enum
	bits   *bitsType
}

// layout is a record in one file.
type layout struct {
	varName                             string
	name, file, root, family, kind, con string
	doc                                 string
	record                              *record
	names                               []string
	chain                               directive
}

type bitsType struct {
	goName string
	width  int
	doc    string
	bits   []bit
}

type bit struct {
	name   string
	goName string
	lo, hi int
	enum   *enum
}

func (b bit) mask() uint64 { return (1<<(b.hi-b.lo+1) - 1) << b.lo }

func (b *bitsType) mask() uint64 {
	var m uint64
	for _, x := range b.bits {
		m |= x.mask()
	}
	return m
}

type enum struct {
	goName string
	width  int
	open   bool
	doc    string
	values []enumValue
}

type enumValue struct {
	goName string
	value  uint64
	name   string
	doc    string
}

// covers says whether every value of n bits has a name.
func (e *enum) covers(bits int) bool { return bits < 16 && len(e.values) == 1<<bits }

type payload struct{ file, family, root, doc, grammar string }

// directive is the attributes of one directive comment.
type directive map[string]string

var initialisms = map[string]string{"ai": "AI", "ci": "CI", "id": "ID"}

// camel turns a name of the format into a Go name.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		if up, ok := initialisms[part]; ok {
			b.WriteString(up)
		} else {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// prose joins the lines of a comment.
func prose(text string) string { return strings.Join(strings.Fields(text), " ") }

func (f *field) typ() string {
	switch {
	case f.array:
		return "u8[" + itoa(f.width) + "]"
	default:
		return "u" + itoa(8*f.width)
	}
}
