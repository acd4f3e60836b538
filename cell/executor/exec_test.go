package executor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/nox"
)

// shell is an Exec that may run a shell and programs that are not there.
func shell(t *testing.T, o ExecOptions) *Registry {
	t.Helper()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Commands = map[string]string{
		"sh": "/bin/sh", "missing": filepath.Join(dir, "missing"), "plain": plain, "dir": dir,
	}
	e, err := NewExec(o)
	if err != nil {
		t.Fatal(err)
	}
	return NewRegistry(map[string]Adapter{"exec": e})
}

// script is the request for a shell script.
func script(t *testing.T, lines string) cell.Request {
	t.Helper()
	r := host(t, `["exec", "sh", "-c", 0]`)
	arguments := nox.Pair(list([]byte(lines)), nox.Atom(0))
	for _, s := range []string{"-c", "sh", "exec"} {
		arguments = nox.Pair(list([]byte(s)), arguments)
	}
	r.Arguments = arguments
	return r
}

func TestExec(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	g := shell(t, ExecOptions{Env: []string{"GREETING=hello", "WRIT_CELL=mine"}, Dir: t.TempDir(), Stderr: &log})
	reply := mustDo(t, g, script(t, `printf '%s %s %s %s\377' "$GREETING" "$WRIT_ATTEMPT" "$WRIT_OPERATION" "$WRIT_CELL"; echo oops >&2; cat; exit 3`))
	if reply.Head().Value() != 3 {
		t.Errorf("status %s", reply.Head())
	}
	want := "hello " + cell.Particle{3}.String() + " " + cell.Particle{2}.String() + " " + cell.Particle{1}.String() + "\xff"
	if n, out := bytesOf(t, reply.Tail().Head()); n != uint64(len(want)) || out != want {
		t.Errorf("output of %d bytes: %q", n, out)
	}
	if n, errs := bytesOf(t, reply.Tail().Tail()); n != 5 || errs != "oops\n" || log.String() != "oops\n" {
		t.Errorf("errors of %d bytes: %q; log %q", n, errs, log.String())
	}
}

func TestExecRefuses(t *testing.T) {
	t.Parallel()
	g := shell(t, ExecOptions{})
	for _, x := range []struct{ request, want string }{
		{`["exec", 0]`, "the name of a command is missing"},
		{`["exec", 5]`, "the list of texts ends with 5"},
		{`["exec", "sh"]`, "text 1 of the list is not a text"},
		{`["exec", "sh", ["a", 0], 0]`, "text 2 of the list is not a text, whose members are bytes: member 0 is a pair"},
		{`["exec", "rm", "-rf", 0]`, `exec: the command "rm" is not allowed; allowed are: "dir", "missing", "plain", "sh"`},
		{`["exec", "/bin/sh", 0]`, "is not allowed"},
		{`["exec", [115, 104, 0, 0], 0]`, `"sh\x00" is not allowed`},
		{`["exec", "sh", "-c", [97, 0, 97, 0], 0]`, "argument 2 has a zero byte"},
		{`["exec", "missing", 0]`, "nothing has run"},
		{`["exec", "plain", 0]`, "nothing has run"},
		{`["exec", "dir", 0]`, "nothing has run"},
	} {
		if reason := mustFail(t, g, host(t, x.request)); !strings.Contains(reason, x.want) {
			t.Errorf("%s: %q does not say %q", x.request, reason, x.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := g.Do(ctx, host(t, `["exec", "sh", 0]`)); err != nil || got.Outcome != cell.OutcomeFailed {
		t.Errorf("after the end: %v %v", got.Outcome, err)
	}
	if got, err := g.Find(t.Context(), host(t, `["exec", "sh", 0]`)); err == nil || got.Outcome != cell.OutcomeUnknown {
		t.Errorf("find: %v %v", got.Outcome, err)
	}
	for _, o := range []ExecOptions{
		{Commands: map[string]string{"sh": "sh"}},
		{Commands: map[string]string{"sh": "./sh"}},
		{Commands: map[string]string{"": "/bin/sh"}},
		{Commands: map[string]string{"sh": "/bin/s\x00h"}},
		{Dir: "here"},
		{Timeout: -1},
	} {
		if _, err := NewExec(o); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	none, err := NewExec(ExecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if reason := mustFail(t, none, cell.Request{Arguments: noun(t, `["sh", 0]`)}); !strings.Contains(reason, "allowed are: none") {
		t.Errorf("reason %q", reason)
	}
}

// TestExecUnknown has commands that don't exit by themselves.
func TestExecUnknown(t *testing.T) {
	t.Parallel()
	g := shell(t, ExecOptions{Timeout: 300 * time.Millisecond})
	unknown := func(ctx context.Context, lines, want string) {
		t.Helper()
		got, err := g.Do(ctx, script(t, lines))
		if got.Outcome != cell.OutcomeUnknown || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v %v, want unknown: %s", lines, got.Outcome, err, want)
		}
	}
	unknown(t.Context(), `kill -9 $$`, "ended by SIGKILL")
	unknown(t.Context(), `sleep 60 & exec sleep 60`, "ended after 300ms")
	// It answers the end of its time with success, which nobody believes.
	unknown(t.Context(), `trap 'exit 0' TERM; while :; do sleep 0.05; done`, "ended after 300ms")

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	slow, err := NewExec(ExecOptions{
		Commands: map[string]string{"sh": "/bin/sh"},
		Stderr:   begun(func() { cancel(errors.New("the program stops")) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	g = NewRegistry(map[string]Adapter{"exec": slow})
	unknown(ctx, `echo begun >&2; exec sleep 60`, "the program stops")
}

// begun is called when something is written.
type begun func()

func (b begun) Write(p []byte) (int, error) {
	b()
	return 0, io.ErrClosedPipe // which changes nothing
}

// TestExecLeavesNothing has commands whose descendants would hold their output for a
// minute.
func TestExecLeavesNothing(t *testing.T) {
	t.Parallel()
	g := shell(t, ExecOptions{})
	lines := []string{`sleep 60 & echo done`}
	if runtime.GOOS == "linux" {
		lines = append(lines, `setsid sleep 60 & echo done`)
	}
	for _, line := range lines {
		start := time.Now()
		reply := mustDo(t, g, script(t, line))
		if _, out := bytesOf(t, reply.Tail().Head()); out != "done\n" || time.Since(start) > 30*time.Second {
			t.Errorf("%s: %q after %v", line, out, time.Since(start))
		}
	}
}

func TestExecHugeOutput(t *testing.T) {
	t.Parallel()
	g := shell(t, ExecOptions{})
	reply := mustDo(t, g, script(t, `head -c 20000000 /dev/zero; head -c 3000 /dev/zero >&2`))
	if n, out := bytesOf(t, reply.Tail().Head()); n != 20_000_000 || out != strings.Repeat("\x00", MaxBytes) {
		t.Errorf("output of %d bytes, %d kept", n, len(out))
	}
	if n, errs := bytesOf(t, reply.Tail().Tail()); n != 3000 || len(errs) != MaxBytes {
		t.Errorf("errors of %d bytes, %d kept", n, len(errs))
	}
}
