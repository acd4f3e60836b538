package cell

import (
	"sync"

	"github.com/writ-authority/writ/cell/record"
)

// sealing hashes the commits of several cells together, which takes half the time for
// each or less. Whoever comes while all workers are busy waits for the next group;
// whoever comes alone waits for nobody.
type sealing struct {
	mu      sync.Mutex
	free    int // workers
	waiting []*sealJob
}

type sealJob struct {
	builder *record.Builder
	lead    chan []*sealJob // the group to seal, or nil when it is sealed
}

func (q *sealing) seal(b *record.Builder) error {
	q.mu.Lock()
	group := []*sealJob{{builder: b}}
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
	} else {
		job := group[0]
		job.lead = make(chan []*sealJob, 1)
		q.waiting = append(q.waiting, job)
		q.mu.Unlock()
		if group = <-job.lead; group == nil {
			return b.Seal() // sealed already: only the mistake, if there is one
		}
	}
	builders := make([]*record.Builder, len(group))
	for i, job := range group {
		builders[i] = job.builder
	}
	_ = record.Seal(builders...) // each has its own answer
	q.mu.Lock()
	if next := q.waiting; len(next) > 0 {
		q.waiting = nil
		next[0].lead <- next
	} else {
		q.free++
	}
	q.mu.Unlock()
	for _, job := range group {
		if job.builder != b {
			job.lead <- nil
		}
	}
	return b.Seal()
}
