package storetest

import (
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

var cancelTests = []test{
	{name: "a waiting job is cancelled in either mode", run: func(f *fixture) {
		for _, mode := range []string{"", "force", "if_idle"} {
			h := f.submit(newRequest("k" + mode))
			a, err := f.cancel(h.JobID, mode)
			f.ok(err)
			equal(f, "the answer", []bool{a.Cancelled, a.Changed}, []bool{true, true})
			equal(f, "the job in the answer", a.Job, *f.get(h.JobID))
			row := f.row(h.JobID)
			equal(f, "the epoch", row.LeaseEpoch, 1)
			equal(f, "the token", row.FencingToken, 1)
			if a.Job.CompletedAt == nil {
				f.Fatal("a cancelled job has no time of its end")
			}
			before := f.item(h.JobID)
			f.Clock.Advance(time.Second)
			a, err = f.cancel(h.JobID, mode)
			f.ok(err)
			equal(f, "the second answer", []bool{a.Cancelled, a.Changed}, []bool{true, false})
			equal(f, "the row", f.item(h.JobID), before)
			f.unclaimed(h.JobID, workitem.ReasonTerminal)
		}
		_, err := f.cancel(f.submit(newRequest("mode")).JobID, "gently")
		f.refused(err, workitem.InvalidRequest)
	}},

	{name: "force takes a job from its holder", run: func(f *fixture) {
		for _, mode := range []string{"", "force"} {
			c := f.claim(f.submit(newRequest("k"+mode)).JobID, "w1", time.Minute)
			f.ok(f.heartbeat(c, time.Minute))
			_, err := f.cancel(c.JobID, mode)
			f.ok(err)
			f.fencedRenewals(c)
			f.refused(f.deferring(c, time.Second), workitem.StaleFence)
			f.commit(c, "succeeded", workitem.Noop)
			f.state(c.JobID, "cancelled")
		}
	}},

	{name: "if_idle spares a live lease, not one that has run out", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		before := f.item(c.JobID)
		_, err := f.cancel(c.JobID, "if_idle")
		f.refused(err, workitem.InFlight)
		equal(f, "the row", f.item(c.JobID), before)
		f.Clock.Advance(time.Minute + time.Microsecond)
		_, err = f.cancel(c.JobID, "if_idle")
		f.ok(err)
		f.commit(c, "succeeded", workitem.Noop)
		f.state(c.JobID, "cancelled")
	}},

	{name: "an outcome is not overwritten", run: func(f *fixture) {
		f.succeed(f.submit(newRequest("succeeded")).JobID)
		f.fail(f.submit(newRequest("failed")).JobID)
		dead := f.limited(1, 0, newRequest("dead"))
		f.commit(f.claim(dead.JobID, "w1", time.Minute), "failed", workitem.DeadLettered)
		for _, key := range []string{"succeeded", "failed", "dead"} {
			for _, mode := range []string{"force", "if_idle"} {
				id := workitem.NewID(tenant, key).JobID()
				before := f.item(id)
				_, err := f.cancel(id, mode)
				f.refused(err, workitem.InvalidState)
				equal(f, "the row", f.item(id), before)
			}
		}
	}},

	{name: "a commit of cancelled ends the job as cancelled", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		f.commit(c, "cancelled", workitem.Committed)
		f.state(c.JobID, "cancelled")
		equal(f, "the epoch", f.row(c.JobID).LeaseEpoch, 1)
		a, err := f.cancel(c.JobID, "")
		f.ok(err)
		equal(f, "changed", a.Changed, false)
	}},

	{name: "a reason is kept without private data", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		_, err := f.jobs.Cancel(f.ctx, &workitem.CancelInput{JobID: h.JobID, Reason: strings.Repeat("x", 513)})
		f.refused(err, workitem.InvalidRequest)
		_, err = f.jobs.Cancel(f.ctx, &workitem.CancelInput{JobID: h.JobID, Reason: "asked by someone@example.com"})
		f.ok(err)
		equal(f, "the reason", *f.explain(h.JobID).CancelReason, "asked by [REDACTED_EMAIL]")
	}},

	{name: "a commit and a cancellation that race agree on one end", run: func(f *fixture) {
		for i := range 20 {
			c := f.claim(f.submit(newRequest(string(rune('a'+i)))).JobID, "w1", time.Minute)
			var status string
			var commitErr, cancelErr error
			together(2, func(i int) {
				if i == 0 {
					status, commitErr = f.committing(c, "succeeded")
				} else {
					_, cancelErr = f.cancel(c.JobID, "")
				}
			})
			f.ok(commitErr)
			if status == workitem.Committed {
				f.refused(cancelErr, workitem.InvalidState)
				f.state(c.JobID, "succeeded")
			} else {
				equal(f, "the answer to the commit", status, workitem.Noop)
				f.ok(cancelErr)
				f.state(c.JobID, "cancelled")
			}
		}
	}},
}
