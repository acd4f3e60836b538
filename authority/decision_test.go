package authority_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func decide(b *authoritytest.Bundle, patchset uint32, flags record.PolicyFlags) (e *authority.Evaluation, d *authority.Decision) {
	b.TB.Helper()
	b.Update(func(tx *authority.Tx) (err error) {
		e, d, err = tx.Decide(patchset, authority.PolicyInput{Flags: flags})
		return err
	})
	return e, d
}

func review(b *authoritytest.Bundle, patchset uint32, who string, action record.ReviewAction) {
	b.TB.Helper()
	b.Update(func(tx *authority.Tx) error {
		actor, err := tx.EnsureActor(who, who+"@example.org")
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{Patchset: patchset, Action: action, Actor: actor})
		return err
	})
}

// bits is what a decision settles.
type bits struct{ evaluating, validating, ready, blocked bool }

func settled(b *authoritytest.Bundle, p authoritytest.Published) bits {
	b.TB.Helper()
	m := change(b, p.Change).Meta
	return bits{patchset(b, p.Patchset).Meta.EvaluationPending(), m.ValidationPending(), m.ReadyToLand(), m.Blocked()}
}

// TestDecisionEffects follows section 16.7 through the life of one Patchset.
func TestDecisionEffects(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	expect := func(when string, want bits) {
		t.Helper()
		if got := settled(b, p); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	expect("published", bits{evaluating: true, validating: true})
	decide(b, p.Patchset, flagTests)
	expect("pending", bits{evaluating: true, validating: true})
	b.Update(func(tx *authority.Tx) error { return authoritytest.Run(tx, p.Patchset, authoritytest.Failed) })
	expect("evidence", bits{evaluating: true, validating: true})
	decide(b, p.Patchset, flagTests)
	expect("hard fail", bits{validating: true, blocked: true})
	b.Update(func(tx *authority.Tx) error { return authoritytest.Run(tx, p.Patchset, authoritytest.Passed) })
	expect("rerun", bits{evaluating: true, validating: true})
	decide(b, p.Patchset, flagTests)
	expect("pass", bits{ready: true})
	review(b, p.Patchset, "ann", record.ReviewActionComment)
	expect("comment", bits{evaluating: true, validating: true})
	decide(b, p.Patchset, flagTests)
	expect("decided again", bits{ready: true})
	review(b, p.Patchset, "ann", record.ReviewActionRequestChanges)
	if e, _ := decide(b, p.Patchset, flagTests); e.Landable() || e.Decision != record.DecisionKindPass {
		t.Errorf("with an objection: %s, landable %t", e.Decision, e.Landable())
	}
	expect("objection", bits{})
	if !change(b, p.Change).Meta.ReviewPending() {
		t.Error("a request for changes leaves no review pending")
	}
	review(b, p.Patchset, "ann", record.ReviewActionApprove)
	decide(b, p.Patchset, flagTests)
	expect("approved", bits{ready: true})
	decide(b, p.Patchset, flagTests|flagLint)
	expect("more is required", bits{evaluating: true, validating: true})
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "No linter yet."})
		return err
	})
	if e, _ := decide(b, p.Patchset, flagTests|flagLint); e.Decision != record.DecisionKindWaived || !e.Landable() {
		t.Errorf("waived: %s", e.Decision)
	}
	expect("waived", bits{ready: true})
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset, RequireHumanReview: true})
		return err
	})
	expect("attested", bits{evaluating: true, validating: true})

	next := b.Next(p)
	if c := change(b, p.Change).Meta; c.ReadyToLand() || !c.ValidationPending() {
		t.Errorf("readiness outlived the selection: %+v", c)
	}
	// The old one can be decided, but says nothing about the Change any more.
	decide(b, p.Patchset, 0)
	if c := change(b, p.Change).Meta; c.ReadyToLand() {
		t.Error("the decision about an unselected patchset made the change ready")
	}
	err := wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset})
		return err
	})
	if id := patchset(b, next.Patchset).ID.String(); !strings.Contains(err.Error(), id) {
		t.Errorf("%q does not name the selected patchset %s", err, id)
	}
}

