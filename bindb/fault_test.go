package bindb_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// faults runs one mutation again and again, each time letting another operation
// of the wanted kinds fail, until a run meets no fault.
func faults(t *testing.T, kinds []vfs.OpKind, fault func(op vfs.Op) error, judge func(t *testing.T, run *faultRun)) {
	for n := 0; ; n++ {
		sim, cfg := simConfig(t)
		create(t, cfg)
		r := open(t, cfg)
		update(t, r, seed)
		var task uint32
		steps := story(&task)
		update(t, r, steps[0])
		run := &faultRun{sim: sim, cfg: cfg, root: r, before: dump(t, cfg)}
		seen := 0
		sim.Fail(serially(func(op vfs.Op) error {
			if !slices.Contains(kinds, op.Kind) || run.op.Path != "" && !run.lasting {
				return nil
			}
			if seen++; seen <= n {
				return nil
			}
			if run.op.Path == "" {
				run.op = op
			}
			return fault(op)
		}))
		run.step = func(w *writer) {
			steps[1](w)
			change(w, bindb.Lines, 0, func(l *record.Line) { l.UpdatedAt++ })
		}
		run.err = r.Update(context.Background(), write(run.step))
		sim.Fail(nil)
		if run.op.Path == "" {
			if run.err != nil || n == 0 {
				t.Fatalf("run %d met no fault, but failed: %v", n, run.err)
			}
			return
		}
		judge(t, run)
	}
}

// serially lets a fault script keep state although files are synced side by side.
func serially(script func(op vfs.Op) error) func(op vfs.Op) error {
	var mu sync.Mutex
	return func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		return script(op)
	}
}

type faultRun struct {
	sim     *vfs.Sim
	cfg     bindb.Config
	root    *bindb.Root
	step    func(w *writer)
	op      vfs.Op // that failed first
	err     error  // of the mutation
	before  string // state
	lasting bool
}

func (f *faultRun) check(t *testing.T) {
	t.Helper()
	findings, err := f.root.Check(context.Background())
	if err != nil || len(findings) > 0 {
		t.Fatalf("after %v: %v, %v", f.op, findings, err)
	}
}

// A write that fails leaves the old state, and the root in service.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, short := range []int{0, 1, 30} {
		t.Run(fmt.Sprintf("after %d bytes", short), func(t *testing.T) {
			t.Parallel()
			full := func(vfs.Op) error { return &vfs.ShortWrite{N: short, Err: syscall.ENOSPC} }
			faults(t, []vfs.OpKind{vfs.OpWrite}, full, func(t *testing.T, f *faultRun) {
				settling := path.Base(f.op.Path) == "4" && f.op.Len == 1
				if settling != (f.err == nil) {
					t.Fatalf("after %v: %v", f.op, f.err)
				}
				if f.err != nil {
					if !errors.Is(f.err, syscall.ENOSPC) || errors.Is(f.err, bindb.ErrReadOnly) {
						t.Fatalf("after %v the error is %v", f.op, f.err)
					}
					if dump(t, f.cfg) != f.before {
						t.Fatalf("after %v something is left behind", f.op)
					}
					f.check(t)
					update(t, f.root, f.step)
				}
				f.check(t)
				want := dump(t, f.cfg)
				if !owned { // another process sees the same
					other := f.cfg
					other.FS = f.sim.Process()
					closeRoot(t, open(t, other))
				}
				closeRoot(t, f.root)
				if dump(t, f.cfg) != want {
					t.Fatalf("after %v the state changed later", f.op)
				}
			})
		})
	}
}

// A sync that fails turns the root read-only; readers go on and see the old
// state; opening recovers, and what it shows then survives a power cut.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	broken := func(vfs.Op) error { return syscall.EIO }
	ctx := context.Background()
	faults(t, []vfs.OpKind{vfs.OpSync, vfs.OpSyncDir}, broken, func(t *testing.T, f *faultRun) {
		if !errors.Is(f.err, bindb.ErrReadOnly) || !errors.Is(f.err, syscall.EIO) {
			t.Fatalf("after %v the error is %v", f.op, f.err)
		}
		err := f.root.Update(ctx, write(seed))
		if !errors.Is(err, bindb.ErrReadOnly) {
			t.Fatalf("after %v a later mutation gives %v", f.op, err)
		}
		if dump(t, f.cfg) != f.before {
			t.Fatalf("after %v readers see the batch", f.op)
		}
		f.check(t)
		closeRoot(t, f.root)
		f.root = open(t, f.cfg)
		if dump(t, f.cfg) != f.before {
			t.Fatalf("after %v the batch came back", f.op)
		}
		f.sim.Capture()
		update(t, f.root, f.step)
		mustLast(t, f.sim, f.cfg, dump(t, f.cfg))
		closeRoot(t, f.root)
	})
}

