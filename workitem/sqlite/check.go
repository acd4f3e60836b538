package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/internal/sqlitefile"
	"github.com/writ-authority/writ/workitem"
)

// Summary is what a store has.
type Summary struct {
	Schema int64 // version of the schema
	Epoch  int64 // of the authority
	Jobs   int
}

// Check reads all of the store of a path, which nobody may have open, and writes
// nothing: SQLite's own structures, every job with its record and its history, counts,
// claims, tombstones and tokens. What a start mends by itself, which is the dependencies of
// jobs that wait, is not looked at. The error is ErrCorrupt with what was found first, or
// one that Open returns.
func Check(ctx context.Context, path string) (Summary, error) {
	c, schema, err := sqlitefile.Sealed(path, &format)
	if err != nil {
		return Summary{}, err
	}
	v := &check{ctx: ctx, reader: reader{s: &Store{tenants: newTenants()}, stmts: statements{conn: c}}}
	v.sum.Schema = schema
	err = v.run()
	var refusal *workitem.Error
	if errors.As(err, &refusal) && refusal.Code == workitem.Internal {
		err = fmt.Errorf("%w: %s", ErrCorrupt, cause(refusal))
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return Summary{}, sqlitefile.Wrap(path, errors.Join(err, c.Close()))
	}
	return v.sum, c.Close()
}

// cause is what a refusal does not show to callers of the authority.
func cause(e *workitem.Error) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Error()
}

// check is one under way.
type check struct {
	reader
	ctx context.Context
	sum Summary
}

func (v *check) run() error {
	c := v.stmts.conn
	if err := sqlitefile.Integrity(v.ctx, c); err != nil {
		return err
	}
	defer c.SetInterrupt(c.SetInterrupt(v.ctx.Done()))
	names := map[int64]string{}
	err := v.rows("SELECT tenant, name FROM tenants", func(r *sqlite.Stmt) error {
		names[r.ColumnInt64(0)] = r.ColumnText(1)
		return nil
	})
	if err != nil {
		return err
	}
	v.s.tenants.set(names)
	if v.sum.Epoch, err = v.Epoch(); err != nil {
		return err
	}
	if v.sum.Epoch < 0 || v.sum.Epoch > workitem.LastEpoch {
		return fmt.Errorf("%w: its authority epoch is %d", ErrCorrupt, v.sum.Epoch)
	}
	for _, step := range []func() error{v.items, v.counts, v.orphans, v.others} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (v *check) rows(text string, fn func(*sqlite.Stmt) error) error {
	return v.query(text, func(*binder) {}, fn)
}

// items reads every job.
func (v *check) items() error {
	return v.rows("SELECT "+itemColumns+" FROM items", func(r *sqlite.Stmt) error {
		it, err := v.s.scan(r)
		if err != nil {
			return err
		}
		v.sum.Jobs++
		switch {
		case it.Status < workitem.Submitted || it.Status > workitem.DeadLetter:
			return corrupt("items", it.Row, fmt.Sprintf("has the status %d", it.Status))
		case it.LeaseEpoch < 0 || it.LeaseEpoch/workitem.EpochStep > v.sum.Epoch || it.FencingToken/workitem.EpochStep > v.sum.Epoch:
			return corrupt("items", it.Row, "has a fence of an authority epoch that has not begun")
		}
		stored, err := v.Stored(it)
		if err != nil {
			return err
		}
		if _, err := workitem.DecodeRecord(stored.Metadata); err != nil {
			return corrupt("records", it.Row, "can't be read: "+err.Error())
		}
		events, err := v.History(it)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return corrupt("history", it.Row, "is missing")
		}
		return nil
	})
}

// counts compares what is counted with what is there.
func (v *check) counts() error {
	return v.rows(`SELECT tenant, kind, status, sum(said), sum(there) FROM (
			SELECT tenant, kind, status, items AS said, 0 AS there FROM counts
			UNION ALL SELECT tenant, kind, status, 0, count(*) FROM items GROUP BY tenant, kind, status
		) GROUP BY tenant, kind, status HAVING sum(said) <> sum(there)`, func(r *sqlite.Stmt) error {
		return fmt.Errorf("%w: of kind %d it counts %d jobs with the status %s and has %d", ErrCorrupt,
			r.ColumnInt64(1), r.ColumnInt64(3), workitem.Status(r.ColumnInt64(2)), r.ColumnInt64(4))
	})
}

// orphans looks for rows that belong to no job.
func (v *check) orphans() error {
	for _, table := range []string{"records", "history", "labels"} {
		err := v.rows("SELECT item FROM "+table+" WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.item = "+table+".item) LIMIT 1", func(r *sqlite.Stmt) error {
			return corrupt(table, r.ColumnInt64(0), "belongs to no job")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// others looks at what belongs to no job: it has but the right lengths to keep.
func (v *check) others() error {
	for _, q := range []struct{ table, wrong string }{
		{"edges", "length(parent) <> 16 OR length(child) <> 16"},
		{"claims", "length(id) <> 16"},
		{"tombstones", "length(id) <> 16 OR length(digest) <> 32 OR length(loose) <> 32"},
		{"tokens", "length(hash) <> 32"},
	} {
		err := v.rows("SELECT count(*) FROM "+q.table+" WHERE "+q.wrong, func(r *sqlite.Stmt) error {
			if n := r.ColumnInt64(0); n > 0 {
				return fmt.Errorf("%w: %d rows of %s have values of a wrong length", ErrCorrupt, n, q.table)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
