package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/writ-authority/writ/internal/vfs"
)

func TestSimLogsOperations(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	must(t, vfs.MkdirAll(sim, "/d", 0o700))
	must(t, vfs.WriteFileAtomic(sim, "/d/f", []byte("abc"), 0o600))
	lock, err := sim.Lock(t.Context(), "/d/lock", vfs.Exclusive)
	must(t, err)
	f := create(t, sim, "/d/f", "xy")
	must(t, f.Truncate(1))
	must(t, lock.Unlock())
	must(t, sim.Remove("/d/f"))
	wantIs(t, sim.Remove("/d/f"), fs.ErrNotExist) // not done, so not logged
	want := `1 mkdir /d
2 syncdir /
3 create /d/.f.rewrite
4 write /d/.f.rewrite 0+3
5 sync /d/.f.rewrite
6 rename /d/.f.rewrite to /d/f
7 syncdir /d
8 create /d/lock
9 lock /d/lock
10 write /d/f 0+2
11 truncate /d/f to 1
12 unlock /d/lock
13 remove /d/f`
	var got []string
	for _, op := range sim.Ops() {
		got = append(got, op.String())
	}
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("operations are\n%s\nwant\n%s", got, want)
	}
	if n := sim.OpCount(); n != 13 {
		t.Errorf("OpCount is %d", n)
	}
}

// TestSimFaults lets each kind of operation fail once and checks that it did
// nothing.
func TestSimFaults(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind vfs.OpKind
		do   func(sim *vfs.Sim, f vfs.File) error
	}{
		{vfs.OpCreate, func(sim *vfs.Sim, _ vfs.File) error {
			_, err := sim.OpenFile("/new", os.O_RDWR|os.O_CREATE, 0o600)
			return err
		}},
		{vfs.OpWrite, func(_ *vfs.Sim, f vfs.File) error { _, err := f.WriteAt([]byte("X"), 1); return err }},
		{vfs.OpTruncate, func(_ *vfs.Sim, f vfs.File) error { return f.Truncate(1) }},
		{vfs.OpSync, func(_ *vfs.Sim, f vfs.File) error { return f.Sync() }},
		{vfs.OpMkdir, func(sim *vfs.Sim, _ vfs.File) error { return sim.Mkdir("/new", 0o700) }},
		{vfs.OpRename, func(sim *vfs.Sim, _ vfs.File) error { return sim.Rename("/f", "/g") }},
		{vfs.OpRemove, func(sim *vfs.Sim, _ vfs.File) error { return sim.RemoveAll("/f") }},
		{vfs.OpSyncDir, func(sim *vfs.Sim, _ vfs.File) error { return sim.SyncDir("/") }},
		{vfs.OpLock, func(sim *vfs.Sim, _ vfs.File) error { _, err := sim.Lock(ended(), "/f", vfs.Shared); return err }},
		{vfs.OpOpen, func(sim *vfs.Sim, _ vfs.File) error {
			_, err := sim.OpenFile("/f", os.O_RDWR|os.O_CREATE, 0)
			return err
		}},
		{vfs.OpRead, func(_ *vfs.Sim, f vfs.File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err }},
		{vfs.OpStat, func(_ *vfs.Sim, f vfs.File) error { _, err := f.Size(); return err }},
		{vfs.OpStat, func(_ *vfs.Sim, f vfs.File) error { _, err := f.ID(); return err }},
		{vfs.OpStat, func(sim *vfs.Sim, _ vfs.File) error { _, err := sim.Lstat("/f"); return err }},
		{vfs.OpReadDir, func(sim *vfs.Sim, _ vfs.File) error { _, err := sim.ReadDir("/"); return err }},
		{vfs.OpClose, func(_ *vfs.Sim, f vfs.File) error { return f.Close() }},
	}
	for _, c := range cases {
		sim := vfs.NewSim()
		f := create(t, sim, "/f", "abc")
		before, count := sim.Fingerprint(), sim.OpCount()
		sim.Fail(func(op vfs.Op) error {
			if op.Kind == c.kind {
				return syscall.ENOSPC
			}
			return nil
		})
		err := c.do(sim, f)
		wantIs(t, err, syscall.ENOSPC)
		var perr *fs.PathError
		var lerr *os.LinkError
		if !errors.As(err, &perr) && !errors.As(err, &lerr) {
			t.Errorf("%v: error %v names no path", c.kind, err)
		}
		if sim.Fingerprint() != before {
			t.Errorf("%v: the failed operation changed something", c.kind)
		}
		if ops := sim.Ops(); len(ops) > count {
			if last := ops[len(ops)-1]; last.Kind != c.kind || !errors.Is(last.Err, syscall.ENOSPC) || last.N != count+1 {
				t.Errorf("%v: logged as %v", c.kind, last)
			}
		} else if c.kind < vfs.OpOpen {
			t.Errorf("%v: the failed operation is not logged", c.kind)
		}
		sim.Fail(nil)
		if _, err := sim.Lock(ended(), "/f", vfs.Exclusive); err != nil {
			t.Errorf("%v: %v", c.kind, err)
		}
	}
}

func TestSimShortWrite(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	f := create(t, sim, "/f", "abc")
	sim.Fail(func(op vfs.Op) error {
		if op.Kind != vfs.OpWrite {
			return nil
		}
		if want := (vfs.Op{N: 3, Kind: vfs.OpWrite, Path: "/f", Off: 3, Len: 4}); op != want {
			t.Errorf("script sees %+v, want %+v", op, want)
		}
		return &vfs.ShortWrite{N: 2, Err: syscall.ENOSPC}
	})
	n, err := f.WriteAt([]byte("defg"), 3)
	if n != 2 {
		t.Errorf("short write wrote %d bytes", n)
	}
	wantIs(t, err, syscall.ENOSPC)
	if got := read(t, sim, "/f"); got != "abcde" {
		t.Errorf("content is %q", got)
	}
	if op := sim.Ops()[2]; op.Len != 2 || !errors.Is(op.Err, syscall.ENOSPC) {
		t.Errorf("logged as %v", op)
	}
	must(t, f.Sync())
	must(t, sim.SyncDir("/"))
	want(t, outcomes(t, sim, vfs.Policy{}, "/f"), "abcde")
}

