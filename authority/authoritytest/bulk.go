package authoritytest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

// perBatch is how many Patchsets of a history share one batch.
const perBatch = 2048

// Bulk fills the first user Repository of the authority in dir, which is created
// if there is none, with a history of that many Patchsets: 64 in a Change, which
// has a Line of its own, and 64 Changes in a Task. Each has a revision Snapshot,
// evidence that it passed, and a decision. The authority is closed in the end.
func Bulk(t testing.TB, dir string, patchsets int) {
	t.Helper()
	ctx := context.Background()
	opt := authority.Options{Dir: dir}
	a, err := authority.Open(ctx, opt)
	if errors.Is(err, authority.ErrNoAuthority) {
		a, err = authority.Create(ctx, opt, "bulk", authority.DefaultFlags)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		t.Fatal(err)
	}
	h := history{left: patchsets}
	for h.left > 0 {
		next := h // as it was before the batch, which may run again
		if err := r.Update(ctx, func(tx *authority.Tx) error {
			next = h
			return next.add(tx)
		}); err != nil {
			t.Fatal(err)
		}
		h = next
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// history is how far a history has come.
type history struct {
	left, done                 int
	task, change               uint32
	changes                    int
	main, line, base, revision uint32
}

// add publishes the Patchsets of one batch.
func (h *history) add(tx *authority.Tx) (err error) {
	if h.main, err = tx.EnsureLine(authority.MainLine); err != nil {
		return err
	}
	for range min(perBatch, h.left) {
		if h.done%record.MaxOrdinals == 0 {
			if err := h.openChange(tx); err != nil {
				return err
			}
		}
		number := uint64(h.done) + 1<<32
		if h.revision, err = tx.AddSnapshot(Snapshot(number, h.line)); err != nil {
			return err
		}
		p, err := tx.Publish(authority.PatchsetSpec{
			Change: h.change, Base: h.base, Revision: h.revision,
			Summary: fmt.Sprintf("Step %d\n\nOne of many steps, with a body of a usual length for a commit.", h.done),
		})
		if err != nil {
			return err
		}
		if err := tx.SelectPatchset(p); err != nil {
			return err
		}
		if err := Run(tx, p, Passed); err != nil {
			return err
		}
		if _, _, err := tx.Decide(p, authority.PolicyInput{Flags: authority.DefaultFlags}); err != nil {
			return err
		}
		h.done++
		h.left--
	}
	return nil
}

func (h *history) openChange(tx *authority.Tx) (err error) {
	if h.changes%record.MaxOrdinals == 0 {
		if h.task, err = tx.OpenTask(fmt.Sprintf("Task %d", h.changes), "A part of a long history."); err != nil {
			return err
		}
	}
	if h.line, err = tx.EnsureLine(fmt.Sprintf("branch-%d", h.done)); err != nil {
		return err
	}
	if h.base, err = tx.AddSnapshot(Snapshot(uint64(h.done), h.main)); err != nil {
		return err
	}
	h.change, err = tx.OpenChange(h.task, fmt.Sprintf("Change %d", h.changes), h.main, record.RefTo(h.base))
	h.changes++
	return err
}
