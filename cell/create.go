package cell

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// Birth is what a cell is made of.
type Birth struct {
	Source    []byte // in Rune
	Initial   nox.Noun
	Nonce     [32]byte
	StepLimit uint64    // steps an input, 1 to machine.MaxSteps
	Acts      []uint64  // the tags of the acts that it may ask for, in any order
	Parent    *Particle // of a cell that takes the place of another one; nil for none
}

// Create makes a cell and activates it (section 15.2). The same birth again gives the
// same cell with its present head, and completes what was interrupted. The error wraps
// ErrBudget for a step limit out of range or too many acts, ErrLimit for a noun that is
// too large, ErrMissing for a parent that is not stored, and ErrRuntime for a source that can't be compiled or started; then
// nothing is written.
func (e *Engine) Create(ctx context.Context, birth Birth) (Particle, Head, error) {
	if birth.StepLimit < 1 || birth.StepLimit > machine.MaxSteps {
		return Particle{}, Head{}, fmt.Errorf("%w: a step limit of %d, expected 1 to %d", ErrBudget, birth.StepLimit, machine.MaxSteps)
	}
	acts := slices.Clone(birth.Acts)
	slices.Sort(acts)
	acts = slices.Compact(acts)
	if len(acts) > MaxActs {
		return Particle{}, Head{}, fmt.Errorf("%w: %d acts, at most %d may be allowed", ErrBudget, len(acts), MaxActs)
	}
	state, err := encode(birth.Initial)
	if err != nil {
		return Particle{}, Head{}, fmt.Errorf("first state: %w", err)
	}
	compiled, err := rune.Compile(birth.Source)
	if err != nil {
		return Particle{}, Head{}, runtimeError(err)
	}
	if _, err := machine.Load(compiled, machine.Input{State: birth.Initial, Event: birth.Initial}, birth.StepLimit); err != nil {
		return Particle{}, Head{}, runtimeError(err)
	}
	if birth.Parent != nil {
		if _, _, err := e.store.Content(ctx, *birth.Parent); err != nil {
			return Particle{}, Head{}, fmt.Errorf("parent: %w", err)
		}
	}

	b := e.memo.Builder()
	source := b.Artifact(birth.Source, SourceMedia)
	policy := b.Record(&record.LocalPolicy[node]{Owner: b.Label(ownerLabel), StepLimit: birth.StepLimit, AllowedActs: acts})
	nouns := b.Manifest(record.NounArtifact)
	definition := b.Record(&record.Definition[node]{
		Revision: 1, Runtime: b.Label(runtimeLabel), Code: source, StateSchema: nouns,
		Entries:           []record.Entry[node]{{Name: EntryMain, InputSchema: nouns, OutputSchema: nouns, Behavior: record.OnEvent}},
		RequiredArtifacts: []node{source}, Policy: policy,
		Resources: b.Record(&record.ResourceContract[node]{
			Limits:        []record.Metric[node]{{Metric: b.Label(metricLabel), Limit: birth.StepLimit}},
			YieldInterval: Slice, OverflowPolicy: record.Reject,
		}),
		CheckpointSchema: record.Some(b.Manifest(record.Checkpoint)),
	})
	profile := profileNode(b)
	snapshot := b.Record(&record.Snapshot[node]{
		Definition: definition, ApplicationState: b.Artifact(state, NounMedia), Lifecycle: record.Installed,
		AuthorityPolicy: policy, Profile: profile,
		Inbox: b.Map(), Continuations: b.Map(), Outbox: b.Map(), Subscriptions: b.Map(), Management: b.Map(),
	})
	born := record.Birth[node]{
		Revision: 1, Nonce: record.Nonce[node]{Bytes: birth.Nonce}, Authority: policy, Definition: definition,
		Profile: profile, InitialSnapshot: snapshot,
	}
	if birth.Parent != nil {
		born.Parent = record.Some(b.Known(*birth.Parent))
	}
	cellNode := b.Record(&born)
	if err := e.sealing.seal(b); err != nil {
		return Particle{}, Head{}, err
	}
	cell := b.Particle(cellNode)

	at := e.take(cell)
	defer e.release(at)
	if at.state == nil {
		at.state, err = e.load(ctx, cell)
	}
	if errors.Is(err, ErrMissing) {
		_, err = e.store.Write(ctx, &Write{Cell: cell, Request: cell, Next: Head{0, cell}, Items: b.Items(), Trusted: true})
		if err == nil {
			b.Committed()
			e.programs.put(b.Particle(definition), program{compiled, b.Particle(policy)})
			at.state, err = e.load(ctx, cell)
		}
	}
	if err != nil {
		return Particle{}, Head{}, err
	}
	if at.state.snapshot.Lifecycle != record.Installed {
		return cell, at.state.head, nil
	}
	head, err := e.manage(ctx, at, record.Active)
	if err != nil {
		return Particle{}, Head{}, err
	}
	return cell, head, nil
}

// allowed are the lifecycles that each may follow (section 15.2).
var allowed = map[record.Lifecycle][]record.Lifecycle{
	record.Active:   {record.Installed, record.Paused},
	record.Paused:   {record.Active},
	record.Retiring: {record.Installed, record.Active, record.Paused},
	record.Retired:  {record.Retiring},
}

// Manage changes the lifecycle of a cell, and returns its head if it has that already.
// The error wraps ErrLifecycle for a change that is not allowed, and ErrBusy for
// retiring a cell with an input.
func (e *Engine) Manage(ctx context.Context, cell Particle, to record.Lifecycle) (head Head, err error) {
	err = e.on(ctx, cell, func(at *slot) error {
		head, err = e.manage(ctx, at, to)
		return err
	})
	return head, err
}

func (e *Engine) manage(ctx context.Context, at *slot, to record.Lifecycle) (Head, error) {
	s := at.state
	from := s.snapshot.Lifecycle
	if from == to {
		return s.head, nil
	}
	if !slices.Contains(allowed[to], from) {
		return Head{}, fmt.Errorf("%w: cell %v is %v and can't become %v", ErrLifecycle, s.cell, from, to)
	}
	if s.input != nil && (to == record.Retiring || to == record.Retired) {
		return Head{}, fmt.Errorf("%w: cell %v can't become %v before its input has ended or is cancelled", ErrBusy, s.cell, to)
	}
	d := e.draft(s)
	d.next.snapshot.Lifecycle = to
	d.system(to.String(), d.Lifecycle(to))
	return e.commit(ctx, at, d)
}
