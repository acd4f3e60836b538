package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-authority/writ/workitem"
)

// reader is the workitem.Reader of one transaction: a view's, or a writer's.
type reader struct {
	ctx  context.Context
	s    *Store
	conn sender // nil before the first question of a view

	// In a view an item is read with its other half, which most callers ask for next.
	whole bool
	other map[int64]*workitem.Stored // by row; until it was asked for

	at    workitem.Instant // of Now, once it was asked
	epoch int64
	err   error // of the first question, also if that was Now, which can't return it
}

// sender is a connection.
type sender interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// question is a statement that reads.
type question struct {
	text string
	args []any
	each func(pgx.Rows) error // is given every row
}

const beginView = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// View implements workitem.Store. What a transaction of PostgreSQL sees is durable:
// others are shown once their commit is (synchronous_commit).
func (s *Store) View(ctx context.Context, fn func(workitem.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &reader{ctx: ctx, s: s, whole: true, other: map[int64]*workitem.Stored{}}
	defer r.end()
	err := fn(r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.err != nil:
		return r.err
	}
	return err
}

// ending bounds the end of a view's transaction.
const ending = 5 * time.Second

// end gives the snapshot of a view up, without keeping its caller waiting: nothing can
// become of a transaction that has only read. Close waits for the connection.
func (r *reader) end() {
	c, ok := r.conn.(*pgxpool.Conn)
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), ending)
		defer cancel()
		_, _ = c.Exec(ctx, "COMMIT") // a connection on which that fails is not used again
		c.Release()
	}()
}

// maxViewOutage is how long a view that has seen nothing yet waits for a connection
// while the server can't be reached.
const maxViewOutage = 5 * time.Second

// ask puts questions in one round trip. The first ones of a view take the snapshot,
// after the present instant was read.
func (r *reader) ask(questions ...question) error {
	switch {
	case r.err != nil:
		return r.err
	case r.conn != nil:
		return unread(r.send(&pgx.Batch{}, questions))
	}
	end := time.Now().Add(maxViewOutage)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		again, err := r.begin(questions)
		if err == nil {
			return nil
		}
		if !again || time.Now().After(end) {
			r.err = unread(err) // there is no snapshot that another question could see
			return r.err
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			r.err = r.ctx.Err()
			return r.err
		}
	}
}

// begin takes a connection for a view and puts its first questions. again says that the
// server could not be reached, or was lost before it had answered anything.
func (r *reader) begin(questions []question) (again bool, err error) {
	c, err := r.s.pool.Acquire(r.ctx)
	if r.s.closed.Load() {
		if err == nil {
			c.Release()
		}
		return false, unavailable("the store is closed", nil)
	}
	if err != nil {
		e := sqlError(err)
		return e == nil || disconnected(e), err
	}
	answered := false
	b := &pgx.Batch{}
	b.Queue(beginView)
	b.Queue(selectNow, r.s.clock.parameter()).QueryRow(func(row pgx.Row) error {
		var now int64
		if err := row.Scan(&now, &r.epoch); err != nil {
			return err
		}
		r.at, answered = r.s.clock.at(now), true
		return checkEpoch(r.epoch)
	})
	r.conn = c
	if err = r.send(b, questions); err != nil && !answered && r.ctx.Err() == nil && c.Conn().IsClosed() {
		c.Release()
		r.conn = nil
		// A server that was restarted has ended all the other connections too.
		r.s.pool.Reset()
		return true, err
	}
	return false, err
}

func (r *reader) send(b *pgx.Batch, questions []question) error {
	for _, q := range questions {
		b.Queue(q.text, q.args...).Query(func(rows pgx.Rows) error { return each(rows, q.each) })
	}
	return r.conn.SendBatch(r.ctx, b).Close()
}

// unread is the refusal that follows an error of the database.
func unread(err error) error {
	var refusal *workitem.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return unavailable("the store can't be read", err)
}