func TestSimShortRead(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	f := create(t, sim, "/f", "abcdef")
	for _, fault := range []error{io.EOF, syscall.EIO} {
		sim.Fail(func(vfs.Op) error { return &vfs.ShortRead{N: 2, Err: fault} })
		p := []byte("----")
		n, err := f.ReadAt(p, 1)
		if n != 2 || string(p) != "bc--" {
			t.Errorf("%d bytes were read: %q", n, p)
		}
		wantIs(t, err, fault)
		if fault == io.EOF && err != io.EOF {
			t.Errorf("the end of a file is told as %v", err)
		}
		if data, err := vfs.ReadFile(sim, "/f", 100); err == nil {
			t.Errorf("a part of the file is taken for the whole: %q", data)
		}
	}
}

// TestSimScriptMayBlock holds a Sync back while reads of another goroutine go on.
func TestSimScriptMayBlock(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	f := create(t, sim, "/f", "abc")
	entered, leave := make(chan struct{}), make(chan struct{})
	sim.Fail(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			close(entered)
			<-leave
		}
		return nil
	})
	synced := make(chan error)
	go func() { synced <- f.Sync() }()
	<-entered
	if got := read(t, sim, "/f"); got != "abc" {
		t.Errorf("content is %q", got)
	}
	close(leave)
	must(t, <-synced)
}

func TestSimProcessCrash(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	p := sim.Process()
	f := create(t, p, "/f", "abc")
	lock, err := p.Lock(t.Context(), "/lock", vfs.Exclusive)
	must(t, err)
	_, err = sim.Lock(ended(), "/lock", vfs.Shared)
	wantIs(t, err, vfs.ErrLocked)
	own, err := p.Lock(t.Context(), "/lock2", vfs.Shared)
	must(t, err)
	must(t, own.Unlock())
	p.Crash()
	wantIs(t, lock.Unlock(), vfs.ErrCrashed)
	wantIs(t, f.Sync(), vfs.ErrCrashed)
	wantIs(t, f.Close(), vfs.ErrCrashed)
	wantIs(t, p.Mkdir("/d", 0o700), vfs.ErrCrashed)
	_, err = p.Lstat("/f")
	wantIs(t, err, vfs.ErrCrashed)
	_, err = p.OpenFile("/g", os.O_RDWR|os.O_CREATE, 0o600)
	wantIs(t, err, vfs.ErrCrashed)
	if got := read(t, sim, "/f"); got != "abc" {
		t.Errorf("what the process wrote is %q", got)
	}
	lock, err = sim.Lock(ended(), "/lock", vfs.Exclusive)
	must(t, err)
	must(t, lock.Unlock())
}

// TestSimCrashEndsWaits: a wait for a lock ends with its own process, and with
// that of the holder.
func TestSimCrashEndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim := vfs.NewSim()
		holder, dying := sim.Process(), sim.Process()
		_, err := holder.Lock(t.Context(), "/lock", vfs.Exclusive)
		must(t, err)
		var mu sync.Mutex
		results := map[string]error{}
		wait := func(name string, fsys vfs.FS) {
			_, err := fsys.Lock(t.Context(), "/lock", vfs.Exclusive)
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		}
		go wait("dying", dying)
		go wait("living", sim)
		synctest.Wait()
		if len(results) != 0 {
			t.Fatalf("somebody did not wait: %v", results)
		}
		dying.Crash()
		synctest.Wait()
		wantIs(t, results["dying"], vfs.ErrCrashed)
		if len(results) != 1 {
			t.Fatalf("after the crash of a waiter: %v", results)
		}
		holder.Crash()
		synctest.Wait()
		if err, ok := results["living"]; !ok || err != nil {
			t.Errorf("after the crash of the holder: %v, %v", ok, err)
		}
	})
}

// TestSimConcurrency is for the race detector.
func TestSimConcurrency(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	sim.Capture()
	f := create(t, sim, "/f", strings.Repeat("a", 5000))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("/g%d", i)
			for n := range 20 {
				if err := vfs.WriteFileAtomic(sim, name, []byte{byte(n)}, 0o600); err != nil {
					t.Error(err)
				}
				if _, err := f.WriteAt([]byte{byte(n)}, int64(i*1000+n)); err != nil {
					t.Error(err)
				}
				for state := range sim.CrashStates(sim.OpCount(), vfs.Policy{Random: 2}) {
					if g, err := state.OpenFile("/f", os.O_RDWR, 0); err == nil {
						if _, err := g.WriteAt([]byte("x"), 10); err != nil {
							t.Error(err)
						}
						g.Close()
					}
				}
			}
		})
	}
	wg.Wait()
}

// outcomes returns the distinct contents of a file in the crash states after the
// newest operation; "-" stands for no file.
func outcomes(t *testing.T, sim *vfs.Sim, policy vfs.Policy, name string) []string {
	t.Helper()
	var list []string
	for state := range sim.CrashStates(sim.OpCount(), policy) {
		content := "-"
		if ok, err := vfs.Exists(state, name); err != nil {
			t.Fatal(err)
		} else if ok {
			content = read(t, state, name)
		}
		list = append(list, content)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("outcomes are %q\nwant %q", got, want)
	}
}
