package authority_test

import (
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func task(b *authoritytest.Bundle, index uint32) (t authority.Task) {
	b.TB.Helper()
	b.View(func(v *authority.View) (err error) { t, err = v.Task(index); return err })
	return t
}

func TestCloseTask(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p, q := b.Publish(), b.Publish()
	b.Clock.Advance(5e9)
	now := record.Seconds(b.Clock.Now().Unix())
	b.Update(func(tx *authority.Tx) error {
		if err := tx.CompleteTask(p.Task); err != nil {
			return err
		}
		return tx.CancelTask(q.Task)
	})
	done, gone := task(b, p.Task), task(b, q.Task)
	if done.Status() != "completed" || done.Open() || done.ClosedAt != now || done.UpdatedAt != now {
		t.Errorf("completed: %+v", done)
	}
	if gone.Status() != "canceled" || gone.Open() || gone.ClosedAt != now {
		t.Errorf("canceled: %+v", gone)
	}
	b.Clock.Advance(5e9)
	b.Update(func(tx *authority.Tx) error { return tx.CompleteTask(p.Task) })
	if again := task(b, p.Task); again.ClosedAt != now {
		t.Errorf("closing twice moved the close time to %v", again.ClosedAt)
	}
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.CancelTask(p.Task) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.CompleteTask(q.Task) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.CancelTask(99) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
		_, err := tx.OpenChange(p.Task, "More", p.Main, 0)
		return err
	})
}

// TestNothingClosesUnderARunningLand: what a Land is about stays until the Land has
// ended.
func TestNothingClosesUnderARunningLand(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	var side, land uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if side, err = tx.AddLine("release"); err != nil {
			return err
		}
		if err := tx.SetLineHead(side, p.Base); err != nil {
			return err
		}
		if _, _, err := tx.Decide(p.Patchset, authority.PolicyInput{}); err != nil {
			return err
		}
		land, err = tx.BeginLand(authority.LandSpec{Patchset: p.Patchset, TargetLine: side, PreTarget: p.Base})
		return err
	})
	for name, verb := range map[string]func(*authority.Tx) error{
		"complete the task":  func(tx *authority.Tx) error { return tx.CompleteTask(p.Task) },
		"cancel the task":    func(tx *authority.Tx) error { return tx.CancelTask(p.Task) },
		"archive the change": func(tx *authority.Tx) error { return tx.ArchiveChange(p.Change, authority.ArchivePlain) },
		"archive the line":   func(tx *authority.Tx) error { return tx.ArchiveLine(side) },
		"remove the line":    func(tx *authority.Tx) error { return tx.RemoveLine(side) },
	} {
		t.Log(name)
		wantErr(t, b.Repo, authority.ErrState, verb)
	}
	b.Update(func(tx *authority.Tx) error { return tx.FinishLand(land, p.Revision) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.ArchiveChange(p.Change, authority.ArchivePlain) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.RemoveLine(side) })
	b.Update(func(tx *authority.Tx) error { return tx.CompleteTask(p.Task) })
	b.Update(func(tx *authority.Tx) error { return tx.ArchiveLine(side) })
}

