package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-authority/writ/workitem"
)

// expect makes a statement fail, and with it the transaction, if a set of rows is not
// as large as it must be: somebody else has changed one meanwhile.
func expect(with string) string {
	return "WITH done AS (" + with + ") SELECT CASE WHEN count(*) = $1::bigint THEN 0 ELSE 1 / (count(*) - count(*)) END FROM done"
}

var (
	// Candidates of claims are read without a lock. Those that were chosen are locked
	// before they are written, if they are still what was read.
	lockChosen = expect(`SELECT l.item FROM unnest($2::bigint[], $3::text[]) u (item, version)
		JOIN life l ON l.item = u.item AND l.xmin::text = u.version FOR UPDATE OF l SKIP LOCKED`)

	insertItems = expect(`INSERT INTO items (item, id, tenant, kind, created, repository, owner, backoff, consent_required,
		digest, loose, key, correlation, request, lane, candidate, generation, trace, metadata)
		SELECT * FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bigint[], $7::text[], $8::text[], $9::bigint[], $10::boolean[],
		$11::bytea[], $12::bytea[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bytea[])
		ON CONFLICT (id) DO NOTHING RETURNING 1`)

	insertLife = `INSERT INTO life (item, id, tenant, kind, created, fairness, class, bucket, priority, due, max_attempts, ` + all.names() + `)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::smallint[], $5::bigint[], $6::text[], $7::text[], $8::smallint[], $9::integer[], $10::bigint[], $11::integer[], ` +
		all.arrays(12) + `)`
)

const (
	insertHistory = `INSERT INTO history (item, seq, at, event, from_status, to_status, epoch, subject, detail)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[], $5::smallint[], $6::smallint[], $7::bigint[], $8::text[], $9::text[])`
	insertLabels = `INSERT INTO labels (tenant, label, value, created, id, item)
		SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::bigint[], $5::bytea[], $6::bigint[])`
	insertEdges = `INSERT INTO edges (parent, child) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT DO NOTHING`
	deleteEdges = `DELETE FROM edges e USING unnest($1::bytea[], $2::bytea[]) u (parent, child) WHERE e.parent = u.parent AND e.child = u.child`
	upsertTurns = `INSERT INTO turns (tenant, kind, bucket, fairness, more)
		SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::text[], $5::integer[])
		ON CONFLICT (tenant, kind, bucket) DO UPDATE SET fairness = excluded.fairness, more = excluded.more`
	upsertClaims = `INSERT INTO claims (tenant, subject, request, id, epoch, worker, kind, class, fairness, at)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::smallint[], $8::text[], $9::text[], $10::bigint[])`
	upsertCounts = `INSERT INTO counts (tenant, kind, status, slot, items)
		SELECT tenant, kind, status, pg_backend_pid() % 64, n FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::bigint[]) u (tenant, kind, status, n)
		ON CONFLICT (tenant, kind, status, slot) DO UPDATE SET items = counts.items + excluded.items`
	insertTombstone = `INSERT INTO tombstones (id, tenant, kind, status, owner, digest, loose, pruned) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	insertToken     = `INSERT INTO tokens (id, name, hash, subject, tenant, owner, scopes, created, revoked) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

	raiseLife = `UPDATE life SET lease_epoch = lease_epoch + $2, fencing_token = fencing_token + $2,
		lease_expires = least(lease_expires, $1) WHERE status BETWEEN 1 AND 4`
	raiseEpoch = `UPDATE meta SET value = value + 1 WHERE name = 'epoch' RETURNING value`
	lockAlone  = `SELECT pg_advisory_xact_lock($1::int, 0)`
)

// flush sends what the updates of a transaction have written, and with commit ends it,
// in one round trip. Rows are written in the order of their ids and tables in one
// order, so that transactions never wait for each other in a circle. The error is that
// of the first statement that fails.
func (w *writer) flush(b *batch, commit bool) error {
	return w.flushAfter(&pgx.Batch{}, b, commit)
}

// flushAfter is flush after other statements.
func (w *writer) flushAfter(q *pgx.Batch, b *batch, commit bool) error {
	ctx := w.s.ctx
	if err := w.queueRows(ctx, q, b); err != nil {
		return err
	}
	w.queueRest(q, b)
	if commit {
		q.Queue("COMMIT")
	}
	if q.Len() == 0 {
		return nil
	}
	if err := w.conn.SendBatch(ctx, q).Close(); err != nil {
		return err
	}
	if commit {
		w.s.held.note(b)
	}
	for _, id := range b.out.changed {
		if n := b.rows[id]; n != nil {
			n.fresh, n.saved, n.ours = false, false, true
			n.old, n.oldEvents = n.item, n.events
		}
	}
	b.out = writes{change: b.out.change, wake: true}
	return nil
}

