package suite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/gate/suite"
)

// bundle is where a test's suites run.
type bundle struct {
	opt suite.RunOptions
}

func setup(t *testing.T, suites ...suite.Suite) *bundle {
	t.Helper()
	b := &bundle{opt: suite.RunOptions{Dir: t.TempDir(), LogDir: t.TempDir()}}
	for _, s := range suites {
		if s.Timeout == 0 {
			s.Timeout = time.Minute
		}
		if s.Kind == "" {
			s.Kind = suite.KindTests
		}
		b.opt.Suites = append(b.opt.Suites, suite.Planned{Suite: s})
	}
	return b
}

func shell(id, line string) suite.Suite {
	return suite.Suite{ID: id, Run: suite.Command{Shell: line}, Blocking: true}
}

func TestRunStatuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		suite    suite.Suite
		status   suite.Status
		exit     int
		signal   string
		timedOut bool
		reason   string
		tail     []string
	}{
		{name: "pass", suite: shell("a", "echo one; echo two >&2"), status: suite.StatusPass, tail: []string{"one", "two"}},
		{name: "fail", suite: shell("a", "echo '\033[31mno\033[0m'; exit 3"), status: suite.StatusFail, exit: 3, reason: "exit code 3", tail: []string{"no"}},
		{name: "signal", suite: shell("a", "kill -SEGV $$"), status: suite.StatusFail, exit: -1, signal: "SIGSEGV", reason: "ended by SIGSEGV"},
		{
			name: "not found by the shell", suite: shell("a", "exec 2>/dev/null; no-such-program-here"),
			status: suite.StatusError, exit: 127, reason: "exit code 127: a command was not found",
		},
		{
			name: "not executable", suite: shell("a", "exec 2>/dev/null; /"),
			status: suite.StatusError, exit: 126, reason: "exit code 126: a command can't be executed",
		},
		{
			name: "not found without a shell", suite: suite.Suite{ID: "a", Run: suite.Command{Args: []string{"no-such-program-here"}}},
			status: suite.StatusError, exit: -1,
			reason: `can't start the command "no-such-program-here": executable file not found in $PATH`,
			tail:   []string{`writ: can't start the command "no-such-program-here": executable file not found in $PATH`},
		},
		{
			name: "too slow", suite: suite.Suite{ID: "a", Run: suite.Command{Shell: "echo begun; sleep 1000"}, Timeout: 300 * time.Millisecond},
			status: suite.StatusError, exit: -1, signal: "SIGTERM", timedOut: true,
			reason: "not finished within its time limit of 300ms", tail: []string{"begun"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tc.suite)
			now := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600))
			b.opt.Now = func() time.Time { return now }
			results, err := suite.Run(t.Context(), b.opt)
			if err != nil || len(results) != 1 {
				t.Fatalf("%v, %v", results, err)
			}
			got := results[0]
			if got.Elapsed < 0 || got.Elapsed%time.Microsecond != 0 {
				t.Errorf("elapsed %v", got.Elapsed)
			}
			got.Elapsed = 0
			want := suite.Result{
				ID: "a", Kind: suite.KindTests, Blocking: tc.suite.Blocking, Status: tc.status, Reason: tc.reason,
				ExitCode: tc.exit, Signal: tc.signal, TimedOut: tc.timedOut, Tail: tc.tail,
				StartedAt: now.UTC().Truncate(time.Microsecond), Log: filepath.Join(b.opt.LogDir, "a.log"),
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestRunOrderAndLogs(t *testing.T) {
	t.Parallel()
	b := setup(t, shell("b", "cat shared; exit 1"), shell("a", "echo from a > shared; echo '\033[1mbold'"), shell("c", "cat shared"))
	b.opt.Suites[2].Added, b.opt.Suites[1].Detected = true, true
	results, err := suite.Run(t.Context(), b.opt)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range results {
		order = append(order, fmt.Sprint(r.ID, " ", r.Status, " ", r.Added, " ", r.Detected))
	}
	if got, want := strings.Join(order, ", "), "a pass false true, b fail false false, c pass true false"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, want := range map[string]string{"a.log": "\x1b[1mbold\n", "b.log": "from a\n", "c.log": "from a\n"} {
		path := filepath.Join(b.opt.LogDir, name)
		data, err := os.ReadFile(path)
		if err != nil || string(data) != want {
			t.Errorf("%s: %q, %v, want %q", name, data, err, want)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, st.Mode(), err)
		}
	}
	if _, err := suite.Run(t.Context(), b.opt); err != nil {
		t.Errorf("a second run into the same logs: %v", err)
	}
}

