package authoritytest

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Verb is one verb of authority.Tx as a table can drive it, on a Repository with
// any other content.
type Verb struct {
	Name string
	// Stage records what the verb is about, in a batch of its own, and returns one
	// representative call, which then succeeds and changes something.
	Stage func(tx *authority.Tx) (Call, error)
	// Wait is how far the clock moves after the staging.
	Wait time.Duration
	// Lands says that the verb is about the one Land that can be running. Staging
	// it fails a Land that is.
	Lands bool
}

// Call is one call of a verb.
type Call func(tx *authority.Tx) error

// Do stages the verb, lets the clock move and does it, in two batches.
func (v Verb) Do(ctx context.Context, r *authority.Repository, clock *Clock) error {
	call, err := v.Prepare(ctx, r, clock)
	if err != nil {
		return err
	}
	if err := r.Update(ctx, call); err != nil {
		return fmt.Errorf("%s: %w", v.Name, err)
	}
	return nil
}

// Prepare stages the verb and lets the clock move.
func (v Verb) Prepare(ctx context.Context, r *authority.Repository, clock *Clock) (Call, error) {
	var call Call
	err := r.Update(ctx, func(tx *authority.Tx) (err error) {
		call, err = v.Stage(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", v.Name, err)
	}
	clock.Advance(v.Wait)
	return call, nil
}

// Verbs has every verb of a Repository.
var Verbs = []Verb{
	{Name: "OpenTask", Stage: func(*authority.Tx) (Call, error) {
		return func(tx *authority.Tx) error { _, err := tx.OpenTask("Another", "Something else."); return err }, nil
	}},
	{Name: "CompleteTask", Stage: staged(func(tx *authority.Tx, p Published) error { return tx.CompleteTask(p.Task) })},
	{Name: "CancelTask", Stage: staged(func(tx *authority.Tx, p Published) error { return tx.CancelTask(p.Task) })},
	{Name: "OpenChange", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, err := tx.OpenChange(p.Task, "Another", p.Main, record.RefTo(p.Base))
		return err
	})},
	{Name: "ArchiveChange", Stage: staged(func(tx *authority.Tx, p Published) error {
		return tx.ArchiveChange(p.Change, authority.ArchiveSuperseded)
	})},
	{Name: "ReopenChange", Stage: after(
		func(tx *authority.Tx, p Published) (uint32, error) {
			return p.Change, tx.ArchiveChange(p.Change, authority.ArchiveCanceled)
		},
		func(tx *authority.Tx, change uint32) error { return tx.ReopenChange(change) },
	)},
	{Name: "EnsureLine", Stage: staged(func(tx *authority.Tx, _ Published) error {
		_, err := tx.EnsureLine(freshName(tx, bindb.Lines.Count))
		return err
	})},
	{Name: "AddLine", Stage: staged(func(tx *authority.Tx, _ Published) error {
		_, err := tx.AddLine(freshName(tx, bindb.Lines.Count))
		return err
	})},
	{Name: "SetLineHead", Stage: after(freshLine, func(tx *authority.Tx, line uint32) error { return tx.SetLineHead(line, 0) })},
	{Name: "ArchiveLine", Stage: after(freshLine, func(tx *authority.Tx, line uint32) error { return tx.ArchiveLine(line) })},
	{Name: "UnarchiveLine", Stage: after(
		func(tx *authority.Tx, p Published) (uint32, error) {
			line, err := freshLine(tx, p)
			if err != nil {
				return 0, err
			}
			return line, tx.ArchiveLine(line)
		},
		func(tx *authority.Tx, line uint32) error { return tx.UnarchiveLine(line) },
	)},
	{Name: "RemoveLine", Stage: after(freshLine, func(tx *authority.Tx, line uint32) error { return tx.RemoveLine(line) })},
	{Name: "AddSnapshot", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, err := snapshot(tx, p.Main, p.Base, p.Revision)
		return err
	})},
	{Name: "Publish", Stage: staged(func(tx *authority.Tx, p Published) error { _, err := another(tx, p); return err })},
	{Name: "SelectPatchset", Stage: after(another, func(tx *authority.Tx, patchset uint32) error { return tx.SelectPatchset(patchset) })},
	{Name: "WithdrawPatchset", Stage: after(another, func(tx *authority.Tx, patchset uint32) error { return tx.WithdrawPatchset(patchset) })},
	{Name: "InvalidatePatchset", Stage: after(another, func(tx *authority.Tx, patchset uint32) error { return tx.InvalidatePatchset(patchset) })},
	{Name: "EnsureActor", Stage: staged(func(tx *authority.Tx, _ Published) error {
		_, err := tx.EnsureActor(freshName(tx, bindb.Actors.Count), "someone@example.org")
		return err
	})},
	{Name: "EnsureTeam", Stage: staged(func(tx *authority.Tx, _ Published) error {
		_, err := tx.EnsureTeam(freshName(tx, bindb.Actors.Count))
		return err
	})},
	{Name: "AddReview", Stage: staged(func(tx *authority.Tx, p Published) error {
		ann, err := tx.EnsureActor("ann", "")
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{
			Patchset: p.Patchset, Actor: ann, Action: record.ReviewActionTaskRequestChanges, Blocking: true, Text: "Not blue.",
		})
		return err
	})},
	{Name: "RequestReview", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, err := tx.RequestReview(p.Patchset, "painters", "Please look.")
		return err
	})},
	{Name: "Attest", Stage: staged(func(tx *authority.Tx, p Published) error {
		mode := record.AuthorModeHumanOnly
		_, err := tx.Attest(authority.AttestSpec{
			Patchset: p.Patchset, Verification: record.VerificationStatePass, RequireTests: true, RequireHumanReview: true, AuthorMode: &mode,
		})
		return err
	})},
	{Name: "RevokeAttestation", Stage: after(
		func(tx *authority.Tx, p Published) (uint32, error) {
			return tx.Attest(authority.AttestSpec{Patchset: p.Patchset, Verification: record.VerificationStatePass})
		},
		func(tx *authority.Tx, attestation uint32) error { return tx.RevokeAttestation(attestation) },
	)},
	{Name: "Waive", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, err := tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "No linter yet."})
		return err
	})},
	{Name: "RevokeWaiver", Stage: after(
		func(tx *authority.Tx, p Published) (uint32, error) {
			return tx.Waive(authority.WaiverSpec{Patchset: p.Patchset, Rule: record.RuleCodeLint, Reason: "No linter yet."})
		},
		func(tx *authority.Tx, waiver uint32) error { return tx.RevokeWaiver(waiver) },
	)},
	{Name: "Decide", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, _, err := tx.Decide(p.Patchset, authority.PolicyInput{Suites: []authority.SuiteRow{{Blocking: true, Result: record.CIStatusPass}}})
		return err
	})},
	{Name: "EnqueueCI", Stage: staged(func(tx *authority.Tx, p Published) error { _, _, err := tx.EnqueueCI(p.Patchset); return err })},
	{Name: "Enqueue", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, _, err := tx.Enqueue(authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(p.Revision)})
		return err
	})},
	{Name: "Claim", Stage: after(queued, func(tx *authority.Tx, job uint32) error {
		_, err := tx.Claim(job, authority.RequestID{1})
		return err
	})},
	{Name: "Heartbeat", Wait: time.Second, Stage: after(claimed, func(tx *authority.Tx, l authority.Lease) error {
		_, err := tx.Heartbeat(l)
		return err
	})},
	{Name: "CompleteCI", Stage: after(claimed, func(tx *authority.Tx, l authority.Lease) error {
		_, err := tx.CompleteCI(l, Passed)
		return err
	})},
	{Name: "Complete", Stage: after(claimed, func(tx *authority.Tx, l authority.Lease) error {
		_, err := tx.Complete(l, authority.JobResult{Outcome: record.JobOutcomeSkipped})
		return err
	})},
	{Name: "FailJob", Stage: after(claimed, func(tx *authority.Tx, l authority.Lease) error { return tx.FailJob(l, true) })},
	{Name: "LoseLease", Wait: time.Hour, Stage: after(claimed, func(tx *authority.Tx, l authority.Lease) error {
		_, err := tx.LoseLease(l.Job)
		return err
	})},
	{Name: "BeginLand", Lands: true, Stage: after(landable, func(tx *authority.Tx, p Published) error {
		_, err := begin(tx, p)
		return err
	})},
	{Name: "LandOnLine", Lands: true, Stage: after(landable, func(tx *authority.Tx, p Published) error {
		_, err := tx.LandOnLine(authority.LineLandSpec{
			Change: p.Change, TargetLine: p.Main, ExpectedHead: record.RefTo(p.Base), CompleteTask: true,
		})
		return err
	})},
	{Name: "LinkSnapshot", Stage: staged(func(tx *authority.Tx, p Published) error {
		_, err := tx.LinkSnapshot(authority.LinkSpec{
			Task: p.Task, Change: record.RefTo(p.Change), Snapshot: p.Revision, Session: true, Checkpoint: true,
			Worktree: "paint", Line: "paint", AuthorMode: record.AuthorModeAIWithHumanReview.String(), Model: "a model",
		})
		return err
	})},
	{Name: "CreatePlan", Stage: staged(func(tx *authority.Tx, _ Published) error {
		_, err := tx.CreatePlan("Painting", items("blue"))
		return err
	})},
	{Name: "RevisePlan", Stage: after(planned, func(tx *authority.Tx, x bound) error {
		_, err := tx.RevisePlan(x.plan, items("red", "blue"))
		return err
	})},
	{Name: "RetitlePlan", Stage: after(planned, func(tx *authority.Tx, x bound) error { return tx.RetitlePlan(x.plan, "Another colour") })},
	{Name: "ArchivePlan", Stage: after(planned, func(tx *authority.Tx, x bound) error { return tx.ArchivePlan(x.plan) })},
	{Name: "SupersedePlan", Stage: after(planned, func(tx *authority.Tx, x bound) error { return tx.SupersedePlan(x.plan) })},
	{Name: "BindTask", Stage: after(planned, func(tx *authority.Tx, x bound) error { return tx.BindTask(x.task, x.revision, x.item) })},
	{Name: "UnbindTask", Stage: after(
		func(tx *authority.Tx, p Published) (bound, error) {
			x, err := planned(tx, p)
			if err != nil {
				return x, err
			}
			return x, tx.BindTask(x.task, x.revision, x.item)
		},
		func(tx *authority.Tx, x bound) error { return tx.UnbindTask(x.task) },
	)},
	{Name: "FinishLand", Lands: true, Stage: after(landing, func(tx *authority.Tx, l running) error { return tx.FinishLand(l.land, l.revision) })},
	{Name: "FailLand", Lands: true, Stage: after(landing, func(tx *authority.Tx, l running) error {
		return tx.FailLand(l.land, record.LandFailureConflict)
	})},
}

