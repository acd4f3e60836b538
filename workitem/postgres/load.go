package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/workitem"
)

// The classes of the advisory locks of a transaction: the one that all share, and
// that whoever raises the epoch or imports a store takes alone, and those of tenants.
const (
	epochLock  = 0x57720000
	tenantLock = 0x57720001
)

const (
	lockShared  = "SELECT pg_advisory_xact_lock_shared($1::int, 0)"
	lockTenants = "SELECT pg_advisory_xact_lock($1::int, t::int) FROM unnest($2::bigint[]) t"

	selectItems = "SELECT " + itemColumns + " FROM items i JOIN life l ON l.item = i.item WHERE i.id = ANY($1) ORDER BY i.id FOR UPDATE OF l"

	selectChildren   = "SELECT parent, child FROM edges WHERE parent = ANY($1) ORDER BY parent, child"
	selectTombstones = "SELECT id, tenant, kind, status, owner, digest, loose, pruned FROM tombstones WHERE id = ANY($1)"
	selectThere      = "SELECT id FROM items WHERE id = ANY($1)"
	selectStored     = "SELECT i.item, i.id, " + storedColumns + " FROM items i WHERE i.id = ANY($1)"
	selectEdges      = "SELECT e.parent, e.child FROM unnest($1::bytea[], $2::bytea[]) w (parent, child) JOIN edges e ON e.parent = w.parent AND e.child = w.child"
	selectRecalls    = `SELECT w.n, c.id, c.epoch, c.worker, c.kind, c.class, c.fairness, c.at
		FROM unnest($1::int[], $2::bigint[], $3::text[], $4::text[]) w (n, tenant, subject, request)
		JOIN claims c ON c.tenant = w.tenant AND c.subject = w.subject AND c.request = w.request`

	// What a claim must know of its tenant: see schema.go for which rows are where.
	selectLeases    = "SELECT count(*) FROM life WHERE tenant = $2 AND status IN (3, 4) AND claimable_at IS NULL AND lease_expires > " + sqlNow
	selectExhausted = "SELECT id FROM life WHERE tenant = $2 AND status IN (3, 4) AND claimable_at IS NULL AND lease_expires <= " + sqlNow +
		" AND attempt >= max_attempts ORDER BY lease_expires LIMIT 256"
	selectUnverified = "SELECT EXISTS (SELECT 1 FROM life WHERE tenant = $1 AND dep_state = 0 AND status = 1)"

	// Jobs whose time has come join the claim index, and those whose deadline has
	// passed leave it.
	wakeDue = `UPDATE life SET claimable_at = 0 WHERE item IN (SELECT item FROM life
		WHERE tenant = $2 AND kind = $3 AND claimable_at > 0 AND claimable_at <= ` + sqlNow + ` ORDER BY claimable_at LIMIT 1024 FOR UPDATE SKIP LOCKED)`
	wakeHeld = `UPDATE life SET claimable_at = CASE WHEN next_retry > ` + sqlNow + ` THEN next_retry ELSE 0 END WHERE item IN (SELECT item FROM life
		WHERE tenant = $2 AND status IN (3, 4) AND claimable_at IS NULL AND lease_expires <= ` + sqlNow + ` AND attempt < max_attempts
		AND dep_state <> 2 ORDER BY lease_expires LIMIT 1024 FOR UPDATE SKIP LOCKED)`
	retireDue = `UPDATE life SET claimable_at = NULL WHERE item IN (SELECT item FROM life
		WHERE tenant = $2 AND kind = $3 AND claimable_at = 0 AND due < 9223372036854775807 AND due < ` + sqlNow + ` AND status = 2
		ORDER BY due LIMIT 64 FOR UPDATE SKIP LOCKED)`

	selectTurns = `SELECT w.n, t.fairness, t.more FROM unnest($1::int[], $2::bigint[], $3::smallint[], $4::smallint[]) w (n, tenant, kind, bucket)
		JOIN turns t ON t.tenant = w.tenant AND t.kind = w.kind AND t.bucket = w.bucket`

	selectNow = "SELECT " + sqlNow + ", (SELECT value FROM meta WHERE name = 'epoch')"
)

