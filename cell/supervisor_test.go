package cell_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// effects counts what was done for each attempt. It is the world: it outlives every
// engine and supervisor.
type effects struct {
	mu    sync.Mutex
	done  map[cell.Particle]int
	asked map[cell.Particle]int
	// point is called before and after an effect; an error is the death of the process.
	point func() error
}

func newEffects() *effects {
	return &effects{done: map[cell.Particle]int{}, asked: map[cell.Particle]int{}, point: func() error { return nil }}
}

// Do implements cell.Executor: the reply is the argument plus 1, and 13 fails.
func (e *effects) Do(_ context.Context, r cell.Request) (cell.Result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked[r.Attempt]++
	if err := e.point(); err != nil {
		return cell.Result{}, err
	}
	e.done[r.Attempt]++
	if err := e.point(); err != nil {
		return cell.Result{}, err
	}
	return e.result(r), nil
}

func (e *effects) result(r cell.Request) cell.Result {
	if r.Arguments.Value() == 13 {
		return cell.Failure("13 is refused")
	}
	return cell.Result{Outcome: cell.OutcomeSucceeded, Value: nox.Atom(r.Arguments.Value() + 1)}
}

// most is the largest number of times that one attempt was dispatched.
func (e *effects) most() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, k := range e.asked {
		n = max(n, k)
	}
	return n
}

func (e *effects) sum() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, k := range e.done {
		n += k
	}
	return n
}

// ledger are effects that can be looked up.
type ledger struct{ *effects }

func (l ledger) Find(_ context.Context, r cell.Request) (cell.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done[r.Attempt] == 0 {
		return cell.Failure("it was never done"), nil
	}
	return l.result(r), nil
}

// twice asks for two acts, one after the other.
const twice = `let a = emit(event); let b = emit(a); ~mem + a + b`

// world is a store with cells, and what was noticed.
type world struct {
	t     *testing.T
	store *celltest.Memory
	cells []cell.Particle

	mu      sync.Mutex
	notices []cell.Notice
}

func (w *world) engine() *cell.Engine {
	return cell.New(w.store, cell.Options{Ward: cell.LocalWard{}})
}

func nonceOf(n int) (nonce [32]byte) {
	binary.BigEndian.PutUint64(nonce[:], uint64(n))
	return nonce
}

// newWorld has count cells of a source, each with its number as input.
func newWorld(t *testing.T, count int, source string, limit uint64) *world {
	t.Helper()
	w := &world{t: t, store: celltest.NewMemory()}
	e := w.engine()
	for i := range count {
		w.add(e, i, source, limit)
	}
	return w
}

// clone is the same world again.
func (w *world) clone() *world { return &world{t: w.t, store: w.store.Clone(), cells: w.cells} }

