package sqlite

import (
	"context"
	"errors"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// reader is the workitem.Reader of one connection: a view's, or the writer's own
// in a transaction.
type reader struct {
	s      *Store
	stmts  statements
	writer bool
	at     workitem.Instant // of Now, once it was asked
}

// View implements workitem.Store.
func (s *Store) View(ctx context.Context, fn func(workitem.Reader) error) error {
	if e := s.failure.Load(); e != nil {
		return e
	}
	var r *reader
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return unavailable("the store is closed", nil)
	}
	begun, err := r.view(ctx, fn)
	s.readers <- r
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !s.durable.Wait(begun) {
		return s.failure.Load()
	}
	return err
}

// view runs fn on a snapshot and says which transaction must be durable for what
// it saw to be.
func (r *reader) view(ctx context.Context, fn func(workitem.Reader) error) (begun uint64, err error) {
	r.at = 0
	c := r.stmts.conn
	defer c.SetInterrupt(c.SetInterrupt(ctx.Done()))
	if err := r.stmts.exec("BEGIN"); err != nil {
		return 0, unreadable(err)
	}
	// The first read takes the snapshot; what has begun to commit by then is all
	// that it can have.
	if err := r.stmts.exec("SELECT 1 FROM meta WHERE name = 'clock'"); err != nil {
		return 0, errors.Join(unreadable(err), r.end())
	}
	begun = r.s.begun.Load()
	if err = ctx.Err(); err == nil {
		err = fn(r)
	}
	if end := r.end(); err == nil && end != nil {
		err = unreadable(end)
	}
	return begun, err
}

// end gives the snapshot up, whatever became of the context.
func (r *reader) end() error {
	r.stmts.conn.SetInterrupt(nil)
	if r.stmts.conn.AutocommitEnabled() {
		return nil
	}
	return r.stmts.exec("ROLLBACK")
}

// query runs a statement and calls fn for each row.
func (r *reader) query(text string, bind func(*binder), fn func(*sqlite.Stmt) error) error {
	s, err := r.stmts.prepare(text)
	if err != nil {
		return unreadable(err)
	}
	bind(&binder{s: s})
	for {
		row, err := s.Step()
		if err != nil {
			_ = s.Reset() // returns the same error
			return unreadable(err)
		}
		if row {
			if err = fn(s); err == nil {
				continue
			}
		}
		if reset := s.Reset(); err == nil && reset != nil {
			err = unreadable(reset)
		}
		return err
	}
}

func unreadable(err error) error { return unavailable("the store can't be read", err) }

// Now implements workitem.Reader: one instant for all of a view, or all of an
// update.
func (r *reader) Now() workitem.Instant {
	if r.at == 0 {
		r.at = r.s.clock.now()
	}
	return r.at
}

// Item implements workitem.Reader.
func (r *reader) Item(id workitem.ID) (it *workitem.Item, err error) {
	err = r.query("SELECT "+itemColumns+" FROM items WHERE id = ?", func(b *binder) { b.bytes(id[:]) },
		func(s *sqlite.Stmt) (err error) {
			it, err = r.s.scan(s)
			return err
		})
	return it, err
}

// row reads an item by its row.
func (r *reader) row(n int64) (it *workitem.Item, err error) {
	err = r.query("SELECT "+itemColumns+" FROM items WHERE item = ?", func(b *binder) { b.int(n) },
		func(s *sqlite.Stmt) (err error) {
			it, err = r.s.scan(s)
			return err
		})
	return it, err
}

// recordColumns are the columns of a record in the order in which scanStored reads
// them.
const recordColumns = "digest, loose, key, correlation, request, lane, candidate, generation, trace, metadata"

// scanStored reads recordColumns from a column on.
func scanStored(s *sqlite.Stmt, c int, row int64) (*workitem.Stored, error) {
	stored := &workitem.Stored{
		CorrelationID: s.ColumnText(c + 3), RequestID: s.ColumnText(c + 4), LaneID: s.ColumnText(c + 5),
		CandidateID: s.ColumnText(c + 6), GenerationID: s.ColumnText(c + 7), Trace: s.ColumnText(c + 8),
		Metadata: make([]byte, s.ColumnLen(c+9)),
	}
	s.ColumnBytes(c+9, stored.Metadata)
	for i, d := range []*workitem.Digest{&stored.Digest, &stored.Loose, &stored.IdempotencyKey} {
		if s.ColumnBytes(c+i, d[:]) != len(d) {
			return nil, corrupt("records", row, "has a digest that is not 32 bytes")
		}
	}
	return stored, nil
}