// load reads what is wanted in one round trip. The first load of a transaction begins
// it and waits for locks, tenants before jobs and all in order; later ones take only
// what nobody else has locked and note the rest as busy.
func (w *writer) load(b *batch, want *wants, first bool) error {
	ctx := w.s.ctx
	for name := range want.names {
		if err := w.s.tenants.ensure(ctx, name); err != nil {
			return err
		}
	}
	q := &pgx.Batch{}
	at := w.s.clock.parameter()
	if first {
		w.token++
		q.Queue("BEGIN")
		q.Queue(signOff, at, w.name, w.token)
		q.Queue(lockShared, epochLock)
	}
	if err := w.loadQuotas(ctx, q, b, want, at); err != nil {
		return err
	}
	w.loadItems(q, b, want, first)
	w.loadStored(q, b, want)
	w.loadEdges(q, b, want)
	if err := w.loadClaims(ctx, q, b, want, at); err != nil {
		return err
	}
	if first {
		q.Queue(selectNow, at).QueryRow(func(r pgx.Row) error {
			var now int64
			if err := r.Scan(&now, &b.epoch); err != nil {
				return err
			}
			b.now = w.s.clock.at(now)
			return nil
		})
	}
	if q.Len() == 0 {
		return nil
	}
	return w.conn.SendBatch(ctx, q).Close()
}

