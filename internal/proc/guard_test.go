package proc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// life makes a named pipe whose writers are the processes of a command. over fails
// unless they are all gone, or go soon.
func life(t *testing.T) (path string, over func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "life")
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
		f.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Errorf("processes are still alive: %v", err)
		}
	}
}

// told is standard output that tells when something was written.
type told chan struct{}

func (c told) Write(p []byte) (int, error) {
	select {
	case c <- struct{}{}:
	default:
	}
	return len(p), nil
}

func TestGuardEndsWhatItsProgramLeaves(t *testing.T) {
	t.Parallel()
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan Result)
	path, over := life(t)
	out := make(told, 1)
	go func() {
		res, err := Run(t.Context(), Command{Guard: g, Stdout: out,
			Shell: `exec 9>"` + path + `"; trap '' TERM INT; sh -c 'sleep 1000 & wait' & echo; wait`})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	// One that has ended is no longer under guard.
	if _, err := Run(t.Context(), Command{Guard: g, Shell: "true"}); err != nil {
		t.Error(err)
	}
	<-out
	g.mu.Lock()
	groups := len(g.groups)
	g.mu.Unlock()
	if groups != 1 {
		t.Errorf("%d groups are under guard, want the one that runs", groups)
	}
	g.tell.Close() // as the end of the program does
	if res := <-done; res.Signal != "SIGKILL" {
		t.Errorf("ended as %+v", res)
	}
	over()
}

func TestGuardThatDiedIsStartedAgain(t *testing.T) {
	t.Parallel()
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	path, over := life(t)
	first := make(told, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := Run(t.Context(), Command{Guard: g, Stdout: first, Shell: `exec 9>"` + path + `"; echo; sleep 1000`}); err != nil || res.Signal != "SIGKILL" {
			t.Errorf("%+v, %v", res, err)
		}
	}()
	<-first
	// A pipe that nobody reads is what a dead guard leaves.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	g.mu.Lock()
	old := g.tell
	g.tell = w
	g.mu.Unlock()
	if _, err := Run(t.Context(), Command{Guard: g, Shell: "true"}); err != nil {
		t.Error(err)
	}
	if g.tell == io.WriteCloser(w) {
		t.Fatal("there is no new guard")
	}
	// The new guard has the older group too.
	g.tell.Close()
	<-done
	over()
	if err := old.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
