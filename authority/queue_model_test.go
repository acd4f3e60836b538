package authority_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// queuedJob is what the model knows of a Job.
type queuedJob struct {
	repo      int
	index     uint32
	kind      record.JobKind
	state     record.JobState
	outcome   record.JobOutcome
	err       record.JobError
	attempts  uint16
	max       uint16
	available record.Seconds
	lease     authority.Lease // of the latest attempt
}

// queueMachine runs the queues of two Repositories against a model, by one owner or
// by two processes, with a clock that jumps, restarts and power cuts.
type queueMachine struct {
	fs    *vfs.Sim
	clock *authoritytest.Clock
	opt   authority.Options
	procs []*authority.Authority
	jobs  []*queuedJob
	given []authority.Lease // every lease ever given out
	of    []*queuedJob      // whose
}

// leaseTime and retryTime are what the model expects of the queue.
const leaseTime, retryTime = 60, 15

func (m *queueMachine) now() record.Seconds { return record.Seconds(m.clock.Now().Unix()) }

func (m *queueMachine) open(t *rapid.T, i int) {
	o := m.opt
	o.FS = m.fs
	if !o.Own {
		o.FS = m.fs.Process()
	}
	var err error
	if m.procs[i], err = authority.Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
}

func (m *queueMachine) proc(t *rapid.T) *authority.Authority {
	return m.procs[rapid.IntRange(0, len(m.procs)-1).Draw(t, "process")]
}

