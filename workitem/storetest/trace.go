package storetest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

//go:embed testdata/lifecycle.json
var lifecycleJSON []byte

// traceStep is one call of a trace, what it is answered, and the row after it.
type traceStep struct {
	Op           string          `json:"op"`
	Now          float64         `json:"now"`
	Worker       string          `json:"worker"`
	TTL          *float64        `json:"lease_ttl_s"`
	Checkpoint   string          `json:"checkpoint"`
	Outcome      string          `json:"outcome"`
	ResultRef    *string         `json:"result_ref"`
	Retryable    *bool           `json:"retryable"`
	FailureClass *string         `json:"failure_class"`
	Result       json.RawMessage `json:"result"`
	After        traceRow        `json:"after"`
}

// traceRow is the part of a row that traces show. Times are seconds.
type traceRow struct {
	Status         string   `json:"status"`
	Attempt        int      `json:"attempt"`
	LeaseOwner     *string  `json:"lease_owner"`
	LeaseEpoch     int64    `json:"lease_epoch"`
	FencingToken   int64    `json:"fencing_token"`
	LeaseExpiresAt *float64 `json:"lease_expires_at"`
	NextRetryAt    *float64 `json:"next_retry_at"`
	DepCount       int      `json:"dep_count"`
	ErrorRef       *string  `json:"error_ref"`
	ResultRef      *string  `json:"result_ref"`
}

// row reads a row as traces show it.
func (f *fixture) row(id string) traceRow {
	f.Helper()
	it := f.item(id)
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	at := func(i workitem.Instant) *float64 {
		if i == 0 {
			return nil
		}
		return ptr(i.Seconds())
	}
	return traceRow{it.Status.String(), it.Attempt, text(it.LeaseOwner), it.LeaseEpoch, it.FencingToken, at(it.LeaseExpiresAt),
		at(it.NextRetryAt), it.DepCount, text(it.ErrorRef), text(it.ResultRef)}
}

func shown(r traceRow) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // a row always is JSON
	}
	return string(text)
}

// tracer replays one trace. The traces leave out what stands before their first
// step; a test of one sets it up.
type tracer struct {
	*fixture
	steps   []traceStep
	id      string
	claims  map[string]*workitem.Claim // newest of each worker
	last    string                     // worker of the newest claim
	mode    string                     // of cancellations
	parents map[string]string          // id of parent a, b, f
}

// trace reads a trace of testdata/lifecycle.json.
func trace(f *fixture, name string, v any) {
	f.Helper()
	var file struct {
		Traces map[string]json.RawMessage `json:"traces"`
	}
	f.ok(json.Unmarshal(lifecycleJSON, &file))
	f.ok(json.Unmarshal(file.Traces[name], v))
}

func newTracer(f *fixture, name string) *tracer {
	f.Helper()
	tr := &tracer{fixture: f, claims: map[string]*workitem.Claim{}, parents: map[string]string{}}
	var body struct {
		Steps []traceStep `json:"steps"`
	}
	trace(f, name, &body)
	if len(body.Steps) == 0 {
		f.Fatalf("there is no trace %s", name)
	}
	for i := range body.Steps {
		var compact bytes.Buffer
		f.ok(json.Compact(&compact, body.Steps[i].Result))
		body.Steps[i].Result = compact.Bytes()
	}
	tr.steps = body.Steps
	return tr
}

func seconds(s float64) workitem.Instant { return workitem.Instant(s * 1e6) }

func (tr *tracer) replay() {
	tr.Helper()
	for i, step := range tr.steps {
		tr.until(seconds(step.Now))
		if got := tr.step(step); got != string(step.Result) {
			tr.Fatalf("step %d, %s: answered with %s, want %s", i, step.Op, got, step.Result)
		}
		if got, want := shown(tr.row(tr.id)), shown(step.After); got != want {
			tr.Fatalf("the row after step %d, %s:\n%s\nwant\n%s", i, step.Op, got, want)
		}
	}
}