func TestArchiveAndReopen(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := landable(b)
	if !change(b, p.Change).Meta.ReadyToLand() {
		t.Fatal("the change is not ready to begin with")
	}
	for _, c := range []struct {
		why  authority.Archiving
		want string
	}{
		{authority.ArchivePlain, "archived"}, {authority.ArchiveSuperseded, "superseded"}, {authority.ArchiveCanceled, "canceled"},
	} {
		b.Clock.Advance(1e9)
		b.Update(func(tx *authority.Tx) error { return tx.ArchiveChange(p.Change, c.why) })
		got := change(b, p.Change)
		if got.Status() != c.want || got.Open() || got.ArchivedAt != record.Seconds(b.Clock.Now().Unix()) || got.Meta.ReadyToLand() {
			t.Errorf("archived as %s: %+v", c.want, got)
		}
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.ArchiveChange(p.Change, c.why) })
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return publish(tx, p.Change, p.Base, p.Revision) })
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { _, err := begin(tx, p); return err })
		b.Update(func(tx *authority.Tx) error { return tx.ReopenChange(p.Change) })
		got = change(b, p.Change)
		if got.Status() != "active" || !got.Open() || got.ArchivedAt != 0 || !got.Meta.ValidationPending() || got.Meta.ReadyToLand() {
			t.Errorf("reopened: %+v", got)
		}
		decide(b, p.Patchset, 0)
		if !change(b, p.Change).Meta.ReadyToLand() {
			t.Error("a decision does not make the reopened change ready")
		}
	}
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.ReopenChange(p.Change) })
	wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error { return tx.ArchiveChange(p.Change, 3) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.ArchiveChange(99, 0) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.ReopenChange(99) })

	// Without a patchset it is a draft again; under a closed task it stays archived.
	var draft uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if draft, err = tx.OpenChange(p.Task, "Empty", p.Main, 0); err != nil {
			return err
		}
		if err := tx.ArchiveChange(draft, authority.ArchivePlain); err != nil {
			return err
		}
		if err := tx.ReopenChange(draft); err != nil {
			return err
		}
		c, err := tx.Change(draft)
		if c.Status() != "draft" || c.Meta.ValidationPending() {
			t.Errorf("reopened without a patchset: %+v", c)
		}
		if err != nil {
			return err
		}
		if err := tx.ArchiveChange(draft, authority.ArchivePlain); err != nil {
			return err
		}
		return tx.CancelTask(p.Task)
	})
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.ReopenChange(draft) })
}

func TestWithdrawAndInvalidate(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	first := b.Publish()
	second := b.Next(first) // selected
	third := b.Next(first)
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.WithdrawPatchset(third.Patchset) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.InvalidatePatchset(third.Patchset) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.WithdrawPatchset(99) })
	b.Update(func(tx *authority.Tx) error {
		if err := tx.WithdrawPatchset(first.Patchset); err != nil {
			return err
		}
		return tx.InvalidatePatchset(second.Patchset)
	})
	b.Update(func(tx *authority.Tx) error { return tx.WithdrawPatchset(first.Patchset) }) // nothing to do
	for _, p := range []authoritytest.Published{first, second} {
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.SelectPatchset(p.Patchset) })
		wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
			_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset})
			return err
		})
	}
	b.View(func(v *authority.View) error {
		_, ok, err := v.FindPatchset(first.Base, first.Revision)
		if ok {
			t.Error("a withdrawn patchset is found by its content")
		}
		return err
	})
	wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error {
		_, err := tx.Publish(authority.PatchsetSpec{
			Change: first.Change, Base: first.Base, Revision: first.Revision, Summary: "s", AuthorMode: record.AuthorModeAgent,
		})
		return err
	})
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	in := authority.PolicyInput{Flags: flagAttestation | flagLint}
	decision := func() (kind record.DecisionKind) {
		b.Update(func(tx *authority.Tx) error {
			e, _, err := tx.Decide(p.Patchset, in)
			kind = e.Decision
			return err
		})
		return kind
	}
	var att, older, waiver uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if older, err = tx.Attest(authority.AttestSpec{Patchset: p.Patchset, Verification: record.VerificationStatePass}); err != nil {
			return err
		}
		if att, err = tx.Attest(authority.AttestSpec{Patchset: p.Patchset, Verification: record.VerificationStatePass, RequireHumanReview: true}); err != nil {
			return err
		}
		waiver, err = tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "r"})
		return err
	})
	if k := decision(); k != record.DecisionKindPending {
		t.Errorf("with a review required: %s", k)
	}
	b.Update(func(tx *authority.Tx) error { return tx.RevokeAttestation(att) })
	b.View(func(v *authority.View) error {
		got, err := v.Patchset(p.Patchset)
		if err != nil || !got.Meta.EvaluationPending() {
			t.Errorf("the decision is still current after a revocation: %v", err)
		}
		list, err := v.Attestations(&got)
		if err != nil || len(list) != 2 || !list[1].Meta.Revoked() {
			t.Errorf("attestations %+v, %v", list, err)
		}
		now, err := v.Attestation(&got)
		if now == nil || now.Index != older {
			t.Errorf("current attestation %+v", now)
		}
		return err
	})
	if k := decision(); k != record.DecisionKindWaived {
		t.Errorf("without the requirement: %s", k)
	}
	b.Update(func(tx *authority.Tx) error {
		if err := tx.RevokeAttestation(att); err != nil { // nothing to do
			return err
		}
		return tx.RevokeWaiver(waiver)
	})
	if k := decision(); k != record.DecisionKindPending {
		t.Errorf("without the waiver: %s", k)
	}
	b.Update(func(tx *authority.Tx) error { return tx.RevokeWaiver(waiver) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.RevokeWaiver(99) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.RevokeAttestation(99) })
	b.Update(func(tx *authority.Tx) error { return tx.ArchiveChange(p.Change, authority.ArchivePlain) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.RevokeWaiver(waiver) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.RevokeAttestation(older) })
}

