package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/sqlitefile"
	"github.com/writ-authority/writ/workitem"
)

// unfinished is the row of meta that a store has while it is filled.
const unfinished = "unfinished"

// loadCache is the cache of pages while a store is filled, in KiB: the ids of jobs
// are random, and each goes to another page.
const loadCache = 64 << 10

// copyEvery is after how many batches the log is copied into the database.
const copyEvery = 8

// Loader is a workitem.Loader of one SQLite file.
type Loader struct {
	path    string
	file    *sqlitefile.File
	stmts   statements
	tenants map[string]int64
	next    int64 // row number of the next item
	now     workitem.Instant
	batches int
	failed  error // the first failure; nothing more is written
}

var _ workitem.Loader = (*Loader)(nil)

// Fill opens the store of a path to fill it, making it if there is none. What an
// earlier Loader has left unfinished is removed. A store that has anything else is
// refused with workitem.ErrOccupied, and files as by Open.
func Fill(ctx context.Context, path string) (_ *Loader, err error) {
	file, err := sqlitefile.Open(ctx, path, &format)
	if err != nil {
		return nil, err
	}
	l := &Loader{
		path: path, file: file, stmts: statements{conn: file.Conn}, tenants: map[string]int64{}, next: 1,
		now: workitem.InstantOf(time.Now()),
	}
	defer func() {
		if err != nil {
			err = errors.Join(sqlitefile.Wrap(path, err), file.Close())
		}
	}()
	half, err := isUnfinished(file.Conn)
	if err != nil {
		return nil, err
	}
	if !half {
		there, err := l.Sizes(ctx)
		if err != nil {
			return nil, err
		}
		if there != (workitem.Sizes{}) {
			return nil, fmt.Errorf("%w: it has %s; import into one that has nothing", workitem.ErrOccupied, there)
		}
	}
	// Durable before the first row is.
	if err = l.begin(); err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = l.stmts.exec(fmt.Sprintf("PRAGMA cache_size = -%d", loadCache))
	}
	return l, err
}

// isUnfinished says that a file was being filled.
func isUnfinished(c *sqlite.Conn) (half bool, err error) {
	err = sqlitex.ExecuteTransient(c, "SELECT 1 FROM meta WHERE name = ?", &sqlitex.ExecOptions{
		Args:       []any{unfinished},
		ResultFunc: func(*sqlite.Stmt) error { half = true; return nil },
	})
	return half, err
}

// begin removes what is left of earlier rows, and says that the store is unfinished.
func (l *Loader) begin() (err error) {
	defer sqlitex.Save(l.file.Conn)(&err)
	for _, table := range []string{
		"tenants", "items", "records", "labels", "edges", "history", "counts", "turns", "claims", "tombstones", "tokens",
	} {
		if err := sqlitex.ExecuteTransient(l.file.Conn, "DELETE FROM "+table, nil); err != nil {
			return err
		}
	}
	return sqlitex.ExecuteTransient(l.file.Conn, "INSERT INTO meta (name, value) VALUES (?, 1) ON CONFLICT DO NOTHING", &sqlitex.ExecOptions{Args: []any{unfinished}})
}

// do runs one statement that writes.
func (l *Loader) do(text string, bind func(*binder)) error { return l.stmts.do(text, bind) }

