package bindb

import "github.com/writ-authority/writ/bindb/record"

// queue checks Worker Jobs (J01 to J05).
func (c *checker) queue(t *targets) {
	f := WorkerJobs.f
	scan(c, WorkerJobs, func(i uint32, r *record.WorkerJob) {
		c.inRange(f, i, "J02", "patchset_index_plus1", r.Patchset, Patchsets.f)
		c.snapshot(t, f, i, "J02", "snapshot_index_plus1", r.Snapshot, r.Meta.Tombstoned())
	})
}
