package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// fixture is one test: a fresh store, and the callers that most tests need.
type fixture struct {
	*testing.T
	*Bundle
	Clock *Clock
	ctx   context.Context
	run   func(*fixture)
	jobs  operation.Jobs // submits, works and sees everything in tenant-a
	root  operation.Jobs // the admin of tenant-a
}

// The tenant and the kind of most jobs here.
const (
	tenant = "tenant-a"
	build  = "repository.build"
)

// agent is the caller behind fixture.jobs.
var agent = workitem.Principal{Subject: "agent", Tenant: tenant, Owner: "actor-a",
	Scopes: workitem.ScopeRead | workitem.ScopeWrite | workitem.ScopeWork | workitem.ScopeTenant}

// as is the agent with another tenant and owner, and only these scopes.
func as(tenant, owner string, scopes workitem.Scope) workitem.Principal {
	return workitem.Principal{Subject: owner, Tenant: tenant, Owner: owner, Scopes: scopes}
}

// restart closes the authority and opens it again.
func (f *fixture) restart() {
	f.Helper()
	f.Reopen()
	f.enter()
}

// enter gets the usual callers.
func (f *fixture) enter() {
	f.jobs = f.Jobs(agent)
	root := agent
	root.Subject, root.Scopes = "root", workitem.ScopeAdmin
	f.root = f.Jobs(root)
}

// request is a v1 request before it is written as JSON.
type request map[string]any

// newRequest is a small request; pairs are members that it has besides, or instead.
func newRequest(key string, pairs ...any) request {
	r := request{
		"request_id": "req-" + key, "idempotency_key": key, "operation": "build",
		"repository_id": "repo-a", "base_ref": "main", "base_sha": strings.Repeat("a", 40),
		"owner_id": agent.Owner, "session_id": "session-a", "tenant_id": tenant,
	}
	for i := 0; i < len(pairs); i += 2 {
		r[pairs[i].(string)] = pairs[i+1]
	}
	return r
}

// gated is what a request needs so that its job has a consent gate.
func gated(key string, pairs ...any) request {
	return newRequest(key, append([]any{"operation", "release", "consent", map[string]any{
		"allow_push": true, "risk_acknowledged": true, "risk_marker": "m-1"}}, pairs...)...)
}

func (r request) json() []byte {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // a test wrote something that is no JSON
	}
	return raw
}

// now is the time of the authority.
func (f *fixture) now() workitem.Instant {
	f.Helper()
	var now workitem.Instant
	f.view(func(r workitem.Reader) error { now = r.Now(); return nil })
	return now
}

// until lets time pass until an instant.
func (f *fixture) until(at workitem.Instant) {
	f.Helper()
	d := time.Duration(at-f.now()) * time.Microsecond
	if d < 0 {
		f.Fatalf("the clock is %v past %s", -d, at.RFC3339())
	}
	f.Clock.Advance(d)
}

func (f *fixture) view(fn func(workitem.Reader) error) {
	f.Helper()
	f.ok(f.Store().View(f.ctx, fn))
}

func (f *fixture) update(fn func(workitem.Tx) error) {
	f.Helper()
	f.ok(f.Store().Update(f.ctx, fn))
}

// item reads a row.
func (f *fixture) item(id string) workitem.Item {
	f.Helper()
	var row workitem.Item
	f.view(func(r workitem.Reader) error {
		it, err := r.Item(mustID(id))
		if err == nil && it == nil {
			f.Fatal("there is no such row")
		}
		if err == nil {
			row = *it
			row.DependsOn = slices.Clone(it.DependsOn)
			row.CorrelationID = "" // of the other half
		}
		return err
	})
	return row
}

// plant changes a row as no verb would. What was known of its dependencies is
// known no more, as with any row that the authority has not written itself.
func (f *fixture) plant(id string, edit func(*workitem.Item)) {
	f.Helper()
	f.update(func(tx workitem.Tx) error {
		it, err := tx.Item(mustID(id))
		if err != nil {
			return err
		}
		from := it.Status
		it.DepState = workitem.DepUnverified
		edit(it)
		return tx.Save(it, from, workitem.Event{})
	})
}