func (w *world) add(e *cell.Engine, i int, source string, limit uint64) cell.Particle {
	w.t.Helper()
	c, _, err := e.Create(w.t.Context(), cell.Birth{
		Source: []byte(source), Nonce: nonceOf(i), StepLimit: limit, Acts: []uint64{rune.TagEmit, rune.TagQuery},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := e.Submit(w.t.Context(), c, cell.Input{Nonce: nonceOf(1_000_000 + i), Noun: nox.Atom(uint64(i))}); err != nil {
		w.t.Fatal(err)
	}
	w.cells = append(w.cells, c)
	return c
}

// supervisor notes everything; also, if not nil, is called for each notice.
func (w *world) supervisor(e *cell.Engine, o cell.SupervisorOptions, also func(cell.Notice)) *cell.Supervisor {
	o.Notify = func(n cell.Notice) {
		w.mu.Lock()
		w.notices = append(w.notices, n)
		w.mu.Unlock()
		if also != nil {
			also(n)
		}
	}
	return cell.NewSupervisor(e, o)
}

// kinds are the kinds of the notices about a cell.
func (w *world) kinds(c cell.Particle) (kinds []cell.NoticeKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notices {
		if n.Cell == c {
			kinds = append(kinds, n.Kind)
		}
	}
	return kinds
}

func (w *world) view(e *cell.Engine, c cell.Particle) cell.View {
	w.t.Helper()
	v, err := e.Inspect(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// atEnd makes sure that the input of cell i of a world of twice has ended as it must.
func (w *world) atEnd(e *cell.Engine, i int) {
	w.t.Helper()
	v := w.view(e, w.cells[i])
	want, fault := uint64(2*i+3), ""
	if i == 12 || i == 13 {
		want, fault = 0, "13 is refused"
	}
	if v.Input != nil || v.State.Value() != want || v.Fault != fault {
		w.t.Errorf("cell %d has input %v, state %s and fault %q, expected state %d and fault %q", i, v.Input, v.State, v.Fault, want, fault)
	}
}

func TestSupervisor(t *testing.T) {
	t.Parallel()
	w, world := newWorld(t, 14, twice, 10_000), newEffects()
	s := w.supervisor(w.engine(), cell.SupervisorOptions{Executors: map[uint64]cell.Executor{rune.TagEmit: world}}, nil)
	// A cell that is named twice is one cell.
	if err := s.Run(t.Context(), slices.Concat(w.cells, w.cells)); err != nil {
		t.Fatal(err)
	}
	e := w.engine()
	for i := range w.cells {
		w.atEnd(e, i)
	}
	if world.most() != 1 || world.sum() != 12*2+3 {
		t.Errorf("%d effects, one of them %d times", world.sum(), world.most())
	}
	act := []cell.NoticeKind{cell.Ticked, cell.Begun, cell.Settled}
	if got, want := w.kinds(w.cells[0]), append(slices.Concat(act, act), cell.Completed); !slices.Equal(got, want) {
		t.Errorf("noticed %v, expected %v", got, want)
	}
	if got, want := w.kinds(w.cells[13]), []cell.NoticeKind{cell.Ticked, cell.Begun, cell.ActFailed, cell.Faulted}; !slices.Equal(got, want) {
		t.Errorf("noticed %v, expected %v", got, want)
	}
	for _, n := range w.notices {
		if durable := n.Kind != cell.Begun; durable != (n.Head.Index > 0) {
			t.Errorf("%v with head %v", n.Kind, n.Head)
		}
	}
	// There is nothing left to do.
	before := len(w.notices)
	if err := s.Run(t.Context(), w.cells); err != nil || len(w.notices) != before {
		t.Errorf("%v, %d more notices", err, len(w.notices)-before)
	}
	if err := s.Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestSupervisorLeavesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, source string
		before       func(t *testing.T, e *cell.Engine, c cell.Particle)
		executor     cell.Executor
		want         []cell.NoticeKind
		err          error
	}{
		{"an act without an executor", `query(event)`, nil, newEffects(), []cell.NoticeKind{cell.Ticked, cell.Unhandled}, nil},
		{"an act that its executor leaves to others", `emit(event)`, nil, chooser{newEffects()}, []cell.NoticeKind{cell.Ticked, cell.Unhandled}, nil},
		{"an act that is not allowed", `link(event)`, nil, newEffects(), []cell.NoticeKind{cell.Ticked, cell.Denied}, cell.ErrDenied},
		{"a program that fails", `head(event)`, nil, nil, []cell.NoticeKind{cell.Faulted}, cell.ErrRuntime},
		{"a program that waits for events", `subscribe(event)`, nil, nil, []cell.NoticeKind{cell.Ticked, cell.Unhandled}, nil},
		{"a paused cell", `event`, func(t *testing.T, e *cell.Engine, c cell.Particle) {
			if _, err := e.Manage(t.Context(), c, record.Paused); err != nil {
				t.Fatal(err)
			}
		}, nil, []cell.NoticeKind{cell.Left}, cell.ErrLifecycle},
		{"an earlier attempt that nobody can look up", `emit(event)`, begin, newEffects(), []cell.NoticeKind{cell.Uncertain}, nil},
		{"an earlier attempt that nobody has found", `emit(event)`, begin, lost{}, []cell.NoticeKind{cell.Uncertain}, errLost},
		{"an executor that does not know", `emit(event)`, nil, lost{}, []cell.NoticeKind{cell.Ticked, cell.Begun, cell.Uncertain}, errLost},
		{"a reply that is too large", `emit(event)`, nil, reply(deep(200)), []cell.NoticeKind{cell.Ticked, cell.Begun, cell.Uncertain}, cell.ErrRuntime},
		{"a reply that leaves no room", `emit(event)`, nil, reply(deep(128)), []cell.NoticeKind{cell.Ticked, cell.Begun, cell.Settled, cell.Faulted}, cell.ErrRuntime},
		{"a reason that is too long", `emit(event)`, nil, reason{}, []cell.NoticeKind{cell.Ticked, cell.Begun, cell.ActFailed, cell.Faulted}, cell.ErrRuntime},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, store: celltest.NewMemory()}
			e := w.engine()
			c := w.add(e, 7, x.source, 10_000)
			if x.before != nil {
				x.before(t, e, c)
				e = w.engine() // of a process that knows nothing of it
			}
			executors := map[uint64]cell.Executor{}
			if x.executor != nil {
				executors[rune.TagEmit], executors[rune.TagLink] = x.executor, x.executor
			}
			if err := w.supervisor(e, cell.SupervisorOptions{Executors: executors}, nil).Run(t.Context(), w.cells); err != nil {
				t.Fatal(err)
			}
			if got := w.kinds(c); !slices.Equal(got, x.want) {
				t.Fatalf("noticed %v, expected %v; %v", got, x.want, w.notices)
			}
			if last := w.notices[len(w.notices)-1]; x.err != nil && !errors.Is(last.Err, x.err) {
				t.Errorf("error %v, expected %v", last.Err, x.err)
			}
			if fx, ok := x.executor.(interface{ sum() int }); ok && fx.sum() > 0 {
				t.Errorf("%d effects", fx.sum())
			}
		})
	}
}