// number is that of a tenant, or 0 if it never had a row.
func (r *reader) number(tenant string) (int64, error) {
	n, err := r.s.tenants.known(r.ctx, tenant)
	return n, unread(err)
}

// of puts a question about a tenant that has one: its number is the first parameter.
func (r *reader) of(tenant, text string, each func(pgx.Rows) error, args ...any) error {
	n, err := r.number(tenant)
	if err != nil || n == 0 {
		return err
	}
	return r.ask(question{text, append([]any{n}, args...), each})
}

// Now implements workitem.Reader: one instant for all of a view, or all of an update.
func (r *reader) Now() workitem.Instant {
	if r.at == 0 {
		if r.ask() != nil {
			return r.s.clock.at(0) // whatever is made of it, the view fails
		}
	}
	return r.at
}

// Epoch implements workitem.Reader.
func (r *reader) Epoch() (int64, error) {
	r.Now()
	return r.epoch, r.err
}

const fromBoth = " FROM items i JOIN life l ON l.item = i.item"

// columns are those that item takes over.
func (r *reader) columns() string {
	if r.whole {
		return itemColumns + ", " + storedColumns
	}
	return itemColumns
}

// item takes over rows of columns.
func (r *reader) item(add func(*workitem.Item)) func(pgx.Rows) error {
	return func(row pgx.Rows) error {
		var s itemScan
		var other storedScan
		targets := s.targets()
		if r.whole {
			targets = append(targets, other.targets()...)
		}
		if err := row.Scan(targets...); err != nil {
			return err
		}
		it, err := s.item(&r.s.tenants)
		if err != nil {
			return err
		}
		if r.whole {
			if r.other[it.Row], err = other.stored(it.Row); err != nil {
				return err
			}
		}
		add(it)
		return nil
	}
}

// maxOther bounds how many halves are kept that nobody has asked for.
const maxOther = 4096

// Item implements workitem.Reader.
func (r *reader) Item(id workitem.ID) (it *workitem.Item, err error) {
	if len(r.other) > maxOther {
		clear(r.other)
	}
	err = r.ask(question{"SELECT " + r.columns() + fromBoth + " WHERE i.id = $1", []any{id[:]},
		r.item(func(found *workitem.Item) { it = found })})
	return it, err
}

// Stored implements workitem.Reader.
func (r *reader) Stored(it *workitem.Item) (stored *workitem.Stored, err error) {
	if stored = r.other[it.Row]; stored != nil {
		delete(r.other, it.Row)
		it.CorrelationID = stored.CorrelationID
		return stored, nil
	}
	err = r.ask(question{"SELECT " + storedColumns + " FROM items i WHERE i.item = $1", []any{it.Row}, func(row pgx.Rows) error {
		var s storedScan
		if err := row.Scan(s.targets()...); err != nil {
			return err
		}
		stored, err = s.stored(it.Row)
		return err
	}})
	if err == nil && stored == nil {
		err = corrupt("items", it.Row, "is missing")
	}
	if err != nil {
		return nil, err
	}
	it.CorrelationID = stored.CorrelationID
	return stored, nil
}

// Tombstone implements workitem.Reader.
func (r *reader) Tombstone(id workitem.ID) (stone *workitem.Tombstone, err error) {
	err = r.ask(question{selectTombstones, []any{[][]byte{id[:]}}, func(row pgx.Rows) error {
		var raw, digest, loose []byte
		var tenant int64
		t := &workitem.Tombstone{}
		if err := row.Scan(&raw, &tenant, &t.Kind, &t.Status, &t.Owner, &digest, &loose, &t.PrunedAt); err != nil {
			return err
		}
		stone, err = tombstone(&r.s.tenants, t, raw, tenant, digest, loose)
		return err
	}})
	return stone, err
}