// Load implements workitem.Loader.
func (l *Loader) Load(ctx context.Context, b *workitem.Batch) error {
	if l.failed != nil {
		return l.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.stmts.exec("BEGIN IMMEDIATE")
	if err == nil {
		err = l.batch(b)
	}
	if err == nil {
		err = l.stmts.exec("COMMIT")
	}
	if l.batches++; err == nil && l.batches%copyEvery == 0 {
		err = sqlitefile.Passive(l.file.Conn)
	}
	if err != nil {
		l.failed = l.wrap(err)
	}
	return l.failed
}

// wrap makes an error of SQLite one of this package. Rows that are there twice are the
// fault of whoever gives them.
func (l *Loader) wrap(err error) error {
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultConstraint {
		return fmt.Errorf("%w (%w)", workitem.ErrTwice, err)
	}
	return sqlitefile.Wrap(l.path, err)
}

func (l *Loader) batch(b *workitem.Batch) error {
	for _, f := range b.Items {
		if err := l.item(f); err != nil {
			return err
		}
	}
	for _, e := range b.Edges {
		err := l.do("INSERT INTO edges (parent, child) VALUES (?, ?)", func(b *binder) {
			b.bytes(e.Parent[:])
			b.bytes(e.Child[:])
		})
		if err != nil {
			return err
		}
	}
	for _, t := range b.Tombstones {
		tenant, err := l.tenant(t.Tenant)
		if err == nil {
			err = l.do(insertTombstone, func(b *binder) { b.tombstone(tenant, t) })
		}
		if err != nil {
			return err
		}
	}
	for i := range b.Recalls {
		r := &b.Recalls[i]
		tenant, err := l.tenant(r.Tenant)
		if err == nil {
			err = l.do(insertClaim, func(b *binder) { b.claim(tenant, r.Subject, r.Request, &r.Remembered) })
		}
		if err != nil {
			return err
		}
	}
	for _, u := range b.Turns {
		tenant, err := l.tenant(u.Tenant)
		if err == nil {
			err = l.do("INSERT INTO turns (tenant, kind, bucket, fairness, more) VALUES (?, ?, ?, ?, ?)", func(b *binder) {
				b.int(tenant)
				b.int(int64(u.Kind))
				b.int(int64(u.Bucket))
				b.text(u.Group)
				b.int(int64(u.Left))
			})
		}
		if err != nil {
			return err
		}
	}
	for _, k := range b.Tokens {
		if err := l.do(insertToken, func(b *binder) { b.token(k) }); err != nil {
			return err
		}
	}
	return nil
}

// item adds a job with all that belongs to it.
func (l *Loader) item(f *workitem.FullItem) error {
	tenant, err := l.tenant(f.Item.Tenant)
	if err != nil {
		return err
	}
	f.Item.Row = l.next
	if err := insertItem(l.do, tenant, f.Item, f.Item.Position(l.now), f.Stored); err != nil {
		return err
	}
	l.next++
	for i := range f.History {
		if err := l.do(insertEvent, func(b *binder) { b.event(f.Item.Row, f.History[i].Seq, &f.History[i]) }); err != nil {
			return err
		}
	}
	return nil
}

// tenant gives the number of a tenant, making it if it is new.
func (l *Loader) tenant(name string) (int64, error) {
	if n := l.tenants[name]; n != 0 {
		return n, nil
	}
	n := int64(len(l.tenants) + 1)
	err := l.do(insertTenant, func(b *binder) {
		b.int(n)
		b.text(name)
	})
	if err == nil {
		l.tenants[name] = n
	}
	return n, err
}

// Sizes implements workitem.Loader.
func (l *Loader) Sizes(ctx context.Context) (sizes workitem.Sizes, err error) {
	defer l.file.Conn.SetInterrupt(l.file.Conn.SetInterrupt(ctx.Done()))
	for _, t := range []struct {
		table string
		n     *int64
	}{
		{"items", &sizes.Jobs}, {"history", &sizes.Events}, {"edges", &sizes.Edges}, {"tombstones", &sizes.Tombstones},
		{"claims", &sizes.Claims}, {"turns", &sizes.Turns}, {"tokens", &sizes.Tokens},
	} {
		err := sqlitex.ExecuteTransient(l.file.Conn, "SELECT count(*) FROM "+t.table, &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error { *t.n = s.ColumnInt64(0); return nil },
		})
		if err != nil {
			return sizes, l.wrap(err)
		}
	}
	return sizes, nil
}

// Counts implements workitem.Loader.
func (l *Loader) Counts(ctx context.Context, tenant string) (counts []workitem.Count, err error) {
	defer l.file.Conn.SetInterrupt(l.file.Conn.SetInterrupt(ctx.Done()))
	err = sqlitex.Execute(l.file.Conn, "SELECT kind, status, count(*) FROM items WHERE tenant = ? GROUP BY kind, status ORDER BY kind, status", &sqlitex.ExecOptions{
		Args: []any{l.tenants[tenant]},
		ResultFunc: func(s *sqlite.Stmt) error {
			counts = append(counts, workitem.Count{
				Kind: workitem.Kind(s.ColumnInt64(0)), Status: workitem.Status(s.ColumnInt64(1)), Rows: s.ColumnInt(2),
			})
			return nil
		},
	})
	if err != nil {
		return nil, l.wrap(err)
	}
	return counts, nil
}

// Finish implements workitem.Loader.
func (l *Loader) Finish(ctx context.Context, epoch int64, clock workitem.Instant) error {
	if l.failed != nil {
		return l.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.finish(epoch, clock); err != nil {
		l.failed = l.wrap(err)
		return l.failed
	}
	if err := l.file.Sync(); err != nil {
		l.failed = fmt.Errorf("%s: the end of the import may not be durable: %w", l.path, err)
	}
	return l.failed
}

func (l *Loader) finish(epoch int64, clock workitem.Instant) (err error) {
	defer sqlitex.Save(l.file.Conn)(&err)
	for _, q := range []struct {
		text string
		args []any
	}{
		{"INSERT INTO counts (tenant, kind, status, items) SELECT tenant, kind, status, count(*) FROM items GROUP BY tenant, kind, status", nil},
		{"INSERT INTO meta (name, value) VALUES ('clock', ?1) ON CONFLICT DO UPDATE SET value = max(value, ?1)", []any{int64(clock)}},
		{"INSERT INTO meta (name, value) VALUES ('epoch', ?1) ON CONFLICT DO UPDATE SET value = ?1", []any{epoch}},
		{"DELETE FROM meta WHERE name = ?", []any{unfinished}},
	} {
		if err := sqlitex.ExecuteTransient(l.file.Conn, q.text, &sqlitex.ExecOptions{Args: q.args}); err != nil {
			return err
		}
	}
	return nil
}

// Close implements workitem.Loader.
func (l *Loader) Close() error { return l.file.Close() }