// chooser is an executor that would do everything, and wants nothing.
type chooser struct{ *effects }

func (chooser) Performs(cell.Request) bool { return false }

// begin records an attempt, as a person does or a process that has died since.
func begin(t *testing.T, e *cell.Engine, c cell.Particle) {
	t.Helper()
	for {
		p, err := e.Tick(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if p.Kind == cell.Awaiting {
			if _, err := e.Begin(t.Context(), c, p.Operation); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

var errLost = errors.New("the answer was lost")

// lost never knows.
type lost struct{}

func (lost) Do(context.Context, cell.Request) (cell.Result, error) {
	return cell.Result{Outcome: cell.OutcomeSucceeded}, errLost
}

func (lost) Find(context.Context, cell.Request) (cell.Result, error) {
	return cell.Result{Outcome: cell.OutcomeFailed}, errLost
}

// reply has one answer.
type reply nox.Noun

func (r reply) Do(context.Context, cell.Request) (cell.Result, error) {
	return cell.Result{Outcome: cell.OutcomeSucceeded, Value: nox.Noun(r)}, nil
}

// reason fails for a reason that can't be recorded as it is.
type reason struct{}

func (reason) Do(context.Context, cell.Request) (cell.Result, error) {
	return cell.Result{Outcome: cell.OutcomeFailed, Reason: "\xff" + strings.Repeat("é", cell.MaxReason)}, nil
}

func deep(n int) nox.Noun {
	noun := nox.Atom(0)
	for range n {
		noun = nox.Pair(nox.Atom(0), noun)
	}
	return noun
}

// TestSupervisorIsFair has one worker, cells that never end before their budget, and
// cells that end soon.
func TestSupervisorIsFair(t *testing.T) {
	t.Parallel()
	const spinning, short, turn = 3, 40, 2
	w := newWorld(t, spinning, `loop { continue }`, 60_000)
	e := w.engine()
	for i := range short {
		w.add(e, spinning+i, `event`, 10_000)
	}
	ticks := map[cell.Particle]int{}
	completed := 0
	s := w.supervisor(e, cell.SupervisorOptions{Cells: 1, Turn: turn}, func(n cell.Notice) {
		switch n.Kind {
		case cell.Ticked:
			ticks[n.Cell]++
			for _, c := range w.cells[:spinning] {
				if ahead := ticks[n.Cell] - ticks[c]; ahead > turn {
					t.Errorf("a cell is %d slices ahead of another", ahead)
				}
			}
		case cell.Completed:
			completed++
			if most := ticks[w.cells[0]]; most > turn {
				t.Errorf("a cell that ends soon had to wait for %d slices of another", most)
			}
		case cell.Faulted:
			if !errors.Is(n.Err, cell.ErrBudget) && !errors.Is(n.Err, cell.ErrRuntime) {
				t.Error(n.Err)
			}
		}
	})
	if err := s.Run(t.Context(), w.cells); err != nil {
		t.Fatal(err)
	}
	if completed != short || ticks[w.cells[0]] < 50 {
		t.Errorf("%d have completed; %d slices of one that spins", completed, ticks[w.cells[0]])
	}
}

// TestSupervisorBounds watches how many acts are performed at once, and that an act
// is begun only when it can be performed.
func TestSupervisorBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, `emit(event)`, 10_000)
		busy, most, begun := 0, 0, 0
		var mu sync.Mutex
		slow := do(func(ctx context.Context, r cell.Request) (cell.Result, error) {
			mu.Lock()
			busy++
			most = max(most, busy)
			if begun > most {
				t.Errorf("%d attempts were begun for %d executors", begun, most)
			}
			mu.Unlock()
			if r.Arguments.Value() == 3 {
				<-ctx.Done() // it would take for ever
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			mu.Lock()
			busy--
			begun--
			mu.Unlock()
			return cell.Result{Outcome: cell.OutcomeSucceeded}, ctx.Err()
		})
		s := w.supervisor(w.engine(), cell.SupervisorOptions{
			Acts: 3, ActTime: 5 * time.Second, Executors: map[uint64]cell.Executor{rune.TagEmit: slow},
		}, func(n cell.Notice) {
			if n.Kind == cell.Begun {
				mu.Lock()
				begun++
				mu.Unlock()
			}
		})
		start := time.Now()
		if err := s.Run(t.Context(), w.cells); err != nil {
			t.Fatal(err)
		}
		// The one that is given up may be the last to begin.
		if took := time.Since(start); most != 3 || took < 5*time.Second || took > 8*time.Second {
			t.Errorf("%d acts at once, in %v", most, took)
		}
		for i, c := range w.cells {
			want := cell.Completed
			if i == 3 {
				want = cell.Uncertain
			}
			if kinds := w.kinds(c); kinds[len(kinds)-1] != want {
				t.Errorf("cell %d: noticed %v", i, kinds)
			}
		}
	})
}

type do func(context.Context, cell.Request) (cell.Result, error)

func (d do) Do(ctx context.Context, r cell.Request) (cell.Result, error) { return d(ctx, r) }

// TestSupervisorGrace ends a run while one act needs a second and another an hour.
func TestSupervisorGrace(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, 3 * time.Second, -1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2, `emit(event)`, 10_000)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("interrupted")
			var begun sync.WaitGroup
			begun.Add(2)
			go func() { // ends when both acts have begun
				begun.Wait()
				cancel(why)
			}()
			slow := do(func(ctx context.Context, r cell.Request) (cell.Result, error) {
				begun.Done()
				select {
				case <-time.After([]time.Duration{time.Second, time.Hour}[r.Arguments.Value()]):
				case <-ctx.Done():
				}
				return cell.Result{Outcome: cell.OutcomeSucceeded}, context.Cause(ctx)
			})
			s := w.supervisor(w.engine(), cell.SupervisorOptions{
				ActTime: 2 * time.Hour, Grace: grace, Executors: map[uint64]cell.Executor{rune.TagEmit: slow},
			}, nil)
			start := time.Now()
			if err := s.Run(ctx, w.cells); !errors.Is(err, why) {
				t.Errorf("%v, expected %v", err, why)
			}
			last := func(i int) cell.NoticeKind { kinds := w.kinds(w.cells[i]); return kinds[len(kinds)-1] }
			wait, first := map[time.Duration]time.Duration{0: 10 * time.Second, -1: 0}[grace], cell.Settled
			if grace > 0 {
				wait = grace
			}
			if grace < 0 {
				first = cell.Uncertain
			}
			if took := time.Since(start); took != wait || last(0) != first || last(1) != cell.Uncertain {
				t.Errorf("grace %v: ended after %v with %v and %v", grace, took, last(0), last(1))
			}
			if err := s.Run(ctx, w.cells); !errors.Is(err, why) {
				t.Errorf("a run after its end: %v", err)
			}
		})
	}
}