func (w *writer) queueRows(ctx context.Context, q *pgx.Batch, b *batch) error {
	o := &b.out
	slices.SortFunc(o.changed, workitem.ID.Compare)
	fresh := 0
	for _, id := range o.changed {
		if n := b.rows[id]; n.fresh && n.item != nil {
			fresh++
		}
	}
	numbers, err := w.s.numbers.take(ctx, fresh)
	if err != nil {
		return err
	}
	var news, olds []*row
	var set columns
	var halves halves
	var rows, chosen []int64
	var versions []string
	var labels labelRows
	for _, id := range o.changed {
		n := b.rows[id]
		switch {
		case n.item == nil: // deleted
		case n.fresh:
			n.item.Row, numbers = numbers[0], numbers[1:]
			tenant := w.s.tenants.number(n.item.Tenant)
			halves.add(n, tenant)
			news = append(news, n)
			labels.add(n, tenant)
		default:
			rows = append(rows, n.item.Row)
			olds = append(olds, n)
			set |= n.changed(b.now)
			if !n.locked && !n.ours {
				chosen = append(chosen, n.item.Row)
				versions = append(versions, n.version)
			}
		}
	}
	if len(chosen) > 0 {
		q.Queue(lockChosen, len(chosen), chosen, versions)
	}
	if set != 0 {
		q.Queue(set.update(), set.args([]any{len(rows), rows}, olds, b.now)...)
	}
	if len(halves.item) > 0 {
		q.Queue(insertItems, append([]any{len(halves.item)}, halves.items()...)...)
		q.Queue(insertLife, all.args(halves.life(), news, b.now)...)
	}
	if len(labels.item) > 0 {
		q.Queue(insertLabels, labels.tenant, labels.label, labels.value, labels.created, labels.id, labels.item)
	}
	w.queueEvents(q, b)
	w.queueEdges(q, b)
	w.queueDeletions(q, b)
	return nil
}

// labelRows are the rare filters of jobs.
type labelRows struct {
	tenant  []int64
	label   []int16
	value   []string
	created []int64
	id      [][]byte
	item    []int64
}

// labels are the rare filters of listings; all of them share one index.
var labels = []struct {
	number int16
	of     func(*workitem.Stored) string
}{
	{1, func(s *workitem.Stored) string { return s.LaneID }},
	{2, func(s *workitem.Stored) string { return s.CandidateID }},
	{3, func(s *workitem.Stored) string { return s.GenerationID }},
	{4, func(s *workitem.Stored) string { return s.CorrelationID }},
}

func (v *labelRows) add(n *row, tenant int64) {
	for _, l := range labels {
		value := l.of(n.stored)
		if value == "" {
			continue
		}
		v.tenant = append(v.tenant, tenant)
		v.label = append(v.label, l.number)
		v.value = append(v.value, value)
		v.created = append(v.created, int64(n.item.CreatedAt))
		v.id = append(v.id, n.item.ID[:])
		v.item = append(v.item, n.item.Row)
	}
}

func (w *writer) queueEvents(q *pgx.Batch, b *batch) {
	events := b.out.events
	var items []int64
	var seqs []int32
	var at, epochs []int64
	var names []string
	var from, to []int16
	var subjects, details []*string
	for i := range events {
		ev := &events[i]
		n := b.rows[ev.item]
		if n == nil || n.item == nil {
			continue // it was deleted after that
		}
		items, seqs, at = append(items, n.item.Row), append(seqs, int32(ev.seq)), append(at, int64(ev.At))
		names, from, to = append(names, ev.Name), append(from, int16(ev.From)), append(to, int16(ev.To))
		epochs, subjects, details = append(epochs, ev.Epoch), append(subjects, optional(ev.Subject)), append(details, optional(ev.Detail))
	}
	if len(items) > 0 {
		q.Queue(insertHistory, items, seqs, at, names, from, to, epochs, subjects, details)
	}
}

// queueEdges writes how the edges are in the end.
func (w *writer) queueEdges(q *pgx.Batch, b *batch) {
	for _, set := range []struct {
		edges []edge
		is    bool
		text  string
	}{{b.out.links, true, insertEdges}, {b.out.unlinks, false, deleteEdges}} {
		edges := slices.Clone(set.edges)
		slices.SortFunc(edges, compareEdges)
		edges = slices.Compact(edges)
		var parents, children [][]byte
		for i := range edges {
			if e := &edges[i]; b.edges[*e] == set.is {
				parents, children = append(parents, e.parent[:]), append(children, e.child[:])
			}
		}
		if len(parents) > 0 {
			q.Queue(set.text, parents, children)
		}
	}
}

