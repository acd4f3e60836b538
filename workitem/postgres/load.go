package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

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
	// signOff notes the number of a transaction in the table of writers, where it
	// counts if the transaction does, and takes the locks that come before those of
	// jobs: the one that all share, and those of tenants. It comes first, so that
	// whoever looks for the number waits until the transaction has ended. It tells how
	// many microseconds it has waited, and fails if the table does not have the writer:
	// a transaction without its locks must not go on.
	signOff = `WITH done AS (UPDATE writers SET token = $3, at = greatest(at, ` + sqlNow + `) WHERE writer = $2
		RETURNING pg_advisory_xact_lock_shared($4::int, 0) IS NULL AS shared,
		(SELECT array_agg(t) FROM unnest($6::bigint[]) t WHERE ` + waitTenant + `) AS others,
		(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint AS waited)
		SELECT max(waited), max(others), 1 / count(shared) FROM done`
	waitTenant = "pg_advisory_xact_lock($5::int, t::int) IS NULL"

	// tryTenant leaves out tenants that somebody else has locked, which signOff then
	// tells.
	tryTenant = "NOT pg_try_advisory_xact_lock($5::int, t::int)"

	selectItems = "SELECT " + itemColumns + " FROM items i JOIN life l ON l.item = i.item WHERE i.id = ANY($1) ORDER BY i.id FOR UPDATE OF l"

	// Of what is only sometimes there, the first read tells whether it is.
	selectBeside = "SELECT " + sqlNow + ", " + selectEpoch + ", " +
		"(SELECT array_agg(e.parent || e.child) FROM edges e WHERE e.parent = ANY($2)), " +
		"(SELECT array_agg(t.id) FROM tombstones t WHERE t.id = ANY($2))"
	selectTombstones = "SELECT id, tenant, kind, status, owner, digest, loose, pruned FROM tombstones WHERE id = ANY($1)"
	selectStored     = "SELECT i.item, i.id, " + storedColumns + " FROM items i WHERE i.id = ANY($1)"
	selectEdges      = "SELECT e.parent, e.child FROM unnest($1::bytea[], $2::bytea[]) w (parent, child) JOIN edges e ON e.parent = w.parent AND e.child = w.child"
	selectRecalls    = `SELECT w.n, c.id, c.epoch, c.worker, c.kind, c.class, c.fairness, c.at
		FROM unnest($1::int[], $2::bigint[], $3::text[], $4::text[]) w (n, tenant, subject, request)
		JOIN claims c ON c.tenant = w.tenant AND c.subject = w.subject AND c.request = w.request`

	// What a claim must know of its tenant, and whether jobs must be woken first: see
	// schema.go for which rows are where.
	heldRows    = "FROM life WHERE tenant = $2 AND status IN (3, 4) AND claimable_at IS NULL AND lease_expires "
	selectQuota = "SELECT (SELECT count(*) " + heldRows + "> " + sqlNow + "), " +
		"(SELECT array_agg(x.id) FROM (SELECT id " + heldRows + "<= " + sqlNow + " AND attempt >= max_attempts ORDER BY lease_expires LIMIT 256) x), " +
		"EXISTS (SELECT 1 FROM life WHERE tenant = $2 AND dep_state = 0 AND status = 1), " +
		"EXISTS (SELECT 1 " + heldRows + "<= " + sqlNow + " AND attempt < max_attempts AND dep_state <> 2)"
	selectWake = "SELECT EXISTS (SELECT 1 FROM life WHERE tenant = $2 AND kind = $3 AND claimable_at > 0 AND claimable_at <= " + sqlNow + "), " +
		"EXISTS (SELECT 1 FROM life WHERE tenant = $2 AND kind = $3 AND claimable_at = 0 AND due < 9223372036854775807 AND due < " + sqlNow + " AND status = 2)"

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

	selectNow = "SELECT " + sqlNow + ", " + selectEpoch
)

