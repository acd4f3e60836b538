package authority

import (
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Attestation states what its author vouches for and which requirements it adds.
type Attestation struct {
	record.Attestation
	Index uint32
	ID    record.Identity
}

// Attestation returns the current Attestation of a Patchset: the newest one that
// is neither removed nor revoked.
func (v *View) Attestation(p *Patchset) (*Attestation, error) {
	list, err := v.attestations(p)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[len(list)-1], nil
}

func (v *View) attestations(p *Patchset) ([]Attestation, error) {
	row, err := bindb.PatchsetAttests.Get(v, p.Index)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Attestation, error) {
		rec, err := bindb.Attestations.Get(v, i)
		id := record.TaskIdentity(v.repo.info.Namespace, p.Task).Attestation(rec.Ordinal)
		return Attestation{rec, i, id}, err
	}, func(a Attestation) record.Ref { return a.PreviousInPatchset })
	return live(list, func(a Attestation) bool { return a.Meta.Tombstoned() || a.Meta.Revoked() }), err
}

// AttestSpec describes a new Attestation.
type AttestSpec struct {
	Patchset           uint32
	Verification       record.VerificationState
	RequireTests       bool
	RequireLint        bool
	RequireHumanReview bool
}

// Attest records an Attestation of the selected Patchset. It can add
// requirements to those of the Repository, never remove one.
func (tx *Tx) Attest(s AttestSpec) (index uint32, err error) {
	p, c, err := tx.selected(s.Patchset)
	if err != nil {
		return 0, err
	}
	index, err = bindb.Attestations.Count(tx)
	if err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	inTask, ordinal, err := linkOrdinal(tx, bindb.TaskAttests, c.Task, index)
	if err != nil {
		return 0, err
	}
	inPatchset, err := linkInventory(tx, bindb.PatchsetAttests, s.Patchset, index)
	if err != nil {
		return 0, err
	}
	rec := record.Attestation{
		Ordinal: ordinal, PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Patchset: s.Patchset,
		PreviousInTask: inTask, PreviousInPatchset: inPatchset, CreatedAt: tx.now,
	}
	rec.Meta.SetVerificationState(s.Verification)
	rec.Meta.SetRequireTestsPass(s.RequireTests)
	rec.Meta.SetRequireLintPass(s.RequireLint)
	rec.Meta.SetRequireHumanReview(s.RequireHumanReview)
	rec.Meta.SetCIBacked(p.CICompletedAt != 0)
	if _, err := bindb.Attestations.Append(tx.tx, rec); err != nil {
		return 0, err
	}
	return index, tx.touched(p, nil)
}
