package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// helperEnv makes the test binary a worker that a test can stop.
const helperEnv = "WORKER_TEST_HELPER"

func TestMain(m *testing.M) {
	if script := os.Getenv(helperEnv); script != "" {
		stoppable(script)
		return
	}
	os.Exit(m.Run())
}

// stoppable runs a worker with one job, whose command is the script, and an
// authority of its own. It prints the events and, at the end, what was called.
func stoppable(script string) {
	a := newAuthority(steadyClock)
	a.submit(1)
	err := Run(context.Background(), a, Config{Kind: "repository.build", Lease: 1500 * time.Millisecond, Once: true,
		Handler: &Command{Args: []string{"sh", "-c", script}, Grace: patience},
		Events:  func(e Event) { fmt.Println("event", e.Kind, e.Err) }})
	fmt.Println("calls", a.seen(), err)
}

// buffer may be written to and read from at the same time. It tells when it has a
// text.
type buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	want string
	seen chan struct{}
}

func bufferFor(want string) *buffer { return &buffer{want: want, seen: make(chan struct{})} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := strings.Contains(b.b.String(), b.want)
	b.b.Write(p)
	if !had && strings.Contains(b.b.String(), b.want) {
		close(b.seen)
	}
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// await waits until the buffer has its text.
func (b *buffer) await(t *testing.T) {
	t.Helper()
	select {
	case <-b.seen:
	case <-time.After(patience):
		t.Fatalf("%q did not appear in %q", b.want, b.String())
	}
}

// fifo makes a named pipe and opens its reading end. ended fails unless every
// process that has the other end is gone, or goes soon.
func fifo(t *testing.T) (path string, ended func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, func() {
		t.Helper()
		f.SetReadDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Fatalf("a process of the command is still alive: %v", err)
		}
	}
}

// floor is a worker with a command and one job.
type floor struct {
	*authority
	journal
	job *job
	cfg Config
	log *buffer
}

func newFloor(script string, want string) *floor {
	f := &floor{authority: newAuthority(steadyClock), log: bufferFor(want)}
	f.job = f.submit(0x1a2b3c4d)
	f.cfg = Config{Kind: "repository.build", Worker: "w", Once: true, Events: f.note,
		Handler: &Command{Args: []string{"sh", "-c", script}, Log: f.log, Grace: patience}}
	return f
}

func (f *floor) command() *Command { return f.cfg.Handler.(*Command) }

func (f *floor) run(t *testing.T) job {
	t.Helper()
	if err := Run(t.Context(), f.authority, f.cfg); err != nil {
		t.Fatal(err)
	}
	return f.look(f.job)
}

func TestCommandGetsTheJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFloor(`cat > view; env | grep -E '^(WRIT_[^R]|WRIT_REP|TRACEPARENT)' | sort > env; pwd -P > pwd`, "none")
	f.job.checkpoint = optional("checkpoint:half")
	f.command().Dir = dir
	f.command().Env = []string{"PATH=" + os.Getenv("PATH"), "TRACEPARENT=ours", "WRIT_JOB_ID=other"}
	if got := f.run(t); got.state != "succeeded" {
		t.Fatalf("the job is %s: %s", got.state, f.log)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var view workitem.View
	if err := json.Unmarshal([]byte(read("view")), &view); err != nil {
		t.Fatal(err)
	}
	if view.JobID != f.job.id || view.State != "leased" || view.RepositoryID != "repo-a" || text(view.Checkpoint) != "checkpoint:half" {
		t.Errorf("the view is %+v", view)
	}
	want := `TRACEPARENT=00-trace
WRIT_ATTEMPT=1
WRIT_BASE_REF=main
WRIT_BASE_SHA=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
WRIT_CHECKPOINT=checkpoint:half
WRIT_FENCING_TOKEN=1
WRIT_JOB_ID=rmjob:1a2b3c4d-0000-5000-8000-000000000000
WRIT_OPERATION=build
WRIT_PROTOCOL_FD=3
WRIT_REPOSITORY_ID=repo-a
WRIT_WORK_ITEM_ID=workitem:repository_manager:1a2b3c4d-0000-5000-8000-000000000000
`
	if got := read("env"); got != want {
		t.Errorf("the environment is\n%s\nwant\n%s", got, want)
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || strings.TrimSpace(read("pwd")) != real {
		t.Errorf("the directory is %s, want %s (%v)", read("pwd"), real, err)
	}
}

func TestCommandDoesNotInheritTheToken(t *testing.T) {
	t.Setenv("WRIT_TOKEN", "secret")
	t.Setenv("TRACEPARENT", "ours")
	t.Setenv("OTHER", "kept")
	env := new(Command).environment(&Job{View: &workitem.View{}, Claim: &workitem.Claim{}})
	for _, kv := range env {
		if strings.HasPrefix(kv, "WRIT_TOKEN=") || strings.HasPrefix(kv, "TRACEPARENT=") {
			t.Errorf("the command inherits %s", kv)
		}
	}
	if !slices.Contains(env, "OTHER=kept") {
		t.Error("the rest of the environment is not inherited")
	}
}

func TestCommandSpeaks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		state        string
		result, err  string
		class, code  string
		checkpoint   string
	}{
		{name: "nothing", script: "true", state: "succeeded"},
		{name: "descriptor", script: "echo result artifact:1 >&3", state: "succeeded", result: "artifact:1"},
		{name: "descriptor without an end of line", script: "printf 'result artifact:1' >&3", state: "succeeded", result: "artifact:1"},
		{name: "output", script: "echo '::writ result artifact:2'; echo '::writ checkpoint a'", state: "succeeded", result: "artifact:2", checkpoint: "checkpoint:a"},
		{name: "not on standard error", script: "echo '::writ result artifact:2' >&2", state: "succeeded"},
		{name: "newest checkpoint", script: "for i in 1 2 3 4 5 6 7 8 9; do echo checkpoint step$i; done >&3", state: "succeeded", checkpoint: "checkpoint:step9"},
		{name: "exit status", script: "exit 9", state: "backoff", err: "exit-status:9", class: CandidateFailure},
		{name: "signal", script: "kill -SEGV $$", state: "backoff", err: "signal:SIGSEGV", class: EnvironmentFailure},
		{name: "refusal", script: "echo refuse invalid_git_ref >&3; exit 1", state: "failed", err: "exit-status:1", code: "invalid_git_ref"},
		{name: "no retry", script: "echo no-retry >&3; exit 1", state: "failed", err: "exit-status:1", class: CandidateFailure},
		{name: "defer", script: "echo defer 30 busy >&3; exit 1", state: "deferred"},
		{name: "misspoken", script: "echo reslut x >&3", state: "backoff", err: "writ-worker:protocol", class: EnvironmentFailure},
		{name: "not found", script: "exec no-such-program-here 2>/dev/null", state: "backoff", err: "exit-status:127", class: EnvironmentFailure},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(c.script, "none")
			got := f.run(t)
			if got.state != c.state || text(got.checkpoint) != text(optional(c.checkpoint)) {
				t.Errorf("the job is %s with checkpoint %s, want %s with %s", got.state, text(got.checkpoint), c.state, text(optional(c.checkpoint)))
			}
			if got.commit == nil {
				if c.state != "deferred" || *got.deferred.Delay != 30 || got.deferred.Reason != "busy" {
					t.Errorf("nothing was committed; deferred as %+v", got.deferred)
				}
				return
			}
			for _, m := range []struct {
				name, want string
				got        *string
			}{{"result", c.result, got.commit.ResultRef}, {"error", c.err, got.commit.ErrorRef},
				{"class", c.class, got.commit.FailureClass}, {"code", c.code, got.commit.RefusalCode}} {
				if text(m.got) != text(optional(m.want)) {
					t.Errorf("%s is %s, want %s", m.name, text(m.got), text(optional(m.want)))
				}
			}
		})
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	t.Parallel()
	f := newFloor("", "no-such-program-here")
	f.command().Args = []string{"no-such-program-here"}
	got := f.run(t)
	if got.commit == nil || text(got.commit.ErrorRef) != "writ-worker:not-run" || text(got.commit.FailureClass) != EnvironmentFailure {
		t.Errorf("committed %+v", got.commit)
	}
	f.log.await(t)
}

