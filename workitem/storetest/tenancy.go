package storetest

import (
	"fmt"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// jobVerbs is every verb about one job, as a caller may use it.
var jobVerbs = []struct {
	name string
	call func(f *fixture, jobs operation.Jobs, id string) error
}{
	{"get", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Get(f.ctx, &workitem.GetInput{JobID: id})
		return err
	}},
	{"result", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Result(f.ctx, &workitem.JobInput{JobID: id})
		return err
	}},
	{"explain", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Explain(f.ctx, &workitem.JobInput{JobID: id})
		return err
	}},
	{"history", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.History(f.ctx, &workitem.JobInput{JobID: id})
		return err
	}},
	{"graph", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Graph(f.ctx, &workitem.GraphInput{JobID: id})
		return err
	}},
	{"cancel", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Cancel(f.ctx, &workitem.CancelInput{JobID: id})
		return err
	}},
	{"retry", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Retry(f.ctx, &workitem.RetryInput{JobID: id, Adopt: true})
		return err
	}},
	{"claim", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: id, Worker: "w1"})
		return err
	}},
	{"current claim", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.CurrentClaim(f.ctx, &workitem.CurrentClaimInput{JobID: id, Worker: "w1"})
		return err
	}},
	{"heartbeat", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Heartbeat(f.ctx, &workitem.HeartbeatInput{JobID: id, Claim: guess(id)})
		return err
	}},
	{"checkpoint", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Checkpoint(f.ctx, &workitem.CheckpointInput{JobID: id, Claim: guess(id), Checkpoint: "checkpoint:1"})
		return err
	}},
	{"commit", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Commit(f.ctx, &workitem.CommitInput{JobID: id, Claim: guess(id), Outcome: "succeeded"})
		return err
	}},
	{"defer", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Defer(f.ctx, &workitem.DeferInput{JobID: id, Claim: guess(id), Delay: ptr(1.0)})
		return err
	}},
	{"consent", func(f *fixture, jobs operation.Jobs, id string) error {
		_, err := jobs.Consent(f.ctx, &workitem.ConsentInput{JobID: id, Action: "revoke"})
		return err
	}},
}

// guess is the claim that the first lease of a job has.
func guess(id string) workitem.Fence {
	return workitem.Fence{WorkItemID: id, LeaseOwner: "w1", LeaseEpoch: 1, FencingToken: 1}
}

