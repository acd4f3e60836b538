package authority_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// refuses expects a verb to fail with want and to leave every file as it is.
func refuses(t *testing.T, b *authoritytest.Bundle, want error, verb func(*authority.Tx) error) {
	t.Helper()
	before := tree(t, b.Repo.Root().Dir)
	wantErr(t, b.Repo, want, verb)
	if tree(t, b.Repo.Root().Dir) != before {
		t.Error("a refused verb has written something")
	}
}

// about are verbs that add one member to chains of a Patchset that was just
// published, or of its Change or Task.
var about = map[string]func(tx *authority.Tx, p authoritytest.Published) error{
	"change": func(tx *authority.Tx, p authoritytest.Published) error {
		_, err := tx.OpenChange(p.Task, "c", p.Main, 0)
		return err
	},
	"patchset": publishNext,
	"review": func(tx *authority.Tx, p authoritytest.Published) error {
		ann, err := tx.EnsureActor("ann", "")
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionComment, Actor: ann})
		return err
	},
	"request": func(tx *authority.Tx, p authoritytest.Published) error {
		_, err := tx.RequestReview(p.Patchset, "team", "")
		return err
	},
	"attestation": func(tx *authority.Tx, p authoritytest.Published) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset})
		return err
	},
	"waiver": func(tx *authority.Tx, p authoritytest.Published) error {
		_, err := tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "r"})
		return err
	},
	"link": func(tx *authority.Tx, p authoritytest.Published) error {
		_, err := tx.LinkSnapshot(authority.LinkSpec{Task: p.Task, Change: record.RefTo(p.Change), Snapshot: p.Revision})
		return err
	},
	"decision": func(tx *authority.Tx, p authoritytest.Published) error {
		// Another catalogue, so that it is another decision.
		got, err := tx.Patchset(p.Patchset)
		if err != nil {
			return err
		}
		list, err := tx.Decisions(&got)
		if err != nil {
			return err
		}
		_, _, err = tx.Decide(p.Patchset, authority.PolicyInput{Suites: make([]authority.SuiteRow, len(list)+1)})
		return err
	},
	"land": func(tx *authority.Tx, p authoritytest.Published) error {
		if _, _, err := tx.Decide(p.Patchset, authority.PolicyInput{}); err != nil {
			return err
		}
		if err := tx.SetLineHead(p.Main, p.Base); err != nil {
			return err
		}
		land, err := begin(tx, p)
		if err != nil {
			return err
		}
		return tx.FailLand(land, record.LandFailureConflict)
	},
}

// TestOrdinalsEnd: the sixty-fifth member of every ordinal chain is refused.
func TestOrdinalsEnd(t *testing.T) {
	t.Parallel()
	for name, add := range about {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := authoritytest.Setup(t)
			p := b.Publish()
			left := 64
			if name == "change" || name == "patchset" {
				left-- // one is there
			}
			b.Update(func(tx *authority.Tx) error {
				for i := range left {
					if err := add(tx, p); err != nil {
						return fmt.Errorf("number %d: %w", i, err)
					}
				}
				return nil
			})
			refuses(t, b, bindb.ErrCapacity, func(tx *authority.Tx) error { return add(tx, p) })
		})
	}
}

// TestCountsEnd: an inventory that counts as many members as sixteen bits hold takes
// no further one.
func TestCountsEnd(t *testing.T) {
	t.Parallel()
	task := func(p authoritytest.Published) uint32 { return p.Task }
	change := func(p authoritytest.Published) uint32 { return p.Change }
	patchset := func(p authoritytest.Published) uint32 { return p.Patchset }
	for _, c := range []struct {
		verb  string
		chain string
		table bindb.Table[record.InventoryChain, *record.InventoryChain]
		owner func(authoritytest.Published) uint32
	}{
		{"patchset", "of the task", bindb.TaskPatchsets, task},
		{"review", "of the task", bindb.TaskReviews, task},
		{"decision", "of the task", bindb.TaskPolicies, task},
		{"land", "of the task", bindb.TaskLands, task},
		{"link", "of the change", bindb.ChangeSnapshots, change},
		{"attestation", "of the patchset", bindb.PatchsetAttests, patchset},
		{"waiver", "of the patchset", bindb.PatchsetWaivers, patchset},
	} {
		t.Run(c.verb+" "+c.chain, func(t *testing.T) {
			t.Parallel()
			b := authoritytest.Setup(t)
			p := b.Publish()
			b.Update(func(tx *authority.Tx) error { return about[c.verb](tx, p) })
			set := func(count uint16) (old uint16) {
				err := b.Repo.Root().Update(context.Background(), func(tx *bindb.Tx) error {
					row, err := c.table.Get(tx, c.owner(p))
					if err != nil {
						return err
					}
					old, row.Count = row.Count, count
					return c.table.Put(tx, c.owner(p), row)
				})
				if err != nil {
					t.Fatal(err)
				}
				return old
			}
			before := set(math.MaxUint16)
			refuses(t, b, bindb.ErrCapacity, func(tx *authority.Tx) error { return about[c.verb](tx, p) })
			set(before)
			b.Update(func(tx *authority.Tx) error { return about[c.verb](tx, p) })
		})
	}
}

