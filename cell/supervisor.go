package cell

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/writ-authority/writ/nox"
)

// SupervisorOptions are the bounds of a Supervisor. Each that is 0 has its default.
type SupervisorOptions struct {
	// Executors perform acts, by their tags. Acts without one, and those that a Chooser
	// leaves to others, stay awaiting.
	Executors map[uint64]Executor

	Cells   int           // that run at the same time; 64 by default
	Turn    int           // slices that a cell runs before others have their turn; 4 by default
	Acts    int           // that are performed at the same time; 16 by default
	ActTime time.Duration // that an act, or looking it up, may take; 2 minutes by default
	// Grace is how much longer acts that were begun may take when the run is to end;
	// 10 seconds by default, and none if it is negative.
	Grace time.Duration

	// Notify, if not nil, is told what happens: of one cell in order, and one call at a
	// time. Everything waits while it runs.
	Notify func(Notice)
}

// NoticeKind is what a Notice is about.
type NoticeKind uint8

// What happens in a run.
const (
	Ticked    NoticeKind = iota + 1 // a slice has run, the input goes on
	Completed                       // the input has ended, State is the new state
	Faulted                         // the input has ended with a fault, Err
	Begun                           // an attempt is recorded and is about to be performed
	Settled                         // an attempt has succeeded with Value, which is recorded
	ActFailed                       // an attempt has definitely failed for Reason, which is recorded
	Uncertain                       // an attempt is recorded and its outcome is not; Err says why, if that is known
	Denied                          // the ward has refused the act
	Unhandled                       // nobody here performs the act, which awaits an attempt
	Left                            // the cell can't go on; Err says why
)

func (k NoticeKind) String() string {
	names := [...]string{
		Ticked: "ticked", Completed: "completed", Faulted: "faulted", Begun: "begun", Settled: "settled",
		ActFailed: "failed", Uncertain: "uncertain", Denied: "denied", Unhandled: "unhandled", Left: "left",
	}
	if k < Ticked || int(k) >= len(names) {
		return fmt.Sprintf("notice %d", uint8(k))
	}
	return names[k]
}

// Notice is something that has happened to a cell. Apart from Begun, Uncertain and what
// follows in the list of kinds, it is durable.
type Notice struct {
	Kind      NoticeKind
	Cell      Particle
	Head      Head     // of Ticked, Completed, Faulted, Settled and ActFailed
	State     nox.Noun // of Completed
	Operation Particle // of all about acts
	Attempt   Particle // of all about attempts
	Tag       uint64   // of all about acts
	Arguments nox.Noun // of all about acts
	Outcome   Outcome  // of Settled, ActFailed and Uncertain: what the executor knows, also where it could not be recorded
	Value     nox.Noun // of OutcomeSucceeded
	Reason    string   // of OutcomeFailed
	Err       error
}

// Supervisor runs many cells and their acts side by side.
//
// Cells take turns: each runs a few slices and goes to the end of the queue, so that one
// that never ends delays no other. An attempt is begun only when its executor is there
// and has time for it, and is dispatched once, by the call that has recorded it. An
// attempt that was recorded before is never dispatched; a Finder is asked what became of
// it, unless whoever has begun it in this process may still be at it. Without proof it
// waits for a person.
//
// Whatever ends a run, the next one goes on from what is durable.
type Supervisor struct {
	engine *Engine
	o      SupervisorOptions
	turn   sync.Mutex // of Run: no two of them have the same cell
	notice sync.Mutex // held while Notify runs
}

