package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/writ-authority/writ/nox"
)

// TestSessionOnATerminal types keys: lines are edited, and come back from the history.
func TestSessionOnATerminal(t *testing.T) {
	t.Parallel()
	const up, left, erase, end = "\x1b[A", "\x1b[D", "\x7f", "\x04"
	var out bytes.Buffer
	keys := "1 + 1\r" +
		up + erase + "2\r" + // 1 + 2
		"[3 5]" + left + erase + "4\r" + // [3 4]
		"let x = [7\r~mem]\r" + // goes on in the next line
		"x" + end + "\r" +
		end
	r := &repl{
		console: term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(keys), &out}, ""),
		mem:   nox.Atom(9),
		steps: 100,
	}
	if err := r.loop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n2    (4 steps)", "\n3    (4 steps)", "\n[3 4]    (4 steps)", "\nx = [7 9]    (4 steps)", "\n[7 9]    (1 step)"} {
		if !strings.Contains(strings.ReplaceAll(out.String(), "\r\n", "\n"), want) {
			t.Errorf("the session does not show %q:\n%q", want, out.String())
		}
	}
}
