package authority_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// The model knows what the records must say, and nothing of how they are kept.
type (
	modelChange struct {
		task      uint32
		selected  int // patchset, -1: none
		patchsets int
		landed    bool
		lands     int
	}
	modelPatchset struct {
		change         uint32
		base, revision uint32
		job            int // -1: none
		runs           uint32
		completed      bool
		passed         bool
		reviews        int
		decisions      []record.DecisionKind
		stale          bool // input came after the latest decision
	}
	modelJob struct {
		patchset  uint32
		state     record.JobState
		attempts  uint16
		available time.Time
		expires   time.Time
		lease     authority.Lease
	}
)

// machine runs verbs against an authority and the model side by side.
type machine struct {
	fs    *vfs.Sim
	clock *authoritytest.Clock
	opt   authority.Options
	a     *authority.Authority
	r     *authority.Repository

	main, snapshots uint32
	head            uint32
	tasks           []int // changes
	changes         []*modelChange
	patchsets       []*modelPatchset
	jobs            []*modelJob
	running         int // land's change, -1: none
	lands           int
	landing         uint32 // patchset
}

func (m *machine) open(t *rapid.T) {
	var err error
	if m.a, err = authority.Open(context.Background(), m.opt); err != nil {
		t.Fatal(err)
	}
	if m.r, err = m.a.Repository(context.Background(), authority.FirstRepository); err != nil {
		t.Fatal(err)
	}
}

// update expects a verb to succeed exactly when the model says so.
func (m *machine) update(t *rapid.T, want error, fn func(*authority.Tx) error) {
	t.Helper()
	if err := m.r.Update(context.Background(), fn); !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func pick[T any](t *rapid.T, list []T, label string) int {
	if len(list) == 0 {
		t.Skip("no " + label)
	}
	return rapid.IntRange(0, len(list)-1).Draw(t, label)
}

func (m *machine) OpenTask(t *rapid.T) {
	m.update(t, nil, func(tx *authority.Tx) error {
		i, err := tx.OpenTask("title", "intent")
		if int(i) != len(m.tasks) {
			t.Fatalf("task %d, want %d", i, len(m.tasks))
		}
		return err
	})
	m.tasks = append(m.tasks, 0)
}

func (m *machine) OpenChange(t *rapid.T) {
	task := pick(t, m.tasks, "task")
	m.update(t, nil, func(tx *authority.Tx) error {
		_, err := tx.OpenChange(uint32(task), "title", m.main, 0)
		return err
	})
	m.tasks[task]++
	m.changes = append(m.changes, &modelChange{task: uint32(task), selected: -1})
}

func (m *machine) Publish(t *rapid.T) {
	ci := pick(t, m.changes, "change")
	c := m.changes[ci]
	var want error
	if c.landed {
		want = authority.ErrState
	}
	p := &modelPatchset{change: uint32(ci), base: m.snapshots, revision: m.snapshots + 1, job: -1, stale: true}
	m.update(t, want, func(tx *authority.Tx) error {
		for range 2 {
			if _, err := tx.AddSnapshot(authoritytest.Snapshot(uint64(m.snapshots), m.main)); err != nil {
				return err
			}
		}
		i, err := tx.Publish(authority.PatchsetSpec{Change: uint32(ci), Base: p.base, Revision: p.revision, Summary: "summary"})
		if err == nil && int(i) != len(m.patchsets) {
			t.Fatalf("patchset %d, want %d", i, len(m.patchsets))
		}
		return err
	})
	if want != nil {
		return
	}
	m.snapshots += 2
	if c.selected < 0 {
		c.selected = len(m.patchsets)
	}
	c.patchsets++
	m.patchsets = append(m.patchsets, p)
}

func (m *machine) Select(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	c := m.changes[m.patchsets[i].change]
	var want error
	if c.landed && c.selected != i {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return tx.SelectPatchset(uint32(i)) })
	if want == nil {
		c.selected = i
	}
}

// refused is what a verb that needs the selected Patchset of an open Change says.
func (m *machine) refused(i int) error {
	if c := m.changes[m.patchsets[i].change]; c.landed || c.selected != i {
		return authority.ErrState
	}
	return nil
}

func (m *machine) Review(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	want := m.refused(i)
	m.update(t, want, func(tx *authority.Tx) error {
		actor, err := tx.EnsureActor(rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "actor"), "")
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{
			Patchset: uint32(i), Actor: actor, Text: "text",
			Action: rapid.SampledFrom([]record.ReviewAction{record.ReviewActionApprove, record.ReviewActionComment}).Draw(t, "action"),
		})
		return err
	})
	if want == nil {
		m.patchsets[i].reviews++
		m.patchsets[i].stale = true
	}
}

func (m *machine) AttestAndWaive(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	want := m.refused(i)
	m.update(t, want, func(tx *authority.Tx) error {
		if _, err := tx.Attest(authority.AttestSpec{Patchset: uint32(i), Verification: record.VerificationStatePass}); err != nil {
			return err
		}
		_, err := tx.Waive(authority.WaiverSpec{Patchset: uint32(i), Rule: record.RuleCodeLicenseScan, Reason: "reason"})
		return err
	})
	if want == nil {
		m.patchsets[i].stale = true
	}
}

