package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tour runs the commands that a document shows in a folder of its own, which the
// document calls shown.
type tour struct {
	t     *testing.T
	shown string
	dir   string
	env   []string
}

// volatile is what differs from one run of a tour to the next, or from one make to
// another.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`SNP-[0-9A-F]{12}`), "SNP"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "PARTICLE"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "COMMIT"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(` in [0-9.]+m?s$`), " in TIME"},
	{regexp.MustCompile(`\bin \d+ (s|min|h)\b`), "in TIME"},
	{regexp.MustCompile(`\b\d+ (s|min|h) ago\b`), "TIME ago"},
	{regexp.MustCompile(`^\d\d:\d\d:\d\d `), "CLOCK "},
	{regexp.MustCompile(`\[Makefile:\d+: test\]`), "[test]"},
}

func (tr *tour) normal(line string) string {
	line = strings.TrimRight(strings.ReplaceAll(line, tr.dir, tr.shown), " ")
	for _, v := range volatile {
		line = v.pattern.ReplaceAllString(line, v.with)
	}
	return line
}

// run returns the lines that a script prints, without what differs from run to run.
func (tr *tour) run(script, dir string) []string {
	tr.t.Helper()
	lines := tr.lines(script, dir)
	for i := range lines {
		lines[i] = tr.normal(lines[i])
	}
	return lines
}

// lines returns the lines that a script prints.
func (tr *tour) lines(script, dir string) []string {
	tr.t.Helper()
	c := exec.Command("sh", "-c", strings.ReplaceAll(script, tr.shown, tr.dir))
	c.Dir, c.Env = dir, tr.env
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState.ExitCode() != 1 {
		tr.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// matches reports whether lines are what a document shows, where a line of three
// dots stands for any lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] != "..." {
		return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
	}
	for i := range len(got) + 1 {
		if matches(want[1:], got[i:]) {
			return true
		}
	}
	return false
}

// TestTour types what the README tells a reader to type and expects the output
// that it shows.
func TestTour(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("the tour needs make, which is not here")
	}
	if ran := takeTour(t, "../README.md", "## Five minutes", "/tmp/greet"); ran < 10 {
		t.Errorf("the tour has %d commands; the test no longer understands the README", ran)
	}
}

// takeTour types what a document tells a reader to type after a heading, and
// returns how many commands it expected something of. A block of type sh that
// names the folder makes it; blocks of type console show commands with their
// output.
func takeTour(t *testing.T, document, heading, shown string) (ran int) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), heading)
	if !ok {
		t.Fatalf("%s has no heading %s", document, heading)
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tour{t: t, shown: shown, dir: filepath.Join(top, filepath.Base(shown))}
	tr.env = tourEnvironment(t, top)
	for _, block := range regexp.MustCompile("(?s)```(sh|console)\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		switch {
		case block[1] == "sh" && strings.Contains(block[2], shown):
			tr.run(block[2], top)
		case block[1] == "console":
			ran += tr.session(block[2])
		}
	}
	return ran
}

// session runs the commands of one block, each with the output that follows it,
// and returns how many there were.
func (tr *tour) session(block string) int {
	commands := strings.Split("\n"+strings.TrimRight(block, "\n"), "\n$ ")[1:]
	for _, c := range commands {
		command, shown, more := strings.Cut(c, "\n")
		got := tr.run(command, tr.dir)
		if !more {
			continue // it shows no output
		}
		want := strings.Split(shown, "\n")
		for i := range want {
			want[i] = tr.normal(want[i])
		}
		if command == "writ log" {
			// Events of one second are not ordered by time.
			slices.Sort(want)
			slices.Sort(got)
		}
		if !matches(want, got) {
			tr.t.Errorf("%s printed\n%s\n\nshown is\n%s", command, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	return len(commands)
}

// tourEnvironment has a Git user and, first on the path, this program under the
// name writ.
func tourEnvironment(t *testing.T, top string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(top, "bin")
	config := filepath.Join(top, "gitconfig")
	err = os.Mkdir(bin, 0o755)
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "writ"))
	}
	if err == nil {
		err = os.WriteFile(config, []byte("[user]\n\tname = Ada\n\temail = ada@example.org\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "GIT_CONFIG_GLOBAL="+config, "LC_ALL=C",
		fmt.Sprintf("PATH=%s%c%s", bin, os.PathListSeparator, os.Getenv("PATH")))
}