// staged is a verb about a Patchset that was just published.
func staged(do func(*authority.Tx, Published) error) func(*authority.Tx) (Call, error) {
	return after(func(_ *authority.Tx, p Published) (Published, error) { return p, nil }, do)
}

// after is a verb about what before makes of a Patchset that was just published.
func after[T any](before func(*authority.Tx, Published) (T, error), do func(*authority.Tx, T) error) func(*authority.Tx) (Call, error) {
	return func(tx *authority.Tx) (Call, error) {
		p, err := published(tx)
		if err != nil {
			return nil, err
		}
		x, err := before(tx, p)
		return func(tx *authority.Tx) error { return do(tx, x) }, err
	}
}

// published opens a Task with a Change and publishes its first Patchset, onto the
// Line main, which stands on its base.
func published(tx *authority.Tx) (p Published, err error) {
	if p.Task, err = tx.OpenTask("Paint the widgets", "They are grey."); err != nil {
		return p, err
	}
	if p.Main, err = tx.EnsureLine(authority.MainLine); err != nil {
		return p, err
	}
	if p.Base, err = snapshot(tx, p.Main); err != nil {
		return p, err
	}
	if err := tx.SetLineHead(p.Main, p.Base); err != nil {
		return p, err
	}
	if p.Change, err = tx.OpenChange(p.Task, "Paint", p.Main, record.RefTo(p.Base)); err != nil {
		return p, err
	}
	line, err := tx.EnsureLine("paint")
	if err != nil {
		return p, err
	}
	if p.Revision, err = snapshot(tx, line, p.Base); err != nil {
		return p, err
	}
	p.Patchset, err = tx.Publish(authority.PatchsetSpec{
		Change: p.Change, Base: p.Base, Revision: p.Revision, Summary: "Paint the widgets blue",
	})
	return p, err
}

