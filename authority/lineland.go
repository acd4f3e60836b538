package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// LineLandSpec describes a Land that moves a Line and nothing outside of the
// authority.
type LineLandSpec struct {
	Change     uint32
	Patchset   record.Ref // if given, it must be the selected one
	TargetLine uint32
	Mode       record.LandMode
	// ExpectedHead, if given, is the Snapshot on which the target must stand.
	ExpectedHead record.Ref
	// CompleteTask requires a Change that is ready to land and completes its Task
	// in the same batch, if the Land succeeds.
	CompleteTask bool
}

// LandOnLine lands the selected Patchset of a Change onto a Line in one batch: the
// head of the Line moves to the revision, or stays when it has the revision in it
// already, and the Change is landed. As everywhere, the latest decision must be
// current and pass or be waived, and nobody may object.
//
// A Line that stands neither on the base nor on the revision or a descendant of it
// has moved on: the attempt is recorded as blocked with BASE_STALE and blocks the
// Change. The same attempt again records nothing more, and neither does one that
// has succeeded before; both return the Land that is recorded already. The error
// is ErrState for everything that is refused without a record, among it another
// head than the expected one.
func (tx *Tx) LandOnLine(s LineLandSpec) (l Land, err error) {
	if !s.Mode.Valid() {
		return l, fmt.Errorf("land: %w: unknown mode %d", bindb.ErrInvalid, s.Mode)
	}
	c, err := tx.Change(s.Change)
	if err != nil {
		return l, err
	}
	line, err := tx.usableLine(s.TargetLine)
	if err != nil {
		return l, err
	}
	last, err := tx.lastLand(s.Change)
	if err != nil {
		return l, err
	}
	if last != nil && last.repeats(&s) && last.Meta.Status() == record.LandStatusSucceeded {
		return *last, nil
	}
	patchset, ok := c.SelectedPatchset.Index()
	if i, given := s.Patchset.Index(); given {
		patchset, ok = i, true
	}
	if !ok {
		return l, statef("%s selects no patchset", c.ID)
	}
	p, c, err := tx.selected(patchset)
	if err != nil {
		return l, err
	}
	if p.Change != s.Change {
		return l, fmt.Errorf("land: %w: %s does not belong to %s", bindb.ErrInvalid, p.ID, c.ID)
	}
	if s.ExpectedHead != 0 && s.ExpectedHead != line.Head {
		return l, statef("line %q does not stand on the expected snapshot", line.Name)
	}
	if last != nil && last.repeats(&s) && last.Meta.Status() == record.LandStatusBlocked &&
		last.Patchset == patchset && last.PreTarget == line.Head && last.Meta.Mode() == s.Mode {
		return *last, nil
	}
	if err := tx.mayLand(&p); err != nil {
		return l, err
	}
	t, err := tx.Task(c.Task)
	if err != nil {
		return l, err
	}
	if s.CompleteTask && (!c.Meta.ReadyToLand() || !t.Open()) {
		return l, statef("%s is not ready to land, or its task is closed", c.ID)
	}
	head, contains, err := tx.onto(&line, &p)
	if err != nil {
		return l, err
	}
	rec := record.Land{PreTarget: line.Head, TargetLine: record.RefTo(s.TargetLine)}
	rec.Meta.SetHasPreTarget(line.Head != 0)
	rec.Meta.SetMode(s.Mode)
	defer tx.writes(&err)
	if !contains {
		rec.Meta.SetStatus(record.LandStatusBlocked)
		rec.Failure = record.LandFailureBaseStale
		index, err := tx.addLand(&p, &c, rec)
		if err != nil {
			return l, err
		}
		if err := tx.putChange(s.Change, func(c *record.Change) {
			c.Meta.SetBlocked(true)
			c.Meta.SetReadyToLand(false)
		}); err != nil {
			return l, err
		}
		return tx.Land(index)
	}
	rec.Meta.SetStatus(record.LandStatusSucceeded)
	rec.Meta.SetHasLandedSnapshot(true)
	rec.Landed = record.RefTo(head)
	index, err := tx.addLand(&p, &c, rec)
	if err != nil {
		return l, err
	}
	if line.Head != rec.Landed {
		line.Head = rec.Landed
		if err := tx.putLine(&line); err != nil {
			return l, err
		}
	}
	if err := tx.landed(s.Change); err != nil {
		return l, err
	}
	if s.CompleteTask {
		if err := tx.CompleteTask(c.Task); err != nil {
			return l, err
		}
	}
	return tx.Land(index)
}

// onto returns the Snapshot that a Line stands on once a Patchset has landed there,
// and false when the Line has moved on from the base.
func (v *View) onto(line *Line, p *Patchset) (head uint32, ok bool, err error) {
	head, ok = line.Head.Index()
	switch {
	case !ok:
		return 0, false, nil
	case head == p.BaseSnapshot:
		return p.RevisionSnapshot, true, nil
	}
	ok, err = v.descends(head, p.RevisionSnapshot)
	return head, ok, err
}

// descends reports whether a Snapshot is another one or has it among its
// ancestors. A branch of the history ends where no parents are recorded.
func (v *View) descends(snapshot, ancestor uint32) (bool, error) {
	if snapshot == ancestor {
		return true, nil
	}
	var more map[uint32][]uint32 // parents behind the first, read when one is met
	seen := map[uint32]bool{snapshot: true}
	for open := []uint32{snapshot}; len(open) > 0; {
		s, err := v.Snapshot(open[len(open)-1])
		if err != nil {
			return false, err
		}
		open = open[:len(open)-1]
		var parents []uint32
		if first, ok := s.Parent.Index(); ok {
			parents = append(parents, first)
		}
		if s.Meta.ParentEdgesAuthority() {
			if more == nil {
				if more, err = v.furtherParents(); err != nil {
					return false, err
				}
			}
			parents = append(parents, more[s.Index]...)
		}
		for _, parent := range parents {
			if parent == ancestor {
				return true, nil
			}
			if !seen[parent] {
				seen[parent] = true
				open = append(open, parent)
			}
		}
	}
	return false, nil
}

// furtherParents has the parents of each Snapshot behind its first one.
func (v *View) furtherParents() (map[uint32][]uint32, error) {
	more := map[uint32][]uint32{}
	err := bindb.SnapshotParentEdges.All(v, func(_ uint32, e *record.SnapshotParentEdge) error {
		if e.Ordinal > 0 {
			more[e.Child] = append(more[e.Child], e.Parent)
		}
		return nil
	})
	return more, err
}

// lastLand is the live Land of a Change with the greatest ordinal, or nil.
func (v *View) lastLand(change uint32) (*Land, error) {
	list, err := v.Lands(change)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[len(list)-1], nil
}

// repeats reports whether a Land was asked for by the same request as far as the
// request says it.
func (l *Land) repeats(s *LineLandSpec) bool {
	return l.TargetLine == record.RefTo(s.TargetLine) && (s.Patchset == 0 || s.Patchset == record.RefTo(l.Patchset))
}
