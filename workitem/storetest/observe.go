package storetest

import (
	"sync"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// tally is an Observer that adds up.
type tally struct {
	mu      sync.Mutex
	counts  [workitem.Counters]int
	batches int
}

// Count implements workitem.Observer.
func (o *tally) Count(c workitem.Counter, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[c] += n
}

// Batch implements workitem.Observer.
func (o *tally) Batch(int, time.Duration, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batches++
}

// take gives what was counted since the last time, without zeros.
func (o *tally) take() map[workitem.Counter]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[workitem.Counter]int{}
	for c, n := range o.counts {
		if n != 0 {
			counts[workitem.Counter(c)] = n
		}
	}
	o.counts = [workitem.Counters]int{}
	return counts
}

// observed runs a test with an observer.
func observed(name string, quota int, run func(f *fixture, o *tally)) test {
	return test{name: name, prepare: func(cfg *workitem.Config) func(*fixture) {
		o := &tally{}
		cfg.Observer, cfg.Quota = o, quota
		return func(f *fixture) { run(f, o) }
	}}
}

type counted = map[workitem.Counter]int

var observeTests = []test{
	observed("submissions are counted", 0, func(f *fixture, o *tally) {
		f.submit(newRequest("k"))
		equal(f, "a new one", o.take(), counted{workitem.SubmittedNew: 1})
		f.submit(newRequest("k"))
		equal(f, "a duplicate", o.take(), counted{workitem.SubmittedDuplicate: 1})
		_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k", "priority", 1).json()})
		f.refused(err, workitem.DuplicateRequest)
		equal(f, "a conflict", o.take(), counted{workitem.SubmittedConflict: 1})
	}),

	observed("claims are counted by their answer", 2, func(f *fixture, o *tally) {
		a := f.submit(gated("a", "priority", 3))
		b := f.submit(gated("b"))
		o.take()
		equal(f, "the answer", f.next(build, "w1").Reason, workitem.ReasonEmpty)
		equal(f, "nothing to claim", o.take(), counted{workitem.ClaimEmpty: 1})
		f.next(release, "w1", named("call"))
		equal(f, "a grant", o.take(), counted{workitem.ClaimGranted: 1})
		f.next(release, "w1", named("call"))
		equal(f, "a repeated claim", o.take(), counted{workitem.ClaimReplayed: 1})
		f.consent(b.JobID, "revoke", nil)
		f.unclaimed(b.JobID, workitem.ReasonConsentDenied)
		equal(f, "a claim without consent", o.take(), counted{workitem.ClaimConsent: 1})
		f.consent(b.JobID, "restore", nil)
		f.claim(b.JobID, "w1", time.Minute)
		equal(f, "a second grant", o.take(), counted{workitem.ClaimGranted: 1})
		equal(f, "the answer", f.next(release, "w1").Reason, workitem.ReasonTenantQuota)
		equal(f, "the quota", o.take(), counted{workitem.ClaimQuota: 1})
		f.Clock.Advance(time.Hour)
		f.claim(a.JobID, "w2", time.Minute)
		equal(f, "a takeover", o.take(), counted{workitem.ClaimGranted: 1, workitem.LeaseExpired: 1})
	}),

	observed("what workers do is counted", 0, func(f *fixture, o *tally) {
		c := f.claim(f.limited(2, 0, newRequest("k")).JobID, "w1", time.Minute)
		o.take()
		f.ok(f.heartbeat(c, time.Minute))
		f.ok(f.checkpoint(c, "checkpoint:1"))
		equal(f, "renewals", o.take(), counted{workitem.LeaseRenewed: 2})
		f.commit(c, "failed", workitem.RetryScheduled)
		equal(f, "a failure with a retry", o.take(), counted{workitem.CommitRetry: 1})
		f.fenced(c)
		equal(f, "refusals", o.take(), counted{workitem.FencedRefusal: 4})
		f.Clock.Advance(time.Second)
		c = f.claim(c.JobID, "w1", time.Minute)
		o.take()
		f.ok(f.deferring(c, 0))
		equal(f, "a defer", o.take(), counted{workitem.JobDeferred: 1})
		c = f.claim(c.JobID, "w1", time.Minute)
		o.take()
		f.commit(c, "failed", workitem.DeadLettered)
		equal(f, "the last failure", o.take(), counted{workitem.CommitDeadLetter: 1})
		f.commit(c, "succeeded", workitem.Noop)
		equal(f, "a late commit", o.take(), counted{workitem.CommitNoop: 1})
		for outcome, counter := range map[string]workitem.Counter{
			"succeeded": workitem.CommitSucceeded, "failed": workitem.CommitFailed, "cancelled": workitem.CommitCancelled,
		} {
			c := f.claim(f.submit(newRequest(outcome)).JobID, "w1", time.Minute)
			o.take()
			f.commit(c, outcome, workitem.Committed, finally)
			equal(f, outcome, o.take(), counted{counter: 1})
		}
		h := f.limited(1, 0, newRequest("exhausted"))
		f.claim(h.JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		o.take()
		f.next("repository.merge", "w1")
		equal(f, "an exhausted job", o.take(), counted{workitem.LeaseExpired: 1, workitem.CommitDeadLetter: 1, workitem.ClaimEmpty: 1})
		h = f.submit(newRequest("cancelled by a person"))
		o.take()
		for range 2 {
			_, err := f.cancel(h.JobID, "")
			f.ok(err)
		}
		equal(f, "a cancellation", o.take(), counted{workitem.JobCancelled: 1})
	}),

	observed("repairs, faults and damage are counted", 0, func(f *fixture, o *tally) {
		p := f.submit(newRequest("p"))
		h := f.child("c", p)
		f.plant(h.JobID, func(it *workitem.Item) { it.DepCount = 9 })
		o.take()
		f.reconcile(1, 0)
		equal(f, "a repair", o.take(), counted{workitem.Repaired: 1})
		f.plant(h.JobID, func(it *workitem.Item) { it.DependsOn = []workitem.ID{workitem.NewID(tenant, "nothing")} })
		f.reconcile(0, 1)
		equal(f, "a fault", o.take(), counted{workitem.Faulty: 1})
		f.spoil(p.JobID, "bad")
		f.list(workitem.ListInput{})
		equal(f, "a row that can't be read", o.take(), counted{workitem.CorruptRow: 1})
	}),
}
