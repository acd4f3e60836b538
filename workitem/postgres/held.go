package postgres

import (
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/workitem"
)

// held are the jobs that workers of this process hold, as its last transaction has
// left them: what a renewal or a commit is about is known before it is read. The
// database counts: a transaction that is based on them writes only if it finds them as
// they are here.
type held struct {
	mu   sync.Mutex
	rows map[workitem.ID]*row
}

// maxHeld bounds the jobs that are kept in memory.
const maxHeld = 16384

// note keeps the jobs that a transaction has left held, unless others wait for them, and
// drops those that it has ended.
func (h *held) note(b *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rows == nil {
		h.rows = map[workitem.ID]*row{}
	}
	if b.out.raise {
		clear(h.rows)
		return
	}
	for _, id := range b.out.changed {
		n := b.rows[id]
		if n == nil || n.item == nil || !n.item.Status.Held() || n.parent || len(n.children) > 0 {
			delete(h.rows, id)
			continue
		}
		if len(h.rows) >= maxHeld {
			clear(h.rows) // leases that ran out long ago, for the most part
		}
		h.rows[id] = &row{item: n.item, old: n.item, events: n.events, oldEvents: n.events, locked: true, kept: true}
	}
}

// get finds jobs, if all of them are known.
func (h *held) get(ids map[workitem.ID]struct{}, into map[workitem.ID]*row) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range ids {
		n := h.rows[id]
		if n == nil {
			return false
		}
		if into[id] == nil {
			copied := *n
			into[id] = &copied
		}
	}
	return true
}

func (h *held) drop(b *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range b.rows {
		delete(h.rows, id)
	}
}

var (
	// lockKept locks jobs that are as this process has left them, and whose leases are
	// live by the database's clock: one that has run out may have been found and counted
	// as over.
	lockKept = `SELECT l.item FROM unnest($3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::integer[])
		u (item, status, epoch, updated, expires, events)
		JOIN life l ON l.item = u.item AND l.status = u.status AND l.lease_epoch = u.epoch AND l.updated = u.updated
		AND l.lease_expires = u.expires AND l.events = u.events
		WHERE l.claimable_at IS NULL AND l.lease_expires > ` + sqlNowOf2 + ` FOR UPDATE OF l SKIP LOCKED`
	// noChildren fails if others wait for jobs.
	noChildren = "SELECT 1 FROM edges WHERE parent = ANY($2) LIMIT 1"
)

var expectKept, expectNone = expect(lockKept), expect(noChildren)

// quick runs those of a batch that are about jobs which this process has left held, in
// one round trip: nothing is read before it is written. It returns the others, and
// all if the jobs are not any more what they were.
func (w *writer) quick(batch []*update) (rest []*update) {
	start := time.Now()
	b := newBatch(w)
	b.guessed = true
	var now bool
	if b.now, now = w.s.clock.guess(); !now {
		return batch
	}
	var finished []*update
	for _, u := range batch {
		known := u.wants.onlyItems() && w.s.held.get(u.wants.items, b.rows)
		if !known || u.ctx.Err() != nil {
			rest = append(rest, u)
			continue
		}
		r := &run{b: b, s: w.s}
		// A refusal must be based on what is there; so must what writes nothing.
		if u.err = u.fn(r); r.missed || u.err != nil || !r.wrote {
			rest = append(rest, u)
			continue
		}
		b.merge(r)
		finished = append(finished, u)
	}
	if len(finished) == 0 {
		return batch
	}
	ran := time.Now()
	if err := w.flushKept(b); errors.Is(err, errUnknown) {
		w.refuse(finished, outcomeUnknown(err))
		return rest
	} else if err != nil {
		w.s.held.drop(b)
		return batch
	}
	w.s.trouble.Store(nil)
	w.finish(b, finished, nil)
	w.s.batch(len(finished), ran.Sub(start), time.Since(ran))
	return rest
}

// flushKept writes a transaction that is based on what was kept.
func (w *writer) flushKept(b *batch) (err error) {
	ctx := w.s.ctx
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer func() { leave(err) }()
	w.token++
	q := &pgx.Batch{}
	q.Queue("BEGIN")
	at := w.s.clock.parameter()
	q.Queue(signOff, at, w.name, w.token, epochLock, tenantLock, []int64{})
	var items, epochs, updated, expires []int64
	var statuses []int16
	var events []int32
	var ids [][]byte
	for _, id := range b.out.changed {
		n := b.rows[id]
		old := n.old
		items, statuses, epochs = append(items, old.Row), append(statuses, int16(old.Status)), append(epochs, old.LeaseEpoch)
		updated, expires, events = append(updated, int64(old.UpdatedAt)), append(expires, int64(old.LeaseExpiresAt)), append(events, int32(n.oldEvents))
		ids = append(ids, id[:])
	}
	q.Queue(expectKept, len(items), at, items, statuses, epochs, updated, expires, events)
	q.Queue(expectNone, 0, ids)
	return w.settle(ctx, w.flushAfter(q, b, true))
}