// missing are the keys of a want that known does not have, in order.
func missing[K comparable, V any](want map[K]struct{}, known map[K]V, compare func(a, b K) int) []K {
	var keys []K
	for k := range want {
		if _, ok := known[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compare)
	return keys
}

// rawIDs are ids as parameters.
func rawIDs(ids []workitem.ID) [][]byte {
	raw := make([][]byte, len(ids))
	for i := range ids {
		raw[i] = ids[i][:]
	}
	return raw
}

func toID(raw []byte) (id workitem.ID, err error) {
	if len(raw) != len(id) {
		return id, corrupt("items", 0, "has an id that is not 16 bytes")
	}
	copy(id[:], raw)
	return id, nil
}

// loadItems reads jobs under their locks, with their children and tombstones.
func (w *writer) loadItems(q *pgx.Batch, b *batch, want *wants, first bool) {
	var ids []workitem.ID
	for id := range want.items {
		if n := b.rows[id]; n == nil || !n.locked && !n.fresh && !n.saved {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.SortFunc(ids, workitem.ID.Compare)
	raw := rawIDs(ids)
	found := make(map[workitem.ID]*row, len(ids))
	text := selectItems
	if !first {
		text += " SKIP LOCKED"
	}
	q.Queue(text, raw).Query(func(rows pgx.Rows) error {
		return each(rows, func(r pgx.Rows) error {
			var s itemScan
			if err := r.Scan(s.targets()...); err != nil {
				return err
			}
			it, err := s.item(&w.s.tenants)
			if err != nil {
				return err
			}
			found[it.ID] = &row{item: it, events: s.events, locked: true}
			return nil
		})
	})
	q.Queue(selectChildren, raw).Query(func(rows pgx.Rows) error {
		return each(rows, func(r pgx.Rows) error {
			var parent, child []byte
			if err := r.Scan(&parent, &child); err != nil {
				return err
			}
			p, err := toID(parent)
			if err != nil {
				return err
			}
			c, err := toID(child)
			if err != nil {
				return err
			}
			n := found[p]
			if n == nil {
				n = &row{}
				found[p] = n
			}
			n.children = append(n.children, c)
			return nil
		})
	})
	if !first {
		q.Queue(selectThere, raw).Query(func(rows pgx.Rows) error {
			return each(rows, func(r pgx.Rows) error {
				var raw []byte
				if err := r.Scan(&raw); err != nil {
					return err
				}
				id, err := toID(raw)
				if n := found[id]; err == nil && (n == nil || n.item == nil) {
					b.busy[id] = true
				}
				return err
			})
		})
	}
	q.Queue(selectTombstones, raw).Query(func(rows pgx.Rows) error {
		err := each(rows, func(r pgx.Rows) error {
			var id, digest, loose []byte
			var tenant int64
			t := &workitem.Tombstone{}
			if err := r.Scan(&id, &tenant, &t.Kind, &t.Status, &t.Owner, &digest, &loose, &t.PrunedAt); err != nil {
				return err
			}
			n, err := tombstone(&w.s.tenants, t, id, tenant, digest, loose)
			if err != nil {
				return err
			}
			if found[t.ID] == nil {
				found[t.ID] = &row{}
			}
			found[t.ID].stone = n
			return nil
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			n := found[id]
			if n == nil {
				n = &row{}
			}
			if b.busy[id] {
				continue
			}
			n.locked = true
			if old := b.rows[id]; old != nil {
				n.stored = old.stored
			}
			b.rows[id] = n
		}
		return nil
	})
}

// tombstone is one that was scanned.
func tombstone(names *tenants, t *workitem.Tombstone, id []byte, tenant int64, digest, loose []byte) (*workitem.Tombstone, error) {
	name, ok := names.name(tenant)
	if !ok {
		return nil, corrupt("tombstones", 0, "names a tenant that is not there")
	}
	if len(id) != len(t.ID) || len(digest) != len(t.Digest) || len(loose) != len(t.Loose) {
		return nil, corrupt("tombstones", 0, "has an id or a digest of another length")
	}
	t.Tenant = name
	copy(t.ID[:], id)
	copy(t.Digest[:], digest)
	copy(t.Loose[:], loose)
	return t, nil
}

// loadStored reads the other halves of jobs.
func (w *writer) loadStored(q *pgx.Batch, b *batch, want *wants) {
	var ids []workitem.ID
	for id := range want.stored {
		if n := b.rows[id]; n == nil || n.stored == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	q.Queue(selectStored, rawIDs(ids)).Query(func(rows pgx.Rows) error {
		return each(rows, func(r pgx.Rows) error {
			var row_ int64
			var raw []byte
			var s storedScan
			if err := r.Scan(append([]any{&row_, &raw}, s.targets()...)...); err != nil {
				return err
			}
			id, err := toID(raw)
			if err != nil {
				return err
			}
			st, err := s.stored(row_)
			if err != nil {
				return err
			}
			n := b.rows[id]
			if n == nil {
				n = &row{}
				b.rows[id] = n
			}
			n.stored = st
			return nil
		})
	})
}

func compareEdges(a, b edge) int {
	return cmp.Or(a.parent.Compare(b.parent), a.child.Compare(b.child))
}

func (w *writer) loadEdges(q *pgx.Batch, b *batch, want *wants) {
	edges := missing(want.edges, b.edges, compareEdges)
	if len(edges) == 0 {
		return
	}
	parents, children := make([][]byte, len(edges)), make([][]byte, len(edges))
	for i := range edges {
		parents[i], children[i] = edges[i].parent[:], edges[i].child[:]
	}
	q.Queue(selectEdges, parents, children).Query(func(rows pgx.Rows) error {
		for _, e := range edges {
			b.edges[e] = false
		}
		return each(rows, func(r pgx.Rows) error {
			var parent, child []byte
			if err := r.Scan(&parent, &child); err != nil {
				return err
			}
			p, err := toID(parent)
			if err != nil {
				return err
			}
			c, err := toID(child)
			b.edges[edge{p, c}] = true
			return err
		})
	})
}

// loadQuotas locks tenants and counts their leases.
func (w *writer) loadQuotas(ctx context.Context, q *pgx.Batch, b *batch, want *wants, at *int64) error {
	names := missing(want.quotas, b.quotas, cmp.Compare)
	if len(names) == 0 {
		return nil
	}
	var numbers []int64
	for _, name := range names {
		n, err := w.s.tenants.known(ctx, name)
		if err != nil {
			return err
		}
		b.quotas[name] = &quota{}
		if n != 0 {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	slices.Sort(numbers)
	q.Queue(lockTenants, tenantLock, numbers)
	for _, number := range numbers {
		name, _ := w.s.tenants.name(number)
		state := b.quotas[name]
		q.Queue(selectLeases, at, number).QueryRow(func(r pgx.Row) error { return r.Scan(&state.leases) })
		q.Queue(selectExhausted, at, number).Query(func(rows pgx.Rows) error {
			return each(rows, func(r pgx.Rows) error {
				var raw []byte
				if err := r.Scan(&raw); err != nil {
					return err
				}
				id, err := toID(raw)
				state.exhausted = append(state.exhausted, id)
				return err
			})
		})
		q.Queue(selectUnverified, number).QueryRow(func(r pgx.Row) error { return r.Scan(&state.unverified) })
	}
	return nil
}

// loadClaims reads what claims need: answers of claim request ids, turns and
// candidates. Jobs whose time has come are woken before.
func (w *writer) loadClaims(ctx context.Context, q *pgx.Batch, b *batch, want *wants, at *int64) error {
	if err := w.loadRecalls(ctx, q, b, want); err != nil {
		return err
	}
	for k := range want.wakes {
		number, err := w.s.tenants.known(ctx, k.tenant)
		if err != nil {
			return err
		}
		if b.woken[k] {
			continue
		}
		b.woken[k] = true
		if number == 0 {
			continue
		}
		for _, text := range []string{wakeDue, retireDue} {
			q.Queue(text, at, number, k.kind).Exec(w.woke(b))
		}
		held := wakeKey{tenant: k.tenant}
		if !b.woken[held] {
			b.woken[held] = true
			q.Queue(wakeHeld, at, number).Exec(w.woke(b))
		}
	}
	if err := w.loadTurns(ctx, q, b, want); err != nil {
		return err
	}
	for sel, n := range want.picks {
		number, err := w.s.tenants.known(ctx, sel.Tenant)
		if err != nil {
			return err
		}
		w.loadPick(q, b, sel, number, n, at)
	}
	return nil
}

func (w *writer) loadRecalls(ctx context.Context, q *pgx.Batch, b *batch, want *wants) error {
	var keys []recall
	var places []int
	var numbers []int64
	var subjects, requests []string
	for k := range want.recalls {
		if _, ok := b.recalls[k]; ok {
			continue
		}
		number, err := w.s.tenants.known(ctx, k.tenant)
		if err != nil {
			return err
		}
		places, numbers = append(places, len(keys)), append(numbers, number)
		keys, subjects, requests = append(keys, k), append(subjects, k.subject), append(requests, k.request)
	}
	if len(keys) == 0 {
		return nil
	}
	q.Queue(selectRecalls, places, numbers, subjects, requests).Query(func(rows pgx.Rows) error {
		for _, k := range keys {
			b.recalls[k] = nil
		}
		return each(rows, func(r pgx.Rows) error {
			var place int
			var raw []byte
			v := &workitem.Remembered{}
			if err := r.Scan(&place, &raw, &v.Epoch, &v.Worker, &v.Kind, &v.ResourceClass, &v.FairnessGroup, &v.At); err != nil {
				return err
			}
			var err error
			v.Item, err = toID(raw)
			b.recalls[keys[place]] = v
			return err
		})
	})
	return nil
}

func (w *writer) loadTurns(ctx context.Context, q *pgx.Batch, b *batch, want *wants) error {
	var keys []turnKey
	var places []int
	var numbers []int64
	var kinds, buckets []int16
	for k := range want.turns {
		if _, ok := b.turns[k]; ok {
			continue
		}
		number, err := w.s.tenants.known(ctx, k.tenant)
		if err != nil {
			return err
		}
		places, numbers = append(places, len(keys)), append(numbers, number)
		keys, kinds, buckets = append(keys, k), append(kinds, int16(k.kind)), append(buckets, int16(k.bucket))
	}
	if len(keys) == 0 {
		return nil
	}
	q.Queue(selectTurns, places, numbers, kinds, buckets).Query(func(rows pgx.Rows) error {
		for _, k := range keys {
			b.turns[k] = workitem.Turn{}
		}
		return each(rows, func(r pgx.Rows) error {
			var place int
			var t workitem.Turn
			if err := r.Scan(&place, &t.Group, &t.Left); err != nil {
				return err
			}
			b.turns[keys[place]] = t
			return nil
		})
	})
	return nil
}

// sorted are the keys of a map in order.
func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}
