package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// authority is a small one in memory: jobs with leases and fences, by a clock that
// is given. Verbs that no worker calls are not there.
type authority struct {
	operation.Jobs
	now func() time.Duration

	// before, if not nil, may answer instead of the authority; after may lose the
	// answer of a call that had its effect. Both are called without lock; interrupt
	// sets before once the worker runs.
	before, after func(verb string) error

	mu      sync.Mutex
	ready   []*job
	jobs    map[string]*job
	claims  map[string]*job // by claim request id
	changed chan struct{}   // closed and replaced when a job becomes ready
	calls   []string
	quota   bool // claims are refused by the quota of the tenant
}

type job struct {
	id         string
	view       workitem.View
	state      string
	fence      int64
	attempt    int
	until      time.Duration
	owner      string
	ttl        time.Duration
	checkpoint *string
	commit     *workitem.CommitInput
	deferred   *workitem.DeferInput
}

func newAuthority(now func() time.Duration) *authority {
	return &authority{now: now, jobs: map[string]*job{}, claims: map[string]*job{}, changed: make(chan struct{})}
}

// submit makes a job ready.
func (a *authority) submit(n int) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := fmt.Sprintf("%08x-0000-5000-8000-000000000000", n)
	j := &job{id: "rmjob:" + id, state: "ready", view: workitem.View{ContractVersion: "1",
		JobID: "rmjob:" + id, WorkItemID: "workitem:repository_manager:" + id, Operation: "build", Kind: "repository.build",
		RepositoryID: "repo-a", BaseRef: "main", BaseSHA: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}
	a.jobs[j.id] = j
	a.put(j)
	return j
}

// put makes a job claimable. The lock is held.
func (a *authority) put(j *job) {
	j.state = "ready"
	a.ready = append(a.ready, j)
	close(a.changed)
	a.changed = make(chan struct{})
}

// cancel takes a job from its holder.
func (a *authority) cancel(j *job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.state = "cancelled"
	j.fence++
}

// interrupt sets what is done before every verb.
func (a *authority) interrupt(before func(verb string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before = before
}

// seen is what was called so far.
func (a *authority) seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.calls...)
}

// count is how often a verb was called.
func (a *authority) count(verb string) int {
	n := 0
	for _, c := range a.seen() {
		if c == verb {
			n++
		}
	}
	return n
}

// look gives a copy of a job.
func (a *authority) look(j *job) job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return *j
}

