package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/writ-authority/writ/nox"
)

// typed gives one key with each read, as a person does.
type typed struct{ keys string }

func (k *typed) Read(b []byte) (int, error) {
	if k.keys == "" {
		return 0, io.EOF
	}
	b[0] = k.keys[0]
	k.keys = k.keys[1:]
	return 1, nil
}

// TestSessionOnATerminal types keys: lines are edited, come back from the history, and
// are given up. All of it is typed at once, and key by key.
func TestSessionOnATerminal(t *testing.T) {
	t.Parallel()
	const up, left, erase, giveUp, end = "\x1b[A", "\x1b[D", "\x7f", "\x03", "\x04"
	keys := "1 + 1\r" +
		"\r" + // not worth remembering
		up + erase + "2\r" + // 1 + 2
		"[3 5]" + left + erase + "4\r" + // [3 4]
		"let x = [7\r~mem]\r" + // goes on in the next line
		"nonsense" + left + giveUp +
		"[9\r 9" + giveUp + // of two lines
		"x\r" +
		giveUp + // with nothing to give up
		"host(1) + 1\r" + giveUp + // in place of the reply
		"host(2) + 1\r" + "41\r" +
		"x" + end + "\r" +
		end + "5\r"
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(keys), "key by key": &typed{keys}} {
		var out bytes.Buffer
		r := &repl{console: newEditor(in, &out), mem: nox.Atom(9), steps: 100}
		if err := r.loop(); err != nil {
			t.Fatal(err)
		}
		shown := strings.ReplaceAll(out.String(), "\r\n", "\n")
		for _, want := range []string{
			"\n2    (4 steps)\n", "\n3    (4 steps)\n", "\n[3 4]    (4 steps; 3 nodes, 1 level)\n",
			"\nx = [7 9]    (4 steps; 3 nodes, 1 level)\n",
			"\n[7 9]    (1 step; 3 nodes, 1 level)\n", "\nCtrl-D or :quit ends the session\n",
			"\nhost asks for 1, after 4 steps\n", "\ngiven up; nothing is changed\n", "\n42    (7 steps)\n",
		} {
			i := strings.Index(shown, want)
			if i < 0 {
				t.Errorf("%s, the session does not go on with %q, but\n%q", name, want, shown)
				break
			}
			shown = shown[i+len(want)-1:] // the line feed may begin the next one
		}
		for _, unwanted := range []string{"unknown name", "[9 9]    ", "\n5    "} {
			if strings.Contains(out.String(), unwanted) {
				t.Errorf("%s, the session shows %q", name, unwanted)
			}
		}
	}
}

// TestSessionEndsWithItsContext waits for a line that never comes.
func TestSessionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	in, typing := io.Pipe()
	defer typing.Close()
	ctx, cancel := context.WithCancel(context.Background())
	a := &app{in: in, out: io.Discard}
	c, _, err := a.console(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := &repl{console: c, steps: 100}
	ended := make(chan error)
	go func() { ended <- r.loop() }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the session ends with %v", err)
	}
}

// TestSessionOfLongLines reads lines longer than any buffer.
func TestSessionOfLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 3<<20)
	var out bytes.Buffer
	a := &app{in: strings.NewReader(long + "\n1 + 1\n\"" + long[:8190] + "\"\n2 + 2"), out: &out}
	c, _, err := a.console(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r := &repl{console: c, steps: 100}
	if err := r.loop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the source has more than 8192 bytes", "\n2    (4 steps)\n", "depth limit", "\n4    (4 steps)\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the session does not show %q:\n%.2000q", want, out.String())
		}
	}
}

// TestSessionWithManyNames names more values than a program could look past, one of
// them as deep as a noun can be.
func TestSessionWithManyNames(t *testing.T) {
	t.Parallel()
	var in, out bytes.Buffer
	fmt.Fprintf(&in, "let deep = \"%s\"\n", strings.Repeat("a", 110))
	for i := range 100 {
		fmt.Fprintf(&in, "let name%d = %d\n", i, i)
	}
	fmt.Fprint(&in, "{ let x = name0; x + name99 } + ~mem\nhead(deep)\nname98 + nam99\n")
	a := &app{in: &in, out: &out}
	c, _, err := a.console(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r := &repl{console: c, mem: nox.Atom(7), steps: 100}
	if err := r.loop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n106    (", "\n97    (", "unknown name nam99; did you mean name99?"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the session does not show %q:\n%s", want, out.String())
		}
	}
}
