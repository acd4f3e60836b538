package bindb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// owned says whether the fixtures make roots that their process owns.
var owned = os.Getenv("WRIT_TEST_OWN") != ""

// shared skips a test about several processes at one root.
func shared(t *testing.T) {
	t.Helper()
	if owned {
		t.Skip("an owned root is not shared")
	}
}

// TestEverythingOwned runs all other tests once more, on owned roots.
func TestEverythingOwned(t *testing.T) {
	t.Parallel()
	if owned {
		t.Skip("this is the second run")
	}
	args := []string{"-test.run=^(Test|Example)", "-test.timeout=10m"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "WRIT_TEST_OWN=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// watchedFS calls before and after around every sync of a file. A nil one is
// skipped.
type watchedFS struct {
	vfs.FS
	before, after func(file string)
}

type watchedFile struct {
	vfs.File
	fs   *watchedFS
	name string
}

func (w *watchedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := w.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w, filepath.Base(name)}, nil
}

func (f *watchedFile) Sync() error {
	if f.fs.before != nil {
		f.fs.before(f.name)
	}
	err := f.File.Sync()
	if err == nil && f.fs.after != nil {
		f.fs.after(f.name)
	}
	return err
}

// watchedRoot is an owned root on a watched simulated disk.
func watchedRoot(t *testing.T) (*watchedFS, *bindb.Root) {
	t.Helper()
	sim, cfg := simConfig(t)
	create(t, cfg)
	w := &watchedFS{FS: sim}
	cfg.FS, cfg.Own = w, true
	r := open(t, cfg)
	update(t, r, seed)
	return w, r
}

func view(t *testing.T, r *bindb.Root, fn func(rd bindb.Reader) error) {
	t.Helper()
	if err := r.View(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

// While a batch waits for each of its syncs, readers get the state before it at
// once, also of files that nobody has read yet.
func TestOwnerReadsDuringASync(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	closeRoot(t, r)
	entered, proceed := make(chan string), make(chan struct{})
	w := &watchedFS{FS: sim, before: func(file string) { entered <- file; <-proceed }}
	cfg.FS, cfg.Own = w, true
	r = open(t, cfg)
	done := make(chan error)
	go func() {
		done <- r.Update(context.Background(), write(func(w *writer) {
			w.line("next")
			change(w, bindb.Actors, 0, func(a *record.Actor) { a.LastSeenAt = 99 })
		}))
	}()
	var files []string
	for waiting := true; waiting; {
		select {
		case file := <-entered:
			files = append(files, file)
			view(t, r, func(rd bindb.Reader) error {
				lines, err := bindb.Lines.Count(rd)
				if err != nil {
					return err
				}
				found := 0
				err = bindb.LinesByName(rd, "next", func(uint32) (bool, error) { found++; return true, nil })
				if err != nil {
					return err
				}
				ada, err := bindb.Actors.Get(rd, 0)
				if lines != 1 || found != 0 || ada.LastSeenAt != 10 {
					t.Errorf("before the sync of %s a reader sees %d Lines, finds %d and sees the Actor of %d", file, lines, found, ada.LastSeenAt)
				}
				return err
			})
			proceed <- struct{}{}
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		}
	}
	slices.Sort(files)
	if want := []string{"4", "actor.bin", "line.bin", "line_name_payload.bin"}; !slices.Equal(files, want) {
		t.Errorf("the batch has synced %v, want %v", files, want)
	}
	view(t, r, func(rd bindb.Reader) error {
		ada, err := bindb.Actors.Get(rd, 0)
		if ada.LastSeenAt != 99 {
			t.Errorf("after the batch the Actor is of %d", ada.LastSeenAt)
		}
		return err
	})
	closeRoot(t, r)
}

// Readers that run all the time see each batch as a whole, never before it is
// durable, and never lose one that was acknowledged.
func TestOwnerReadersSeeWholeDurableBatches(t *testing.T) {
	t.Parallel()
	const lines, batches = 20, 100
	w, r := watchedRoot(t)
	update(t, r, func(w *writer) {
		for i := range lines - 1 {
			w.line(fmt.Sprint("line ", i))
		}
	})
	var durable, acknowledged atomic.Uint64
	durable.Store(10)
	acknowledged.Store(10)
	w.after = func(file string) {
		if file == "line.bin" {
			durable.Add(1)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ; ctx.Err() == nil; runtime.Gosched() {
				from := acknowledged.Load()
				view(t, r, func(rd bindb.Reader) error {
					first, err := bindb.Lines.Get(rd, 0)
					if err != nil {
						return err
					}
					err = bindb.Lines.Scan(rd, 0, lines, func(i uint32, l *record.Line) error {
						if l.UpdatedAt != first.UpdatedAt || l.CreatedAt != 10 {
							t.Errorf("Line %d is of %d, Line 0 of %d", i, l.UpdatedAt, first.UpdatedAt)
						}
						return nil
					})
					if got, to := uint64(first.UpdatedAt), durable.Load(); got < from || got > to {
						t.Errorf("a reader sees batch %d; %d was acknowledged before and %d is durable now", got, from, to)
					}
					return err
				})
			}
		})
	}
	for i := range uint64(batches) {
		update(t, r, func(w *writer) {
			for j := range uint32(lines) {
				change(w, bindb.Lines, j, func(l *record.Line) { l.UpdatedAt++ })
			}
		})
		acknowledged.Store(11 + i)
	}
	stop()
	wg.Wait()
	closeRoot(t, r)
}

// A Reader shows the batch that it was taken after, whatever follows. The records
// and the payload cross the pieces in which they lie in memory.
func TestReadersStayAsTheyAre(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	cfg.Own = true
	r := open(t, cfg)
	rnd := rand.New(rand.NewPCG(1, 2))
	model := &txModel{}
	type taken struct {
		rd    bindb.Reader
		model *txModel
	}
	var all []taken
	take := func() {
		rd, err := r.Reader()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, taken{rd, model})
	}
	for step := range 60 {
		next := model.clone()
		update(t, r, func(w *writer) {
			for range rnd.IntN(300) {
				p := uint16(rnd.Uint32())
				appendTo(w, bindb.PolicyChecks, phase(p))
				next.phases = append(next.phases, p)
			}
			for range rnd.IntN(20) {
				if n := len(next.phases); n > 0 {
					i, p := rnd.IntN(n), uint16(rnd.Uint32())
					w.keep(bindb.PolicyChecks.Put(w.tx, uint32(i), phase(p)))
					next.phases[i] = p
				}
			}
			b := bytes.Repeat([]byte{byte(step)}, rnd.IntN(20_000))
			_, err := bindb.ReviewPayload.Append(w.tx, b)
			w.keep(err)
			next.bytes = append(next.bytes, b...)
		})
		model = next
		take()
		if step%20 == 10 {
			closeRoot(t, r)
			r = open(t, cfg)
			take()
		}
	}
	if len(model.phases) < 3000 || len(model.bytes) < 300_000 {
		t.Fatalf("%d records and %d bytes cross nothing", len(model.phases), len(model.bytes))
	}
	for i, x := range all {
		if err := compare(x.rd, x.model); err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
	}
	closeRoot(t, r)
	if _, err := r.Reader(); !errors.Is(err, bindb.ErrClosed) {
		t.Errorf("a closed root gives %v", err)
	}
	cfg.Own = false
	r = open(t, cfg)
	if _, err := r.Reader(); !errors.Is(err, bindb.ErrNotOwned) {
		t.Errorf("a shared root gives %v", err)
	}
	view(t, r, func(rd bindb.Reader) error { return compare(rd, model) })
	closeRoot(t, r)
}

// Lookups run beside appends, find what their reader has, and nothing newer.
func TestOwnerLookups(t *testing.T) {
	t.Parallel()
	const n = 3000
	_, r := watchedRoot(t)
	update(t, r, func(w *writer) { w.line("again") })
	old, err := r.Reader()
	if err != nil {
		t.Fatal(err)
	}
	known := make(chan int, n) // Actors that are there
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range known {
				view(t, r, func(rd bindb.Reader) error {
					var hits []uint32
					err := bindb.ActorsByName(rd, fmt.Sprint("actor ", i), func(i uint32) (bool, error) { hits = append(hits, i); return true, nil })
					if len(hits) != 1 || hits[0] != uint32(i)+1 {
						t.Errorf("Actor %d was found at %v", i, hits)
					}
					return err
				})
			}
		})
	}
	for i := 0; i < n; {
		k := min(1+i/10, n-i) // the last ones at once, as rows of their own
		update(t, r, func(w *writer) {
			for j := range k {
				w.actor(fmt.Sprint("actor ", i+j))
			}
			w.line("again")
		})
		for ; k > 0; k-- {
			known <- i
			i++
		}
	}
	close(known)
	wg.Wait()
	var hits []uint32
	err = bindb.LinesByName(old, "again", func(i uint32) (bool, error) { hits = append(hits, i); return true, nil })
	if err != nil || !slices.Equal(hits, []uint32{1}) {
		t.Errorf("an old reader finds %v, %v", hits, err)
	}
	closeRoot(t, r)
}

func TestOwnerIsAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, procs, cfgs := processes(t)
	cfgs[0].Own = true
	cfgs[1].LockWait = time.Millisecond
	owner := open(t, cfgs[0])
	update(t, owner, seed)
	for _, own := range []bool{true, false} {
		second := cfgs[1]
		second.Own = own
		_, err := bindb.Open(ctx, second)
		if !errors.Is(err, bindb.ErrBusy) || !strings.Contains(err.Error(), "/4/worker-queue.lock") {
			t.Errorf("a second opener gets %v", err)
		}
	}
	// The journal of its batches stands, which is no interruption.
	update(t, owner, func(w *writer) { w.line("next") })
	closeRoot(t, owner)
	cfgs[1].Own = true
	second := open(t, cfgs[1])
	if n := lineCount(t, second); n != 2 {
		t.Errorf("there are %d Lines", n)
	}
	procs[1].Crash()
	// An open that fails gives the locks back.
	patch(t, cfgs[0], "line.bin", bindb.HeaderSize+40, []byte{0xff})
	damaged := cfgs[0]
	damaged.Runtime = "/elsewhere"
	for range 2 {
		if _, err := bindb.Open(ctx, damaged); !errors.Is(err, bindb.ErrCorrupt) {
			t.Errorf("a damaged root gives %v", err)
		}
	}
}

