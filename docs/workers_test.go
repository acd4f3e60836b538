package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestWorkersExample types the commands of the worked example.
func TestWorkersExample(t *testing.T) {
	t.Parallel()
	if ran := takeTour(t, "workers.md", "## An example to follow", "/tmp/shop"); ran < 4 {
		t.Errorf("the example has %d commands; the test no longer understands the document", ran)
	}
}

// TestWorkersNamesEverything compares the tables with what the program has: the
// variables of a command, the lines of the protocol, the references of failures and
// the flags.
func TestWorkersNamesEverything(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	text := read("workers.md")
	for _, x := range []struct {
		file, pattern string
		least         int
		row           *regexp.Regexp // what the document must match for a name
	}{
		{"../worker/command.go", `"((?:WRIT_[A-Z_]+|TRACEPARENT))="\+`, 10, regexp.MustCompile("`NAME`")},
		{"../worker/protocol.go", `(?m)^\tsay\w+ +verb = "([a-z-]+)"$`, 7, regexp.MustCompile("\n\\| `NAME[` ]")},
		{"../worker/protocol.go", `"(writ-worker:[a-z-]+)"`, 3, regexp.MustCompile("`NAME`")},
		{"../internal/cli/worker.go", `f\.\w+Var\([^"]*"([a-z-]+)"`, 11, regexp.MustCompile("`--NAME[` ]")},
	} {
		found := regexp.MustCompile(x.pattern).FindAllStringSubmatch(read(x.file), -1)
		if len(found) < x.least {
			t.Errorf("found %d names in %s; the test no longer understands the file", len(found), x.file)
		}
		for _, m := range found {
			if !regexp.MustCompile(strings.ReplaceAll(x.row.String(), "NAME", regexp.QuoteMeta(m[1]))).MatchString(text) {
				t.Errorf("workers.md does not explain %s", m[1])
			}
		}
	}
}
