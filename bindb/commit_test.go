package bindb_test

import (
	"context"
	"errors"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// opsOf returns the operations of fn without locks.
func opsOf(sim *vfs.Sim, fn func()) []vfs.Op {
	from := sim.OpCount()
	fn()
	return slices.DeleteFunc(sim.Ops()[from:], func(op vfs.Op) bool {
		return op.Kind == vfs.OpLock || op.Kind == vfs.OpUnlock
	})
}

// at returns the positions of the operations of a kind on a file.
func at(ops []vfs.Op, kind vfs.OpKind, file string) []int {
	var list []int
	for i, op := range ops {
		if op.Kind == kind && path.Base(op.Path) == file {
			list = append(list, i)
		}
	}
	return list
}

// before fails the test unless every operation of a comes before every one of b
// and both are there.
func before(t *testing.T, ops []vfs.Op, what string, a, b []int) {
	t.Helper()
	if len(a) == 0 || len(b) == 0 || slices.Max(a) > slices.Min(b) {
		t.Errorf("%s: %v before %v, in\n%v", what, a, b, ops)
	}
}

func TestCommitOrder(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	var task uint32
	steps := story(&task)
	var all [][]vfs.Op
	for _, step := range steps {
		all = append(all, opsOf(sim, func() { update(t, r, step) }))
	}
	for _, ops := range all {
		journal := at(ops, vfs.OpWrite, "4")
		if len(journal) != 2 {
			t.Fatalf("the journal is written %d times, want once and its state once:\n%v", len(journal), ops)
		}
		before(t, ops, "the journal is written before it is synced", journal[:1], at(ops, vfs.OpSync, "4"))
		for i, op := range ops {
			file := path.Base(op.Path)
			if !strings.HasSuffix(file, ".bin") {
				continue
			}
			before(t, ops, "the journal is durable before "+file, at(ops, vfs.OpSync, "4"), []int{i})
			before(t, ops, file+" is touched before the journal is settled", []int{i}, journal[1:])
			if op.Kind == vfs.OpWrite {
				before(t, ops, file+" is written before it is synced", []int{i}, at(ops[:], vfs.OpSync, file)[len(at(ops, vfs.OpSync, file))-1:])
			}
			if strings.HasSuffix(file, "payload.bin") {
				for j, other := range ops {
					if other.Kind == vfs.OpWrite && strings.HasSuffix(path.Base(other.Path), ".bin") && !strings.HasSuffix(path.Base(other.Path), "payload.bin") {
						before(t, ops, file+" is durable before records", at(ops, vfs.OpSync, file), []int{j})
					}
				}
			}
		}
	}
	enqueue, complete, decide := all[2], all[3], all[5]
	before(t, enqueue, "the Job is committed before the Patchset", at(enqueue, vfs.OpSync, "worker_job.bin"), at(enqueue, vfs.OpWrite, "patchset.bin"))
	before(t, complete, "the evidence is committed before the Job", at(complete, vfs.OpSync, "patchset.bin"), at(complete, vfs.OpWrite, "worker_job.bin"))
	before(t, decide, "the checks are committed before the decision", at(decide, vfs.OpSync, "policy_check.bin"), at(decide, vfs.OpWrite, "policy.bin"))
	closeRoot(t, r)
}

func TestPrepareComesBeforeRecords(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	var prepared, done bool
	ops := opsOf(sim, func() {
		update(t, r, func(w *writer) {
			w.tx.Prepare(func() error {
				prepared = true
				return sim.Mkdir("/lease", 0o700)
			})
			w.tx.After(func() { done = true })
			w.line("next")
		})
	})
	if !prepared || !done {
		t.Error("a hook did not run")
	}
	for i, op := range ops {
		if strings.HasSuffix(op.Path, ".bin") {
			before(t, ops, "the hook comes before "+op.Path, at(ops, vfs.OpMkdir, "lease"), []int{i})
		}
	}
	refusal := errors.New("no lease")
	state := dump(t, cfg)
	err := r.Update(context.Background(), write(func(w *writer) {
		w.line("never")
		w.tx.Prepare(func() error { return refusal })
	}))
	if !errors.Is(err, refusal) || dump(t, cfg) != state {
		t.Errorf("a hook that fails must leave everything as it was: %v", err)
	}
	closeRoot(t, r)
}

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	const n = 64
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	// The first sync waits until all mutations are queued, as they would be
	// behind a slow disk.
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	sim.Fail(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			once.Do(func() { close(entered); <-release })
		}
		return nil
	})
	refusal := errors.New("not this one")
	ops := opsOf(sim, func() {
		var wg sync.WaitGroup
		wg.Go(func() { update(t, r, func(w *writer) { w.line("first") }) })
		<-entered
		for i := range n {
			wg.Go(func() {
				err := r.Update(context.Background(), write(func(w *writer) {
					w.line("one of many")
					if i%8 == 0 {
						w.keep(refusal)
					}
				}))
				if (i%8 == 0) != errors.Is(err, refusal) {
					t.Errorf("mutation %d: %v", i, err)
				}
			})
		}
		for r.Waiting() < n {
			runtime.Gosched()
		}
		close(release)
		wg.Wait()
	})
	syncs := 0
	for _, op := range ops {
		if op.Kind == vfs.OpSync {
			syncs++
		}
	}
	// A batch of Lines takes three: journal, payload, records.
	if syncs != 2*3 {
		t.Errorf("%d mutations took %d syncs, want those of two batches", n, syncs)
	}
	err := r.View(context.Background(), func(rd bindb.Reader) error {
		count, err := bindb.Lines.Count(rd)
		if want := uint32(2 + n - n/8); count != want {
			t.Errorf("there are %d Lines, want %d", count, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	closeRoot(t, r)
}

func TestMutationThatPanics(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	state := dump(t, cfg)
	panicked := func(fn func(*bindb.Tx) error) (v any) {
		defer func() { v = recover() }()
		_ = r.Update(context.Background(), fn)
		return nil
	}
	v := panicked(func(tx *bindb.Tx) error {
		if _, err := bindb.LineNamePayload.Append(tx, []byte("half")); err != nil {
			return err
		}
		panic("out of luck")
	})
	if text, ok := v.(string); !ok || !strings.HasPrefix(text, "out of luck") {
		t.Errorf("the caller must see the panic, got %v", v)
	}
	if dump(t, cfg) != state {
		t.Error("the panic left something behind")
	}
	// A goroutine that ends inside of a mutation takes nothing with it either.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Update(context.Background(), write(func(w *writer) {
			w.line("half")
			runtime.Goexit()
		}))
	}()
	<-ended
	if dump(t, cfg) != state {
		t.Error("the goroutine left something behind")
	}
	update(t, r, func(w *writer) { w.line("whole") })
	closeRoot(t, r)
}

