package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// machine makes random calls to the authority and to the model.
type machine struct {
	*model
	f      *fixture
	ctx    context.Context
	tenant string
	as     workitem.Principal
	jobs   operation.Jobs
	keys   []request
	claims []*workitem.Claim
}

// Model compares an authority with a small model of it, call by call. Each sequence
// of calls has a tenant of its own in one store.
func Model(t *testing.T, open Open) {
	const quota = 4
	f := newFixture(t, &test{config: func(cfg *workitem.Config) { cfg.Quota = quota }}, open)
	tenants := 0
	rapid.Check(t, func(rt *rapid.T) {
		tenants++
		p := agent
		p.Tenant = fmt.Sprint("model-", tenants)
		m := &machine{model: &model{quota: quota, now: f.now()}, f: f, ctx: f.ctx, tenant: p.Tenant, as: p, jobs: f.Jobs(p)}
		for range rapid.IntRange(0, 8).Draw(rt, "jobs at first") {
			m.submitting(rt)
		}
		rt.Repeat(map[string]func(*rapid.T){ // what is there more than once is drawn more often
			"submit": m.submitting, "resubmit": m.resubmitting, "claim": m.claiming, "claim next": m.claimingNext,
			"claim next 2": m.claimingNext, "claim next 3": m.claimingNext, "heartbeat": m.beating,
			"commit": m.committing, "commit 2": m.committing, "commit 3": m.committing,
			"defer": m.postponing, "defer 2": m.postponing, "cancel": m.cancelling, "retry": m.retrying,
			"advance": m.advancing, "advance 2": m.advancing, "reopen": m.reopening, "": m.compare,
		})
		m.look(rt)
		m.drain(rt)
		m.look(rt)
	})
}

// code is the code of a refusal, or empty.
func code(t *rapid.T, err error) workitem.Code {
	if err == nil {
		return ""
	}
	var e *workitem.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	return e.Code
}

func agreed[T comparable](t *rapid.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: the authority says %v, the model %v", what, got, want)
	}
}

// some draws a job, an old one too.
func (m *machine) some(t *rapid.T) *modelJob {
	if len(m.model.jobs) == 0 {
		t.Skip("there are no jobs")
	}
	return rapid.SampledFrom(m.model.jobs).Draw(t, "job")
}

// held draws a claim that was granted, and its job.
func (m *machine) held(t *rapid.T) (*workitem.Claim, *modelJob) {
	if len(m.claims) == 0 {
		t.Skip("nothing was claimed")
	}
	recent := m.claims[max(0, len(m.claims)-6):]
	c := rapid.SampledFrom(recent).Draw(t, "claim")
	id := mustID(c.JobID)
	i := slices.IndexFunc(m.model.jobs, func(j *modelJob) bool { return j.id == id })
	return c, m.model.jobs[i]
}

var leases = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 5 * time.Second, time.Minute})

func (m *machine) submitting(t *rapid.T) {
	key := fmt.Sprint(len(m.keys))
	j := &modelJob{
		id:       workitem.NewID(m.tenant, key),
		group:    rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
		priority: rapid.SampledFrom([]int{0, 0, 1, 2, 3, 4, 10_000}).Draw(t, "priority"),
		max:      rapid.IntRange(1, 3).Draw(t, "attempts"),
		base:     rapid.SampledFrom([]time.Duration{0, 2 * time.Second, 500 * time.Millisecond}).Draw(t, "base"),
	}
	r := newRequest(key, "tenant_id", m.tenant, "fairness_group", j.group, "priority", j.priority)
	if rapid.IntRange(0, 3).Draw(t, "deadline") == 0 {
		j.deadline = m.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
		r["resources"] = map[string]any{"queue_deadline": j.deadline.RFC3339()}
	}
	parents := []string{}
	for range rapid.IntRange(0, 2).Draw(t, "parents") {
		if len(m.model.jobs) == 0 {
			break
		}
		p := m.some(t)
		parents = append(parents, p.id.JobID())
		if !slices.Contains(j.parents, p) {
			j.parents = append(j.parents, p)
		}
	}
	r["dependencies"] = parents
	h, err := m.jobs.Submit(m.ctx, &workitem.SubmitInput{Request: r.json(), MaxAttempts: &j.max, BackoffBase: ptr(j.base.Seconds())})
	if err != nil {
		t.Fatal(describe(err))
	}
	m.submit(j)
	m.keys = append(m.keys, r)
	agreed(t, "the job of a submission", h.JobID, j.id.JobID())
	agreed(t, "deduplicated", h.Deduplicated, false)
	agreed(t, "the state of a submission", h.State, j.status.State())
}

