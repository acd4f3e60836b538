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
	modelTask struct {
		status string
		bound  *modelItem
		links  int
	}
	modelChange struct {
		task          uint32
		selected      int // patchset, -1: none
		patchsets     int
		status        string
		ready         bool
		reviewPending bool
		lands         []*modelLand
	}
	modelLand struct {
		status      record.LandStatus
		patchset    int
		from, index int
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
		discarded      bool // withdrawn or invalidated
		attests        int
		waivers        int
	}
	// modelInput is an Attestation or a Waiver.
	modelInput struct {
		patchset int
		revoked  bool
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
	parents         map[int][]uint32
	head            int // of main, -1: none
	tasks           []*modelTask
	changes         []*modelChange
	patchsets       []*modelPatchset
	jobs            []*modelJob
	attests         []*modelInput
	waivers         []*modelInput
	running         int // land's change, -1: none
	lands           int
	landing         uint32 // patchset

	modelPlanning
}

func (c *modelChange) open() bool { return c.status == "draft" || c.status == "active" }

// chosen reports whether a Patchset is the selected one of an open Change.
func (m *machine) chosen(i int) bool {
	c := m.changes[m.patchsets[i].change]
	return c.open() && c.selected == i
}

// touch is new input for a Patchset.
func (m *machine) touch(i int) {
	m.patchsets[i].stale = true
	if m.chosen(i) {
		m.changes[m.patchsets[i].change].ready = false
	}
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
	m.tasks = append(m.tasks, &modelTask{status: "open"})
}

func (m *machine) OpenChange(t *rapid.T) {
	task := pick(t, m.tasks, "task")
	var want error
	if m.tasks[task].status != "open" {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error {
		_, err := tx.OpenChange(uint32(task), "title", m.main, 0)
		return err
	})
	if want == nil {
		m.changes = append(m.changes, &modelChange{task: uint32(task), selected: -1, status: "draft"})
	}
}

func (m *machine) Publish(t *rapid.T) {
	ci := pick(t, m.changes, "change")
	c := m.changes[ci]
	var want error
	if !c.open() {
		want = authority.ErrState
	}
	var parents []uint32
	if m.snapshots > 0 && rapid.Bool().Draw(t, "continued") {
		parents = []uint32{uint32(rapid.IntRange(0, int(m.snapshots)-1).Draw(t, "parent"))}
	}
	p := &modelPatchset{change: uint32(ci), base: m.snapshots, revision: m.snapshots + 1, job: -1, stale: true}
	m.update(t, want, func(tx *authority.Tx) error {
		for _, parents := range [][]uint32{parents, {p.base}} {
			s := authoritytest.Snapshot(uint64(m.snapshots), m.main)
			s.Parents = parents
			if _, err := tx.AddSnapshot(s); err != nil {
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
	m.parents[int(p.base)], m.parents[int(p.revision)] = parents, []uint32{p.base}
	if c.selected < 0 {
		c.selected = len(m.patchsets)
	}
	c.status, c.reviewPending = "active", false
	c.patchsets++
	m.patchsets = append(m.patchsets, p)
}

func (m *machine) Select(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	c := m.changes[m.patchsets[i].change]
	var want error
	if c.selected != i && (!c.open() || m.patchsets[i].discarded) {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return tx.SelectPatchset(uint32(i)) })
	if want == nil && c.selected != i {
		c.selected, c.ready = i, false
	}
}

// refused is what a verb that needs the selected Patchset of an open Change says.
func (m *machine) refused(i int) error {
	if !m.chosen(i) {
		return authority.ErrState
	}
	return nil
}

func (m *machine) Review(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	want := m.refused(i)
	action := rapid.SampledFrom([]record.ReviewAction{
		record.ReviewActionApprove, record.ReviewActionTaskApprove, record.ReviewActionComment, record.ReviewActionTaskComment,
		record.ReviewActionCodeReviewSummary, record.ReviewActionDefer, record.ReviewActionTaskDefer, record.ReviewActionDismiss,
		record.ReviewActionRequest,
	}).Draw(t, "action")
	m.update(t, want, func(tx *authority.Tx) error {
		if action == record.ReviewActionRequest {
			_, err := tx.RequestReview(uint32(i), "team", "note")
			return err
		}
		actor, err := tx.EnsureActor(rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "actor"), "")
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{
			Patchset: uint32(i), Actor: actor, Text: "text", Action: action,
		})
		return err
	})
	if want != nil {
		return
	}
	m.patchsets[i].reviews++
	m.touch(i)
	switch action.Base() {
	case record.ReviewBaseRequest:
		m.changes[m.patchsets[i].change].reviewPending = true
	case record.ReviewBaseApprove, record.ReviewBaseDismiss:
		m.changes[m.patchsets[i].change].reviewPending = false
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
		m.touch(i)
		m.patchsets[i].attests++
		m.patchsets[i].waivers++
		m.attests = append(m.attests, &modelInput{patchset: i})
		m.waivers = append(m.waivers, &modelInput{patchset: i})
	}
}

// revoke takes one input back.
func (m *machine) revoke(t *rapid.T, list []*modelInput, verb func(*authority.Tx, uint32) error) {
	i := pick(t, list, "input")
	x := list[i]
	var want error
	if !m.changes[m.patchsets[x.patchset].change].open() {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return verb(tx, uint32(i)) })
	if want == nil && !x.revoked {
		x.revoked = true
		m.touch(x.patchset)
	}
}

