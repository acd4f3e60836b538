package bindb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// processes are two simulated processes that share a root.
func processes(t *testing.T) (sim *vfs.Sim, procs [2]*vfs.Process, cfgs [2]bindb.Config) {
	t.Helper()
	sim, cfg := simConfig(t)
	create(t, cfg)
	for i := range procs {
		procs[i] = sim.Process()
		cfgs[i] = cfg
		cfgs[i].FS = procs[i]
	}
	return sim, procs, cfgs
}

func lineCount(t *testing.T, r *bindb.Root) uint32 {
	t.Helper()
	var n uint32
	err := r.View(context.Background(), func(rd bindb.Reader) (err error) {
		n, err = bindb.Lines.Count(rd)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTwoProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	shared(t)
	sim, _, cfgs := processes(t)
	a, b := open(t, cfgs[0]), open(t, cfgs[1])
	update(t, a, seed)
	roots := []*bindb.Root{a, b}
	for i := range 10 {
		update(t, roots[i%2], func(w *writer) { w.line(fmt.Sprint("line ", i)) })
		ops := opsOf(sim, func() {
			for _, r := range roots {
				if n := lineCount(t, r); n != uint32(i+2) {
					t.Errorf("after turn %d there are %d Lines", i, n)
				}
			}
		})
		if len(ops) > 0 {
			t.Errorf("reading after another process has committed changes the disk: %v", ops)
		}
	}
	for i := range 10 {
		for _, r := range roots {
			err := r.View(context.Background(), func(rd bindb.Reader) error {
				found := 0
				err := bindb.LinesByName(rd, fmt.Sprint("line ", i), func(uint32) (bool, error) { found++; return true, nil })
				if found != 1 {
					t.Errorf("Line %d was found %d times", i, found)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// One stops and takes the journal away; the other goes on.
	closeRoot(t, a)
	update(t, b, func(w *writer) { w.line("last") })
	closeRoot(t, b)
	if found, err := vfs.Exists(sim, "/runtime/journal/4"); found || err != nil {
		t.Errorf("after the last clean stop the journal is still there: %v", err)
	}
	r := open(t, cfgs[0])
	if n := lineCount(t, r); n != 12 {
		t.Errorf("there are %d Lines", n)
	}
	closeRoot(t, r)
}

// A process dies at each operation of a batch. The other one, which has the
// root open, finds the old state or the new one, and goes on.
func TestProcessDiesAtAnyOperation(t *testing.T) {
	t.Parallel()
	shared(t)
	var task uint32
	steps := story(&task)
	before := stateAfter(t, seed, steps[0])
	whole := stateAfter(t, seed, steps[0], steps[1])
	for n := 1; ; n++ {
		sim, procs, cfgs := processes(t)
		a, b := open(t, cfgs[0]), open(t, cfgs[1])
		update(t, b, seed)
		update(t, a, steps[0])
		count, died := 0, false
		sim.Fail(serially(func(op vfs.Op) error {
			if op.Kind <= vfs.OpUnlock && !died {
				if count++; count == n {
					died = true
					procs[0].Crash()
				}
			}
			return nil
		}))
		err := a.Update(context.Background(), write(steps[1]))
		sim.Fail(nil)
		sim.Capture()
		if n%2 == 0 { // a reader recovers as well as a writer does
			lineCount(t, b)
		} else {
			update(t, b, func(*writer) {})
		}
		got := dump(t, cfgs[1])
		if got != whole && (err == nil || got != before) {
			t.Fatalf("death at operation %d (%v) left\n%s", n, err, got)
		}
		mustLast(t, sim, cfgs[1], got)
		if findings, err := b.Check(context.Background()); err != nil || len(findings) > 0 {
			t.Fatalf("death at operation %d: %v %v", n, findings, err)
		}
		update(t, b, func(w *writer) { w.line("onwards") })
		closeRoot(t, b)
		if !died {
			return
		}
	}
}

// mustLast fails the test unless a power cut at this moment leaves the given
// state. The disk is being captured.
func mustLast(t *testing.T, sim *vfs.Sim, cfg bindb.Config, want string) {
	t.Helper()
	seen := map[uint64]bool{}
	for disk := range sim.CrashStates(sim.OpCount(), vfs.Policy{Tears: 1, Random: 2, Seed: 1}) {
		fp := disk.Fingerprint()
		if seen[fp] {
			continue
		}
		seen[fp] = true
		cfg.FS = disk
		closeRoot(t, open(t, cfg))
		if got := dump(t, cfg); got != want {
			t.Fatalf("%s: what was shown to readers is lost:\n%s", disk.Origin(), got)
		}
	}
}

// A process that was killed while it had nothing to do leaves a journal that
// nobody has to act upon, even if the files have changed since.
func TestIdleProcessDies(t *testing.T) {
	t.Parallel()
	sim, procs, cfgs := processes(t)
	a := open(t, cfgs[0])
	update(t, a, seed)
	procs[0].Crash()
	// Another implementation, without a journal of this kind, appends.
	patch(t, cfgs[1], "line_name_payload.bin", bindb.HeaderSize+int64(len("main")), []byte("other"))
	state := dump(t, cfgs[1])
	b := open(t, cfgs[1])
	if dump(t, cfgs[1]) != state {
		t.Error("the open took back what it knew nothing of")
	}
	closeRoot(t, b)
	_ = sim
}

func TestLockIsBounded(t *testing.T) {
	t.Parallel()
	shared(t)
	_, _, cfgs := processes(t)
	cfgs[1].LockWait = time.Millisecond
	a, b := open(t, cfgs[0]), open(t, cfgs[1])
	err := a.Exclusive(context.Background(), func(s *bindb.Session) error {
		if err := b.Update(context.Background(), write(seed)); !errors.Is(err, bindb.ErrBusy) {
			t.Errorf("a writer gets %v", err)
		}
		if err := b.View(context.Background(), func(bindb.Reader) error { return nil }); !errors.Is(err, bindb.ErrBusy) {
			t.Errorf("a reader gets %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := b.Update(ctx, write(seed)); !errors.Is(err, context.Canceled) {
			t.Errorf("a writer without patience gets %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	update(t, b, seed)
	closeRoot(t, a)
	closeRoot(t, b)
}

func TestForeignJournal(t *testing.T) {
	t.Parallel()
	_, procs, cfgs := processes(t)
	a := open(t, cfgs[0])
	update(t, a, seed)
	procs[0].Crash()
	foreign := cfgs[1]
	foreign.Identity = [32]byte{2}
	state := dump(t, foreign)
	if _, err := bindb.Open(context.Background(), foreign); !errors.Is(err, bindb.ErrForeign) {
		t.Errorf("got %v", err)
	}
	if dump(t, foreign) != state {
		t.Error("a foreign journal was applied")
	}
	closeRoot(t, open(t, cfgs[1]))
}

// A root that was removed is not made again by whoever still has it open.
func TestRemovedRootStaysRemoved(t *testing.T) {
	t.Parallel()
	shared(t)
	sim, _, cfgs := processes(t)
	r := open(t, cfgs[0])
	if err := sim.RemoveAll(cfgs[0].Dir); err != nil {
		t.Fatal(err)
	}
	if err := r.Update(context.Background(), write(seed)); err == nil {
		t.Error("a removed root was written")
	}
	if found, err := vfs.Exists(sim, cfgs[0].Dir); found || err != nil {
		t.Errorf("the directory is there again: %v", err)
	}
	closeRoot(t, r)
}

// reads counts the bytes that are read of .bin files while fn runs.
func reads(sim *vfs.Sim, fn func()) (bytes int64, opened map[string]bool) {
	opened = map[string]bool{}
	sim.Fail(serially(func(op vfs.Op) error {
		if strings.HasSuffix(op.Path, ".bin") {
			switch op.Kind {
			case vfs.OpRead:
				bytes += op.Len
			case vfs.OpOpen:
				opened[filepath.Base(op.Path)] = true
			}
		}
		return nil
	}))
	fn()
	sim.Fail(nil)
	return bytes, opened
}

func TestMark(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	setup := func(t *testing.T) (*vfs.Sim, bindb.Config) {
		sim, cfg := simConfig(t)
		create(t, cfg)
		r := open(t, cfg)
		update(t, r, seed)
		var task uint32
		for _, step := range story(&task) {
			update(t, r, step)
		}
		closeRoot(t, r)
		return sim, cfg
	}
	grow := func(t *testing.T, sim *vfs.Sim, cfg bindb.Config) {
		proc := sim.Process()
		cfg.FS = proc
		r := open(t, cfg)
		update(t, r, func(w *writer) { w.line("behind the mark") })
		proc.Crash()
	}
	t.Run("after a clean stop", func(t *testing.T) {
		t.Parallel()
		sim, cfg := setup(t)
		n, opened := reads(sim, func() { closeRoot(t, open(t, cfg)) })
		if n > 0 || len(opened) > 0 {
			t.Errorf("the open read %d bytes of %v", n, opened)
		}
	})
	t.Run("with records behind it", func(t *testing.T) {
		t.Parallel()
		sim, cfg := setup(t)
		grow(t, sim, cfg)
		// What the mark vouches for is not read again.
		patch(t, cfg, "task.bin", bindb.HeaderSize, []byte{0xff})
		r := open(t, cfg)
		if findings, err := r.Check(ctx); err != nil || len(findings) == 0 {
			t.Errorf("a full check finds %v, %v", findings, err)
		}
		closeRoot(t, r)
	})
	t.Run("with a damaged record behind it", func(t *testing.T) {
		t.Parallel()
		sim, cfg := setup(t)
		grow(t, sim, cfg)
		patch(t, cfg, "line.bin", bindb.HeaderSize+40, []byte{0xff})
		_, err := bindb.Open(ctx, cfg)
		if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "line.bin record 1: line_meta") || !strings.Contains(err.Error(), "F06") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("beyond a file", func(t *testing.T) {
		t.Parallel()
		sim, cfg := setup(t)
		f, err := sim.OpenFile("/4/review.bin", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(bindb.HeaderSize), f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := bindb.Open(ctx, cfg); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "review.bin") {
			t.Errorf("got %v", err)
		}
	})
	for name, damage := range map[string]func(t *testing.T, f vfs.File) error{
		"damaged":   func(t *testing.T, f vfs.File) error { _, err := f.WriteAt([]byte("x"), 70); return err },
		"cut":       func(t *testing.T, f vfs.File) error { return f.Truncate(100) },
		"empty":     func(t *testing.T, f vfs.File) error { return f.Truncate(0) },
		"too large": func(t *testing.T, f vfs.File) error { return f.Truncate(1 << 20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := setup(t)
			f, err := sim.OpenFile("/runtime/mark/4", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(damage(t, f), f.Close()); err != nil {
				t.Fatal(err)
			}
			n, _ := reads(sim, func() { closeRoot(t, open(t, cfg)) })
			if n == 0 {
				t.Error("the open trusted the mark")
			}
		})
	}
	t.Run("of another root", func(t *testing.T) {
		t.Parallel()
		sim, cfg := setup(t)
		cfg.Identity = [32]byte{9}
		if n, _ := reads(sim, func() { closeRoot(t, open(t, cfg)) }); n == 0 {
			t.Error("the open trusted the mark")
		}
	})
}

func TestIndexIsNeverTrusted(t *testing.T) {
	t.Parallel()
	const n = 200
	setup := func(t *testing.T) (*vfs.Sim, bindb.Config) {
		sim, cfg := simConfig(t)
		create(t, cfg)
		r := open(t, cfg)
		update(t, r, func(w *writer) {
			w.line("main")
			for i := range n {
				w.actor(fmt.Sprint("actor ", i))
				w.snapshot(0)
			}
		})
		closeRoot(t, r)
		return sim, cfg
	}
	find := func(t *testing.T, cfg bindb.Config) {
		t.Helper()
		r := open(t, cfg)
		defer closeRoot(t, r)
		err := r.View(context.Background(), func(rd bindb.Reader) error {
			for i := range n {
				hits := map[uint32]bool{}
				hit := func(i uint32) (bool, error) { hits[i] = true; return true, nil }
				if err := bindb.ActorsByName(rd, fmt.Sprint("actor ", i), hit); err != nil {
					return err
				}
				if !hits[uint32(i)] || len(hits) != 1 {
					t.Fatalf("Actor %d: found %v", i, hits)
				}
				clear(hits)
				if err := bindb.SnapshotsByHash(rd, uint64(i)+1, hit); err != nil {
					return err
				}
				if !hits[uint32(i)] || len(hits) != 1 {
					t.Fatalf("Snapshot %d: found %v", i, hits)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(t *testing.T, sim *vfs.Sim, path string) error{
		"sound":   func(*testing.T, *vfs.Sim, string) error { return nil },
		"missing": func(_ *testing.T, sim *vfs.Sim, path string) error { return sim.Remove(path) },
		"short": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return resize(sim, path, func(size int64) int64 { return size - 12 })
		},
		"long": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return resize(sim, path, func(size int64) int64 { return size + 12 })
		},
		"empty": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return resize(sim, path, func(int64) int64 { return 0 })
		},
		"zeros": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return overwrite(sim, path, func(b []byte) { clear(b[bindb.HeaderSize:]) })
		},
		"one flipped bit": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return overwrite(sim, path, func(b []byte) { b[len(b)/2] ^= 4 })
		},
		"another target": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return overwrite(sim, path, func(b []byte) { binary.LittleEndian.PutUint32(b[len(b)-4:], 3) })
		},
		"unsorted": func(_ *testing.T, sim *vfs.Sim, path string) error {
			return overwrite(sim, path, func(b []byte) {
				row := append([]byte(nil), b[4:16]...)
				copy(b[4:16], b[len(b)-12:])
				copy(b[len(b)-12:], row)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := setup(t)
			for _, file := range []string{"/4/actor_lookup.idx", "/4/snapshot_id.idx"} {
				if err := damage(t, sim, file); err != nil {
					t.Fatal(err)
				}
			}
			find(t, cfg)
			find(t, cfg)
		})
	}
}

func resize(sim *vfs.Sim, path string, size func(int64) int64) error {
	f, err := sim.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	n, err := f.Size()
	return errors.Join(err, f.Truncate(size(n)), f.Close())
}

func overwrite(sim *vfs.Sim, path string, fn func(b []byte)) error {
	b, err := vfs.ReadFile(sim, path, 1<<20)
	if err != nil {
		return err
	}
	fn(b)
	f, err := sim.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	cfg := bindb.Config{FS: sim, Dir: "/registry", Kind: record.RootRegistry, Label: "registry", Runtime: "/runtime", Identity: [32]byte{3}}
	ctx := context.Background()
	add := func(w *writer, name string) uint32 {
		off, n := w.text(bindb.RepositoryPayload, &record.RepositoryPayload{Name: name})
		return appendTo(w, bindb.Repositories, record.Repository{
			Lifecycle: record.LifecycleActive, PolicyFlags: record.DefaultPolicyFlags,
			PayloadLen: uint32(n), PayloadOffset: off, CreatedAt: 10, UpdatedAt: 10,
		})
	}
	err := bindb.CreateWith(ctx, cfg, write(func(w *writer) {
		for _, name := range record.ReservedRepositories {
			add(w, name)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, cfg)
	update(t, r, func(w *writer) { add(w, "mine") })
	closeRoot(t, r)
	r = open(t, cfg)
	if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
		t.Errorf("%v %v", findings, err)
	}
	closeRoot(t, r)
	if err := bindb.CreateWith(ctx, cfg, write(func(*writer) {})); err == nil {
		t.Error("a root was made where one is")
	}
}

// Batches are told apart by their numbers, in the memory of every process that has
// the root open. So a number never comes a second time, whatever becomes of the
// journal: with one that it has seen, a process would take its checksums for those
// of the files, and sound records for damaged ones.
func TestNumbersOfBatchesOnlyGrow(t *testing.T) {
	t.Parallel()
	shared(t)
	ctx := context.Background()
	touch := func(t *testing.T, r *bindb.Root, line uint32) {
		t.Helper()
		update(t, r, func(w *writer) { change(w, bindb.Lines, line, func(l *record.Line) { l.UpdatedAt++ }) })
	}
	stop := func(t *testing.T, cfg bindb.Config) {
		t.Helper()
		r := open(t, cfg)
		touch(t, r, 0)
		touch(t, r, 0)
		closeRoot(t, r)
	}
	for name, meanwhile := range map[string]func(t *testing.T, sim *vfs.Sim, cfg bindb.Config){
		"a journal that was made and not written": func(t *testing.T, sim *vfs.Sim, cfg bindb.Config) {
			stop(t, cfg)
			if err := writeFile(sim, "/runtime/journal/4", nil); err != nil {
				t.Fatal(err)
			}
		},
		"a mark that cannot be read at once": func(t *testing.T, sim *vfs.Sim, cfg bindb.Config) {
			stop(t, cfg)
			failed := false
			sim.Fail(serially(func(op vfs.Op) error {
				if op.Kind == vfs.OpOpen && op.Path == "/runtime/mark/4" && !failed {
					failed = true
					return syscall.EMFILE
				}
				return nil
			}))
		},
		"a torn journal": func(t *testing.T, sim *vfs.Sim, cfg bindb.Config) {
			r, late := open(t, cfg), open(t, cfg)
			touch(t, r, 0)
			touch(t, r, 0)
			sim.Fail(serially(func(op vfs.Op) error {
				if op.Kind == vfs.OpWrite && op.Path == "/runtime/journal/4" {
					return &vfs.ShortWrite{N: 100, Err: syscall.ENOSPC}
				}
				return nil
			}))
			if err := r.Update(ctx, write(func(w *writer) { w.line("too much") })); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			sim.Fail(nil)
			lineCount(t, late) // which finds the torn journal
			r = open(t, cfg)
			touch(t, r, 0)
			touch(t, r, 0)
		},
		"an append intent": func(t *testing.T, sim *vfs.Sim, cfg bindb.Config) {
			stop(t, cfg)
			d := disk{t, sim, cfg}
			d.write(appendIntentFile, appendIntent(uint64(d.size("worker_job.bin"))))
			r := open(t, cfg)
			touch(t, r, 0)
			touch(t, r, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, procs, cfgs := processes(t)
			a := open(t, cfgs[0])
			update(t, a, seed)
			touch(t, a, 0)
			meanwhile(t, sim, cfgs[1])
			err := a.Update(ctx, write(func(w *writer) { change(w, bindb.Lines, 0, func(l *record.Line) { l.UpdatedAt++ }) }))
			if err != nil && !errors.Is(err, syscall.EMFILE) {
				t.Fatal(err)
			}
			touch(t, a, 0)
			procs[1].Crash()
			closeRoot(t, a)
			a = open(t, cfgs[0])
			expect(t, a, "")
			closeRoot(t, a)
		})
	}
}

// A mark does not vouch for records that somebody else has appended, without
// batches, while the root was open.
func TestMarkOfRecordsThatNobodyHasSeen(t *testing.T) {
	t.Parallel()
	shared(t)
	for name, step := range map[string]func(w *writer){
		"in another file":                 func(w *writer) { w.actor("somebody") },
		"in a file that a batch appended": func(w *writer) { w.line("later") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			r := open(t, cfg)
			err := resize(sim, cfg.Dir+"/line.bin", func(n int64) int64 { return n + record.LineSize })
			if err != nil {
				t.Fatal(err)
			}
			patch(t, cfg, "line.bin", (disk{t, sim, cfg}).size("line.bin")-record.LineSize, []byte{0xff})
			update(t, r, step)
			closeRoot(t, r)
			if _, err = bindb.Open(context.Background(), cfg); !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "line.bin record") {
				t.Fatalf("the open gave %v", err)
			}
		})
	}
}
