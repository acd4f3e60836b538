package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
)

// Replayed is what a replay has found.
type Replayed struct {
	Cell    Particle
	Commits uint64 // that were made again and are the same
	Head    Head
	Finding *Finding // the first commit that could not be made again; nil if all are the same
}

// Replay makes a cell again from its birth: every input is run, every act is asked for,
// and outcomes and decisions are taken from the history. It compares each commit and
// writes nothing. Progress is told of every commit that is the same, if it is not nil.
func (e *Engine) Replay(ctx context.Context, cell Particle, progress func(done, total uint64)) (Replayed, error) {
	head, err := e.store.Head(ctx, cell)
	if err != nil {
		return Replayed{}, err
	}
	r := &replay{real: e.store, cell: cell, head: head, progress: progress}
	r.engine = New(r, Options{Ward: r, Cells: 1})
	err = r.run(ctx)
	out := Replayed{Cell: cell, Commits: r.next, Head: head}
	var different *differs
	switch {
	case errors.As(err, &different):
		out.Finding = &Finding{cell, r.next, different}
		return out, nil
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrSchema), errors.Is(err, ErrCorrupt), errors.Is(err, ErrMissing):
		out.Finding = &Finding{cell, r.next, err}
		return out, nil
	}
	return out, err
}

// differs is a commit that is not what running the cell again leads to.
type differs struct{ what string }

func (d *differs) Error() string { return d.what }

// errOther is what the writes of a replay end with that are not in the history: a
// settlement that was lost, for instance.
var errOther = errors.New("not in the history")

// replay is a store that takes exactly the commits of a history, and the ward that
// decides as it did.
type replay struct {
	real     Store
	engine   *Engine
	cell     Particle
	head     Head
	next     uint64 // the index of the next commit
	progress func(done, total uint64)

	page    []Head // of the history, from next on or before
	allows  bool   // the decision about the act that is being attempted
	refused Particle
}

// at is a commit of the history.
func (r *replay) at(ctx context.Context, index uint64) (Head, error) {
	if len(r.page) == 0 || index < r.page[0].Index || index > r.page[len(r.page)-1].Index {
		page, err := r.real.History(ctx, r.cell, index, MaxHistory)
		if err != nil {
			return Head{}, err
		}
		if len(page) == 0 || page[0].Index != index {
			return Head{}, fmt.Errorf("%w: commit %d is not in the history", ErrCorrupt, index)
		}
		r.page = page
	}
	h := r.page[index-r.page[0].Index]
	if h.Index != index {
		return Head{}, fmt.Errorf("%w: commit %d is not in the history", ErrCorrupt, index)
	}
	return h, nil
}

// Content implements Store.
func (r *replay) Content(ctx context.Context, p Particle) (record.Kind, []byte, error) {
	return r.real.Content(ctx, p)
}

// Head implements Store.
func (r *replay) Head(ctx context.Context, _ Particle) (Head, error) {
	if r.next == 0 {
		return Head{}, ErrMissing
	}
	return r.at(ctx, r.next-1)
}

// Cells implements Store.
func (*replay) Cells(context.Context, Particle, int) ([]CellHead, error) { return nil, nil }

// History implements Store.
func (r *replay) History(ctx context.Context, cell Particle, from uint64, limit int) ([]Head, error) {
	return r.real.History(ctx, cell, from, limit)
}

// Request implements Store: nothing is made twice in a history.
func (*replay) Request(context.Context, Particle, Particle) (Head, bool, error) {
	return Head{}, false, nil
}

// Write implements Store.
func (r *replay) Write(ctx context.Context, w *Write) (Head, error) {
	r.refused = w.Next.Commit
	if r.next > r.head.Index {
		return Head{}, errOther
	}
	want, err := r.at(ctx, r.next)
	if err != nil {
		return Head{}, err
	}
	if w.Next != want {
		return Head{}, errOther
	}
	r.next++
	if r.progress != nil {
		r.progress(r.next, r.head.Index+1)
	}
	return w.Next, nil
}

// Allows implements Ward.
func (r *replay) Allows(context.Context, Question) (bool, error) { return r.allows, nil }

func (r *replay) run(ctx context.Context) error {
	for r.next <= r.head.Index {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := r.next
		if before > 0 {
			// Most commits follow from the one before, and need not be read. A tick with
			// nothing to do writes nothing.
			_, err := r.engine.Tick(ctx, r.cell)
			if r.next > before {
				continue
			}
			if errors.Is(err, ErrStore) || errors.Is(err, ErrCorrupt) {
				return err
			}
		}
		entry, err := r.step(ctx)
		if r.next > before {
			continue // whatever it has ended with, the history says how it went on
		}
		switch {
		case errors.Is(err, errOther):
			return &differs{fmt.Sprintf("the history has a %s here, running the cell again leads to %v", entry, r.refused)}
		case err != nil && Code(err) != "store-failed":
			return &differs{fmt.Sprintf("the history has a %s here, running the cell again is refused: %v", entry, err)}
		case err != nil:
			return err
		}
		return &differs{fmt.Sprintf("the history has a %s here, running the cell again leads to nothing", entry)}
	}
	return nil
}

