package convert

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/writ-authority/writ/bindb/record"
)

// What the earlier server wrote into Jobs where the format has a category.
const (
	leaseExpired         = "lease expired"                              // error of a queued Job
	leaseExpiredAfterMax = "lease expired after max attempts"           // error of a failed one
	laterRunSucceeded    = "a later run of the same patchset succeeded" // reason of a skipped one
	agentTurn            = "agent.turn.submit"                          // type of a Job that the format does not know
	skippedStatus        = "skipped"                                    // of a result
	attachedStatus       = "attached"                                   // of a result
)

// jobs appends the Jobs of the Repository in the order of their source ids, and
// gives every Patchset the locator of its patchset.ci Job with the greatest one.
func (l *legacy) jobs(rows []ranked[jobRow]) error {
	slices.SortStableFunc(rows, func(a, b ranked[jobRow]) int { return cmp.Compare(a.row.JobID, b.row.JobID) })
	// The last run of each Patchset that did its work and succeeded.
	succeeded := map[record.Identity]int{}
	for i, r := range rows {
		if r.row.Type != record.JobKindPatchsetCI.String() || r.row.State != record.JobStateSucceeded.String() ||
			r.row.PatchsetID == nil || r.row.skipped() || r.row.attached() {
			continue
		}
		if id, err := record.ParseIdentity(*r.row.PatchsetID, l.ns); err == nil {
			succeeded[id] = i
		}
	}
	for i, r := range rows {
		later := false
		if r.row.PatchsetID != nil {
			id, err := record.ParseIdentity(*r.row.PatchsetID, l.ns)
			last, ok := succeeded[id]
			later = err == nil && ok && last > i
		}
		if err := l.addJob(r, later); err != nil {
			return err
		}
	}
	return nil
}

func (r *jobRow) skipped() bool  { return r.Result != nil && r.Result.Status == skippedStatus }
func (r *jobRow) attached() bool { return r.Result != nil && r.Result.Status == attachedStatus }

// addJob appends one Job. later says that a later run of the same Patchset has
// succeeded.
func (l *legacy) addJob(r ranked[jobRow], later bool) (err error) {
	row, p := r.row, r.at
	rec := record.WorkerJob{Attempts: row.Attempts, MaxAttempts: row.Max}
	if row.Type == agentTurn {
		return p.bad("job_type", "is %s, which is no durable Job in the format", agentTurn)
	}
	if rec.Kind, err = parsed(p, "job_type", row.Type, record.ParseJobKind); err != nil {
		return err
	}
	if err := jobState(p, row, later, &rec); err != nil {
		return err
	}
	omitted := false
	if row.PatchsetID != nil {
		var i uint32
		if i, _, omitted, err = l.patchset(p, *row.PatchsetID); err != nil {
			return err
		}
		rec.Patchset = record.RefTo(i)
	}
	if omitted {
		l.omit("job "+strconv.FormatUint(row.JobID, 10), "its Change is left out")
		return nil
	}
	if rec.Snapshot, err = l.optionalSnapshot(p, "snapshot_id", row.SnapshotID); err != nil {
		return err
	}
	if rec.AvailableAt, err = p.required("available_at", row.AvailableAt); err != nil {
		return err
	}
	if rec.CreatedAt, err = p.required("created_at", row.CreatedAt); err != nil {
		return err
	}
	if rec.UpdatedAt, err = p.required("updated_at", row.UpdatedAt); err != nil {
		return err
	}
	i, err := addRecord(l, p, &rec)
	if err != nil {
		return err
	}
	if patchset, ok := rec.Patchset.Index(); ok && rec.Kind == record.JobKindPatchsetCI {
		l.locators[patchset] = record.RefTo(i)
	}
	return nil
}

// jobState maps state, result and error.
func jobState(p place, row *jobRow, later bool, rec *record.WorkerJob) (err error) {
	if rec.State, err = parsed(p, "state", row.State, record.ParseJobState); err != nil {
		return err
	}
	switch {
	case rec.State == record.JobStateRunning:
		return p.bad("state", "is running: let the server of the source finish or requeue its Jobs first")
	case row.LockedAt.set:
		return p.bad("locked_at", "is a time, want null: let the server of the source finish or requeue its Jobs first")
	case row.Result != nil && rec.State != record.JobStateSucceeded:
		return p.bad("result", "is there, want null unless the state is succeeded")
	}
	switch rec.State {
	case record.JobStateQueued:
		if row.Error == nil {
			return nil
		}
		if rec.Error = record.JobErrorRetryable; *row.Error == leaseExpired {
			rec.Error = record.JobErrorLeaseExpired
		}
	case record.JobStateSucceeded:
		if row.Error != nil {
			return p.bad("error", "is %.80q, want null for a Job that has succeeded", *row.Error)
		}
		switch {
		case row.skipped() && row.Result.Reason != nil && *row.Result.Reason == laterRunSucceeded && later:
			rec.Outcome = record.JobOutcomeSuperseded
		case row.skipped():
			rec.Outcome = record.JobOutcomeSkipped
		case row.attached():
			rec.Outcome = record.JobOutcomeAttached
		default:
			rec.Outcome = record.JobOutcomeCompleted
		}
	case record.JobStateFailed:
		if row.Error == nil {
			return p.bad("error", "is null, want the error of a Job that has failed")
		}
		rec.Outcome = record.JobOutcomeFailed
		if rec.Error = record.JobErrorTerminal; *row.Error == leaseExpiredAfterMax {
			rec.Error = record.JobErrorLeaseExpired
		}
	}
	return nil
}
