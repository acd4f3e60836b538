package store

import (
	"context"
	"fmt"
	"math"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// Adopt makes a cell that is not there yet from its history, all of it or nothing. The
// content of every commit must be there already. It is durable when Adopt returns. The
// error wraps cell.ErrConflict for a cell that exists and for a claim that is bound to
// another event, cell.ErrInvalid for what is no history, cell.ErrMissing,
// cell.ErrStore or cell.ErrCommitUnknown.
func (s *Store) Adopt(ctx context.Context, a *cell.Adoption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(a.Commits) == 0 || len(a.Commits) > math.MaxInt32 {
		return fmt.Errorf("%w: a history of %d commits", cell.ErrInvalid, len(a.Commits))
	}
	needs := make([]need, len(a.Commits))
	requests := make(map[record.Particle]struct{}, len(a.Commits))
	for i, step := range a.Commits {
		if _, twice := requests[step.Request]; twice {
			return fmt.Errorf("%w: the request %v has led to two commits", cell.ErrInvalid, step.Request)
		}
		requests[step.Request] = struct{}{}
		needs[i] = need{"the commit", step.Commit}
	}
	s.writes.RLock()
	defer s.writes.RUnlock()
	err := s.reading(ctx, func(c conn) (err error) {
		needs, err = s.absent(c, needs)
		return err
	})
	if err != nil {
		return unread(ctx, err)
	}
	if len(needs) > 0 {
		return needs[0].missing()
	}
	return s.update(ctx, func(t *tx) error { return t.adopt(a) })
}

func (t *tx) adopt(a *cell.Adoption) error {
	r, exists, err := readRow(t.conn, a.Cell)
	if err != nil {
		return failed(context.Background(), "read a head", err)
	}
	if exists {
		return fmt.Errorf("%w: cell %v exists", cell.ErrConflict, a.Cell)
	}
	claims := make([]cell.Claim, 0, len(a.Commits))
	for _, step := range a.Commits[1:] { // a birth claims nothing
		claims = append(claims, cell.Claim{Request: step.Request, Event: step.Event})
	}
	if claims, err = t.unclaimed(claims); err != nil {
		return err
	}
	for _, c := range claims {
		if err := t.claim(c); err != nil {
			return err
		}
	}
	r.cell = a.Cell
	last := len(a.Commits) - 1
	if err := t.head(&r, false, cell.Head{Index: uint64(last), Commit: a.Commits[last].Commit}); err != nil {
		return err
	}
	for i, step := range a.Commits {
		if err := t.commit(r.number, cell.Head{Index: uint64(i), Commit: step.Commit}, step.Request, fingerprint{}); err != nil {
			return err
		}
	}
	return nil
}
