package storetest

import (
	"fmt"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// retry makes a new job of one that has ended.
func (f *fixture) retry(id string, adopt bool) *workitem.RetryHandle {
	f.Helper()
	h, err := f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: id, Adopt: adopt})
	f.ok(err)
	return h
}

var retryTests = []test{
	{name: "a retry is a new job with the identity of the specification", run: func(f *fixture) {
		old := f.submit(newRequest("k", "priority", 7, "lane_id", "lane-1", "resources", map[string]any{"cpu_weight": 9}))
		f.fail(old.JobID)
		before := f.item(old.JobID)
		h := f.retry(old.JobID, false)
		key := "retry:" + old.JobID + ":2"
		equal(f, "the id", h.JobID, workitem.NewID(tenant, key).JobID())
		equal(f, "the request id", h.RequestID, key+":request")
		equal(f, "the old job", []any{h.RetryOf, h.Adopted, h.Deduplicated, h.State}, []any{old.JobID, 0, false, "ready"})
		v := f.get(h.JobID)
		equal(f, "the correlation", *v.CorrelationID, old.JobID)
		equal(f, "the retry class", *v.RetryClass, "manual")
		equal(f, "what is copied", []any{v.Priority, *v.LaneID, v.CPUWeight, v.OwnerID, v.RepositoryID}, []any{7, "lane-1", 9, agent.Owner, "repo-a"})
		equal(f, "max_attempts", v.MaxAttempts, 2)
		equal(f, "the attempt", v.Attempt, 0)
		equal(f, "the old row", f.item(old.JobID), before)
		again := f.retry(old.JobID, false)
		equal(f, "a repeated retry", []any{again.JobID, again.Deduplicated}, []any{h.JobID, true})
		equal(f, "the number of jobs", len(f.list(workitem.ListInput{})), 2)
	}},

	{name: "only what ended without success is tried again", run: func(f *fixture) {
		refused := func(id string) {
			f.Helper()
			_, err := f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: id})
			f.refused(err, workitem.InvalidState)
		}
		h := f.submit(newRequest("k"))
		refused(h.JobID)
		c := f.claim(h.JobID, "w1", time.Minute)
		refused(h.JobID)
		f.commit(c, "succeeded", workitem.Committed)
		refused(h.JobID)
		cancelled := f.submit(newRequest("cancelled"))
		_, err := f.cancel(cancelled.JobID, "")
		f.ok(err)
		equal(f, "the state", f.retry(cancelled.JobID, false).State, "ready")
		dead := f.limited(1, 0, newRequest("dead"))
		f.commit(f.claim(dead.JobID, "w1", time.Minute), "failed", workitem.DeadLettered)
		r := f.retry(dead.JobID, false)
		equal(f, "max_attempts of the retry of a dead letter", f.get(r.JobID).MaxAttempts, 1)
		_, err = f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: workitem.NewID(tenant, "missing").JobID()})
		f.refused(err, workitem.NotFound)
	}},

	{name: "a retry has no dependencies", run: func(f *fixture) {
		parent := f.submit(newRequest("parent"))
		child := f.submit(newRequest("child", "dependencies", []string{parent.JobID}))
		f.succeed(parent.JobID)
		f.fail(child.JobID)
		h := f.retry(child.JobID, false)
		equal(f, "the dependencies", f.get(h.JobID).Dependencies, []string{})
		equal(f, "the state", h.State, "ready")
	}},

	{name: "adoption gives the children to the new job", run: func(f *fixture) {
		old, other := f.submit(newRequest("old")), f.submit(newRequest("other"))
		child := f.submit(newRequest("child", "dependencies", []string{old.JobID, other.JobID}))
		view := f.get(child.JobID)
		f.fail(old.JobID)
		f.succeed(other.JobID)
		h := f.retry(old.JobID, true)
		equal(f, "the number of adopted children", h.Adopted, 1)
		f.state(child.JobID, "submitted")
		after := f.get(child.JobID)
		equal(f, "the dependencies and the digest of the child", []any{after.Dependencies, after.InputDigest}, []any{view.Dependencies, view.InputDigest})
		equal(f, "the dependencies in its row", idStrings(f.item(child.JobID).DependsOn), sorted([]string{h.WorkItemID, other.WorkItemID}))
		equal(f, "what blocks it", f.explain(child.JobID).BlockedBy, []workitem.Related{{WorkItemID: h.WorkItemID, State: "ready"}})
		equal(f, "the downstream of the new job", f.explain(h.JobID).Downstream, []workitem.Related{{WorkItemID: child.WorkItemID, State: "submitted"}})
		equal(f, "the downstream of the old job", f.explain(old.JobID).Downstream, []workitem.Related{})
		same := f.submit(newRequest("child", "dependencies", []string{old.JobID, other.JobID}))
		equal(f, "the child deduplicated", same.Deduplicated, true)
		f.reconcile(0, 0)
		f.restart()
		f.reconcile(0, 0)
		f.state(child.JobID, "submitted")
		f.succeed(h.JobID)
		f.state(child.JobID, "ready")
		f.succeed(child.JobID)
	}},

	{name: "a repeated retry adopts what is left, and releases when the new job has succeeded", run: func(f *fixture) {
		old := f.submit(newRequest("old"))
		first := f.submit(newRequest("first", "dependencies", []string{old.JobID}))
		f.fail(old.JobID)
		h := f.retry(old.JobID, false)
		equal(f, "adopted without being asked", h.Adopted, 0)
		f.succeed(h.JobID)
		f.state(first.JobID, "submitted")
		second := f.submit(newRequest("second", "dependencies", []string{old.JobID}))
		again := f.retry(old.JobID, true)
		equal(f, "the second retry", []any{again.JobID, again.Deduplicated, again.Adopted}, []any{h.JobID, true, 2})
		f.state(first.JobID, "ready")
		f.state(second.JobID, "ready")
		equal(f, "a third retry", f.retry(old.JobID, true).Adopted, 0)
		f.reconcile(0, 0)
	}},

	{name: "adoption by a pruned job releases if it has succeeded, and is refused otherwise", run: func(f *fixture) {
		old, other := f.submit(newRequest("old")), f.submit(newRequest("other"))
		bad := f.limited(1, 0, newRequest("bad"))
		first := f.submit(newRequest("first", "dependencies", []string{old.JobID}))
		second := f.submit(newRequest("second", "dependencies", []string{old.JobID, other.JobID}))
		third := f.submit(newRequest("third", "dependencies", []string{bad.JobID}))
		f.fail(old.JobID)
		f.fail(bad.JobID)
		f.succeed(f.retry(old.JobID, false).JobID)
		f.fail(f.retry(bad.JobID, false).JobID)
		f.Clock.Advance(time.Hour)
		f.prune(time.Minute, 2, 2)
		equal(f, "adopted", f.retry(old.JobID, true).Adopted, 2)
		f.state(first.JobID, "ready")
		f.reconcile(0, 0)
		before := f.item(third.JobID)
		_, err := f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: bad.JobID, Adopt: true})
		f.refused(err, workitem.InvalidState)
		equal(f, "the child of the refused retry", f.item(third.JobID), before)
		f.succeed(other.JobID)
		f.state(second.JobID, "ready")
	}},

	{name: "adoption of a child with both parents leaves one edge", run: func(f *fixture) {
		old := f.submit(newRequest("old"))
		f.fail(old.JobID)
		h := f.retry(old.JobID, false)
		child := f.submit(newRequest("child", "dependencies", []string{old.JobID, h.JobID}))
		equal(f, "dep_count", f.row(child.JobID).DepCount, 2)
		equal(f, "adopted", f.retry(old.JobID, true).Adopted, 1)
		equal(f, "dep_count", f.row(child.JobID).DepCount, 1)
		f.reconcile(0, 0)
		f.succeed(h.JobID)
		f.state(child.JobID, "ready")
	}},

	{name: "adoption leaves children that have ended", run: func(f *fixture) {
		old := f.submit(newRequest("old"))
		gone := f.submit(newRequest("gone", "dependencies", []string{old.JobID}))
		_, err := f.cancel(gone.JobID, "")
		f.ok(err)
		f.fail(old.JobID)
		before := f.item(gone.JobID)
		equal(f, "adopted", f.retry(old.JobID, true).Adopted, 0)
		equal(f, "the row", f.item(gone.JobID), before)
	}},

	{name: "adoption of another owner's children takes a scope", run: func(f *fixture) {
		narrow := as(tenant, agent.Owner, workitem.ScopeRead|workitem.ScopeWrite)
		old := f.submit(newRequest("old"))
		other := as(tenant, "actor-b", workitem.ScopeRead|workitem.ScopeWrite|workitem.ScopeTenant)
		child := f.submitAs(f.Jobs(other), &workitem.SubmitInput{Request: newRequest("child", "owner_id", "actor-b", "dependencies", []string{old.JobID}).json()})
		f.fail(old.JobID)
		_, err := f.Jobs(narrow).Retry(f.ctx, &workitem.RetryInput{JobID: old.JobID, Adopt: true})
		f.refused(err, workitem.ForbiddenScope)
		equal(f, "the number of jobs", len(f.list(workitem.ListInput{})), 2)
		_, err = f.Jobs(narrow).Retry(f.ctx, &workitem.RetryInput{JobID: old.JobID})
		f.ok(err)
		equal(f, "adopted", f.retry(old.JobID, true).Adopted, 1)
		f.state(child.JobID, "submitted")
	}},

	{name: "a chain has at most ten links", run: func(f *fixture) {
		id := f.limited(1, 0, newRequest("k")).JobID
		seen := map[string]bool{id: true}
		for link := 1; ; link++ {
			f.commit(f.claim(id, "w1", time.Minute), "failed", workitem.DeadLettered)
			h, err := f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: id})
			if err != nil {
				f.refused(err, workitem.InvalidState)
				if link != 10 && link != 11 {
					f.Fatalf("the chain ended after %d jobs", link)
				}
				break
			}
			if seen[h.JobID] {
				f.Fatal("a retry is a job of its own chain")
			}
			if seen[h.JobID] = true; link > 11 {
				f.Fatal("the chain does not end")
			}
			id = h.JobID
		}
	}},

	{name: "retries that race converge", run: func(f *fixture) {
		old := f.submit(newRequest("old"))
		var children []string
		for i := range 5 {
			children = append(children, f.submit(newRequest(fmt.Sprint(i), "dependencies", []string{old.JobID})).JobID)
		}
		f.fail(old.JobID)
		handles := make([]*workitem.RetryHandle, 8)
		errs := make([]error, len(handles))
		together(len(handles), func(i int) {
			handles[i], errs[i] = f.jobs.Retry(f.ctx, &workitem.RetryInput{JobID: old.JobID, Adopt: true})
		})
		first, adopted := 0, 0
		for i, h := range handles {
			f.ok(errs[i])
			equal(f, "the job", h.JobID, handles[0].JobID)
			adopted += h.Adopted
			if !h.Deduplicated {
				first++
			}
		}
		equal(f, "the number of winners", first, 1)
		equal(f, "the number of adopted children", adopted, len(children))
		f.reconcile(0, 0)
		f.succeed(handles[0].JobID)
		for _, id := range children {
			f.state(id, "ready")
		}
	}},
}

func idStrings(ids []workitem.ID) []string {
	text := []string{}
	for _, id := range ids {
		text = append(text, id.WorkItemID())
	}
	return sorted(text)
}