func TestOutputOfACommandIsNamed(t *testing.T) {
	t.Parallel()
	f := newFloor("echo out; echo err >&2; echo '::writ result r'; echo '::write'; printf end", "none")
	f.run(t)
	got := strings.Split(strings.TrimSuffix(f.log.String(), "\n"), "\n")
	slices.Sort(got)
	const p = "[build 1a2b3c4d/1] "
	if want := []string{p + "::write", p + "end", p + "err", p + "out"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

func TestTimeLimit(t *testing.T) {
	t.Parallel()
	alive, ended := fifo(t)
	f := newFloor(`exec 9>"`+alive+`"; sleep 1000 & wait`, "none")
	f.command().Timeout = 200 * time.Millisecond
	got := f.run(t)
	if got.commit == nil || text(got.commit.ErrorRef) != "writ-worker:time-limit" {
		t.Errorf("committed %+v", got.commit)
	}
	ended()
}

func TestLostLeaseKillsTheGroup(t *testing.T) {
	t.Parallel()
	alive, ended := fifo(t)
	f := newFloor(`exec 9>"`+alive+`"; sh -c 'sleep 1000 & wait' & echo ready; wait`, "ready")
	f.cfg.Lease = 3 * time.Second // so that the next renewal is soon
	go func() {
		<-f.log.seen
		f.cancel(f.job)
	}()
	f.run(t)
	ended()
	if f.count("commit")+f.count("defer") != 0 || len(f.of(Lost)) != 1 {
		t.Errorf("called %v", f.seen())
	}
}

func TestNothingOfACommandOutlivesTheLease(t *testing.T) {
	t.Parallel()
	alive, ended := fifo(t)
	f := newFloor(`exec 9>"`+alive+`"; trap '' TERM; echo ready; while :; do sleep 0.05; done`, "ready")
	f.cfg.Lease = 1500 * time.Millisecond
	f.command().Grace = time.Hour
	go func() {
		<-f.log.seen
		f.interrupt(func(string) error { return unreachable })
	}()
	begun := time.Now()
	f.run(t)
	ended()
	if took := time.Since(begun); took > patience {
		t.Errorf("took %v: the grace was not cut short", took)
	}
	if f.count("commit") != 0 || len(f.of(Lost)) != 1 {
		t.Errorf("called %v", f.seen())
	}
}

func TestEndOfTheContextKillsTheGroupAndDefers(t *testing.T) {
	t.Parallel()
	alive, ended := fifo(t)
	f := newFloor(`exec 9>"`+alive+`"; sleep 1000 & echo ready; wait`, "ready")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-f.log.seen
		cancel()
	}()
	if err := Run(ctx, f.authority, f.cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("Run gave %v", err)
	}
	ended()
	if got := f.look(f.job); got.state != "deferred" || got.deferred.Reason != "the worker was stopped" || got.attempt != 0 {
		t.Errorf("the job is %s after %v", got.state, f.seen())
	}
}

// A worker that was stopped for longer than its lease must not have another effect
// when it goes on. Its command was not stopped and speaks meanwhile.
func TestStoppedWorkerKillsItsCommandWhenItGoesOn(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alive, ended := fifo(t)
	dir := t.TempDir()
	out := bufferFor("calls")
	started := filepath.Join(dir, "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	w := exec.Command(exe)
	w.Env = append(os.Environ(), helperEnv+`=exec 9>"`+alive+`"; trap '' TERM; echo > "`+started+`"; while :; do sleep 0.2; echo checkpoint late >&3; done`)
	w.Stdout, w.Stderr = out, out
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Process.Kill(); w.Wait() })
	if _, err := os.ReadFile(started); err != nil { // returns when the command has written
		t.Fatal(err)
	}
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(out.String(), "event checkpoint")
	<-time.After(2 * time.Second) // the lease of 1.5 s must run out: this is what is tested
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	out.await(t)
	ended()
	text := out.String()
	if !strings.Contains(text, "event lost") || strings.Contains(text, "commit") || strings.Contains(text, "defer") {
		t.Errorf("the worker told\n%s", text)
	}
	// What was told before the stop may have been printed after the count.
	if after := strings.Count(text, "event checkpoint"); after > before+1 {
		t.Errorf("%d checkpoints before the stop, %d after it:\n%s", before, after, text)
	}
}

// A worker that is killed can do nothing for its commands; its guard does, once it was
// told of them, which is just after they were started.
func TestKilledWorkerTakesItsCommandsAlong(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alive, ended := fifo(t)
	started := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	w := exec.Command(exe)
	w.Env = append(os.Environ(), helperEnv+`=exec 9>"`+alive+`"; trap '' TERM; sh -c 'sleep 1000 & wait' & sleep 1; echo > "`+started+`"; while :; do sleep 1; done`)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(started); err != nil { // returns when the command has written
		t.Fatal(err)
	}
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Wait()
	ended()
}
