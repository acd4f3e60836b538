package convert

import (
	"cmp"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// waivers appends Waivers by Patchset in the order of their rows. Their ordinals
// are given out in that order, per Task.
func (l *legacy) waivers() error {
	var rows []ranked[waiverRow]
	for i := range l.doc.Waivers {
		row, p := &l.doc.Waivers[i], l.at("waivers", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		if err := p.once(l, "waiver_id", row.WaiverID); err != nil {
			return err
		}
		owner, id, omitted, err := l.patchset(p, row.PatchsetID)
		if err != nil {
			return err
		}
		if err := l.owners(p, row.TaskID, row.ChangeID, row.ChangeRef, id); err != nil {
			return err
		}
		if omitted {
			l.omit(p.name(row.WaiverID), "its Change is left out")
			continue
		}
		rows = append(rows, ranked[waiverRow]{row: row, at: p, id: id, owner: owner})
	}
	slices.SortStableFunc(rows, func(a, b ranked[waiverRow]) int { return cmp.Compare(a.owner, b.owner) })
	for i, r := range rows {
		if err := l.addWaiver(uint32(i), r); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addWaiver(index uint32, r ranked[waiverRow]) (err error) {
	row, p := r.row, r.at
	rec := record.Waiver{
		PatchOrdinal: r.id.PatchOrdinal, ChangeOrdinal: r.id.ChangeOrdinal, Patchset: r.owner, ExpiresAt: row.ExpiresAt.Seconds,
	}
	rec.Meta.SetRevoked(row.Revoked)
	if rec.Rule, err = parsed(p, "rule_name", row.Rule, record.ParseRuleCode); err != nil {
		return err
	}
	if !rec.Rule.Waivable() {
		return p.bad("rule_name", "is %s, which cannot be waived", rec.Rule)
	}
	if rec.CreatedAt, err = p.required("created_at", row.CreatedAt); err != nil {
		return err
	}
	if rec.ExpiresAt != 0 && rec.ExpiresAt <= rec.CreatedAt {
		return p.bad("expires_at", "is %s, want null or a time after created_at", rec.ExpiresAt)
	}
	var n int
	if rec.PayloadOffset, n, err = l.addText(p, "reason", bindb.WaiverPayload, &record.WaiverPayload{Reason: row.Reason}); err != nil {
		return err
	}
	rec.PayloadLen = uint16(n)
	task := l.taskOf(r.owner)
	if rec.Ordinal, err = p.allocate(&l.taskWaivers, task, "Waivers"); err != nil {
		return err
	}
	rec.PreviousInTask = l.taskWaivers.join(task, index, rec.Ordinal)
	if rec.PreviousInPatchset, err = l.patchsetWaivers.join(r.owner, index); err != nil {
		return p.refuse(err)
	}
	_, err = addRecord(l, p, &rec)
	return err
}

// allocate gives out the next ordinal of an owner.
func (p place) allocate(o *ordinals, owner uint32, what string) (uint8, error) {
	next := o.rows[owner].Next
	if next >= record.MaxOrdinals {
		return 0, sourcef(p.path, "has more than %d %s of one Task, at %s[%d]", record.MaxOrdinals, what, p.array, p.row)
	}
	return next, nil
}
