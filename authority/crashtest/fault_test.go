package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/internal/vfs"
)

// fault is one thing that can go wrong once.
type fault struct {
	name  string
	kinds []vfs.OpKind
	err   error
	sync  bool // after it nobody knows what the disk holds
}

var (
	changing = []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpTruncate, vfs.OpMkdir, vfs.OpRename, vfs.OpRemove}
	reading  = []vfs.OpKind{vfs.OpOpen, vfs.OpRead, vfs.OpStat, vfs.OpReadDir}
	faults   = []fault{
		{"the disk is full", changing, syscall.ENOSPC, false},
		{"a write ends early on a full disk", []vfs.OpKind{vfs.OpWrite}, &vfs.ShortWrite{N: 7, Err: syscall.ENOSPC}, false},
		{"a change fails", changing, syscall.EIO, false},
		{"a sync fails", []vfs.OpKind{vfs.OpSync, vfs.OpSyncDir}, syscall.EIO, true},
		{"a sync finds a full disk", []vfs.OpKind{vfs.OpSync, vfs.OpSyncDir}, syscall.ENOSPC, true},
		{"a read fails", reading, syscall.EIO, false},
		{"a read ends early", []vfs.OpKind{vfs.OpRead}, &vfs.ShortRead{N: 3, Err: io.EOF}, false},
		{"a read fails in the middle", []vfs.OpKind{vfs.OpRead}, &vfs.ShortRead{N: 3, Err: syscall.EIO}, false},
		{"a lock fails", []vfs.OpKind{vfs.OpLock}, syscall.ENOLCK, false},
		{"a close fails", []vfs.OpKind{vfs.OpClose}, syscall.EIO, false},
	}
)

// met counts the faults that verbs have met.
var met struct {
	sync.Mutex
	by map[string]int
}

// TestFaults lets each operation of each verb fail once. A verb that has failed has
// changed nothing, and works when it is tried again; after a failed sync only a
// restart tells what is there, the old or the new, and nothing is written before.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		for i, v := range verbs {
			t.Run(m.name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				b := prepared(t, m, v)
				for j, f := range faults {
					stride := 1
					switch {
					case *wantStates >= longRun:
					case v.files:
						stride = 499
					case *wantStates < mediumRun:
						stride = 17
					}
					for n := (i + j) % stride; b.try(t, f, n); n += stride {
						met.Lock()
						if met.by == nil {
							met.by = map[string]int{}
						}
						met.by[f.name]++
						met.Unlock()
					}
				}
			})
		}
	}
}

// bench is a world in which one verb is about to be done, again and again.
type bench struct {
	mode mode
	verb verb
	do   func(*world) error
	w    *world // closed

	before, after uint64 // states
	live          map[uint32]held
}

func prepared(t *testing.T, m mode, v verb) *bench {
	t.Helper()
	w := setup(t, m, 1)
	do, err := w.ready(v)
	if err != nil {
		t.Fatal(err)
	}
	w.close(t)
	b := &bench{mode: m, verb: v, do: do, w: w, before: stateOf(w.sim)}
	clean := b.world(t)
	if err := do(clean); err != nil {
		t.Fatal(err)
	}
	b.after = stateOf(clean.sim)
	if b.live, err = clean.held(); err != nil {
		t.Fatal(err)
	}
	clean.close(t)
	return b
}

// world returns a copy of the world, open.
func (b *bench) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(b.w.sim.Fork(), b.mode, 2)
	w.opt.LockWait = time.Second
	w.clock.Advance(b.w.clock.Now().Sub(authoritytest.Start))
	w.number, w.leases, w.backups = b.w.number, maps.Clone(b.w.leases), slices.Clone(b.w.backups)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	return w
}

// try does the verb while the operation number n that the fault can hit fails. It
// reports false when there is none.
func (b *bench) try(t *testing.T, f fault, n int) bool {
	t.Helper()
	w := b.world(t)
	if f.sync {
		w.sim.Capture()
	}
	var mu sync.Mutex
	var hit vfs.Op
	count := 0
	w.sim.Fail(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if hit.Kind != 0 || !slices.Contains(f.kinds, op.Kind) {
			return nil
		}
		if count++; count <= n {
			return nil
		}
		hit = op
		return f.err
	})
	err := b.do(w)
	w.sim.Fail(nil)
	if hit.Kind == 0 {
		if err != nil {
			t.Fatalf("%s without any fault: %v", b.verb.name, err)
		}
		w.close(t)
		return false
	}
	what := fmt.Sprintf("%s: %s (%v)", b.verb.name, f.name, hit)
	if err == nil {
		if got := stateOf(w.sim); got != b.after {
			t.Fatalf("%s: it succeeds, but its effect is not there", what)
		}
		b.lasts(t, w, f, what)
		return true
	}
	readOnly := errors.Is(err, bindb.ErrReadOnly)
	switch {
	case !f.sync && readOnly:
		t.Fatalf("%s: it was no sync, but the authority is read-only: %v", what, err)
	case readOnly && b.single():
		if err := named("OpenTask").do(w); !errors.Is(err, bindb.ErrReadOnly) {
			t.Fatalf("%s: after it a mutation says: %v", what, err)
		}
	case b.single():
		if got := stateOf(w.sim); got != b.before {
			t.Fatalf("%s: it failed (%v), but something has changed", what, err)
		}
		w.number = b.w.number
		if err := b.do(w); err != nil {
			t.Fatalf("%s: it failed (%v), and when it was tried again: %v", what, err, err)
		}
		if got := stateOf(w.sim); got != b.after {
			t.Fatalf("%s: tried again it does something else", what)
		}
		b.lasts(t, w, f, what)
		return true
	}
	// A restart decides.
	_ = w.a.Close() // which may be closed already
	if err := w.open(); err != nil {
		t.Fatalf("%s: it failed (%v), and the restart: %v", what, err, err)
	}
	if got := stateOf(w.sim); got == b.before {
		w.number = b.w.number
		if err := b.do(w); err != nil {
			t.Fatalf("%s: after a restart: %v", what, err)
		}
	}
	if got := stateOf(w.sim); got != b.after {
		t.Fatalf("%s: after a restart neither the old state is there nor the new one", what)
	}
	b.lasts(t, w, f, what)
	return true
}