func (m *machine) RevokeAttestation(t *rapid.T) {
	m.revoke(t, m.attests, func(tx *authority.Tx, i uint32) error { return tx.RevokeAttestation(i) })
}

func (m *machine) RevokeWaiver(t *rapid.T) {
	m.revoke(t, m.waivers, func(tx *authority.Tx, i uint32) error { return tx.RevokeWaiver(i) })
}

func (m *machine) Discard(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	var want error
	if m.changes[m.patchsets[i].change].selected == i {
		want = authority.ErrState
	}
	withdraw := rapid.Bool().Draw(t, "withdraw")
	m.update(t, want, func(tx *authority.Tx) error {
		if withdraw {
			return tx.WithdrawPatchset(uint32(i))
		}
		return tx.InvalidatePatchset(uint32(i))
	})
	if want == nil {
		m.patchsets[i].discarded = true
	}
}

func (m *machine) CloseTask(t *rapid.T) {
	i := pick(t, m.tasks, "task")
	task := m.tasks[i]
	status := rapid.SampledFrom([]string{"completed", "canceled"}).Draw(t, "status")
	var want error
	if task.status != status && (task.status != "open" || m.running >= 0 && m.changes[m.running].task == uint32(i)) {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error {
		if status == "completed" {
			return tx.CompleteTask(uint32(i))
		}
		return tx.CancelTask(uint32(i))
	})
	if want == nil {
		task.status = status
	}
}

func (m *machine) ArchiveChange(t *rapid.T) {
	i := pick(t, m.changes, "change")
	c := m.changes[i]
	why := rapid.SampledFrom([]authority.Archiving{authority.ArchivePlain, authority.ArchiveSuperseded, authority.ArchiveCanceled}).Draw(t, "why")
	var want error
	if !c.open() || m.running == i {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return tx.ArchiveChange(uint32(i), why) })
	if want == nil {
		c.status, c.ready, c.reviewPending = [...]string{"archived", "superseded", "canceled"}[why], false, false
	}
}

func (m *machine) ReopenChange(t *rapid.T) {
	i := pick(t, m.changes, "change")
	c := m.changes[i]
	var want error
	if c.open() || c.status == "landed" || m.tasks[c.task].status != "open" {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return tx.ReopenChange(uint32(i)) })
	if want != nil {
		return
	}
	c.status = "draft"
	if c.patchsets > 0 {
		c.status = "active"
	}
}

func (m *machine) Decide(t *rapid.T) {
	m.decide(t, pick(t, m.patchsets, "patchset"), rapid.SampledFrom([]record.PolicyFlags{0, flagTests}).Draw(t, "flags"))
}

func (m *machine) decide(t *rapid.T, i int, flags record.PolicyFlags) {
	p := m.patchsets[i]
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
	if m.chosen(i) {
		c := m.changes[p.change]
		c.ready = want == record.DecisionKindPass && !c.reviewPending
	}
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
		p.completed = false
		m.touch(i)
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
		p.completed, p.passed = true, passed
		m.touch(int(j.patchset))
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
	if !m.mayLand(p) {
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
		m.running, m.landing, m.head = int(p.change), uint32(i), int(p.base)
		m.addLand(p.change, &modelLand{status: record.LandStatusRunning, patchset: i})
	}
}

// mayLand reports whether the decision about a Patchset lets it land now.
func (m *machine) mayLand(p *modelPatchset) bool {
	return m.running < 0 && !p.stale && len(p.decisions) > 0 && p.decisions[len(p.decisions)-1] == record.DecisionKindPass
}

func (m *machine) addLand(change uint32, l *modelLand) {
	l.index = m.lands
	m.changes[change].lands = append(m.changes[change].lands, l)
	m.lands++
}

// contains reports whether a Snapshot is another one or has it among its ancestors.
func (m *machine) contains(snapshot, ancestor int) bool {
	if snapshot == ancestor {
		return true
	}
	for _, p := range m.parents[snapshot] {
		if m.contains(int(p), ancestor) {
			return true
		}
	}
	return false
}

func (m *machine) MoveLine(t *rapid.T) {
	if m.snapshots == 0 {
		t.Skip("no snapshot")
	}
	to := rapid.IntRange(0, int(m.snapshots)-1).Draw(t, "head")
	m.update(t, nil, func(tx *authority.Tx) error { return tx.SetLineHead(m.main, uint32(to)) })
	m.head = to
}

