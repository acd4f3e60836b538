package authority

import (
	"context"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// JobFilter says which Jobs to list.
type JobFilter struct {
	// State and Kind restrict the list; zero means any.
	State record.JobState
	Kind  record.JobKind
	// Limit bounds the list; zero means 50, and more than 1,000 means 1,000.
	Limit int
	// Before is the index of the last Job of the page before, zero for the first
	// page.
	Before uint32
}

func (f *JobFilter) limit() int {
	if f.Limit <= 0 {
		return 50
	}
	return min(f.Limit, 1000)
}

// Jobs lists Jobs that are not tombstoned, the newest first. Queued and running
// ones are found without reading the others.
func (v *View) Jobs(f JobFilter) ([]Job, error) {
	n, err := bindb.WorkerJobs.Count(v)
	if err != nil {
		return nil, err
	}
	if f.Before != 0 {
		n = min(n, f.Before)
	}
	var list []Job
	take := func(index uint32, rec *record.WorkerJob) bool {
		if !rec.Meta.Tombstoned() && (f.State == 0 || rec.State == f.State) && (f.Kind == 0 || rec.Kind == f.Kind) {
			list = append(list, Job{*rec, index})
		}
		return len(list) < f.limit()
	}
	if f.State == record.JobStateQueued || f.State == record.JobStateRunning {
		active, err := v.activeJobs(&f, n)
		if err != nil {
			return nil, err
		}
		for _, i := range active {
			rec, err := bindb.WorkerJobs.Get(v, i)
			if err != nil {
				return nil, err
			}
			if !take(i, &rec) {
				break
			}
		}
		return list, nil
	}
	for more := true; more && n > 0; {
		from := n - min(n, 1000)
		var page []Job
		err := bindb.WorkerJobs.Scan(v, from, n, func(i uint32, rec *record.WorkerJob) error {
			page = append(page, Job{*rec, i})
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, j := range slices.Backward(page) {
			if more = take(j.Index, &j.WorkerJob); !more {
				break
			}
		}
		n = from
	}
	return list, nil
}

// activeJobs lists the queued or running Jobs below an index, in descending order.
func (v *View) activeJobs(f *JobFilter, below uint32) (list []uint32, err error) {
	add := func(i uint32) (bool, error) {
		if i < below {
			list = append(list, i)
		}
		return true, nil
	}
	if f.State == record.JobStateRunning {
		err = bindb.RunningJobs(v, add)
	} else {
		var kinds []record.JobKind
		if f.Kind != 0 {
			kinds = []record.JobKind{f.Kind}
		}
		err = bindb.ReadyJobsOf(v, kinds, func(_ record.Seconds, i uint32) (bool, error) { return add(i) })
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list, err
}

// QueueStats is the state of a queue.
type QueueStats struct {
	bindb.JobCounts
	// Oldest is when the first queued Job was or will be available, zero when
	// none is queued.
	Oldest record.Seconds
}

// QueueStats counts the Jobs that are not tombstoned as of now, without reading
// them.
func (v *View) QueueStats(now record.Seconds) (s QueueStats, err error) {
	if s.JobCounts, err = bindb.CountJobs(v, now); err != nil {
		return s, err
	}
	return s, bindb.ReadyJobs(v, func(at record.Seconds, _ uint32) (bool, error) {
		s.Oldest = at
		return false, nil
	})
}

// EnqueueJob is Tx.Enqueue in a transaction of its own.
func (r *Repository) EnqueueJob(ctx context.Context, s JobSpec) (job uint32, created bool, err error) {
	err = r.Update(ctx, func(tx *Tx) (err error) {
		job, created, err = tx.Enqueue(s)
		return err
	})
	return job, created, err
}

// ClaimJob is Tx.Claim in a transaction of its own. What a dead holder of the Job
// has left is given back first; it can be claimed after the retry delay.
func (r *Repository) ClaimJob(ctx context.Context, job uint32, request RequestID) (l Lease, err error) {
	lost := false
	err = r.UpdateQueue(ctx, func(tx *Tx) error {
		j, err := tx.Job(job)
		if err != nil {
			return err
		}
		if lost = false; j.State == record.JobStateRunning {
			_, live, err := tx.LeaseOf(&j, tx.now)
			if err != nil {
				return err
			}
			if lost = !live; lost {
				j, err = tx.LoseLease(job)
				return err
			}
		}
		l, err = tx.Claim(job, request)
		return err
	})
	if err == nil && lost {
		return r.ClaimJob(ctx, job, request)
	}
	return l, err
}

// HeartbeatJob is Tx.Heartbeat in a transaction of its own.
func (r *Repository) HeartbeatJob(ctx context.Context, l Lease) (next Lease, err error) {
	err = r.UpdateQueue(ctx, func(tx *Tx) (err error) {
		next, err = tx.Heartbeat(l)
		return err
	})
	return next, err
}

// CompleteJob is Tx.Complete in a transaction of its own.
func (r *Repository) CompleteJob(ctx context.Context, l Lease, result JobResult) (outcome record.JobOutcome, err error) {
	err = r.UpdateQueue(ctx, func(tx *Tx) (err error) {
		outcome, err = tx.Complete(l, result)
		return err
	})
	return outcome, err
}

// FailJob is Tx.FailJob in a transaction of its own.
func (r *Repository) FailJob(ctx context.Context, l Lease, retryable bool) error {
	return r.UpdateQueue(ctx, func(tx *Tx) error { return tx.FailJob(l, retryable) })
}
