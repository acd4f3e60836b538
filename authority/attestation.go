package authority

import (
	"fmt"

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
	list, err := v.Attestations(p)
	list = live(list, func(a Attestation) bool { return a.Meta.Revoked() })
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[len(list)-1], nil
}

// Attestations lists the live Attestations of a Patchset, oldest first, revoked
// ones included.
func (v *View) Attestations(p *Patchset) ([]Attestation, error) {
	row, err := bindb.PatchsetAttests.Get(v, p.Index)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Attestation, error) {
		rec, err := bindb.Attestations.Get(v, i)
		id := record.TaskIdentity(v.repo.namespace(), p.Task).Attestation(rec.Ordinal)
		return Attestation{rec, i, id}, err
	}, func(a Attestation) record.Ref { return a.PreviousInPatchset })
	return live(list, func(a Attestation) bool { return a.Meta.Tombstoned() }), err
}

// AttestSpec describes a new Attestation.
type AttestSpec struct {
	Patchset           uint32
	Verification       record.VerificationState
	RequireTests       bool
	RequireLint        bool
	RequireHumanReview bool
	// AuthorMode, if it is given, must be that of the Patchset.
	AuthorMode *record.AuthorMode
}

// Attest records an Attestation of the selected Patchset. It can add
// requirements to those of the Repository, never remove one.
func (tx *Tx) Attest(s AttestSpec) (index uint32, err error) {
	p, c, err := tx.selected(s.Patchset)
	if err != nil {
		return 0, err
	}
	if m := s.AuthorMode; m != nil && *m != p.Meta.AuthorMode() {
		return 0, fmt.Errorf("attestation: %w: %s was published as %s, not as %s", bindb.ErrInvalid, p.ID, p.Meta.AuthorMode(), *m)
	}
	if !s.Verification.Valid() {
		return 0, fmt.Errorf("attestation: %w: unknown verification state %d", bindb.ErrInvalid, s.Verification)
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

// RevokeAttestation takes an Attestation of a Patchset of an open Change back: it
// adds no requirement and satisfies none any more.
func (tx *Tx) RevokeAttestation(attestation uint32) (err error) {
	rec, err := bindb.Attestations.Get(tx, attestation)
	if err != nil {
		return err
	}
	if rec.Meta.Tombstoned() {
		return fmt.Errorf("attestation %d: %w: it was removed", attestation, bindb.ErrNotFound)
	}
	p, err := tx.revocable(rec.Patchset)
	if err != nil || rec.Meta.Revoked() {
		return err
	}
	defer tx.writes(&err)
	rec.Meta.SetRevoked(true)
	if err := bindb.Attestations.Put(tx.tx, attestation, rec); err != nil {
		return err
	}
	return tx.touched(p, nil)
}

// revocable reads a Patchset whose input may still be taken back: what has landed
// or was archived keeps what it rested on.
func (tx *Tx) revocable(patchset uint32) (Patchset, error) {
	p, err := tx.Patchset(patchset)
	if err != nil {
		return p, err
	}
	c, err := tx.Change(p.Change)
	if err == nil && !c.Open() {
		err = statef("%s is %s", c.ID, c.Status())
	}
	return p, err
}