// step makes the call, and gives its answer in the spelling of the traces.
func (tr *tracer) step(s traceStep) string {
	tr.Helper()
	op, worker, _ := strings.Cut(s.Op, " by ")
	if worker == "" {
		worker = s.Worker
	}
	quoted := func(status string) string { return `"` + status + `"` }
	said := func(err error) string {
		if err != nil {
			tr.refused(err, workitem.StaleFence)
			return "false"
		}
		return "true"
	}
	ttl := time.Hour
	if s.TTL != nil {
		ttl = time.Duration(*s.TTL * float64(time.Second))
	}
	if op == "claim" || op == "claim child" {
		if worker == "" && tr.last == "" {
			worker = "w1"
		} else if worker == "" {
			worker = "w2"
		}
		a := tr.tryClaim(tr.id, worker, ttl)
		if !a.Claimed {
			return quoted("not claimed")
		}
		tr.claims[worker], tr.last = a.Claim, worker
		return quoted("claimed")
	}
	if worker == "" {
		worker = tr.last
	}
	c := tr.claims[worker]
	switch op {
	case "submit":
		h := tr.submit(newRequest("traced"))
		tr.id = h.JobID
		return `{"state":"` + h.State + `"}`
	case "submit child":
		h := tr.submit(newRequest("child", "dependencies", []string{tr.parents["a"], tr.parents["b"]}))
		tr.id = h.JobID
		return `{"state":"` + h.State + `"}`
	case "submit child of an already succeeded parent":
		h := tr.submit(newRequest("late", "dependencies", []string{tr.parents["a"]}))
		tr.id = h.JobID
		return `{"state":"` + h.State + `"}`
	case "commit parent a succeeded", "commit parent b succeeded":
		tr.succeed(tr.parents[strings.Fields(op)[2]])
		return quoted("committed")
	case "commit parent f failed (not retryable)":
		tr.id = tr.submit(newRequest("blocked", "dependencies", []string{tr.parents["f"]})).JobID
		tr.fail(tr.parents["f"])
		return quoted("committed")
	case "reconcile":
		tr.reconcile(0, 0)
		return "0"
	case "claim_next":
		if tr.next("repository.release", "w1").Claimed {
			return quoted("claimed")
		}
		return quoted("not claimed")
	case "heartbeat":
		return said(tr.heartbeat(c, ttl))
	case "checkpoint":
		name := s.Checkpoint
		if name == "" {
			name = "checkpoint:late"
		}
		_, err := tr.jobs.Checkpoint(tr.ctx, &workitem.CheckpointInput{JobID: tr.id, Claim: c.Fence(), Checkpoint: name, LeaseTTL: ptr(ttl.Seconds())})
		return said(err)
	case "cancel":
		a, err := tr.cancel(tr.id, tr.mode)
		if err != nil {
			tr.refused(err, workitem.InFlight)
			return "false"
		}
		equal(tr.fixture, "cancelled", a.Cancelled, true)
		return "true"
	case "commit":
		status, err := tr.committing(c, s.Outcome, func(in *workitem.CommitInput) {
			in.ResultRef, in.Retryable, in.FailureClass = s.ResultRef, s.Retryable, s.FailureClass
			if s.After.ResultRef != nil && in.ResultRef == nil {
				in.ResultRef = s.After.ResultRef
			}
		})
		if err != nil {
			tr.refused(err, workitem.StaleFence)
			return quoted("fenced")
		}
		return quoted(status)
	}
	tr.Fatalf("no trace has a step %q", s.Op)
	return ""
}

var traceTests = []test{
	{name: "happy_path", at: 99, run: func(f *fixture) { newTracer(f, "happy_path").replay() }},
	{name: "expiry_and_fence", at: 99, run: func(f *fixture) {
		tr := newTracer(f, "expiry_and_fence")
		tr.id = f.submit(newRequest("traced")).JobID
		tr.replay()
	}},
	{name: "retry_then_dead_letter", at: 99, run: func(f *fixture) {
		tr := newTracer(f, "retry_then_dead_letter")
		tr.id = f.limited(2, 30, newRequest("traced")).JobID
		tr.replay()
	}},
	{name: "lease_exhausted", at: 99, run: func(f *fixture) {
		tr := newTracer(f, "lease_exhausted")
		tr.id = f.limited(1, 30, newRequest("traced")).JobID
		tr.replay()
	}},
	{name: "non_retryable", at: 99, run: func(f *fixture) { leasedTracer(f, "non_retryable", "").replay() }},
	{name: "cancel_live_lease", at: 99, run: func(f *fixture) { leasedTracer(f, "cancel_live_lease", "").replay() }},
	{name: "cancel_live_lease_if_idle", at: 99, run: func(f *fixture) { leasedTracer(f, "cancel_live_lease_if_idle", "if_idle").replay() }},
	{name: "dag_release", at: 99, run: func(f *fixture) {
		tr := newTracer(f, "dag_release")
		for _, name := range []string{"a", "b", "f"} {
			tr.parents[name] = f.submit(newRequest("parent " + name)).WorkItemID
		}
		tr.replay()
	}},
	{name: "consent_claim_next", at: 99, run: func(f *fixture) {
		tr := newTracer(f, "consent_claim_next")
		tr.id = f.submit(gated("traced")).JobID
		f.consent(tr.id, "expire_at", ptr(seconds(150).RFC3339()))
		tr.replay()
	}},
}

// leasedTracer replays a trace that begins with a lease of a minute, granted at 100.
func leasedTracer(f *fixture, name, mode string) *tracer {
	f.Helper()
	tr := newTracer(f, name)
	tr.mode = mode
	tr.id = f.submit(newRequest("traced")).JobID
	f.until(seconds(100))
	tr.claims["w1"], tr.last = f.claim(tr.id, "w1", time.Minute), "w1"
	return tr
}
