package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/workitem"
)

var jobKills = flag.Int("jobkills", 6, "how many servers TestKillJobs ends with SIGKILL in a storm of jobs")

// TestKillJobs kills servers in a storm of submissions, claims and commits, and
// compares what the clients were told with what the next server shows: nothing that
// was acknowledged is lost, no job has two ends, no epoch was granted twice, and
// every success has released its child, or is not there at all.
func TestKillJobs(t *testing.T) {
	t.Parallel()
	v := newServed(t)
	s := newJobStorm(v.client)
	rng := rand.New(rand.NewPCG(20, 26))
	v.start(t)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 12 {
		workers.Go(func() { s.work(ctx, i) })
	}
	for range *jobKills {
		<-time.After(time.Duration(20+rng.IntN(120)) * time.Millisecond) // as good as any moment
		v.kill(t)
		v.start(t)
	}
	stop()
	workers.Wait()
	for _, err := range s.wrong {
		t.Error(err)
	}
	v.kill(t) // it may still be at calls that nobody waits for
	v.start(t)
	s.compare(t)
	v.stop(t)
}

// jobStorm is what the clients were told.
type jobStorm struct {
	servers []*client.Client // of one authority
	calls   atomic.Int64

	mu     sync.Mutex
	jobs   map[string]*stormJob // by key
	grants map[grantKey]string  // who was given an epoch
	wrong  []error
}

type grantKey struct {
	id    string
	epoch int64
}

// stormJob is one job as its clients know it.
type stormJob struct {
	key, parent string
	handle      *workitem.Handle // nil: nobody was told that it exists
	// What was said about the end of the job.
	committed string // result reference of the commit that was accepted
	tried     map[string]bool
	cancelled bool
}

func newJobStorm(servers ...*client.Client) *jobStorm {
	return &jobStorm{servers: servers, jobs: map[string]*stormJob{}, grants: map[grantKey]string{}}
}

// server is whom the next call goes to: each server in turn, so that a call that is
// repeated reaches another one.
func (s *jobStorm) server() *client.Client {
	return s.servers[int(s.calls.Add(1))%len(s.servers)]
}

func (s *jobStorm) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Errorf(format, args...))
}

// heard says whether a call was answered. If it was not, nobody knows whether it
// has happened.
func (s *jobStorm) heard(verb string, err error, expected ...workitem.Code) bool {
	var e *workitem.Error
	switch {
	case err == nil:
		return true
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &e) && e.Code == workitem.AuthorityUnavailable:
		return false
	case errors.As(err, &e):
		for _, code := range expected {
			if e.Code == code {
				return true
			}
		}
	}
	s.complain("%s: %w", verb, err)
	return true
}

// insist repeats a call until it is answered, as a client does that has lost its
// server. It gives the last error.
func insist(ctx context.Context, s *jobStorm, verb string, call func() error, expected ...workitem.Code) (error, bool) {
	again := time.NewTicker(3 * time.Millisecond)
	defer again.Stop()
	for {
		err := call()
		if s.heard(verb, err, expected...) {
			return err, true
		}
		select {
		case <-ctx.Done():
			return err, false
		case <-again.C:
		}
	}
}

func stormRequest(key, parent string) []byte {
	dependencies := ""
	if parent != "" {
		dependencies = fmt.Sprintf(`,"dependencies":[%q]`, workitem.NewID("local", parent).JobID())
	}
	return fmt.Appendf(nil, `{"request_id":"request %[1]s","idempotency_key":%[1]q,"operation":"build","repository_id":"r",`+
		`"base_ref":"main","base_sha":"%040d","owner_id":"tester","session_id":"s","tenant_id":"local"%s}`, key, 1, dependencies)
}

// work submits pairs of jobs, a child waiting for its parent, and works on whatever
// is ready.
func (s *jobStorm) work(ctx context.Context, number int) {
	rng := rand.New(rand.NewPCG(uint64(number), 1))
	worker := fmt.Sprint("w", number)
	for n := 0; ctx.Err() == nil; n++ {
		if n%2 == 0 {
			key := fmt.Sprintf("%s.%d", worker, n)
			s.submit(ctx, key, "")
			s.submit(ctx, key+".child", key)
		}
		s.claim(ctx, worker, fmt.Sprintf("%s.%d", worker, n), rng)
	}
}

