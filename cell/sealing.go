package cell

import (
	"sync"

	"github.com/writ-authority/writ/cell/record"
)

// sealing hashes the commits of several cells together, which takes half the time for
// each or less. Whoever comes while all workers are busy waits for the next group;
// whoever comes alone waits for nobody.
type sealing struct {
	workers int

	mu      sync.Mutex
	busy    int // workers
	waiting []*sealJob
}

type sealJob struct {
	builder *record.Builder
	lead    chan []*sealJob // the group to seal, or nil when it is sealed
}

// A group is small enough to keep all workers busy and large enough to fill the vectors
// of the hash: a commit has one to six nodes to hash at a time.
const (
	minGroup = 8
	maxGroup = 32
)

func (q *sealing) seal(b *record.Builder) error {
	q.mu.Lock()
	group := []*sealJob{{builder: b}}
	if q.busy < q.workers {
		q.busy++
		q.mu.Unlock()
	} else {
		job := group[0]
		job.lead = make(chan []*sealJob, 1)
		q.waiting = append(q.waiting, job)
		q.mu.Unlock()
		if group = <-job.lead; group == nil {
			return b.Err()
		}
	}
	builders := make([]*record.Builder, len(group))
	for i, job := range group {
		builders[i] = job.builder
	}
	_ = record.Seal(builders...) // each has its own answer
	q.mu.Lock()
	q.busy--
	q.dispatch()
	q.mu.Unlock()
	for _, job := range group {
		if job.builder != b {
			job.lead <- nil
		}
	}
	return b.Err()
}

// dispatch makes workers of those who wait. The caller has the lock.
func (q *sealing) dispatch() {
	for q.busy < q.workers && len(q.waiting) > 0 {
		n := (len(q.waiting) + q.workers - 1) / q.workers
		n = min(max(n, minGroup), maxGroup, len(q.waiting))
		group := make([]*sealJob, n)
		copy(group, q.waiting)
		q.waiting = append(q.waiting[:0], q.waiting[n:]...)
		q.busy++
		group[0].lead <- group
	}
}