// step does what the next commit says was done. It returns the entry.
func (r *replay) step(ctx context.Context) (string, error) {
	h, err := r.at(ctx, r.next)
	if err != nil {
		return "commit", err
	}
	in := record.NewReader(ctx, record.Local(), r.real, record.CellBudget)
	if r.next == 0 {
		return "birth", r.birth(ctx, in)
	}
	var commit record.Commit[Particle]
	if err := in.Record(h.Commit, &commit); err != nil {
		return "commit", err
	}
	if len(commit.Events) != 1 {
		return "commit", fmt.Errorf("%w: commit %d has %d events instead of one", ErrInvalid, h.Index, len(commit.Events))
	}
	var event record.Event[Particle]
	if err := in.Record(commit.Events[0], &event); err != nil {
		return "commit", err
	}
	return event.Entry, r.again(ctx, in, &event)
}

// birth makes the cell again.
func (r *replay) birth(ctx context.Context, in *record.Reader) error {
	var birth record.Birth[Particle]
	var definition record.Definition[Particle]
	var policy record.LocalPolicy[Particle]
	var snapshot record.Snapshot[Particle]
	for _, want := range []struct {
		p    *Particle
		into record.Record[Particle]
	}{{&r.cell, &birth}, {&birth.Definition, &definition}, {&birth.Authority, &policy}, {&birth.InitialSnapshot, &snapshot}} {
		if err := in.Record(*want.p, want.into); err != nil {
			return err
		}
	}
	source, _, err := in.Artifact(definition.Code)
	if err != nil {
		return err
	}
	initial, err := readNoun(in, snapshot.ApplicationState)
	if err != nil {
		return err
	}
	b := Birth{Source: source, Initial: initial, Nonce: birth.Nonce.Bytes, StepLimit: policy.StepLimit, Acts: policy.AllowedActs}
	if birth.Parent.Present {
		b.Parent = &birth.Parent.Link
	}
	_, _, err = r.engine.Create(ctx, b)
	return err
}

// again does what an event says was done.
func (r *replay) again(ctx context.Context, in *record.Reader, event *record.Event[Particle]) error {
	switch event.Entry {
	case EntryMain:
		noun, err := readNoun(in, event.Payload)
		if err != nil {
			return err
		}
		input := Input{Nonce: event.Nonce.Bytes, Noun: noun}
		if event.Context.Present {
			input.Context = &event.Context.Link
		}
		_, err = r.engine.Submit(ctx, r.cell, input)
		return err
	case EntryAttempt, EntryDenied:
		r.allows = event.Entry == EntryAttempt
		view, err := r.engine.Inspect(ctx, r.cell)
		if err != nil {
			return err
		}
		if view.Input == nil || view.Input.Act == nil {
			return fmt.Errorf("%w: no act waits", ErrMissing)
		}
		_, err = r.engine.Begin(ctx, r.cell, view.Input.Act.Operation)
		return err
	case EntryOutcome:
		return r.outcome(ctx, in, event.Payload)
	case EntryFault:
		text, _, err := in.Artifact(event.Payload)
		if err != nil {
			return err
		}
		if string(text) == faultCancelled {
			_, err = r.engine.Cancel(ctx, r.cell)
			return err
		}
	case record.Active.String(), record.Paused.String(), record.Retiring.String(), record.Retired.String():
		to, err := in.Lifecycle(event.Payload)
		if err != nil {
			return err
		}
		_, err = r.engine.Manage(ctx, r.cell, to)
		return err
	}
	_, err := r.engine.Tick(ctx, r.cell)
	return err
}

func (r *replay) outcome(ctx context.Context, in *record.Reader, p Particle) error {
	var o record.Outcome[Particle]
	if err := in.Record(p, &o); err != nil {
		return err
	}
	if o.Disposition == record.Succeeded {
		value, err := readNoun(in, o.Value.Link)
		if err != nil {
			return err
		}
		_, err = r.engine.Settle(ctx, r.cell, o.Operation, o.Attempt, value)
		return err
	}
	reason, _, err := in.Artifact(o.Evidence.Link)
	if err != nil {
		return err
	}
	_, err = r.engine.Fail(ctx, r.cell, o.Operation, o.Attempt, string(reason))
	return err
}