func (m *queueMachine) repo(t *rapid.T, i int) *authority.Repository {
	r, err := m.proc(t).Repository(context.Background(), authority.FirstRepository+uint32(i))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (j *queuedJob) live(now record.Seconds) bool {
	return j.state == record.JobStateRunning && j.lease.Heartbeat <= now && now < j.lease.ExpiresAt
}

// requeue is what happens to a Job whose attempt has ended badly.
func (j *queuedJob) requeue(now record.Seconds, again bool, why, final record.JobError) {
	if again && j.attempts < j.max {
		j.state, j.err, j.available = record.JobStateQueued, why, now+retryTime
		return
	}
	j.state, j.outcome, j.err = record.JobStateFailed, record.JobOutcomeFailed, final
}

// sweep gives back what dead holders have left in a Repository.
func (m *queueMachine) sweep(repo int) (n int) {
	for _, j := range m.jobs {
		if j.repo == repo && j.state == record.JobStateRunning && !j.live(m.now()) {
			j.requeue(m.now(), true, record.JobErrorLeaseExpired, record.JobErrorLeaseExpired)
			n++
		}
	}
	return n
}

func (m *queueMachine) claimed(t *rapid.T, j *queuedJob, l authority.Lease, request authority.RequestID) {
	now := m.now()
	j.state, j.attempts, j.lease = record.JobStateRunning, j.attempts+1, l
	if l.Job != j.index || l.Attempt != j.attempts || l.Heartbeat != now || l.ExpiresAt != now+leaseTime || l.Request != request || l.Token == (authority.LeaseToken{}) {
		t.Fatalf("job %d/%d, attempt %d: lease %+v", j.repo, j.index, j.attempts, l)
	}
	m.given, m.of = append(m.given, l), append(m.of, j)
}

var queueKinds = []record.JobKind{record.JobKindContentGC, record.JobKindContentPack}

func drawRequest(t *rapid.T) (r authority.RequestID) {
	r[5] = rapid.ByteRange(0, 3).Draw(t, "request") // 0: none
	return r
}

func (m *queueMachine) Enqueue(t *rapid.T) {
	j := &queuedJob{
		repo: rapid.IntRange(0, 1).Draw(t, "repo"), kind: rapid.SampledFrom(queueKinds).Draw(t, "kind"),
		state: record.JobStateQueued, max: rapid.Uint16Range(1, 3).Draw(t, "max"),
		available: m.now() + record.Seconds(rapid.IntRange(-5, 20).Draw(t, "after")),
	}
	index, created, err := m.repo(t, j.repo).EnqueueJob(context.Background(), authority.JobSpec{Kind: j.kind, AvailableAt: j.available, MaxAttempts: j.max})
	for _, other := range m.jobs {
		if other.repo == j.repo {
			j.index++
		}
	}
	if err != nil || !created || index != j.index {
		t.Fatalf("job %d, want %d, created %t: %v", index, j.index, created, err)
	}
	m.jobs = append(m.jobs, j)
}

func (m *queueMachine) ClaimNext(t *rapid.T) {
	f := authority.ClaimFilter{Request: drawRequest(t)}
	repos := []int{0, 1}
	if rapid.IntRange(0, 3).Draw(t, "filter repositories") == 0 {
		repos = []int{rapid.IntRange(0, 1).Draw(t, "repo")}
		f.Repositories = []uint32{authority.FirstRepository + uint32(repos[0])}
	}
	if rapid.IntRange(0, 3).Draw(t, "filter kinds") == 0 {
		f.Kinds = []record.JobKind{rapid.SampledFrom(queueKinds).Draw(t, "kind")}
	}
	c, ok, err := m.proc(t).ClaimNext(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	var again []*queuedJob
	for _, j := range m.jobs {
		if slices.Contains(repos, j.repo) && j.live(m.now()) && f.Request != (authority.RequestID{}) && j.lease.Request == f.Request {
			again = append(again, j)
		}
	}
	if len(again) > 0 {
		// A request may have got several by way of single claims.
		if !ok || !slices.ContainsFunc(again, func(j *queuedJob) bool { return j.lease == c.Lease }) {
			t.Fatalf("the request %s got %+v, %t", f.Request, c.Lease, ok)
		}
		return
	}
	for _, r := range repos {
		m.sweep(r)
	}
	var best *queuedJob
	for _, j := range m.jobs {
		if j.state != record.JobStateQueued || j.available > m.now() || !slices.Contains(repos, j.repo) || f.Kinds != nil && j.kind != f.Kinds[0] {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(j.available, best.available), cmp.Compare(j.repo, best.repo), cmp.Compare(j.index, best.index)) < 0 {
			best = j
		}
	}
	if ok != (best != nil) {
		t.Fatalf("claimed %t %+v, the model has %+v", ok, c.Job, best)
	}
	if !ok {
		return
	}
	if got := c.Repository.Info().Index; int(got)-authority.FirstRepository != best.repo || c.Job.Index != best.index {
		t.Fatalf("claimed %d/%d, want %d/%d", got, c.Job.Index, best.repo, best.index)
	}
	m.claimed(t, best, c.Lease, f.Request)
}

func (m *queueMachine) ClaimJob(t *rapid.T) {
	j := m.jobs[pick(t, m.jobs, "job")]
	request := drawRequest(t)
	l, err := m.repo(t, j.repo).ClaimJob(context.Background(), j.index, request)
	var want error
	switch {
	case j.live(m.now()):
		if request != (authority.RequestID{}) && j.lease.Request == request {
			if err != nil || l != j.lease {
				t.Fatalf("the same request got %+v: %v; want %+v", l, err, j.lease)
			}
			return
		}
		want = authority.ErrLeaseHeld
	case j.state == record.JobStateRunning:
		j.requeue(m.now(), true, record.JobErrorLeaseExpired, record.JobErrorLeaseExpired)
		want = authority.ErrState
	case j.state != record.JobStateQueued || j.available > m.now():
		want = authority.ErrState
	}
	if !errors.Is(err, want) {
		t.Fatalf("claim of %+v: %v, want %v", j, err, want)
	}
	if want == nil {
		m.claimed(t, j, l, request)
	}
}

// held draws any lease that was ever given out, and says whether it still counts.
func (m *queueMachine) held(t *rapid.T) (j *queuedJob, l authority.Lease, want error) {
	i := pick(t, m.given, "lease")
	j, l = m.of[i], m.given[i]
	if rapid.IntRange(0, 9).Draw(t, "forged") == 0 {
		l.Token[3]++
		return j, l, authority.ErrLeaseLost
	}
	if !j.live(m.now()) || j.lease.Token != l.Token {
		want = authority.ErrLeaseLost
	}
	return j, l, want
}

func (m *queueMachine) Heartbeat(t *rapid.T) {
	j, l, want := m.held(t)
	next, err := m.repo(t, j.repo).HeartbeatJob(context.Background(), l)
	if !errors.Is(err, want) {
		t.Fatalf("heartbeat of %+v: %v, want %v", j, err, want)
	}
	if want == nil {
		j.lease.Heartbeat, j.lease.ExpiresAt = m.now(), m.now()+leaseTime
		if next != j.lease {
			t.Fatalf("heartbeat gives %+v, want %+v", next, j.lease)
		}
	}
}

func (m *queueMachine) Complete(t *rapid.T) {
	j, l, want := m.held(t)
	outcome := rapid.SampledFrom([]record.JobOutcome{record.JobOutcomeCompleted, record.JobOutcomeSkipped}).Draw(t, "outcome")
	got, err := m.repo(t, j.repo).CompleteJob(context.Background(), l, authority.JobResult{Outcome: outcome})
	if !errors.Is(err, want) || want == nil && got != outcome {
		t.Fatalf("completion of %+v: %s, %v; want %v", j, got, err, want)
	}
	if want == nil {
		j.state, j.outcome, j.err = record.JobStateSucceeded, outcome, record.JobErrorNone
	}
}

func (m *queueMachine) Fail(t *rapid.T) {
	j, l, want := m.held(t)
	retryable := rapid.Bool().Draw(t, "retryable")
	if err := m.repo(t, j.repo).FailJob(context.Background(), l, retryable); !errors.Is(err, want) {
		t.Fatalf("failure of %+v: %v, want %v", j, err, want)
	}
	if want == nil {
		j.requeue(m.now(), retryable, record.JobErrorRetryable, record.JobErrorTerminal)
	}
}

func (m *queueMachine) Expire(t *rapid.T) {
	n, err := m.proc(t).ExpireLeases(context.Background())
	if want := m.sweep(0) + m.sweep(1); err != nil || n != want {
		t.Fatalf("%d leases have expired, want %d: %v", n, want, err)
	}
}

func (m *queueMachine) Wait(t *rapid.T) {
	by := rapid.SampledFrom([]int{1, 5, 15, 16, 30, 59, 60, 61, 100, -10, -70}).Draw(t, "seconds")
	before := m.now()
	for _, j := range m.jobs {
		if after := before + record.Seconds(by); by < 0 && j.state == record.JobStateRunning && j.lease.ExpiresAt <= before && j.lease.ExpiresAt > after {
			t.Skip("a lease that has expired need not come back to life")
		}
	}
	m.clock.Advance(time.Duration(by) * time.Second)
}

func (m *queueMachine) Restart(t *rapid.T) {
	i := rapid.IntRange(0, len(m.procs)-1).Draw(t, "process")
	if err := m.procs[i].Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t, i)
}

// PowerCut goes on from a disk as a power cut may leave it now, when nobody waits
// for an answer: whatever of the unsynced writes is lost.
func (m *queueMachine) PowerCut(t *rapid.T) {
	m.fs.Capture()
	var states []*vfs.Sim
	for s := range m.fs.CrashStates(m.fs.OpCount(), vfs.Policy{Random: 4, Tears: 1, Recent: 8, Seed: rapid.Uint64().Draw(t, "seed")}) {
		states = append(states, s)
	}
	m.fs = states[rapid.IntRange(0, len(states)-1).Draw(t, "state")]
	for i := range m.procs {
		m.open(t, i)
	}
}

// Check compares all records, leases and counts with the model.
func (m *queueMachine) Check(t *rapid.T) {
	for i := range 2 {
		counts := bindb.JobCounts{}
		err := m.repo(t, i).View(context.Background(), func(v *authority.View) error {
			counts = bindb.JobCounts{}
			for _, j := range m.jobs {
				if j.repo != i {
					continue
				}
				got, err := v.Job(j.index)
				if err != nil {
					return err
				}
				if got.Kind != j.kind || got.State != j.state || got.Outcome != j.outcome || got.Error != j.err ||
					got.Attempts != j.attempts || got.MaxAttempts != j.max || got.AvailableAt != j.available {
					t.Fatalf("job %d/%d: %+v, model %+v", i, j.index, got, j)
				}
				l, live, err := v.LeaseOf(&got, m.now())
				if err != nil {
					return err
				}
				if live != j.live(m.now()) || live && (l.ExpiresAt != j.lease.ExpiresAt || l.Token != (authority.LeaseToken{})) {
					t.Fatalf("job %d/%d: lease %+v, %t; model %+v", i, j.index, l, live, j.lease)
				}
				switch j.state {
				case record.JobStateQueued:
					counts.Queued++
					if j.available <= m.now() {
						counts.Ready++
					}
				case record.JobStateRunning:
					counts.Running++
				case record.JobStateSucceeded:
					counts.Succeeded++
				case record.JobStateFailed:
					counts.Failed++
				}
			}
			s, err := v.QueueStats(m.now())
			if s.JobCounts != counts {
				return fmt.Errorf("repository %d: counts %+v, model %+v", i, s.JobCounts, counts)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueueModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &queueMachine{fs: vfs.NewSim(), clock: authoritytest.NewClock()}
		m.opt = authority.Options{
			Dir: "/data", FS: m.fs, Clock: m.clock.Now, Random: authoritytest.NewRandom(3), Own: rapid.Bool().Draw(t, "own"),
			Lease: leaseTime * time.Second, RetryDelay: retryTime * time.Second,
		}
		a, err := authority.Create(context.Background(), m.opt, "model", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.AddRepository(context.Background(), "other", record.Namespace{}, 0); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		m.procs = make([]*authority.Authority, 2)
		if m.opt.Own {
			m.procs = m.procs[:1]
		}
		for i := range m.procs {
			m.open(t, i)
		}
		m.Enqueue(t)
		actions := rapid.StateMachineActions(m)
		t.Repeat(actions)
		for _, a := range m.procs {
			for i := range uint32(2) {
				r, err := a.Repository(context.Background(), authority.FirstRepository+i)
				if err != nil {
					t.Fatal(err)
				}
				if findings, err := r.Root().Check(context.Background()); err != nil || len(findings) > 0 {
					t.Fatal(findings, err)
				}
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