// TestSupervisorInterrupted ends a run at each of its notices. Nothing is uncertain
// then, and the next run goes on.
func TestSupervisorInterrupted(t *testing.T) {
	t.Parallel()
	start := newWorld(t, 3, twice, 10_000)
	for at := 1; ; at++ {
		w, world := start.clone(), newEffects()
		ctx, cancel := context.WithCancel(t.Context())
		count := 0
		o := cell.SupervisorOptions{Cells: 2, Acts: 2, Turn: 1, Executors: map[uint64]cell.Executor{rune.TagEmit: world}}
		err := w.supervisor(w.engine(), o, func(cell.Notice) {
			if count++; count == at {
				cancel()
			}
		}).Run(ctx, w.cells)
		cancel()
		if at <= count && err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		e := w.engine()
		if err := w.supervisor(e, o, nil).Run(t.Context(), w.cells); err != nil {
			t.Fatal(err)
		}
		for i, c := range w.cells {
			w.atEnd(e, i)
			if slices.Contains(w.kinds(c), cell.Uncertain) {
				t.Errorf("interrupted at %d: noticed %v", at, w.kinds(c))
			}
		}
		if world.sum() != 6 || world.most() != 1 {
			t.Errorf("interrupted at %d: %d effects, one of them %d times", at, world.sum(), world.most())
		}
		if at > count {
			if at < 10 {
				t.Errorf("only %d notices", count)
			}
			return
		}
	}
}

