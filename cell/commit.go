package cell

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune/machine"
)

type (
	node     = record.Node
	optional = record.Optional[record.Node]
)

// draft is one commit that is being built on a state.
type draft struct {
	*record.Builder
	s    *state
	cell node
	next state // what the commit leads to; its particles follow from the nodes below

	event, request      node
	operations          []node
	inbox, continuation node
	maps                [2]node // continuations and outbox
	snapshot, commit    node

	// Nodes of the next input, whose particles are set when they are known.
	checkpoint, actID, operation, attempt, attemptID, outcome, application optional
}

func (e *Engine) draft(s *state) *draft { return newDraft(e.memo.Builder(), s) }

func newDraft(b *record.Builder, s *state) *draft {
	d := &draft{Builder: b, s: s, next: *s, cell: b.Known(s.cell)}
	if s.input != nil {
		in := *s.input
		if in.act != nil {
			a := *in.act
			in.act = &a
		}
		d.next.input = &in
	}
	return d
}

// known is the node of an optional particle.
func (d *draft) known(o record.Optional[Particle]) optional {
	if !o.Present {
		return optional{}
	}
	return record.Some(d.Known(o.Link))
}

// either is the node that was just made, or that of the particle.
func (d *draft) either(made optional, p Particle) node {
	if made.Present {
		return made.Link
	}
	return d.Known(p)
}

// happens makes the event of the commit, and its request.
func (d *draft) happens(entry string, payload node, nonce record.Nonce[node], context optional) {
	owner := d.Label(ownerLabel)
	d.event = d.Record(&record.Event[node]{
		Origin: owner, Nonce: nonce, Cell: d.cell, Entry: entry, Payload: payload, Context: context,
		Authority: d.Known(d.s.snapshot.AuthorityPolicy),
	})
	d.request = d.Record(&record.RequestID[node]{Origin: owner, Nonce: nonce})
}

// system makes the event that the cell gives itself on its present commit.
func (d *draft) system(entry string, payload node) {
	nonce := d.Record(&record.SystemNonce[node]{Cell: d.cell, BaseCommit: d.Known(d.s.head.Commit), Kind: entry})
	d.happens(entry, payload, record.Nonce[node]{Of: record.Some(nonce)}, optional{})
}

// live makes the part of a commit that keeps the next input live (section 15.1). Its
// event is invocation.
func (d *draft) live(invocation node, context optional) {
	in := d.next.input
	resources := d.Record(&record.LocalResources[node]{
		Charged: in.charged, Reserved: in.reserved, CheckpointUsed: in.used, Limit: in.limit,
	})
	trigger := record.Trigger[node]{}
	var id node
	if in.act != nil {
		id = d.either(d.actID, in.act.id)
		trigger.Operation = record.Some(id)
	}
	d.continuation = d.Record(&record.Continuation[node]{
		Definition: d.Known(d.s.snapshot.Definition), Runtime: d.Label(runtimeLabel), CheckpointSchema: d.Manifest(record.Checkpoint),
		Checkpoint: d.either(d.checkpoint, in.checkpoint), Trigger: trigger,
		BaseHead:   d.Record(&record.Head[node]{Index: d.s.head.Index, Commit: d.Known(d.s.head.Commit)}),
		Invocation: invocation, Context: context, ResourcesUsed: resources,
	})
	d.keep(invocation, record.Suspended, record.MapEntry[node]{Key: d.continuation, Value: d.continuation})
	d.operations = append(d.operations, d.continuation)
	if in.act != nil {
		entry := d.outboxEntry(in.act, optional{})
		d.maps[1] = d.Map(record.MapEntry[node]{Key: id, Value: entry})
		d.operations = append(d.operations, entry)
	}
}

// keep makes the maps of the next snapshot.
func (d *draft) keep(invocation node, status record.InboxStatus, continuations ...record.MapEntry[node]) {
	d.inbox = d.Map(record.MapEntry[node]{Key: invocation, Value: d.Record(&record.InboxEntry[node]{
		Event: invocation, Status: status, Invocation: record.Some(invocation), LastIndex: d.s.head.Index + 1,
	})})
	d.maps = [2]node{d.Map(continuations...), d.Map()}
}

func (d *draft) outboxEntry(a *act, consumedBy optional) node {
	entry := record.OutboxEntry[node]{
		Operation: d.either(d.operation, a.operation), Stage: a.stage, Outcome: d.known(a.outcome), ConsumedBy: consumedBy,
	}
	switch {
	case d.attempt.Present:
		entry.Attempts = []node{d.attempt.Link}
	case a.attempt.Present:
		entry.Attempts = []node{d.Known(a.attempt.Link)}
	}
	if d.outcome.Present {
		entry.Outcome = d.outcome
	}
	return d.Record(&entry)
}

// consumed says that the invocation has used the outcome of its act.
func (d *draft) consumed(a *act) {
	entry := record.OutboxEntry[node]{
		Operation: d.Known(a.operation), Stage: record.Resolved, Attempts: []node{d.Known(a.attempt.Link)},
		Outcome: d.known(a.outcome), ConsumedBy: record.Some(d.Known(d.s.input.event)),
	}
	d.operations = append(d.operations, d.Record(&entry))
}

