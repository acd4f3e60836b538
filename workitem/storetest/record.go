package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// statuses gives the statuses that a job went through, by its history. A grant is
// one, also when it follows on another.
func (f *fixture) statuses(id string) []string {
	f.Helper()
	var statuses []string
	last := ""
	events := f.events(id)
	for i, e := range events {
		if e.Seq != i+events[0].Seq {
			f.Fatalf("event %d has the number %d", i, e.Seq)
		}
		if i > 0 && e.From != last {
			f.Fatalf("event %d starts at %s, and the one before ended at %s", i, e.From, last)
		}
		if e.Event == "" || e.At == "" {
			f.Fatalf("event %d lacks its name or time: %+v", i, e)
		}
		last = e.To
		if e.From != e.To || e.Event == "claim" {
			statuses = append(statuses, e.To)
		}
	}
	return statuses
}

var historyTests = []test{
	{name: "history has every change of status", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		h := f.child("c", p)
		f.succeed(p.JobID)
		c := f.claim(h.JobID, "w1", time.Minute)
		for range 3 {
			f.ok(f.heartbeat(c, time.Minute))
		}
		f.commit(c, "failed", workitem.RetryScheduled)
		f.Clock.Advance(time.Hour)
		f.ok(f.deferring(f.claim(h.JobID, "w1", time.Minute), 0))
		f.claim(h.JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		c = f.claim(h.JobID, "w2", time.Minute)
		f.ok(f.checkpoint(c, "checkpoint:1"))
		f.commit(c, "succeeded", workitem.Committed)
		equal(f, "the statuses", f.statuses(h.JobID), []string{"submitted", "ready", "leased", "running", "ready",
			"leased", "ready", "leased", "leased", "running", "succeeded"})
		events := f.events(h.JobID)
		epoch := int64(0)
		for i, e := range events {
			if e.Epoch < epoch {
				f.Fatalf("event %d has epoch %d after %d", i, e.Epoch, epoch)
			}
			epoch = e.Epoch
		}
		equal(f, "the last epoch", epoch, f.row(h.JobID).LeaseEpoch)
		equal(f, "the subject of the claim", events[len(events)-1].Subject, agent.Subject)
	}},

	{name: "history has the end of every kind", run: func(f *fixture) {
		cancelled := f.submit(newRequest("cancelled"))
		_, err := f.cancel(cancelled.JobID, "")
		f.ok(err)
		dead := f.limited(1, 0, newRequest("dead"))
		f.commit(f.claim(dead.JobID, "w1", time.Minute), "failed", workitem.DeadLettered)
		exhausted := f.limited(1, 0, newRequest("exhausted"))
		f.claim(exhausted.JobID, "w1", time.Minute)
		f.Clock.Advance(time.Hour)
		f.unclaimed(exhausted.JobID, workitem.ReasonExhausted)
		for id, want := range map[string]string{cancelled.JobID: "cancelled", dead.JobID: "dead-letter", exhausted.JobID: "dead-letter"} {
			statuses := f.statuses(id)
			equal(f, "the last status", statuses[len(statuses)-1], want)
			equal(f, "the number of events", len(f.events(id)), len(statuses))
		}
	}},

	{name: "what repeats leaves no history", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		c := f.claim(h.JobID, "w1", time.Hour)
		f.ok(f.heartbeat(c, time.Hour))
		n := len(f.events(h.JobID))
		for range 5 {
			f.Clock.Advance(time.Second)
			f.ok(f.heartbeat(c, time.Hour))
			f.submit(newRequest("k"))
			f.unclaimed(h.JobID, workitem.ReasonLeased)
		}
		equal(f, "the number of events", len(f.events(h.JobID)), n)
	}},
}

// prune drops what has ended more than age ago.
func (f *fixture) prune(age time.Duration, pruned, kept int) {
	f.Helper()
	for _, dry := range []bool{true, false} {
		p, err := f.root.Prune(f.ctx, &workitem.PruneInput{OlderThan: age.Seconds(), DryRun: dry})
		f.ok(err)
		equal(f, "pruned", *p, workitem.Pruned{Pruned: pruned, Kept: kept})
	}
}

