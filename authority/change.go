package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Change is one line of work below a Task: it owns Patchsets, of which one is
// selected.
type Change struct {
	record.Change
	Index uint32
	ID    record.Identity
	Title string
}

// Open reports whether the Change takes further Patchsets.
func (c *Change) Open() bool {
	l := c.Meta.Lifecycle()
	return l == record.ChangeLifecycleDraft || l == record.ChangeLifecycleActive
}

// Change reads one Change.
func (v *View) Change(index uint32) (Change, error) {
	rec, err := bindb.Changes.Get(v, index)
	if err != nil {
		return Change{}, err
	}
	if rec.RemoteMeta.Deleted() {
		return Change{}, fmt.Errorf("change %d: %w: it was deleted", index, bindb.ErrNotFound)
	}
	var p record.ChangePayload
	if err := readPayload(v, bindb.ChangePayload, rec.PayloadOffset, rec.PayloadLen, &p); err != nil {
		return Change{}, err
	}
	id := record.TaskIdentity(v.repo.namespace(), rec.Task).Change(rec.Ordinal)
	return Change{rec, index, id, p.Title}, nil
}

// OpenChange creates a Change of a Task. baseLine is the Line that it is meant to
// land on, fork the Snapshot that it started from, if known.
func (tx *Tx) OpenChange(task uint32, title string, baseLine uint32, fork record.Ref) (index uint32, err error) {
	if err := tx.beginsWork(); err != nil {
		return 0, err
	}
	t, err := tx.Task(task)
	if err != nil {
		return 0, err
	}
	if !t.Open() {
		return 0, statef("%s is closed", t.ID)
	}
	if _, err := tx.usableLine(baseLine); err != nil {
		return 0, err
	}
	if i, ok := fork.Index(); ok {
		if _, err := tx.Snapshot(i); err != nil {
			return 0, err
		}
	}
	index, err = bindb.Changes.Count(tx)
	if err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	previous, ordinal, err := linkOrdinal(tx, bindb.TaskChanges, task, index)
	if err != nil {
		return 0, err
	}
	off, n, err := addPayload(tx, bindb.ChangePayload, &record.ChangePayload{Title: title})
	if err != nil {
		return 0, err
	}
	_, err = bindb.Changes.Append(tx.tx, record.Change{
		Ordinal: ordinal, PayloadOffset: off, PayloadLen: n, Task: task, PreviousInTask: previous,
		ForkSnapshot: fork, BaseLine: record.RefTo(baseLine),
		CreatedAt: tx.now, UpdatedAt: tx.now, FetchedAt: tx.now,
	})
	if err != nil {
		return 0, err
	}
	return index, addRows(tx,
		[]ordinalTable{bindb.ChangePatchsets, bindb.ChangeLands}, []inventoryTable{bindb.ChangeSnapshots})
}

// Archiving says why a Change is archived.
type Archiving uint8

const (
	// ArchivePlain puts a Change aside.
	ArchivePlain Archiving = iota
	// ArchiveSuperseded says that other work takes its place.
	ArchiveSuperseded
	// ArchiveCanceled gives it up.
	ArchiveCanceled
)

// Status is the lifecycle of a Change, or for an archived one superseded or
// canceled if it is.
func (c *Change) Status() string {
	switch {
	case c.Meta.Superseded():
		return "superseded"
	case c.State.Canceled():
		return "canceled"
	}
	return c.Meta.Lifecycle().String()
}

// ArchiveChange puts an open Change aside, so that it takes nothing any more.
func (tx *Tx) ArchiveChange(change uint32, why Archiving) error {
	if why > ArchiveCanceled {
		return fmt.Errorf("archive: %w: unknown reason %d", bindb.ErrInvalid, why)
	}
	c, err := tx.Change(change)
	if err != nil {
		return err
	}
	if !c.Open() {
		return statef("%s is %s", c.ID, c.Meta.Lifecycle())
	}
	if l, err := tx.RunningLand(); err != nil {
		return err
	} else if l != nil && l.Change == change {
		return statef("%s is running; it must be finished or failed first", l.ID)
	}
	return tx.putChange(change, func(c *record.Change) {
		c.Meta.SetLifecycle(record.ChangeLifecycleArchived)
		c.Meta.SetSuperseded(why == ArchiveSuperseded)
		c.State.SetCanceled(why == ArchiveCanceled)
		settled(&c.Meta)
		c.ArchivedAt = max(tx.now, c.UpdatedAt)
	})
}