// snapshot records a Snapshot with content of its own.
func snapshot(tx *authority.Tx, line uint32, parents ...uint32) (uint32, error) {
	n, err := bindb.Snapshots.Count(tx)
	if err != nil {
		return 0, err
	}
	s := Snapshot(uint64(n)+1<<40, line)
	s.Parents = parents
	return tx.AddSnapshot(s)
}

// freshName is a name that no record of a table has yet.
func freshName(tx *authority.Tx, count func(bindb.Reader) (uint32, error)) string {
	n, err := count(tx)
	if err != nil {
		return "" // the verb reports it
	}
	return fmt.Sprintf("number %d", n)
}

func freshLine(tx *authority.Tx, _ Published) (uint32, error) {
	return tx.AddLine(freshName(tx, bindb.Lines.Count))
}

// another publishes a further Patchset, which is not selected.
func another(tx *authority.Tx, p Published) (uint32, error) {
	revision, err := snapshot(tx, p.Main, p.Base)
	if err != nil {
		return 0, err
	}
	return tx.Publish(authority.PatchsetSpec{Change: p.Change, Base: p.Base, Revision: revision, Summary: "Once more"})
}

func queued(tx *authority.Tx, p Published) (uint32, error) {
	job, _, err := tx.EnqueueCI(p.Patchset)
	return job, err
}

