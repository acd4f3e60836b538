package convert

import (
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// rankChanges orders Changes by Task and ordinal.
func (l *legacy) rankChanges() error {
	for i := range l.doc.Changes {
		row, p := &l.doc.Changes[i], l.at("changes", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		task, err := l.identity(p, "task_id", row.TaskID, record.ObjectTask)
		if err != nil {
			return err
		}
		owner, ok := l.taskAt[task]
		if !ok {
			return p.bad("task_id", "is %s, which no row of tasks has", task)
		}
		short, err := record.ParseIdentity(row.ChangeID, l.ns)
		if err != nil || short.Object != record.ObjectChange || short.HasTask && short.Task() != task {
			return p.bad("change_id", "is %.60q, want a number in its Task such as C-01", row.ChangeID)
		}
		id := task.Change(short.ChangeOrdinal)
		if err := l.copy(p, "change_ref", row.ChangeRef, id); err != nil {
			return err
		}
		l.changes = append(l.changes, ranked[changeRow]{row, p, id, owner, id.ChangeOrdinal})
	}
	if err := sortRanked(l.changes, "change_id"); err != nil {
		return err
	}
	if err := l.findLost(); err != nil {
		return err
	}
	kept := l.changes[:0]
	for _, c := range l.changes {
		if l.lost[c.id] {
			l.omit(c.id.String(), "a Patchset of it has a revision Snapshot that does not exist")
			continue
		}
		l.changeAt[c.id] = uint32(len(kept))
		kept = append(kept, c)
	}
	l.changes = kept
	return nil
}

// findLost finds the Changes that a salvage leaves out: those with a Patchset
// whose revision Snapshot does not exist.
func (l *legacy) findLost() error {
	if !l.salvage {
		return nil
	}
	known := map[record.Identity]bool{}
	for _, c := range l.changes {
		known[c.id] = true
	}
	for i := range l.doc.Patchsets {
		row, p := &l.doc.Patchsets[i], l.at("patchsets", i)
		id, err := l.identity(p, "patchset_id", row.PatchsetID, record.ObjectPatchset)
		if err != nil {
			return err
		}
		if _, ok, err := l.findSnapshot(p, "revision_snapshot_id", row.Revision); err != nil {
			return err
		} else if !ok {
			l.lost[changeOf(id)] = known[changeOf(id)]
		}
	}
	return nil
}

func (l *legacy) addChanges() error {
	for i, c := range l.changes {
		if err := l.addChange(uint32(i), c); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addChange(index uint32, c ranked[changeRow]) (err error) {
	row, p := c.row, c.at
	rec := record.Change{Task: c.owner, Ordinal: c.ordinal}
	patchsets := l.changePatchsets.rows[index]
	rec.Meta.SetHasPatchsets(patchsets.Count > 0)
	landed := l.landed[index]
	if err := l.changeStatus(c, landed, &rec); err != nil {
		return err
	}
	if rec.CreatedAt, err = p.required("created_at", row.CreatedAt); err != nil {
		return err
	}
	if rec.UpdatedAt, err = p.required("updated_at", row.UpdatedAt); err != nil {
		return err
	}
	rec.FetchedAt = rec.CreatedAt
	if rec.BaseLine, err = l.line(p, "base_line", row.BaseLine); err != nil {
		return err
	}
	if rec.ForkSnapshot, err = l.optionalSnapshot(p, "fork_snapshot_id", row.ForkSnapshot); err != nil {
		return err
	}
	if row.ForkedFrom != nil {
		if _, err := l.line(p, "forked_from_line", *row.ForkedFrom); err != nil {
			return err
		}
	}
	if err := l.target(p, row, landed); err != nil {
		return err
	}
	if err := l.selected(c, patchsets, &rec); err != nil {
		return err
	}
	var n int
	if rec.PayloadOffset, n, err = l.addText(p, "title", bindb.ChangePayload, &record.ChangePayload{Title: row.Title}); err != nil {
		return err
	}
	rec.PayloadLen = uint16(n)
	rec.PreviousInTask = l.taskChanges.join(c.owner, index, c.ordinal)
	_, err = addRecord(l, p, &rec)
	return err
}

// changeStatus maps the status to lifecycle and cache bits. A succeeded Land
// outweighs it.
func (l *legacy) changeStatus(c ranked[changeRow], landed *landing, rec *record.Change) error {
	row, p := c.row, c.at
	archived := false
	switch row.Status {
	case "draft":
		rec.Meta.SetLifecycle(record.ChangeLifecycleDraft)
	case "active", "approved":
		rec.Meta.SetLifecycle(record.ChangeLifecycleActive)
	case "review":
		rec.Meta.SetLifecycle(record.ChangeLifecycleActive)
		rec.Meta.SetReviewPending(true)
	case "gated":
		rec.Meta.SetLifecycle(record.ChangeLifecycleActive)
		rec.Meta.SetValidationPending(true)
	case "landable":
		rec.Meta.SetLifecycle(record.ChangeLifecycleActive)
		rec.Meta.SetReadyToLand(true)
	case "blocked":
		rec.Meta.SetLifecycle(record.ChangeLifecycleActive)
		rec.Meta.SetBlocked(true)
	case "landed":
		if landed == nil {
			return p.bad("status", "is landed, but no Land of the Change has succeeded")
		}
	case "archived", "superseded", "abandoned":
		archived = true
		rec.Meta.SetLifecycle(record.ChangeLifecycleArchived)
		rec.Meta.SetSuperseded(row.Status == "superseded")
		rec.State.SetCanceled(row.Status == "abandoned")
		rec.ArchivedAt = row.ArchivedAt.Seconds
	default:
		return p.bad("status", "is %.40q, want draft, active, review, gated, approved, landable, blocked, landed, archived, superseded or abandoned", row.Status)
	}
	if row.ArchivedAt.set && !archived {
		return p.bad("archived_at", "is a time, want null while the status is %s", row.Status)
	}
	if landed == nil {
		return nil
	}
	if row.Status != "landed" {
		l.warnings = append(l.warnings, c.id.String()+" was "+row.Status+" and is landed, since "+landed.id.String()+" has succeeded")
	}
	has := rec.Meta.HasPatchsets()
	rec.Meta, rec.State, rec.ArchivedAt = 0, 0, 0
	rec.Meta.SetHasPatchsets(has)
	rec.Meta.SetLifecycle(record.ChangeLifecycleLanded)
	return nil
}

// target compares what the row says about its Land with the succeeded one.
func (l *legacy) target(p place, row *changeRow, landed *landing) error {
	if landed == nil {
		if row.LandedAt.set {
			return p.bad("landed_at", "is a time, but no Land of the Change has succeeded")
		}
		if row.TargetLine != nil {
			_, err := l.line(p, "target_line", *row.TargetLine)
			return err
		}
		return nil
	}
	if err := p.same("target_line", row.TargetLine, landed.line); err != nil {
		return err
	}
	if row.LandedAt.set && row.LandedAt.Seconds != landed.at {
		return p.bad("landed_at", "is %s, want %s, the time of %s", row.LandedAt.Seconds, landed.at, landed.id)
	}
	return nil
}

// selected resolves the selection and compares the current number with the
// greatest one.
func (l *legacy) selected(c ranked[changeRow], patchsets record.OrdinalChain, rec *record.Change) error {
	row, p := c.row, c.at
	number := uint32(0)
	if row.Selected != nil {
		number = *row.Selected
	}
	if number > record.MaxOrdinals {
		return p.bad("selected_patchset_number", "is %d, want at most %d", number, record.MaxOrdinals)
	}
	if number > 0 {
		id := c.id.Patchset(uint8(number - 1))
		i, ok := l.patchsetAt[id]
		if !ok {
			return p.bad("selected_patchset_number", "is %d, but no row of patchsets is %s", number, id)
		}
		if s := l.patchsets[i].row; s.Withdrawn || s.Invalidated {
			return p.bad("selected_patchset_number", "is %d, but %s is withdrawn or invalidated", number, id)
		}
		if err := l.copy(p, "selected_patchset_id", row.SelectedID, id); err != nil {
			return err
		}
		rec.SelectedPatchset = record.RefTo(i)
	} else if row.SelectedID != nil {
		return p.bad("selected_patchset_id", "is %.60q, want null, since no number is selected", *row.SelectedID)
	}
	latest := uint32(patchsets.Next)
	landed := rec.Meta.Lifecycle() == record.ChangeLifecycleLanded
	if row.Current == latest || row.Current == 0 && landed && number == latest {
		return nil
	}
	return p.bad("current_patchset_number", "is %d, want %d, the greatest number of its Patchsets", row.Current, latest)
}
