package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/writ-authority/writ/rune"
)

// TestLowerPrintsTheDeepestFormula lowers the string that fills a source.
func TestLowerPrintsTheDeepestFormula(t *testing.T) {
	t.Parallel()
	source := `"` + strings.Repeat("a", rune.MaxSource-2) + `"`
	var out, errs bytes.Buffer
	if code := Main([]string{"rune", "lower", "-"}, strings.NewReader(source), &out, &errs); code != 0 {
		t.Fatalf("ends with %d: %s", code, errs.String())
	}
	if got := strings.Count(out.String(), "[97 "); got != rune.MaxSource-2 {
		t.Errorf("%d letters are printed of %d: %.200s", got, rune.MaxSource-2, out.String())
	}
}
