package authority_test

import (
	"errors"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// TestFind: each identity that the program shows finds its record.
func TestFind(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	b.Publish()
	p := b.Next(b.Next(b.Publish())) // T-0002/C-01/P-03
	var actor, waiver, att, rev, job, land uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if actor, err = tx.EnsureActor("ann", ""); err != nil {
			return err
		}
		for range 2 {
			if rev, err = tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionComment, Actor: actor}); err != nil {
				return err
			}
			if att, err = tx.Attest(authority.AttestSpec{Patchset: p.Patchset}); err != nil {
				return err
			}
			if waiver, err = tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "r"}); err != nil {
				return err
			}
		}
		if job, _, err = tx.EnqueueCI(p.Patchset); err != nil {
			return err
		}
		if _, _, err := tx.Decide(p.Patchset, authority.PolicyInput{}); err != nil {
			return err
		}
		if _, err := tx.CreatePlan("Plan", authority.RevisionSpec{}); err != nil {
			return err
		}
		if _, err := tx.RevisePlan(0, authority.RevisionSpec{}); err != nil {
			return err
		}
		if err := tx.SetLineHead(p.Main, p.Base); err != nil {
			return err
		}
		land, err = begin(tx, p)
		return err
	})
	b.View(func(v *authority.View) error {
		s, err := v.Snapshot(p.Revision)
		if err != nil {
			return err
		}
		for text, want := range map[string]authority.Found{
			"T-0002":           {Index: p.Task},
			"RT-0002/C-01":     {Index: p.Change},
			"T-0002/C-01/P-03": {Index: p.Patchset},
			"C-01/P-03":        {}, // two tasks have a C-01
			s.Name():           {Index: p.Revision},
			"T-0002/A-02":      {Index: att},
			"T-0002/W-02":      {Index: waiver},
			"T-0002/C-01/L-01": {Index: land},
			"PR-0":             {Index: 0},
			"plan-revision:1":  {Index: 1},
			record.JobLabel(authority.FirstRepository, job): {Index: job},
			"T-0002/C-01/P-03/R-02":                         {Index: rev},
			"T-0002/C-01/P-03/K-01":                         {Index: 0},
		} {
			got, err := v.Find(text)
			if text == "C-01/P-03" {
				if !errors.Is(err, bindb.ErrInvalid) {
					t.Errorf("%s: %v, %v", text, got, err)
				}
				continue
			}
			if err != nil || got.Index != want.Index {
				t.Errorf("%s: record %d, %v, want %d", text, got.Index, err, want.Index)
			}
		}
		for text, want := range map[string]error{
			"T-0003": bindb.ErrNotFound, "T-0002/C-02": bindb.ErrNotFound, "T-0002/C-01/P-04": bindb.ErrNotFound,
			"T-0002/C-01/P-03/R-03": bindb.ErrNotFound, "T-0002/C-01/P-03/K-02": bindb.ErrNotFound, "T-0002/A-03": bindb.ErrNotFound,
			"T-0002/W-03": bindb.ErrNotFound, "T-0002/C-01/L-02": bindb.ErrNotFound, "PR-1": bindb.ErrNotFound,
			"plan-revision:2": bindb.ErrNotFound, "4/1": bindb.ErrNotFound, "5/0": bindb.ErrNotFound, "SNP-000000000000": bindb.ErrNotFound,
			"C-09": bindb.ErrNotFound, "": bindb.ErrInvalid, "widget": bindb.ErrInvalid, "SET-0001": bindb.ErrInvalid,
		} {
			if got, err := v.Find(text); !errors.Is(err, want) {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
		}
		return nil
	})
	// A short form that fits once.
	b.Update(func(tx *authority.Tx) error {
		c, err := tx.OpenChange(p.Task, "Second", p.Main, 0)
		if err != nil {
			return err
		}
		got, err := tx.Find("C-02")
		if got.Index != c || got.String() != "T-0002/C-02" {
			t.Errorf("C-02 is %v", got)
		}
		return err
	})
	// What was removed is not found.
	err := b.Repo.Root().Update(t.Context(), func(tx *bindb.Tx) error {
		r, err := bindb.Reviews.Get(tx, rev)
		if err != nil {
			return err
		}
		r.Meta.SetTombstoned(true)
		return bindb.Reviews.Put(tx, rev, r)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.View(func(v *authority.View) error {
		if got, err := v.Find("T-0002/C-01/P-03/R-02"); !errors.Is(err, bindb.ErrNotFound) {
			t.Errorf("a removed review: %v, %v", got, err)
		}
		_, err := v.Find("T-0002/C-01/P-03/R-01")
		return err
	})
}
