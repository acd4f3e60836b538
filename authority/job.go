package authority

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Job is one Worker Job.
type Job struct {
	record.WorkerJob
	Index uint32
}

// Job reads one live Worker Job.
func (v *View) Job(index uint32) (Job, error) {
	if err := named(v, bindb.WorkerJobs, index); err != nil {
		return Job{}, fmt.Errorf("job %d/%d: %w", v.repo.info.Index, index, err)
	}
	rec, err := bindb.WorkerJobs.Get(v, index)
	if err == nil && rec.Meta.Tombstoned() {
		err = fmt.Errorf("job %d: %w: it was removed", index, bindb.ErrNotFound)
	}
	return Job{rec, index}, err
}

// active reports whether a Job is queued or running.
func (j *Job) active() bool {
	return j.State == record.JobStateQueued || j.State == record.JobStateRunning
}

// SelectedJob returns the Job that may give a Patchset its evidence, or nil.
func (v *View) SelectedJob(p *Patchset) (*Job, error) {
	i, ok := p.CIJob.Index()
	if !ok {
		return nil, nil
	}
	j, err := v.Job(i)
	if errors.Is(err, bindb.ErrNotFound) {
		err = &bindb.RecordError{File: bindb.Patchsets.File(), Index: p.Index, Err: err}
	}
	return &j, err
}

// LeaseOf returns the live lease of a running Job, without its token.
func (v *View) LeaseOf(j *Job, now record.Seconds) (Lease, bool, error) {
	t, err := v.leases()
	if err != nil {
		return Lease{}, false, err
	}
	l, ok := v.liveLease(t.entry(j.Index), j, now)
	return l, ok, nil
}

func (v *View) leases() (_ *leaseTable, err error) {
	if v.table == nil {
		v.table, err = v.repo.leases(v)
	}
	return v.table, err
}

// LeaseOf returns the live lease of a running Job as this transaction leaves it,
// without its token.
func (tx *Tx) LeaseOf(j *Job, now record.Seconds) (Lease, bool, error) {
	q, err := tx.queue()
	if err != nil {
		return Lease{}, false, err
	}
	l, ok := tx.liveLease(q.find(j.Index), j, now)
	return l, ok, nil
}

func (v *View) liveLease(e record.LeaseEntry, j *Job, now record.Seconds) (Lease, bool) {
	if !liveFor(&e, j.Index, &j.WorkerJob, v.repo.a.active.Epoch, now) {
		return Lease{}, false
	}
	l := leaseOf(&e)
	l.Token = LeaseToken{}
	return l, true
}

// JobSpec describes a new Job.
type JobSpec struct {
	// Kind says what the Job does and which of the references it has to have.
	Kind     record.JobKind
	Patchset record.Ref
	Snapshot record.Ref
	// AvailableAt is when it may be claimed; zero means now.
	AvailableAt record.Seconds
	// MaxAttempts is how often it may be claimed; zero means 3.
	MaxAttempts uint16
	// Outcome, if it is not none, says that the Job had not to run: attached,
	// skipped or superseded. It is recorded as succeeded then and selected by
	// no Patchset.
	Outcome record.JobOutcome
}

// defaultAttempts is how often a Job is tried when its holders die.
const defaultAttempts = 3

// Enqueue queues a Job (section 13.4). A patchset.ci Job is selected by its
// Patchset; where one of that Patchset is queued or running already it is returned
// instead, with created false. The error is bindb.ErrInvalid for an unknown kind
// and for references that the kind does not have, and bindb.ErrNotFound for
// references to nothing; no index is used up then.
func (tx *Tx) Enqueue(s JobSpec) (job uint32, created bool, err error) {
	if err := tx.beginsWork(); err != nil {
		return 0, false, err
	}
	if err := s.check(); err != nil {
		return 0, false, err
	}
	if err := tx.targets(s.Patchset, s.Snapshot); err != nil {
		return 0, false, err
	}
	rec := record.WorkerJob{
		Kind: s.Kind, State: record.JobStateQueued, MaxAttempts: s.MaxAttempts, Patchset: s.Patchset, Snapshot: s.Snapshot,
		AvailableAt: s.AvailableAt, CreatedAt: tx.now, UpdatedAt: tx.now,
	}
	if rec.MaxAttempts == 0 {
		rec.MaxAttempts = defaultAttempts
	}
	if rec.AvailableAt == 0 {
		rec.AvailableAt = tx.now
	}
	if s.Outcome != record.JobOutcomeNone {
		rec.State, rec.Outcome = record.JobStateSucceeded, s.Outcome
	} else if s.Kind == record.JobKindPatchsetCI {
		return tx.enqueueCI(rec)
	}
	job, err = bindb.WorkerJobs.Append(tx.tx, rec)
	return job, err == nil, err
}