// NewSupervisor returns a supervisor of an engine's cells.
func NewSupervisor(e *Engine, o SupervisorOptions) *Supervisor {
	if o.Cells <= 0 {
		o.Cells = 64
	}
	if o.Turn <= 0 {
		o.Turn = 4
	}
	if o.Acts <= 0 {
		o.Acts = 16
	}
	if o.ActTime <= 0 {
		o.ActTime = 2 * time.Minute
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	return &Supervisor{engine: e, o: o}
}

// Run runs cells until each of them is idle, or waits for something that nobody here
// does. It returns nil then, whatever became of single cells: Notify is told. The error
// is the one of the store that made going on pointless, or the cause of the end of ctx.
// Slices that run when ctx ends are settled, acts have the grace to end, and nothing
// new begins. Calls wait for one another.
func (s *Supervisor) Run(ctx context.Context, cells []Particle) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	// What has begun is recorded even if ctx ends.
	r := &run{Supervisor: s, commits: context.WithoutCancel(ctx)}
	r.forCells.L, r.forActs.L = &r.mu, &r.mu
	known := make(map[Particle]struct{}, len(cells))
	for _, c := range cells {
		if _, twice := known[c]; !twice {
			known[c] = struct{}{}
			r.cells = append(r.cells, c)
		}
	}
	var giveUp context.CancelCauseFunc
	r.performing, giveUp = context.WithCancelCause(r.commits)

	idle := make(chan struct{})
	var watch, workers sync.WaitGroup
	watch.Go(func() { // until the workers have ended
		select {
		case <-idle:
			return
		case <-ctx.Done():
			r.stop(context.Cause(ctx))
		}
		grace := time.NewTimer(max(s.o.Grace, 0))
		defer grace.Stop()
		select {
		case <-idle:
		case <-grace.C:
			giveUp(context.Cause(ctx))
		}
	})
	for range min(s.o.Cells, len(known)) {
		workers.Go(r.runCells)
	}
	for range min(s.o.Acts, len(known)) {
		workers.Go(r.runActs)
	}
	workers.Wait()
	close(idle)
	watch.Wait()
	giveUp(nil)
	return r.err
}

// Why an attempt stays uncertain that this run has not made.
var (
	errEarlier  = errors.New("the attempt was recorded before, and nobody here can look up what became of it")
	errUnderway = errors.New("somebody else has begun the attempt and has not settled it yet")
)

// run is one call of Run. A cell is in one of the queues, or one worker has it.
type run struct {
	*Supervisor
	commits    context.Context // of the engine's calls
	performing context.Context // of acts

	mu       sync.Mutex
	cells    []Particle // that may go on, the next one first
	acts     []Request  // that wait for a worker; without an attempt unless it is to be looked up
	busy     int        // workers that have a cell
	stopped  bool
	err      error     // why it was stopped
	forCells sync.Cond // a cell is in the queue, or all is over
	forActs  sync.Cond // an act is in the queue, or all is over
}

// stop has the workers end when they are done with what they have.
func (r *run) stop(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.stopped, r.err = true, err
	}
	r.forCells.Broadcast()
	r.forActs.Broadcast()
}

// over reports whether nothing is left to do. mu is held.
func (r *run) over() bool {
	return r.stopped || r.busy == 0 && len(r.cells) == 0 && len(r.acts) == 0
}

// take waits for the next of a queue.
func take[T any](r *run, queue *[]T, filled *sync.Cond) (next T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(*queue) == 0 && !r.over() {
		filled.Wait()
	}
	if r.over() {
		return next, false
	}
	next = (*queue)[0]
	*queue = (*queue)[1:]
	r.busy++
	return next, true
}

// done puts a cell that a worker had into the queue where it belongs now, if any.
func (r *run) done(cell *Particle, act *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	if cell != nil {
		r.cells = append(r.cells, *cell)
		r.forCells.Signal()
	}
	if act != nil {
		r.acts = append(r.acts, *act)
		r.forActs.Signal()
	}
	if r.over() {
		r.forCells.Broadcast()
		r.forActs.Broadcast()
	}
}

// tell passes a notice on.
func (r *run) tell(n Notice) {
	if r.o.Notify == nil {
		return
	}
	r.notice.Lock()
	defer r.notice.Unlock()
	r.o.Notify(n)
}

// leave tells that a cell can't go on, and stops everything if no other can either.
func (r *run) leave(n Notice) {
	if errors.Is(n.Err, ErrStore) || errors.Is(n.Err, ErrCommitUnknown) {
		r.stop(n.Err)
	}
	r.tell(n)
}

func (r *run) runCells() {
	for {
		cell, ok := take(r, &r.cells, &r.forCells)
		if !ok {
			return
		}
		r.done(r.runCell(cell))
	}
}

