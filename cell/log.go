package cell

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

// EntryBirth is how a LogEntry calls the first commit of a cell, which has no event.
const EntryBirth = "birth"

// LogEntry is a commit of a cell as a person may read it.
type LogEntry struct {
	Index         uint64
	Commit        Particle
	Entry         string   // of the event, or EntryBirth
	Event         Particle // none for the birth
	Before, After Particle // snapshots; none before the birth
	Lifecycle     record.Lifecycle
	StateBefore   nox.Noun // none before the birth
	State         nox.Noun
	Input         *nox.Noun // of main
	Fault         string    // of $fault
	Operations    []LogOperation
}

// LogOperation is a record that a commit has made, with what it refers to.
type LogOperation struct {
	Particle Particle
	Record   record.Record[Particle] // Schema tells which one it is

	// Of a continuation, and of the resources of an input that has ended.
	Resources *record.LocalResources[Particle]

	// Of an outbox entry, an operation, a denial, an attempt and an outcome: the act
	// that they are about.
	Operation Particle // its id
	Tag       uint64
	Arguments nox.Noun

	Attempt Particle  // the id, once there is an attempt
	Value   *nox.Noun // of an outcome, or of an entry that has one
	Reason  string    // of a failure or a denial
}

// Log reads the history of a cell from an index on, at most limit commits, which is 1
// to MaxHistory. It neither waits for those who use the cell nor makes them wait, as
// what it reads does not change.
func (e *Engine) Log(ctx context.Context, cell Particle, from uint64, limit int) ([]LogEntry, error) {
	heads, err := e.store.History(ctx, cell, from, limit)
	if err != nil {
		return nil, err
	}
	l := logReader{suite: e.suite, store: e.store, cell: cell, acts: map[Particle]*LogOperation{}, states: map[Particle]nox.Noun{}}
	list := make([]LogEntry, 0, len(heads))
	for _, head := range heads {
		entry, err := l.entry(ctx, head)
		if err != nil {
			return nil, fmt.Errorf("commit %d of cell %v: %w", head.Index, cell, err)
		}
		list = append(list, entry)
	}
	return list, nil
}

// logReader reads commits, and what several have in common only once.
type logReader struct {
	suite  *record.Suite
	store  Store
	cell   Particle
	r      *record.Reader
	acts   map[Particle]*LogOperation // by operation record and by id
	states map[Particle]nox.Noun
}

func (l *logReader) entry(ctx context.Context, head Head) (LogEntry, error) {
	l.r = record.NewReader(ctx, l.suite, l.store, record.CellBudget)
	entry := LogEntry{Index: head.Index, Commit: head.Commit}
	if head.Index == 0 {
		var birth record.Birth[Particle]
		if err := l.r.Record(head.Commit, &birth); err != nil {
			return entry, err
		}
		entry.Entry, entry.After = EntryBirth, birth.InitialSnapshot
		return entry, l.after(&entry)
	}
	var commit record.Commit[Particle]
	if err := l.r.Record(head.Commit, &commit); err != nil {
		return entry, err
	}
	if commit.Cell != l.cell || commit.Index != head.Index || len(commit.Events) != 1 {
		return entry, errHostile(l.cell, fmt.Sprintf("its history has commit %d of cell %v with %d events", commit.Index, commit.Cell, len(commit.Events)))
	}
	entry.Event, entry.Before, entry.After = commit.Events[0], commit.Before, commit.After
	var event record.Event[Particle]
	if err := l.r.Record(entry.Event, &event); err != nil {
		return entry, err
	}
	entry.Entry = event.Entry
	switch event.Entry {
	case EntryMain:
		n, err := readNoun(l.r, event.Payload)
		if err != nil {
			return entry, err
		}
		entry.Input = &n
	case EntryFault:
		text, _, err := l.r.Artifact(event.Payload)
		if err != nil {
			return entry, err
		}
		entry.Fault = string(text)
	}
	for _, p := range commit.Operations {
		o, err := l.operation(p)
		if err != nil {
			return entry, err
		}
		entry.Operations = append(entry.Operations, o)
	}
	var before record.Snapshot[Particle]
	err := l.r.Record(entry.Before, &before)
	if err == nil {
		entry.StateBefore, err = l.state(before.ApplicationState)
	}
	if err != nil {
		return entry, err
	}
	return entry, l.after(&entry)
}