// check verifies what a JobSpec alone can show.
func (s *JobSpec) check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("job: %w: %s", bindb.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if s.Kind < record.JobKindContentGC || s.Kind > record.JobKindRepoCI {
		return invalid("kind %d is not assigned; expected %d (%s) to %d (%s)", uint8(s.Kind),
			uint8(record.JobKindContentGC), record.JobKindContentGC, uint8(record.JobKindRepoCI), record.JobKindRepoCI)
	}
	for _, x := range []struct {
		what string
		need record.Need
		ref  record.Ref
	}{{"patchset", s.Kind.PatchsetNeed(), s.Patchset}, {"snapshot", s.Kind.SnapshotNeed(), s.Snapshot}} {
		switch {
		case x.need == record.NeedRequired && x.ref == 0:
			return invalid("%s needs a %s", s.Kind, x.what)
		case x.need == record.NeedNone && x.ref != 0:
			return invalid("%s takes no %s", s.Kind, x.what)
		}
	}
	switch s.Outcome {
	case record.JobOutcomeNone, record.JobOutcomeSkipped, record.JobOutcomeAttached, record.JobOutcomeSuperseded:
		return nil
	}
	return invalid("a new job cannot have the outcome %s; expected skipped, attached or superseded", s.Outcome)
}

// targets refuses references to what is not there or was removed. A Patchset is
// live when its Task, its Change and its Snapshots are.
func (v *View) targets(patchset, snapshot record.Ref) error {
	if i, ok := patchset.Index(); ok {
		p, err := bindb.Patchsets.Get(v, i)
		if err != nil {
			return err
		}
		c, err := bindb.Changes.Get(v, p.Change)
		if err != nil {
			return err
		}
		t, err := bindb.Tasks.Get(v, c.Task)
		if err != nil {
			return err
		}
		if c.RemoteMeta.Deleted() || t.RemoteMeta.Deleted() {
			return fmt.Errorf("patchset %d: %w: its task or change was deleted", i, bindb.ErrNotFound)
		}
		if err := errors.Join(v.liveSnapshot(p.BaseSnapshot), v.liveSnapshot(p.RevisionSnapshot)); err != nil {
			return err
		}
	}
	if i, ok := snapshot.Index(); ok {
		return v.liveSnapshot(i)
	}
	return nil
}

func (v *View) liveSnapshot(index uint32) error {
	rec, err := bindb.Snapshots.Get(v, index)
	if err == nil && rec.Meta.Tombstoned() {
		err = fmt.Errorf("snapshot %d: %w: it was removed", index, bindb.ErrNotFound)
	}
	return err
}

// EnqueueCI queues a patchset.ci Job and selects it, as Enqueue does.
func (tx *Tx) EnqueueCI(patchset uint32) (job uint32, created bool, err error) {
	return tx.Enqueue(JobSpec{Kind: record.JobKindPatchsetCI, Patchset: record.RefTo(patchset)})
}