// runCell runs the slices of one turn.
func (r *run) runCell(cell Particle) (*Particle, *Request) {
	for range r.o.Turn {
		p, err := r.engine.Tick(r.commits, cell)
		switch {
		case err != nil && p.Head != Head{}:
			r.tell(Notice{Kind: Faulted, Cell: cell, Head: p.Head, Err: err})
			continue
		case err != nil:
			r.leave(Notice{Kind: Left, Cell: cell, Err: err})
			return nil, nil
		}
		switch p.Kind {
		case Idle:
			return nil, nil
		case Advanced:
			r.tell(Notice{Kind: Ticked, Cell: cell, Head: p.Head})
		case Complete:
			r.tell(Notice{Kind: Completed, Cell: cell, Head: p.Head, State: p.State})
		case Awaiting, Unknown:
			act := Request{Cell: cell, Operation: p.Operation, Attempt: p.Attempt, Tag: p.Tag, Arguments: p.Arguments}
			executor, ok := r.o.Executors[p.Tag]
			if p.Kind == Unknown {
				_, ok = executor.(Finder)
			} else if chooser, chooses := executor.(Chooser); chooses {
				ok = chooser.Performs(act)
			}
			if ok {
				return nil, &act
			}
			if p.Kind == Unknown {
				r.tell(about(Uncertain, act, errEarlier))
			} else {
				r.tell(about(Unhandled, act, nil))
			}
			return nil, nil
		}
		if r.ending() {
			return nil, nil
		}
	}
	return &cell, nil
}

// ending reports whether the run was stopped.
func (r *run) ending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// about is a notice about an act.
func about(kind NoticeKind, act Request, err error) Notice {
	return Notice{
		Kind: kind, Cell: act.Cell, Operation: act.Operation, Attempt: act.Attempt,
		Tag: act.Tag, Arguments: act.Arguments, Err: err,
	}
}

func (r *run) runActs() {
	for {
		act, ok := take(r, &r.acts, &r.forActs)
		if !ok {
			return
		}
		var next *Particle
		if act.Attempt == (Particle{}) {
			next = r.attempt(act)
		} else {
			next = r.find(act)
		}
		r.done(next, nil)
	}
}

// attempt begins an attempt, performs it and records what came of it. It returns the
// cell if that may go on.
func (r *run) attempt(act Request) *Particle {
	a, err := r.engine.Begin(r.commits, act.Cell, act.Operation)
	switch {
	case errors.Is(err, ErrDenied):
		r.tell(about(Denied, act, err))
		return nil
	case errors.Is(err, ErrMissing), errors.Is(err, ErrConflict), errors.Is(err, ErrUnknownOutcome):
		return &act.Cell // somebody else was faster; its next tick tells
	case err != nil:
		r.leave(about(Left, act, err))
		return nil
	}
	act.Attempt, act.Tag, act.Arguments = a.Attempt, a.Tag, a.Arguments
	r.tell(about(Begun, act, nil))
	defer r.engine.underway.remove(act.Attempt)
	return r.record(act, r.o.Executors[act.Tag].Do)
}

// find asks what became of an attempt that was recorded before this run.
func (r *run) find(act Request) *Particle {
	if r.engine.underway.has(act.Attempt) {
		r.tell(about(Uncertain, act, errUnderway))
		return nil
	}
	return r.record(act, r.o.Executors[act.Tag].(Finder).Find)
}

// record asks for the result of an attempt and records it. It returns the cell if that
// may go on.
func (r *run) record(act Request, ask func(context.Context, Request) (Result, error)) *Particle {
	ctx, cancel := context.WithTimeout(r.performing, r.o.ActTime)
	result, err := ask(ctx, act)
	cancel()

	n := about(Uncertain, act, err)
	switch {
	case err != nil:
		r.tell(n)
		return nil
	case result.Outcome == OutcomeSucceeded:
		n.Kind, n.Outcome, n.Value = Settled, result.Outcome, result.Value
		n.Head, n.Err = r.engine.Settle(r.commits, act.Cell, act.Operation, act.Attempt, result.Value)
	case result.Outcome == OutcomeFailed:
		n.Kind, n.Outcome, n.Reason = ActFailed, result.Outcome, recordable(result.Reason)
		n.Head, n.Err = r.engine.Fail(r.commits, act.Cell, act.Operation, act.Attempt, n.Reason)
	}
	switch {
	case n.Kind == Uncertain:
		r.tell(n)
		return nil
	case n.Err == nil:
		r.tell(n)
		return &act.Cell
	}
	// The outcome stays in the notice, so that a person can record it.
	n.Kind = Uncertain
	r.leave(n)
	if errors.Is(n.Err, ErrConflict) {
		return &act.Cell // somebody else has recorded another outcome
	}
	return nil
}