// TestSupervisorsSideBySide has two of them run the same cells, with a Finder that
// would take an act that is about to be performed for one that never was.
func TestSupervisorsSideBySide(t *testing.T) {
	t.Parallel()
	w, fx := newWorld(t, 20, twice, 10_000), newEffects()
	e := w.engine()
	o := cell.SupervisorOptions{Executors: map[uint64]cell.Executor{rune.TagEmit: ledger{fx}}}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := w.supervisor(e, o, nil).Run(t.Context(), w.cells); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for i := range w.cells {
		w.atEnd(e, i)
	}
	if fx.most() != 1 {
		t.Errorf("an attempt was dispatched %d times", fx.most())
	}

	// What a person has begun here is theirs; after a restart it is looked up.
	c := w.add(e, 20, `emit(event)`, 10_000)
	begin(t, e, c)
	if err := w.supervisor(e, o, nil).Run(t.Context(), w.cells); err != nil {
		t.Fatal(err)
	}
	if got := w.kinds(c); !slices.Equal(got, []cell.NoticeKind{cell.Uncertain}) {
		t.Errorf("noticed %v", got)
	}
	if err := w.supervisor(w.engine(), o, nil).Run(t.Context(), w.cells); err != nil {
		t.Fatal(err)
	}
	if v := w.view(w.engine(), c); v.Fault != "it was never done" {
		t.Errorf("fault %q", v.Fault)
	}
}

// TestSupervisorCrash kills the process at every write and before and after every
// effect, and at some reads. A new process goes on, and where nobody can tell what
// became of an attempt, a person looks at the world.
func TestSupervisorCrash(t *testing.T) {
	t.Parallel()
	start := newWorld(t, 2, twice, 10_000)
	for _, looking := range []bool{false, true} {
		for _, x := range []struct {
			name  string
			how   celltest.Fault
			reads bool
			step  int
		}{
			{"a write that has failed", celltest.Failed, false, 1},
			{"a write that is lost", celltest.UnknownLost, false, 1},
			{"a write that is kept", celltest.UnknownKept, false, 1},
			{"anything", celltest.Failed, true, 61},
		} {
			if testing.Short() {
				x.step *= 4
			}
			t.Run(fmt.Sprintf("%s, looking it up %v", x.name, looking), func(t *testing.T) {
				t.Parallel()
				uncertain := 0
				for at := 1; ; at += x.step {
					died, asked := crash(t, start.clone(), at, x.how, x.reads, looking)
					uncertain += asked
					if !died {
						// For each of 2 cells 10 commits, and 2 points of 2 effects.
						if at < 29 || !looking && !x.reads && uncertain == 0 {
							t.Errorf("%d operations, a person was asked %d times", at, uncertain)
						}
						return
					}
				}
			})
		}
	}
}

