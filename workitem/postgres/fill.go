package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-authority/writ/workitem"
)

// While a store is filled, meta has a row whose value is below every epoch: so the
// epoch that everybody reads first says that the store is unfinished.
const (
	markUnfinished = "INSERT INTO meta (name, value) VALUES ('unfinished', -1) ON CONFLICT DO NOTHING"
	selectEpoch    = "(SELECT min(value) FROM meta WHERE name IN ('epoch', 'unfinished'))"
)

// checkEpoch refuses a store that is unfinished.
func checkEpoch(epoch int64) error {
	if epoch < 0 {
		return unavailable("an import into the store is under way, or was not finished: repeat it, and it begins anew", workitem.ErrUnfinished)
	}
	return nil
}

// fillLock is the class of the advisory lock of whoever fills a schema.
const fillLock = 0x57720002

// fillSettings are those of the sessions that fill a store: their statements are large,
// and between two of them whoever gives the rows may take its time.
var fillSettings = map[string]string{
	"statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "plan_cache_mode": "auto",
	"enable_seqscan": "on", "enable_hashjoin": "on", "enable_mergejoin": "on",
}

// Loader is a workitem.Loader of one schema of a database.
type Loader struct {
	pool    *pgxpool.Pool
	conn    *pgxpool.Conn
	tenants tenants
	numbers numbers
	now     workitem.Instant
	failed  error // the first failure; nothing more is written
}

var _ workitem.Loader = (*Loader)(nil)

// Fill opens the store of a database to fill it, as Open does. What an earlier Loader
// has left unfinished is removed. A store that has anything else is refused with
// workitem.ErrOccupied; one that somebody else fills now with workitem.ErrUnfinished.
// Servers that have the store open refuse everything until Finish.
func Fill(ctx context.Context, o Options) (_ *Loader, err error) {
	cfg, schema, err := configure(o.URL)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, cfg, schema, o.AllowUnsafe); err != nil {
		return nil, err
	}
	for name, value := range fillSettings {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	cfg.MaxConns, cfg.MinConns = 2, 0
	l := &Loader{now: workitem.InstantOf(time.Now())}
	if l.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, unreachable(err)
	}
	l.tenants.pool, l.numbers.pool = l.pool, l.pool
	if l.conn, err = l.pool.Acquire(ctx); err != nil {
		l.pool.Close()
		return nil, unreachable(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	// A process that was killed has it until the server notices.
	if _, err := l.conn.Exec(ctx, "SELECT pg_advisory_lock($1::int, hashtext($2))", fillLock, schema); isCode(err, lockNotAvailable) {
		return nil, fmt.Errorf("%w: somebody else imports into it now", workitem.ErrUnfinished)
	} else if err != nil {
		return nil, unreachable(err)
	}
	if err := l.tenants.read(ctx); err != nil {
		return nil, unreachable(err)
	}
	return l, l.begin(ctx)
}

// begin removes what an earlier Loader has left, and says that the store is unfinished.
// Tenants keep their numbers, which servers may know.
func (l *Loader) begin(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		// Transactions that have begun without the mark end first.
		if _, err := tx.Exec(ctx, lockAlone, epochLock); err != nil {
			return err
		}
		var half bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'unfinished')").Scan(&half); err != nil {
			return err
		}
		if !half {
			there, err := l.Sizes(ctx)
			if err != nil {
				return err
			}
			if there != (workitem.Sizes{}) {
				return fmt.Errorf("%w: it has %s; import into one that has nothing", workitem.ErrOccupied, there)
			}
		}
		if _, err := tx.Exec(ctx, "TRUNCATE items, life, labels, edges, history, counts, turns, claims, tombstones, tokens"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, markUnfinished)
		return err
	})
}

