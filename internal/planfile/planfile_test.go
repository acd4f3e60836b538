package planfile_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/planfile"
)

const (
	none = record.PlanItemStateNone
	open = record.PlanItemStateOpen
	done = record.PlanItemStateDone
)

func item(line uint32, state record.PlanItemState, ref, text string, headings ...string) authority.ItemSpec {
	return authority.ItemSpec{Ref: ref, Text: text, Headings: headings, State: state, Taskable: state == open, Line: line}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		title   string
		summary string
		items   []authority.ItemSpec
	}{
		"the whole form": {
			text: "# Faster uploads #\n\nUploads fail\non slow links.\n\n- a list\n\n## Client\n\n- [ ] Retry a part {#retry}\n" +
				"- [x] Show the progress\n\n### Later\n\n* [X] Measure   {#m.1}\n\n## Server\n1. [ ] Take parts\n2. no item\n",
			title: "Faster uploads", summary: "Uploads fail\non slow links.\n\n- a list",
			items: []authority.ItemSpec{
				item(10, open, "retry", "Retry a part", "Client"),
				item(11, done, "Show the progress", "Show the progress", "Client"),
				item(15, done, "m.1", "Measure", "Client", "Later"),
				item(18, open, "Take parts", "Take parts", "Server"),
			},
		},
		"lines that go on": {
			text:  "# T\n- [ ] One\n  two\n\tthree {#x}\n- [ ] Four\nnot part of it\n  - [ ] Five\n    six\n  seven\n\n  eight",
			title: "T",
			items: []authority.ItemSpec{item(2, open, "x", "One two three"), item(5, open, "Four", "Four"), item(7, open, "Five six", "Five six")},
		},
		"a name without a box":       {text: "# T\n- Item {#a}\n- Other\n", title: "T", items: []authority.ItemSpec{item(2, none, "a", "Item")}},
		"windows":                    {text: "\ufeff# T\r\n\r\nSum\r\n- [ ] A\r\n", title: "T", summary: "Sum", items: []authority.ItemSpec{item(4, open, "A", "A")}},
		"code and comments":          {text: "# T\n```md\n- [ ] No\n# No\n```\n~~~~\n- [ ] No\n~~~\n~~~~~\n<!-- - [ ] No\n- [ ] No -->\n<!-- x -->\n- [ ] Yes\n", title: "T", items: []authority.ItemSpec{item(13, open, "Yes", "Yes")}},
		"a fence that never ends":    {text: "# T\n- [ ] A\n```\n- [ ] B\n", title: "T", items: []authority.ItemSpec{item(2, open, "A", "A")}},
		"headings left out":          {text: "# T\n#### Deep\n- [ ] A\n## Up\n- [ ] B\n# Again\n- [ ] C\n", title: "T", items: []authority.ItemSpec{item(3, open, "A", "A", "Deep"), item(5, open, "B", "B", "Up"), item(7, open, "C", "C", "Again")}},
		"text before the title":      {text: "Words.\n# T\nSum.\n", title: "T", summary: "Sum."},
		"names compared exactly":     {text: "# T\n- [ ] A {#x}\n- [ ] B {#X}\n", title: "T", items: []authority.ItemSpec{item(2, open, "x", "A"), item(3, open, "X", "B")}},
		"braces in the middle":       {text: "# T\n- [ ] A {#x} b\n", title: "T", items: []authority.ItemSpec{item(2, open, "A {#x} b", "A {#x} b")}},
		"a box that is none":         {text: "# T\n- [y] A\n- []\n- [ ]\n", title: "T", summary: "- [y] A\n- []\n- [ ]"},
		"a heading without a space":  {text: "#No\n# T\n#No\n", title: "T", summary: "#No"},
		"the same text, two names":   {text: "# T\n- [ ] A {#x}\n- [ ] A\n", title: "T", items: []authority.ItemSpec{item(2, open, "x", "A"), item(3, open, "A", "A")}},
		"an empty heading is no one": {text: "# T\n## A\n##\n- [ ] B\n", title: "T", items: []authority.ItemSpec{item(4, open, "B", "B", "A")}},
	} {
		p, err := planfile.Parse("docs/PLAN.md", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Title != c.title || p.Revision.Summary != c.summary || p.Revision.ArtifactHeading != c.title || p.Revision.ArtifactPath != "docs/PLAN.md" {
			t.Errorf("%s: %+v", name, p)
		}
		if !reflect.DeepEqual(p.Revision.Items, c.items) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, p.Revision.Items, c.items)
		}
		sum := sha256.Sum256([]byte(c.text))
		if want := fmt.Sprintf("BLB-%x", sum[:10]); p.Revision.ArtifactBlob != want {
			t.Errorf("%s: blob %s, want %s", name, p.Revision.ArtifactBlob, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "no title"},
		"no title":       {"## Two\n- [ ] A\n", "no title"},
		"empty title":    {"# #\n", "line 1: the title is empty"},
		"the same name":  {"# T\n- [ ] A {#x}\n- [ ] B {#x}\n", "line 3: the item of line 2"},
		"the same text":  {"# T\n- [ ] A\n\n## H\n- [ ] A\n", "line 5: the item of line 2"},
		"no text":        {"# T\n- [ ] {#x}\n", "line 2: the item has no text"},
		"not UTF-8":      {"# T\xff\n", "not UTF-8"},
		"far too long":   {"# T\n" + strings.Repeat("x", planfile.MaxFile), "at most"},
		"name as a text": {"# T\n- [ ] A {#B}\n- [ ] B\n", "line 3: the item of line 2"},
	} {
		p, err := planfile.Parse("x", []byte(c.text))
		if !errors.Is(err, planfile.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want an error with %q", name, p, err, c.want)
		}
	}
}

// FuzzParse: whatever is parsed can be recorded.
func FuzzParse(f *testing.F) {
	f.Add("# T\n\nSum\n\n## H\n- [ ] A {#a}\n  b\n1. [x] C\n```\nx\n```\n<!--\n-->\n")
	f.Add("# T\r\n* [ ] \t{#x}\n")
	f.Add("#\t#\n####### \n- - [ ] x")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := planfile.Parse("x", []byte(text))
		if err != nil {
			if !errors.Is(err, planfile.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if p.Title == "" {
			t.Fatal("no title")
		}
		seen := map[string]bool{}
		last := uint32(0)
		for _, it := range p.Revision.Items {
			if it.Ref == "" || it.Text == "" || seen[it.Ref] || it.Line <= last || strings.ContainsAny(it.Text, "\n") {
				t.Fatalf("item %+v", it)
			}
			seen[it.Ref], last = true, it.Line
		}
	})
}
