package convert_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority/convert"
)

// TestDocumentationOfRows compares the tables of docs/conversion.md with the types
// that rows are decoded into: names, in their order, and which may be absent.
func TestDocumentationOfRows(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/conversion.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	table := ""
	heading, row := regexp.MustCompile("^### `([a-z_]+)`$"), regexp.MustCompile("^\\| `([a-z_]+\\??)` \\| ")
	for _, line := range strings.Split(string(text), "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			table = m[1]
			continue
		}
		if line == "" && len(said[table]) > 0 || strings.HasPrefix(line, "## ") {
			table = "" // what follows is another table
		}
		if m := row.FindStringSubmatch(line); m != nil && table != "" {
			said[table] = append(said[table], m[1])
		}
	}
	for name, typ := range convert.RowTypes() {
		var want []string
		for i := range typ.NumField() {
			member, option, _ := strings.Cut(typ.Field(i).Tag.Get("row"), ",")
			if option == "optional" {
				member += "?"
			}
			want = append(want, member)
		}
		if got := strings.Join(said[name], " "); got != strings.Join(want, " ") {
			t.Errorf("table %s has\n%s\nwant\n%s", name, got, strings.Join(want, " "))
		}
		delete(said, name)
	}
	for name := range said {
		t.Errorf("table %s describes nothing", name)
	}
	for _, g := range convert.Gates() {
		if !strings.Contains(string(text), "| `"+string(g)+"` |") {
			t.Errorf("the gate %s is not described", g)
		}
	}
}