func (m *machine) resubmitting(t *rapid.T) {
	if len(m.keys) == 0 {
		t.Skip("nothing was submitted")
	}
	r := rapid.SampledFrom(m.keys).Draw(t, "request")
	id := workitem.NewID(m.tenant, r["idempotency_key"].(string))
	i := slices.IndexFunc(m.model.jobs, func(j *modelJob) bool { return j.id == id })
	h, err := m.jobs.Submit(m.ctx, &workitem.SubmitInput{Request: r.json()})
	if err != nil {
		t.Fatal(describe(err))
	}
	agreed(t, "deduplicated", h.Deduplicated, true)
	agreed(t, "the state of a resubmission", h.State, m.model.jobs[i].status.State())
	changed := newRequest("", "session_id", "another")
	for k, v := range r {
		if k != "session_id" {
			changed[k] = v
		}
	}
	_, err = m.jobs.Submit(m.ctx, &workitem.SubmitInput{Request: changed.json()})
	agreed(t, "a changed resubmission", code(t, err), workitem.DuplicateRequest)
}

func (m *machine) keep(t *rapid.T, c *workitem.Claim, j *modelJob) {
	m.claims = append(m.claims, c)
	agreed(t, "the claimed job", c.JobID, j.id.JobID())
	agreed(t, "the epoch of a claim", c.LeaseEpoch, j.epoch)
	agreed(t, "the attempt of a claim", c.Attempt, j.attempt)
	agreed(t, "the expiry of a claim", c.LeaseExpiresAt, j.expires.Seconds())
}

func (m *machine) claiming(t *rapid.T) {
	j, ttl := m.some(t), leases.Draw(t, "ttl")
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
	a, err := m.jobs.Claim(m.ctx, &workitem.ClaimInput{JobID: j.id.JobID(), Worker: worker, LeaseTTL: ptr(ttl.Seconds())})
	if err != nil {
		t.Fatal(describe(err))
	}
	agreed(t, "the answer to a claim", a.Reason, m.claim(j, worker, ttl))
	if a.Claimed {
		m.keep(t, a.Claim, j)
	}
}

func (m *machine) claimingNext(t *rapid.T) {
	ttl := leases.Draw(t, "ttl")
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker")
	a, err := m.jobs.ClaimNext(m.ctx, &workitem.ClaimNextInput{Kind: build, Worker: worker, LeaseTTL: ptr(ttl.Seconds())})
	if err != nil {
		t.Fatal(describe(err))
	}
	j, reason := m.claimNext(worker, ttl)
	agreed(t, "the answer to a claim-next", a.Reason, reason)
	if a.Claimed {
		m.keep(t, a.Claim, j)
		agreed(t, "the state in the answer", a.Job.State, "leased")
	}
}

func (m *machine) beating(t *rapid.T) {
	c, j := m.held(t)
	ttl, checkpoint := leases.Draw(t, "ttl"), ""
	var err error
	if rapid.Bool().Draw(t, "checkpoint") {
		checkpoint = fmt.Sprint("checkpoint:", len(m.claims))
		_, err = m.jobs.Checkpoint(m.ctx, &workitem.CheckpointInput{JobID: c.JobID, Claim: c.Fence(), Checkpoint: checkpoint, LeaseTTL: ptr(ttl.Seconds())})
	} else {
		_, err = m.jobs.Heartbeat(m.ctx, &workitem.HeartbeatInput{JobID: c.JobID, Claim: c.Fence(), LeaseTTL: ptr(ttl.Seconds())})
	}
	want := workitem.StaleFence
	if m.renew(j, c.LeaseOwner, c.LeaseEpoch, ttl, checkpoint) {
		want = ""
	}
	agreed(t, "the answer to a heartbeat", code(t, err), want)
}

func (m *machine) committing(t *rapid.T) {
	c, j := m.held(t)
	outcome := rapid.SampledFrom([]string{"succeeded", "succeeded", "failed", "failed", "cancelled"}).Draw(t, "outcome")
	retryable := rapid.Bool().Draw(t, "retryable")
	s, err := m.jobs.Commit(m.ctx, &workitem.CommitInput{JobID: c.JobID, Claim: c.Fence(), Outcome: outcome, Retryable: &retryable})
	want := m.commit(j, c.LeaseOwner, c.LeaseEpoch, outcome, retryable)
	if want == "" {
		agreed(t, "the answer to a commit", code(t, err), workitem.StaleFence)
		return
	}
	agreed(t, "the answer to a commit", code(t, err), "")
	agreed(t, "the answer to a commit", s.Status, want)
}

func (m *machine) postponing(t *rapid.T) {
	c, j := m.held(t)
	delay := rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "delay")
	_, err := m.jobs.Defer(m.ctx, &workitem.DeferInput{JobID: c.JobID, Claim: c.Fence(), Delay: ptr(delay.Seconds())})
	want := workitem.StaleFence
	if m.postpone(j, c.LeaseOwner, c.LeaseEpoch, delay) {
		want = ""
	}
	agreed(t, "the answer to a defer", code(t, err), want)
}

func (m *machine) cancelling(t *rapid.T) {
	j := m.some(t)
	mode := rapid.SampledFrom([]string{"force", "if_idle"}).Draw(t, "mode")
	a, err := m.jobs.Cancel(m.ctx, &workitem.CancelInput{JobID: j.id.JobID(), Mode: mode})
	before := j.status
	agreed(t, "the answer to a cancellation", code(t, err), m.cancel(j, mode))
	if err == nil {
		agreed(t, "changed", a.Changed, before != j.status)
	}
}