func TestUnchangedDecision(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	_, first := decide(b, p.Patchset, flagTests)
	b.Clock.Advance(time.Hour)
	if _, again := decide(b, p.Patchset, flagTests); again.Index != first.Index || again.CreatedAt != first.CreatedAt {
		t.Errorf("an unchanged evaluation gave decision %s", again.ID)
	}
	_, other := decide(b, p.Patchset, 0)
	if other.Index == first.Index {
		t.Error("a changed evaluation appended no decision")
	}
	if _, back := decide(b, p.Patchset, flagTests); back.Index == first.Index {
		t.Error("only the latest decision may be reused")
	}
	b.View(func(v *authority.View) error {
		ps, err := v.Patchset(p.Patchset)
		if err != nil {
			return err
		}
		list, err := v.Decisions(&ps)
		if len(list) != 3 || list[0].ID.String() != "T-0001/C-01/P-01/K-01" || len(list[0].Checks) != 8 {
			t.Errorf("decisions %+v", list)
		}
		return err
	})
}

func TestDecisionsEndAt64(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	b.Update(func(tx *authority.Tx) error {
		for i := range 64 {
			if _, _, err := tx.Decide(p.Patchset, authority.PolicyInput{Flags: record.PolicyFlags(i%2) * flagTests}); err != nil {
				return err
			}
		}
		return nil
	})
	err := wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error {
		_, _, err := tx.Decide(p.Patchset, authority.PolicyInput{})
		return err
	})
	if !strings.Contains(err.Error(), "published anew") || !strings.Contains(err.Error(), "T-0001/C-01/P-01") {
		t.Errorf("%q does not say what to do", err)
	}
	// The latest one is still found and still answers for the same evaluation.
	if _, d := decide(b, p.Patchset, flagTests); d.Ordinal != 63 {
		t.Errorf("latest ordinal %d", d.Ordinal)
	}
}

func TestWaiverExpires(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.Waive(authority.WaiverSpec{
			Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "For an hour.", ExpiresAt: tx.Now() + 3600,
		})
		return err
	})
	for _, c := range []struct {
		after time.Duration
		want  record.DecisionKind
	}{{0, record.DecisionKindWaived}, {3599 * time.Second, record.DecisionKindWaived}, {time.Second, record.DecisionKindPending}} {
		b.Clock.Advance(c.after)
		if e, _ := decide(b, p.Patchset, flagLint); e.Decision != c.want {
			t.Errorf("at %s: %s, want %s", b.Clock.Now(), e.Decision, c.want)
		}
	}
	for name, s := range map[string]authority.WaiverSpec{
		"tests":     {Patchset: p.Patchset, Rule: record.RuleCodeTests, Reason: "They are slow."},
		"suites":    {Patchset: p.Patchset, Rule: record.RuleCodeCIPatchsetSuite, Reason: "They are slow."},
		"rollout":   {Patchset: p.Patchset, Rule: record.RuleCodeCIRolloutPhase, Reason: "Why not."},
		"unknown":   {Patchset: p.Patchset, Rule: 77, Reason: "What is it?"},
		"no reason": {Patchset: p.Patchset, Rule: record.RuleCodeLint},
		"bad text":  {Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "\xff"},
		"expired":   {Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "Too late.", ExpiresAt: record.Seconds(b.Clock.Now().Unix())},
	} {
		if err := b.Repo.Update(context.Background(), func(tx *authority.Tx) error { _, err := tx.Waive(s); return err }); !errors.Is(err, bindb.ErrInvalid) {
			t.Errorf("waiver of %s: %v", name, err)
		}
	}
}

