package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// names are the particles of a page, with those that stand for them in this run: each
// cell and each input has its own.
type names map[string]string

var (
	particle = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	prefix   = regexp.MustCompile(`\b[0-9a-f]{8,64}\b`)
)

// learn takes the particles of a line that a page shows, and of the one that was
// printed. A particle that stands for another one than before is wrong.
func (n names) learn(t *testing.T, shown, printed string) {
	t.Helper()
	is := particle.FindAllString(printed, -1)
	for i, s := range particle.FindAllString(shown, -1) {
		if old, known := n[s]; known && old != is[i] {
			t.Errorf("%s stood for %s, and now for %s", s, old, is[i])
		}
		n[s] = is[i]
	}
}

// here replaces the particles of a command, or their beginnings, by those of this run.
func (n names) here(command string) string {
	return prefix.ReplaceAllStringFunc(command, func(word string) string {
		for shown, printed := range n {
			if strings.HasPrefix(shown, word) {
				return printed[:len(word)]
			}
		}
		return word
	})
}

// TestCellsExample types the commands of cells.md.
func TestCellsExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("cells.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tour{t: t, shown: "/tmp/gate", dir: filepath.Join(top, "gate")}
	tr.env = tourEnvironment(t, top)
	known, ran := names{}, 0
	for _, block := range regexp.MustCompile("(?s)```(sh|console)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if block[1] == "sh" {
			tr.run(block[2], top)
			continue
		}
		for _, c := range strings.Split("\n"+strings.TrimRight(block[2], "\n"), "\n$ ")[1:] {
			command, shown, more := strings.Cut(c, "\n")
			got := tr.lines(known.here(command), tr.dir)
			ran++
			want := []string{""}
			if more {
				want = strings.Split(shown, "\n")
			}
			normal := func(lines []string) []string {
				out := make([]string, len(lines))
				for i, l := range lines {
					out[i] = tr.normal(l)
				}
				if strings.HasPrefix(command, "writ cell list") || strings.HasPrefix(command, "writ cell replay") {
					slices.Sort(out) // the order is that of the particles
				}
				return out
			}
			if !slices.Equal(normal(want), normal(got)) {
				t.Fatalf("%s printed\n%s\n\nshown is\n%s", command, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for i := range want {
				known.learn(t, want[i], got[i])
			}
		}
	}
	if ran < 40 {
		t.Errorf("the page has %d commands; the test no longer understands it", ran)
	}
}