// After the failed sync the files can't even be put back, only the journal still
// takes the word that it failed. Whoever recovers must not trust what the kernel
// shows of those files, but take the batch back.
func TestFailedSyncIsRemembered(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	before := dump(t, cfg)
	failed := false
	sim.Fail(serially(func(op vfs.Op) error {
		if !strings.HasSuffix(op.Path, ".bin") || op.Kind != vfs.OpSync && !failed {
			return nil
		}
		failed = failed || path.Base(op.Path) == "line.bin"
		if failed {
			return syscall.EIO
		}
		return nil
	}))
	ctx := context.Background()
	line := write(func(w *writer) { w.line("next") })
	if err := r.Update(ctx, line); !errors.Is(err, bindb.ErrReadOnly) {
		t.Fatal(err)
	}
	// Readers of an owned root never look at the files.
	err := r.View(ctx, func(rd bindb.Reader) error {
		n, err := bindb.Lines.Count(rd)
		if n > 1 {
			t.Errorf("a reader sees %d Lines", n)
		}
		return err
	})
	if owned != (err == nil) || err != nil && !errors.Is(err, bindb.ErrReadOnly) {
		t.Errorf("a reader who would see half a batch gets %v", err)
	}
	sim.Fail(nil)
	closeRoot(t, r)
	sim.Capture()
	r = open(t, cfg)
	if dump(t, cfg) != before {
		t.Error("the batch is there, but its sync failed")
	}
	mustLast(t, sim, cfg, before)
	closeRoot(t, r)
}

// The power goes after a failed sync, before anybody has recovered.
func TestCrashAfterFailedSync(t *testing.T) {
	t.Parallel()
	broken := func(vfs.Op) error { return syscall.EIO }
	faults(t, []vfs.OpKind{vfs.OpSync}, broken, func(t *testing.T, f *faultRun) {
		f.sim.Capture()
		seen := map[uint64]bool{}
		for disk := range f.sim.CrashStates(f.sim.OpCount(), vfs.Policy{Tears: 1, Random: 8}) {
			if fp := disk.Fingerprint(); seen[fp] {
				continue
			} else {
				seen[fp] = true
			}
			again := f.cfg
			again.FS = disk
			r := open(t, again)
			if findings, err := r.Check(context.Background()); err != nil || len(findings) > 0 {
				t.Fatalf("after %v, %s: %v %v", f.op, disk.Origin(), findings, err)
			}
			closeRoot(t, r)
		}
	})
}

// Nothing can be written any more from some point on, not even to put files
// back.
func TestDiskThatStaysBroken(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
		t.Run(errno.Error(), func(t *testing.T) {
			t.Parallel()
			var task uint32
			whole := stateAfter(t, seed, story(&task)[0])
			for n := 1; ; n++ {
				sim, cfg := simConfig(t)
				create(t, cfg)
				r := open(t, cfg)
				update(t, r, seed)
				before := dump(t, cfg)
				count, failed := 0, false
				sim.Fail(serially(func(op vfs.Op) error {
					switch op.Kind {
					case vfs.OpWrite, vfs.OpSync, vfs.OpTruncate, vfs.OpSyncDir, vfs.OpCreate:
						if count++; count >= n {
							failed = true
							return errno
						}
					}
					return nil
				}))
				err := r.Update(context.Background(), write(story(&task)[0]))
				if !failed {
					if err != nil {
						t.Fatal(err)
					}
					closeRoot(t, r)
					return
				}
				// A reader sees the old state or is told that it can't.
				verr := r.View(context.Background(), func(rd bindb.Reader) error {
					n, err := bindb.Tasks.Count(rd)
					if err == nil && n != 0 && dump(t, cfg) == before {
						t.Errorf("fault %d: a reader sees %d Tasks", n, n)
					}
					return err
				})
				if err == nil && verr != nil {
					t.Errorf("fault %d: after an acknowledged batch a reader gets %v", n, verr)
				}
				closeRoot(t, r)
				sim.Fail(nil)
				r = open(t, cfg)
				// Where not even the failure could be noted, the batch may
				// turn out to be there, but then as a whole.
				if got := dump(t, cfg); got != whole && (err == nil || got != before) {
					t.Fatalf("fault %d (%v): recovery came to\n%s", n, err, got)
				}
				closeRoot(t, r)
			}
		})
	}
}