var pruneTests = []test{
	{name: "prune leaves tombstones that answer submissions", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		f.succeed(h.JobID)
		f.Clock.Advance(time.Hour)
		young := f.submit(newRequest("young"))
		f.succeed(young.JobID)
		live := f.submit(newRequest("live"))
		f.Clock.Advance(time.Minute)
		f.prune(time.Hour, 1, 0)
		f.prune(time.Hour, 0, 0)
		for range 2 {
			for _, verb := range jobVerbs {
				if verb.name != "commit" {
					f.Log(verb.name)
					f.refused(verb.call(f, f.root, h.JobID), workitem.NotFound)
				}
			}
			equal(f, "the listed jobs", f.list(workitem.ListInput{}), []string{young.JobID, live.JobID})
			again := f.submit(newRequest("k"))
			want := *h
			want.Deduplicated, want.State = true, "succeeded"
			equal(f, "the handle of a resubmission", *again, want)
			for differs, r := range map[string]request{
				"operation":   newRequest("k", "operation", "merge"),
				"projection":  newRequest("k", "priority", 1),
				"source_only": newRequest("k", "priority", 0),
			} {
				_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: r.json()})
				equal(f, "differs", f.refused(err, workitem.DuplicateRequest).Differs, differs)
			}
			f.restart()
		}
		foreign := agent
		foreign.Tenant = "tenant-b"
		_, err := f.Jobs(foreign).Get(f.ctx, &workitem.GetInput{JobID: h.JobID})
		f.refused(err, workitem.NotFound)
	}},

	{name: "prune keeps the parents of live children", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		h := f.child("c", p)
		blocked := f.submit(newRequest("blocked"))
		f.fail(blocked.JobID)
		f.child("waits", blocked)
		f.succeed(p.JobID)
		f.Clock.Advance(time.Hour)
		f.prune(time.Minute, 0, 2)
		f.state(p.JobID, "succeeded")
		f.reconcile(0, 0)
		f.succeed(h.JobID)
		f.Clock.Advance(time.Hour)
		f.prune(time.Minute, 2, 1)
		f.reconcile(0, 0)
		again := f.child("c", p)
		equal(f, "the resubmitted child", []any{again.Deduplicated, again.State}, []any{true, "succeeded"})
		_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("new", "dependencies", []string{p.JobID}).json()})
		f.refused(err, workitem.DependencyUnavailable)
	}},

	{name: "prune is for one tenant", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		f.succeed(h.JobID)
		f.Clock.Advance(time.Hour)
		foreign := f.Jobs(as("tenant-b", "admin", workitem.ScopeAdmin))
		p, err := foreign.Prune(f.ctx, &workitem.PruneInput{OlderThan: 1})
		f.ok(err)
		equal(f, "pruned", p.Pruned, 0)
		f.state(h.JobID, "succeeded")
		_, err = f.root.Prune(f.ctx, &workitem.PruneInput{OlderThan: -1})
		f.refused(err, workitem.InvalidRequest)
	}},
}