func (s *jobStorm) submit(ctx context.Context, key, parent string) {
	j := &stormJob{key: key, parent: parent, tried: map[string]bool{}}
	s.mu.Lock()
	s.jobs[key] = j
	s.mu.Unlock()
	var h *workitem.Handle
	tries := 0
	_, heard := insist(ctx, s, "submit", func() (err error) {
		tries++
		h, err = s.server().Submit(ctx, &workitem.SubmitInput{Request: stormRequest(key, parent)})
		return err
	}, workitem.DependencyUnavailable)
	if !heard || h == nil {
		return
	}
	if tries == 1 && h.Deduplicated {
		s.complain("%s was submitted once and is answered as a duplicate", key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j.handle = h
}

// claim takes the next job and does one of the things that workers do.
func (s *jobStorm) claim(ctx context.Context, worker, call string, rng *rand.Rand) {
	ttl := 60.0
	if rng.IntN(4) == 0 {
		ttl = 0.03
	}
	var a *workitem.ClaimAnswer
	_, heard := insist(ctx, s, "claim-next", func() (err error) {
		a, err = s.server().ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: worker, LeaseTTL: &ttl, ClaimRequestID: call})
		return err
	}, workitem.InvalidState) // its lease has run out meanwhile
	if !heard || a == nil || !a.Claimed {
		return
	}
	c := a.Claim
	s.mu.Lock()
	j := s.jobs[strings.TrimPrefix(a.Job.RequestID, "request ")]
	if before, ok := s.grants[grantKey{c.JobID, c.LeaseEpoch}]; ok {
		s.wrong = append(s.wrong, fmt.Errorf("epoch %d of %s was granted to %s and to %s", c.LeaseEpoch, c.JobID, before, call))
	}
	s.grants[grantKey{c.JobID, c.LeaseEpoch}] = call
	s.mu.Unlock()
	if j == nil {
		s.complain("a job was claimed that nobody has submitted: %s", c.JobID)
		return
	}
	for range rng.IntN(3) {
		_, err := s.server().Heartbeat(ctx, &workitem.HeartbeatInput{JobID: c.JobID, Claim: c.Fence(), LeaseTTL: &ttl})
		if s.heard("heartbeat", err, workitem.StaleFence) && err != nil {
			return
		}
	}
	switch what := rng.IntN(20); {
	case what == 0: // the worker dies
	case what == 1:
		s.cancel(ctx, j, c)
	default:
		s.commit(ctx, j, c, call, what)
	}
}

func (s *jobStorm) cancel(ctx context.Context, j *stormJob, c *workitem.Claim) {
	s.mu.Lock()
	j.tried["cancel"] = true
	s.mu.Unlock()
	var a *workitem.Cancelled
	err, heard := insist(ctx, s, "cancel", func() (err error) {
		a, err = s.server().Cancel(ctx, &workitem.CancelInput{JobID: c.JobID})
		return err
	}, workitem.InvalidState)
	if heard && err == nil && a != nil && a.Cancelled {
		s.mu.Lock()
		j.cancelled = true
		s.mu.Unlock()
	}
}

func (s *jobStorm) commit(ctx context.Context, j *stormJob, c *workitem.Claim, call string, what int) {
	in := &workitem.CommitInput{JobID: c.JobID, Claim: c.Fence(), Outcome: "succeeded"}
	if what == 2 {
		in.Outcome, in.Retryable = "failed", new(bool)
	}
	ref := "artifact:" + call
	in.ResultRef = &ref
	s.mu.Lock()
	j.tried[ref] = true
	s.mu.Unlock()
	var status string
	tries := 0
	err, heard := insist(ctx, s, "commit", func() error {
		tries++
		settled, err := s.server().Commit(ctx, in)
		if err == nil {
			status = settled.Status
		}
		return err
	}, workitem.StaleFence)
	if !heard || err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch status {
	case workitem.Committed:
		if j.committed != "" {
			s.wrong = append(s.wrong, fmt.Errorf("%s was ended by %s and by %s", j.key, j.committed, ref))
		}
		j.committed = ref
	case workitem.Noop: // somebody else was first, or this commit when nobody heard the answer
	default:
		s.wrong = append(s.wrong, fmt.Errorf("a commit of %s is answered with %s", j.key, status))
	}
}