func (w *writer) queueDeletions(q *pgx.Batch, b *batch) {
	for _, d := range b.out.deleted {
		it := d.item
		tenant := w.s.tenants.number(it.Tenant)
		for _, text := range []string{"DELETE FROM items WHERE item = $1", "DELETE FROM life WHERE item = $1", "DELETE FROM history WHERE item = $1"} {
			q.Queue(text, it.Row)
		}
		for _, l := range labels {
			if value := l.of(d.stored); value != "" {
				q.Queue("DELETE FROM labels WHERE tenant = $1 AND label = $2 AND value = $3 AND created = $4 AND id = $5",
					tenant, l.number, value, int64(it.CreatedAt), it.ID[:])
			}
		}
		if t := d.stone; t != nil {
			q.Queue(insertTombstone, t.ID[:], w.s.tenants.number(t.Tenant), int16(t.Kind), int16(t.Status), t.Owner, t.Digest[:], t.Loose[:], int64(t.PrunedAt))
		}
	}
}

// queueRest writes what is not a job's: claim request ids, turns, tokens, and last the
// counts.
func (w *writer) queueRest(q *pgx.Batch, b *batch) {
	o := &b.out
	number := w.s.tenants.number
	if o.forget != 0 {
		q.Queue("DELETE FROM claims WHERE at < $1", int64(o.forget))
	}
	if len(o.recalls) > 0 {
		var tenants, epochs, at []int64
		var subjects, requests, workers, classes, groups []string
		var ids [][]byte
		var kinds []int16
		for _, k := range o.recalls {
			v := b.recalls[k]
			tenants, subjects, requests = append(tenants, number(k.tenant)), append(subjects, k.subject), append(requests, k.request)
			ids, epochs, workers = append(ids, v.Item[:]), append(epochs, v.Epoch), append(workers, v.Worker)
			kinds, classes, groups, at = append(kinds, int16(v.Kind)), append(classes, v.ResourceClass), append(groups, v.FairnessGroup), append(at, int64(v.At))
		}
		q.Queue(upsertClaims, tenants, subjects, requests, ids, epochs, workers, kinds, classes, groups, at)
	}
	if len(o.turns) > 0 {
		keys := slices.Clone(o.turns)
		slices.SortFunc(keys, func(x, y turnKey) int {
			return cmp.Or(cmp.Compare(x.tenant, y.tenant), cmp.Compare(x.kind, y.kind), cmp.Compare(x.bucket, y.bucket))
		})
		var tenants []int64
		var kinds, buckets []int16
		var groups []string
		var more []int32
		for _, k := range slices.Compact(keys) {
			t := b.turns[k]
			tenants, kinds, buckets = append(tenants, number(k.tenant)), append(kinds, int16(k.kind)), append(buckets, int16(k.bucket))
			groups, more = append(groups, t.Group), append(more, int32(t.Left))
		}
		q.Queue(upsertTurns, tenants, kinds, buckets, groups, more)
	}
	for _, k := range o.tokens {
		q.Queue(insertToken, k.ID, k.Name, k.Hash[:], k.Subject, k.Tenant, k.Owner, int64(k.Scopes), int64(k.CreatedAt), int64(k.RevokedAt))
	}
	for _, k := range o.revoked {
		q.Queue("UPDATE tokens SET revoked = $1 WHERE id = $2", int64(k.RevokedAt), k.ID)
	}
	if o.raise {
		q.Queue(lockAlone, epochLock)
		q.Queue(raiseLife, int64(b.now), int64(workitem.EpochStep))
		q.Queue(raiseEpoch).QueryRow(func(r pgx.Row) error { return r.Scan(&b.epoch) })
	}
	w.queueCounts(q, b)
}

// queueCounts adds up what went from status to status.
func (w *writer) queueCounts(q *pgx.Batch, b *batch) {
	type key struct {
		tenant int64
		kind   workitem.Kind
		status workitem.Status
	}
	sums := map[key]int64{}
	for _, c := range b.out.counts {
		sums[key{c.tenant, c.kind, c.status}] += int64(c.n)
	}
	var tenants, counts []int64
	var kinds, statuses []int16
	for _, k := range sorted(sums, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.tenant, y.tenant), cmp.Compare(x.kind, y.kind), cmp.Compare(x.status, y.status))
	}) {
		if sums[k] != 0 {
			tenants, kinds, statuses, counts = append(tenants, k.tenant), append(kinds, int16(k.kind)), append(statuses, int16(k.status)), append(counts, sums[k])
		}
	}
	if len(tenants) > 0 {
		q.Queue(upsertCounts, tenants, kinds, statuses, counts)
	}
}

// woke notes that the search for due jobs has written something.
func (w *writer) woke(b *batch) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		b.out.wake = b.out.wake || tag.RowsAffected() > 0
		return nil
	}
}