var restartTests = []test{
	{name: "a restart keeps everything", run: func(f *fixture) {
		p := f.submit(newRequest("p", "priority", 3))
		ids := []string{p.JobID, f.child("c", p).JobID}
		ids = append(ids, f.submit(gated("gated")).JobID)
		f.consent(ids[2], "expire_at", ptr((f.now() + seconds(900)).RFC3339()))
		leased := f.claim(f.submit(newRequest("leased")).JobID, "w1", time.Hour)
		f.ok(f.checkpoint(leased, "checkpoint:here"))
		ended := f.submit(newRequest("ended"))
		f.fail(ended.JobID)
		deferred := f.claim(f.submit(newRequest("deferred")).JobID, "w1", time.Hour)
		f.ok(f.deferring(deferred, time.Hour))
		named := f.next(release, "w1", named("call-1"))
		ids = append(ids, leased.JobID, ended.JobID, deferred.JobID)
		type all struct {
			item    workitem.Item
			view    workitem.View
			explain workitem.Diagnostics
			events  []workitem.Transition
		}
		read := func() (rows []all) {
			for _, id := range ids {
				rows = append(rows, all{f.item(id), *f.get(id), *f.explain(id), f.events(id)})
			}
			return rows
		}
		before := read()
		for range 2 {
			f.restart()
			equal(f, "everything after a restart", read(), before)
			f.reconcile(0, 0)
		}
		equal(f, "the resubmission", f.submit(newRequest("p", "priority", 3)).Deduplicated, true)
		equal(f, "the repeated claim", *f.next(release, "w1", namedLike(named)).Claim, *named.Claim)
		f.ok(f.heartbeat(leased, time.Minute))
		f.commit(leased, "succeeded", workitem.Committed)
		f.fenced(deferred)
		f.succeed(p.JobID)
		f.state(ids[1], "ready")
	}},

	{name: "leases run out after a restart as before", config: func(cfg *workitem.Config) { cfg.Quota = 4 }, run: func(f *fixture) {
		var claims []*workitem.Claim
		for i, attempts := range []int{1, 1, 2, 2} { // every other one is running
			c := f.claim(f.limited(attempts, 0, newRequest(fmt.Sprint(i))).JobID, "w1", time.Minute)
			if i%2 == 0 {
				f.ok(f.heartbeat(c, time.Minute))
			}
			claims = append(claims, c)
		}
		f.submit(newRequest("one more", "operation", "merge"))
		f.restart()
		equal(f, "the answer with the quota used up", f.next("repository.merge", "w2").Reason, workitem.ReasonTenantQuota)
		f.Clock.Advance(time.Minute)
		f.restart()
		got := []string{f.next(build, "w2").Claim.JobID, f.next(build, "w2").Claim.JobID}
		equal(f, "the jobs taken over", sorted(got), sorted([]string{claims[2].JobID, claims[3].JobID}))
		f.state(claims[0].JobID, "dead-letter")
		f.state(claims[1].JobID, "dead-letter")
		equal(f, "the answer when all are held", f.next(build, "w2").Reason, workitem.ReasonEmpty)
		f.restart()
		equal(f, "the live leases", f.inside().leases, 2)
		f.Clock.Advance(time.Hour)
		equal(f, "the answer", f.next("repository.release", "w2").Reason, workitem.ReasonEmpty)
		f.state(claims[2].JobID, "dead-letter")
	}},

	{name: "jobs that wait for their time come back after a restart", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		f.ok(f.deferring(f.claim(h.JobID, "w1", time.Minute), time.Minute))
		f.restart()
		equal(f, "a claim-next before the time", f.next(build, "w1").Reason, workitem.ReasonEmpty)
		f.Clock.Advance(time.Minute)
		f.restart()
		equal(f, "the claimed job", f.next(build, "w1").Claim.JobID, h.JobID)
	}},

	{name: "a restart with a clock far behind keeps epochs and order", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		c := f.claim(h.JobID, "w1", time.Minute)
		f.Clock.Jump(-2 * time.Hour)
		f.restart()
		f.unclaimed(h.JobID, workitem.ReasonLeased)
		later := f.submit(newRequest("later"))
		equal(f, "the jobs by time", f.list(workitem.ListInput{}), byTime(f, h, later))
		f.commit(c, "succeeded", workitem.Committed)
	}},

	{name: "the wall clock jumps and live leases do not notice", run: func(f *fixture) {
		for _, jump := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			h := f.submit(newRequest(jump.String()))
			c := f.claim(h.JobID, "w1", time.Minute)
			f.Clock.Jump(jump)
			f.unclaimed(h.JobID, workitem.ReasonLeased)
			equal(f, "a claim-next", f.next(build, "w2").Reason, workitem.ReasonEmpty)
			f.ok(f.heartbeat(c, time.Minute))
			f.Clock.Advance(59 * time.Second)
			f.ok(f.heartbeat(c, time.Minute))
			f.Clock.Advance(time.Minute + time.Microsecond)
			f.fencedRenewals(c)
			second := f.claim(h.JobID, "w2", time.Minute)
			f.commit(second, "succeeded", workitem.Committed)
		}
	}},
}

// namedLike repeats the call that got an answer.
func namedLike(*workitem.ClaimAnswer) func(*workitem.ClaimNextInput) { return named("call-1") }

