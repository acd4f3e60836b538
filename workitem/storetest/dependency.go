package storetest

import (
	"fmt"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// child submits a job with parents.
func (f *fixture) child(key string, parents ...*workitem.Handle) *workitem.Handle {
	f.Helper()
	ids := []string{}
	for _, p := range parents {
		ids = append(ids, p.JobID)
	}
	return f.submit(newRequest(key, "dependencies", ids))
}

// verbs that have to repair what they meet, each with how it is called.
var repairs = []struct {
	name string
	call func(f *fixture, id string)
}{
	{"list", func(f *fixture, _ string) { f.list(workitem.ListInput{}) }},
	{"claim-next", func(f *fixture, _ string) { f.next("repository.merge", "w1") }},
	{"reconcile", func(f *fixture, _ string) { f.reconcile(1, 0) }},
	{"reopen", func(f *fixture, _ string) { f.restart() }},
}

var dependencyTests = []test{
	{name: "a diamond is released level by level", run: func(f *fixture) {
		top := f.submit(newRequest("top"))
		left, right := f.child("left", top), f.child("right", top)
		bottom := f.child("bottom", left, right)
		equal(f, "the state of a child in its handle", bottom.State, "submitted")
		f.unclaimed(bottom.JobID, workitem.ReasonSubmitted)
		f.unclaimed(left.JobID, workitem.ReasonSubmitted)
		equal(f, "dep_count", f.row(bottom.JobID).DepCount, 2)
		f.succeed(top.JobID)
		f.state(left.JobID, "ready")
		f.state(right.JobID, "ready")
		f.succeed(right.JobID)
		equal(f, "dep_count", f.row(bottom.JobID).DepCount, 1)
		f.state(bottom.JobID, "submitted")
		equal(f, "what blocks it", f.explain(bottom.JobID).BlockedBy, []workitem.Related{{WorkItemID: left.WorkItemID, State: "ready"}})
		f.succeed(left.JobID)
		f.state(bottom.JobID, "ready")
		f.reconcile(0, 0)
		equal(f, "the downstream", f.explain(left.JobID).Downstream, []workitem.Related{{WorkItemID: bottom.WorkItemID, State: "ready"}})
	}},

	{name: "parents are normalised and any order of them is the same child", run: func(f *fixture) {
		a, b := f.submit(newRequest("a")), f.submit(newRequest("b"))
		h := f.submit(newRequest("child", "dependencies", []string{b.JobID, a.WorkItemID, a.JobID, b.JobID}))
		equal(f, "dep_count", f.row(h.JobID).DepCount, 2)
		equal(f, "the dependencies", f.get(h.JobID).Dependencies, sorted([]string{a.WorkItemID, b.WorkItemID}))
	}},

	{name: "parents may be in any state when the child comes", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		c := f.claim(p.JobID, "w1", time.Minute)
		equal(f, "with a leased parent", f.child("leased", p).State, "submitted")
		f.commit(c, "succeeded", workitem.Committed)
		equal(f, "with a succeeded parent", f.child("succeeded", p).State, "ready")
		failed := f.submit(newRequest("failed"))
		f.fail(failed.JobID)
		equal(f, "with a failed parent", f.child("of failed", failed).State, "submitted")
		equal(f, "with both", f.child("both", p, failed).State, "submitted")
		equal(f, "the downstream of the succeeded parent", len(f.explain(p.JobID).Downstream), 3)
	}},

	{name: "a parent that ends without success keeps the child", run: func(f *fixture) {
		end := map[string]func(id string){
			"failed":    f.fail,
			"cancelled": func(id string) { _, err := f.cancel(id, ""); f.ok(err) },
			"dead-letter": func(id string) {
				f.commit(f.claim(id, "w1", time.Minute), "failed", workitem.DeadLettered)
			},
		}
		for state, finish := range end {
			p := f.limited(1, 0, newRequest("p "+state))
			h := f.child("c "+state, p)
			finish(p.JobID)
			f.state(p.JobID, state)
			f.state(h.JobID, "submitted")
			f.unclaimed(h.JobID, workitem.ReasonSubmitted)
			d := f.explain(h.JobID)
			equal(f, "what blocks it", d.BlockedBy, []workitem.Related{{WorkItemID: p.WorkItemID, State: state}})
			equal(f, "the attempt", f.get(h.JobID).Attempt, 0)
		}
		f.reconcile(0, 0)
		equal(f, "the blocked jobs", len(f.list(workitem.ListInput{Blocked: ptr(true)})), len(end))
		waiting := f.submit(newRequest("waiting"))
		f.child("c waiting", waiting)
		equal(f, "the blocked jobs with one that waits", len(f.list(workitem.ListInput{Blocked: ptr(true)})), len(end))
	}},

	{name: "missing and foreign parents answer alike", run: func(f *fixture) {
		foreign := agent
		foreign.Tenant = "tenant-b"
		h := f.submitAs(f.Jobs(foreign), &workitem.SubmitInput{Request: newRequest("p", "tenant_id", "tenant-b").json()})
		own := f.submit(newRequest("own"))
		submit := func(parent string) error {
			_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("c", "dependencies", []string{own.JobID, parent}).json()})
			return err
		}
		foreignErr, missingErr := submit(h.JobID), submit(workitem.NewID("tenant-b", "missing").JobID())
		f.refused(foreignErr, workitem.DependencyUnavailable)
		f.alike(foreignErr, missingErr)
		equal(f, "the jobs", f.list(workitem.ListInput{}), []string{own.JobID})
		equal(f, "the downstream of the own parent", f.explain(own.JobID).Downstream, []workitem.Related{})
	}},

	{name: "an explanation names at most 100 children", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		for i := range 100 {
			f.child(fmt.Sprint("c", i), p)
		}
		d := f.explain(p.JobID)
		equal(f, "the children", len(d.Downstream), 100)
		equal(f, "truncated", d.DownstreamTruncated, false)
		f.child("one more", p)
		d = f.explain(p.JobID)
		equal(f, "the children named", len(d.Downstream), 100)
		equal(f, "truncated", d.DownstreamTruncated, true)
	}},

	{name: "a job of another owner may be a parent", run: func(f *fixture) {
		other := as(tenant, "actor-b", workitem.ScopeRead|workitem.ScopeWrite)
		p := f.submit(newRequest("p"))
		h := f.submitAs(f.Jobs(other), &workitem.SubmitInput{Request: newRequest("c", "owner_id", "actor-b", "dependencies", []string{p.JobID}).json()})
		f.succeed(p.JobID)
		f.state(h.JobID, "ready")
	}},

	{name: "a submitted child without edges is repaired by whoever meets it", run: func(f *fixture) {
		for _, r := range repairs {
			p := f.submit(newRequest("p " + r.name))
			f.succeed(p.JobID)
			lone := f.child("c "+r.name, p)
			f.plant(lone.JobID, func(it *workitem.Item) { it.Status, it.DepCount = workitem.Submitted, 1 })
			f.unlink(lone.JobID)
			r.call(f, lone.JobID)
			f.reconcile(0, 0)
			f.state(lone.JobID, "ready")
			equal(f, "the downstream after "+r.name, f.explain(p.JobID).Downstream, []workitem.Related{{WorkItemID: lone.WorkItemID, State: "ready"}})
		}
	}},

	{name: "a claim repairs its job", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		f.succeed(p.JobID)
		lone := f.child("c", p)
		f.plant(lone.JobID, func(it *workitem.Item) { it.Status, it.DepCount = workitem.Submitted, 1 })
		f.unlink(lone.JobID)
		f.claim(lone.JobID, "w1", time.Minute)
		f.reconcile(0, 0)
	}},

	{name: "a count that is wrong and not zero is repaired", run: func(f *fixture) {
		for _, wrong := range []int{0, 2, 9} {
			for _, r := range repairs {
				key := fmt.Sprint(wrong, r.name)
				a, b := f.submit(newRequest("a"+key)), f.submit(newRequest("b"+key))
				h := f.child("c"+key, a, b)
				f.succeed(a.JobID)
				f.plant(h.JobID, func(it *workitem.Item) { it.DepCount = wrong })
				r.call(f, h.JobID)
				f.reconcile(0, 0)
				equal(f, "dep_count", f.row(h.JobID).DepCount, 1)
				f.state(h.JobID, "submitted")
				f.succeed(b.JobID)
				f.state(h.JobID, "ready")
				_, err := f.cancel(h.JobID, "")
				f.ok(err)
			}
		}
	}},

	{name: "a parent releases a planted child without an edge after its repair", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		h := f.child("c", p)
		f.unlink(h.JobID)
		f.plant(h.JobID, func(*workitem.Item) {})
		f.reconcile(1, 0)
		f.reconcile(0, 0)
		f.succeed(p.JobID)
		f.state(h.JobID, "ready")
	}},

	{name: "faulty rows are counted and hide nothing", run: func(f *fixture) {
		foreign := agent
		foreign.Tenant = "tenant-b"
		alien := f.submitAs(f.Jobs(foreign), &workitem.SubmitInput{Request: newRequest("p", "tenant_id", "tenant-b").json()})
		p := f.submit(newRequest("p", "operation", "merge"))
		missing, crossing := f.child("missing", p), f.child("crossing", p)
		f.plant(missing.JobID, func(it *workitem.Item) { it.DependsOn = []workitem.ID{workitem.NewID(tenant, "nothing")} })
		f.plant(crossing.JobID, func(it *workitem.Item) { it.DependsOn = []workitem.ID{mustID(alien.JobID)} })
		lone := f.child("lone", p)
		f.succeed(p.JobID)
		f.state(lone.JobID, "ready")
		before := []workitem.Item{f.item(missing.JobID), f.item(crossing.JobID)}
		f.reconcile(0, 2)
		f.reconcile(0, 2)
		equal(f, "the claimed job", f.next(build, "w1").Claim.JobID, lone.JobID)
		equal(f, "the listed jobs", len(f.list(workitem.ListInput{})), 4)
		equal(f, "the faulty rows", []workitem.Item{f.item(missing.JobID), f.item(crossing.JobID)}, before)
		for _, id := range []string{missing.JobID, crossing.JobID} {
			f.unclaimed(id, workitem.ReasonSubmitted)
			d := f.explain(id)
			if d.Fault == nil || d.Claimable {
				f.Fatalf("the diagnostics show no fault: %+v", d)
			}
		}
		stats, err := f.jobs.Stats(f.ctx, &workitem.NoInput{})
		f.ok(err)
		equal(f, "the faults in the counts", stats.Faults, 2)
	}},

	{name: "a success releases nobody in another tenant", run: func(f *fixture) {
		foreign := agent
		foreign.Tenant = "tenant-b"
		jobs := f.Jobs(foreign)
		alien := f.submitAs(jobs, &workitem.SubmitInput{Request: newRequest("p", "tenant_id", "tenant-b").json()})
		h := f.child("c", f.submit(newRequest("p")))
		f.update(func(tx workitem.Tx) error { _, err := tx.Link(mustID(alien.JobID), mustID(h.JobID)); return err })
		a, err := jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: alien.JobID, Worker: "w1"})
		f.ok(err)
		_, err = jobs.Commit(f.ctx, &workitem.CommitInput{JobID: alien.JobID, Claim: a.Claim.Fence(), Outcome: "succeeded"})
		f.ok(err)
		f.state(h.JobID, "submitted")
		equal(f, "dep_count", f.row(h.JobID).DepCount, 1)
	}},

	{name: "a page of reconcile is no bound", run: func(f *fixture) {
		p, q := f.submit(newRequest("p")), f.submit(newRequest("q"))
		f.succeed(p.JobID)
		const jobs = 7
		for i := range jobs {
			h := f.child(fmt.Sprint(i), p, q)
			f.plant(h.JobID, func(it *workitem.Item) { // as if it had been verified before it was damaged
				it.DepCount, it.DepState = 2, workitem.DepVerified
			})
		}
		f.list(workitem.ListInput{})
		for _, want := range []int{jobs, 0} {
			r, err := f.root.Reconcile(f.ctx, &workitem.ReconcileInput{Limit: ptr(2)})
			f.ok(err)
			equal(f, "the pass", *r, workitem.Reconciled{Repaired: want, Scanned: jobs})
		}
		for _, limit := range []int{0, 1001} {
			_, err := f.root.Reconcile(f.ctx, &workitem.ReconcileInput{Limit: &limit})
			f.refused(err, workitem.InvalidRequest)
		}
		f.succeed(q.JobID)
		equal(f, "the ready jobs", len(f.list(workitem.ListInput{State: []string{"ready"}})), jobs)
	}},

	{name: "a faulty row is sound again when its parent is there", run: func(f *fixture) {
		for _, look := range []func(){func() { f.reconcile(1, 0) }, func() { f.restart() }} {
			key := fmt.Sprint("parent ", len(f.list(workitem.ListInput{})))
			h := f.child("child of "+key, f.submit(newRequest("first "+key)))
			f.plant(h.JobID, func(it *workitem.Item) { it.DependsOn = []workitem.ID{workitem.NewID(tenant, key)} })
			f.reconcile(0, 1)
			parent := f.submit(newRequest(key))
			look()
			f.reconcile(0, 0)
			f.succeed(parent.JobID)
			f.state(h.JobID, "ready")
			f.succeed(h.JobID)
		}
	}},

	{name: "undecodable records are counted and hide nothing", run: func(f *fixture) {
		good := f.submit(newRequest("good"))
		bad := f.spoil(good.JobID, "bad")
		page, err := f.jobs.List(f.ctx, &workitem.ListInput{})
		f.ok(err)
		equal(f, "corrupt", page.Corrupt, 1)
		equal(f, "the listed jobs", []any{len(page.Items), page.Items[0].JobID, page.Exhausted}, []any{1, good.JobID, true})
		_, err = f.jobs.Get(f.ctx, &workitem.GetInput{JobID: bad})
		f.refused(err, workitem.Internal)
		f.reconcile(0, 0)
		answers := []string{}
		for range 4 {
			a, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1"})
			switch {
			case err != nil:
				f.refused(err, workitem.Internal)
				answers = append(answers, "damaged")
			case a.Claimed:
				answers = append(answers, a.Claim.JobID)
			default:
				answers = append(answers, a.Reason)
			}
		}
		equal(f, "the first two answers", sorted(answers[:2]), sorted([]string{"damaged", good.JobID})) // it is met once
		equal(f, "the other answers", answers[2:], []string{workitem.ReasonEmpty, workitem.ReasonEmpty})
		equal(f, "the live leases", f.explain(good.JobID).Quota.LiveLeases, 1)
		d := f.explain(bad)
		if d.Fault == nil {
			f.Fatalf("the diagnostics show no fault: %+v", d)
		}
	}},

	{name: "a count that is too low releases nothing before its time", run: func(f *fixture) {
		a, b := f.submit(newRequest("a")), f.submit(newRequest("b"))
		h := f.child("c", a, b)
		f.plant(h.JobID, func(it *workitem.Item) { it.DepCount = 1 })
		f.succeed(a.JobID)
		f.state(h.JobID, "submitted")
		f.reconcile(0, 0)
		f.succeed(b.JobID)
		f.state(h.JobID, "ready")
	}},

	{name: "a parent with many children releases all of them", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		const children = 300
		for i := range children {
			f.child(fmt.Sprint(i), p)
		}
		f.succeed(p.JobID)
		equal(f, "the ready jobs", len(f.list(workitem.ListInput{State: []string{"ready"}})), children)
		f.reconcile(0, 0)
	}},

	{name: "a child that is submitted while its parent succeeds is released", run: func(f *fixture) {
		for i := range 20 {
			p := f.submit(newRequest(fmt.Sprint("p", i)))
			c := f.claim(p.JobID, "w1", time.Minute)
			together(2, func(n int) {
				if n == 0 {
					if _, err := f.committing(c, "succeeded"); err != nil {
						f.Error(describe(err))
					}
				} else if _, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest(fmt.Sprint("c", i), "dependencies", []string{p.JobID}).json()}); err != nil {
					f.Error(describe(err))
				}
			})
			f.state(workitem.NewID(tenant, fmt.Sprint("c", i)).JobID(), "ready")
		}
		f.reconcile(0, 0)
	}},
}

func mustID(text string) workitem.ID {
	id, err := workitem.ParseID(text)
	if err != nil {
		panic(err) // it is the id of a handle
	}
	return id
}