func (m *machine) Decide(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	p := m.patchsets[i]
	flags := rapid.SampledFrom([]record.PolicyFlags{0, flagTests}).Draw(t, "flags")
	want := record.DecisionKindPass
	switch {
	case flags == 0 || p.completed && p.passed:
	case p.completed:
		want = record.DecisionKindHardFail
	default:
		want = record.DecisionKindPending
	}
	m.update(t, nil, func(tx *authority.Tx) error {
		e, d, err := tx.Decide(uint32(i), authority.PolicyInput{Flags: flags})
		if err == nil && (e.Decision != want || d.Kind() != want) {
			t.Fatalf("patchset %d: %s, stored %s, want %s", i, e.Decision, d.Kind(), want)
		}
		return err
	})
	p.decisions = append(p.decisions, want)
	p.stale = want == record.DecisionKindPending
}

func (m *machine) Enqueue(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	p := m.patchsets[i]
	fresh := p.job < 0 || m.jobs[p.job].state.Terminal()
	m.update(t, nil, func(tx *authority.Tx) error {
		j, created, err := tx.EnqueueCI(uint32(i))
		if created != fresh || !fresh && int(j) != p.job || fresh && int(j) != len(m.jobs) {
			t.Fatalf("job %d, created %t; want %t", j, created, fresh)
		}
		return err
	})
	if fresh {
		p.job = len(m.jobs)
		p.runs++
		p.completed, p.stale = false, true
		m.jobs = append(m.jobs, &modelJob{patchset: uint32(i), state: record.JobStateQueued, available: m.clock.Now()})
	}
}

func (j *modelJob) held(now time.Time) bool {
	return j.state == record.JobStateRunning && now.Before(j.expires)
}

func (m *machine) Claim(t *rapid.T) {
	i := pick(t, m.jobs, "job")
	j, now := m.jobs[i], m.clock.Now()
	var want error
	switch {
	case j.held(now):
		want = authority.ErrLeaseHeld
	case j.state != record.JobStateQueued, j.available.After(now):
		want = authority.ErrState
	}
	var l authority.Lease
	m.update(t, want, func(tx *authority.Tx) (err error) {
		l, err = tx.Claim(uint32(i), authority.RequestID{})
		return err
	})
	if want == nil {
		j.state, j.lease, j.expires = record.JobStateRunning, l, now.Add(time.Minute)
		j.attempts++
	}
}

// withLease runs a verb that only the holder may use.
func (m *machine) withLease(t *rapid.T, verb func(*authority.Tx, authority.Lease) error) *modelJob {
	i := pick(t, m.jobs, "job")
	j := m.jobs[i]
	if j.attempts == 0 {
		t.Skip("never claimed")
	}
	var want error
	if !j.held(m.clock.Now()) {
		want = authority.ErrLeaseLost
	}
	m.update(t, want, func(tx *authority.Tx) error { return verb(tx, j.lease) })
	if want != nil {
		return nil
	}
	return j
}

func (m *machine) Heartbeat(t *rapid.T) {
	if j := m.withLease(t, func(tx *authority.Tx, l authority.Lease) error { _, err := tx.Heartbeat(l); return err }); j != nil {
		j.expires = m.clock.Now().Add(time.Minute)
	}
}

func (m *machine) Complete(t *rapid.T) {
	passed := rapid.Bool().Draw(t, "passed")
	ev := authoritytest.Failed
	if passed {
		ev = authoritytest.Passed
	}
	if j := m.withLease(t, func(tx *authority.Tx, l authority.Lease) error { _, err := tx.CompleteCI(l, ev); return err }); j != nil {
		j.state = record.JobStateSucceeded
		p := m.patchsets[j.patchset]
		p.completed, p.passed, p.stale = true, passed, true
	}
}

func (m *machine) giveBack(j *modelJob, retry bool) {
	j.state = record.JobStateFailed
	if retry && j.attempts < 3 {
		j.state, j.available = record.JobStateQueued, m.clock.Now().Add(15*time.Second)
	}
}

func (m *machine) Fail(t *rapid.T) {
	retry := rapid.Bool().Draw(t, "retry")
	if j := m.withLease(t, func(tx *authority.Tx, l authority.Lease) error { return tx.FailJob(l, retry) }); j != nil {
		m.giveBack(j, retry)
	}
}

func (m *machine) LoseLease(t *rapid.T) {
	i := pick(t, m.jobs, "job")
	j := m.jobs[i]
	var want error
	if j.held(m.clock.Now()) {
		want = authority.ErrLeaseHeld
	}
	m.update(t, want, func(tx *authority.Tx) error { _, err := tx.LoseLease(uint32(i)); return err })
	if want == nil && j.state == record.JobStateRunning {
		m.giveBack(j, true)
	}
}

