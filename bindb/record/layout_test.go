package record_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// facts reads the lines of a file of testdata, without comments.
func facts(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimRight(line, "\n"); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Sizes and offsets of every record are those that the format fixes, and no
// record is missing. The helpers that only this package declares are left out.
func TestLayoutsAreTheFormat(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	name := ""
	for _, line := range facts(t, "layout.txt") {
		if strings.HasPrefix(line, "record ") {
			name = strings.Fields(line)[1]
		}
		want[name] = append(want[name], line)
	}
	seen := 0
	for _, l := range record.Layouts() {
		switch l.Name {
		case "RepositoryUpdateJournal", "AppendIntent", "LeaseFileHeader", "LeaseFileEntry":
			continue
		}
		seen++
		got := []string{fmt.Sprintf("record %s %s %s %s %s %d %s", l.Name, l.File, l.Root, orDash(l.Family), l.Kind, l.Size, orDash(l.SizeConstant))}
		for _, f := range l.Fields {
			got = append(got, fmt.Sprintf("  %s %s %d %d", f.Name, f.Type, f.Offset, f.Width))
		}
		if !slices.Equal(got, want[l.Name]) {
			t.Errorf("%s:\n got %s\nwant %s", l.Name, strings.Join(got, "\n     "), strings.Join(want[l.Name], "\n     "))
		}
		if l.Doc == "" {
			t.Errorf("%s has no description", l.Name)
		}
	}
	if seen != len(want) {
		t.Errorf("%d layouts, the format has %d", seen, len(want))
	}
}

func TestInventoryIsTheFormat(t *testing.T) {
	t.Parallel()
	var got []string
	add := func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
	for _, p := range record.PayloadFiles() {
		add("payload %s %s %s", p.File, p.Root, p.Family)
	}
	for _, c := range record.Chains() {
		form := "inventory"
		if c.Ordinal {
			form = "ordinal"
		}
		add("chain %s %s %s %s", c.File, c.Owner, c.Member, form)
	}
	enums := map[string]*record.Enum{}
	bits := map[string][]record.Bit{}
	for _, l := range record.Layouts() {
		for _, f := range l.Fields {
			if f.Enum != nil {
				enums[f.Enum.Name] = f.Enum
			}
			for _, b := range f.Bits {
				if b.Enum != nil {
					enums[b.Enum.Name] = b.Enum
				}
			}
			if f.Bits != nil {
				bits[f.Name] = f.Bits
			}
		}
	}
	for name, e := range enums {
		for _, v := range e.Values {
			add("enum %s %d %s", name, v.Value, v.Name)
		}
	}
	for name, bs := range bits {
		for _, b := range bs {
			add("bits %s %d %d %s", name, b.Lo, b.Hi, b.Name)
		}
	}
	for _, line := range facts(t, "facts.txt") {
		// Actions and the references of Jobs have their own tests.
		if strings.HasPrefix(line, "enum ReviewAction ") || strings.HasPrefix(line, "job ") {
			continue
		}
		if !slices.Contains(got, line) {
			t.Errorf("not declared: %s", line)
		}
	}
}

func TestFilesOfARoot(t *testing.T) {
	t.Parallel()
	registry, authority := record.Files(record.RootRegistry), record.Files(record.RootAuthority)
	if want := []string{"repository.bin", "repository_payload.bin"}; !slices.Equal(registry, want) {
		t.Errorf("registry: got %v, want %v", registry, want)
	}
	if len(authority) != 40+13 {
		t.Errorf("authority root: %d files, want 40 fixed and 13 payload files", len(authority))
	}
	if n := len(record.IndexFiles(record.RootAuthority)); n != 11 {
		t.Errorf("authority root: %d index files, want 11", n)
	}
	for _, root := range []record.Root{record.RootRegistry, record.RootAuthority} {
		declared := append(record.Files(root), record.IndexFiles(root)...)
		for _, name := range append(record.Forbidden(root), record.Temporaries(root)...) {
			if slices.Contains(declared, name) {
				t.Errorf("%s root: %s is declared and forbidden or temporary", root, name)
			}
		}
		if slices.ContainsFunc(declared, func(s string) bool { return strings.HasSuffix(s, record.ForbiddenSuffix) }) {
			t.Errorf("%s root declares a head file", root)
		}
	}
	if !slices.IsSorted(record.WriteLocks()) {
		t.Errorf("write locks are not in the order in which they are taken: %v", record.WriteLocks())
	}
	if record.Files(record.RootNone) != nil || record.Forbidden(record.RootNone) != nil || record.Temporaries(record.RootNone) != nil {
		t.Error("files outside of a root")
	}
}

func TestFindLayouts(t *testing.T) {
	t.Parallel()
	l, ok := record.ByFile("task_change_index.bin")
	if !ok || l.Fields[0].Name != "latest_change_index_plus1" || l.Fields[0].Target != "change.bin" {
		t.Errorf("task_change_index.bin: got %+v", l)
	}
	for _, file := range []string{"", "worker-leases.bin", "task_payload.bin", "job.bin"} {
		if l, ok := record.ByFile(file); ok {
			t.Errorf("ByFile(%q) found %s", file, l.Name)
		}
	}
	if l, ok := record.ByName("RuntimeLeaseReplicaEntry"); !ok || l != new(record.LeaseReplicaEntry).Layout() {
		t.Error("ByName does not find the lease entry")
	}
	if _, ok := record.ByName("Patchset"); ok {
		t.Error("ByName takes Go names")
	}
	for _, l := range record.Layouts() {
		for _, f := range l.Fields {
			if f.Target == "" {
				continue
			}
			_, fixed := record.ByFile(f.Target)
			payload := slices.ContainsFunc(record.PayloadFiles(), func(p record.PayloadFile) bool { return p.File == f.Target })
			if !fixed && !payload {
				t.Errorf("%s.%s points into %s, which does not exist", l.Name, f.Name, f.Target)
			}
		}
	}
}