func claimed(tx *authority.Tx, p Published) (authority.Lease, error) {
	job, err := queued(tx, p)
	if err != nil {
		return authority.Lease{}, err
	}
	return tx.Claim(job, authority.RequestID{})
}

// landable decides that a Patchset may land, and ends a Land that is running. It
// is to land on a Line of its own.
func landable(tx *authority.Tx, p Published) (Published, error) {
	l, err := tx.RunningLand()
	if err != nil {
		return p, err
	}
	if l != nil {
		if err := tx.FailLand(l.Index, record.LandFailureInternalError); err != nil {
			return p, err
		}
	}
	if _, _, err := tx.Decide(p.Patchset, authority.PolicyInput{}); err != nil {
		return p, err
	}
	if p.Main, err = freshLine(tx, p); err != nil {
		return p, err
	}
	return p, tx.SetLineHead(p.Main, p.Base)
}

// bound is a Task with an item of a Plan that it can be bound to.
type bound struct{ task, plan, revision, item uint32 }

func planned(tx *authority.Tx, p Published) (bound, error) {
	plan, err := tx.CreatePlan("Painting", items("blue"))
	if err != nil {
		return bound{}, err
	}
	at, err := tx.Plan(plan)
	if err != nil {
		return bound{}, err
	}
	r, err := tx.LatestRevision(&at)
	return bound{p.Task, plan, r.Index, r.ItemStart}, err
}

// items is a revision with an item of each reference.
func items(refs ...string) authority.RevisionSpec {
	s := authority.RevisionSpec{Summary: "Colours", ArtifactPath: "PLAN.md", ArtifactHeading: "Painting"}
	for i, ref := range refs {
		s.Items = append(s.Items, authority.ItemSpec{
			Ref: ref, Text: "Paint it " + ref, Headings: []string{"Painting", "Widgets"},
			State: record.PlanItemStateOpen, Taskable: true, Line: uint32(i) + 3,
		})
	}
	return s
}

// running is a Land that is under way.
type running struct{ land, revision uint32 }

func landing(tx *authority.Tx, p Published) (running, error) {
	p, err := landable(tx, p)
	if err != nil {
		return running{}, err
	}
	return begin(tx, p)
}

func begin(tx *authority.Tx, p Published) (running, error) {
	land, err := tx.BeginLand(authority.LandSpec{Patchset: p.Patchset, TargetLine: p.Main, PreTarget: p.Base, Mode: record.LandModeFFOnly})
	return running{land, p.Revision}, err
}