var tenancyTests = []test{
	{name: "rows of another tenant behave like missing ones in every verb", run: func(f *fixture) {
		foreign := f.Jobs(workitem.Principal{Subject: "agent", Tenant: "tenant-b", Owner: agent.Owner, Scopes: workitem.ScopeAdmin})
		waiting := f.submit(gated("waiting")).JobID
		leased := f.claim(f.submit(gated("leased")).JobID, "w1", time.Minute).JobID
		ended := f.submit(gated("ended")).JobID
		f.fail(ended)
		missing := workitem.NewID("tenant-b", "missing").JobID()
		for _, id := range []string{waiting, leased, ended} {
			before, history := f.item(id), f.events(id)
			for _, verb := range jobVerbs {
				f.Log(verb.name)
				got, want := verb.call(f, foreign, id), verb.call(f, foreign, missing)
				f.refused(got, workitem.NotFound)
				f.alike(got, want)
			}
			equal(f, "the row", f.item(id), before)
			equal(f, "the history", f.events(id), history)
		}
		equal(f, "the foreign listing", f.listAs(foreign, workitem.ListInput{}), []string{})
		a, err := foreign.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: release, Worker: "w1"})
		f.ok(err)
		equal(f, "the foreign claim-next", a.Reason, workitem.ReasonEmpty)
		stats, err := foreign.Stats(f.ctx, &workitem.NoInput{})
		f.ok(err)
		equal(f, "the foreign counts", []int{stats.LiveLeases, stats.Claimable}, []int{0, 0})
	}},

	{name: "one key in two tenants is two jobs", run: func(f *fixture) {
		foreign := agent
		foreign.Tenant = "tenant-b"
		a := f.submit(newRequest("k"))
		b := f.submitAs(f.Jobs(foreign), &workitem.SubmitInput{Request: newRequest("k", "tenant_id", "tenant-b").json()})
		if a.JobID == b.JobID || b.Deduplicated {
			f.Fatalf("the second tenant got %+v", b)
		}
		f.claim(a.JobID, "w1", time.Minute)
		v, err := f.Jobs(foreign).Get(f.ctx, &workitem.GetInput{JobID: b.JobID})
		f.ok(err)
		equal(f, "the state in the other tenant", v.State, "ready")
	}},

	{name: "without jobs:tenant an owner sees only its own jobs", run: func(f *fixture) {
		all := workitem.ScopeRead | workitem.ScopeWrite | workitem.ScopeWork
		narrow := f.Jobs(as(tenant, "actor-b", all))
		theirs := f.submit(newRequest("theirs")).JobID
		ended := f.submit(newRequest("ended")).JobID
		f.fail(ended)
		own := f.submitAs(narrow, &workitem.SubmitInput{Request: newRequest("own", "owner_id", "actor-b").json()}).JobID
		missing := workitem.NewID(tenant, "missing").JobID()
		for _, verb := range jobVerbs[:7] {
			for _, id := range []string{theirs, ended} {
				f.Log(verb.name)
				got, want := verb.call(f, narrow, id), verb.call(f, narrow, missing)
				f.refused(got, workitem.NotFound)
				f.alike(got, want)
			}
		}
		f.state(theirs, "ready")
		equal(f, "the listing of the owner", f.listAs(narrow, workitem.ListInput{}), []string{own})
		equal(f, "the listing by the own owner", f.listAs(narrow, workitem.ListInput{OwnerID: "actor-b"}), []string{own})
		_, err := narrow.List(f.ctx, &workitem.ListInput{OwnerID: agent.Owner})
		f.refused(err, workitem.UnauthorizedTarget)
		equal(f, "the listing of the tenant", len(f.list(workitem.ListInput{})), 3)
		equal(f, "the listing of the tenant by an owner", f.list(workitem.ListInput{OwnerID: "actor-b"}), []string{own})
		_, err = narrow.Stats(f.ctx, &workitem.NoInput{})
		f.refused(err, workitem.ForbiddenScope)
		v, err := narrow.Get(f.ctx, &workitem.GetInput{JobID: own})
		f.ok(err)
		equal(f, "the owner of the own job", v.OwnerID, "actor-b")
	}},

	{name: "relations of another owner are not shown to an owner", run: func(f *fixture) {
		narrow := f.Jobs(as(tenant, "actor-b", workitem.ScopeRead|workitem.ScopeWrite))
		p := f.submit(newRequest("p"))
		own := f.submitAs(narrow, &workitem.SubmitInput{Request: newRequest("own", "owner_id", "actor-b", "dependencies", []string{p.JobID}).json()})
		f.child("theirs", own)
		d, err := narrow.Explain(f.ctx, &workitem.JobInput{JobID: own.JobID})
		f.ok(err)
		equal(f, "the downstream", d.Downstream, []workitem.Related{})
		g, err := narrow.Graph(f.ctx, &workitem.GraphInput{JobID: own.JobID})
		f.ok(err)
		for _, n := range g.Nodes {
			if n.WorkItemID != own.WorkItemID && n.RequestID != "" {
				f.Fatalf("the graph shows a job of another owner: %+v", n)
			}
		}
	}},

	{name: "submitting for another owner takes a scope", run: func(f *fixture) {
		in := &workitem.SubmitInput{Request: newRequest("k", "owner_id", "actor-b").json()}
		_, err := f.jobs.Submit(f.ctx, in)
		f.refused(err, workitem.UnauthorizedTarget)
		behalf := agent
		behalf.Scopes |= workitem.ScopeOnBehalf
		h := f.submitAs(f.Jobs(behalf), in)
		equal(f, "the owner", f.get(h.JobID).OwnerID, "actor-b")
		_, err = f.jobs.Submit(f.ctx, in)
		f.refused(err, workitem.UnauthorizedTarget)
		in = &workitem.SubmitInput{Request: newRequest("k", "tenant_id", "tenant-b").json()}
		_, err = f.root.Submit(f.ctx, in)
		f.refused(err, workitem.UnauthorizedTarget)
	}},

	{name: "every verb takes its scope", run: func(f *fixture) {
		h := f.submit(gated("k"))
		verbs := map[string]func(jobs operation.Jobs) error{
			"submit": func(jobs operation.Jobs) error {
				_, err := jobs.Submit(f.ctx, &workitem.SubmitInput{Request: newRequest("other").json()})
				return err
			},
			"list":  func(jobs operation.Jobs) error { _, err := jobs.List(f.ctx, &workitem.ListInput{}); return err },
			"stats": func(jobs operation.Jobs) error { _, err := jobs.Stats(f.ctx, &workitem.NoInput{}); return err },
			"reconcile": func(jobs operation.Jobs) error {
				_, err := jobs.Reconcile(f.ctx, &workitem.ReconcileInput{})
				return err
			},
			"claim-next": func(jobs operation.Jobs) error {
				_, err := jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1"})
				return err
			},
			"prune": func(jobs operation.Jobs) error {
				_, err := jobs.Prune(f.ctx, &workitem.PruneInput{OlderThan: 1e6})
				return err
			},
			"raise epoch": func(jobs operation.Jobs) error {
				_, err := jobs.RaiseEpoch(f.ctx, &workitem.NoInput{})
				return err
			},
			"tokens": func(jobs operation.Jobs) error { _, err := jobs.Tokens(f.ctx, &workitem.NoInput{}); return err },
		}
		for _, verb := range jobVerbs {
			verbs[verb.name] = func(jobs operation.Jobs) error { return verb.call(f, jobs, h.JobID) }
		}
		r, w, k, tn, adm := workitem.ScopeRead, workitem.ScopeWrite, workitem.ScopeWork, workitem.ScopeTenant, workitem.ScopeAdmin
		needs := map[string][]workitem.Scope{ // any of these
			"get": {r}, "result": {r}, "explain": {r}, "history": {r}, "graph": {r}, "list": {r}, "stats": {r | tn},
			"submit": {w}, "cancel": {w}, "retry": {w},
			"claim": {k}, "current claim": {k}, "claim-next": {k}, "heartbeat": {k}, "checkpoint": {k}, "commit": {k}, "defer": {k},
			"reconcile": {k, adm}, "consent": {adm}, "prune": {adm}, "raise epoch": {adm}, "tokens": {adm},
		}
		for name, call := range verbs {
			if needs[name] == nil {
				f.Fatalf("no scope is listed for %s", name)
			}
			for _, s := range []workitem.Scope{0, r | tn, w | tn, k | tn, tn, adm, r} {
				p := agent
				p.Scopes = s
				allowed := false
				for _, need := range needs[name] {
					allowed = allowed || s.Has(need)
				}
				if allowed {
					continue // the other tests use it
				}
				err := call(f.Jobs(p))
				f.Logf("%s with %v", name, s.Names())
				f.refused(err, workitem.ForbiddenScope)
			}
		}
		equal(f, "the events", len(f.events(h.JobID)), 1)
	}},

	{name: "workers without jobs:tenant claim for any owner of the tenant", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		worker := f.Jobs(as(tenant, "worker", workitem.ScopeWork|workitem.ScopeRead|workitem.ScopeTenant))
		a, err := worker.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1"})
		f.ok(err)
		equal(f, "the claimed job", a.Claim.JobID, h.JobID)
	}},

	{name: "either form of an identifier is taken, nothing else", run: func(f *fixture) {
		h := f.submit(newRequest("k"))
		uuid := h.JobID[len("rmjob:"):]
		f.get(h.JobID)
		f.get(h.WorkItemID)
		for _, id := range []string{uuid, "rmjob:", "RMJOB:" + uuid, h.JobID + "\n", " " + h.JobID, "rmjob:{" + uuid + "}", "workitem:" + uuid} {
			for _, verb := range jobVerbs {
				f.Logf("%s of %q", verb.name, id)
				f.refused(verb.call(f, f.root, id), workitem.InvalidRequest)
			}
		}
	}},

	{name: "many tenants have quotas of their own", config: func(cfg *workitem.Config) { cfg.Quota = 1 }, run: func(f *fixture) {
		for i := range 5 {
			p := agent
			p.Tenant = fmt.Sprint("tenant-", i)
			jobs := f.Jobs(p)
			for k := range 2 {
				f.submitAs(jobs, &workitem.SubmitInput{Request: newRequest(fmt.Sprint(k), "tenant_id", p.Tenant).json()})
			}
			for _, want := range []string{workitem.ReasonClaimed, workitem.ReasonTenantQuota} {
				a, err := jobs.ClaimNext(f.ctx, &workitem.ClaimNextInput{Kind: build, Worker: "w1"})
				f.ok(err)
				equal(f, "the answer", a.Reason, want)
			}
		}
	}},
}
