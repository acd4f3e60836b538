package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// named gives a call a claim request id.
func named(id string) func(*workitem.ClaimNextInput) {
	return func(in *workitem.ClaimNextInput) { in.ClaimRequestID = id }
}

var replayTests = []test{
	{name: "a repeated claim-next gets the same lease with its present expiry", config: func(cfg *workitem.Config) { cfg.Quota = 1 }, run: func(f *fixture) {
		first := f.submit(newRequest("a")).JobID
		f.submit(newRequest("b"))
		one := f.next(build, "w1", named("call-1"))
		equal(f, "the claimed job", one.Claim.JobID, first)
		again := f.next(build, "w1", named("call-1"))
		equal(f, "the claim again, with the quota used up", *again.Claim, *one.Claim)
		equal(f, "the job again", *again.Job, *f.get(first))
		f.Clock.Advance(time.Second)
		f.ok(f.heartbeat(one.Claim, 90*time.Second))
		again = f.next(build, "w1", named("call-1"))
		equal(f, "the expiry", again.Claim.LeaseExpiresAt, (f.now() + seconds(90)).Seconds())
		equal(f, "the attempt", f.get(first).Attempt, 1)
		f.commit(again.Claim, "succeeded", workitem.Committed)
	}},

	{name: "a repeated claim of one job gets the same lease", run: func(f *fixture) {
		h := f.submit(newRequest("a"))
		in := &workitem.ClaimInput{JobID: h.JobID, Worker: "w1", LeaseTTL: ptr(60.0), ClaimRequestID: "call-1"}
		one, err := f.jobs.Claim(f.ctx, in)
		f.ok(err)
		again, err := f.jobs.Claim(f.ctx, in)
		f.ok(err)
		equal(f, "the claim again", *again, *one)
		in.JobID = h.WorkItemID
		again, err = f.jobs.Claim(f.ctx, in)
		f.ok(err)
		equal(f, "the claim by the other identifier", *again, *one)
	}},

	{name: "other arguments are a mismatch", run: func(f *fixture) {
		h := f.submit(newRequest("a"))
		other := f.submit(newRequest("b"))
		f.submit(newRequest("c", "operation", "merge"))
		equal(f, "claimed", f.next(build, "w1", named("call-1")).Claimed, true)
		for i, edit := range []func(*workitem.ClaimNextInput){
			func(in *workitem.ClaimNextInput) { in.Worker = "w2" },
			func(in *workitem.ClaimNextInput) { in.Kind = "repository.merge" },
			func(in *workitem.ClaimNextInput) { in.ResourceClass = "light-check" },
			func(in *workitem.ClaimNextInput) { in.FairnessGroup = "default" },
		} {
			in := &workitem.ClaimNextInput{Kind: build, Worker: "w1", LeaseTTL: ptr(60.0), ClaimRequestID: "call-1"}
			edit(in)
			_, err := f.jobs.ClaimNext(f.ctx, in)
			f.Logf("edit %d", i)
			f.refused(err, workitem.ClaimMismatch)
		}
		_, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: other.JobID, Worker: "w1", ClaimRequestID: "call-1"})
		f.refused(err, workitem.ClaimMismatch)
		equal(f, "the state of the other job", f.get(other.JobID).State, "ready")
		equal(f, "the state of the job", f.get(h.JobID).State, "leased")
	}},

	{name: "an id whose lease has ended is not used again", run: func(f *fixture) {
		for i, end := range []func(*workitem.Claim){
			func(c *workitem.Claim) { f.commit(c, "succeeded", workitem.Committed) },
			func(c *workitem.Claim) { f.ok(f.deferring(c, time.Hour)) },
			func(c *workitem.Claim) { f.Clock.Advance(61 * time.Second) },
			func(c *workitem.Claim) { _, err := f.cancel(c.JobID, ""); f.ok(err) },
		} {
			f.submit(newRequest(fmt.Sprint(i), "priority", i+4))
			id := fmt.Sprint("call-", i)
			end(f.next(build, "w1", named(id)).Claim)
			_, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", LeaseTTL: ptr(60.0), ClaimRequestID: id})
			f.refused(err, workitem.InvalidState)
		}
	}},

	{name: "an id is not answered with a later lease", run: func(f *fixture) {
		h := f.submit(newRequest("a"))
		c := f.next(build, "w1", named("call-1")).Claim
		f.ok(f.deferring(c, 0))
		later := f.claim(h.JobID, "w1", time.Minute)
		_, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", ClaimRequestID: "call-1"})
		f.refused(err, workitem.InvalidState)
		f.commit(later, "succeeded", workitem.Committed)
	}},

	{name: "an id is there until it is forgotten", run: func(f *fixture) {
		f.submit(newRequest("a"))
		c := f.next(build, "w1", named("call-1")).Claim
		f.commit(c, "succeeded", workitem.Committed)
		b := f.submit(newRequest("b")).JobID
		at := f.now()
		f.Clock.Advance(24 * time.Hour)
		f.update(func(tx workitem.Tx) error { return tx.Forget(at) })
		_, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", ClaimRequestID: "call-1"})
		f.refused(err, workitem.InvalidState)
		f.update(func(tx workitem.Tx) error { return tx.Forget(at + 1) })
		equal(f, "the claimed job", f.next(build, "w1", named("call-1")).Claim.JobID, b)
	}},

	{name: "nothing to claim is not remembered", run: func(f *fixture) {
		equal(f, "a claim-next", f.next(build, "w1", named("call-1")).Reason, workitem.ReasonEmpty)
		h := f.submit(newRequest("a"))
		equal(f, "the claimed job", f.next(build, "w1", named("call-1")).Claim.JobID, h.JobID)
	}},

	{name: "an id belongs to a tenant and a subject", run: func(f *fixture) {
		f.submit(newRequest("a"))
		b := f.submit(newRequest("b")).JobID
		f.next(build, "w1", named("call-1"))
		other := agent
		other.Subject = "somebody else"
		a, err := f.Jobs(other).ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", ClaimRequestID: "call-1"})
		f.ok(err)
		equal(f, "the claimed job", a.Claim.JobID, b)
		foreign := agent
		foreign.Tenant = "tenant-b"
		jobs := f.Jobs(foreign)
		h := f.submitAs(jobs, &workitem.SubmitInput{Request: newRequest("a", "tenant_id", "tenant-b").json()})
		a, err = jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", ClaimRequestID: "call-1"})
		f.ok(err)
		equal(f, "the claimed job", a.Claim.JobID, h.JobID)
	}},

	{name: "ids have a length", run: func(f *fixture) {
		f.submit(newRequest("a"))
		for _, id := range []string{strings.Repeat("x", 129), " x", "x\n"} {
			_, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", ClaimRequestID: id})
			f.refused(err, workitem.InvalidRequest)
		}
		equal(f, "claimed", f.next(build, "w1", named(strings.Repeat("x", 128))).Claimed, true)
	}},

	{name: "of claims that race with one id all get the same lease", run: func(f *fixture) {
		for i := range 20 {
			f.submit(newRequest(fmt.Sprint(i)))
		}
		answers := make([]*workitem.ClaimAnswer, 16)
		errs := make([]error, len(answers))
		together(len(answers), func(i int) {
			answers[i], errs[i] = f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1", LeaseTTL: ptr(60.0), ClaimRequestID: "call-1"})
		})
		for i, a := range answers {
			f.ok(errs[i])
			equal(f, "a claim", *a.Claim, *answers[0].Claim)
		}
		equal(f, "the leased jobs", len(f.list(workitem.ListInput{State: []string{"leased"}})), 1)
	}},
}