// ReopenChange takes an archived Change of an open Task up again. It has to be
// validated anew.
func (tx *Tx) ReopenChange(change uint32) error {
	c, err := tx.Change(change)
	if err != nil {
		return err
	}
	if c.Meta.Lifecycle() != record.ChangeLifecycleArchived {
		return statef("%s is %s; only an archived change can be reopened", c.ID, c.Meta.Lifecycle())
	}
	t, err := tx.Task(c.Task)
	if err != nil {
		return err
	}
	if !t.Open() {
		return statef("%s is closed", t.ID)
	}
	line, _ := c.BaseLine.Index()
	if _, err := tx.usableLine(line); err != nil {
		return err
	}
	return tx.putChange(change, func(c *record.Change) {
		c.Meta.SetLifecycle(record.ChangeLifecycleDraft)
		if c.Meta.HasPatchsets() {
			c.Meta.SetLifecycle(record.ChangeLifecycleActive)
			c.Meta.SetValidationPending(true)
		}
		c.Meta.SetSuperseded(false)
		c.State.SetCanceled(false)
		c.ArchivedAt = 0
	})
}

// settled clears what an open Change waits for.
func settled(m *record.ChangeMeta) {
	m.SetReviewPending(false)
	m.SetValidationPending(false)
	m.SetReadyToLand(false)
	m.SetBlocked(false)
}

// ChangeIsFull reports whether all Patchset ordinals of a Change are used.
func (v *View) ChangeIsFull(index uint32) (bool, error) {
	row, err := bindb.ChangePatchsets.Get(v, index)
	return row.Next >= record.MaxOrdinals, err
}

// putChange replaces a Change at the transaction's time.
func (tx *Tx) putChange(index uint32, edit func(*record.Change)) error {
	rec, err := bindb.Changes.Get(tx, index)
	if err != nil {
		return err
	}
	edit(&rec)
	rec.UpdatedAt = max(tx.now, rec.UpdatedAt)
	return bindb.Changes.Put(tx.tx, index, rec)
}

// SelectPatchset makes a Patchset the one that reviews, evidence and a land are
// about. Readiness belonged to the one selected before and is cleared.
func (tx *Tx) SelectPatchset(patchset uint32) error {
	p, err := tx.Patchset(patchset)
	if err != nil {
		return err
	}
	if p.Meta.Withdrawn() || p.Meta.Invalidated() {
		return statef("%s was withdrawn or invalidated", p.ID)
	}
	c, err := tx.Change(p.Change)
	if err != nil {
		return err
	}
	if c.SelectedPatchset == record.RefTo(patchset) {
		return nil
	}
	if !c.Open() {
		return statef("%s is %s", c.ID, c.Meta.Lifecycle())
	}
	return tx.putChange(p.Change, func(c *record.Change) {
		c.SelectedPatchset = record.RefTo(patchset)
		c.Meta.SetValidationPending(true)
		c.Meta.SetReadyToLand(false)
		c.Meta.SetBlocked(false)
	})
}

// selected reads a Patchset that new input may be given to: the selected one of
// an open Change.
func (tx *Tx) selected(patchset uint32) (Patchset, Change, error) {
	p, err := tx.Patchset(patchset)
	if err != nil {
		return p, Change{}, err
	}
	c, err := tx.Change(p.Change)
	if err != nil {
		return p, c, err
	}
	if !c.Open() {
		return p, c, statef("%s is %s", c.ID, c.Meta.Lifecycle())
	}
	if c.SelectedPatchset != record.RefTo(patchset) {
		i, ok := c.SelectedPatchset.Index()
		if !ok {
			return p, c, statef("%s selects no patchset", c.ID)
		}
		now, err := tx.Patchset(i)
		if err != nil {
			return p, c, err
		}
		return p, c, statef("%s is not the selected patchset of its change; %s is", p.ID, now.ID)
	}
	return p, c, nil
}

// touched records that a Patchset has new input: its decision is no longer
// current, and its Change has to be validated again. Late evidence about another
// Patchset than the selected one, or after the land, says nothing about the
// readiness of the Change.
func (tx *Tx) touched(p Patchset, edit func(*record.Change)) error {
	p.Meta.SetEvaluationPending(true)
	if err := bindb.Patchsets.Put(tx.tx, p.Index, p.Patchset); err != nil {
		return err
	}
	c, err := tx.Change(p.Change)
	if err != nil || !c.Open() || c.SelectedPatchset != record.RefTo(p.Index) {
		return err
	}
	return tx.putChange(p.Change, func(c *record.Change) {
		c.Meta.SetValidationPending(true)
		c.Meta.SetReadyToLand(false)
		c.Meta.SetBlocked(false)
		if edit != nil {
			edit(c)
		}
	})
}

// ChangesOf lists the Changes of a Task, oldest first.
func (v *View) ChangesOf(task uint32) ([]Change, error) {
	row, err := bindb.TaskChanges.Get(v, task)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Change, error) {
		rec, err := bindb.Changes.Get(v, i)
		if err != nil || rec.RemoteMeta.Deleted() {
			return Change{Change: rec}, err
		}
		return v.Change(i)
	}, func(c Change) record.Ref { return c.PreviousInTask })
	return live(list, func(c Change) bool { return c.RemoteMeta.Deleted() }), err
}