var trySignOff = strings.Replace(signOff, waitTenant, tryTenant, 1)

// selectThere are also those that somebody else has locked.
const selectThere = "SELECT array_agg(i.id) FROM items i WHERE i.id = ANY($1)"

// load reads what is wanted in one round trip, or two where jobs must be woken or
// tombstones read. The first load of a transaction begins it and waits for locks,
// tenants before jobs and all in order; later ones, and that of a wary batch, take only
// what nobody else has locked and note the rest as busy.
func (w *writer) load(b *batch, want *wants, first bool) error {
	ctx := w.s.ctx
	for name := range want.names {
		if err := w.s.tenants.ensure(ctx, name); err != nil {
			return err
		}
	}
	l := &loading{b: b, q: &pgx.Batch{}, at: w.s.clock.parameter()}
	tenants, err := w.unlocked(ctx, b, want)
	if err != nil {
		return err
	}
	if first && !b.begun {
		w.begin(l.q, b, l.at, tenants)
	}
	for _, number := range tenants {
		w.loadQuota(l, number)
	}
	w.loadItems(l, want, first)
	w.loadStored(l.q, b, want)
	w.loadEdges(l.q, b, want)
	if err := w.loadClaims(ctx, l, want); err != nil {
		return err
	}
	if l.q.Len() > 0 {
		if err := w.conn.SendBatch(ctx, l.q).Close(); err != nil {
			return err
		}
	}
	return w.loadAgain(ctx, l, want)
}

// begin begins a transaction and locks tenants.
func (w *writer) begin(q *pgx.Batch, b *batch, at *int64, tenants []int64) {
	w.token++
	b.begun = true
	text := signOff
	if b.wary {
		text = trySignOff
	}
	q.Queue("BEGIN")
	q.Queue(text, at, w.name, w.token, epochLock, tenantLock, tenants).QueryRow(func(r pgx.Row) error {
		var waited int64
		var others []int64
		if err := r.Scan(&waited, &others, nil); err != nil {
			return err
		}
		for _, n := range others {
			if name, ok := w.s.tenants.name(n); ok {
				delete(b.quotas, name)
			}
		}
		if w.calm++; waited > crowded.Microseconds() {
			w.calm = 0
		}
		return nil
	})
}

// crowded is how long a lock is waited for if others want it too, and calm how many
// transactions have to get theirs at once before that is forgotten.
const (
	crowded = 100 * time.Microsecond
	calm    = 64
)

// beginFirst begins the transaction of a batch before anything is read, where other
// processes want the locks of its tenants too. Whoever comes while they are waited for
// joins, so batches grow as the processes wait for each other.
func (w *writer) beginFirst(b *batch, batch []*update) ([]*update, error) {
	var all wants
	for _, u := range batch {
		all.add(&u.wants)
	}
	var tenants []int64
	for name := range all.quotas {
		n, err := w.s.tenants.known(w.s.ctx, name)
		if err != nil {
			return batch, err
		}
		if n != 0 {
			tenants = append(tenants, n)
		} else {
			b.quotas[name] = &quota{} // it has no jobs, and is not locked later either
		}
	}
	slices.Sort(tenants)
	q := &pgx.Batch{}
	w.begin(q, b, w.s.clock.parameter(), tenants)
	if err := w.conn.SendBatch(w.s.ctx, q).Close(); err != nil {
		return batch, err
	}
	return append(batch, w.lane.more(w.lane.limit-len(batch), func(u *update) bool {
		for tenant := range u.wants.quotas {
			if _, ok := all.quotas[tenant]; !ok {
				return false
			}
		}
		return true
	})...), nil
}

// loading is one load under way.
type loading struct {
	b  *batch
	q  *pgx.Batch
	at *int64

	stones   []workitem.ID // jobs that have tombstones
	late     []wakeKey     // where jobs must be woken first
	lateHeld []int64       // tenants with leases that have run out
}

