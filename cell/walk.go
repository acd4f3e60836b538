package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

// walk follows a cell's history and everything that it refers to, each piece of content
// once.
type walk struct {
	ctx   context.Context
	e     *Engine
	seen  map[Particle]struct{}
	visit func(record.Item) error // for each piece of content; nil for none

	// follow says whether a reference must lead to content. The birth of a parent may
	// be in another store.
	follow func(Particle) bool
	parent Particle

	// Where the history and its requests are.
	heads    func(cell Particle, from uint64, limit int) ([]Head, error)
	requests func(cell, request Particle, at Head) error

	// found is told what is wrong and lets the walk go on; nil ends it with the error.
	found func(index uint64, err error)
	owner Particle
}

func (e *Engine) walk(ctx context.Context) *walk {
	w := &walk{ctx: ctx, e: e, seen: map[Particle]struct{}{}, owner: hemera.Sum([]byte(ownerLabel))}
	w.follow = func(Particle) bool { return true }
	w.heads = func(cell Particle, from uint64, limit int) ([]Head, error) {
		return e.store.History(ctx, cell, from, limit)
	}
	w.requests = func(cell, request Particle, at Head) error {
		head, known, err := e.store.Request(ctx, cell, request)
		switch {
		case err != nil:
			return err
		case !known:
			return fmt.Errorf("%w: the request %v of commit %d is not known", ErrCorrupt, request, at.Index)
		case head != at:
			return fmt.Errorf("%w: the request %v of commit %d is known to have led to commit %d", ErrCorrupt, request, at.Index, head.Index)
		}
		return nil
	}
	return w
}

// wrong takes a finding, if there is one.
func (w *walk) wrong(index uint64, err error) error {
	if err == nil || w.found == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	w.found(index, err)
	return nil
}

// link is what the next commit must follow.
type link struct{ commit, snapshot Particle }

// history checks the chain of commits from the birth to the head and walks through
// each of them. commit is told of each, if it is not nil.
func (w *walk) history(cell Particle, head Head, commit func(Adopted) error) error {
	var last link
	for from := uint64(0); from <= head.Index; {
		heads, err := w.heads(cell, from, int(min(MaxHistory, head.Index-from+1)))
		if err != nil {
			return err
		}
		if len(heads) == 0 {
			return w.wrong(from, fmt.Errorf("%w: commit %d of cell %v is not in its history, which goes up to %d", ErrCorrupt, from, cell, head.Index))
		}
		for _, h := range heads {
			if h.Index != from {
				return w.wrong(from, fmt.Errorf("%w: commit %d of cell %v is not in its history", ErrCorrupt, from, cell))
			}
			if h.Index == head.Index && h.Commit != head.Commit {
				if err := w.wrong(from, fmt.Errorf("%w: the head of cell %v is %v, its history ends with %v", ErrCorrupt, cell, head.Commit, h.Commit)); err != nil {
					return err
				}
			}
			a, err := w.commit(cell, h, &last)
			if err == nil && commit != nil {
				if err := commit(a); err != nil {
					return err
				}
			}
			if err := w.wrong(h.Index, err); err != nil {
				return err
			}
			if err := w.wrong(h.Index, w.from(h.Commit)); err != nil {
				return err
			}
			from++
		}
	}
	return nil
}

// commit checks one commit against the one before it.
func (w *walk) commit(cell Particle, at Head, last *link) (Adopted, error) {
	r := record.NewReader(w.ctx, w.e.suite, w.e.store, record.CellBudget)
	if at.Index == 0 {
		if at.Commit != cell {
			return Adopted{}, fmt.Errorf("%w: the history of cell %v begins with %v", ErrCorrupt, cell, at.Commit)
		}
		var birth record.Birth[Particle]
		if err := r.Record(cell, &birth); err != nil {
			return Adopted{}, err
		}
		w.parent = birth.Parent.Link
		*last = link{cell, birth.InitialSnapshot}
		return Adopted{Commit: cell, Request: cell}, w.requests(cell, cell, at)
	}
	var c record.Commit[Particle]
	if err := r.Record(at.Commit, &c); err != nil {
		return Adopted{}, err
	}
	before := *last
	*last = link{at.Commit, c.After}
	switch {
	case c.Cell != cell:
		return Adopted{}, fmt.Errorf("%w: commit %d is one of cell %v", ErrInvalid, at.Index, c.Cell)
	case c.Index != at.Index:
		return Adopted{}, fmt.Errorf("%w: commit %d says that it is %d", ErrInvalid, at.Index, c.Index)
	case c.Previous != before.commit:
		return Adopted{}, fmt.Errorf("%w: commit %d follows %v, not %v", ErrInvalid, at.Index, c.Previous, before.commit)
	case c.Before != before.snapshot:
		return Adopted{}, fmt.Errorf("%w: commit %d begins with the snapshot %v, not %v", ErrInvalid, at.Index, c.Before, before.snapshot)
	case len(c.Events) != 1:
		return Adopted{}, fmt.Errorf("%w: commit %d has %d events instead of one", ErrInvalid, at.Index, len(c.Events))
	}
	var event record.Event[Particle]
	if err := r.Record(c.Events[0], &event); err != nil {
		return Adopted{}, err
	}
	if event.Cell != cell || event.Origin != w.owner {
		return Adopted{}, fmt.Errorf("%w: the event of commit %d is that of another cell or owner", ErrInvalid, at.Index)
	}
	request, err := w.request(&event)
	if err != nil {
		return Adopted{}, err
	}
	return Adopted{at.Commit, request, c.Events[0]}, w.requests(cell, request, at)
}