func TestAttestationAuthorMode(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish() // human_only
	other, same := record.AuthorModeAIWithHumanReview, record.AuthorModeHumanOnly
	wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset, AuthorMode: &other})
		return err
	})
	wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset, Verification: 4})
		return err
	})
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.Attest(authority.AttestSpec{Patchset: p.Patchset, AuthorMode: &same})
		return err
	})
}

// TestEveryReviewAction: all eleven can be recorded, by those who may.
func TestEveryReviewAction(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	actions := []record.ReviewAction{
		record.ReviewActionComment, record.ReviewActionTaskComment, record.ReviewActionCodeReviewSummary, record.ReviewActionDefer,
		record.ReviewActionTaskDefer, record.ReviewActionApprove, record.ReviewActionTaskApprove, record.ReviewActionRequestChanges,
		record.ReviewActionTaskRequestChanges, record.ReviewActionDismiss,
	}
	for _, a := range actions {
		review(b, p.Patchset, "ann", a)
	}
	b.Update(func(tx *authority.Tx) error {
		_, err := tx.RequestReview(p.Patchset, "painters", "Please look.")
		return err
	})
	b.Clock.Advance(9e9)
	b.Update(func(tx *authority.Tx) error { _, err := tx.RequestReview(p.Patchset, "painters", ""); return err })
	b.View(func(v *authority.View) error {
		got, err := v.Patchset(p.Patchset)
		if err != nil {
			return err
		}
		list, err := v.Reviews(&got)
		if err != nil || len(list) != 12 {
			t.Fatalf("%d reviews, %v", len(list), err)
		}
		for i, a := range actions {
			if list[i].Action() != a {
				t.Errorf("review %d is %s, want %s", i, list[i].Action(), a)
			}
		}
		first, second := list[10], list[11]
		if first.Action() != record.ReviewActionRequest || first.Actor.Name != "painters" || first.Actor.Meta.Kind() != record.ActorKindTeam || first.Text != "Please look." {
			t.Errorf("request %+v", first)
		}
		if second.Actor.Index != first.Actor.Index || second.Actor.LastSeenAt != record.Seconds(b.Clock.Now().Unix()) {
			t.Errorf("second request goes to %+v", second.Actor)
		}
		return nil
	})
	if !change(b, p.Change).Meta.ReviewPending() {
		t.Error("a request does not make the review pending")
	}
	var ann, team uint32
	b.Update(func(tx *authority.Tx) (err error) {
		if ann, err = tx.EnsureActor("painters", ""); err != nil { // a person of the same name is somebody else
			return err
		}
		team, err = tx.EnsureTeam("painters")
		if team == ann {
			t.Error("a team is the same actor as a person of that name")
		}
		return err
	})
	for name, s := range map[string]authority.ReviewSpec{
		"a request to a person":   {Action: record.ReviewActionRequest, Actor: ann},
		"a team that approves":    {Action: record.ReviewActionApprove, Actor: team},
		"a team that comments":    {Action: record.ReviewActionTaskComment, Actor: team},
		"a blocking request":      {Action: record.ReviewActionRequest, Actor: team, Blocking: true},
		"a blocking approval":     {Action: record.ReviewActionTaskApprove, Actor: ann, Blocking: true},
		"no action of the eleven": {Action: 0x12 | 0x20, Actor: ann},
		"a tombstone":             {Action: 0x80, Actor: ann},
	} {
		t.Log(name)
		s.Patchset = p.Patchset
		wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.AddReview(s); return err })
	}
	wantErr(t, b.Repo, bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.RequestReview(p.Patchset, "", "x"); return err })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { _, err := tx.RequestReview(99, "painters", ""); return err })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error {
		_, err := tx.AddReview(authority.ReviewSpec{Patchset: p.Patchset, Action: record.ReviewActionApprove, Actor: 99})
		return err
	})
}