func (m *machine) retrying(t *rapid.T) {
	j := m.some(t)
	adopt := rapid.Bool().Draw(t, "adopt")
	h, err := m.jobs.Retry(m.ctx, &workitem.RetryInput{JobID: j.id.JobID(), Adopt: adopt})
	id := workitem.NewID(m.tenant, fmt.Sprintf("retry:%s:%d", j.id.JobID(), j.attempt+1))
	next, known, adopted := m.retry(j, id, adopt)
	if next == nil {
		agreed(t, "the answer to a retry", code(t, err), workitem.InvalidState)
		return
	}
	if err != nil {
		t.Fatal(describe(err))
	}
	agreed(t, "the job of a retry", h.JobID, next.id.JobID())
	agreed(t, "deduplicated", h.Deduplicated, known)
	agreed(t, "adopted", h.Adopted, adopted)
}

func (m *machine) advancing(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Second, 4 * time.Second, 30 * time.Second}).Draw(t, "time")
	m.f.Clock.Advance(d)
	m.now = m.now.Add(d)
}

// reopening is rare: it costs more than all the other calls.
func (m *machine) reopening(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "reopen") == 0 {
		m.f.Reopen()
		m.jobs = m.f.Jobs(m.as)
	}
}

// modelRow is what the model knows of a row.
type modelRow struct {
	status           workitem.Status
	depCount         int
	attempt, defers  int
	epoch, token     int64
	worker           string
	retryAt, expires workitem.Instant
	checkpoint       string
	errorRef         string
}

// compare wants all rows to be those of the model.
func (m *machine) compare(t *rapid.T) {
	err := m.f.Store().View(m.ctx, func(r workitem.Reader) error {
		agreed(t, "the time", r.Now(), m.now)
		for _, j := range m.model.jobs {
			it, err := r.Item(j.id)
			if err != nil {
				return err
			}
			if it == nil {
				t.Fatalf("a job is lost")
			}
			got := modelRow{it.Status, it.DepCount, it.Attempt, it.DeferCount, it.LeaseEpoch, it.FencingToken,
				it.LeaseOwner, it.NextRetryAt, it.LeaseExpiresAt, it.Checkpoint, it.ErrorRef}
			want := modelRow{j.status, j.pending(), j.attempt, j.defers, j.epoch, j.epoch,
				j.worker, j.retryAt, j.expires, j.checkpoint, j.errorRef}
			if j.status != workitem.Submitted {
				want.depCount = got.depCount // not kept once the job was released
			}
			agreed(t, "the row "+j.id.JobID(), got, want)
		}
		n, err := r.Leases(m.tenant)
		agreed(t, "the live leases", n, m.leases())
		return err
	})
	if err != nil {
		t.Fatal(describe(err))
	}
}

// drain lets time pass and claims whatever comes, until nothing is left to come.
func (m *machine) drain(t *rapid.T) {
	for _, d := range []time.Duration{0, 500 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 10 * time.Second, time.Minute} {
		m.f.Clock.Advance(d)
		m.now = m.now.Add(d)
		for claimed := true; claimed; {
			before := len(m.claims)
			m.claimingNext(t)
			if claimed = len(m.claims) > before; claimed {
				c := m.claims[before]
				s, err := m.jobs.Commit(m.ctx, &workitem.CommitInput{JobID: c.JobID, Claim: c.Fence(), Outcome: "succeeded"})
				if err != nil {
					t.Fatal(describe(err))
				}
				id := mustID(c.JobID)
				i := slices.IndexFunc(m.model.jobs, func(j *modelJob) bool { return j.id == id })
				agreed(t, "the answer to a commit", s.Status, m.commit(m.model.jobs[i], c.LeaseOwner, c.LeaseEpoch, "succeeded", false))
			}
		}
	}
	m.compare(t)
}

// look looks at everything that lists or counts jobs.
func (m *machine) look(t *rapid.T) {
	p := agent
	p.Tenant, p.Scopes = m.tenant, workitem.ScopeAdmin
	root := m.f.Jobs(p)
	r, err := root.Reconcile(m.ctx, &workitem.ReconcileInput{})
	if err != nil {
		t.Fatal(describe(err))
	}
	agreed(t, "repaired", r.Repaired, 0)
	agreed(t, "faults", r.Faults, 0)
	claimable := 0
	for _, j := range m.model.jobs {
		if m.obstacle(j) == "" && j.attempt < j.max {
			claimable++
		}
	}
	stats, err := root.Stats(m.ctx, &workitem.NoInput{})
	if err != nil {
		t.Fatal(describe(err))
	}
	agreed(t, "claimable by the counts", stats.Claimable, claimable)
	for _, c := range []struct {
		in   workitem.ListInput
		want int
	}{{workitem.ListInput{}, len(m.model.jobs)}, {workitem.ListInput{Claimable: ptr(true)}, claimable}} {
		c.in.Limit = ptr(1000)
		page, err := root.List(m.ctx, &c.in)
		if err != nil {
			t.Fatal(describe(err))
		}
		agreed(t, "the number of listed jobs", len(page.Items), c.want)
	}
}
