package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Patchset is one immutable version of a Change.
type Patchset struct {
	record.Patchset
	Index uint32
	ID    record.Identity
	Task  uint32
}

// Patchset reads one Patchset.
func (v *View) Patchset(index uint32) (Patchset, error) {
	rec, err := bindb.Patchsets.Get(v, index)
	if err != nil {
		return Patchset{}, err
	}
	c, err := bindb.Changes.Get(v, rec.Change)
	if err != nil {
		return Patchset{}, err
	}
	id := record.TaskIdentity(v.repo.namespace(), c.Task).Change(rec.ChangeOrdinal).Patchset(rec.Ordinal)
	return Patchset{rec, index, id, c.Task}, nil
}

// Summary is the human description of a Patchset.
func (v *View) Summary(p *Patchset) (string, error) {
	var s record.PatchsetSummary
	err := readPayload(v, bindb.PatchsetSummary, p.SummaryOffset, p.SummaryLen, &s)
	return s.Text, err
}

// LatestOnLine finds the newest Patchset whose revision was authored on a Line.
func (v *View) LatestOnLine(line uint32) (Patchset, bool, error) {
	return v.newest(func(fn func(uint32) (bool, error)) error { return bindb.PatchsetsByLine(v, line, fn) },
		func(*Patchset) bool { return true })
}

// FindPatchset finds the newest Patchset with that base and revision that was not
// withdrawn or invalidated.
func (v *View) FindPatchset(base, revision uint32) (Patchset, bool, error) {
	return v.findPatchset(base, revision, func(*Patchset) bool { return true })
}

func (v *View) findPatchset(base, revision uint32, want func(*Patchset) bool) (Patchset, bool, error) {
	return v.newest(func(fn func(uint32) (bool, error)) error { return bindb.PatchsetsByRevision(v, revision, fn) },
		func(p *Patchset) bool {
			return p.RevisionSnapshot == revision && p.BaseSnapshot == base && !p.Meta.Withdrawn() && !p.Meta.Invalidated() && want(p)
		})
}

func (v *View) newest(walk func(func(uint32) (bool, error)) error, want func(*Patchset) bool) (Patchset, bool, error) {
	var found Patchset
	var ok bool
	err := walk(func(i uint32) (bool, error) {
		p, err := v.Patchset(i)
		if err != nil {
			return false, err
		}
		if want(&p) {
			found, ok = p, true
		}
		return !ok, nil
	})
	return found, ok, err
}

// PatchsetSpec describes a new Patchset.
type PatchsetSpec struct {
	Change     uint32
	Base       uint32 // Snapshot
	Revision   uint32 // Snapshot
	Summary    string // 1 to 65,535 bytes of UTF-8
	AuthorMode record.AuthorMode
	// ReviewRequired marks the Change as waiting for a review.
	ReviewRequired bool
}

// Publish records the next Patchset of a Change. One with the same base and
// revision that is neither withdrawn nor invalidated is returned as it is instead.
// The summary is durable before the record that commits it. The Patchset is selected if the Change selects
// none.
func (tx *Tx) Publish(s PatchsetSpec) (index uint32, err error) {
	if err := tx.beginsWork(); err != nil {
		return 0, err
	}
	if s.AuthorMode > record.AuthorModeAIOnlyExperimental {
		return 0, fmt.Errorf("patchset: %w: the author mode %s is only read, never written", bindb.ErrInvalid, s.AuthorMode)
	}
	c, err := tx.Change(s.Change)
	if err != nil {
		return 0, err
	}
	if !c.Open() {
		return 0, statef("%s is %s", c.ID, c.Meta.Lifecycle())
	}
	for _, i := range []uint32{s.Base, s.Revision} {
		if _, err := tx.Snapshot(i); err != nil {
			return 0, err
		}
	}
	same, ok, err := tx.findPatchset(s.Base, s.Revision, func(p *Patchset) bool { return p.Change == s.Change })
	if err != nil || ok {
		return same.Index, err
	}
	index, err = bindb.Patchsets.Count(tx)
	if err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	inChange, ordinal, err := linkOrdinal(tx, bindb.ChangePatchsets, s.Change, index)
	if err != nil {
		return 0, err
	}
	inTask, err := linkInventory(tx, bindb.TaskPatchsets, c.Task, index)
	if err != nil {
		return 0, err
	}
	off, n, err := addPayload(tx, bindb.PatchsetSummary, &record.PatchsetSummary{Text: s.Summary})
	if err != nil {
		return 0, err
	}
	rec := record.Patchset{
		Ordinal: ordinal, ChangeOrdinal: c.Ordinal, Change: s.Change,
		PreviousInTask: inTask, PreviousInChange: inChange,
		BaseSnapshot: s.Base, RevisionSnapshot: s.Revision, CreatedAt: tx.now,
		SummaryOffset: off, SummaryLen: n,
	}
	rec.Meta.SetAuthorMode(s.AuthorMode)
	rec.Meta.SetEvaluationPending(true)
	if _, err := bindb.Patchsets.Append(tx.tx, rec); err != nil {
		return 0, err
	}
	err = addRows(tx,
		[]ordinalTable{bindb.PatchsetReviews, bindb.PatchsetPolicies},
		[]inventoryTable{bindb.PatchsetAttests, bindb.PatchsetWaivers})
	if err != nil {
		return 0, err
	}
	return index, tx.putChange(s.Change, func(c *record.Change) {
		c.Meta.SetLifecycle(record.ChangeLifecycleActive)
		c.Meta.SetHasPatchsets(true)
		c.Meta.SetReviewPending(s.ReviewRequired)
		c.Meta.SetValidationPending(true)
		if c.SelectedPatchset == 0 {
			c.SelectedPatchset = record.RefTo(index)
		}
	})
}

// WithdrawPatchset takes a Patchset back in its author's name. The selected
// Patchset of a Change cannot be withdrawn; another one is selected first.
func (tx *Tx) WithdrawPatchset(patchset uint32) error {
	return tx.discard(patchset, func(m *record.PatchsetMeta) { m.SetWithdrawn(true) })
}

// InvalidatePatchset declares a Patchset unusable, whatever its author wants. The
// selected Patchset of a Change cannot be invalidated; another one is selected
// first.
func (tx *Tx) InvalidatePatchset(patchset uint32) error {
	return tx.discard(patchset, func(m *record.PatchsetMeta) { m.SetInvalidated(true) })
}

func (tx *Tx) discard(patchset uint32, mark func(*record.PatchsetMeta)) error {
	p, err := tx.Patchset(patchset)
	if err != nil {
		return err
	}
	c, err := tx.Change(p.Change)
	if err != nil {
		return err
	}
	if c.SelectedPatchset == record.RefTo(patchset) {
		return statef("%s is the selected patchset of its change; select another one first", p.ID)
	}
	before := p.Meta
	if mark(&p.Meta); p.Meta == before {
		return nil
	}
	return bindb.Patchsets.Put(tx.tx, patchset, p.Patchset)
}

// Patchsets lists the Patchsets of a Change, oldest first.
func (v *View) Patchsets(change uint32) ([]Patchset, error) {
	row, err := bindb.ChangePatchsets.Get(v, change)
	if err != nil {
		return nil, err
	}
	return walk(row.Latest, v.Patchset, func(p Patchset) record.Ref { return p.PreviousInChange })
}