// enqueueCI appends a patchset.ci Job and selects it, unless there is an active one.
func (tx *Tx) enqueueCI(rec record.WorkerJob) (job uint32, created bool, err error) {
	i, _ := rec.Patchset.Index()
	p, err := tx.Patchset(i)
	if err != nil {
		return 0, false, err
	}
	if now, err := tx.SelectedJob(&p); err != nil {
		return 0, false, err
	} else if now != nil && now.active() {
		return now.Index, false, nil
	}
	job, adopted, err := bindb.ActiveCI(tx, i)
	if err != nil {
		return 0, false, err
	}
	if p.CIRunSeq == math.MaxUint32 {
		return 0, false, fmt.Errorf("%s: %w: its CI has run %d times", p.ID, bindb.ErrCapacity, p.CIRunSeq)
	}
	defer tx.writes(&err)
	if !adopted {
		if job, err = bindb.WorkerJobs.Append(tx.tx, rec); err != nil {
			return 0, false, err
		}
	}
	p.CIJob = record.RefTo(job)
	p.CIRunSeq++
	p.CICompletedAt, p.CISelectedSuites, p.CISuiteResults, p.CIBlockingFailures, p.CIStatus = 0, 0, 0, 0, 0
	return job, !adopted, tx.touched(p, nil)
}

// Claim takes the lease of a queued Job for the Repository's lease duration. The
// same request gets the same lease again while it is live. The lease counts once
// the transaction has committed.
//
// The error is ErrLeaseHeld while somebody else holds it. It is ErrState for a
// Job that waits for its retry, and for a running one whose holder is gone:
// LoseLease gives that one back, to be claimed after the retry delay, in a
// transaction that commits.
func (tx *Tx) Claim(job uint32, request RequestID) (l Lease, err error) {
	opt := tx.repo.a.opt
	j, err := tx.Job(job)
	if err != nil {
		return Lease{}, err
	}
	q, err := tx.queue()
	if err != nil {
		return Lease{}, err
	}
	if e := q.find(job); liveFor(&e, job, &j.WorkerJob, tx.repo.a.active.Epoch, tx.now) {
		if request != (RequestID{}) && e.Request == request {
			return leaseOf(&e), nil
		}
		return Lease{}, fmt.Errorf("job %s: %w until %s", tx.label(job), ErrLeaseHeld, e.ExpiresAt)
	}
	if err := tx.claimable(&j, tx.now); err != nil {
		return Lease{}, err
	}
	token, err := newToken(opt.Random)
	if err != nil {
		return Lease{}, err
	}
	now := max(tx.now, j.UpdatedAt)
	l = Lease{
		Job: job, Attempt: j.Attempts + 1, Token: token, Request: request,
		Heartbeat: tx.now, ExpiresAt: tx.now + seconds(opt.Lease),
	}
	j.State, j.Attempts, j.LockedAt, j.UpdatedAt = record.JobStateRunning, l.Attempt, now, now
	defer tx.writes(&err)
	tx.putLease(record.LeaseEntry{
		Repository: tx.repo.info.Index, Job: job, Attempt: l.Attempt, Token: token, Request: request,
		HeartbeatAt: l.Heartbeat, ExpiresAt: l.ExpiresAt, Epoch: tx.repo.a.active.Epoch,
	})
	return l, bindb.WorkerJobs.Put(tx.tx, job, j.WorkerJob)
}

// claimable says why a Job that nobody holds can't be claimed.
func (v *View) claimable(j *Job, now record.Seconds) error {
	switch {
	case j.State == record.JobStateRunning:
		return statef("the holder of job %s is gone; it must be queued again first", v.label(j.Index))
	case j.State != record.JobStateQueued:
		return statef("job %s has %s", v.label(j.Index), j.State)
	case j.AvailableAt > now:
		return statef("job %s waits until %s", v.label(j.Index), j.AvailableAt)
	case j.Attempts >= j.MaxAttempts:
		return statef("job %s has used its %d attempts", v.label(j.Index), j.MaxAttempts)
	}
	if err := v.targets(j.Patchset, j.Snapshot); err != nil {
		return fmt.Errorf("job %s: %w", v.label(j.Index), err)
	}
	return nil
}

func (v *View) label(job uint32) string { return record.JobLabel(v.repo.info.Index, job) }

