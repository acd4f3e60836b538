package cell

import (
	"bytes"
	"context"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

// Attempt is what a caller of Begin may dispatch, once. Its particle is the idempotency
// key of the effect.
type Attempt struct {
	Operation Particle // its id
	Attempt   Particle // its id
	Tag       uint64
	Arguments nox.Noun
}

// Begin asks the ward and records an attempt of the pending act (section 15.5). Only
// whoever gets the attempt may dispatch it. The error wraps ErrLifecycle for a cell
// that is not active, ErrMissing if no act waits, ErrConflict for another operation,
// ErrUnknownOutcome if the attempt was recorded before, and ErrDenied if the ward
// refuses, which is recorded too.
func (e *Engine) Begin(ctx context.Context, cell, operation Particle) (a Attempt, err error) {
	err = e.on(ctx, cell, func(at *slot) error {
		a, err = e.begin(ctx, at, operation)
		return err
	})
	return a, err
}

// pending is the act of a cell that is about to be attempted or settled.
func (s *state) pending(operation Particle) (*act, error) {
	if s.input == nil || s.input.act == nil {
		return nil, fmt.Errorf("%w: cell %v waits for no act", ErrMissing, s.cell)
	}
	if a := s.input.act; a.id == operation {
		return a, nil
	}
	return nil, fmt.Errorf("%w: cell %v waits for the operation %v", ErrConflict, s.cell, s.input.act.id)
}

func (e *Engine) begin(ctx context.Context, at *slot, operation Particle) (Attempt, error) {
	s := at.state
	if l := s.snapshot.Lifecycle; l != record.Active {
		return Attempt{}, fmt.Errorf("%w: cell %v is %v, only the acts of an active one are attempted", ErrLifecycle, s.cell, l)
	}
	a, err := s.pending(operation)
	if err != nil {
		return Attempt{}, err
	}
	if a.stage != record.Pending {
		return Attempt{}, fmt.Errorf("%w: an attempt of %v is recorded; it is never made again", ErrUnknownOutcome, operation)
	}
	if _, err := e.program(ctx, s); err != nil {
		return Attempt{}, err
	}
	epoch := s.snapshot.Epoch
	allows, err := e.ward.Allows(ctx, Question{s.cell, a.id, s.snapshot.AuthorityPolicy, epoch, a.tag, s.policy.AllowedActs})
	if err != nil {
		return Attempt{}, err
	}
	d := e.draft(s)
	act, policy := d.Known(a.operation), d.Known(s.snapshot.AuthorityPolicy)
	if !allows {
		denial := d.Record(&record.LocalDenial[node]{
			Cell: d.cell, OperationRecord: act, Policy: policy, Epoch: epoch, Reason: d.Artifact([]byte(deniedReason), TextMedia),
		})
		if _, err := e.liveCommit(ctx, at, d, EntryDenied, denial); err != nil {
			return Attempt{}, err
		}
		return Attempt{}, fmt.Errorf("%w: the policy of cell %v does not allow the act %d", ErrDenied, s.cell, a.tag)
	}
	id := d.Known(a.id)
	attemptID := d.Record(&record.AttemptID[node]{Operation: id, Number: 0, Epoch: epoch})
	attempt := d.Record(&record.Attempt[node]{
		ID: attemptID, Operation: id, Number: 0, Epoch: epoch,
		AuthorityDecision: d.Record(&record.LocalAuthorization[node]{Cell: d.cell, OperationRecord: act, Policy: policy, Epoch: epoch}),
		ExecutorContract:  d.Label(executorLabel),
	})
	d.attempt, d.attemptID = record.Some(attempt), record.Some(attemptID)
	d.next.input.act.stage = record.AttemptRecorded
	d.liveEvent(EntryAttempt, attempt)
	if err := e.finish(d); err != nil {
		return Attempt{}, err
	}
	// A store answers a write that it knows as if it had just been made. Nobody but
	// another engine could have made this one, and then the attempt is not ours.
	if _, known, err := e.store.Request(ctx, s.cell, d.Particle(d.request)); known || err != nil {
		at.state = nil
		if err == nil {
			err = fmt.Errorf("%w: somebody else has recorded the attempt of %v", ErrConflict, operation)
		}
		return Attempt{}, err
	}
	if _, err := e.write(ctx, at, d); err != nil {
		return Attempt{}, err
	}
	begun := at.state.input.act.attemptID
	e.underway.add(begun)
	return Attempt{a.id, begun, a.tag, a.arguments}, nil
}

// Settle records that an attempt has succeeded with a value (section 15.5). The first
// outcome stands for ever: the same again gives the head that it had led to, another
// one ErrConflict. The error wraps ErrMissing if no act waits, ErrConflict for another
// operation or attempt, and ErrRuntime for a value that is too large.
func (e *Engine) Settle(ctx context.Context, cell, operation, attempt Particle, value nox.Noun) (Head, error) {
	artifact, err := nox.Encode(value)
	if err != nil {
		return Head{}, runtimeError(fmt.Errorf("the value of the outcome: %w", err))
	}
	return e.outcome(ctx, cell, settlement{operation, attempt, record.Succeeded, value, artifact})
}

// Fail records that an attempt has definitely failed, for a reason of at most MaxReason
// bytes: the next tick ends the input with it. The errors are those of Settle, and
// ErrBudget for a reason that is too long.
func (e *Engine) Fail(ctx context.Context, cell, operation, attempt Particle, reason string) (Head, error) {
	if len(reason) > MaxReason {
		return Head{}, fmt.Errorf("%w: a reason of %d bytes, at most %d are allowed", ErrBudget, len(reason), MaxReason)
	}
	return e.outcome(ctx, cell, settlement{operation, attempt, record.FailedDefinite, nox.Noun{}, []byte(reason)})
}

// settlement is an outcome that is to be recorded.
type settlement struct {
	operation, attempt Particle
	disposition        record.Disposition
	value              nox.Noun
	artifact           []byte // the value, or the reason
}

func (e *Engine) outcome(ctx context.Context, cell Particle, o settlement) (head Head, err error) {
	err = e.on(ctx, cell, func(at *slot) error {
		head, err = e.settle(ctx, at, o)
		return err
	})
	return head, err
}

// records makes the outcome and its event.
func (o settlement) records(d *draft, about optional) {
	operation, attempt := d.Known(o.operation), d.Known(o.attempt)
	outcome := record.Outcome[node]{Operation: operation, Attempt: attempt, Disposition: o.disposition}
	if o.disposition == record.Succeeded {
		outcome.Value = record.Some(d.Artifact(o.artifact, NounMedia))
	} else {
		outcome.Evidence = record.Some(d.Artifact(o.artifact, TextMedia))
	}
	d.outcome = record.Some(d.Record(&outcome))
	nonce := d.Record(&record.OutcomeRequest[node]{Operation: operation, Attempt: attempt})
	d.happens(EntryOutcome, d.outcome.Link, record.Nonce[node]{Of: record.Some(nonce)}, about)
}

func (e *Engine) settle(ctx context.Context, at *slot, o settlement) (Head, error) {
	s := at.state
	a, refusal := s.pending(o.operation)
	if refusal == nil && (a.stage != record.AttemptRecorded || a.attemptID != o.attempt) {
		refusal = fmt.Errorf("%w: the operation %v waits for no outcome of the attempt %v", ErrConflict, o.operation, o.attempt)
	}
	d := e.draft(s)
	if refusal != nil {
		// It may have been recorded before.
		o.records(d, optional{})
		if err := e.sealing.seal(d.Builder); err != nil {
			return Head{}, err
		}
		head, known, err := e.repeated(ctx, d, func(_ Particle, event *record.Event[Particle]) bool {
			return event.Payload == d.Particle(d.outcome.Link)
		})
		if known || err != nil {
			return head, err
		}
		return Head{}, refusal
	}
	in := d.next.input
	in.act.stage, in.act.disposition, in.act.value = record.Resolved, o.disposition, o.value
	if o.disposition == record.FailedDefinite {
		in.act.reason = string(bytes.Clone(o.artifact))
	}
	about := d.known(s.input.context)
	o.records(d, about)
	d.live(d.Known(s.input.event), about)
	d.operations = append(d.operations, d.outcome.Link)
	head, err := e.commit(ctx, at, d)
	if err == nil {
		e.underway.remove(o.attempt)
	}
	return head, err
}

// Cancel ends the live input (section 15.6). The error wraps ErrMissing if there is
// none, and ErrUnknownOutcome while an attempt is recorded whose outcome is not.
func (e *Engine) Cancel(ctx context.Context, cell Particle) (head Head, err error) {
	err = e.on(ctx, cell, func(at *slot) error {
		in := at.state.input
		if in == nil {
			return fmt.Errorf("%w: cell %v has no input", ErrMissing, cell)
		}
		if in.act != nil && in.act.stage == record.AttemptRecorded {
			return fmt.Errorf("%w: settle the attempt %v first, its effect may have happened", ErrUnknownOutcome, in.act.attemptID)
		}
		p, err := e.fault(ctx, at, faultCancelled, in.charged+in.reserved, nil)
		head = p.Head
		return err
	})
	return head, err
}
