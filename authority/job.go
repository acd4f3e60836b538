package authority

import (
	"fmt"
	"math"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// maxCIAttempts is how often a patchset.ci Job is tried when its holders die.
const maxCIAttempts = 3

// Job is one Worker Job.
type Job struct {
	record.WorkerJob
	Index uint32
}

// Job reads one live Worker Job.
func (v *View) Job(index uint32) (Job, error) {
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
	return &j, err
}

// LeaseOf returns the live lease of a running Job, without its token.
func (v *View) LeaseOf(j *Job, now record.Seconds) (Lease, bool, error) {
	rep, err := v.repo.leases()
	if err != nil {
		return Lease{}, false, err
	}
	return v.liveLease(rep.entry(j.Index), j, now)
}

// LeaseOf returns the live lease of a running Job as this transaction leaves it,
// without its token.
func (tx *Tx) LeaseOf(j *Job, now record.Seconds) (Lease, bool, error) {
	q, err := tx.queue()
	if err != nil {
		return Lease{}, false, err
	}
	return tx.liveLease(q.find(j.Index), j, now)
}

func (v *View) liveLease(e leaseEntry, j *Job, now record.Seconds) (Lease, bool, error) {
	if !e.liveFor(j.Index, &j.WorkerJob, v.repo.a.active.Epoch, now) {
		return Lease{}, false, nil
	}
	e.Token = LeaseToken{}
	return e.Lease, true, nil
}

// EnqueueCI queues a patchset.ci Job and selects it. A Job of the Patchset that
// is queued or running already is returned instead, with created false.
func (tx *Tx) EnqueueCI(patchset uint32) (job uint32, created bool, err error) {
	if err := tx.beginsWork(); err != nil {
		return 0, false, err
	}
	p, err := tx.Patchset(patchset)
	if err != nil {
		return 0, false, err
	}
	if now, err := tx.SelectedJob(&p); err != nil {
		return 0, false, err
	} else if now != nil && now.active() {
		return now.Index, false, nil
	}
	if p.CIRunSeq == math.MaxUint32 {
		return 0, false, fmt.Errorf("%s: %w: its CI has run %d times", p.ID, bindb.ErrCapacity, p.CIRunSeq)
	}
	defer tx.writes(&err)
	job, err = bindb.WorkerJobs.Append(tx.tx, record.WorkerJob{
		Kind: record.JobKindPatchsetCI, State: record.JobStateQueued, MaxAttempts: maxCIAttempts,
		Patchset: record.RefTo(patchset), AvailableAt: tx.now, CreatedAt: tx.now, UpdatedAt: tx.now,
	})
	if err != nil {
		return 0, false, err
	}
	p.CIJob = record.RefTo(job)
	p.CIRunSeq++
	p.CICompletedAt, p.CISelectedSuites, p.CISuiteResults, p.CIBlockingFailures, p.CIStatus = 0, 0, 0, 0, 0
	return job, true, tx.touched(p, nil)
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
	if e := q.find(job); e.liveFor(job, &j.WorkerJob, tx.repo.a.active.Epoch, tx.now) {
		if request != (RequestID{}) && e.Request == request {
			return e.Lease, nil
		}
		return Lease{}, fmt.Errorf("job %s: %w until %s", tx.label(job), ErrLeaseHeld, e.ExpiresAt)
	}
	switch {
	case j.State == record.JobStateRunning:
		return Lease{}, statef("the holder of job %s is gone; it must be queued again first", tx.label(job))
	case j.State != record.JobStateQueued:
		return Lease{}, statef("job %s has %s", tx.label(job), j.State)
	case j.AvailableAt > tx.now:
		return Lease{}, statef("job %s waits until %s", tx.label(job), j.AvailableAt)
	case j.Attempts >= j.MaxAttempts:
		return Lease{}, statef("job %s has used its %d attempts", tx.label(job), j.MaxAttempts)
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
	tx.putLease(q, leaseEntry{Lease: l, repository: tx.repo.info.Index, epoch: tx.repo.a.active.Epoch})
	return l, bindb.WorkerJobs.Put(tx.tx, job, j.WorkerJob)
}

func (v *View) label(job uint32) string { return record.JobLabel(v.repo.info.Index, job) }

// held verifies that a lease still holds its Job.
func (tx *Tx) held(l Lease) (Job, leaseEntry, error) {
	j, err := tx.Job(l.Job)
	if err != nil {
		return j, leaseEntry{}, err
	}
	q, err := tx.queue()
	if err != nil {
		return j, leaseEntry{}, err
	}
	e := q.find(l.Job)
	if !e.liveFor(l.Job, &j.WorkerJob, tx.repo.a.active.Epoch, tx.now) || e.Attempt != l.Attempt || !e.Token.equal(l.Token) {
		return j, leaseEntry{}, fmt.Errorf("job %s attempt %d: %w", tx.label(l.Job), l.Attempt, ErrLeaseLost)
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
	e.Heartbeat, e.ExpiresAt = tx.now, tx.now+seconds(tx.repo.a.opt.Lease)
	j.LockedAt, j.UpdatedAt = now, now
	defer tx.writes(&err)
	tx.putLease(tx.lease, e)
	return e.Lease, bindb.WorkerJobs.Put(tx.tx, l.Job, j.WorkerJob)
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

// CompleteCI gives the Patchset of a held patchset.ci Job its evidence and ends
// the Job. The evidence is durable before the Job's success marker. A Job that is
// no longer the selected one writes no evidence and ends as superseded.
func (tx *Tx) CompleteCI(l Lease, ev Evidence) (outcome record.JobOutcome, err error) {
	j, _, err := tx.held(l)
	if err != nil {
		return 0, err
	}
	pi, ok := j.Patchset.Index()
	if j.Kind != record.JobKindPatchsetCI || !ok {
		return 0, statef("job %s is a %s job", tx.label(l.Job), j.Kind)
	}
	p, err := tx.Patchset(pi)
	if err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	outcome = record.JobOutcomeSuperseded
	if p.CIJob == record.RefTo(l.Job) {
		outcome = record.JobOutcomeCompleted
		var bits record.CIStatusBits
		bits.SetOverall(ev.Overall)
		bits.SetTests(ev.Tests)
		bits.SetLint(ev.Lint)
		p.CISelectedSuites, p.CISuiteResults, p.CIBlockingFailures = ev.Selected, ev.Results, ev.BlockingFailures
		p.CIStatus = bits
		p.CICompletedAt = max(tx.now, j.CreatedAt)
		if err := tx.touched(p, nil); err != nil {
			return 0, err
		}
	}
	j.State, j.Outcome, j.Error, j.LockedAt = record.JobStateSucceeded, outcome, record.JobErrorNone, 0
	j.UpdatedAt = max(tx.now, j.UpdatedAt)
	tx.dropLease(tx.lease, &j)
	return outcome, bindb.WorkerJobs.Put(tx.tx, l.Job, j.WorkerJob)
}

// FailJob reports that the holder could not do the work. A retryable failure
// queues the Job again while attempts are left.
func (tx *Tx) FailJob(l Lease, retryable bool) (err error) {
	j, _, err := tx.held(l)
	if err != nil {
		return err
	}
	defer tx.writes(&err)
	tx.dropLease(tx.lease, &j)
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
	tx.dropLease(tx.lease, &j)
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