// Not parallel: it sets variables of this process.
func TestRunEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"GIT_DIR": "/elsewhere", "GIT_INDEX_FILE": "x", "WRIT_DATA": "/data", "WRIT_SUITE": "outer", "WRITER": "kept",
		"TMPDIR": t.TempDir(), "CI": "no", "FROM_PARENT": "p",
	} {
		t.Setenv(name, value)
	}
	s := shell("unit", `echo "$GIT_DIR|$GIT_INDEX_FILE|$WRIT_DATA|$WRITER|$WRIT|$WRIT_SUITE|$CI|$FROM_PARENT|$A|$B|$TMPDIR|$PWD"`)
	s.Env = map[string]string{"A": "suite"}
	b := setup(t, s)
	b.opt.Env = []string{"A=extra", "B=extra"}
	results, err := suite.Run(t.Context(), b.opt)
	if err != nil {
		t.Fatal(err)
	}
	want := "|||kept|1|unit|true|p|suite|extra|" + os.Getenv("TMPDIR") + "|" + b.opt.Dir
	if got := strings.Join(results[0].Tail, "\n"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// fifo makes a named pipe and opens it for reading, so that opening it for
// writing doesn't block.
func fifo(t *testing.T, name string) (string, *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, f
}

func TestRunCancelled(t *testing.T) {
	t.Parallel()
	path, alive := fifo(t, "alive")
	b := setup(t,
		shell("a", "echo fine"),
		shell("b", `exec 9>"$FIFO"; (sleep 1000 & wait) & echo waiting; wait`),
		shell("c", "echo never"))
	b.opt.Env = []string{"FIFO=" + path}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	after := 0
	b.opt.Progress = func(e suite.Event) {
		if ctx.Err() != nil {
			after++
		}
		if e.Suite == "b" && e.LastLine == "waiting" {
			cancel(stop)
		}
		if e.Suite == "c" {
			t.Error("suite c has begun")
		}
	}
	results, err := suite.Run(ctx, b.opt)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if len(results) != 1 || results[0].ID != "a" || results[0].Status != suite.StatusPass {
		t.Errorf("results %+v, want the one that was finished", results)
	}
	alive.SetReadDeadline(time.Now().Add(time.Second)) // must have ended already
	if _, err := io.Copy(io.Discard, alive); err != nil {
		t.Errorf("a process of the suite is still alive: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(b.opt.LogDir, "b.log")); err != nil || string(data) != "waiting\n" {
		t.Errorf("log of the cancelled suite: %q, %v", data, err)
	}
}

func TestRunProgress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	b := setup(t, shell("a", `printf '\033[2K50%%\r'; read word < "$FIFO"; echo "$word"; echo`), shell("b", "exit 1"))
	b.opt.Env = []string{"FIFO=" + path}
	var events []string
	b.opt.Progress = func(e suite.Event) {
		line := fmt.Sprintf("%d/%d %s %s %q", e.Number, e.Count, e.Suite, e.State, e.LastLine)
		if e.Result != nil {
			line += " " + string(e.Result.Status)
			if e.Elapsed != e.Result.Elapsed {
				t.Errorf("elapsed %v in the event, %v in the result", e.Elapsed, e.Result.Elapsed)
			}
		}
		if len(events) == 0 || events[len(events)-1] != line {
			events = append(events, line)
		}
		if e.State == suite.StateOutput && e.LastLine == "50%" {
			// The suite waits for this line, so it arrives in the next event.
			if err := os.WriteFile(path, []byte("done\n"), 0); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := suite.Run(t.Context(), b.opt); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(events, "\n")
	want := []string{
		`1/2 a started ""`, `1/2 a output "50%"`, `1/2 a finished "done" pass`, `2/2 b started ""`, `2/2 b finished "" fail`,
	}
	for _, w := range want {
		before, after, ok := strings.Cut(got, w)
		if !ok {
			t.Fatalf("no %s in\n%s", w, got)
		}
		if strings.Contains(before, "finished \"\"") {
			t.Errorf("%s comes too late", w)
		}
		got = after
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*bundle)
		want   string
	}{
		{"no checkout", func(b *bundle) { b.opt.Dir += "/none" }, "no such file or directory"},
		{"checkout is a file", func(b *bundle) {
			b.opt.Dir += "/file"
			if err := os.WriteFile(b.opt.Dir, nil, 0o600); err != nil {
				panic(err)
			}
		}, "is not a directory"},
		{"no folder for logs", func(b *bundle) { b.opt.LogDir += "/none" }, "no such file or directory"},
		{"id that leaves the folder", func(b *bundle) { b.opt.Suites[0].ID = "../a" }, `"../a" is no suite id`},
		{"id twice", func(b *bundle) { b.opt.Suites = append(b.opt.Suites, b.opt.Suites[0]) }, "the id a is there twice"},
		{"log can't be made", func(b *bundle) {
			if err := os.MkdirAll(filepath.Join(b.opt.LogDir, "a.log", "x"), 0o700); err != nil {
				panic(err)
			}
		}, "suite a: remove"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, shell("a", "touch ran"))
			dir := b.opt.Dir
			tc.change(b)
			results, err := suite.Run(t.Context(), b.opt)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(results) != 0 {
				t.Errorf("%v, %v, want %s", results, err, tc.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("it ran")
			}
		})
	}
}

func TestRunNothing(t *testing.T) {
	t.Parallel()
	results, err := suite.Run(t.Context(), setup(t).opt)
	if err != nil || results == nil || len(results) != 0 {
		t.Errorf("%v, %v", results, err)
	}
}
