package record

// WorkerJob is one durable unit of work of a Repository. The record is the whole
// request: what it does not say is derived when the Job runs (Binary DB v0,
// section 5.15).
//
//bindb:record file=worker_job.bin root=authority family=queue kind=record size=52 name=ServerWorkerJobRecord const=SERVER_WORKER_JOB_RECORD_SIZE
type WorkerJob struct {
	Meta        OperationalMeta `bin:"job_meta"`                                   // only the tombstone bit has a meaning
	Kind        JobKind         `bin:"job_kind"`                                   // what the Job does
	State       JobState        `bin:"state_kind"`                                 // where it stands
	Outcome     JobOutcome      `bin:"outcome_kind"`                               // how it ended
	Attempts    uint16          `bin:"attempt_count"`                              // claims so far
	MaxAttempts uint16          `bin:"max_attempts"`                               // claims allowed, at least 1
	Error       JobError        `bin:"error_kind"`                                 // why the latest attempt ended badly
	_           uint16          `bin:"reserved0"`                                  // zero
	Patchset    Ref             `bin:"patchset_index_plus1" target:"patchset.bin"` // set as the kind demands
	Snapshot    Ref             `bin:"snapshot_index_plus1" target:"snapshot.bin"` // set as the kind demands
	AvailableAt Seconds         `bin:"available_at_s"`                             // required; no claim before
	LockedAt    Seconds         `bin:"locked_at_s"`                                // set exactly when running
	CreatedAt   Seconds         `bin:"created_at_s"`                               // required
	UpdatedAt   Seconds         `bin:"updated_at_s"`                               // required, never before created_at_s
}

// WorkerReadyIndex orders queued Jobs by the time from which they may be claimed
// (section 11.1).
//
//bindb:record file=worker_ready.idx root=authority family=queue kind=index size=12 name=ServerWorkerReadyIndexRecord const=SERVER_WORKER_READY_INDEX_RECORD_SIZE
type WorkerReadyIndex struct {
	AvailableAt Seconds `bin:"available_at_s"`                                 // copy of the Job's
	Job         Ref     `bin:"worker_job_index_plus1" target:"worker_job.bin"` // required
}

// WorkerStateIndex groups Jobs by state (section 11.1).
//
//bindb:record file=worker_state.idx root=authority family=queue kind=index size=8 name=ServerWorkerStateIndexRecord const=SERVER_WORKER_STATE_INDEX_RECORD_SIZE
type WorkerStateIndex struct {
	State JobState `bin:"state_kind"`                                     // copy of the Job's
	_     uint8    `bin:"reserved0"`                                      // zero
	_     uint16   `bin:"reserved1"`                                      // zero
	Job   Ref      `bin:"worker_job_index_plus1" target:"worker_job.bin"` // required
}

// JobKind says what a Job does (section 8.1). The value 1 is unassigned and
// always refused.
//
//bindb:enum
type JobKind uint8

const (
	JobKindContentGC           JobKind = 2  // content.gc
	JobKindContentOptimize     JobKind = 3  // content.optimize
	JobKindContentPack         JobKind = 4  // content.pack
	JobKindLandProcess         JobKind = 5  // land.process: lands a Patchset on Line main
	JobKindMainSeedRefresh     JobKind = 6  // main-seed.refresh
	JobKindPatchsetCI          JobKind = 7  // patchset.ci: runs the suites of a Patchset
	JobKindPatchsetCIAggregate JobKind = 8  // patchset.ci.aggregate
	JobKindPolicyEvaluate      JobKind = 9  // policy.evaluate
	JobKindReconcileRepo       JobKind = 10 // reconcile.repo
	JobKindRepoCI              JobKind = 11 // repo.ci: runs the suites of a Snapshot
)

// JobState is the state of a Job (section 8.2).
//
//bindb:enum
type JobState uint8

const (
	JobStateQueued    JobState = 1 // queued
	JobStateRunning   JobState = 2 // running
	JobStateSucceeded JobState = 3 // succeeded
	JobStateFailed    JobState = 4 // failed
)

// Terminal says whether the state is final.
func (s JobState) Terminal() bool { return s == JobStateSucceeded || s == JobStateFailed }

// JobOutcome says how a Job ended (section 8.2).
//
//bindb:enum
type JobOutcome uint8

const (
	JobOutcomeNone       JobOutcome = 0 // none: not ended
	JobOutcomeCompleted  JobOutcome = 1 // completed: did its work
	JobOutcomeSkipped    JobOutcome = 2 // skipped: had nothing to do
	JobOutcomeAttached   JobOutcome = 3 // attached: another Job did the work
	JobOutcomeSuperseded JobOutcome = 4 // superseded: a later Job took its place
	JobOutcomeFailed     JobOutcome = 5 // failed
)

