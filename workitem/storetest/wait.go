package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// claimsWait makes n claims that wait for jobs of a kind, calls act, and gives their
// answers.
func (f *fixture) claimsWait(n int, kind string, act func()) []*workitem.ClaimAnswer {
	f.Helper()
	answers := make([]*workitem.ClaimAnswer, n)
	errs := make([]error, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(n, func(i int) {
			answers[i], errs[i] = f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: kind, Worker: fmt.Sprint("w", i), LeaseTTL: ptr(60.0), Wait: ptr(30.0)})
		})
	}()
	act()
	<-done
	for _, err := range errs {
		f.ok(err)
	}
	return answers
}

var waitTests = []test{
	{name: "claims that wait get what comes, each another job", run: func(f *fixture) {
		const n = 6
		answers := f.claimsWait(n, build, func() {
			for i := range n {
				f.submit(newRequest(fmt.Sprint(i)))
			}
		})
		got := map[string]bool{}
		for _, a := range answers {
			if !a.Claimed {
				f.Fatalf("a claim that waited is answered with %s", a.Reason)
			}
			got[a.Claim.JobID] = true
		}
		equal(f, "the number of claimed jobs", len(got), n)
	}},

	{name: "a claim that waits gets a child that is released", run: func(f *fixture) {
		p := f.submit(newRequest("p", "operation", "merge"))
		h := f.child("c", p)
		a := f.claimsWait(1, build, func() { f.succeed(p.JobID) })[0]
		equal(f, "the claimed job", a.Claim.JobID, h.JobID)
	}},

	{name: "a claim that waits gets a job that is given back", config: func(cfg *workitem.Config) { cfg.RetryFloor = ptr(time.Duration(0)) }, run: func(f *fixture) {
		h := f.limited(3, 0, newRequest("k"))
		c := f.claim(h.JobID, "w", time.Minute)
		a := f.claimsWait(1, build, func() { f.commit(c, "failed", workitem.RetryScheduled) })[0]
		equal(f, "the claimed job", a.Claim.JobID, h.JobID)
		a = f.claimsWait(1, build, func() { f.ok(f.deferring(a.Claim, 0)) })[0]
		equal(f, "the claimed job", a.Claim.JobID, h.JobID)
	}},

	{name: "a claim that waits for the quota gets its turn", config: func(cfg *workitem.Config) { cfg.Quota = 1 }, run: func(f *fixture) {
		c := f.claim(f.submit(newRequest("a")).JobID, "w", time.Minute)
		b := f.submit(newRequest("b")).JobID
		a := f.claimsWait(1, build, func() { f.commit(c, "succeeded", workitem.Committed) })[0]
		equal(f, "the claimed job", a.Claim.JobID, b)
	}},

	{name: "waiting for the end of a job", run: func(f *fixture) {
		for _, end := range []string{"succeeded", "cancelled"} {
			c := f.claim(f.submit(newRequest(end)).JobID, "w", time.Minute)
			views := make([]*workitem.View, 4)
			errs := make([]error, len(views))
			done := make(chan struct{})
			go func() {
				defer close(done)
				together(len(views), func(i int) {
					views[i], errs[i] = f.jobs.Get(f.ctx, &workitem.GetInput{JobID: c.JobID, Wait: ptr(30.0), Until: "terminal"})
				})
			}()
			f.ok(f.heartbeat(c, time.Minute))
			f.commit(c, end, workitem.Committed)
			<-done
			for i, v := range views {
				f.ok(errs[i])
				equal(f, "the state", v.State, end)
			}
			v, err := f.jobs.Get(f.ctx, &workitem.GetInput{JobID: c.JobID, Wait: ptr(30.0), Until: "terminal"})
			f.ok(err)
			equal(f, "the state after the end", v.State, end)
		}
	}},

	{name: "waiting ends", run: func(f *fixture) {
		h := f.submit(newRequest("k", "operation", "merge"))
		a := f.next(build, "w", func(in *workitem.ClaimNextInput) { in.Wait = ptr(0.02) })
		equal(f, "the answer", a.Reason, workitem.ReasonEmpty)
		v, err := f.jobs.Get(f.ctx, &workitem.GetInput{JobID: h.JobID, Wait: ptr(0.02), Until: "terminal"})
		f.ok(err)
		equal(f, "the state", v.State, "ready")
		for _, wait := range []float64{-1, 60.5} {
			_, err := f.jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w", Wait: &wait})
			f.refused(err, workitem.InvalidRequest)
			_, err = f.jobs.Get(f.ctx, &workitem.GetInput{JobID: h.JobID, Wait: &wait})
			f.refused(err, workitem.InvalidRequest)
		}
		_, err = f.jobs.Get(f.ctx, &workitem.GetInput{JobID: h.JobID, Until: "ready"})
		f.refused(err, workitem.InvalidRequest)
	}},

	{name: "a call whose caller has given up before does nothing", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		before := f.item(h.JobID)
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if _, err := f.jobs.Claim(ctx, &workitem.ClaimInput{JobID: h.JobID, Worker: "w"}); err == nil {
			f.Fatal("the claim was answered")
		}
		if _, err := f.jobs.Submit(ctx, &workitem.SubmitInput{Request: newRequest("other").json()}); err == nil {
			f.Fatal("the submission was answered")
		}
		equal(f, "the row", f.item(h.JobID), before)
		equal(f, "the jobs", f.list(workitem.ListInput{}), []string{h.JobID})
	}},
}