func (m *machine) LandOnLine(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	p := m.patchsets[i]
	c := m.changes[p.change]
	if c.selected >= 0 && rapid.Bool().Draw(t, "selected") {
		i, p = c.selected, m.patchsets[c.selected]
	}
	if rapid.Bool().Draw(t, "decided") {
		m.decide(t, i, 0)
	}
	if m.running < 0 && rapid.Bool().Draw(t, "at hand") {
		m.head = int(rapid.SampledFrom([]uint32{p.base, p.revision}).Draw(t, "head"))
		m.update(t, nil, func(tx *authority.Tx) error { return tx.SetLineHead(m.main, uint32(m.head)) })
	}
	complete := rapid.Bool().Draw(t, "complete")
	s := authority.LineLandSpec{Change: p.change, Patchset: record.RefTo(uint32(i)), TargetLine: m.main, CompleteTask: complete}
	var last *modelLand
	if n := len(c.lands); n > 0 && c.lands[n-1].patchset == i {
		last = c.lands[n-1]
	}
	want, repeated := m.refused(i), false
	switch {
	case last != nil && last.status == record.LandStatusSucceeded:
		want, repeated = nil, true
	case want != nil:
	case last != nil && last.status == record.LandStatusBlocked && last.from == m.head:
		repeated = true
	case !m.mayLand(p), complete && (!c.ready || m.tasks[c.task].status != "open"):
		want = authority.ErrState
	}
	var got authority.Land
	m.update(t, want, func(tx *authority.Tx) (err error) { got, err = tx.LandOnLine(s); return err })
	if want != nil {
		return
	}
	if repeated {
		if int(got.Index) != last.index {
			t.Fatalf("land %d, want the recorded one, %d", got.Index, last.index)
		}
		return
	}
	l := &modelLand{status: record.LandStatusBlocked, patchset: i, from: m.head}
	m.addLand(p.change, l)
	c.ready = false
	if m.head < 0 || m.head != int(p.base) && !m.contains(m.head, int(p.revision)) {
		return
	}
	l.status = record.LandStatusSucceeded
	c.status, c.reviewPending = "landed", false
	if m.head == int(p.base) {
		m.head = int(p.revision)
	}
	if complete {
		m.tasks[c.task].status = "completed"
	}
}

func (m *machine) EndLand(t *rapid.T) {
	if m.running < 0 {
		t.Skip("no land is running")
	}
	land := uint32(m.lands - 1)
	c := m.changes[m.running]
	l := c.lands[len(c.lands)-1]
	if rapid.Bool().Draw(t, "moved") {
		m.head = int(m.patchsets[m.landing].revision)
		m.update(t, nil, func(tx *authority.Tx) error { return tx.FinishLand(land, uint32(m.head)) })
		c.status, c.ready, c.reviewPending = "landed", false, false
		l.status = record.LandStatusSucceeded
	} else {
		l.status = record.LandStatusFailed
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
				got.Status() != c.status || got.Meta.ReadyToLand() != c.ready || got.Meta.ReviewPending() != c.reviewPending {
				t.Fatalf("change %d: %+v, model %+v", i, got, c)
			}
			lands, err := v.Lands(uint32(i))
			if err != nil || len(lands) != len(c.lands) {
				t.Fatalf("change %d has %d lands, want %d: %v", i, len(lands), len(c.lands), err)
			}
			for j, l := range c.lands {
				if int(lands[j].Index) != l.index || lands[j].Meta.Status() != l.status || int(lands[j].Patchset) != l.patchset {
					t.Fatalf("land %d of change %d: %+v, model %+v", j, i, lands[j], l)
				}
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
			if gone := got.Meta.Withdrawn() || got.Meta.Invalidated(); gone != p.discarded {
				t.Fatalf("patchset %d is discarded: %t, want %t", i, gone, p.discarded)
			}
			attests, err := v.Attestations(&got)
			if err != nil || len(attests) != p.attests {
				t.Fatalf("patchset %d has %d attestations, want %d: %v", i, len(attests), p.attests, err)
			}
			for _, a := range attests {
				if a.Meta.Revoked() != m.attests[a.Index].revoked {
					t.Fatalf("attestation %d is revoked: %t", a.Index, a.Meta.Revoked())
				}
			}
			waivers, err := v.Waivers(&got)
			if err != nil || len(waivers) != p.waivers {
				t.Fatalf("patchset %d has %d waivers, want %d: %v", i, len(waivers), p.waivers, err)
			}
			for _, w := range waivers {
				if w.Meta.Revoked() != m.waivers[w.Index].revoked {
					t.Fatalf("waiver %d is revoked: %t", w.Index, w.Meta.Revoked())
				}
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
		if at, ok := line.Head.Index(); ok != (m.head >= 0) || ok && int(at) != m.head {
			t.Fatalf("the line stands on %v, want %d", line.Head, m.head)
		}
		if err := m.checkPlanning(t, v); err != nil {
			return err
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
		m := &machine{fs: vfs.NewSim(), clock: authoritytest.NewClock(), running: -1, head: -1, parents: map[int][]uint32{}}
		m.opt = authority.Options{Dir: "/data", FS: m.fs, Clock: m.clock.Now, Random: authoritytest.NewRandom(2), Own: rapid.Bool().Draw(t, "own")}
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