func byTime(f *fixture, first, second *workitem.Handle) []string {
	if a, b := f.get(first.JobID).CreatedAt, f.get(second.JobID).CreatedAt; b < a {
		f.Fatalf("the later job has the time %s, the earlier one %s", b, a)
	}
	ids := []string{first.JobID, second.JobID}
	if f.get(first.JobID).CreatedAt == f.get(second.JobID).CreatedAt {
		w := sorted([]string{first.WorkItemID, second.WorkItemID})
		ids = []string{mustID(w[0]).JobID(), mustID(w[1]).JobID()}
	}
	return ids
}

var readyTests = []test{
	{name: "listing, counts and explain agree on what is claimable", run: func(f *fixture) {
		rng := rand.New(rand.NewPCG(4, 8))
		var all []string
		for i := range 120 {
			pairs := []any{"priority", rng.IntN(5), "fairness_group", fmt.Sprint("g", rng.IntN(3))}
			if rng.IntN(3) == 0 {
				pairs = append(pairs, "resources", map[string]any{"queue_deadline": (f.now() + seconds(float64(rng.IntN(200)))).RFC3339()})
			}
			if len(all) > 0 && rng.IntN(3) == 0 {
				pairs = append(pairs, "dependencies", []string{all[rng.IntN(len(all))]})
			}
			r := newRequest(fmt.Sprint(i), pairs...)
			if rng.IntN(4) == 0 {
				r = gated(fmt.Sprint(i), pairs...)
			}
			h := f.limited(1+rng.IntN(3), float64(rng.IntN(60)), r)
			all = append(all, h.JobID)
			if r["operation"] == "release" && rng.IntN(2) == 0 {
				f.consent(h.JobID, "expire_at", ptr((f.now() + seconds(float64(rng.IntN(200)))).RFC3339()))
			}
			if rng.IntN(2) == 0 {
				if a := f.tryClaim(h.JobID, "w1", time.Duration(1+rng.IntN(100))*time.Second); a.Claimed {
					switch rng.IntN(5) {
					case 0:
						f.commit(a.Claim, "succeeded", workitem.Committed)
					case 1:
						if _, err := f.committing(a.Claim, "failed"); err != nil {
							f.Fatal(describe(err))
						}
					case 2:
						f.ok(f.deferring(a.Claim, time.Duration(rng.IntN(200))*time.Second))
					}
				}
			}
			if rng.IntN(12) == 0 {
				if _, err := f.cancel(all[rng.IntN(len(all))], ""); err != nil {
					f.refused(err, workitem.InvalidState)
				}
			}
			f.Clock.Advance(time.Second)
		}
		sets := map[string]bool{}
		for range 8 {
			set := f.agree(all)
			sets[fmt.Sprint(set)] = true
			f.Clock.Advance(25 * time.Second)
		}
		if len(sets) < 4 {
			f.Fatalf("only %d different sets were compared", len(sets))
		}
		set := f.agree(all)
		claimed := sorted(append(f.drain(build), f.drain(release)...))
		equal(f, "what claim-next hands out", claimed, set)
		equal(f, "claimable afterwards", f.agree(all), []string{})
	}},
}

// agree wants the listing, the counts and explain to give the same claimable jobs,
// and gives them, sorted.
func (f *fixture) agree(all []string) []string {
	f.Helper()
	listed := sorted(f.list(workitem.ListInput{Claimable: ptr(true)}))
	explained := []string{}
	for _, id := range all {
		d := f.explain(id)
		if d.Claimable != (len(d.WhyNot) == 0) {
			f.Fatalf("the diagnostics contradict themselves: %+v", d)
		}
		if d.Claimable {
			explained = append(explained, id)
		}
	}
	equal(f, "claimable by the listing", listed, sorted(explained))
	stats, err := f.jobs.Stats(f.ctx, &workitem.NoInput{})
	f.ok(err)
	equal(f, "claimable by the counts", stats.Claimable, len(explained))
	kinds := 0
	for _, k := range stats.Kinds {
		kinds += k.Claimable
	}
	equal(f, "claimable by the counts of kinds", kinds, len(explained))
	return listed
}
