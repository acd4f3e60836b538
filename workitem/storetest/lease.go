package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/writ-authority/writ/workitem"
)

var leaseTests = []test{
	{name: "a claim has every member", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		a, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: h.WorkItemID, Worker: "w1"})
		f.ok(err)
		equal(f, "the claim", *a.Claim, workitem.Claim{
			WorkItemID: h.WorkItemID, JobID: h.JobID, Kind: build, Tenant: tenant, PayloadRef: h.JobID, DependsOn: []string{},
			LeaseOwner: "w1", LeaseEpoch: 1, FenceToken: 1, FencingToken: 1, Attempt: 1, MaxAttempts: 3,
			LeaseExpiresAt: (f.now() + seconds(3600)).Seconds(),
		})
		l := f.get(h.JobID).Lease
		equal(f, "the lease in the view", *l, workitem.Lease{Owner: "w1", Epoch: 1, FencingToken: 1, Attempt: 1,
			HeartbeatAt: ptr(f.now().Seconds()), ExpiresAt: ptr(a.Claim.LeaseExpiresAt)})
	}},

	{name: "claim-next answers with the job", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		a := f.next(build, "w1")
		equal(f, "the claimed job", a.Claim.JobID, h.JobID)
		equal(f, "the view in the answer", *a.Job, *f.get(h.JobID))
		equal(f, "its state", a.Job.State, "leased")
		equal(f, "the reason when nothing is left", f.next(build, "w1").Reason, workitem.ReasonEmpty)
	}},

	{name: "claim-next hands out no other kind and honours its filters", run: func(f *fixture) {
		f.submit(newRequest("validation", "operation", "validation"))
		f.submit(newRequest("light"))
		heavy := f.submit(newRequest("heavy", "resource_class", "heavy", "fairness_group", "team")).JobID
		equal(f, "a claim of a kind without jobs", f.next("repository.merge", "w1").Reason, workitem.ReasonEmpty)
		equal(f, "a claim of a class without jobs", f.next(build, "w1", func(in *workitem.ClaimNextInput) { in.ResourceClass = "none" }).Reason, workitem.ReasonEmpty)
		equal(f, "a claim of a group without jobs", f.next(build, "w1", func(in *workitem.ClaimNextInput) { in.FairnessGroup = "none" }).Reason, workitem.ReasonEmpty)
		equal(f, "a claim with both filters", f.drain(build, func(in *workitem.ClaimNextInput) { in.ResourceClass, in.FairnessGroup = "heavy", "team" }), []string{heavy})
		equal(f, "the jobs left", len(f.drain(build)), 1)
		equal(f, "the jobs of the other kind", len(f.drain("repository.validation")), 1)
		for _, kind := range []string{"", "build", "Repository.Build", "repository.build ", "mail.send"} {
			_, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: kind, Worker: "w1"})
			f.refused(err, workitem.InvalidRequest)
		}
	}},

	{name: "claim-next honours its filters in takeovers", run: func(f *fixture) {
		h := f.limited(20, 0, newRequest("k", "resource_class", "heavy", "fairness_group", "team"))
		f.claim(h.JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		filter := func(class, group string) func(*workitem.ClaimNextInput) {
			return func(in *workitem.ClaimNextInput) { in.ResourceClass, in.FairnessGroup = class, group }
		}
		for _, other := range []func(*workitem.ClaimNextInput){filter("light", ""), filter("", "others"), filter("heavy", "others"), filter("light", "team")} {
			equal(f, "a takeover by a filter that does not fit", f.next(build, "w2", other).Reason, workitem.ReasonEmpty)
		}
		equal(f, "a takeover by another kind", f.next("repository.merge", "w2").Reason, workitem.ReasonEmpty)
		for _, fits := range []func(*workitem.ClaimNextInput){filter("heavy", "team"), filter("heavy", ""), filter("", "team")} {
			a := f.next(build, "w2", fits)
			equal(f, "the job taken over", a.Claim.JobID, h.JobID)
			f.ok(f.deferring(a.Claim, 0))
			f.claim(h.JobID, "w1", time.Minute)
			f.Clock.Advance(time.Hour)
		}
	}},

	{name: "inputs of the worker's verbs are checked", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		c := f.claim(h.JobID, "w1", time.Minute)
		for _, ttl := range []float64{0, -1, 86400.5, 1e30} {
			_, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: h.JobID, Worker: "w1", LeaseTTL: &ttl})
			f.refused(err, workitem.InvalidRequest)
			_, err = f.jobs.Heartbeat(f.ctx, &workitem.HeartbeatInput{JobID: h.JobID, Claim: c.Fence(), LeaseTTL: &ttl})
			f.refused(err, workitem.InvalidRequest)
		}
		for _, worker := range []string{"", " w1", "w1\n", fmt.Sprintf("%0257d", 1)} {
			_, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: h.JobID, Worker: worker})
			f.refused(err, workitem.InvalidRequest)
			_, err = f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: worker})
			f.refused(err, workitem.InvalidRequest)
		}
		for _, name := range []string{"", "checkpoint:", "checkpoint:A", "after-feedback", "checkpoint:a b", "checkpoint:/x", "checkpoint:1\n", fmt.Sprintf("checkpoint:%0241d", 1)} {
			f.refused(f.checkpoint(c, name), workitem.InvalidRequest)
		}
		for _, edit := range []func(*workitem.CommitInput){
			func(in *workitem.CommitInput) { in.Outcome = "done" },
			func(in *workitem.CommitInput) { in.Outcome, in.ErrorRef = "succeeded", ptr("e") },
			func(in *workitem.CommitInput) { in.Outcome, in.FailureClass = "succeeded", ptr("internal_error") },
			func(in *workitem.CommitInput) { in.Outcome, in.RefusalCode = "succeeded", ptr("invalid_request") },
			func(in *workitem.CommitInput) { in.FailureClass, in.RefusalCode = ptr("a"), ptr("b") },
			func(in *workitem.CommitInput) { in.FailureClass = ptr("a:b") },
			func(in *workitem.CommitInput) { in.RefusalCode = ptr("a:b") },
			func(in *workitem.CommitInput) { in.ErrorRef = ptr("a\x01") },
			func(in *workitem.CommitInput) { in.ResultRef = ptr(fmt.Sprintf("%02049d", 1)) },
		} {
			_, err := f.committing(c, "failed", edit)
			f.refused(err, workitem.InvalidRequest)
		}
		for _, in := range []workitem.DeferInput{
			{}, {Delay: ptr(-1.0)}, {Delay: ptr(1.0), NextRetryAt: ptr("2031-01-01T00:00:00Z")},
			{NextRetryAt: ptr("yesterday")}, {NextRetryAt: ptr((f.now() - seconds(1)).RFC3339())},
		} {
			in.JobID, in.Claim = h.JobID, c.Fence()
			_, err := f.jobs.Defer(f.ctx, &in)
			f.refused(err, workitem.InvalidRequest)
		}
		equal(f, "the row's epoch", f.row(h.JobID).LeaseEpoch, 1)
		f.commit(c, "succeeded", workitem.Committed)
	}},

	{name: "a claim of another job is a mismatch", run: func(f *fixture) {
		a := f.claim(f.submit(newRequest("a")).JobID, "w1", time.Minute)
		b := f.claim(f.submit(newRequest("b")).JobID, "w1", time.Minute)
		for _, edit := range []func(*workitem.Fence){
			func(c *workitem.Fence) { *c = b.Fence() },
			func(c *workitem.Fence) { c.WorkItemID = b.WorkItemID },
			func(c *workitem.Fence) { c.JobID = b.JobID },
			func(c *workitem.Fence) { c.Tenant = "tenant-b" },
		} {
			claim := a.Fence()
			edit(&claim)
			_, err := f.jobs.Heartbeat(f.ctx, &workitem.HeartbeatInput{JobID: a.JobID, Claim: claim})
			f.refused(err, workitem.ClaimMismatch)
			_, err = f.jobs.Checkpoint(f.ctx, &workitem.CheckpointInput{JobID: a.JobID, Claim: claim, Checkpoint: "checkpoint:1"})
			f.refused(err, workitem.ClaimMismatch)
			_, err = f.jobs.Commit(f.ctx, &workitem.CommitInput{JobID: a.JobID, Claim: claim, Outcome: "succeeded"})
			f.refused(err, workitem.ClaimMismatch)
			_, err = f.jobs.Defer(f.ctx, &workitem.DeferInput{JobID: a.JobID, Claim: claim, Delay: ptr(1.0)})
			f.refused(err, workitem.ClaimMismatch)
		}
		least := workitem.Fence{WorkItemID: a.JobID, LeaseOwner: "w1", LeaseEpoch: 1, FencingToken: 1}
		_, err := f.jobs.Heartbeat(f.ctx, &workitem.HeartbeatInput{JobID: a.WorkItemID, Claim: least})
		f.ok(err)
		f.commit(a, "succeeded", workitem.Committed)
		f.commit(b, "succeeded", workitem.Committed)
	}},

	{name: "a fence that differs in one part is refused", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		before := f.item(c.JobID)
		for _, edit := range []func(*workitem.Claim){
			func(c *workitem.Claim) { c.LeaseOwner = "w2" },
			func(c *workitem.Claim) { c.LeaseEpoch++ },
			func(c *workitem.Claim) { c.LeaseEpoch-- },
			func(c *workitem.Claim) { c.FencingToken++ },
			func(c *workitem.Claim) { c.FencingToken = 0 },
		} {
			wrong := *c
			edit(&wrong)
			f.fenced(&wrong)
		}
		equal(f, "the row", f.item(c.JobID), before)
		f.commit(c, "succeeded", workitem.Committed)
	}},

	{name: "a claim of another subject is fenced", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		thief := *f
		other := agent
		other.Subject = "thief"
		thief.jobs = f.Jobs(other)
		thief.fenced(c)
		_, err := thief.jobs.CurrentClaim(f.ctx, &workitem.CurrentClaimInput{JobID: c.JobID, Worker: "w1"})
		f.refused(err, workitem.NotFound)
		_, err = f.jobs.CurrentClaim(f.ctx, &workitem.CurrentClaimInput{JobID: c.JobID, Worker: "w2"})
		f.refused(err, workitem.NotFound)
		own, err := f.jobs.CurrentClaim(f.ctx, &workitem.CurrentClaimInput{JobID: c.JobID, Worker: "w1"})
		f.ok(err)
		equal(f, "the current claim", *own, *c)
		f.Clock.Advance(time.Minute + time.Microsecond)
		_, err = f.jobs.CurrentClaim(f.ctx, &workitem.CurrentClaimInput{JobID: c.JobID, Worker: "w1"})
		f.refused(err, workitem.NotFound)
	}},

	{name: "a renewal sets the expiry anew, also to an earlier one", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Hour)
		f.Clock.Advance(time.Second)
		r, err := f.jobs.Heartbeat(f.ctx, &workitem.HeartbeatInput{JobID: c.JobID, Claim: c.Fence(), LeaseTTL: ptr(10.0004)})
		f.ok(err)
		equal(f, "the renewal", *r, workitem.Renewal{Renewed: true, LeaseExpiresAt: (f.now() + seconds(10)).Seconds()})
		f.Clock.Advance(11 * time.Second)
		f.fencedRenewals(c)
		p, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: c.JobID, Worker: "w2"})
		f.ok(err)
		ck, err := f.jobs.Checkpoint(f.ctx, &workitem.CheckpointInput{JobID: c.JobID, Claim: p.Claim.Fence(), Checkpoint: "checkpoint:one"})
		f.ok(err)
		equal(f, "the checkpoint", *ck, workitem.Checkpointed{Applied: true, LeaseExpiresAt: (f.now() + seconds(3600)).Seconds()})
	}},

	{name: "at the instant of its expiry the holder may still commit", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		f.until(seconds(c.LeaseExpiresAt))
		f.ok(f.heartbeat(c, time.Minute))
		f.Clock.Advance(time.Minute)
		f.commit(c, "succeeded", workitem.Committed)
		f.Clock.Advance(time.Second)
		f.state(c.JobID, "succeeded")
	}},

	{name: "at the instant of its expiry another may claim", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		c := f.claim(h.JobID, "w1", time.Minute)
		f.until(seconds(c.LeaseExpiresAt) - 1)
		f.unclaimed(h.JobID, workitem.ReasonLeased)
		equal(f, "a claim-next before", f.next(build, "w2").Reason, workitem.ReasonEmpty)
		f.Clock.Advance(time.Microsecond)
		second := f.next(build, "w2")
		equal(f, "claimed at the expiry", second.Claimed, true)
		equal(f, "the epoch", second.Claim.LeaseEpoch, 3)
		equal(f, "the attempt", second.Claim.Attempt, 2)
		f.fenced(c)
		f.commit(second.Claim, "succeeded", workitem.Committed)
	}},

	{name: "a late result counts while its fence is the newest", run: func(f *fixture) {
		for i, outcome := range []string{"succeeded", "failed", "cancelled"} {
			c := f.claim(f.submit(newRequest(fmt.Sprint(i))).JobID, "w1", time.Minute)
			f.Clock.Advance(time.Hour)
			f.fencedRenewals(c)
			f.refused(f.deferring(c, time.Second), workitem.StaleFence)
			f.commit(c, outcome, workitem.Committed, finally)
			f.state(c.JobID, outcome)
		}
		late := f.claim(f.submit(newRequest("superseded")).JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		newer := f.claim(late.JobID, "w2", time.Minute)
		_, err := f.committing(late, "succeeded")
		e := f.refused(err, workitem.StaleFence)
		equal(f, "the outcome", e.Outcome, "fenced")
		equal(f, "retryable", e.Retryable(), false)
		f.commit(newer, "succeeded", workitem.Committed)
	}},

	{name: "a late failure is tried again", run: func(f *fixture) {
		c := f.claim(f.limited(2, 10, newRequest("k")).JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		f.commit(c, "failed", workitem.RetryScheduled)
		equal(f, "the retry", *f.row(c.JobID).NextRetryAt, (f.now() + seconds(10)).Seconds())
	}},

	{name: "commits answer once and stay", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		f.commit(c, "succeeded", workitem.Committed, func(in *workitem.CommitInput) { in.ResultRef = ptr("artifact:1") })
		before := f.item(c.JobID)
		f.Clock.Advance(time.Second)
		for _, outcome := range []string{"succeeded", "failed", "cancelled"} {
			f.commit(c, outcome, workitem.Noop)
		}
		wrong := *c
		wrong.LeaseEpoch = 99
		f.commit(&wrong, "failed", workitem.Noop)
		f.refused(f.heartbeat(c, time.Minute), workitem.StaleFence)
		f.refused(f.deferring(c, time.Minute), workitem.StaleFence)
		f.unclaimed(c.JobID, workitem.ReasonTerminal)
		equal(f, "the row", f.item(c.JobID), before)
		r, err := f.jobs.Result(f.ctx, &workitem.JobInput{JobID: c.JobID})
		f.ok(err)
		equal(f, "the state of the result", r.State, "succeeded")
		equal(f, "its reference", *r.ResultRef, "artifact:1")
	}},

	{name: "a result exists from the end on", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		result := func() error { _, err := f.jobs.Result(f.ctx, &workitem.JobInput{JobID: h.JobID}); return err }
		f.refused(result(), workitem.InvalidState)
		c := f.claim(h.JobID, "w1", time.Minute)
		f.refused(result(), workitem.InvalidState)
		f.commit(c, "failed", workitem.Committed, func(in *workitem.CommitInput) {
			in.ErrorRef, in.RefusalCode, in.Retryable = ptr("log:a:b"), ptr("invalid_git_ref"), ptr(false)
		})
		r, err := f.jobs.Result(f.ctx, &workitem.JobInput{JobID: h.JobID})
		f.ok(err)
		equal(f, "the refusal code", *r.RefusalCode, "invalid_git_ref")
		equal(f, "the error", *r.ErrorRef, "log:a:b")
		equal(f, "the failure class", r.FailureClass, nil)
		equal(f, "the error in the view", *f.get(h.JobID).ErrorRef, "repository-error:v1::invalid_git_ref:log:a:b")
	}},

	{name: "the backoff doubles", run: func(f *fixture) {
		for i, c := range []struct {
			base   float64
			delays []float64
		}{{30, []float64{30, 60, 120, 240}}, {5, []float64{5, 10}}, {0, []float64{1, 2, 4}}, {0.5, []float64{1, 2}}} {
			h := f.limited(len(c.delays)+1, c.base, newRequest(fmt.Sprint(i)))
			for attempt, delay := range c.delays {
				f.commit(f.claim(h.JobID, "w1", time.Minute), "failed", workitem.RetryScheduled)
				row := f.row(h.JobID)
				equal(f, "the attempt", row.Attempt, attempt+1)
				equal(f, "the retry time", *row.NextRetryAt, (f.now() + seconds(delay)).Seconds())
				f.until(seconds(*row.NextRetryAt) - 1)
				f.unclaimed(h.JobID, workitem.ReasonBackoff)
				equal(f, "a claim-next before", f.next(build, "w1").Reason, workitem.ReasonEmpty)
				f.Clock.Advance(time.Microsecond)
			}
			f.commit(f.claim(h.JobID, "w1", time.Minute), "failed", workitem.DeadLettered)
			f.state(h.JobID, "dead-letter")
		}
	}},

	{name: "with a floor of zero a retry is immediate", config: func(cfg *workitem.Config) { cfg.RetryFloor = ptr(time.Duration(0)) }, run: func(f *fixture) {
		h := f.limited(2, 0, newRequest("k"))
		f.commit(f.claim(h.JobID, "w1", time.Minute), "failed", workitem.RetryScheduled)
		a := f.next(build, "w1")
		equal(f, "claimed", a.Claimed, true)
		f.commit(a.Claim, "failed", workitem.DeadLettered)
	}},

	{name: "a checkpoint survives retries and takeovers", run: func(f *fixture) {
		c := f.claim(f.limited(4, 0, newRequest("k")).JobID, "w1", time.Minute)
		f.ok(f.checkpoint(c, "checkpoint:one"))
		equal(f, "the state", f.row(c.JobID).Status, "running")
		f.commit(c, "failed", workitem.RetryScheduled)
		f.Clock.Advance(time.Second)
		c = f.claim(c.JobID, "w1", time.Minute)
		equal(f, "the checkpoint", *f.get(c.JobID).Checkpoint, "checkpoint:one")
		f.Clock.Advance(time.Hour)
		c = f.claim(c.JobID, "w2", time.Minute)
		equal(f, "the checkpoint", *f.get(c.JobID).Checkpoint, "checkpoint:one")
		f.ok(f.checkpoint(c, "checkpoint:two"))
		f.commit(c, "succeeded", workitem.Committed)
		r, err := f.jobs.Result(f.ctx, &workitem.JobInput{JobID: c.JobID})
		f.ok(err)
		equal(f, "the checkpoint of the result", *r.Checkpoint, "checkpoint:two")
	}},

	{name: "a deferred job comes back without having used an attempt", run: func(f *fixture) {
		h := f.limited(1, 0, newRequest("k"))
		for i := range 3 {
			c := f.claim(h.JobID, "w1", time.Minute)
			equal(f, "the attempt", c.Attempt, 1)
			equal(f, "the epoch", c.LeaseEpoch, int64(2*i+1))
			s, err := f.jobs.Defer(f.ctx, &workitem.DeferInput{JobID: h.JobID, Claim: c.Fence(), Delay: ptr(20.0), Reason: "the barrier is up"})
			f.ok(err)
			equal(f, "the answer", s.Status, workitem.Deferred)
			row := f.row(h.JobID)
			equal(f, "the row's status", row.Status, "ready")
			equal(f, "the row's attempt", row.Attempt, 0)
			equal(f, "the row's epoch", row.LeaseEpoch, int64(2*i+2))
			equal(f, "the row's token", row.FencingToken, int64(2*i+2))
			equal(f, "the row's retry time", *row.NextRetryAt, (f.now() + seconds(20)).Seconds())
			equal(f, "the number of defers", f.explain(h.JobID).DeferCount, i+1)
			f.unclaimed(h.JobID, workitem.ReasonBackoff)
			f.fenced(c)
			f.Clock.Advance(20 * time.Second)
		}
		c := f.claim(h.JobID, "w1", time.Minute)
		at := f.now() + seconds(5)
		_, err := f.jobs.Defer(f.ctx, &workitem.DeferInput{JobID: h.JobID, Claim: c.Fence(), NextRetryAt: ptr(at.RFC3339())})
		f.ok(err)
		equal(f, "the retry time", *f.row(h.JobID).NextRetryAt, at.Seconds())
	}},

	{name: "jobs come back one after the other", run: func(f *fixture) {
		for _, delay := range []int{40, 10, 30, 20} {
			h := f.submit(newRequest(fmt.Sprint(delay)))
			f.ok(f.deferring(f.claim(h.JobID, "w1", time.Minute), time.Duration(delay)*time.Second))
		}
		for _, delay := range []int{10, 20, 30, 40} {
			f.Clock.Advance(10*time.Second - time.Microsecond)
			equal(f, "a claim-next before the time", f.next(build, "w1").Reason, workitem.ReasonEmpty)
			f.Clock.Advance(time.Microsecond)
			a := f.next(build, "w1")
			equal(f, "the claimed job", a.Claim.JobID, workitem.NewID(tenant, fmt.Sprint(delay)).JobID())
			f.commit(a.Claim, "succeeded", workitem.Committed)
		}
	}},

	{name: "exhausted jobs of every kind are retired by claim-next", run: func(f *fixture) {
		var ids []string
		for i, operation := range []string{"build", "merge", "validation"} {
			h := f.limited(1, 0, newRequest(fmt.Sprint(i), "operation", operation))
			f.claim(h.JobID, "w1", time.Minute)
			ids = append(ids, h.JobID)
		}
		f.Clock.Advance(time.Hour)
		f.unclaimed(ids[0], workitem.ReasonExhausted)
		f.state(ids[0], "dead-letter")
		f.state(ids[1], "leased")
		equal(f, "a claim-next", f.next("repository.release", "w1").Reason, workitem.ReasonEmpty)
		for _, id := range ids {
			row := f.row(id)
			equal(f, "the status", row.Status, "dead_letter")
			equal(f, "the error", *row.ErrorRef, "lease_exhausted")
			equal(f, "the epoch", row.LeaseEpoch, 2)
			if f.get(id).CompletedAt == nil {
				f.Fatal("a retired job has no time of its end")
			}
		}
	}},

	{name: "exhausted jobs are retired although the quota is used up", config: func(cfg *workitem.Config) { cfg.Quota = 1 }, run: func(f *fixture) {
		dead := f.limited(1, 0, newRequest("dead"))
		f.claim(dead.JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		f.claim(f.submit(newRequest("live")).JobID, "w1", time.Minute)
		equal(f, "a claim-next", f.next(build, "w1").Reason, workitem.ReasonTenantQuota)
		f.state(dead.JobID, "dead-letter")
	}},

	{name: "a takeover counts the attempts", run: func(f *fixture) {
		h := f.limited(3, 0, newRequest("k"))
		for attempt := 1; attempt <= 3; attempt++ {
			c := f.claim(h.JobID, "w1", time.Minute)
			equal(f, "the attempt", c.Attempt, attempt)
			equal(f, "the epoch", c.LeaseEpoch, int64(2*attempt-1))
			f.Clock.Advance(2 * time.Minute)
		}
		f.unclaimed(h.JobID, workitem.ReasonExhausted)
		f.state(h.JobID, "dead-letter")
		f.unclaimed(h.JobID, workitem.ReasonTerminal)
	}},

	{name: "the quota of leases is exact", run: func(f *fixture) {
		const jobs, claimers, quota = 100, 128, 64
		for i := range jobs {
			operation := []string{"build", "merge"}[i%2]
			f.submit(newRequest(fmt.Sprint(i), "operation", operation))
		}
		other := as("tenant-b", "actor-b", workitem.ScopeRead|workitem.ScopeWrite|workitem.ScopeWork|workitem.ScopeTenant)
		foreign := f.submitAs(f.Jobs(other), &workitem.SubmitInput{Request: newRequest("k", "tenant_id", "tenant-b", "owner_id", "actor-b").json()})
		var claimed, refused atomic.Int32
		together(claimers, func(i int) {
			kind := []string{build, "repository.merge"}[i%2]
			a, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: kind, Worker: fmt.Sprint("w", i), LeaseTTL: ptr(60.0)})
			switch {
			case err != nil:
				f.Error(describe(err))
			case a.Claimed:
				claimed.Add(1)
			case a.Reason == workitem.ReasonTenantQuota || a.Reason == workitem.ReasonEmpty:
				refused.Add(1)
			default:
				f.Errorf("a claim is answered with %s", a.Reason)
			}
		})
		equal(f, "the number of leases", claimed.Load(), quota)
		equal(f, "the number of refusals", refused.Load(), claimers-quota)
		stats, err := f.jobs.Stats(f.ctx, &workitem.NoInput{})
		f.ok(err)
		equal(f, "the live leases", stats.LiveLeases, quota)
		equal(f, "the quota", stats.Quota, quota)
		ready := f.list(workitem.ListInput{State: []string{"ready"}})
		equal(f, "the jobs left", len(ready), jobs-quota)
		f.unclaimed(ready[0], workitem.ReasonTenantQuota)
		equal(f, "the quota in the diagnostics", f.explain(ready[0]).Quota, workitem.Quota{LiveLeases: quota, Limit: quota, Reached: true})
		equal(f, "claimable besides the quota", f.explain(ready[0]).Claimable, true)
		a, err := f.Jobs(other).ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w"})
		f.ok(err)
		equal(f, "the job of the other tenant", a.Claim.JobID, foreign.JobID)
		f.Clock.Advance(time.Minute)
		equal(f, "claimed when the leases have run out", f.next(build, "w1").Claimed, true)
	}},

	{name: "a deadline that has passed keeps a ready job from being claimed", run: func(f *fixture) {
		deadline := f.now() + seconds(60)
		h := f.submit(newRequest("k", "resources", map[string]any{"queue_deadline": deadline.RFC3339()}))
		equal(f, "claimable", f.explain(h.JobID).Claimable, true)
		f.until(deadline)
		f.ok(f.deferring(f.claim(h.JobID, "w1", time.Minute), 0))
		f.ok(f.deferring(f.next(build, "w1").Claim, 0))
		f.Clock.Advance(time.Microsecond)
		f.unclaimed(h.JobID, workitem.ReasonDeadlinePassed)
		equal(f, "a claim-next", f.next(build, "w1").Reason, workitem.ReasonEmpty)
		f.state(h.JobID, "ready")
		d := f.explain(h.JobID)
		equal(f, "deadline_passed", d.DeadlinePassed, true)
		equal(f, "claimable", d.Claimable, false)
		equal(f, "why not", d.WhyNot[0].Reason, workitem.ReasonDeadlinePassed)
		_, err := f.cancel(h.JobID, "")
		f.ok(err)
		f.state(h.JobID, "cancelled")
	}},

	{name: "a deadline that passes during a lease keeps the job from a takeover", run: func(f *fixture) {
		h := f.submit(newRequest("k", "resources", map[string]any{"queue_deadline": (f.now() + seconds(60)).RFC3339()}))
		c := f.claim(h.JobID, "w1", 2*time.Minute)
		f.Clock.Advance(90 * time.Second)
		f.ok(f.heartbeat(c, time.Minute))
		f.Clock.Advance(time.Hour)
		f.unclaimed(h.JobID, workitem.ReasonDeadlinePassed)
		equal(f, "a claim-next", f.next(build, "w1").Reason, workitem.ReasonEmpty)
		f.commit(c, "succeeded", workitem.Committed)
	}},

	{name: "of many claimers of one job one gets it", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		var claimed atomic.Int32
		together(32, func(i int) {
			var a *workitem.ClaimAnswer
			var err error
			if i%2 == 0 {
				a, err = f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: h.JobID, Worker: fmt.Sprint("w", i)})
			} else {
				a, err = f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: fmt.Sprint("w", i)})
			}
			if err != nil {
				f.Error(describe(err))
			} else if a.Claimed {
				claimed.Add(1)
			}
		})
		equal(f, "the number of winners", claimed.Load(), 1)
		equal(f, "the attempt", f.get(h.JobID).Attempt, 1)
	}},

	{name: "unknown jobs are not found by any verb of a worker", run: func(f *fixture) {
		id := workitem.NewID(tenant, "nothing")
		c := &workitem.Claim{WorkItemID: id.WorkItemID(), JobID: id.JobID(), Tenant: tenant, LeaseOwner: "w1", LeaseEpoch: 1, FencingToken: 1}
		_, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: c.JobID, Worker: "w1"})
		f.refused(err, workitem.NotFound)
		e := f.refused(f.heartbeat(c, time.Minute), workitem.NotFound)
		equal(f, "the outcome", e.Outcome, "missing")
		equal(f, "renewed", *e.Renewed, false)
		e = f.refused(f.checkpoint(c, "checkpoint:1"), workitem.NotFound)
		equal(f, "the outcome", e.Outcome, "missing")
		equal(f, "applied", *e.Applied, false)
		_, err = f.committing(c, "succeeded")
		equal(f, "the outcome", f.refused(err, workitem.NotFound).Outcome, "missing")
		equal(f, "the outcome", f.refused(f.deferring(c, 0), workitem.NotFound).Outcome, "missing")
	}},
}

// fenced wants every verb of the worker to be fenced out.
func (f *fixture) fenced(c *workitem.Claim) {
	f.Helper()
	f.fencedRenewals(c)
	_, err := f.committing(c, "succeeded")
	equal(f, "the outcome of the commit", f.refused(err, workitem.StaleFence).Outcome, "fenced")
	equal(f, "the outcome of the defer", f.refused(f.deferring(c, time.Second), workitem.StaleFence).Outcome, "fenced")
}

func (f *fixture) fencedRenewals(c *workitem.Claim) {
	f.Helper()
	e := f.refused(f.heartbeat(c, time.Minute), workitem.StaleFence)
	if e.Outcome != "fenced" || e.Renewed == nil || *e.Renewed {
		f.Fatalf("the heartbeat is refused with outcome %q, renewed %v", e.Outcome, e.Renewed)
	}
	e = f.refused(f.checkpoint(c, "checkpoint:late"), workitem.StaleFence)
	if e.Outcome != "fenced" || e.Applied == nil || *e.Applied {
		f.Fatalf("the checkpoint is refused with outcome %q, applied %v", e.Outcome, e.Applied)
	}
}
