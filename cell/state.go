package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// state is a cell as its head says. It is not changed: a commit makes another one.
type state struct {
	cell       Particle
	head       Head
	snapshotID Particle
	snapshot   record.Snapshot[Particle]
	policy     record.LocalPolicy[Particle]
	noun       nox.Noun // the application state
	input      *input   // nil if it is idle
}

// input is the live input of a cell.
type input struct {
	event      Particle
	context    record.Optional[Particle]
	checkpoint Particle // the artifact
	saved      []byte   // its bytes
	charged    uint64   // steps that were paid for
	reserved   uint64   // steps that are paid for and may be running
	used       uint64   // the machine's own count
	limit      uint64
	act        *act // nil if it waits for the scheduler
}

// act is the unresolved act of an input, or the resolved one that has not been
// consumed.
type act struct {
	id        Particle
	operation Particle // the record
	tag       uint64
	arguments nox.Noun
	stage     record.Stage
	attempt   record.Optional[Particle] // the record
	attemptID Particle
	outcome   record.Optional[Particle] // the record

	disposition record.Disposition
	value       nox.Noun // of a success
	reason      string   // of a failure
}

// weight is about how many bytes a state takes. Nouns may share what is counted twice.
func (s *state) weight() int {
	if s == nil {
		return 0
	}
	const pair = 48
	weight := 1024 + 8*len(s.policy.AllowedActs) + pair*int(s.noun.Size())
	if in := s.input; in != nil {
		weight += 512 + len(in.saved)
		if a := in.act; a != nil {
			weight += 512 + pair*int(a.arguments.Size()+a.value.Size()) + len(a.reason)
		}
	}
	return weight
}

// errHostile is for content that is well-formed and does not belong together.
func errHostile(cell Particle, what string) error {
	return fmt.Errorf("%w: cell %v: %s", ErrInvalid, cell, what)
}

// load reads a cell from its head on (section 14).
func (e *Engine) load(ctx context.Context, cell Particle) (*state, error) {
	head, err := e.store.Head(ctx, cell)
	if err != nil {
		if errors.Is(err, ErrMissing) {
			err = fmt.Errorf("%w: no cell is named %v", ErrMissing, cell)
		}
		return nil, err
	}
	s := &state{cell: cell, head: head}
	r := record.NewReader(ctx, e.suite, e.store, record.CellBudget)
	if head.Index == 0 {
		if head.Commit != cell {
			return nil, fmt.Errorf("%w: the birth of cell %v is %v", ErrConflict, cell, head.Commit)
		}
		var birth record.Birth[Particle]
		if err := r.Record(cell, &birth); err != nil {
			return nil, err
		}
		s.snapshotID = birth.InitialSnapshot
	} else {
		var commit record.Commit[Particle]
		if err := r.Record(head.Commit, &commit); err != nil {
			return nil, err
		}
		if commit.Cell != cell || commit.Index != head.Index {
			return nil, fmt.Errorf("%w: the head of cell %v at %d is commit %d of cell %v", ErrConflict, cell, head.Index, commit.Index, commit.Cell)
		}
		s.snapshotID = commit.After
	}
	if err := r.Record(s.snapshotID, &s.snapshot); err != nil {
		return nil, err
	}
	if profile := e.profile(); s.snapshot.Profile != profile {
		return nil, fmt.Errorf("%w: cell %v has the profile %v, only the local one %v is known", ErrUnsupported, cell, s.snapshot.Profile, profile)
	}
	if err := r.Record(s.snapshot.AuthorityPolicy, &s.policy); err != nil {
		return nil, err
	}
	if s.noun, err = readNoun(r, s.snapshot.ApplicationState); err != nil {
		return nil, err
	}
	return s, e.loadInput(r, s)
}

// readNoun reads the artifact of a noun.
func readNoun(r *record.Reader, p Particle) (nox.Noun, error) {
	b, _, err := r.Artifact(p)
	if err != nil {
		return nox.Noun{}, err
	}
	n, err := nox.Decode(b)
	if err != nil {
		return nox.Noun{}, fmt.Errorf("%w: the artifact %v is no noun: %w", ErrInvalid, p, err)
	}
	return n, nil
}