// Stored implements workitem.Reader.
func (r *reader) Stored(it *workitem.Item) (stored *workitem.Stored, err error) {
	err = r.query("SELECT "+recordColumns+" FROM records WHERE item = ?", func(b *binder) { b.int(it.Row) },
		func(s *sqlite.Stmt) (err error) {
			stored, err = scanStored(s, 0, it.Row)
			return err
		})
	if err == nil && stored == nil {
		err = corrupt("records", it.Row, "is missing")
	}
	if err != nil {
		return nil, err
	}
	it.CorrelationID = stored.CorrelationID
	return stored, nil
}

// tombstoneColumns are the columns of a tombstone in the order in which scanTombstone
// reads them.
const tombstoneColumns = "id, tenant, kind, status, owner, digest, loose, pruned"

func (s *Store) scanTombstone(r *sqlite.Stmt) (*workitem.Tombstone, error) {
	tenant, ok := s.tenants.name(r.ColumnInt64(1))
	if !ok {
		return nil, corrupt("tombstones", 0, "names a tenant that is not there")
	}
	stone := &workitem.Tombstone{
		Tenant: tenant, Kind: workitem.Kind(r.ColumnInt64(2)), Status: workitem.Status(r.ColumnInt64(3)),
		Owner: r.ColumnText(4), PrunedAt: workitem.Instant(r.ColumnInt64(7)),
	}
	if r.ColumnLen(0) != len(stone.ID) || r.ColumnBytes(0, stone.ID[:]) != len(stone.ID) {
		return nil, corrupt("tombstones", 0, "has an id that is not 16 bytes")
	}
	if r.ColumnBytes(5, stone.Digest[:]) != len(stone.Digest) || r.ColumnBytes(6, stone.Loose[:]) != len(stone.Loose) {
		return nil, corrupt("tombstones", 0, "has a digest that is not 32 bytes")
	}
	return stone, nil
}

// Tombstone implements workitem.Reader.
func (r *reader) Tombstone(id workitem.ID) (stone *workitem.Tombstone, err error) {
	if r.writer && !r.s.state.tombstones {
		return nil, nil
	}
	err = r.query("SELECT "+tombstoneColumns+" FROM tombstones WHERE id = ?", func(b *binder) { b.bytes(id[:]) },
		func(s *sqlite.Stmt) (err error) {
			stone, err = r.s.scanTombstone(s)
			return err
		})
	return stone, err
}

// Children implements workitem.Reader.
func (r *reader) Children(id workitem.ID) (children []workitem.ID, err error) {
	err = r.query("SELECT child FROM edges WHERE parent = ? ORDER BY child", func(b *binder) { b.bytes(id[:]) },
		func(s *sqlite.Stmt) error {
			var child workitem.ID
			if s.ColumnBytes(0, child[:]) != len(child) {
				return corrupt("edges", 0, "has a child that is not 16 bytes")
			}
			children = append(children, child)
			return nil
		})
	return children, err
}

// Linked implements workitem.Reader.
func (r *reader) Linked(parent, child workitem.ID) (linked bool, err error) {
	err = r.query("SELECT 1 FROM edges WHERE parent = ? AND child = ?", func(b *binder) {
		b.bytes(parent[:])
		b.bytes(child[:])
	}, func(*sqlite.Stmt) error {
		linked = true
		return nil
	})
	return linked, err
}

// historyColumns are the columns of an event in the order in which scanEvent reads
// them.
const historyColumns = "seq, at, event, from_status, to_status, epoch, subject, detail"