// JobError is the category of the latest failure (section 8.2).
//
//bindb:enum
type JobError uint16

const (
	JobErrorNone         JobError = 0 // none
	JobErrorRetryable    JobError = 1 // retryable_execution
	JobErrorTerminal     JobError = 2 // terminal_execution
	JobErrorLeaseExpired JobError = 3 // lease_expired
)

// Need says whether a Job kind uses a reference (section 8.1).
type Need uint8

const (
	NeedNone     Need = iota // must be zero
	NeedOptional             // may be zero
	NeedRequired             // must not be zero
)

// PatchsetNeed says whether a Job of this kind refers to a Patchset.
func (k JobKind) PatchsetNeed() Need {
	switch k {
	case JobKindLandProcess, JobKindMainSeedRefresh, JobKindPatchsetCI, JobKindPatchsetCIAggregate, JobKindPolicyEvaluate:
		return NeedRequired
	}
	return NeedNone
}

// SnapshotNeed says whether a Job of this kind refers to a Snapshot.
func (k JobKind) SnapshotNeed() Need {
	switch k {
	case JobKindMainSeedRefresh:
		return NeedOptional
	case JobKindRepoCI:
		return NeedRequired
	}
	return NeedNone
}

func (n Need) check(field string, r Ref, k JobKind) error {
	switch {
	case n == NeedNone && r != 0:
		return fieldError("J01", field, r, "zero for "+k.String())
	case n == NeedRequired && r == 0:
		return fieldError("J01", field, r, "a reference for "+k.String())
	}
	return nil
}

// Check verifies the invariants that the record alone can show: the references
// of its kind (J01), state, outcome, error and lock (J03), attempts (J04) and
// times (J05).
func (r *WorkerJob) Check() error {
	if err := r.Kind.PatchsetNeed().check("patchset_index_plus1", r.Patchset, r.Kind); err != nil {
		return err
	}
	if err := r.Kind.SnapshotNeed().check("snapshot_index_plus1", r.Snapshot, r.Kind); err != nil {
		return err
	}
	if err := r.checkState(); err != nil {
		return err
	}
	switch {
	case r.MaxAttempts < 1:
		return fieldError("J04", "max_attempts", r.MaxAttempts, "at least 1")
	case r.Attempts > r.MaxAttempts:
		return fieldError("J04", "attempt_count", r.Attempts, "at most max_attempts")
	case r.State == JobStateRunning && r.Attempts == 0:
		return fieldError("J04", "attempt_count", r.Attempts, "at least 1 when running")
	case r.AvailableAt == 0:
		return fieldError("J05", "available_at_s", r.AvailableAt, "a time")
	case r.CreatedAt == 0:
		return fieldError("J05", "created_at_s", r.CreatedAt, "a time")
	case r.UpdatedAt < r.CreatedAt:
		return fieldError("J05", "updated_at_s", r.UpdatedAt, "a time not before created_at_s")
	case r.LockedAt != 0 && (r.LockedAt < r.CreatedAt || r.LockedAt > r.UpdatedAt):
		return fieldError("J05", "locked_at_s", r.LockedAt, "a time from created_at_s to updated_at_s")
	}
	return nil
}

// checkState verifies the table of section 5.15.
func (r *WorkerJob) checkState() error {
	outcome, failure := false, false
	switch r.State {
	case JobStateQueued, JobStateRunning:
		outcome = r.Outcome == JobOutcomeNone
		failure = r.Error != JobErrorTerminal && (r.Error == JobErrorNone || r.Attempts > 0)
	case JobStateSucceeded:
		outcome = r.Outcome >= JobOutcomeCompleted && r.Outcome <= JobOutcomeSuperseded
		failure = r.Error == JobErrorNone
	case JobStateFailed:
		outcome = r.Outcome == JobOutcomeFailed
		failure = r.Error == JobErrorTerminal || r.Error == JobErrorLeaseExpired
	}
	switch {
	case !outcome:
		return fieldError("J03", "outcome_kind", uint8(r.Outcome), "an outcome of a "+r.State.String()+" Job")
	case !failure:
		return fieldError("J03", "error_kind", uint16(r.Error), "an error of a "+r.State.String()+" Job")
	case (r.State == JobStateRunning) != (r.LockedAt != 0):
		return fieldError("J03", "locked_at_s", r.LockedAt, "a time exactly when running")
	}
	return nil
}

// Check verifies that the row names a Job.
func (r *WorkerReadyIndex) Check() error { return requireRef("worker_job_index_plus1", r.Job) }

// Check verifies that the row names a Job.
func (r *WorkerStateIndex) Check() error { return requireRef("worker_job_index_plus1", r.Job) }