// TestProvenance links revisions to models, as other writers of the format do.
func TestProvenance(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	b.Update(func(tx *authority.Tx) (err error) {
		if p.Revision, err = tx.AddSnapshot(authoritytest.Snapshot(7, p.Main)); err != nil {
			return err
		}
		if p.Patchset, err = tx.Publish(authority.PatchsetSpec{
			Change: p.Change, Base: p.Base, Revision: p.Revision, Summary: "By a machine",
			AuthorMode: record.AuthorModeAIWithHumanReview,
		}); err != nil {
			return err
		}
		return tx.SelectPatchset(p.Patchset)
	})
	link := func(snapshot uint32, model string, edit func(*record.SnapshotLink)) {
		t.Helper()
		err := b.Repo.Root().Update(context.Background(), func(tx *bindb.Tx) error {
			row, err := bindb.TaskSnapshots.Get(tx, p.Task)
			if err != nil {
				return err
			}
			text := record.SnapshotLinkPayload{ModelName: model}
			raw, err := text.Encode()
			if err != nil {
				return err
			}
			off, err := bindb.SnapshotLinkPayload.Append(tx, raw)
			if err != nil {
				return err
			}
			l := record.SnapshotLink{
				Ordinal: row.Next, PayloadLen: uint16(len(raw)), PayloadOffset: off, Task: p.Task,
				Snapshot: snapshot, PreviousInTask: row.Latest, CreatedAt: 1,
			}
			text.SetMeta(&l.Meta)
			l.Meta.SetHasSession(true)
			l.Meta.SetHasCheckpoint(true)
			edit(&l)
			index, err := bindb.SnapshotLinks.Append(tx, l)
			if err != nil {
				return err
			}
			row.Latest, row.Count, row.Next = record.RefTo(index), row.Count+1, row.Next+1
			return bindb.TaskSnapshots.Put(tx, p.Task, row)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	as := func(*record.SnapshotLink) {}
	for _, step := range []struct {
		name string
		link func()
		want record.DecisionKind
	}{
		{"no link", func() {}, record.DecisionKindPending},
		{"of the base", func() { link(p.Base, "m", as) }, record.DecisionKindPending},
		{"without a model", func() { link(p.Revision, "", as) }, record.DecisionKindPending},
		{"without a session", func() { link(p.Revision, "m", func(l *record.SnapshotLink) { l.Meta.SetHasSession(false) }) }, record.DecisionKindPending},
		{"without a checkpoint", func() { link(p.Revision, "m", func(l *record.SnapshotLink) { l.Meta.SetHasCheckpoint(false) }) }, record.DecisionKindPending},
		{"removed", func() { link(p.Revision, "m", func(l *record.SnapshotLink) { l.Meta.SetTombstoned(true) }) }, record.DecisionKindPending},
		{"whole", func() { link(p.Revision, "m", as) }, record.DecisionKindPass},
	} {
		step.link()
		if e, _ := decide(b, p.Patchset, flagProvenance); e.Decision != step.want {
			t.Errorf("%s: %s, want %s", step.name, e.Decision, step.want)
		}
	}
}

func TestReviewRules(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	var ann uint32
	b.Update(func(tx *authority.Tx) (err error) { ann, err = tx.EnsureActor("ann", ""); return err })
	b.Update(func(tx *authority.Tx) error {
		again, err := tx.EnsureActor("ann", "")
		other, err2 := tx.EnsureActor("ann", "ann@example.org")
		if again != ann || other == ann {
			t.Errorf("ann is %d, then %d; with another address %d", ann, again, other)
		}
		return errors.Join(err, err2)
	})
	for name, s := range map[string]authority.ReviewSpec{
		"a request to a person":  {Action: record.ReviewActionRequest, Actor: ann},
		"a blocking approval":    {Action: record.ReviewActionApprove, Blocking: true, Actor: ann},
		"a blocking dismissal":   {Action: record.ReviewActionDismiss, Blocking: true, Actor: ann},
		"text that is not UTF-8": {Action: record.ReviewActionComment, Actor: ann, Text: "\xc3"},
		"an endless text":        {Action: record.ReviewActionComment, Actor: ann, Text: strings.Repeat("x", 1<<16)},
	} {
		s.Patchset = p.Patchset
		if err := b.Repo.Update(context.Background(), func(tx *authority.Tx) error { _, err := tx.AddReview(s); return err }); !errors.Is(err, bindb.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error {
		_, err := tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionApprove, Actor: 99})
		return err
	})
	// Ordinals end at 64 and the text is kept.
	b.Update(func(tx *authority.Tx) error {
		for range 64 {
			if _, err := tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionTaskComment, Actor: ann, Text: "Hm. ☃"}); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error {
		_, err := tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionApprove, Actor: ann})
		return err
	})
	b.View(func(v *authority.View) error {
		ps, err := v.Patchset(p.Patchset)
		if err != nil {
			return err
		}
		list, err := v.Reviews(&ps)
		if len(list) != 64 || list[63].Text != "Hm. ☃" || list[63].ID.String() != "T-0001/C-01/P-01/R-64" || list[0].Actor.String() != "ann" {
			t.Errorf("%d reviews, the last is %+v", len(list), list[len(list)-1])
		}
		return err
	})
}
