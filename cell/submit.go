package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune/machine"
)

// Input is what is sent to a cell.
type Input struct {
	Nonce   [32]byte // says which request this is: once an event in the whole store
	Noun    nox.Noun
	Context *Particle // content that the program sees as ~here; nil for none
}

// Submit admits an input: the next ticks run it (section 15.3). The same input with
// the same nonce again gives the head that it had led to, in any lifecycle. The error
// wraps ErrConflict for a nonce that was used for something else, ErrLifecycle for a
// cell that is not active, ErrBusy for one with an input, ErrMissing for a context that
// is not stored, ErrLimit for a noun that is too large, and ErrRuntime for one that
// leaves no room to start; then nothing is written.
func (e *Engine) Submit(ctx context.Context, cell Particle, in Input) (head Head, err error) {
	noun, err := encode(in.Noun)
	if err != nil {
		return Head{}, fmt.Errorf("input: %w", err)
	}
	err = e.on(ctx, cell, func(at *slot) error {
		head, err = e.submit(ctx, at, in, noun)
		return err
	})
	return head, err
}

func (e *Engine) submit(ctx context.Context, at *slot, in Input, noun []byte) (Head, error) {
	s := at.state
	d := e.draft(s)
	var about optional
	if in.Context != nil {
		about = record.Some(d.Known(*in.Context))
	}
	payload := d.Artifact(noun, NounMedia)
	d.happens(EntryMain, payload, record.Nonce[node]{Bytes: in.Nonce}, about)

	// Whether it may be admitted is only told if it was not admitted before.
	refusal, err := e.start(ctx, d, in, about)
	if err != nil {
		return Head{}, err
	}
	if refusal == nil {
		// A store that knows the request refuses the write, so that nobody need ask first.
		head, err := e.commit(ctx, at, d)
		if !errors.Is(err, ErrConflict) {
			return head, err
		}
		refusal = err
	} else if err := e.sealing.seal(d.Builder); err != nil {
		return Head{}, err
	}
	head, known, err := e.repeated(ctx, d, func(event Particle, _ *record.Event[Particle]) bool {
		return event == d.Particle(d.event)
	})
	if known || err != nil {
		return head, err
	}
	return Head{}, refusal
}

// start makes the first checkpoint of an input, and the live part of its commit.
func (e *Engine) start(ctx context.Context, d *draft, in Input, about optional) (refusal, err error) {
	s := d.s
	switch {
	case s.snapshot.Lifecycle != record.Active:
		return fmt.Errorf("%w: cell %v is %v, only an active one takes inputs", ErrLifecycle, s.cell, s.snapshot.Lifecycle), nil
	case s.input != nil:
		return fmt.Errorf("%w: cell %v takes another one when that has ended", ErrBusy, s.cell), nil
	}
	if in.Context != nil {
		if _, _, err := e.store.Content(ctx, *in.Context); errors.Is(err, ErrMissing) {
			return fmt.Errorf("%w: the context %v is not stored", ErrMissing, *in.Context), nil
		} else if err != nil {
			return nil, err
		}
	}
	program, err := e.program(ctx, s)
	if err != nil {
		return nil, err
	}
	m, err := machine.Load(program, machine.Input{State: s.noun, Event: in.Noun, Here: in.Context}, s.policy.StepLimit)
	if err != nil {
		return runtimeError(err), nil
	}
	saved, err := m.Checkpoint()
	if err != nil {
		return runtimeError(err), nil
	}
	next := &input{saved: saved, limit: s.policy.StepLimit}
	if in.Context != nil {
		next.context = record.Some(*in.Context)
	}
	d.next.input = next
	d.checkpoint = record.Some(d.Artifact(saved, CheckpointMedia))
	d.live(d.event, about)
	return nil, nil
}

// repeated answers the request of a draft if it is known: with the head that it has led
// to if same says so of its event, else with ErrConflict.
func (e *Engine) repeated(ctx context.Context, d *draft, same func(Particle, *record.Event[Particle]) bool) (head Head, known bool, err error) {
	request := d.Particle(d.request)
	head, known, err = e.store.Request(ctx, d.s.cell, request)
	if err != nil || !known {
		return Head{}, known, err
	}
	r := record.NewReader(ctx, e.suite, e.store, record.ArtifactBudget)
	var commit record.Commit[Particle]
	if err := r.Record(head.Commit, &commit); err != nil {
		return Head{}, true, err
	}
	for _, p := range commit.Events {
		var event record.Event[Particle]
		if err := r.Record(p, &event); err != nil {
			return Head{}, true, err
		}
		if same(p, &event) {
			return head, true, nil
		}
	}
	return Head{}, true, fmt.Errorf("%w: the request %v was made before, with something else (commit %d)", ErrConflict, request, head.Index)
}
