package bindb

import (
	"context"

	"github.com/writ-authority/writ/bindb/record"
)

// Waiting is the number of mutations in the queue.
func (r *Root) Waiting() int { return r.waiting() }

// Batch runs mutations as if they had waited together, and returns the result of
// each one.
func (r *Root) Batch(ctx context.Context, fns ...func(*Tx) error) []error {
	r.leader <- struct{}{}
	defer func() { <-r.leader }()
	var all []*pending
	for _, fn := range fns {
		all = append(all, newPending(ctx, fn))
	}
	r.queueMu.Lock()
	r.queue, r.led = append(r.queue, all...), true
	r.queueMu.Unlock()
	defer r.handOver()
	for r.Waiting() > 0 {
		r.lead(ctx)
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, p.answer())
	}
	return errs
}

// LimitJournal sets how many bytes the journal of one batch may have.
func (r *Root) LimitJournal(n int) { r.maxJournal = n }

// PayloadOf is the access to any payload file.
func PayloadOf(file string) Payload { return Payload{mustFamily(file)} }

// SumsKnown reports whether the checksums of the committed state are known.
func (r *Root) SumsKnown() bool {
	batch, err := r.latestBatch()
	return err == nil && r.currentSums(batch) != nil
}

// TableOf is the access to any fixed-record file.
func TableOf[T any, P record.Codec[T]](file string) Table[T, P] { return table[T, P](file) }

// ReadAll reads every byte of a file behind its header.
func ReadAll(rd Reader, file string) error {
	f := mustFamily(file)
	n, err := rd.size(f)
	if err != nil {
		return err
	}
	return rd.readAt(f, make([]byte, n-HeaderSize), HeaderSize)
}

// QueueOf is the queue of n ready Jobs as n batches make it.
func QueueOf(n uint32, kind record.JobKind) any {
	q := newJobQueue()
	for i := range n {
		q = q.after([]jobChange{{job: i, now: jobFacts{
			state: record.JobStateQueued, kind: kind, patchset: record.RefTo(i), available: record.Seconds(1_700_000_000 + i/100),
		}}})
	}
	return q
}