func (l *logReader) after(entry *LogEntry) error {
	var after record.Snapshot[Particle]
	err := l.r.Record(entry.After, &after)
	if err == nil {
		entry.Lifecycle = after.Lifecycle
		entry.State, err = l.state(after.ApplicationState)
	}
	return err
}

// maxLogStates is how many states a logReader remembers: they follow one another.
const maxLogStates = 16

func (l *logReader) state(p Particle) (nox.Noun, error) {
	if n, ok := l.states[p]; ok {
		return n, nil
	}
	n, err := readNoun(l.r, p)
	if err != nil {
		return n, err
	}
	if len(l.states) >= maxLogStates {
		clear(l.states)
	}
	l.states[p] = n
	return n, nil
}

// operation reads a record that a commit has made.
func (l *logReader) operation(p Particle) (LogOperation, error) {
	o := LogOperation{Particle: p}
	var err error
	if o.Record, err = l.r.Any(p); err != nil {
		return o, err
	}
	switch x := o.Record.(type) {
	case *record.LocalResources[Particle]:
		o.Resources = x
	case *record.Continuation[Particle]:
		o.Resources = new(record.LocalResources[Particle])
		err = l.r.Record(x.ResourcesUsed, o.Resources)
	case *record.Operation[Particle]:
		err = l.about(&o, p)
	case *record.OutboxEntry[Particle]:
		err = l.about(&o, x.Operation)
		if n := len(x.Attempts); err == nil && n > 0 {
			var attempt record.Attempt[Particle]
			err = l.r.Record(x.Attempts[n-1], &attempt)
			o.Attempt = attempt.ID
		}
		if err == nil && x.Outcome.Present {
			var outcome record.Outcome[Particle]
			if err = l.r.Record(x.Outcome.Link, &outcome); err == nil {
				err = l.outcome(&o, &outcome)
			}
		}
	case *record.LocalDenial[Particle]:
		if err = l.about(&o, x.OperationRecord); err == nil {
			o.Reason, err = l.text(x.Reason)
		}
	case *record.Attempt[Particle]:
		var decision record.LocalAuthorization[Particle]
		if err = l.r.Record(x.AuthorityDecision, &decision); err == nil {
			err = l.about(&o, decision.OperationRecord)
		}
		o.Attempt = x.ID
	case *record.Outcome[Particle]:
		o.Operation, o.Attempt = x.Operation, x.Attempt
		if known := l.acts[x.Operation]; known != nil { // the outbox entry comes first
			o.Tag, o.Arguments = known.Tag, known.Arguments
		}
		err = l.outcome(&o, x)
	}
	return o, err
}

// about reads the act that a record is about.
func (l *logReader) about(o *LogOperation, operation Particle) error {
	known := l.acts[operation]
	if known == nil {
		var x record.Operation[Particle]
		if err := l.r.Record(operation, &x); err != nil {
			return err
		}
		var act record.Act[Particle]
		if err := l.r.Record(x.Act, &act); err != nil {
			return err
		}
		arguments, err := readNoun(l.r, x.Arguments)
		if err != nil {
			return err
		}
		known = &LogOperation{Operation: x.ID, Tag: act.Tag, Arguments: arguments}
		if len(l.acts) >= maxLogStates {
			clear(l.acts)
		}
		l.acts[operation], l.acts[x.ID] = known, known
	}
	o.Operation, o.Tag, o.Arguments = known.Operation, known.Tag, known.Arguments
	return nil
}

func (l *logReader) outcome(o *LogOperation, x *record.Outcome[Particle]) error {
	if x.Value.Present {
		n, err := readNoun(l.r, x.Value.Link)
		o.Value = &n
		return err
	}
	if !x.Evidence.Present {
		return errHostile(l.cell, "an outcome has neither value nor reason")
	}
	var err error
	o.Reason, err = l.text(x.Evidence.Link)
	return err
}

func (l *logReader) text(p Particle) (string, error) {
	b, _, err := l.r.Artifact(p)
	return string(b), err
}