// crash runs cells in a process that dies at an operation, if there are so many, and
// then in others. It returns whether it died, and how often a person was asked.
func crash(t *testing.T, w *world, at int, how celltest.Fault, reads, looking bool) (died bool, asked int) {
	t.Helper()
	cells := len(w.cells)
	fx := newEffects()
	var executor cell.Executor = fx
	if looking {
		executor = ledger{fx}
	}
	var mu sync.Mutex
	operations, dead := 0, false
	// die counts an operation, and reports whether the process was dead before it, and
	// whether it is after it.
	die := func() (before, after bool) {
		mu.Lock()
		defer mu.Unlock()
		operations++
		before = dead
		dead = dead || operations == at
		return before, dead
	}
	w.store.Plan(func(c celltest.Call) celltest.Fault {
		var before, after bool
		if reads || c == celltest.CallWrite {
			before, after = die()
		}
		switch {
		case before:
			return celltest.Failed
		case after:
			return how
		}
		return celltest.None
	})
	fx.point = func() error {
		if _, dead := die(); dead {
			return errors.New("the process has died")
		}
		return nil
	}
	o := cell.SupervisorOptions{Cells: 2, Acts: 2, Executors: map[uint64]cell.Executor{rune.TagEmit: executor}}
	err := w.supervisor(w.engine(), o, nil).Run(t.Context(), w.cells)
	if !dead && err != nil {
		t.Fatal(err)
	}

	w.store.Plan(nil)
	w.store.Reopen()
	fx.point = func() error { return nil }
	lost := 0 // acts that were found to have had no effect
	for range 2 * cells {
		e := w.engine()
		w.notices = nil
		if err := w.supervisor(e, o, nil).Run(t.Context(), w.cells); err != nil {
			t.Fatal(err)
		}
		again := false
		for _, n := range w.notices {
			if n.Kind == cell.ActFailed {
				lost++
			}
			if n.Kind != cell.Uncertain {
				continue
			}
			if looking {
				t.Fatalf("crash at %d: uncertain though it can be looked up: %v", at, n.Err)
			}
			again = true
			asked++
			if fx.done[n.Attempt] > 0 {
				_, err = e.Settle(t.Context(), n.Cell, n.Operation, n.Attempt, nox.Atom(n.Arguments.Value()+1))
			} else {
				lost++
				_, err = e.Fail(t.Context(), n.Cell, n.Operation, n.Attempt, "it was never done")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !again {
			break
		}
	}
	failed, e := 0, w.engine()
	for i, c := range w.cells {
		if v := w.view(e, c); v.Fault == "it was never done" {
			failed++
		} else {
			w.atEnd(e, i)
		}
	}
	if fx.most() > 1 {
		t.Errorf("crash at %d: an attempt was dispatched %d times", at, fx.most())
	}
	// Two for each cell; one whose act was lost has none of it and none after it.
	if sum := fx.sum(); failed != lost || sum > 2*cells-lost || sum < 2*cells-2*lost {
		t.Errorf("crash at %d: %d effects, %d acts were lost, %d inputs failed", at, sum, lost, failed)
	}
	return dead, asked
}

// TestSupervisorThousandCells crashes at random, too.
func TestSupervisorThousandCells(t *testing.T) {
	t.Parallel()
	cells := 1000
	if testing.Short() {
		cells = 150
	}
	random := rand.New(rand.NewPCG(1, 2)) // used under the store's lock
	w, fx := newWorld(t, cells, `emit(event)`, 10_000), newEffects()
	o := cell.SupervisorOptions{Executors: map[uint64]cell.Executor{rune.TagEmit: ledger{fx}}}
	crashes := 0
	for {
		w.store.Plan(func(c celltest.Call) celltest.Fault {
			if crashes < 5 && c == celltest.CallWrite && random.IntN(cells) == 0 {
				return celltest.UnknownKept + celltest.Fault(random.IntN(2)) - 1
			}
			return celltest.None
		})
		err := w.supervisor(w.engine(), o, nil).Run(t.Context(), w.cells)
		if err == nil {
			break
		}
		if !errors.Is(err, cell.ErrCommitUnknown) && !errors.Is(err, cell.ErrStore) {
			t.Fatal(err)
		}
		crashes++
		w.store.Reopen()
	}
	never, e := 0, w.engine()
	for i, c := range w.cells {
		v := w.view(e, c)
		want := uint64(i + 1)
		if i == 13 || v.Fault == "it was never done" {
			want = 0
			if i != 13 {
				never++
			}
		}
		if v.Input != nil || v.State.Value() != want {
			t.Errorf("cell %d: state %s, input %v, fault %q", i, v.State, v.Input, v.Fault)
		}
	}
	if fx.most() != 1 || fx.sum() != cells-never || crashes == 0 {
		t.Errorf("%d effects, one of them %d times, %d never done, %d crashes", fx.sum(), fx.most(), never, crashes)
	}
}