// finish makes the snapshot and the commit, and hashes everything.
func (e *Engine) finish(d *draft) error {
	s := d.s
	snapshot := record.Snapshot[node]{
		Definition: d.Known(s.snapshot.Definition), ApplicationState: d.either(d.application, s.snapshot.ApplicationState),
		Lifecycle: d.next.snapshot.Lifecycle, AuthorityPolicy: d.Known(s.snapshot.AuthorityPolicy), Profile: d.Known(s.snapshot.Profile),
		Epoch: s.snapshot.Epoch, Subscriptions: d.Map(), Management: d.Map(),
	}
	if d.inbox != 0 {
		snapshot.Inbox, snapshot.Continuations, snapshot.Outbox = d.inbox, d.maps[0], d.maps[1]
	} else {
		snapshot.Inbox, snapshot.Continuations, snapshot.Outbox = d.Known(s.snapshot.Inbox), d.Known(s.snapshot.Continuations), d.Known(s.snapshot.Outbox)
	}
	d.snapshot = d.Record(&snapshot)
	d.commit = d.Record(&record.Commit[node]{
		Cell: d.cell, Index: s.head.Index + 1, Previous: d.Known(s.head.Commit), Before: d.Known(s.snapshotID), After: d.snapshot,
		Events: []node{d.event}, Operations: d.operations, Authority: d.Known(s.snapshot.AuthorityPolicy), Epoch: s.snapshot.Epoch,
	})
	if err := e.sealing.seal(d.Builder); err != nil {
		return err
	}
	n := &d.next
	n.head = Head{s.head.Index + 1, d.Particle(d.commit)}
	n.snapshotID = d.Particle(d.snapshot)
	n.snapshot.ApplicationState = d.Particle(snapshot.ApplicationState)
	n.snapshot.Inbox, n.snapshot.Continuations, n.snapshot.Outbox = d.Particle(snapshot.Inbox), d.Particle(snapshot.Continuations), d.Particle(snapshot.Outbox)
	if in := n.input; in != nil {
		if s.input == nil {
			in.event = d.Particle(d.event)
		}
		if d.checkpoint.Present {
			in.checkpoint = d.Particle(d.checkpoint.Link)
		}
		if a := in.act; a != nil {
			if d.operation.Present {
				a.id, a.operation = d.Particle(d.actID.Link), d.Particle(d.operation.Link)
			}
			if d.attempt.Present {
				a.attempt, a.attemptID = record.Some(d.Particle(d.attempt.Link)), d.Particle(d.attemptID.Link)
			}
			if d.outcome.Present {
				a.outcome = record.Some(d.Particle(d.outcome.Link))
			}
		}
	}
	return nil
}

// write makes a finished draft the state of its cell, after which nothing but the state
// is left of it. After any failure nothing is assumed of the cell: what is true is read
// again.
func (e *Engine) write(ctx context.Context, at *slot, d *draft) (Head, error) {
	request := d.Particle(d.request)
	next := new(state) // a copy, as the rest of the draft is large
	*next = d.next
	ahead := e.prepare(next, d)
	head, err := e.store.Write(ctx, &Write{
		Cell: d.s.cell, Request: request, Expected: &d.s.head, Next: d.next.head, Items: d.Items(),
		Claims: []Claim{{request, d.Particle(d.event)}}, Trusted: true,
	})
	if err != nil {
		at.state = nil
		return Head{}, err
	}
	if head != d.next.head {
		at.state = nil // the store has written nothing
		return Head{}, fmt.Errorf("%w: the request %v has led to commit %d already", ErrConflict, request, head.Index)
	}
	d.Committed()
	at.state = next
	if ahead == nil {
		d.Release()
	} else {
		e.keepAhead(at, ahead)
	}
	return head, nil
}

// commit finishes a draft and writes it.
func (e *Engine) commit(ctx context.Context, at *slot, d *draft) (Head, error) {
	if err := e.finish(d); err != nil {
		return Head{}, err
	}
	return e.write(ctx, at, d)
}

// localProfile is the identity of the profile of the local runtime.
var localProfile = sync.OnceValue(func() Particle {
	b := record.NewMemo(record.Local()).Builder()
	n := profileNode(b)
	if err := b.Seal(); err != nil {
		panic(err) // it depends on nothing
	}
	return b.Particle(n)
})

func profileNode(b *record.Builder) node {
	rule := b.Label(ruleLabel)
	return b.Record(&record.Profile[node]{
		Kind: record.RuntimeProfile, IdentityRule: rule, AuthorizationRule: rule, OrderingRule: rule, EvidenceRule: rule,
		FinalityRule: rule, AvailabilityRule: rule, RetentionRule: rule,
	})
}

// encode is the artifact of a noun.
func encode(n nox.Noun) ([]byte, error) {
	b, err := nox.Encode(n)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return b, nil
}

// runtimeError is the failure of a source or of a machine.
func runtimeError(err error) error { return fmt.Errorf("%w: %w", ErrRuntime, err) }

// faultText is what is stored of a fault.
func faultText(err error) (string, bool) {
	var fault *machine.Fault
	if errors.As(err, &fault) {
		return fault.Text(), true
	}
	return "", false
}