// request is the identity of the request of an event.
func (w *walk) request(event *record.Event[Particle]) (Particle, error) {
	b := w.e.memo.Builder()
	n := b.Record(&record.RequestID[node]{Origin: b.Known(event.Origin), Nonce: record.Nonce[node]{Bytes: event.Nonce.Bytes}})
	if err := b.Seal(); err != nil {
		return Particle{}, err
	}
	return b.Particle(n), nil
}

// from visits all content that p refers to and that was not seen yet. A pair comes after
// its members, as a store takes none without them.
func (w *walk) from(p Particle) error {
	type step struct {
		to   Particle
		pair []byte // of content whose members were visited; nil for what was not read yet
	}
	stack := []step{{to: p}}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if at.pair != nil {
			if err := w.visit(record.Item{Particle: at.to, Kind: record.KindPair, Bytes: at.pair}); err != nil {
				return err
			}
			continue
		}
		p := at.to
		if _, ok := w.seen[p]; ok {
			continue
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		kind, b, err := w.e.store.Content(w.ctx, p)
		if err != nil {
			if errors.Is(err, ErrMissing) && !w.follow(p) {
				continue
			}
			return err
		}
		w.seen[p] = struct{}{}
		it := record.Item{Particle: p, Kind: kind, Bytes: b}
		if kind != record.KindPair {
			if w.visit != nil {
				if err := w.visit(it); err != nil {
					return err
				}
			}
			continue
		}
		if w.visit != nil {
			stack = append(stack, step{p, b})
		}
		left, right := it.Pair()
		stack = append(stack, step{to: left}, step{to: right})
		more, err := w.links(p, left)
		if err != nil {
			return err
		}
		for _, p := range more {
			stack = append(stack, step{to: p})
		}
	}
	return nil
}

// maxEntries is how many entries a map of a snapshot may have.
const maxEntries = 4096

// links are what the record p refers to, if it is one.
func (w *walk) links(p, schema Particle) ([]Particle, error) {
	name, ok := w.e.suite.SchemaOf(schema)
	if !ok {
		return nil, nil
	}
	manifest, _ := w.e.suite.Manifest(name)
	links := []Particle{manifest, w.e.suite.Contract()}
	r := record.NewReader(w.ctx, w.e.suite, w.e.store, record.CellBudget)
	any, err := r.Any(p)
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrSchema) {
		return links, nil // a list that happens to begin with the name of a schema
	}
	if err != nil {
		return nil, err
	}
	for _, f := range record.Fields(any) {
		links = append(links, f.Links...)
	}
	if snapshot, ok := any.(*record.Snapshot[Particle]); ok {
		for _, p := range []Particle{snapshot.Inbox, snapshot.Continuations, snapshot.Outbox, snapshot.Subscriptions, snapshot.Management} {
			m, err := r.Map(p, maxEntries)
			if err != nil {
				return nil, err
			}
			for _, entry := range m {
				links = append(links, entry.Key, entry.Value)
			}
		}
	}
	// The request of an event and what its nonce was made of are stored with it,
	// though only hashes lead there.
	if event, ok := any.(*record.Event[Particle]); ok {
		request, err := w.request(event)
		if err != nil {
			return nil, err
		}
		links = append(links, request)
		made := Particle(event.Nonce.Bytes)
		if event.Entry != EntryMain && record.Canonical(made) {
			links = append(links, made)
		}
	}
	return links, nil
}
