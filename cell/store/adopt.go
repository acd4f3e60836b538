package store

import (
	"context"
	"fmt"
	"math"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// Adoption is the whole history of a cell.
type Adoption struct {
	Cell  record.Particle
	Steps []Step // from the birth on
}

// Step is one commit of a history, the request that has led to it and the claim that
// was made with it, if there was one.
type Step struct {
	Head    cell.Head
	Request record.Particle
	Claim   *cell.Claim
}

// Adopt makes a cell that is not there yet from its history, all of it or nothing. The
// content of every commit must be there already. It is durable when Adopt returns. The
// error wraps cell.ErrConflict for a cell that exists and for a claim that is bound to
// another event, cell.ErrInvalid for what is no history, cell.ErrMissing,
// cell.ErrStore or cell.ErrCommitUnknown.
func (s *Store) Adopt(ctx context.Context, a *Adoption) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(a.Steps) == 0 || len(a.Steps) > math.MaxInt32 {
		return fmt.Errorf("%w: a history of %d commits", cell.ErrInvalid, len(a.Steps))
	}
	needs := make([]need, len(a.Steps))
	requests := make(map[record.Particle]struct{}, len(a.Steps))
	for i, step := range a.Steps {
		if step.Head.Index != uint64(i) {
			return fmt.Errorf("%w: commit %d of a history has the index %d", cell.ErrInvalid, i, step.Head.Index)
		}
		if _, twice := requests[step.Request]; twice {
			return fmt.Errorf("%w: the request %v has led to two commits", cell.ErrInvalid, step.Request)
		}
		requests[step.Request] = struct{}{}
		needs[i] = need{"the commit", step.Head.Commit}
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

func (t *tx) adopt(a *Adoption) error {
	r, exists, err := readRow(t.conn, a.Cell)
	if err != nil {
		return failed(context.Background(), "read a head", err)
	}
	if exists {
		return fmt.Errorf("%w: cell %v exists", cell.ErrConflict, a.Cell)
	}
	claims := make([]cell.Claim, 0, len(a.Steps))
	for _, step := range a.Steps {
		if step.Claim != nil {
			claims = append(claims, *step.Claim)
		}
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
	if err := t.head(&r, false, a.Steps[len(a.Steps)-1].Head); err != nil {
		return err
	}
	for _, step := range a.Steps {
		if err := t.commit(r.number, step.Head, step.Request, fingerprint{}); err != nil {
			return err
		}
	}
	return nil
}