// call runs one verb.
func (a *authority) call(ctx context.Context, verb string, do func() error) error {
	a.mu.Lock()
	a.calls = append(a.calls, verb)
	before, after := a.before, a.after
	a.mu.Unlock()
	if before != nil {
		if err := before(verb); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.mu.Lock()
	err := do()
	a.mu.Unlock()
	if err == nil && after != nil {
		return after(verb)
	}
	return err
}

func (a *authority) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	answer := &workitem.ClaimAnswer{Reason: workitem.ReasonEmpty}
	err := a.call(ctx, "claim", func() error {
		j, again := a.claims[in.ClaimRequestID]
		if !again {
			timer := time.NewTimer(time.Duration(*in.Wait * float64(time.Second)))
			defer timer.Stop()
			for len(a.ready) == 0 || a.quota {
				if a.quota {
					answer.Reason = workitem.ReasonTenantQuota
					return nil
				}
				changed := a.changed
				a.mu.Unlock()
				expired := false
				select {
				case <-changed:
				case <-timer.C:
					expired = true
				case <-ctx.Done():
				}
				a.mu.Lock()
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if expired {
					return nil
				}
			}
			j = a.ready[0]
			a.ready = a.ready[1:]
			a.claims[in.ClaimRequestID] = j
			j.attempt++
			j.fence++
			j.owner, j.ttl = in.Worker, time.Duration(*in.LeaseTTL*float64(time.Second))
			j.until = a.now() + j.ttl
			j.state = "leased"
		}
		view := j.view
		view.State, view.Checkpoint = j.state, j.checkpoint
		answer = &workitem.ClaimAnswer{Claimed: true, Reason: workitem.ReasonClaimed, Job: &view, Trace: "00-trace", Claim: &workitem.Claim{
			WorkItemID: view.WorkItemID, JobID: j.id, Kind: view.Kind, LeaseOwner: j.owner, LeaseEpoch: j.fence, FenceToken: j.fence,
			FencingToken: j.fence, Attempt: j.attempt, MaxAttempts: 3}}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// held finds the job of a claim if its lease is live. The lock is held.
func (a *authority) held(id string, f workitem.Fence) (*job, error) {
	j := a.jobs[id]
	if j == nil {
		return nil, &workitem.Error{Code: workitem.NotFound}
	}
	if (j.state != "leased" && j.state != "running") || j.fence != f.FencingToken || j.owner != f.LeaseOwner || j.until < a.now() {
		return nil, &workitem.Error{Code: workitem.StaleFence, Message: "the lease is not the caller's", Outcome: "fenced"}
	}
	return j, nil
}

func (a *authority) Heartbeat(ctx context.Context, in *workitem.HeartbeatInput) (*workitem.Renewal, error) {
	err := a.call(ctx, "heartbeat", func() error {
		j, err := a.held(in.JobID, in.Claim)
		if err == nil {
			j.state, j.until = "running", a.now()+j.ttl
		}
		return err
	})
	return &workitem.Renewal{Renewed: err == nil}, err
}

func (a *authority) Checkpoint(ctx context.Context, in *workitem.CheckpointInput) (*workitem.Checkpointed, error) {
	err := a.call(ctx, "checkpoint", func() error {
		j, err := a.held(in.JobID, in.Claim)
		if err == nil {
			j.state, j.until, j.checkpoint = "running", a.now()+j.ttl, &in.Checkpoint
		}
		return err
	})
	return &workitem.Checkpointed{Applied: err == nil}, err
}

func (a *authority) Commit(ctx context.Context, in *workitem.CommitInput) (*workitem.Settled, error) {
	settled := &workitem.Settled{Status: workitem.Committed}
	err := a.call(ctx, "commit", func() error {
		j := a.jobs[in.JobID]
		if j != nil && (j.state == "succeeded" || j.state == "failed" || j.state == "cancelled") {
			settled.Status = workitem.Noop
			return nil
		}
		j, err := a.held(in.JobID, in.Claim)
		if err != nil {
			return err
		}
		if in.ResultRef != nil && *in.ResultRef == "malformed" {
			return &workitem.Error{Code: workitem.InvalidRequest, Field: "result_ref", Message: "is malformed"}
		}
		j.commit = in
		j.state = in.Outcome
		if in.Outcome == "failed" && *in.Retryable {
			j.fence++
			settled.Status = workitem.RetryScheduled
			j.state = "backoff"
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

func (a *authority) Defer(ctx context.Context, in *workitem.DeferInput) (*workitem.Settled, error) {
	err := a.call(ctx, "defer", func() error {
		j, err := a.held(in.JobID, in.Claim)
		if err == nil {
			j.deferred = in
			j.fence++
			j.attempt--
			j.state = "deferred"
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &workitem.Settled{Status: workitem.Deferred}, nil
}

// unreachable is what a client says of a server that does not answer.
var unreachable = &workitem.Error{Code: workitem.AuthorityUnavailable, Message: "the server can't be reached"}

// journal collects events.
type journal struct {
	mu     sync.Mutex
	events []Event
	on     func(Event) // if not nil, is called for each
}

func (l *journal) note(e Event) {
	l.mu.Lock()
	l.events = append(l.events, e)
	on := l.on
	l.mu.Unlock()
	if on != nil {
		on(e)
	}
}

// of gives the events of one kind.
func (l *journal) of(kind EventKind) (found []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}