// Children implements workitem.Reader.
func (r *reader) Children(id workitem.ID) (children []workitem.ID, err error) {
	err = r.ask(question{"SELECT child FROM edges WHERE parent = $1 ORDER BY child", []any{id[:]}, func(row pgx.Rows) error {
		var raw []byte
		if err := row.Scan(&raw); err != nil {
			return err
		}
		child, err := toID(raw)
		children = append(children, child)
		return err
	}})
	return children, err
}

// Linked implements workitem.Reader.
func (r *reader) Linked(parent, child workitem.ID) (linked bool, err error) {
	err = r.ask(question{"SELECT true FROM edges WHERE parent = $1 AND child = $2", []any{parent[:], child[:]},
		func(row pgx.Rows) error { return row.Scan(&linked) }})
	return linked, err
}

// historyColumns are the columns of an event in the order of historyTargets.
const historyColumns = "seq, at, event, from_status, to_status, epoch, coalesce(subject, ''), coalesce(detail, '')"

// historyTargets are where historyColumns are scanned into.
func historyTargets(e *workitem.Event) []any {
	return []any{&e.Seq, &e.At, &e.Name, &e.From, &e.To, &e.Epoch, &e.Subject, &e.Detail}
}

// History implements workitem.Reader.
func (r *reader) History(it *workitem.Item) (events []workitem.Event, err error) {
	const text = "SELECT " + historyColumns + " FROM history WHERE item = $1 ORDER BY seq"
	err = r.ask(question{text, []any{it.Row}, func(row pgx.Rows) error {
		var e workitem.Event
		if err := row.Scan(historyTargets(&e)...); err != nil {
			return err
		}
		events = append(events, e)
		return nil
	}})
	return events, err
}

// Tenants implements workitem.Reader.
func (r *reader) Tenants() (names []string, err error) {
	const text = "SELECT name FROM tenants t WHERE EXISTS (SELECT 1 FROM items i WHERE i.tenant = t.tenant) ORDER BY tenant"
	err = r.ask(question{text, nil, func(row pgx.Rows) error {
		var name string
		if err := row.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
		return nil
	}})
	return names, err
}

// Leases implements workitem.Reader.
func (r *reader) Leases(tenant string) (n int, err error) {
	const text = "SELECT count(*) FROM life WHERE tenant = $1 AND status IN (3, 4) AND claimable_at IS NULL AND lease_expires > $2"
	err = r.of(tenant, text, func(row pgx.Rows) error { return row.Scan(&n) }, r.Now())
	return n, err
}

// Counts implements workitem.Reader.
func (r *reader) Counts(tenant string) (counts []workitem.Count, err error) {
	const text = `SELECT kind, status, sum(items)::bigint FROM counts WHERE tenant = $1
		GROUP BY kind, status HAVING sum(items) > 0 ORDER BY kind, status`
	err = r.of(tenant, text, func(row pgx.Rows) error {
		var c workitem.Count
		if err := row.Scan(&c.Kind, &c.Status, &c.Rows); err != nil {
			return err
		}
		counts = append(counts, c)
		return nil
	})
	return counts, err
}

// The SQL of workitem.Item.Obstacles for rows of life l at the instant $2: those
// that are ready, and those whose lease has run out.
const (
	timely      = "l.due >= $2 AND l.consent_until > $2"
	readyNow    = "l.status = 2 AND l.claimable_at <= $2 AND " + timely
	overNow     = "l.status IN (3, 4) AND l.lease_expires <= $2 AND l.attempt < l.max_attempts AND l.next_retry <= $2 AND l.dep_state <> 2 AND " + timely
	claimableIs = "(" + readyNow + " OR " + overNow + ")"
)