// scanEvent reads historyColumns from a column on.
func scanEvent(s *sqlite.Stmt, c int) workitem.Event {
	return workitem.Event{
		Seq: s.ColumnInt(c), At: workitem.Instant(s.ColumnInt64(c + 1)), Name: s.ColumnText(c + 2),
		From: workitem.Status(s.ColumnInt64(c + 3)), To: workitem.Status(s.ColumnInt64(c + 4)),
		Epoch: s.ColumnInt64(c + 5), Subject: s.ColumnText(c + 6), Detail: s.ColumnText(c + 7),
	}
}

// History implements workitem.Reader.
func (r *reader) History(it *workitem.Item) (events []workitem.Event, err error) {
	err = r.query("SELECT "+historyColumns+" FROM history WHERE item = ? ORDER BY seq",
		func(b *binder) { b.int(it.Row) },
		func(s *sqlite.Stmt) error {
			events = append(events, scanEvent(s, 0))
			return nil
		})
	return events, err
}

// Tenants implements workitem.Reader.
func (r *reader) Tenants() (names []string, err error) {
	err = r.query("SELECT name FROM tenants ORDER BY tenant", func(*binder) {}, func(s *sqlite.Stmt) error {
		names = append(names, s.ColumnText(0))
		return nil
	})
	return names, err
}

