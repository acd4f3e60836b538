package cell_test

import (
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

// forge commits a state that no input has led to, as somebody could who writes to the
// store.
func forge(t testing.TB, store *celltest.Memory, c record.Particle, head cell.Head, state nox.Noun) cell.Head {
	t.Helper()
	ctx := t.Context()
	r := record.NewReader(ctx, record.Local(), store, record.CellBudget)
	var last record.Commit[record.Particle]
	var before record.Snapshot[record.Particle]
	if err := r.Record(head.Commit, &last); err != nil {
		t.Fatal(err)
	}
	if err := r.Record(last.After, &before); err != nil {
		t.Fatal(err)
	}
	b := record.NewMemo(record.Local()).Builder()
	artifact, err := nox.Encode(state)
	if err != nil {
		t.Fatal(err)
	}
	owner := b.Label("cell/local-private-database-owner/1")
	made := record.Some(b.Record(&record.SystemNonce[record.Node]{Cell: b.Known(c), BaseCommit: b.Known(head.Commit), Kind: "$complete"}))
	after := b.Artifact(artifact, "application/x-rune-noun")
	event := b.Record(&record.Event[record.Node]{
		Origin: owner, Nonce: record.Nonce[record.Node]{Of: made}, Cell: b.Known(c), Entry: "$complete", Payload: after,
		Authority: b.Known(before.AuthorityPolicy),
	})
	request := b.Record(&record.RequestID[record.Node]{Origin: owner, Nonce: record.Nonce[record.Node]{Of: made}})
	commit := b.Record(&record.Commit[record.Node]{
		Cell: b.Known(c), Index: head.Index + 1, Previous: b.Known(head.Commit), Before: b.Known(last.After),
		After: b.Record(&record.Snapshot[record.Node]{
			Definition: b.Known(before.Definition), ApplicationState: after, Lifecycle: before.Lifecycle,
			AuthorityPolicy: b.Known(before.AuthorityPolicy), Profile: b.Known(before.Profile), Inbox: b.Known(before.Inbox),
			Continuations: b.Known(before.Continuations), Outbox: b.Known(before.Outbox), Subscriptions: b.Map(), Management: b.Map(),
		}),
		Events: []record.Node{event}, Authority: b.Known(before.AuthorityPolicy),
	})
	if err := b.Seal(); err != nil {
		t.Fatal(err)
	}
	next := cell.Head{Index: head.Index + 1, Commit: b.Particle(commit)}
	if _, err := store.Write(ctx, &cell.Write{
		Cell: c, Request: b.Particle(request), Expected: &head, Next: next, Items: b.Items(),
		Claims: []cell.Claim{{Request: b.Particle(request), Event: b.Particle(event)}},
	}); err != nil {
		t.Fatal(err)
	}
	return next
}