// loadAgain wakes the jobs whose time has come and reads the candidates with them,
// reads candidates of several classes, and tombstones.
func (w *writer) loadAgain(ctx context.Context, l *loading, want *wants) error {
	for {
		q := &pgx.Batch{}
		for _, number := range l.lateHeld {
			q.Queue(wakeHeld, l.at, number).Exec(w.woke(l.b))
		}
		for _, k := range l.late {
			for _, text := range []string{wakeDue, retireDue} {
				q.Queue(text, l.at, w.s.tenants.number(k.tenant), k.kind).Exec(w.woke(l.b))
			}
		}
		woken := q.Len() > 0
		for sel, rows := range want.picks {
			mixed := l.b.picks[sel].mixed
			if mixed {
				w.mixed[sel] = true
			}
			if woken || mixed {
				delete(l.b.picks, sel)
				w.loadPick(q, l.b, sel, w.s.tenants.number(sel.Tenant), rows, l.at)
			}
		}
		if len(l.stones) > 0 {
			q.Queue(selectTombstones, rawIDs(l.stones)).Query(func(rows pgx.Rows) error {
				return each(rows, func(r pgx.Rows) error { return w.tombstone(l.b, r) })
			})
		}
		if q.Len() == 0 {
			return nil
		}
		if err := w.conn.SendBatch(ctx, q).Close(); err != nil {
			return err
		}
		l.stones, l.late, l.lateHeld = nil, nil, nil
	}
}