// Leases implements workitem.Reader.
func (r *reader) Leases(tenant string) (n int, err error) {
	number := r.s.tenants.number(tenant)
	if r.writer {
		l := r.s.state.lease(number)
		l.expire(r.Now())
		return len(l.live), nil
	}
	for _, status := range []workitem.Status{workitem.Leased, workitem.Running} {
		err = r.query("SELECT count(*) FROM items WHERE tenant = ? AND status = ? AND lease_expires > ?", func(b *binder) {
			b.int(number)
			b.int(int64(status))
			b.int(int64(r.Now()))
		}, func(s *sqlite.Stmt) error {
			n += s.ColumnInt(0)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Counts implements workitem.Reader.
func (r *reader) Counts(tenant string) (counts []workitem.Count, err error) {
	err = r.query("SELECT kind, status, items FROM counts WHERE tenant = ? AND items > 0 ORDER BY kind, status",
		func(b *binder) { b.int(r.s.tenants.number(tenant)) },
		func(s *sqlite.Stmt) error {
			counts = append(counts, workitem.Count{Kind: workitem.Kind(s.ColumnInt64(0)), Status: workitem.Status(s.ColumnInt64(1)), Rows: s.ColumnInt(2)})
			return nil
		})
	return counts, err
}

// The SQL of workitem.Item.Obstacles: rows that may be claimed at the instant ?2,
// of those that are ready and of those whose lease has run out.
const (
	readyNow = `status = 2 AND claimable_at <= ?2 AND due >= ?2 AND consent_until > ?2`
	overNow  = `status IN (3, 4) AND lease_expires <= ?2 AND attempt < max_attempts AND next_retry <= ?2 AND due >= ?2
		AND consent_until > ?2 AND dep_state <> 2`
)

// ClaimableCounts implements workitem.Reader.
func (r *reader) ClaimableCounts(tenant string) (map[workitem.Kind]int, error) {
	counts := map[workitem.Kind]int{}
	number := r.s.tenants.number(tenant)
	for _, q := range []string{
		"SELECT kind, count(*) FROM items INDEXED BY items_claim WHERE tenant = ?1 AND claimable_at = 0 AND due >= ?2 AND consent_until > ?2 GROUP BY kind",
		"SELECT kind, count(*) FROM items INDEXED BY items_wake WHERE tenant = ?1 AND claimable_at > 0 AND " + readyNow + " GROUP BY kind",
		"SELECT kind, count(*) FROM items INDEXED BY items_status WHERE tenant = ?1 AND " + overNow + " GROUP BY kind",
	} {
		err := r.query(q, func(b *binder) {
			b.int(number)
			b.int(int64(r.Now()))
		}, func(s *sqlite.Stmt) error {
			counts[workitem.Kind(s.ColumnInt64(0))] += s.ColumnInt(1)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// OldestReady implements workitem.Reader.
func (r *reader) OldestReady(tenant string) (workitem.Instant, error) {
	numbers := []int64{r.s.tenants.number(tenant)}
	if tenant == "" {
		numbers = numbers[:0]
		for n := range r.s.tenants.count() {
			numbers = append(numbers, int64(n+1))
		}
	}
	var oldest workitem.Instant
	for _, n := range numbers {
		err := r.query("SELECT created FROM items INDEXED BY items_status WHERE tenant = ?1 AND "+readyNow+" ORDER BY created LIMIT 1",
			func(b *binder) {
				b.int(n)
				b.int(int64(r.Now()))
			}, func(s *sqlite.Stmt) error {
				if at := workitem.Instant(s.ColumnInt64(0)); oldest == 0 || at < oldest {
					oldest = at
				}
				return nil
			})
		if err != nil {
			return 0, err
		}
	}
	return oldest, nil
}

// Faults implements workitem.Reader.
func (r *reader) Faults(tenant string) (n int, err error) {
	err = r.query("SELECT count(*) FROM items INDEXED BY items_faulty WHERE tenant = ? AND dep_state = 2", func(b *binder) { b.int(r.s.tenants.number(tenant)) },
		func(s *sqlite.Stmt) error {
			n = s.ColumnInt(0)
			return nil
		})
	return n, err
}

// claimColumns are the columns of an answered claim request in the order in which
// scanClaim reads them.
const claimColumns = "id, epoch, worker, kind, class, fairness, at"

// scanClaim reads claimColumns from a column on.
func scanClaim(s *sqlite.Stmt, c int) (*workitem.Remembered, error) {
	found := &workitem.Remembered{
		Epoch: s.ColumnInt64(c + 1), Worker: s.ColumnText(c + 2), Kind: workitem.Kind(s.ColumnInt64(c + 3)),
		ResourceClass: s.ColumnText(c + 4), FairnessGroup: s.ColumnText(c + 5), At: workitem.Instant(s.ColumnInt64(c + 6)),
	}
	if s.ColumnBytes(c, found.Item[:]) != len(found.Item) {
		return nil, corrupt("claims", 0, "has an id that is not 16 bytes")
	}
	return found, nil
}

// Remembered implements workitem.Reader.
func (r *reader) Remembered(tenant, subject, request string) (found *workitem.Remembered, err error) {
	err = r.query("SELECT "+claimColumns+" FROM claims WHERE tenant = ? AND subject = ? AND request = ?",
		func(b *binder) {
			b.int(r.s.tenants.number(tenant))
			b.text(subject)
			b.text(request)
		}, func(s *sqlite.Stmt) (err error) {
			found, err = scanClaim(s, 0)
			return err
		})
	return found, err
}

const tokenColumns = "id, name, hash, subject, tenant, owner, scopes, created, revoked"

func scanToken(s *sqlite.Stmt) (*workitem.Token, error) {
	k := &workitem.Token{
		ID: s.ColumnText(0), Name: s.ColumnText(1), Subject: s.ColumnText(3), Tenant: s.ColumnText(4), Owner: s.ColumnText(5),
		Scopes: workitem.Scope(s.ColumnInt64(6)), CreatedAt: workitem.Instant(s.ColumnInt64(7)), RevokedAt: workitem.Instant(s.ColumnInt64(8)),
	}
	if s.ColumnBytes(2, k.Hash[:]) != len(k.Hash) {
		return nil, corrupt("tokens", 0, "has a hash that is not 32 bytes")
	}
	return k, nil
}

// Token implements workitem.Reader.
func (r *reader) Token(id string) (k *workitem.Token, err error) {
	err = r.query("SELECT "+tokenColumns+" FROM tokens WHERE id = ?", func(b *binder) { b.text(id) },
		func(s *sqlite.Stmt) (err error) {
			k, err = scanToken(s)
			return err
		})
	return k, err
}

// Tokens implements workitem.Reader.
func (r *reader) Tokens(tenant string) (list []*workitem.Token, err error) {
	err = r.query("SELECT "+tokenColumns+" FROM tokens WHERE ?1 = '' OR tenant = ?1 ORDER BY created, id", func(b *binder) { b.text(tenant) },
		func(s *sqlite.Stmt) error {
			k, err := scanToken(s)
			if err == nil {
				list = append(list, k)
			}
			return err
		})
	return list, err
}
