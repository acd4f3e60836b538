package authority_test

import (
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func begin(tx *authority.Tx, p authoritytest.Published) (uint32, error) {
	return tx.BeginLand(authority.LandSpec{Patchset: p.Patchset, TargetLine: p.Main, PreTarget: p.Base, Mode: record.LandModeFFOnly})
}

// landable is a Patchset whose decision lets it land.
func landable(b *authoritytest.Bundle) authoritytest.Published {
	b.TB.Helper()
	p := b.Publish()
	decide(b, p.Patchset, 0)
	return p
}

func TestLand(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := landable(b)
	var land uint32
	b.Update(func(tx *authority.Tx) (err error) { land, err = begin(tx, p); return err })
	b.Reopen() // as if the command had died here
	b.View(func(v *authority.View) error {
		l, err := v.RunningLand()
		if err != nil {
			return err
		}
		if l == nil || l.Index != land || l.ID.String() != "T-0001/C-01/L-01" || l.Landed != 0 || l.PreTarget != record.RefTo(p.Base) {
			t.Errorf("running land %+v", l)
		}
		return nil
	})
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { _, err := begin(tx, p); return err })
	b.Update(func(tx *authority.Tx) error { return tx.FailLand(land, record.LandFailureTargetUpdateFailed) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.FinishLand(land, p.Revision) })
	b.Update(func(tx *authority.Tx) (err error) { land, err = begin(tx, p); return err })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.FinishLand(land, 999) })
	b.Update(func(tx *authority.Tx) error { return tx.FinishLand(land, p.Revision) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
		return tx.FailLand(land, record.LandFailureConflict)
	})
	c := change(b, p.Change)
	if c.Meta.Lifecycle() != record.ChangeLifecycleLanded || c.Open() || c.Meta.ReadyToLand() || c.Meta.ValidationPending() {
		t.Errorf("after the land: %+v", c.Meta)
	}
	b.View(func(v *authority.View) error {
		line, err := v.Line(p.Main)
		if err != nil || line.Head != record.RefTo(p.Revision) {
			t.Errorf("line %+v, %v", line, err)
		}
		if l, err := v.RunningLand(); err != nil || l != nil {
			t.Errorf("running land %+v, %v", l, err)
		}
		lands, err := v.Lands(p.Change)
		if len(lands) != 2 || lands[0].Meta.Status() != record.LandStatusFailed || lands[1].Meta.Status() != record.LandStatusSucceeded ||
			lands[1].ID.String() != "T-0001/C-01/L-02" || lands[0].Failure != record.LandFailureTargetUpdateFailed {
			t.Errorf("lands %+v", lands)
		}
		return err
	})
	// A landed Change takes nothing new, and late evidence leaves it alone.
	for name, verb := range map[string]func(*authority.Tx) error{
		"land": func(tx *authority.Tx) error { _, err := begin(tx, p); return err },
		"publish": func(tx *authority.Tx) error {
			_, err := tx.Publish(authority.PatchsetSpec{Change: p.Change, Base: p.Base, Revision: p.Revision, Summary: "More"})
			return err
		},
		"attest": func(tx *authority.Tx) error {
			_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset})
			return err
		},
	} {
		t.Log(name)
		wantErr(t, b.Repo, authority.ErrState, verb)
	}
	b.Update(func(tx *authority.Tx) error { return authoritytest.Run(tx, p.Patchset, authoritytest.Failed) })
	if after := change(b, p.Change); after.Meta != c.Meta {
		t.Errorf("late evidence changed the landed change: %+v", after.Meta)
	}
}

func TestLandNeedsACurrentDecision(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	refused := func(when string) {
		t.Helper()
		t.Log(when)
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { _, err := begin(tx, p); return err })
	}
	refused("no decision")
	decide(b, p.Patchset, flagTests)
	refused("pending")
	b.Update(func(tx *authority.Tx) error { return authoritytest.Run(tx, p.Patchset, authoritytest.Failed) })
	decide(b, p.Patchset, flagTests)
	refused("failed")
	decide(b, p.Patchset, 0)
	review(b, p.Patchset, "ann", record.ReviewActionComment)
	refused("new input")
	review(b, p.Patchset, "ann", record.ReviewActionRequestChanges)
	decide(b, p.Patchset, 0)
	refused("an objection")
	old := p
	p = b.Next(p)
	refused("undecided successor")
	p, old = old, p
	refused("not selected")
	p = old
	decide(b, p.Patchset, 0)
	b.Update(func(tx *authority.Tx) error { return tx.SetLineHead(p.Main, p.Revision) })
	refused("the line has moved")
}

func TestLandsEndAt64(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := landable(b)
	b.Update(func(tx *authority.Tx) error {
		for range 64 {
			land, err := begin(tx, p)
			if err != nil {
				return err
			}
			if err := tx.FailLand(land, record.LandFailureInternalError); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error { _, err := begin(tx, p); return err })
}