// After a failed sync the readers of the owner go on with the last batch that was
// acknowledged, whatever has become of the files.
func TestOwnerAfterAFailedSync(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"4", "line_name_payload.bin", "line.bin"} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			sim, cfg := simConfig(t)
			create(t, cfg)
			cfg.Own = true
			r := open(t, cfg)
			update(t, r, seed)
			failed := false
			sim.Fail(serially(func(op vfs.Op) error {
				failed = failed || op.Kind == vfs.OpSync && path.Base(op.Path) == broken
				if failed && op.Kind < vfs.OpOpen {
					return syscall.EIO // nothing can be put back
				}
				return nil
			}))
			next := write(func(w *writer) {
				w.line("next")
				change(w, bindb.Lines, 0, func(l *record.Line) { l.UpdatedAt++ })
			})
			for range 2 {
				if err := r.Update(ctx, next); !errors.Is(err, bindb.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
					t.Fatalf("got %v", err)
				}
				view(t, r, func(rd bindb.Reader) error {
					n, err := bindb.Lines.Count(rd)
					if err != nil {
						return err
					}
					main, err := bindb.Lines.Get(rd, 0)
					if n != 1 || main.UpdatedAt != 10 {
						t.Errorf("a reader sees %d Lines, the first of %d", n, main.UpdatedAt)
					}
					return err
				})
			}
			sim.Fail(nil)
			closeRoot(t, r)
			r = open(t, cfg)
			update(t, r, func(w *writer) { w.line("after") })
			closeRoot(t, r)
		})
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	_, r := watchedRoot(t)
	before := r.Stats()
	errs := r.Batch(context.Background(),
		write(func(w *writer) { w.line("a") }),
		write(func(w *writer) { w.keep(bindb.ErrInvalid) }),
		write(func(w *writer) { w.line("b") }),
	)
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Fatal(errs)
	}
	now := r.Stats()
	// The journal, the names and the Lines.
	if now.Batches-before.Batches != 1 || now.Mutations-before.Mutations != 2 || now.Syncs-before.Syncs != 3 || now.Bytes <= before.Bytes {
		t.Errorf("from %+v to %+v", before, now)
	}
	closeRoot(t, r)
}