// single reports whether the verb is one transaction of one Repository, of which
// the process itself knows what became of it.
func (b *bench) single() bool {
	return b.verb.name != "ClaimNext" && b.verb.stage != nil || !slices.Contains(
		[]string{"AddRepository", "Backup", "Restore", "Compact", "Reopen", "ExpireLeases", "Purge", "Retire", "Reactivate", "SetPolicyFlags", "SetNamespace", "Work on gears"},
		b.verb.name)
}

// lasts validates a world in which the verb has succeeded; what is there survives
// a power cut.
func (b *bench) lasts(t *testing.T, w *world, f fault, what string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if b.single() { // what others could not clean up the next open does
		must(w.sound(false))
	}
	if f.sync {
		now := w.clock.Now()
		for disk := range w.sim.CrashStates(w.sim.OpCount(), vfs.Policy{Random: 2, Tears: 1, Recent: 20}) {
			c := w.on(disk, now)
			if err := c.open(); err != nil {
				t.Fatalf("%s, then %s: %v", what, disk.Origin(), err)
			}
			if stateOf(disk) != b.after {
				t.Fatalf("%s, then %s: what was acknowledged is gone", what, disk.Origin())
			}
			must(c.leasesAre(ack{live: b.live}))
		}
	}
	must(w.a.Close())
	must(w.open())
	if stateOf(w.sim) != b.after {
		t.Fatalf("%s: what was acknowledged is gone after a restart", what)
	}
	must(w.sound(false))
	must(w.leasesAre(ack{live: b.live}))
	must(w.a.Close())
}

// lockFiles lists the lock files of an installation.
func lockFiles(t *testing.T, sim *vfs.Sim) []string {
	t.Helper()
	var list []string
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := sim.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			switch {
			case e.Mode.IsDir():
				walk(name)
			case strings.HasSuffix(name, ".lock"):
				list = append(list, name)
			}
		}
	}
	walk(dataDir)
	return list
}

// work needs every lock but that of the lifecycle, which only an installation's
// making and replacement need.
func (w *world) work() error {
	if err := w.open(); err != nil {
		return err
	}
	err := w.sound(true)
	for _, name := range []string{"OpenTask", "AddRepository"} {
		if err == nil {
			err = named(name).do(w)
		}
	}
	return errors.Join(err, w.a.Close())
}

// needing returns what needs a lock, and what it says when it has it.
func (w *world) needing(file string) (do func() error, says error) {
	if path.Base(file) == "lifecycle.lock" {
		return w.create, authority.ErrExists
	}
	return w.work, nil
}

// TestLocksHeldElsewhere: whoever waits for a lock in vain is told so, and has
// changed nothing.
func TestLocksHeldElsewhere(t *testing.T) {
	t.Parallel()
	eachLock(t, func(t *testing.T, w *world, file string) {
		w.opt.LockWait = time.Millisecond
		before := stateOf(w.sim)
		lock, err := w.sim.Process().Lock(context.Background(), file, vfs.Exclusive)
		if err != nil {
			t.Fatal(err)
		}
		do, says := w.needing(file)
		if err := do(); !errors.Is(err, bindb.ErrBusy) {
			t.Errorf("while somebody else holds it: %v", err)
		}
		if got := stateOf(w.sim); got != before && !strings.Contains(file, "registry") {
			// What comes before the wait may have been done.
			t.Errorf("while somebody else held it something has changed")
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := do(); !errors.Is(err, says) {
			t.Errorf("after somebody else held it: %v", err)
		}
	})
}

// TestLinkedLockFiles: a lock file that is a link, or has a second name, is none.
func TestLinkedLockFiles(t *testing.T) {
	t.Parallel()
	eachLock(t, func(t *testing.T, w *world, file string) {
		do, says := w.needing(file)
		if err := w.sim.Link(file, "/second"); err != nil {
			t.Fatal(err)
		}
		if err := do(); !errors.Is(err, vfs.ErrLinks) && !errors.Is(err, bindb.ErrCorrupt) {
			t.Errorf("with a second name: %v", err)
		}
		if err := w.sim.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := w.sim.Symlink("/second", file); err != nil {
			t.Fatal(err)
		}
		if err := do(); !errors.Is(err, vfs.ErrSymlink) && !errors.Is(err, bindb.ErrCorrupt) {
			t.Errorf("as a symbolic link: %v", err)
		}
		if err := w.sim.Rename("/second", file); err != nil {
			t.Fatal(err)
		}
		if err := do(); !errors.Is(err, says) {
			t.Errorf("once it is as it was: %v", err)
		}
	})
}

// eachLock runs a test for each lock file of an installation, in each mode.
func eachLock(t *testing.T, fn func(t *testing.T, w *world, file string)) {
	for _, m := range modes {
		list := lockFiles(t, fresh())
		if len(list) != 1+1+2*(authority.FirstRepository+1) {
			t.Errorf("the lock files are %v", list)
		}
		for _, file := range list {
			t.Run(m.name+file, func(t *testing.T) {
				t.Parallel()
				fn(t, newWorld(fresh().Fork(), m, 1), file)
			})
		}
	}
}