func TestRunsEnd(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	err := b.Repo.Root().Update(context.Background(), func(tx *bindb.Tx) error {
		rec, err := bindb.Patchsets.Get(tx, p.Patchset)
		if err != nil {
			return err
		}
		rec.CIRunSeq = math.MaxUint32
		return bindb.Patchsets.Put(tx, p.Patchset, rec)
	})
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, b, bindb.ErrCapacity, func(tx *authority.Tx) error { _, _, err := tx.EnqueueCI(p.Patchset); return err })
}

// TestPayloadsEnd: each text fits up to what the format has room for, and not one
// byte more.
func TestPayloadsEnd(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	var ann, first uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if ann, err = tx.EnsureActor("ann", ""); err != nil {
			return err
		}
		first, err = tx.CreatePlan("Plan", authority.RevisionSpec{})
		return err
	})
	for name, c := range map[string]struct {
		room int
		verb func(tx *authority.Tx, text string) error
	}{
		"title of a task":   {65535 - 2 - 1, func(tx *authority.Tx, s string) error { _, err := tx.OpenTask(s, "i"); return err }},
		"intent of a task":  {65535 - 2 - 1, func(tx *authority.Tx, s string) error { _, err := tx.OpenTask("t", s); return err }},
		"title of a change": {65535, func(tx *authority.Tx, s string) error { _, err := tx.OpenChange(p.Task, s, p.Main, 0); return err }},
		"name of a line":    {65535, func(tx *authority.Tx, s string) error { _, err := tx.AddLine(s); return err }},
		"name of an actor":  {255, func(tx *authority.Tx, s string) error { _, err := tx.EnsureActor(s, ""); return err }},
		"address":           {255, func(tx *authority.Tx, s string) error { _, err := tx.EnsureActor("bob", s); return err }},
		"name of a team":    {255, func(tx *authority.Tx, s string) error { _, err := tx.RequestReview(p.Patchset, s, ""); return err }},
		"note of a request": {65535, func(tx *authority.Tx, s string) error { _, err := tx.RequestReview(p.Patchset, "team", s); return err }},
		"title of a plan": {65535 - 10, func(tx *authority.Tx, s string) error {
			_, err := tx.CreatePlan(s, authority.RevisionSpec{})
			return err
		}},
		"another title":      {65535, func(tx *authority.Tx, s string) error { return tx.RetitlePlan(first, s) }},
		"reference":          {65535 - 6, func(tx *authority.Tx, s string) error { return items(tx, authority.ItemSpec{Ref: s}) }},
		"text of an item":    {65535 - 6, func(tx *authority.Tx, s string) error { return items(tx, authority.ItemSpec{Text: s}) }},
		"heading of an item": {65535 - 8, func(tx *authority.Tx, s string) error { return items(tx, authority.ItemSpec{Headings: []string{s}}) }},
		"model of a link": {65535 - 10, func(tx *authority.Tx, s string) error {
			_, err := tx.LinkSnapshot(authority.LinkSpec{Task: p.Task, Snapshot: p.Revision, Model: s})
			return err
		}},
		"text of a review": {65535, func(tx *authority.Tx, s string) error {
			_, err := tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionComment, Actor: ann, Text: s})
			return err
		}},
		"reason of a waiver": {65535, func(tx *authority.Tx, s string) error {
			_, err := tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: s})
			return err
		}},
		"summary": {65535, func(tx *authority.Tx, s string) error {
			_, err := tx.Publish(authority.PatchsetSpec{Change: p.Change, Base: p.Revision, Revision: p.Base, Summary: s})
			return err
		}},
		"message of a snapshot": {65535 - 2, func(tx *authority.Tx, s string) error {
			spec := authoritytest.Snapshot(7, p.Main)
			spec.Message = s
			_, err := tx.AddSnapshot(spec)
			return err
		}},
	} {
		t.Log(name)
		refuses(t, b, bindb.ErrInvalid, func(tx *authority.Tx) error { return c.verb(tx, strings.Repeat("x", c.room+1)) })
		refuses(t, b, bindb.ErrInvalid, func(tx *authority.Tx) error { return c.verb(tx, "\xff") })
		b.Update(func(tx *authority.Tx) error { return c.verb(tx, strings.Repeat("x", c.room)) })
	}
}

func items(tx *authority.Tx, it authority.ItemSpec) error {
	_, err := tx.CreatePlan("Plan", authority.RevisionSpec{Items: []authority.ItemSpec{it}})
	return err
}
