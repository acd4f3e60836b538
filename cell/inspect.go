package cell

import (
	"context"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

// View is a cell as it is.
type View struct {
	Cell       Particle
	Head       Head
	Snapshot   Particle
	Definition Particle
	Policy     record.LocalPolicy[Particle]
	Lifecycle  record.Lifecycle
	State      nox.Noun
	StateID    Particle  // the artifact
	Input      *LiveView // nil if it is idle
	Fault      string    // of the last input, if it has ended with one
}

// LiveView is the input of a cell.
type LiveView struct {
	Event    Particle
	Context  *Particle
	Charged  uint64 // steps paid for
	Reserved uint64 // steps of a slice that may be running
	Used     uint64 // the machine's own count
	Limit    uint64
	Act      *ActView // nil if it waits for the scheduler
}

// ActView is the act that an input waits for.
type ActView struct {
	Operation Particle // its id
	Tag       uint64
	Arguments nox.Noun
	Stage     record.Stage
	Attempt   *Particle // its id
}

// Inspect shows a cell. It writes, compiles and runs nothing.
func (e *Engine) Inspect(ctx context.Context, cell Particle) (v View, err error) {
	err = e.on(ctx, cell, func(at *slot) error {
		v, err = e.inspect(ctx, at.state)
		return err
	})
	return v, err
}

func (e *Engine) inspect(ctx context.Context, s *state) (View, error) {
	v := View{
		Cell: s.cell, Head: s.head, Snapshot: s.snapshotID, Definition: s.snapshot.Definition, Policy: s.policy,
		Lifecycle: s.snapshot.Lifecycle, State: s.noun, StateID: s.snapshot.ApplicationState,
	}
	if in := s.input; in != nil {
		v.Input = &LiveView{Event: in.event, Charged: in.charged, Reserved: in.reserved, Used: in.used, Limit: in.limit}
		if in.context.Present {
			v.Input.Context = &in.context.Link
		}
		if a := in.act; a != nil {
			v.Input.Act = &ActView{Operation: a.id, Tag: a.tag, Arguments: a.arguments, Stage: a.stage}
			if a.attempt.Present {
				v.Input.Act.Attempt = &a.attemptID
			}
		}
		return v, nil
	}
	var err error
	v.Fault, err = e.lastFault(ctx, s)
	return v, err
}

// lastFault is the text with which the last input has ended, which the commit of its
// end has, whatever came after that.
func (e *Engine) lastFault(ctx context.Context, s *state) (string, error) {
	r := record.NewReader(ctx, e.suite, e.store, record.CellBudget)
	inbox, err := r.Map(s.snapshot.Inbox, 1)
	if err != nil || len(inbox) == 0 {
		return "", err
	}
	var entry record.InboxEntry[Particle]
	if err := r.Record(inbox[0].Value, &entry); err != nil || entry.Status != record.Cancelled {
		return "", err
	}
	heads, err := e.store.History(ctx, s.cell, entry.LastIndex, 1)
	if err != nil {
		return "", err
	}
	if len(heads) == 0 || heads[0].Index != entry.LastIndex {
		return "", errHostile(s.cell, "the commit that has ended its input is not in its history")
	}
	var commit record.Commit[Particle]
	if err := r.Record(heads[0].Commit, &commit); err != nil {
		return "", err
	}
	if len(commit.Events) != 1 {
		return "", errHostile(s.cell, "a commit has not one event")
	}
	var event record.Event[Particle]
	if err := r.Record(commit.Events[0], &event); err != nil {
		return "", err
	}
	if event.Entry != EntryFault {
		return "", errHostile(s.cell, "its input was cancelled by a commit that is no fault")
	}
	text, _, err := r.Artifact(event.Payload)
	return string(text), err
}