// held verifies that a lease still holds its Job.
func (tx *Tx) held(l Lease) (Job, record.LeaseEntry, error) {
	j, err := tx.Job(l.Job)
	if err != nil {
		return j, record.LeaseEntry{}, err
	}
	q, err := tx.queue()
	if err != nil {
		return j, record.LeaseEntry{}, err
	}
	e := q.find(l.Job)
	if !liveFor(&e, l.Job, &j.WorkerJob, tx.repo.a.active.Epoch, tx.now) || e.Attempt != l.Attempt || !LeaseToken(e.Token).equal(l.Token) {
		return j, record.LeaseEntry{}, fmt.Errorf("job %s attempt %d: %w", tx.label(l.Job), l.Attempt, ErrLeaseLost)
	}
	return j, e, nil
}

// Heartbeat extends a lease. The error is ErrLeaseLost when it has expired or is
// not the Job's.
func (tx *Tx) Heartbeat(l Lease) (next Lease, err error) {
	j, e, err := tx.held(l)
	if err != nil {
		return l, err
	}
	now := max(tx.now, j.UpdatedAt)
	e.HeartbeatAt, e.ExpiresAt = tx.now, tx.now+seconds(tx.repo.a.opt.Lease)
	j.LockedAt, j.UpdatedAt = now, now
	defer tx.writes(&err)
	tx.putLease(e)
	return leaseOf(&e), bindb.WorkerJobs.Put(tx.tx, l.Job, j.WorkerJob)
}

// Evidence is the compact result of one CI run.
type Evidence struct {
	Selected         uint16
	Results          uint16
	BlockingFailures uint16
	Overall          record.CIStatus // never none
	Tests            record.CIStatus
	Lint             record.CIStatus
}

// bits is the status of the evidence as a Patchset keeps it.
func (ev *Evidence) bits() (b record.CIStatusBits) {
	b.SetOverall(ev.Overall)
	b.SetTests(ev.Tests)
	b.SetLint(ev.Lint)
	return b
}

// JobResult is what the holder of a Job reports.
type JobResult struct {
	// Outcome is completed or skipped.
	Outcome record.JobOutcome
	// Evidence is the result of a patchset.ci Job that has completed, else nil.
	Evidence *Evidence
}

func (r *JobResult) check(kind record.JobKind) error {
	switch {
	case r.Outcome != record.JobOutcomeCompleted && r.Outcome != record.JobOutcomeSkipped:
		return fmt.Errorf("%w: a holder reports completed or skipped, not %s", bindb.ErrInvalid, r.Outcome)
	case r.Evidence != nil && (kind != record.JobKindPatchsetCI || r.Outcome != record.JobOutcomeCompleted):
		return fmt.Errorf("%w: evidence is for a %s job that has completed; this is a %s job, %s",
			bindb.ErrInvalid, record.JobKindPatchsetCI, kind, r.Outcome)
	case r.Evidence == nil && kind == record.JobKindPatchsetCI && r.Outcome == record.JobOutcomeCompleted:
		return fmt.Errorf("%w: a %s job that has completed needs evidence", bindb.ErrInvalid, kind)
	}
	return nil
}

