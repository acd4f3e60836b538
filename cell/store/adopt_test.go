package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	from := small(t, filepath.Join(t.TempDir(), "cells.db"))
	c, list, beside := commits(t, from, "a", 30, 3)
	to := small(t, filepath.Join(t.TempDir(), "cells.db"))
	a := &cell.Adoption{Cell: c}
	for i, h := range list {
		a.Commits = append(a.Commits, cell.Adopted{Commit: h.Commit, Request: h.Commit, Event: beside[3*i+2].Particle})
	}
	if err := to.Adopt(t.Context(), a); !errors.Is(err, cell.ErrMissing) {
		t.Fatalf("without content: %v", err)
	}
	var content []record.Item
	if err := from.Each(t.Context(), func(it record.Item) error { content = append(content, it); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := to.Put(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Head(t.Context(), c); !errors.Is(err, cell.ErrMissing) {
		t.Fatalf("content alone has made a cell: %v", err)
	}
	for name, bad := range map[string][]cell.Adopted{
		"no commit":             nil,
		"one request for two":   {a.Commits[0], {Commit: a.Commits[1].Commit, Request: a.Commits[0].Request}},
		"the same commit twice": {a.Commits[0], a.Commits[1], a.Commits[1]},
	} {
		if err := to.Adopt(t.Context(), &cell.Adoption{Cell: c, Commits: bad}); !errors.Is(err, cell.ErrInvalid) {
			t.Errorf("%s: %v, expected %v", name, err, cell.ErrInvalid)
		}
	}
	taken := a.Commits[7].Request
	// Another cell has claimed one of the requests for something else.
	other := blobs("other", 1)[0]
	if _, err := to.Write(t.Context(), &cell.Write{
		Cell: other.Particle, Request: other.Particle, Next: cell.Head{Commit: other.Particle}, Items: []record.Item{other},
		Claims: []cell.Claim{{Request: taken, Event: other.Particle}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := to.Adopt(t.Context(), a); !errors.Is(err, cell.ErrConflict) {
		t.Fatalf("a claim that is bound otherwise: %v", err)
	}
	if _, err := to.Head(t.Context(), c); !errors.Is(err, cell.ErrMissing) {
		t.Fatalf("a refused adoption has made a cell: %v", err)
	}
	a.Commits[7].Event = other.Particle
	if err := to.Adopt(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := to.Adopt(t.Context(), a); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("a cell that exists: %v", err)
	}
	got, err := to.History(t.Context(), c, 0, 100)
	if err != nil || len(got) != len(list) || got[29] != list[29] {
		t.Errorf("history %v, error %v", got, err)
	}
	for i, step := range a.Commits {
		if head, known, err := to.Request(t.Context(), c, step.Request); err != nil || !known || head != list[i] {
			t.Errorf("request: %v, known %v, error %v", head, known, err)
		}
	}
	sound(t, to)
	// A request that was adopted is known, and the cell goes on.
	again := &cell.Write{Cell: c, Request: list[5].Commit, Expected: &list[4], Next: list[5], Items: content[:1]}
	if head, err := to.Write(t.Context(), again); err != nil || head != list[5] {
		t.Errorf("an adopted request again: %v, error %v", head, err)
	}
	again.Next = list[6]
	if _, err := to.Write(t.Context(), again); !errors.Is(err, cell.ErrConflict) {
		t.Errorf("an adopted request with another commit: %v", err)
	}
	next := blobs("next", 1)[0]
	w := &cell.Write{Cell: c, Request: next.Particle, Expected: &list[29], Next: cell.Head{Index: 30, Commit: next.Particle}, Items: []record.Item{next}}
	if _, err := to.Write(t.Context(), w); err != nil {
		t.Error(err)
	}
	sound(t, to)
}