// compare holds what the clients were told against what the server has.
func (s *jobStorm) compare(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	views := map[string]*workitem.View{}
	in := workitem.ListInput{}
	for {
		page, err := s.server().List(ctx, &in)
		if err != nil {
			t.Fatal(err)
		}
		if page.Corrupt > 0 {
			t.Fatalf("%d rows are corrupt", page.Corrupt)
		}
		for i := range page.Items {
			v := &page.Items[i]
			views[strings.TrimPrefix(v.RequestID, "request ")] = v
		}
		if page.NextCursor == nil {
			break
		}
		in.Cursor = *page.NextCursor
	}
	r, err := s.server().Reconcile(ctx, &workitem.ReconcileInput{})
	if err != nil || r.Repaired != 0 || r.Faults != 0 {
		t.Fatalf("reconcile gives %+v, %v: a kill has torn a transaction", r, err)
	}
	s.count(t, views)
	ended, acknowledged, released := 0, 0, 0
	for key, j := range s.jobs {
		v := views[key]
		if v == nil {
			if j.handle != nil {
				t.Errorf("%s was acknowledged and is lost", key)
			}
			continue
		}
		again, err := s.server().Submit(ctx, &workitem.SubmitInput{Request: stormRequest(key, j.parent)})
		if err != nil || !again.Deduplicated || again.JobID != v.JobID || again.State != v.State {
			t.Fatalf("%s is there and a resubmission is answered with %+v, %v", key, again, err)
		}
		if j.handle != nil {
			acknowledged++
		}
		s.end(t, j, v)
		if v.CompletedAt != nil {
			ended++
		}
		if j.parent == "" {
			continue
		}
		// The child was released in the transaction of its parent's success.
		success := views[j.parent].State == "succeeded"
		if waits := v.State == "submitted"; waits == success && v.State != "cancelled" {
			t.Errorf("%s is %s, and its parent is %s", key, v.State, views[j.parent].State)
		}
		if success {
			released++
		}
	}
	if acknowledged == 0 || ended == 0 || released == 0 {
		t.Errorf("the storm was too short: %d jobs acknowledged, %d ended, %d released", acknowledged, ended, released)
	}
	t.Logf("%d jobs, %d acknowledged, %d grants, %d ended, %d children released", len(views), acknowledged, len(s.grants), ended, released)
}

// count compares the counts that the store keeps with the jobs.
func (s *jobStorm) count(t *testing.T, views map[string]*workitem.View) {
	t.Helper()
	counted := map[string]int{}
	for _, v := range views {
		counted[v.State]++
	}
	stats, err := s.server().Stats(t.Context(), &workitem.NoInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range stats.Kinds {
		for state, n := range k.States {
			counted[state] -= n
		}
	}
	for state, n := range counted {
		if n != 0 {
			t.Errorf("there are %d more jobs that are %s than were counted", n, state)
		}
	}
}

// end compares how a job has ended with what its clients tried, and its history
// with the grants that were answered.
func (s *jobStorm) end(t *testing.T, j *stormJob, v *workitem.View) {
	t.Helper()
	switch {
	case v.State == "succeeded" || v.State == "failed":
		if v.ResultRef == nil || !j.tried[*v.ResultRef] {
			t.Errorf("%s has ended as %s with a result of nobody", j.key, v.State)
		} else if j.committed != "" && j.committed != *v.ResultRef {
			t.Errorf("%s was ended by %s and shows %s", j.key, j.committed, *v.ResultRef)
		}
		if j.cancelled {
			t.Errorf("%s was cancelled and is %s", j.key, v.State)
		}
	case v.State == "cancelled":
		if !j.tried["cancel"] || j.committed != "" {
			t.Errorf("%s is cancelled; ended by %q", j.key, j.committed)
		}
	default:
		if j.committed != "" || j.cancelled {
			t.Errorf("%s was ended by %q, cancelled %v, and is %s", j.key, j.committed, j.cancelled, v.State)
		}
	}
	h, err := s.server().History(t.Context(), &workitem.JobInput{JobID: v.JobID})
	if err != nil {
		t.Fatal(err)
	}
	epochs, ends := map[int64]bool{}, 0
	for _, e := range h.Items {
		if e.Event == "claim" {
			if epochs[e.Epoch] {
				t.Errorf("the history of %s has two claims with epoch %d", j.key, e.Epoch)
			}
			epochs[e.Epoch] = true
		}
		switch e.To {
		case "succeeded", "failed", "cancelled", "dead-letter":
			ends++
		}
	}
	if want := v.CompletedAt != nil; ends > 1 || (ends == 1) != want {
		t.Errorf("the history of %s has %d ends and the job is %s", j.key, ends, v.State)
	}
	for g := range s.grants {
		if g.id == v.JobID && !epochs[g.epoch] {
			t.Errorf("epoch %d of %s was granted and is lost", g.epoch, j.key)
		}
	}
}