// stateAfter is the state of a root after the given batches.
func stateAfter(t *testing.T, steps ...func(w *writer)) string {
	t.Helper()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	for _, step := range steps {
		update(t, r, step)
	}
	closeRoot(t, r)
	return dump(t, cfg)
}

// Whatever an open meets, it says so and leaves the root for the next one.
func TestFaultsOnOpen(t *testing.T) {
	t.Parallel()
	var task uint32
	whole := stateAfter(t, seed, story(&task)[0])
	for n := 0; ; n++ {
		sim, cfg := simConfig(t)
		create(t, cfg)
		first := cfg
		proc := sim.Process()
		first.FS = proc
		r := open(t, first)
		update(t, r, seed)
		sim.Fail(serially(func(op vfs.Op) error {
			if op.Kind == vfs.OpSync && path.Base(op.Path) == "task.bin" {
				proc.Crash()
			}
			return nil
		}))
		_ = r.Update(context.Background(), write(story(&task)[0]))
		count, met := 0, vfs.Op{}
		sim.Fail(serially(func(op vfs.Op) error {
			if met.Path == "" && op.Kind != vfs.OpUnlock {
				if count++; count > n {
					met = op
					return syscall.EIO
				}
			}
			return nil
		}))
		second, err := bindb.Open(context.Background(), cfg)
		sim.Fail(nil)
		if err == nil && met.Path != "" && !harmlessOnOpen(met) {
			t.Fatalf("the open went on after %v", met)
		}
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatalf("after %v the error is %v", met, err)
		}
		if err != nil {
			second = open(t, cfg)
		}
		if dump(t, cfg) != whole {
			t.Fatalf("after %v recovery came to another state", met)
		}
		closeRoot(t, second)
		if met.Path == "" {
			return
		}
	}
}

// harmlessOnOpen are operations without which nothing is missing: the mark and
// the checksums are disposable, and closing comes after what counts.
func harmlessOnOpen(op vfs.Op) bool {
	return strings.HasPrefix(op.Path, "/runtime/mark") || strings.HasPrefix(op.Path, "/runtime/sums") || strings.HasPrefix(op.Path, "/runtime/sums") || op.Kind == vfs.OpClose
}

// Nothing of a clean stop is authority.
func TestFaultsOnClose(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		sim, cfg := simConfig(t)
		create(t, cfg)
		r := open(t, cfg)
		update(t, r, seed)
		update(t, r, func(w *writer) {
			for i := range 100 {
				w.snapshot(0)
				w.actor(fmt.Sprint("a", i))
			}
		})
		want := dump(t, cfg)
		count, met := 0, vfs.Op{}
		sim.Fail(serially(func(op vfs.Op) error {
			if met.Path == "" && op.Kind != vfs.OpClose && op.Kind != vfs.OpUnlock {
				if count++; count > n {
					met = op
					return syscall.EIO
				}
			}
			return nil
		}))
		if err := r.Close(); err != nil {
			t.Fatalf("after %v: %v", met, err)
		}
		sim.Fail(nil)
		r = open(t, cfg)
		if findings, err := r.Check(context.Background()); err != nil || len(findings) > 0 || dump(t, cfg) != want {
			t.Fatalf("after %v: %v %v", met, findings, err)
		}
		err := r.View(context.Background(), func(rd bindb.Reader) error {
			for i := range 100 {
				found := 0
				if err := bindb.ActorsByName(rd, fmt.Sprint("a", i), func(uint32) (bool, error) { found++; return true, nil }); err != nil {
					return err
				}
				if found != 1 {
					t.Errorf("after %v Actor %d was found %d times", met, i, found)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		closeRoot(t, r)
		if met.Path == "" {
			return
		}
	}
}
