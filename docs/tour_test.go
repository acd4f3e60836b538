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

// tour runs the README's tour in a folder of its own.
type tour struct {
	t   *testing.T
	dir string
	env []string
}

// volatile is what differs from one run of the tour to the next, or from one make
// to another.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`SNP-[0-9A-F]{12}`), "SNP"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "COMMIT"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(` in [0-9.]+m?s$`), " in TIME"},
	{regexp.MustCompile(`\[Makefile:\d+: test\]`), "[test]"},
}

const tourDir = "/tmp/greet"

func (tr *tour) normal(line string) string {
	line = strings.TrimRight(strings.ReplaceAll(line, tr.dir, tourDir), " ")
	for _, v := range volatile {
		line = v.pattern.ReplaceAllString(line, v.with)
	}
	return line
}

func (tr *tour) run(script, dir string) []string {
	tr.t.Helper()
	c := exec.Command("sh", "-c", strings.ReplaceAll(script, tourDir, tr.dir))
	c.Dir, c.Env = dir, tr.env
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState.ExitCode() != 1 {
		tr.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	for i := range lines {
		lines[i] = tr.normal(lines[i])
	}
	return lines
}

// matches reports whether lines are what the README shows, where a line of three
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
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text5, ok := strings.Cut(string(text), "## Five minutes")
	if !ok {
		t.Fatal("the README has no tour")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tour{t: t, dir: filepath.Join(top, "greet")}
	tr.env = tourEnvironment(t, top)
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```(sh|console)\n(.*?)```").FindAllStringSubmatch(text5, -1) {
		switch {
		case block[1] == "sh" && strings.Contains(block[2], tourDir):
			tr.run(block[2], top)
		case block[1] == "console":
			ran += tr.session(block[2])
		}
	}
	if ran < 10 {
		t.Errorf("the tour has %d commands; the test no longer understands the README", ran)
	}
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
			tr.t.Errorf("%s printed\n%s\n\nThe README shows\n%s", command, strings.Join(got, "\n"), strings.Join(want, "\n"))
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
