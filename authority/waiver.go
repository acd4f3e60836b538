package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Waiver lets a Patchset pass one requirement that it does not meet.
type Waiver struct {
	record.Waiver
	Index  uint32
	ID     record.Identity
	Reason string
}

// Waivers lists the Waivers of a Patchset, oldest first, revoked and expired ones
// included.
func (v *View) Waivers(p *Patchset) ([]Waiver, error) {
	row, err := bindb.PatchsetWaivers.Get(v, p.Index)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Waiver, error) {
		rec, err := bindb.Waivers.Get(v, i)
		if err != nil {
			return Waiver{}, err
		}
		var reason record.WaiverPayload
		err = readPayload(v, bindb.WaiverPayload, rec.PayloadOffset, rec.PayloadLen, &reason)
		id := record.TaskIdentity(v.repo.namespace(), p.Task).Waiver(rec.Ordinal)
		return Waiver{rec, i, id, reason.Reason}, err
	}, func(w Waiver) record.Ref { return w.PreviousInPatchset })
	return live(list, func(w Waiver) bool { return w.Meta.Tombstoned() }), err
}

// WaiverSpec describes a new Waiver.
type WaiverSpec struct {
	Patchset  uint32
	Rule      record.RuleCode
	Reason    string         // required
	ExpiresAt record.Seconds // 0: never
}

// Waive records a Waiver of the selected Patchset. Tests and CI suites cannot be
// waived.
func (tx *Tx) Waive(s WaiverSpec) (index uint32, err error) {
	if !s.Rule.Waivable() {
		return 0, fmt.Errorf("waiver: %w: %s cannot be waived", bindb.ErrInvalid, s.Rule)
	}
	if s.ExpiresAt != 0 && s.ExpiresAt <= tx.now {
		return 0, fmt.Errorf("waiver: %w: it would expire before it begins", bindb.ErrInvalid)
	}
	p, c, err := tx.selected(s.Patchset)
	if err != nil {
		return 0, err
	}
	index, err = bindb.Waivers.Count(tx)
	if err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	inTask, ordinal, err := linkOrdinal(tx, bindb.TaskWaivers, c.Task, index)
	if err != nil {
		return 0, err
	}
	inPatchset, err := linkInventory(tx, bindb.PatchsetWaivers, s.Patchset, index)
	if err != nil {
		return 0, err
	}
	off, n, err := addPayload(tx, bindb.WaiverPayload, &record.WaiverPayload{Reason: s.Reason})
	if err != nil {
		return 0, err
	}
	_, err = bindb.Waivers.Append(tx.tx, record.Waiver{
		Ordinal: ordinal, PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Patchset: s.Patchset,
		PreviousInTask: inTask, PreviousInPatchset: inPatchset, PayloadOffset: off, PayloadLen: n,
		Rule: s.Rule, CreatedAt: tx.now, ExpiresAt: s.ExpiresAt,
	})
	if err != nil {
		return 0, err
	}
	return index, tx.touched(p, nil)
}

// RevokeWaiver ends a Waiver of a Patchset of an open Change.
func (tx *Tx) RevokeWaiver(waiver uint32) (err error) {
	rec, err := bindb.Waivers.Get(tx, waiver)
	if err != nil {
		return err
	}
	if rec.Meta.Tombstoned() {
		return fmt.Errorf("waiver %d: %w: it was removed", waiver, bindb.ErrNotFound)
	}
	p, err := tx.revocable(rec.Patchset)
	if err != nil || rec.Meta.Revoked() {
		return err
	}
	defer tx.writes(&err)
	rec.Meta.SetRevoked(true)
	if err := bindb.Waivers.Put(tx.tx, waiver, rec); err != nil {
		return err
	}
	return tx.touched(p, nil)
}
