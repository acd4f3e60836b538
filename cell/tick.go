package cell

import (
	"bytes"
	"context"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// ProgressKind is what a tick has found or done.
type ProgressKind uint8

// The kinds of progress.
const (
	Idle     ProgressKind = iota + 1 // there is no input
	Advanced                         // a slice was run, the input goes on
	Complete                         // the input has ended, and its value is the state
	Awaiting                         // an act waits for an attempt
	Unknown                          // an attempt is recorded and its outcome is not
)

func (k ProgressKind) String() string {
	switch k {
	case Idle:
		return "idle"
	case Advanced:
		return "advanced"
	case Complete:
		return "complete"
	case Awaiting:
		return "awaiting"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("progress %d", uint8(k))
}

// Progress is the answer of a tick.
type Progress struct {
	Kind      ProgressKind
	Head      Head     // of Advanced and Complete; beside an error, of the fault that ended the input
	State     nox.Noun // of Complete
	Operation Particle // the id, of Awaiting and Unknown
	Attempt   Particle // the id, of Unknown
	Tag       uint64   // of Awaiting and Unknown
	Arguments nox.Noun // of Awaiting and Unknown
}

// Tick runs a slice of the live input (section 15.4): it reserves at most Slice steps
// in one commit, runs them, and settles what they have led to in a second one. A
// settlement that was lost charges the whole reservation. The error wraps ErrLifecycle
// for a cell that is not active; ErrRuntime, ErrBudget or ErrUnsupported for an input
// that has ended with a fault, which is committed and leaves the state as it was.
func (e *Engine) Tick(ctx context.Context, cell Particle) (p Progress, err error) {
	err = e.on(ctx, cell, func(at *slot) error {
		p, err = e.tick(ctx, at)
		return err
	})
	return p, err
}

func (e *Engine) tick(ctx context.Context, at *slot) (Progress, error) {
	s := at.state
	if l := s.snapshot.Lifecycle; l != record.Active {
		return Progress{}, fmt.Errorf("%w: cell %v is %v, only an active one runs", ErrLifecycle, s.cell, l)
	}
	in := s.input
	if in == nil {
		return Progress{Kind: Idle}, nil
	}
	if a := in.act; a != nil {
		switch {
		case a.stage == record.Pending:
			return Progress{Kind: Awaiting, Operation: a.id, Tag: a.tag, Arguments: a.arguments}, nil
		case a.stage == record.AttemptRecorded:
			return Progress{Kind: Unknown, Operation: a.id, Attempt: a.attemptID, Tag: a.tag, Arguments: a.arguments}, nil
		case a.disposition == record.FailedDefinite:
			return e.fault(ctx, at, a.reason, in.charged, fmt.Errorf("%w: the act has failed: %s", ErrRuntime, a.reason))
		}
	}
	if in.reserved > 0 { // a settlement was lost
		d := e.draft(s)
		d.next.input.charged += in.reserved
		d.next.input.reserved = 0
		if _, err := e.liveCommit(ctx, at, d, EntryRecover); err != nil {
			return Progress{}, err
		}
		s = at.state
		in = s.input
	}
	if in.charged >= in.limit {
		return e.fault(ctx, at, faultBudget, in.charged, fmt.Errorf("%w: all %d steps of the input are used", ErrBudget, in.limit))
	}
	program, err := e.program(ctx, s) // now, as what fails later costs the slice
	if err != nil {
		return Progress{}, err
	}
	d, err := at.prepared()
	if d == nil && err == nil {
		d = e.draft(s)
		err = e.reservation(d)
	}
	if err == nil {
		_, err = e.write(ctx, at, d)
	}
	if err != nil {
		return Progress{}, err
	}
	return e.slice(ctx, at, program)
}

// reservation makes the commit that pays for the next slice.
func (e *Engine) reservation(d *draft) error {
	in := d.next.input
	in.reserved = min(in.limit-in.charged, Slice)
	d.liveEvent(EntryReserve)
	return e.finish(d)
}

// liveCommit commits the live part alone, or before further operations.
func (e *Engine) liveCommit(ctx context.Context, at *slot, d *draft, entry string, more ...node) (Head, error) {
	d.liveEvent(entry, more...)
	return e.commit(ctx, at, d)
}

// liveEvent makes an event about the live input, which stays live.
func (d *draft) liveEvent(entry string, more ...node) {
	event := d.Known(d.s.input.event)
	d.system(entry, event)
	d.live(event, d.known(d.s.input.context))
	d.operations = append(d.operations, more...)
}

// slice runs what is reserved and settles it. The reservation is durable.
func (e *Engine) slice(ctx context.Context, at *slot, program *rune.Program) (Progress, error) {
	s := at.state
	in := s.input
	// A fault charges the whole reservation.
	fail := func(err error) (Progress, error) {
		text, ok := faultText(err)
		if !ok {
			return Progress{}, runtimeError(err) // not of the program: nothing is settled
		}
		return e.fault(ctx, at, text, in.charged+in.reserved, runtimeError(err))
	}
	m, err := machine.Restore(in.saved, in.limit)
	if err == nil && m.Used() != in.used {
		err = &machine.Fault{Kind: machine.BadCheckpoint, Reason: fmt.Sprintf("it has used %d steps where %d are recorded", m.Used(), in.used)}
	}
	if err != nil {
		return fail(err)
	}
	m.Trace(program.Map)
	if in.act != nil {
		if err := m.Resume(in.act.value); err != nil {
			return fail(err)
		}
	}
	result, err := m.Run(in.reserved)
	if err != nil {
		return fail(err)
	}
	charged := in.charged + m.Used() - in.used
	switch result.Status {
	case machine.Event:
		return e.fault(ctx, at, faultEvents, charged, fmt.Errorf("%w: the program waits for events", ErrUnsupported), m.Used())
	case machine.Done:
		if err := machine.Fits(program, result.Value); err != nil {
			return fail(err)
		}
		return e.complete(ctx, at, result.Value, charged, m.Used())
	}
	saved, err := m.Checkpoint()
	if err != nil {
		return fail(err)
	}
	d := e.draft(s)
	next := d.next.input
	next.charged, next.reserved, next.used, next.act, next.saved = charged, 0, m.Used(), nil, saved
	d.checkpoint = record.Some(d.Artifact(saved, CheckpointMedia))
	entry := EntryYield
	var more []node
	if result.Status == machine.Act {
		entry = EntryAct
		arguments, err := encode(result.Arguments)
		if err != nil {
			return Progress{}, err // the machine has the same limits
		}
		invocation := d.Known(in.event)
		d.actID = record.Some(d.Record(&record.OperationID[node]{
			Cell: d.cell, BaseCommit: d.Known(s.head.Commit), Invocation: invocation, Ordinal: 0,
		}))
		d.operation = record.Some(d.Record(&record.Operation[node]{
			ID: d.actID.Link, Invocation: invocation, Target: record.LocalExecutor, Act: d.Record(&record.Act[node]{Tag: result.Tag}),
			Arguments: d.Artifact(arguments, NounMedia), Policy: d.Known(s.snapshot.AuthorityPolicy),
			ResultSchema: d.Manifest(record.NounArtifact), Retry: record.NeverRetry, Finality: d.Label(finalityLabel),
		}))
		next.act = &act{tag: result.Tag, arguments: result.Arguments, stage: record.Pending}
		more = append(more, d.operation.Link)
	}
	d.liveEvent(entry, more...)
	if in.act != nil && !bytes.Equal(saved, in.saved) {
		d.consumed(in.act)
	}
	head, err := e.commit(ctx, at, d)
	return Progress{Kind: Advanced, Head: head}, err
}

// complete ends an input with a value, which becomes the state.
func (e *Engine) complete(ctx context.Context, at *slot, value nox.Noun, charged, used uint64) (Progress, error) {
	artifact, err := encode(value)
	if err != nil {
		return Progress{}, err // the value fits a start, which is smaller
	}
	d := e.draft(at.state)
	d.application = record.Some(d.Artifact(artifact, NounMedia))
	d.next.noun = value
	head, err := e.end(ctx, at, d, EntryComplete, d.application.Link, record.Completed, charged, used)
	return Progress{Kind: Complete, Head: head, State: value}, err
}

// fault ends an input with a text, leaves the state as it was, and returns why. used
// is the machine's count if it has changed.
func (e *Engine) fault(ctx context.Context, at *slot, text string, charged uint64, why error, used ...uint64) (Progress, error) {
	count := at.state.input.used
	if len(used) > 0 {
		count = used[0]
	}
	d := e.draft(at.state)
	payload := d.Artifact([]byte(text), TextMedia)
	head, err := e.end(ctx, at, d, EntryFault, payload, record.Cancelled, charged, count)
	if err != nil {
		return Progress{}, err
	}
	return Progress{Head: head}, why
}

// end makes the commit after which there is no input.
func (e *Engine) end(ctx context.Context, at *slot, d *draft, entry string, payload node, status record.InboxStatus, charged, used uint64) (Head, error) {
	in := d.s.input
	d.next.input = nil
	d.system(entry, payload)
	d.keep(d.Known(in.event), status)
	d.operations = append(d.operations, d.Record(&record.LocalResources[node]{
		Charged: charged, CheckpointUsed: used, Limit: in.limit,
	}))
	if in.act != nil && in.act.stage == record.Resolved {
		d.consumed(in.act)
	}
	return e.commit(ctx, at, d)
}
