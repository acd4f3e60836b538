package suite_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/writ-authority/writ/gate/suite"
)

// The page for users shows valid files and names every flag.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/writ-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	if len(blocks) < 2 {
		t.Errorf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		if _, err := suite.Parse("writ.yaml", []byte(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	flags := strings.Count(string(page), "| `require_") + strings.Count(string(page), "| `docs_only_")
	if want := reflect.TypeFor[suite.PolicyOverrides]().NumField(); flags != want {
		t.Errorf("%d flags are explained, there are %d", flags, want)
	}
	_, err = suite.Parse("writ.yaml", []byte("suites:\n  - id: unit\n    run: make\n    kind: test\n  - id: lint\n    time: 5m\n"))
	for line := range strings.Lines(err.Error()) {
		_, message, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !strings.Contains(string(page), message) {
			t.Errorf("the page doesn't show %q", message)
		}
	}
}