func (m *machine) BeginLand(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	p := m.patchsets[i]
	want := m.refused(i)
	if m.running >= 0 || p.stale || len(p.decisions) == 0 || p.decisions[len(p.decisions)-1] != record.DecisionKindPass {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error {
		if err := tx.SetLineHead(m.main, p.base); err != nil {
			return err
		}
		_, err := tx.BeginLand(authority.LandSpec{Patchset: uint32(i), TargetLine: m.main, PreTarget: p.base})
		return err
	})
	if want == nil {
		m.running, m.landing, m.head = int(p.change), uint32(i), p.base
		m.changes[p.change].lands++
		m.lands++
	}
}

func (m *machine) EndLand(t *rapid.T) {
	if m.running < 0 {
		t.Skip("no land is running")
	}
	land := uint32(m.lands - 1)
	if rapid.Bool().Draw(t, "moved") {
		m.head = m.patchsets[m.landing].revision
		m.update(t, nil, func(tx *authority.Tx) error { return tx.FinishLand(land, m.head) })
		m.changes[m.running].landed = true
	} else {
		m.update(t, nil, func(tx *authority.Tx) error { return tx.FailLand(land, record.LandFailureTargetUpdateFailed) })
	}
	m.running = -1
}

func (m *machine) Wait(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
}

func (m *machine) Reopen(t *rapid.T) {
	if err := m.a.Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t)
}

// Check compares every record with the model; it runs after each verb.
func (m *machine) Check(t *rapid.T) {
	err := m.r.View(context.Background(), func(v *authority.View) error {
		for i, c := range m.changes {
			got, err := v.Change(uint32(i))
			if err != nil {
				return err
			}
			var selected record.Ref
			if c.selected >= 0 {
				selected = record.RefTo(uint32(c.selected))
			}
			if got.Task != c.task || got.SelectedPatchset != selected || got.Meta.HasPatchsets() != (c.patchsets > 0) ||
				c.landed != (got.Meta.Lifecycle() == record.ChangeLifecycleLanded) {
				t.Fatalf("change %d: %+v, model %+v", i, got, c)
			}
			lands, err := v.Lands(uint32(i))
			if err != nil || len(lands) != c.lands {
				t.Fatalf("change %d has %d lands, want %d: %v", i, len(lands), c.lands, err)
			}
		}
		for i, p := range m.patchsets {
			got, err := v.Patchset(uint32(i))
			if err != nil {
				return err
			}
			if got.CIRunSeq != p.runs || (got.CICompletedAt != 0) != p.completed || got.Meta.EvaluationPending() != p.stale {
				t.Fatalf("patchset %d: %+v, model %+v", i, got, p)
			}
			reviews, err := v.Reviews(&got)
			if err != nil || len(reviews) != p.reviews {
				t.Fatalf("patchset %d has %d reviews, want %d: %v", i, len(reviews), p.reviews, err)
			}
			d, err := v.Decision(&got)
			if err != nil || (d == nil) != (len(p.decisions) == 0) || d != nil && d.Kind() != p.decisions[len(p.decisions)-1] {
				t.Fatalf("patchset %d: decision %+v, want %v: %v", i, d, p.decisions, err)
			}
		}
		for i, j := range m.jobs {
			got, err := v.Job(uint32(i))
			if err != nil {
				return err
			}
			_, live, err := v.LeaseOf(&got, record.Seconds(m.clock.Now().Unix()))
			if got.State != j.state || got.Attempts != j.attempts || live != j.held(m.clock.Now()) {
				t.Fatalf("job %d: %+v, live %t, model %+v", i, got, live, j)
			}
			if err != nil {
				return err
			}
		}
		line, err := v.Line(m.main)
		if err != nil {
			return err
		}
		if m.lands > 0 && line.Head != record.RefTo(m.head) {
			t.Fatalf("the line stands on %v, want %d", line.Head, m.head)
		}
		running, err := v.RunningLand()
		if (running != nil) != (m.running >= 0) {
			t.Fatalf("running land %+v, model %d", running, m.running)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Validate(t *rapid.T) {
	findings, err := m.r.Root().Check(context.Background())
	if err != nil || len(findings) > 0 {
		t.Fatalf("%v %v", findings, err)
	}
}

// TestModel runs random sequences of verbs, with reopening and validation in
// between, and compares each state with the model.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{fs: vfs.NewSim(), clock: authoritytest.NewClock(), running: -1}
		m.opt = authority.Options{Dir: "/data", FS: m.fs, Clock: m.clock.Now, Random: authoritytest.NewRandom(2)}
		var err error
		if m.a, err = authority.Create(context.Background(), m.opt, "model", 0); err != nil {
			t.Fatal(err)
		}
		if m.r, err = m.a.Repository(context.Background(), authority.FirstRepository); err != nil {
			t.Fatal(err)
		}
		m.update(t, nil, func(tx *authority.Tx) error { m.main, err = tx.EnsureLine(authority.MainLine); return err })
		m.OpenTask(t)
		m.OpenChange(t)
		m.Publish(t)
		actions := rapid.StateMachineActions(m)
		t.Repeat(actions)
		m.Validate(t)
		if err := m.a.Close(); err != nil {
			t.Fatal(err)
		}
		m.open(t)
		m.Check(t)
		m.Validate(t)
		if err := m.a.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