// loadInput reads the live input, if there is one.
func (e *Engine) loadInput(r *record.Reader, s *state) error {
	continuations, err := r.Map(s.snapshot.Continuations, 1)
	if err != nil {
		return fmt.Errorf("continuations: %w", err)
	}
	outbox, err := r.Map(s.snapshot.Outbox, 1)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	if len(continuations) == 0 {
		if len(outbox) > 0 {
			return errHostile(s.cell, "it has an act and no input")
		}
		return nil
	}
	if continuations[0].Key != continuations[0].Value {
		return errHostile(s.cell, "its continuation lies under another name")
	}
	var c record.Continuation[Particle]
	if err := r.Record(continuations[0].Key, &c); err != nil {
		return err
	}
	inbox, err := r.Map(s.snapshot.Inbox, 1)
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	if len(inbox) == 0 || inbox[0].Key != c.Invocation {
		return errHostile(s.cell, "its continuation is that of an input that it does not have")
	}
	var event record.Event[Particle]
	if err := r.Record(c.Invocation, &event); err != nil {
		return err
	}
	var resources record.LocalResources[Particle]
	if err := r.Record(c.ResourcesUsed, &resources); err != nil {
		return err
	}
	checkpointSchema, _ := e.suite.Manifest(record.Checkpoint)
	switch {
	case event.Cell != s.cell:
		return errHostile(s.cell, "its input was sent to another cell")
	case c.Definition != s.snapshot.Definition:
		return errHostile(s.cell, "its continuation is that of another definition")
	case c.Runtime != hemera.Sum([]byte(runtimeLabel)), c.CheckpointSchema != checkpointSchema:
		return fmt.Errorf("%w: cell %v is suspended in another machine than %s", ErrUnsupported, s.cell, runtimeLabel)
	case c.Context != event.Context:
		return errHostile(s.cell, "its continuation has another context than its input")
	case resources.Limit != s.policy.StepLimit, resources.Charged > resources.Limit, resources.CheckpointUsed > resources.Charged,
		resources.Reserved > min(Slice, resources.Limit-resources.Charged):
		return errHostile(s.cell, "its charged, reserved and used steps contradict each other or its policy")
	}
	in := &input{
		event: c.Invocation, context: c.Context, checkpoint: c.Checkpoint,
		charged: resources.Charged, reserved: resources.Reserved, used: resources.CheckpointUsed, limit: resources.Limit,
	}
	if in.saved, _, err = r.Artifact(c.Checkpoint); err != nil {
		return err
	}
	switch {
	case len(outbox) > 0 && (!c.Trigger.Operation.Present || c.Trigger.Operation.Link != outbox[0].Key),
		len(outbox) == 0 && c.Trigger.Operation.Present:
		return errHostile(s.cell, "its continuation waits for another act than its outbox has")
	case len(outbox) > 0:
		if in.act, err = loadAct(r, s, outbox[0]); err != nil {
			return err
		}
	}
	s.input = in
	return nil
}

// loadAct reads the act of an outbox.
func loadAct(r *record.Reader, s *state, at record.MapEntry[Particle]) (*act, error) {
	var entry record.OutboxEntry[Particle]
	if err := r.Record(at.Value, &entry); err != nil {
		return nil, err
	}
	var operation record.Operation[Particle]
	if err := r.Record(entry.Operation, &operation); err != nil {
		return nil, err
	}
	if operation.ID != at.Key {
		return nil, errHostile(s.cell, "an operation lies under another name")
	}
	var asked record.Act[Particle]
	if err := r.Record(operation.Act, &asked); err != nil {
		return nil, err
	}
	a := &act{id: operation.ID, operation: entry.Operation, tag: asked.Tag, stage: entry.Stage, outcome: entry.Outcome}
	var err error
	if a.arguments, err = readNoun(r, operation.Arguments); err != nil {
		return nil, err
	}
	if n := len(entry.Attempts); n > 0 {
		a.attempt = record.Some(entry.Attempts[n-1])
		var attempt record.Attempt[Particle]
		if err := r.Record(a.attempt.Link, &attempt); err != nil {
			return nil, err
		}
		if attempt.Operation != a.id {
			return nil, errHostile(s.cell, "an attempt is that of another operation")
		}
		a.attemptID = attempt.ID
	}
	if a.attempt.Present != (a.stage != record.Pending) || a.outcome.Present != (a.stage == record.Resolved) {
		return nil, errHostile(s.cell, "the stage of its act and its attempts contradict each other")
	}
	if !a.outcome.Present {
		return a, nil
	}
	var outcome record.Outcome[Particle]
	if err := r.Record(a.outcome.Link, &outcome); err != nil {
		return nil, err
	}
	if outcome.Operation != a.id || outcome.Attempt != a.attemptID {
		return nil, errHostile(s.cell, "an outcome is that of another attempt")
	}
	a.disposition = outcome.Disposition
	switch {
	case a.disposition == record.Succeeded && outcome.Value.Present:
		a.value, err = readNoun(r, outcome.Value.Link)
	case a.disposition == record.FailedDefinite && outcome.Evidence.Present:
		var reason []byte
		reason, _, err = r.Artifact(outcome.Evidence.Link)
		a.reason = string(reason)
	default:
		err = errHostile(s.cell, "an outcome has neither value nor reason")
	}
	return a, err
}

// profile is the identity of the one profile that this runtime has.
func (e *Engine) profile() Particle { return localProfile() }