// tombstone takes one over.
func (w *writer) tombstone(b *batch, r pgx.Rows) error {
	var id, digest, loose []byte
	var tenant int64
	t := &workitem.Tombstone{}
	if err := r.Scan(&id, &tenant, &t.Kind, &t.Status, &t.Owner, &digest, &loose, &t.PrunedAt); err != nil {
		return err
	}
	t, err := tombstone(&w.s.tenants, t, id, tenant, digest, loose)
	if err == nil {
		b.rows[t.ID].stone = t
	}
	return err
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

// loadItems reads jobs under their locks, with their children and tombstones, and with
// the first load the time, which is later than every lock.
func (w *writer) loadItems(l *loading, want *wants, first bool) {
	b := l.b
	pass := !first || b.wary // over what somebody else has locked
	var ids []workitem.ID
	for id := range want.items {
		if n := b.rows[id]; n == nil || !n.locked && !n.fresh && !n.saved {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, workitem.ID.Compare)
	raw := rawIDs(ids)
	if len(ids) > 0 {
		text := selectItems
		if pass {
			text += " SKIP LOCKED"
		}
		l.q.Queue(text, raw).Query(func(rows pgx.Rows) error {
			return each(rows, func(r pgx.Rows) error {
				var s itemScan
				if err := r.Scan(s.targets()...); err != nil {
					return err
				}
				it, err := s.item(&w.s.tenants)
				if err != nil {
					return err
				}
				n := &row{item: it, old: it, events: s.events, oldEvents: s.events, locked: true}
				if old := b.rows[it.ID]; old != nil {
					n.stored = old.stored
				}
				b.rows[it.ID] = n
				return nil
			})
		})
	}
	if len(ids) > 0 && pass {
		l.q.Queue(selectThere, raw).QueryRow(func(r pgx.Row) error {
			var there [][]byte
			if err := r.Scan(&there); err != nil {
				return err
			}
			for _, raw := range there {
				id, err := toID(raw)
				if err != nil {
					return err
				}
				if n := b.rows[id]; n == nil || !n.locked {
					b.busy[id] = true
				}
			}
			return nil
		})
	}
	if len(ids) > 0 || first {
		l.q.Queue(selectBeside, l.at, raw).QueryRow(func(r pgx.Row) error { return w.beside(l, want, ids, r, first) })
	}
}

// beside takes over what lies beside jobs that were locked.
func (w *writer) beside(l *loading, want *wants, ids []workitem.ID, r pgx.Row, first bool) error {
	b := l.b
	var now, epoch int64
	var edges, stones [][]byte
	if err := r.Scan(&now, &epoch, &edges, &stones); err != nil {
		return err
	}
	if first {
		if err := checkEpoch(epoch); err != nil {
			return err
		}
		b.now, b.epoch = w.s.clock.heard(now), epoch
	}
	for _, id := range ids {
		if n := b.rows[id]; !b.busy[id] && (n == nil || !n.locked) {
			b.rows[id] = &row{locked: true} // it is not there
		}
	}
	for _, raw := range edges {
		if len(raw) != 2*len(workitem.ID{}) {
			return corrupt("edges", 0, "has an id that is not 16 bytes")
		}
		parent, child := workitem.ID(raw[:len(raw)/2]), workitem.ID(raw[len(raw)/2:])
		if n := b.rows[parent]; n != nil && !b.busy[parent] {
			n.children = append(n.children, child)
		}
	}
	for _, id := range ids {
		if n := b.rows[id]; n != nil {
			slices.SortFunc(n.children, workitem.ID.Compare)
		}
	}
	// What the transaction has not sent yet.
	for _, e := range slices.Concat(b.out.links, b.out.unlinks) {
		if _, asked := want.items[e.parent]; asked && b.rows[e.parent] != nil {
			b.rows[e.parent].link(e.child, b.edges[e])
		}
	}
	for _, raw := range stones {
		id, err := toID(raw)
		if err != nil {
			return err
		}
		if !b.busy[id] {
			l.stones = append(l.stones, id)
		}
	}
	return nil
}

// tombstone is one that was scanned.
func tombstone(names *tenants, t *workitem.Tombstone, id []byte, tenant int64, digest, loose []byte) (*workitem.Tombstone, error) {
	name, err := names.of(tenant)
	if err != nil {
		return nil, unread(err)
	}
	if name == "" {
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

// unlocked are the numbers of the tenants that must be locked, in order. Those without
// a number have no jobs.
func (w *writer) unlocked(ctx context.Context, b *batch, want *wants) ([]int64, error) {
	numbers := []int64{}
	for _, name := range missing(want.quotas, b.quotas, cmp.Compare) {
		n, err := w.s.tenants.known(ctx, name)
		if err != nil {
			return nil, err
		}
		b.quotas[name] = &quota{}
		if n != 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// loadQuota counts the leases of a tenant.
func (w *writer) loadQuota(l *loading, number int64) {
	name, _ := w.s.tenants.name(number)
	state := l.b.quotas[name]
	l.q.Queue(selectQuota, l.at, number).QueryRow(func(r pgx.Row) error {
		var exhausted [][]byte
		var late bool
		if err := r.Scan(&state.leases, &exhausted, &state.unverified, &late); err != nil {
			return err
		}
		if late {
			l.lateHeld = append(l.lateHeld, number)
		}
		for _, raw := range exhausted {
			id, err := toID(raw)
			if err != nil {
				return err
			}
			state.exhausted = append(state.exhausted, id)
		}
		return nil
	})
}

// loadClaims reads what claims need: answers of claim request ids, turns and
// candidates, and whether jobs must be woken before.
func (w *writer) loadClaims(ctx context.Context, l *loading, want *wants) error {
	b := l.b
	if err := w.loadRecalls(ctx, l.q, b, want); err != nil {
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
		l.q.Queue(selectWake, l.at, number, k.kind).QueryRow(func(r pgx.Row) error {
			var due, past bool
			err := r.Scan(&due, &past)
			if due || past {
				l.late = append(l.late, k)
			}
			return err
		})
	}
	if err := w.loadTurns(ctx, l.q, b, want); err != nil {
		return err
	}
	for sel, n := range want.picks {
		number, err := w.s.tenants.known(ctx, sel.Tenant)
		if err != nil {
			return err
		}
		w.loadPick(l.q, b, sel, number, n, l.at)
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