// ClaimableCounts implements workitem.Reader. The rows are in three indexes (see
// migrations), each of which is walked once.
func (r *reader) ClaimableCounts(tenant string) (map[workitem.Kind]int, error) {
	const text = `SELECT l.kind, count(*) FROM life l WHERE l.tenant = $1 AND l.claimable_at = 0 AND ` + claimableIs + ` GROUP BY l.kind
		UNION ALL
		SELECT l.kind, count(*) FROM life l WHERE l.tenant = $1 AND l.claimable_at > 0 AND l.claimable_at <= $2 AND ` + claimableIs + ` GROUP BY l.kind
		UNION ALL
		SELECT l.kind, count(*) FROM life l WHERE l.tenant = $1 AND l.claimable_at IS NULL AND ` + overNow + ` GROUP BY l.kind`
	counts := map[workitem.Kind]int{}
	err := r.of(tenant, text, func(row pgx.Rows) error {
		var kind workitem.Kind
		var n int
		if err := row.Scan(&kind, &n); err != nil {
			return err
		}
		counts[kind] += n
		return nil
	}, r.Now())
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// OldestReady implements workitem.Reader. The index of statuses has the ready jobs of
// a tenant in the order of creation.
func (r *reader) OldestReady(tenant string) (oldest workitem.Instant, err error) {
	const first = "SELECT l.created FROM life l WHERE l.tenant = t.tenant AND " + readyNow + " ORDER BY l.created, l.id LIMIT 1"
	const text = "SELECT coalesce(min(x.created), 0) FROM tenants t CROSS JOIN LATERAL (" + first + ") x"
	scan := func(row pgx.Rows) error { return row.Scan(&oldest) }
	if tenant == "" {
		err = r.ask(question{strings.ReplaceAll(text, "$2", "$1"), []any{r.Now()}, scan})
	} else {
		err = r.of(tenant, text+" WHERE t.tenant = $1", scan, r.Now())
	}
	return oldest, err
}

// Faults implements workitem.Reader.
func (r *reader) Faults(tenant string) (n int, err error) {
	err = r.of(tenant, "SELECT count(*) FROM life WHERE tenant = $1 AND dep_state = 2",
		func(row pgx.Rows) error { return row.Scan(&n) })
	return n, err
}

// Remembered implements workitem.Reader.
func (r *reader) Remembered(tenant, subject, request string) (found *workitem.Remembered, err error) {
	const text = `SELECT id, epoch, worker, kind, class, fairness, at FROM claims
		WHERE tenant = $1 AND subject = $2 AND request = $3`
	err = r.of(tenant, text, func(row pgx.Rows) error {
		var raw []byte
		v := &workitem.Remembered{}
		if err := row.Scan(&raw, &v.Epoch, &v.Worker, &v.Kind, &v.ResourceClass, &v.FairnessGroup, &v.At); err != nil {
			return err
		}
		v.Item, err = toID(raw)
		found = v
		return err
	}, subject, request)
	if err != nil {
		return nil, err
	}
	return found, nil
}

const tokenColumns = "id, name, hash, subject, tenant, owner, scopes, created, revoked"

// token takes over rows of tokenColumns.
func token(add func(*workitem.Token)) func(pgx.Rows) error {
	return func(row pgx.Rows) error {
		k := &workitem.Token{}
		var hash []byte
		if err := row.Scan(&k.ID, &k.Name, &hash, &k.Subject, &k.Tenant, &k.Owner, &k.Scopes, &k.CreatedAt, &k.RevokedAt); err != nil {
			return err
		}
		if len(hash) != len(k.Hash) {
			return corrupt("tokens", 0, "has a hash that is not 32 bytes")
		}
		copy(k.Hash[:], hash)
		add(k)
		return nil
	}
}

// Token implements workitem.Reader.
func (r *reader) Token(id string) (k *workitem.Token, err error) {
	err = r.ask(question{"SELECT " + tokenColumns + " FROM tokens WHERE id = $1", []any{id},
		token(func(found *workitem.Token) { k = found })})
	return k, err
}

// Tokens implements workitem.Reader.
func (r *reader) Tokens(tenant string) (list []*workitem.Token, err error) {
	err = r.ask(question{"SELECT " + tokenColumns + " FROM tokens WHERE $1 = '' OR tenant = $1 ORDER BY created, id", []any{tenant},
		token(func(k *workitem.Token) { list = append(list, k) })})
	return list, err
}
