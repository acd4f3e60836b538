package store_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/writ-authority/writ/cell/store"
)

func TestSecondOwnerIsRefused(t *testing.T) {
	t.Parallel()
	path := place(t)
	st := openAt(t, path)
	if _, err := store.Open(t.Context(), store.Options{Path: path}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("a second open: %v", err)
	}
	mustClose(t, st)
	mustClose(t, openAt(t, path))
}

// Another process that has the store open keeps this one out, and gives way when it is
// killed.
func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a process")
	}
	path := place(t)
	command := exec.Command(os.Args[0], "-test.run", "^TestTeller$", "-test.timeout", "2m")
	command.Env = append(os.Environ(), tellerPath+"="+path)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "acknowledged ") {
		t.Errorf("the process says %q, %v", lines.Text(), lines.Err())
	}
	_, refusal := store.Open(t.Context(), store.Options{Path: path})
	bury(t, command)
	if !errors.Is(refusal, store.ErrLocked) || !strings.Contains(refusal.Error(), path) {
		t.Errorf("opened beside another process: %v", refusal)
	}
	mustClose(t, openAt(t, path))
}

// A copy of a store that is in use may be of several moments at once. It is refused, or
// it is whole.
func TestLiveCopies(t *testing.T) {
	t.Parallel()
	path := place(t)
	st := openAt(t, path)
	s := newSaga("s", 40)
	s.tell(t, st, 0, 1)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(1); ; i++ {
			if _, err := st.Write(ctx, s.write(i)); err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
		}
	})
	var copies []string
	for i := range 12 {
		to := t.TempDir()
		names := []string{path, path + "-wal"}
		if i%2 == 1 {
			names = []string{path + "-wal", path}
		}
		if i%3 == 2 {
			names = append(names, path+"-shm", path+".lock")
		}
		if i%4 == 3 {
			names = []string{path} // the log was forgotten
		}
		copyFiles(t, to, names...)
		copies = append(copies, filepath.Join(to, filepath.Base(path)))
	}
	stop()
	wg.Wait()
	mustClose(t, st)
	for _, name := range copies {
		c, err := store.Open(t.Context(), store.Options{Path: name})
		if errors.Is(err, store.ErrCopied) || errors.Is(err, store.ErrNoLog) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		newSaga("s", 40).mustCheck(t, c, 0)
		mustBeClean(t, c)
		mustClose(t, c)
	}
}

// A store that was closed may be copied and moved.
func TestCopyOfAClosedStore(t *testing.T) {
	t.Parallel()
	path := place(t)
	st := openAt(t, path)
	s := newSaga("s", 10)
	s.tell(t, st, 0, 5)
	mustClose(t, st)
	to := t.TempDir()
	copyFiles(t, to, path)
	c := openAt(t, filepath.Join(to, filepath.Base(path)))
	s.mustCheck(t, c, 4)
	s.tell(t, c, 5, 6)
	mustClose(t, c)
	moved := filepath.Join(to, "moved.db")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	st = openAt(t, moved)
	s.mustCheck(t, st, 4)
	mustClose(t, st)
}