var overviewTests = []test{
	{name: "the registry has every kind", run: func(f *fixture) {
		k, err := f.jobs.Kinds(f.ctx, &workitem.NoInput{})
		f.ok(err)
		equal(f, "the number of kinds", len(k.Items), 14)
		for _, e := range k.Items {
			want := "repository." + e.Operation
			if e.Operation == "repository" {
				want = "repository.operation"
			}
			equal(f, "the kind of "+e.Operation, e.Kind, want)
		}
	}},

	{name: "counts follow the jobs", run: func(f *fixture) {
		p := f.submit(newRequest("p"))
		f.child("c", p)
		f.Clock.Advance(10 * time.Second)
		f.submit(newRequest("merge", "operation", "merge"))
		f.fail(f.submit(newRequest("failed")).JobID)
		f.claim(f.submit(newRequest("leased")).JobID, "w", time.Minute)
		f.Clock.Advance(5 * time.Second)
		s, err := f.jobs.Stats(f.ctx, &workitem.NoInput{})
		f.ok(err)
		got := map[string]map[string]int{}
		for _, k := range s.Kinds {
			got[k.Kind] = map[string]int{}
			for state, n := range k.States {
				if n != 0 {
					got[k.Kind][state] = n
				}
			}
			if len(got[k.Kind]) == 0 {
				delete(got, k.Kind)
			}
		}
		equal(f, "the counts", got, map[string]map[string]int{
			build: {"ready": 1, "submitted": 1, "failed": 1, "leased": 1}, "repository.merge": {"ready": 1}})
		equal(f, "the rest", []any{s.LiveLeases, s.Claimable, s.Faults, *s.OldestReadyAge}, []any{1, 2, 0, 15.0})
	}},

	{name: "the graph has ancestors and descendants", run: func(f *fixture) {
		top := f.submit(newRequest("top"))
		left, right := f.child("left", top), f.child("right", top)
		bottom := f.child("bottom", left, right)
		f.submit(newRequest("apart"))
		for _, start := range []*workitem.Handle{top, left, bottom} {
			g, err := f.jobs.Graph(f.ctx, &workitem.GraphInput{JobID: start.JobID})
			f.ok(err)
			nodes := map[string]string{}
			for _, n := range g.Nodes {
				nodes[n.WorkItemID] = n.State
			}
			equal(f, "the jobs", nodes, map[string]string{top.WorkItemID: "ready", left.WorkItemID: "submitted", right.WorkItemID: "submitted", bottom.WorkItemID: "submitted"})
			edges := map[workitem.GraphEdge]bool{}
			for _, e := range g.Edges {
				edges[e] = true
			}
			equal(f, "the edges", edges, map[workitem.GraphEdge]bool{
				{Parent: top.WorkItemID, Child: left.WorkItemID}: true, {Parent: top.WorkItemID, Child: right.WorkItemID}: true,
				{Parent: left.WorkItemID, Child: bottom.WorkItemID}: true, {Parent: right.WorkItemID, Child: bottom.WorkItemID}: true})
			equal(f, "truncated", g.Truncated, false)
		}
		g, err := f.jobs.Graph(f.ctx, &workitem.GraphInput{JobID: top.JobID, Limit: ptr(2)})
		f.ok(err)
		equal(f, "a graph with a limit", []any{len(g.Nodes), g.Truncated}, []any{2, true})
	}},

	{name: "new consent may have an end", config: func(cfg *workitem.Config) { cfg.ConsentTTL = time.Minute }, run: func(f *fixture) {
		h := f.submit(gated("k"))
		equal(f, "the consent", f.explain(h.JobID).ConsentState, "active")
		f.Clock.Advance(time.Minute)
		f.unclaimed(h.JobID, workitem.ReasonConsentDenied)
		f.consent(h.JobID, "restore", nil)
		f.claim(h.JobID, "w", time.Minute)
	}},

	{name: "the strict contract is a setting", config: func(cfg *workitem.Config) { cfg.Strict = true }, run: func(f *fixture) {
		_, err := f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k", "request_id", "k").json()})
		f.refused(err, workitem.InvalidRequest)
		_, err = f.jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("k", "base_ref", "HEAD").json()})
		f.refused(err, workitem.InvalidRequest)
		f.submit(newRequest("k"))
	}},

	{name: "tokens are made, listed and revoked", run: func(f *fixture) {
		in := &workitem.TokenInput{Name: "ci", Subject: "robot", Scopes: []string{"jobs:work", "jobs:tenant"}}
		made, err := f.root.CreateToken(f.ctx, in)
		f.ok(err)
		equal(f, "the token", made.TokenEntry, workitem.TokenEntry{ID: made.ID, Name: "ci", Subject: "robot", Tenant: tenant, Owner: "robot",
			Scopes: []string{"jobs:work", "jobs:tenant"}, CreatedAt: f.now().RFC3339()})
		list := func(who string) []workitem.TokenEntry {
			l, err := f.Jobs(workitem.Principal{Subject: "root", Tenant: who, Owner: "root", Scopes: workitem.ScopeAdmin}).Tokens(f.ctx, &workitem.NoInput{})
			f.ok(err)
			return l.Items
		}
		equal(f, "the tokens", list(tenant), []workitem.TokenEntry{made.TokenEntry})
		equal(f, "the tokens of another tenant", list("tenant-b"), []workitem.TokenEntry{})
		foreign := f.Jobs(workitem.Principal{Subject: "root", Tenant: "tenant-b", Owner: "root", Scopes: workitem.ScopeAdmin})
		_, err = foreign.RevokeToken(f.ctx, &workitem.RevokeInput{ID: made.ID})
		f.refused(err, workitem.NotFound)
		_, err = foreign.CreateToken(f.ctx, &workitem.TokenInput{Name: "ci", Subject: "robot", Tenant: tenant, Scopes: in.Scopes})
		f.refused(err, workitem.UnauthorizedTarget)
		for _, bad := range []workitem.TokenInput{
			{Name: "", Subject: "robot", Scopes: in.Scopes}, {Name: "ci", Subject: "", Scopes: in.Scopes},
			{Name: "ci", Subject: "robot"}, {Name: "ci", Subject: "robot", Scopes: []string{"jobs:all"}},
		} {
			_, err := f.root.CreateToken(f.ctx, &bad)
			f.refused(err, workitem.InvalidRequest)
		}
		f.Clock.Advance(time.Second)
		revoked, err := f.root.RevokeToken(f.ctx, &workitem.RevokeInput{ID: made.ID})
		f.ok(err)
		equal(f, "revoked", *revoked.RevokedAt, f.now().RFC3339())
		f.Clock.Advance(time.Second)
		f.restart()
		again, err := f.root.RevokeToken(f.ctx, &workitem.RevokeInput{ID: made.ID})
		f.ok(err)
		equal(f, "revoked again", *again, *revoked)
		equal(f, "the tokens", list(tenant), []workitem.TokenEntry{*revoked})
	}},
}
