package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// raise raises the authority epoch as the admin and wants it to become want.
func (f *fixture) raise(want int64) {
	f.Helper()
	a, err := f.root.RaiseEpoch(f.ctx, &workitem.NoInput{})
	f.ok(err)
	equal(f, "the answer", *a, workitem.EpochRaised{Previous: want - 1, Epoch: want})
	f.epoch(want)
}

func (f *fixture) epoch(want int64) {
	f.Helper()
	f.view(func(r workitem.Reader) error {
		epoch, err := r.Epoch()
		equal(f, "the authority epoch", epoch, want)
		return err
	})
}

// dead wants everything that a worker does with a claim to be refused as fenced.
func (f *fixture) dead(c *workitem.Claim) {
	f.Helper()
	_, commit := f.committing(c, "succeeded")
	for _, err := range []error{f.heartbeat(c, time.Minute), f.checkpoint(c, "checkpoint:1"), f.deferring(c, time.Minute), commit} {
		equal(f, "the outcome", f.refused(err, workitem.StaleFence).Outcome, "fenced")
	}
	_, err := f.jobs.CurrentClaim(f.ctx, &workitem.CurrentClaimInput{JobID: c.JobID, Worker: c.LeaseOwner})
	if err == nil {
		f.Fatal("the claim is still current")
	}
}