// Complete ends a held Job as succeeded (section 13.7) and returns the outcome that
// was recorded. The evidence of a patchset.ci Job goes to its Patchset and is
// durable before the Job's success marker. A Job that its Patchset does not select
// any more writes no evidence and ends as superseded. Evidence that the Patchset
// has already, for the same run, is not written again; the error is ErrState when
// it has other evidence. It is ErrLeaseLost when the lease is not the Job's, also
// after an earlier Complete.
func (tx *Tx) Complete(l Lease, r JobResult) (outcome record.JobOutcome, err error) {
	j, _, err := tx.held(l)
	if err != nil {
		return 0, err
	}
	if err := r.check(j.Kind); err != nil {
		return 0, fmt.Errorf("job %s: %w", tx.label(l.Job), err)
	}
	outcome = r.Outcome
	write := false
	var p Patchset
	if i, ok := j.Patchset.Index(); ok && j.Kind == record.JobKindPatchsetCI {
		if p, err = tx.Patchset(i); err != nil {
			return 0, err
		}
		switch ev := r.Evidence; {
		case p.CIJob != record.RefTo(l.Job):
			outcome = record.JobOutcomeSuperseded
		case ev == nil:
		case p.CICompletedAt == 0:
			write = true
			p.CISelectedSuites, p.CISuiteResults, p.CIBlockingFailures = ev.Selected, ev.Results, ev.BlockingFailures
			p.CIStatus, p.CICompletedAt = ev.bits(), max(tx.now, j.CreatedAt)
		case p.CISelectedSuites != ev.Selected || p.CISuiteResults != ev.Results || p.CIBlockingFailures != ev.BlockingFailures || p.CIStatus != ev.bits():
			return 0, statef("run %d of %s has other evidence", p.CIRunSeq, p.ID)
		}
	}
	defer tx.writes(&err)
	if write {
		if err := tx.touched(p, nil); err != nil {
			return 0, err
		}
	}
	j.State, j.Outcome, j.Error, j.LockedAt = record.JobStateSucceeded, outcome, record.JobErrorNone, 0
	j.UpdatedAt = max(tx.now, j.UpdatedAt)
	tx.dropLease(&j)
	return outcome, bindb.WorkerJobs.Put(tx.tx, l.Job, j.WorkerJob)
}

// CompleteCI is Complete for a patchset.ci Job that has run.
func (tx *Tx) CompleteCI(l Lease, ev Evidence) (outcome record.JobOutcome, err error) {
	return tx.Complete(l, JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &ev})
}

// FailJob reports that the holder could not do the work. A retryable failure
// queues the Job again while attempts are left.
func (tx *Tx) FailJob(l Lease, retryable bool) (err error) {
	j, _, err := tx.held(l)
	if err != nil {
		return err
	}
	defer tx.writes(&err)
	tx.dropLease(&j)
	if retryable && j.Attempts < j.MaxAttempts {
		return tx.requeue(&j, record.JobErrorRetryable)
	}
	return tx.endFailed(&j, record.JobErrorTerminal)
}

// LoseLease ends the lease of a running Job that nobody holds any more: the Job
// is queued again, to be claimed after the retry delay, or fails when its attempts
// are used. The error is ErrLeaseHeld while the lease is live.
func (tx *Tx) LoseLease(job uint32) (j Job, err error) {
	j, err = tx.Job(job)
	if err != nil || j.State != record.JobStateRunning {
		return j, err
	}
	l, live, err := tx.LeaseOf(&j, tx.now)
	if err != nil {
		return j, err
	}
	if live {
		return j, fmt.Errorf("job %s: %w until %s", tx.label(job), ErrLeaseHeld, l.ExpiresAt)
	}
	defer tx.writes(&err)
	tx.dropLease(&j)
	if j.Attempts < j.MaxAttempts {
		err = tx.requeue(&j, record.JobErrorLeaseExpired)
	} else {
		err = tx.endFailed(&j, record.JobErrorLeaseExpired)
	}
	return j, err
}

// requeue counts the delay from the clock, not from the Job's times, so that a
// clock that was once wrong does not hold the Job back.
func (tx *Tx) requeue(j *Job, why record.JobError) error {
	j.State, j.Error, j.LockedAt, j.UpdatedAt = record.JobStateQueued, why, 0, max(tx.now, j.UpdatedAt)
	j.AvailableAt = tx.now + seconds(tx.repo.a.opt.RetryDelay)
	return bindb.WorkerJobs.Put(tx.tx, j.Index, j.WorkerJob)
}

func (tx *Tx) endFailed(j *Job, why record.JobError) error {
	j.State, j.Outcome, j.Error, j.LockedAt = record.JobStateFailed, record.JobOutcomeFailed, why, 0
	j.UpdatedAt = max(tx.now, j.UpdatedAt)
	return bindb.WorkerJobs.Put(tx.tx, j.Index, j.WorkerJob)
}

func seconds(d time.Duration) record.Seconds { return record.Seconds(max(d/time.Second, 1)) }