func TestMutationWhoseContextEnds(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	ctx, cancel := context.WithCancel(context.Background())
	inside, release, first := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		first <- r.Update(context.Background(), write(func(w *writer) {
			close(inside)
			<-release
			w.line("slow")
		}))
	}()
	<-inside
	waiting := make(chan error)
	go func() {
		waiting <- r.Update(ctx, write(func(w *writer) { w.line("never") }))
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := r.Update(ctx, write(func(w *writer) { w.line("never") })); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	err := r.View(context.Background(), func(rd bindb.Reader) error {
		n, err := bindb.Lines.Count(rd)
		if n != 2 {
			t.Errorf("there are %d Lines", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	closeRoot(t, r)
}

func TestClosedRoot(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	closeRoot(t, r)
	ctx := context.Background()
	nothing := func(bindb.Reader) error { return nil }
	for name, err := range map[string]error{
		"Close":     r.Close(),
		"View":      r.View(ctx, nothing),
		"Update":    r.Update(ctx, write(seed)),
		"Exclusive": r.Exclusive(ctx, func(*bindb.Session) error { return nil }),
	} {
		if !errors.Is(err, bindb.ErrClosed) {
			t.Errorf("%s gives %v", name, err)
		}
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	ctx := context.Background()
	var count uint32
	err := r.Exclusive(ctx, func(s *bindb.Session) error {
		if err := s.Update(ctx, write(seed)); err != nil {
			return err
		}
		err := s.Update(ctx, write(func(w *writer) {
			w.line("never")
			w.keep(bindb.ErrNotFound)
		}))
		if !errors.Is(err, bindb.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		if err := s.Update(ctx, write(func(w *writer) { w.line("second") })); err != nil {
			return err
		}
		return s.View(func(rd bindb.Reader) (err error) {
			count, err = bindb.Lines.Count(rd)
			return err
		})
	})
	if err != nil || count != 2 {
		t.Errorf("%d Lines, %v", count, err)
	}
	closeRoot(t, r)
}

func TestRefusedRecords(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	state := dump(t, cfg)
	ctx := context.Background()
	for name, c := range map[string]struct {
		fn   func(*bindb.Tx) error
		want error
	}{
		"invalid record": {func(tx *bindb.Tx) error {
			_, err := bindb.Tasks.Append(tx, record.Task{})
			return err
		}, bindb.ErrInvalid},
		"replacement of nothing": {func(tx *bindb.Tx) error {
			return bindb.Lines.Put(tx, 7, record.Line{NameLen: 1, NameOffset: 4})
		}, bindb.ErrNotFound},
		"read of nothing": {func(tx *bindb.Tx) error {
			_, err := bindb.Lines.Get(tx, 7)
			return err
		}, bindb.ErrNotFound},
		"payload outside of its file": {func(tx *bindb.Tx) error {
			_, err := bindb.LineNamePayload.Read(tx, 1<<40, 1)
			return err
		}, bindb.ErrCorrupt},
	} {
		if err := r.Update(ctx, c.fn); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if dump(t, cfg) != state {
		t.Error("a refused mutation left something behind")
	}
	closeRoot(t, r)
}

// The hooks of a batch and the sync of its journal do not wait for each other, but
// the records wait for both.
func TestPrepareRunsBesideTheJournal(t *testing.T) {
	t.Parallel()
	sim, cfg := simConfig(t)
	create(t, cfg)
	hooked, synced := make(chan struct{}), make(chan struct{})
	armed := false
	w := &watchedFS{FS: sim, before: func(file string) {
		if armed && file == "4" {
			close(synced)
			<-hooked
		}
	}}
	cfg.FS = w
	r := open(t, cfg)
	update(t, r, seed)
	armed = true
	ops := opsOf(sim, func() {
		update(t, r, func(w *writer) {
			w.line("next")
			w.tx.Prepare(func() error {
				<-synced
				defer close(hooked)
				return sim.Mkdir("/lease", 0o700)
			})
		})
	})
	for i, op := range ops {
		if strings.HasSuffix(op.Path, ".bin") {
			before(t, ops, "the hook comes before "+op.Path, at(ops, vfs.OpMkdir, "lease"), []int{i})
			before(t, ops, "the journal comes before "+op.Path, at(ops, vfs.OpSync, "4"), []int{i})
		}
	}
	armed = false
	closeRoot(t, r)
}

// Whatever goes wrong between the journal and the first record, nothing was
// touched, and everybody knows.
func TestPrepareThatFails(t *testing.T) {
	t.Parallel()
	refusal := errors.New("no lease")
	for name, c := range map[string]struct {
		hook    func() error
		journal error // of its sync
		want    []error
	}{
		"the hook":         {func() error { return refusal }, nil, []error{refusal}},
		"the journal":      {func() error { return nil }, syscall.EIO, []error{bindb.ErrReadOnly, syscall.EIO}},
		"both":             {func() error { return refusal }, syscall.EIO, []error{refusal, bindb.ErrReadOnly}},
		"a panic":          {func() error { panic("out of luck") }, nil, nil},
		"an ended routine": {func() error { runtime.Goexit(); return nil }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			sim, cfg := simConfig(t)
			create(t, cfg)
			proc := sim.Process()
			cfg.FS = proc
			r := open(t, cfg)
			update(t, r, seed)
			state := dump(t, cfg)
			sim.Fail(func(op vfs.Op) error {
				if op.Kind == vfs.OpSync && path.Base(op.Path) == "4" {
					return c.journal
				}
				return nil
			})
			var err error
			ended := make(chan struct{})
			ops := opsOf(sim, func() {
				go func() {
					defer close(ended)
					defer func() { _ = recover() }()
					err = r.Update(ctx, write(func(w *writer) {
						w.line("never")
						w.tx.Prepare(c.hook)
					}))
				}()
				<-ended
			})
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			for _, op := range ops {
				if strings.HasSuffix(op.Path, ".bin") {
					t.Errorf("a record was touched: %v", op)
				}
			}
			sim.Fail(nil)
			if c.journal == nil {
				if findings, err := r.Check(ctx); err != nil || len(findings) > 0 {
					t.Errorf("%v %v", findings, err)
				}
				update(t, r, func(w *writer) { w.line("next") })
				state = dump(t, cfg)
			} else if err := r.Update(ctx, write(seed)); !errors.Is(err, bindb.ErrReadOnly) {
				t.Errorf("after the failed sync: %v", err)
			}
			proc.Crash()
			cfg.FS = sim
			closeRoot(t, open(t, cfg))
			if dump(t, cfg) != state {
				t.Error("the next process finds another state")
			}
		})
	}
}

// A caller that gives up while it is the one to lead leaves that to the next.
func TestLeaderThatGivesUp(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error, 1), make(chan error, 1)
	err := r.Exclusive(context.Background(), func(*bindb.Session) error {
		go func() { first <- r.Update(ctx, write(func(w *writer) { w.line("never") })) }()
		for r.Waiting() < 1 {
			runtime.Gosched()
		}
		go func() { second <- r.Update(context.Background(), write(func(w *writer) { w.line("next") })) }()
		for r.Waiting() < 2 {
			runtime.Gosched()
		}
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller gets %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second caller gets %v", err)
	}
	if n := lineCount(t, r); n != 2 {
		t.Errorf("there are %d Lines", n)
	}
	closeRoot(t, r)
}