// unlink takes a job out of the reverse index of all its parents.
func (f *fixture) unlink(id string) {
	f.Helper()
	f.update(func(tx workitem.Tx) error {
		it, err := tx.Item(mustID(id))
		if err != nil {
			return err
		}
		for _, parent := range it.DependsOn {
			if err := tx.Unlink(parent, it.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// spoil inserts a copy of a job under another key, with a record that nobody can
// read, and gives its id.
func (f *fixture) spoil(id, key string) string {
	f.Helper()
	bad := workitem.NewID(tenant, key)
	f.update(func(tx workitem.Tx) error {
		it, err := tx.Item(mustID(id))
		if err != nil {
			return err
		}
		stored, err := tx.Stored(it)
		if err != nil {
			return err
		}
		row, half := *it, *stored
		row.Row, row.ID = 0, bad
		half.Metadata = []byte(`{"repository_work_item":{"job_id":"opaque:v1:"}}`)
		half.IdempotencyKey = workitem.ScopedKey(tenant, key)
		return tx.Insert(&row, &half, workitem.Event{At: tx.Now(), Name: "submit", To: row.Status})
	})
	return bad.JobID()
}

func ptr[T any](v T) *T { return &v }

// submit submits for the agent; it must be taken.
func (f *fixture) submit(r request) *workitem.Handle {
	f.Helper()
	return f.submitAs(f.jobs, &workitem.SubmitInput{Request: r.json()})
}

func (f *fixture) submitAs(jobs operation.Jobs, in *workitem.SubmitInput) *workitem.Handle {
	f.Helper()
	h, err := jobs.Submit(f.ctx, in)
	f.ok(err)
	return h
}

// limited submits with a number of attempts and a base of the backoff in seconds.
func (f *fixture) limited(attempts int, base float64, r request) *workitem.Handle {
	f.Helper()
	return f.submitAs(f.jobs, &workitem.SubmitInput{Request: r.json(), MaxAttempts: &attempts, BackoffBase: &base})
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(describe(err))
	}
}

// describe shows a refusal with everything that it has.
func describe(err error) string {
	var e *workitem.Error
	if errors.As(err, &e) {
		cause := ""
		if e.Err != nil {
			cause = ", because: " + e.Err.Error()
		}
		return string(e.Code) + ": " + e.Error() + cause
	}
	return err.Error()
}

// refused wants a refusal with the code, and gives it.
func (f *fixture) refused(err error, code workitem.Code) *workitem.Error {
	f.Helper()
	var e *workitem.Error
	switch {
	case err == nil:
		f.Fatalf("the call was accepted, want %s", code)
	case !errors.As(err, &e):
		f.Fatalf("%v is no refusal, want %s", err, code)
	case e.Code != code:
		f.Fatalf("refused with %s, want %s", describe(err), code)
	}
	return e
}

// alike wants two refusals that nobody can tell apart.
func (f *fixture) alike(a, b error) {
	f.Helper()
	var x, y *workitem.Error
	if !errors.As(a, &x) || !errors.As(b, &y) {
		f.Fatalf("%v and %v are not both refusals", a, b)
	}
	shown := func(e *workitem.Error) workitem.Error { c := *e; c.Err = nil; return c }
	if !reflect.DeepEqual(shown(x), shown(y)) {
		f.Fatalf("the refusals differ:\n%+v\n%+v", shown(x), shown(y))
	}
}

// equal wants got to be want.
func equal[T any](f *fixture, what string, got, want T) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Fatalf("%s is %+v, want %+v", what, got, want)
	}
}

// tryClaim claims one job for a worker, with a lease of ttl.
func (f *fixture) tryClaim(id, worker string, ttl time.Duration) *workitem.ClaimAnswer {
	f.Helper()
	a, err := f.jobs.Claim(f.ctx, &workitem.ClaimInput{JobID: id, Worker: worker, LeaseTTL: ptr(ttl.Seconds())})
	f.ok(err)
	if a.Claimed != (a.Claim != nil) || a.Claimed != (a.Reason == workitem.ReasonClaimed) {
		f.Fatalf("the answer contradicts itself: %+v", a)
	}
	return a
}

// claim claims one job, which must work.
func (f *fixture) claim(id, worker string, ttl time.Duration) *workitem.Claim {
	f.Helper()
	a := f.tryClaim(id, worker, ttl)
	if !a.Claimed {
		f.Fatalf("the job is not claimed: %s", a.Reason)
	}
	return a.Claim
}

// unclaimed wants a claim of the job to be answered with the reason.
func (f *fixture) unclaimed(id, reason string) {
	f.Helper()
	if a := f.tryClaim(id, "nobody", time.Minute); a.Reason != reason {
		f.Fatalf("the claim is answered with %s, want %s", a.Reason, reason)
	}
}

// next claims the next job of a kind; edits change the call.
func (f *fixture) next(kind, worker string, edits ...func(*workitem.ClaimNextInput)) *workitem.ClaimAnswer {
	f.Helper()
	in := &workitem.ClaimNextInput{Kind: kind, Worker: worker, LeaseTTL: ptr(60.0)}
	for _, edit := range edits {
		edit(in)
	}
	a, err := f.jobs.ClaimNext(f.ctx, in)
	f.ok(err)
	if a.Claimed != (a.Claim != nil) || a.Claimed != (a.Reason == workitem.ReasonClaimed) {
		f.Fatalf("the answer contradicts itself: %+v", a)
	}
	return a
}

// drain claims until nothing is left, and gives the job ids in that order.
func (f *fixture) drain(kind string, edits ...func(*workitem.ClaimNextInput)) []string {
	f.Helper()
	var ids []string
	for {
		a := f.next(kind, "w1", edits...)
		if !a.Claimed {
			if a.Reason != workitem.ReasonEmpty {
				f.Fatalf("after %d claims the answer is %s", len(ids), a.Reason)
			}
			return ids
		}
		ids = append(ids, a.Claim.JobID)
	}
}

func (f *fixture) heartbeat(c *workitem.Claim, ttl time.Duration) error {
	_, err := f.jobs.Heartbeat(f.ctx, &workitem.HeartbeatInput{JobID: c.JobID, Claim: c.Fence(), LeaseTTL: ptr(ttl.Seconds())})
	return err
}

func (f *fixture) checkpoint(c *workitem.Claim, name string) error {
	_, err := f.jobs.Checkpoint(f.ctx, &workitem.CheckpointInput{JobID: c.JobID, Claim: c.Fence(), Checkpoint: name, LeaseTTL: ptr(60.0)})
	return err
}

func (f *fixture) deferring(c *workitem.Claim, delay time.Duration) error {
	_, err := f.jobs.Defer(f.ctx, &workitem.DeferInput{JobID: c.JobID, Claim: c.Fence(), Delay: ptr(delay.Seconds())})
	return err
}

// committing ends an attempt; edits change the call.
func (f *fixture) committing(c *workitem.Claim, outcome string, edits ...func(*workitem.CommitInput)) (string, error) {
	in := &workitem.CommitInput{JobID: c.JobID, Claim: c.Fence(), Outcome: outcome}
	for _, edit := range edits {
		edit(in)
	}
	s, err := f.jobs.Commit(f.ctx, in)
	if err != nil {
		return "", err
	}
	return s.Status, nil
}

// commit wants a commit to be answered with the status.
func (f *fixture) commit(c *workitem.Claim, outcome, status string, edits ...func(*workitem.CommitInput)) {
	f.Helper()
	got, err := f.committing(c, outcome, edits...)
	f.ok(err)
	equal(f, "the answer to the commit", got, status)
}

// finally makes a failure the last one.
func finally(in *workitem.CommitInput) { in.Retryable = ptr(false) }

// succeed claims the job and commits its success.
func (f *fixture) succeed(id string) {
	f.Helper()
	f.commit(f.claim(id, "w1", time.Minute), "succeeded", workitem.Committed)
}

// fail claims the job and commits a failure that ends it.
func (f *fixture) fail(id string) {
	f.Helper()
	f.commit(f.claim(id, "w1", time.Minute), "failed", workitem.Committed, finally)
}

func (f *fixture) cancel(id, mode string) (*workitem.Cancelled, error) {
	return f.jobs.Cancel(f.ctx, &workitem.CancelInput{JobID: id, Mode: mode})
}

// get reads a job for the agent.
func (f *fixture) get(id string) *workitem.View {
	f.Helper()
	v, err := f.jobs.Get(f.ctx, &workitem.GetInput{JobID: id})
	f.ok(err)
	return v
}

func (f *fixture) state(id, want string) {
	f.Helper()
	equal(f, "the state", f.get(id).State, want)
}

// explain gives the diagnostics of a job.
func (f *fixture) explain(id string) *workitem.Diagnostics {
	f.Helper()
	d, err := f.jobs.Explain(f.ctx, &workitem.JobInput{JobID: id})
	f.ok(err)
	return d
}

// consent changes the consent of a job as the admin.
func (f *fixture) consent(id, action string, expires *string) *workitem.ConsentState {
	f.Helper()
	s, err := f.root.Consent(f.ctx, &workitem.ConsentInput{JobID: id, Action: action, ExpiresAt: expires})
	f.ok(err)
	return s
}

// reconcile wants a full pass that repairs and faults so many.
func (f *fixture) reconcile(repaired, faults int) {
	f.Helper()
	r, err := f.root.Reconcile(f.ctx, &workitem.ReconcileInput{})
	f.ok(err)
	if r.Repaired != repaired || r.Faults != faults {
		f.Fatalf("reconcile repaired %d with %d faults, want %d and %d", r.Repaired, r.Faults, repaired, faults)
	}
}

// list gives all job ids of a listing, over all of its pages.
func (f *fixture) list(in workitem.ListInput) []string {
	f.Helper()
	return f.listAs(f.jobs, in)
}

func (f *fixture) listAs(jobs operation.Jobs, in workitem.ListInput) []string {
	f.Helper()
	ids := []string{}
	for pages := 0; ; pages++ {
		page, err := jobs.List(f.ctx, &in)
		f.ok(err)
		for _, v := range page.Items {
			ids = append(ids, v.JobID)
		}
		if (page.NextCursor == nil) != page.Exhausted {
			f.Fatalf("a page has exhausted %v and a cursor: %v", page.Exhausted, page.NextCursor != nil)
		}
		if page.NextCursor == nil {
			return ids
		}
		if pages > 10_000 {
			f.Fatal("the listing does not end")
		}
		in.Cursor = *page.NextCursor
	}
}

// events gives what happened to a job, oldest first.
func (f *fixture) events(id string) []workitem.Transition {
	f.Helper()
	h, err := f.jobs.History(f.ctx, &workitem.JobInput{JobID: id})
	f.ok(err)
	return h.Items
}

// sorted is a sorted copy.
func sorted(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}