var epochTests = []test{
	{name: "a raised epoch changes the fences of every job that has not ended", run: func(f *fixture) {
		other := agent
		other.Tenant = "tenant-b"
		foreign := f.submitAs(f.Jobs(other), &workitem.SubmitInput{Request: newRequest("foreign", "tenant_id", other.Tenant).json()})
		if _, err := f.Jobs(other).Claim(f.ctx, &workitem.ClaimInput{JobID: foreign.JobID, Worker: "w1"}); err != nil {
			f.Fatal(describe(err))
		}
		parent := f.submit(newRequest("parent"))
		ids := []string{parent.JobID, f.child("child", parent).JobID, foreign.JobID}
		add := func(id string) string { ids = append(ids, id); return id }
		over := f.claim(add(f.submit(newRequest("over")).JobID), "w1", time.Second)
		last := f.claim(add(f.limited(1, 0, newRequest("exhausted")).JobID), "w1", time.Second)
		f.Clock.Advance(time.Minute)
		leased := f.claim(add(f.submit(newRequest("leased")).JobID), "w1", time.Hour)
		running := f.claim(add(f.submit(newRequest("running")).JobID), "w1", time.Hour)
		f.ok(f.checkpoint(running, "checkpoint:1"))
		waiting := f.claim(add(f.submit(newRequest("waiting")).JobID), "w1", time.Hour)
		f.commit(waiting, "failed", workitem.RetryScheduled)
		f.succeed(add(f.submit(newRequest("succeeded")).JobID))
		f.fail(add(f.submit(newRequest("failed")).JobID))
		_, err := f.cancel(add(f.submit(newRequest("cancelled")).JobID), "")
		f.ok(err)

		now := f.now()
		var want []workitem.Item
		for _, id := range ids {
			it := f.item(id)
			if !it.Status.Terminal() {
				it.LeaseEpoch += workitem.EpochStep
				it.FencingToken += workitem.EpochStep
				it.LeaseExpiresAt = min(it.LeaseExpiresAt, now)
			}
			want = append(want, it)
		}
		counts := f.inside().counts
		rows := func() (got []workitem.Item) {
			for _, id := range ids {
				got = append(got, f.item(id))
			}
			return got
		}
		inUpdate := func() (got []workitem.Item) {
			f.update(func(tx workitem.Tx) error {
				got = got[:0]
				for _, id := range ids {
					it, err := tx.Item(mustID(id))
					if err != nil {
						return err
					}
					it.CorrelationID = ""
					got = append(got, *it)
				}
				return nil
			})
			return got
		}
		var raised, again int64
		f.update(func(tx workitem.Tx) error {
			var err error
			if raised, err = tx.RaiseEpoch(); err != nil {
				return err
			}
			again, err = tx.Epoch()
			return err
		})
		equal(f, "the new epoch, and the epoch in the update", []int64{raised, again}, []int64{1, 1})
		for range 2 {
			f.epoch(1)
			equal(f, "the rows", rows(), want)
			equal(f, "the rows in an update", inUpdate(), want)
			in := f.inside()
			equal(f, "the counts", in.counts, counts)
			equal(f, "the live leases", in.leases, 0)
			stats, err := f.Jobs(other).Stats(f.ctx, &workitem.NoInput{})
			f.ok(err)
			equal(f, "the live leases of the other tenant", stats.LiveLeases, 0)
			for _, c := range []*workitem.Claim{over, last, leased, running, waiting} {
				f.dead(c)
			}
			f.restart()
		}

		// What was held may be claimed at once, with larger fences.
		for _, c := range []*workitem.Claim{over, leased, running} {
			again := f.claim(c.JobID, "w2", time.Minute)
			if again.LeaseEpoch <= c.LeaseEpoch+workitem.EpochStep || again.FencingToken <= c.FencingToken+workitem.EpochStep {
				f.Fatalf("the fence %d follows %d", again.LeaseEpoch, c.LeaseEpoch)
			}
			f.dead(c)
			f.commit(again, "succeeded", workitem.Committed)
		}
		f.unclaimed(last.JobID, workitem.ReasonExhausted)
		f.unclaimed(waiting.JobID, workitem.ReasonBackoff)
		f.succeed(parent.JobID)
		f.succeed(ids[1])
		equal(f, "the checkpoint", f.item(running.JobID).Checkpoint, "checkpoint:1")
	}},

	{name: "an update that fails leaves the epoch", run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("k")).JobID, "w1", time.Minute)
		row, before := f.item(c.JobID), f.inside()
		for range 2 {
			err := f.Store().Update(f.ctx, func(tx workitem.Tx) error {
				_, err := tx.RaiseEpoch()
				return errors.Join(err, errGiveUp)
			})
			if !errors.Is(err, errGiveUp) {
				f.Fatalf("the update ends with %v", err)
			}
			f.epoch(0)
			equal(f, "the row", f.item(c.JobID), row)
			equal(f, "the counts", f.inside(), before)
			leases := 0
			f.update(func(tx workitem.Tx) (err error) {
				leases, err = tx.Leases(tenant)
				return err
			})
			equal(f, "the live leases", leases, 1)
		}
		f.ok(f.heartbeat(c, time.Minute))
		f.commit(c, "succeeded", workitem.Committed)
	}},

	{name: "new jobs and retries start in the epoch", run: func(f *fixture) {
		f.fail(f.submit(newRequest("failed")).JobID)
		f.raise(1)
		f.raise(2)
		h, err := f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: workitem.NewID(tenant, "failed").JobID()})
		f.ok(err)
		for _, id := range []string{f.submit(newRequest("k")).JobID, h.JobID} {
			it := f.item(id)
			equal(f, "the fences", []int64{it.LeaseEpoch, it.FencingToken}, []int64{2 * workitem.EpochStep, 2 * workitem.EpochStep})
			c := f.claim(id, "w1", time.Minute)
			equal(f, "the fences", []int64{c.LeaseEpoch, c.FencingToken}, []int64{2*workitem.EpochStep + 1, 2*workitem.EpochStep + 1})
			f.ok(f.heartbeat(c, time.Minute))
			f.commit(c, "succeeded", workitem.Committed)
		}
		f.restart()
		f.epoch(2)
		equal(f, "the fence", f.claim(f.submit(newRequest("later")).JobID, "w1", time.Minute).LeaseEpoch, 2*workitem.EpochStep+1)
	}},

	{name: "cursors from before are refused", run: func(f *fixture) {
		for i := range 3 {
			f.submit(newRequest(fmt.Sprint(i)))
		}
		page := func(cursor string) (*workitem.Page, error) {
			return f.jobs.List(f.ctx, &workitem.ListInput{Limit: ptr(1), Cursor: cursor})
		}
		var cursors []string
		for epoch := range int64(3) {
			first, err := page("")
			f.ok(err)
			second, err := page(*first.NextCursor)
			f.ok(err)
			equal(f, "the second row", len(second.Items), 1)
			for _, old := range cursors {
				_, err := page(old)
				equal(f, "the field", f.refused(err, workitem.InvalidRequest).Field, "cursor")
			}
			cursors = append(cursors, *first.NextCursor, *second.NextCursor)
			f.raise(epoch + 1)
		}
		equal(f, "the listing", len(f.list(workitem.ListInput{Limit: ptr(1)})), 3)
	}},

	{name: "claim request ids from before were answered with a lease that has ended", run: func(f *fixture) {
		one := &workitem.ClaimInput{JobID: f.submit(newRequest("one", "operation", "merge")).JobID, Worker: "w1", ClaimRequestID: "one"}
		next := &workitem.ClaimNextInput{Kind: build, Worker: "w1", ClaimRequestID: "next"}
		f.submit(newRequest("next"))
		claim := func() (errs [2]error) {
			_, errs[0] = f.jobs.Claim(f.ctx, one)
			_, errs[1] = f.jobs.ClaimNext(f.ctx, next)
			return errs
		}
		for range 2 { // the second time they are replayed
			for _, err := range claim() {
				f.ok(err)
			}
		}
		f.raise(1)
		for range 2 {
			for _, err := range claim() {
				equal(f, "the field", f.refused(err, workitem.InvalidState).Field, "claim_request_id")
			}
			f.restart()
		}
		one.ClaimRequestID, next.ClaimRequestID = "one again", "next again"
		for _, err := range claim() {
			f.ok(err)
		}
	}},

	{name: "after a restore no fence is given out again", run: func(f *fixture) {
		kept := f.limited(100, 0, newRequest("kept")).JobID
		held := f.claim(f.limited(100, 0, newRequest("held")).JobID, "w1", time.Hour)
		restore := f.Save()
		f.enter()

		old := []*workitem.Claim{held}
		f.ok(f.heartbeat(held, time.Hour)) // a restart ends no lease
		f.Clock.Advance(time.Minute)
		for range 3 { // what happens after the backup and is lost
			lost := f.limited(100, 0, newRequest("lost")).JobID
			for _, id := range []string{kept, lost} {
				c := f.claim(id, "w1", time.Second)
				old = append(old, c)
				f.Clock.Advance(2 * time.Second)
			}
		}
		f.commit(held, "failed", workitem.RetryScheduled)
		f.Clock.Advance(time.Hour)
		old = append(old, f.claim(held.JobID, "w1", time.Hour))

		restore()
		f.enter()
		f.raise(1)
		newest := map[string]int64{}
		for _, c := range old {
			newest[c.JobID] = max(newest[c.JobID], c.LeaseEpoch)
			if c.JobID == kept || c.JobID == held.JobID {
				f.dead(c)
			} else {
				f.refused(f.heartbeat(c, time.Minute), workitem.NotFound)
			}
		}
		f.limited(100, 0, newRequest("lost"))
		for _, c := range old {
			f.dead(c)
		}
		for id, before := range newest {
			for range 3 {
				c := f.claim(id, "w2", time.Second)
				if c.LeaseEpoch <= before+1<<31 || c.FencingToken <= before+1<<31 {
					f.Fatalf("%s has the fence %d after %d", id, c.LeaseEpoch, before)
				}
				for _, c := range old {
					f.dead(c)
				}
				f.Clock.Advance(2 * time.Second)
			}
		}
	}},

	{name: "the epoch is raised while jobs are worked on", config: func(cfg *workitem.Config) { cfg.Quota = 4096 }, run: func(f *fixture) {
		const jobs, raises = 16, 4
		var ids []string
		for i := range jobs {
			ids = append(ids, f.limited(100, 0, newRequest(fmt.Sprint(i))).JobID)
		}
		var mu sync.Mutex
		given := map[string][]int64{}
		together(jobs+1, func(i int) {
			if i == jobs {
				for range raises {
					if _, err := f.root.RaiseEpoch(f.ctx, &workitem.NoInput{}); err != nil {
						f.Error(describe(err))
					}
				}
				return
			}
			for range 12 {
				a, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: ids[i], Worker: "w1", LeaseTTL: ptr(60.0)})
				if err != nil || !a.Claimed {
					f.Errorf("the claim is answered with %+v, %v", a, err)
					return
				}
				mu.Lock()
				given[ids[i]] = append(given[ids[i]], a.Claim.LeaseEpoch)
				mu.Unlock()
				if err := f.deferring(a.Claim, 0); err != nil && !errors.Is(err, workitem.ErrStaleFence) {
					f.Error(describe(err))
				}
			}
		})
		f.epoch(raises)
		for _, id := range ids {
			if fences := given[id]; !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != len(fences) {
				f.Errorf("the fences are %v", fences)
			}
			if it := f.item(id); it.LeaseEpoch/workitem.EpochStep != raises {
				f.Errorf("the row has the fence %d", it.LeaseEpoch)
			}
		}
	}},

	{name: "an admin raises the epoch of no other tenant", run: func(f *fixture) {
		f.submit(newRequest("k"))
		f.raise(1)
		other := agent
		other.Tenant = "tenant-b"
		f.submitAs(f.Jobs(other), &workitem.SubmitInput{Request: newRequest("k", "tenant_id", other.Tenant).json()})
		_, err := f.root.RaiseEpoch(f.ctx, &workitem.NoInput{})
		f.refused(err, workitem.UnauthorizedTarget)
		f.epoch(1)
		runner := as(tenant, "root", workitem.ScopeAdmin)
		runner.Local = true
		a, err := f.Jobs(runner).RaiseEpoch(f.ctx, &workitem.NoInput{})
		f.ok(err)
		equal(f, "the answer", *a, workitem.EpochRaised{Previous: 1, Epoch: 2})
	}},
}