// Load implements workitem.Loader.
func (l *Loader) Load(ctx context.Context, b *workitem.Batch) error {
	if l.failed != nil {
		return l.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.load(ctx, b); err != nil {
		if isCode(err, uniqueViolation, divisionByZero) { // insertItems counts what it has inserted
			err = fmt.Errorf("%w (%w)", workitem.ErrTwice, err)
		}
		l.failed = fmt.Errorf("the database can't be filled: %w", err)
	}
	return l.failed
}

func (l *Loader) load(ctx context.Context, b *workitem.Batch) error {
	if err := l.know(ctx, b); err != nil {
		return err
	}
	q := &pgx.Batch{}
	q.Queue("BEGIN")
	q.Queue("SET LOCAL synchronous_commit = off") // Finish has it on, and what came before is durable with it
	if err := l.items(ctx, q, b.Items); err != nil {
		return err
	}
	var parents, children [][]byte
	for i := range b.Edges {
		parents, children = append(parents, b.Edges[i].Parent[:]), append(children, b.Edges[i].Child[:])
	}
	if len(parents) > 0 {
		q.Queue(insertEdges, parents, children)
	}
	for _, t := range b.Tombstones {
		q.Queue(insertTombstone, t.ID[:], l.tenants.number(t.Tenant), int16(t.Kind), int16(t.Status), t.Owner, t.Digest[:], t.Loose[:], int64(t.PrunedAt))
	}
	for i := range b.Recalls {
		r := &b.Recalls[i]
		q.Queue(`INSERT INTO claims (tenant, subject, request, id, epoch, worker, kind, class, fairness, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, l.tenants.number(r.Tenant), r.Subject, r.Request, r.Item[:], r.Epoch,
			r.Worker, int16(r.Kind), r.ResourceClass, r.FairnessGroup, int64(r.At))
	}
	for _, t := range b.Turns {
		q.Queue("INSERT INTO turns (tenant, kind, bucket, fairness, more) VALUES ($1, $2, $3, $4, $5)",
			l.tenants.number(t.Tenant), int16(t.Kind), int16(t.Bucket), t.Group, int32(t.Left))
	}
	for _, k := range b.Tokens {
		q.Queue(insertToken, k.ID, k.Name, k.Hash[:], k.Subject, k.Tenant, k.Owner, int64(k.Scopes), int64(k.CreatedAt), int64(k.RevokedAt))
	}
	q.Queue("COMMIT")
	return l.conn.SendBatch(ctx, q).Close()
}

// know gives numbers to the tenants of a batch that have none, each in a transaction
// of its own: other processes may do the same.
func (l *Loader) know(ctx context.Context, b *workitem.Batch) error {
	names := map[string]bool{}
	for _, f := range b.Items {
		names[f.Item.Tenant] = true
	}
	for _, t := range b.Tombstones {
		names[t.Tenant] = true
	}
	for i := range b.Recalls {
		names[b.Recalls[i].Tenant] = true
	}
	for i := range b.Turns {
		names[b.Turns[i].Tenant] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := l.tenants.ensure(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// items adds jobs with all that belongs to them.
func (l *Loader) items(ctx context.Context, q *pgx.Batch, items []*workitem.FullItem) error {
	if len(items) == 0 {
		return nil
	}
	given, err := l.numbers.take(ctx, len(items))
	if err != nil {
		return err
	}
	var halves halves
	var labels labelRows
	rows := make([]*row, len(items))
	var numbers, at, epochs []int64
	var seqs []int32
	var names []string
	var from, to []int16
	var subjects, details []*string
	for i, f := range items {
		n := &row{item: f.Item, stored: f.Stored}
		n.item.Row = given[i]
		for j := range f.History {
			ev := &f.History[j]
			n.events = ev.Seq
			numbers, seqs, at = append(numbers, n.item.Row), append(seqs, int32(ev.Seq)), append(at, int64(ev.At))
			names, from, to = append(names, ev.Name), append(from, int16(ev.From)), append(to, int16(ev.To))
			epochs, subjects, details = append(epochs, ev.Epoch), append(subjects, optional(ev.Subject)), append(details, optional(ev.Detail))
		}
		tenant := l.tenants.number(f.Item.Tenant)
		halves.add(n, tenant)
		labels.add(n, tenant)
		rows[i] = n
	}
	q.Queue(insertItems, append([]any{len(rows)}, halves.items()...)...)
	q.Queue(insertLife, all.args(halves.life(), rows, l.now)...)
	if len(labels.item) > 0 {
		q.Queue(insertLabels, labels.tenant, labels.label, labels.value, labels.created, labels.id, labels.item)
	}
	if len(numbers) > 0 {
		q.Queue(insertHistory, numbers, seqs, at, names, from, to, epochs, subjects, details)
	}
	return nil
}

// Sizes implements workitem.Loader.
func (l *Loader) Sizes(ctx context.Context) (s workitem.Sizes, err error) {
	err = l.conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM items i JOIN life l ON l.item = i.item), (SELECT count(*) FROM history),
		(SELECT count(*) FROM edges), (SELECT count(*) FROM tombstones), (SELECT count(*) FROM claims), (SELECT count(*) FROM turns),
		(SELECT count(*) FROM tokens)`).Scan(&s.Jobs, &s.Events, &s.Edges, &s.Tombstones, &s.Claims, &s.Turns, &s.Tokens)
	return s, err
}

// Counts implements workitem.Loader.
func (l *Loader) Counts(ctx context.Context, tenant string) (counts []workitem.Count, err error) {
	rows, err := l.conn.Query(ctx, "SELECT kind, status, count(*) FROM life WHERE tenant = $1 GROUP BY kind, status ORDER BY kind, status", l.tenants.number(tenant))
	if err != nil {
		return nil, err
	}
	err = each(rows, func(r pgx.Rows) error {
		var c workitem.Count
		if err := r.Scan(&c.Kind, &c.Status, &c.Rows); err != nil {
			return err
		}
		counts = append(counts, c)
		return nil
	})
	return counts, err
}

// Finish implements workitem.Loader. The clock is that of the database, so the instant
// becomes one in the table of writers, which whoever opens the store heeds.
func (l *Loader) Finish(ctx context.Context, epoch int64, clock workitem.Instant) error {
	if l.failed != nil {
		return l.failed
	}
	err := pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		for _, s := range []struct {
			text string
			args []any
		}{
			{"INSERT INTO counts (tenant, kind, status, slot, items) SELECT tenant, kind, status, 0, count(*) FROM life GROUP BY tenant, kind, status", nil},
			{"INSERT INTO writers (writer, token, at) VALUES ('import', 0, $1) ON CONFLICT (writer) DO UPDATE SET at = excluded.at", []any{int64(clock)}},
			{"UPDATE meta SET value = $1 WHERE name = 'epoch'", []any{epoch}},
			{"DELETE FROM meta WHERE name = 'unfinished'", nil},
		} {
			if _, err := tx.Exec(ctx, s.text, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && l.conn.Conn().IsClosed() {
		err = outcomeUnknown(err)
	}
	return err
}

// Close implements workitem.Loader.
func (l *Loader) Close() error {
	// What keeps others from filling the store ends with the connection.
	err := l.conn.Conn().Close(context.Background())
	l.conn.Release()
	l.pool.Close()
	return err
}
