package convert

import (
	"cmp"
	"slices"

	"github.com/writ-authority/writ/bindb/record"
)

// attestations appends Attestations by Patchset in the order of their rows. Their
// ordinals are given out in that order, per Task. A compact row, which belongs to
// a Change, goes to the Patchset that the Change selects now.
func (l *legacy) attestations() error {
	var rows []ranked[attestationRow]
	seen := map[uint32]int{}
	for i := range l.doc.Attestations {
		row, p := &l.doc.Attestations[i], l.at("attestations", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		if err := p.once(l, "attestation_id", row.AttestationID); err != nil {
			return err
		}
		find := l.attested
		if row.PatchsetID == nil {
			find = l.selectedOf
			if row.CreatedAt.set {
				return p.bad("created_at", "is a time, want null in a compact row, whose time is attested_at")
			}
			if !row.AttestedAt.set && !row.Tests && !row.HumanReview && !row.Lint && !row.CIBacked {
				continue // a Change without an Attestation
			}
		}
		owner, id, omitted, err := find(p, row)
		if err != nil {
			return err
		}
		if omitted {
			l.omit(p.name(row.AttestationID), "its Change is left out")
			continue
		}
		if other, ok := seen[owner]; ok {
			return p.bad("patchset_id", "is %s, which attestations[%d] is about too", id, other)
		}
		seen[owner] = i
		rows = append(rows, ranked[attestationRow]{row: row, at: p, id: id, owner: owner})
	}
	slices.SortStableFunc(rows, func(a, b ranked[attestationRow]) int { return cmp.Compare(a.owner, b.owner) })
	for i, r := range rows {
		if err := l.addAttestation(uint32(i), r); err != nil {
			return err
		}
	}
	return nil
}

// attested finds the Patchset of a row that names it.
func (l *legacy) attested(p place, row *attestationRow) (uint32, record.Identity, bool, error) {
	owner, id, omitted, err := l.patchset(p, *row.PatchsetID)
	if err == nil {
		err = l.owners(p, row.TaskID, row.ChangeID, row.ChangeRef, id)
	}
	return owner, id, omitted, err
}

// selectedOf finds the Patchset that the Change of a compact row selects.
func (l *legacy) selectedOf(p place, row *attestationRow) (uint32, record.Identity, bool, error) {
	var id record.Identity
	var err error
	switch {
	case row.ChangeRef != nil:
		id, err = l.identity(p, "change_ref", *row.ChangeRef, record.ObjectChange)
	case row.TaskID != nil && row.ChangeID != nil:
		if id, err = l.identity(p, "task_id", *row.TaskID, record.ObjectTask); err != nil {
			return 0, id, false, err
		}
		var short record.Identity
		if short, err = record.ParseIdentity(*row.ChangeID, l.ns); err != nil || short.Object != record.ObjectChange {
			return 0, id, false, p.bad("change_id", "is %.60q, want a number in its Task such as C-01", *row.ChangeID)
		}
		id = id.Change(short.ChangeOrdinal)
	default:
		return 0, id, false, p.bad("change_ref", "is null, and so is patchset_id; want one of them")
	}
	if err != nil {
		return 0, id, false, err
	}
	if err := l.owners(p, row.TaskID, row.ChangeID, row.ChangeRef, id); err != nil {
		return 0, id, false, err
	}
	if l.lost[id] {
		return 0, id, true, nil
	}
	at, ok := l.changeAt[id]
	if !ok {
		return 0, id, false, p.bad("change_ref", "is %s, which no row of changes has", id)
	}
	n := l.changes[at].row.Selected
	if n == nil || *n == 0 || *n > record.MaxOrdinals {
		return 0, id, false, p.bad("change_ref", "is %s, which selects no Patchset that the Attestation could be about", id)
	}
	id = id.Patchset(uint8(*n - 1))
	owner, ok := l.patchsetAt[id]
	if !ok {
		return 0, id, false, p.bad("change_ref", "selects %s, which no row of patchsets has", id)
	}
	return owner, id, false, nil
}

func (l *legacy) addAttestation(index uint32, r ranked[attestationRow]) (err error) {
	row, p := r.row, r.at
	rec := record.Attestation{
		PatchOrdinal: r.id.PatchOrdinal, ChangeOrdinal: r.id.ChangeOrdinal, Patchset: r.owner, CreatedAt: row.AttestedAt.Seconds,
	}
	if !row.AttestedAt.set {
		rec.CreatedAt = row.CreatedAt.Seconds
	}
	state, err := parsed(p, "verification_state", row.Verification, record.ParseVerificationState)
	if err != nil {
		return err
	}
	rec.Meta.SetVerificationState(state)
	rec.Meta.SetRevoked(row.Revoked)
	rec.Meta.SetRequireTestsPass(row.Tests)
	rec.Meta.SetRequireHumanReview(row.HumanReview)
	rec.Meta.SetRequireLintPass(row.Lint)
	rec.Meta.SetCIBacked(row.CIBacked)
	if err := p.same("author_mode", row.AuthorMode, l.patchsets[r.owner].row.AuthorMode); err != nil {
		return err
	}
	task := l.taskOf(r.owner)
	if rec.Ordinal, err = p.allocate(&l.taskAttests, task, "Attestations"); err != nil {
		return err
	}
	rec.PreviousInTask = l.taskAttests.join(task, index, rec.Ordinal)
	if rec.PreviousInPatchset, err = l.patchsetAttests.join(r.owner, index); err != nil {
		return p.refuse(err)
	}
	_, err = addRecord(l, p, &rec)
	return err
}
