package store

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/internal/sqlitefile"
)

// Collected is what Collect has removed.
type Collected struct {
	Particles int64
	Bytes     int64
}

// collecting is a collection under way.
type collecting struct {
	s    *Store
	live map[int64]*[packItems / 64]uint64 // by pack
}

// Collect removes all content that is not reachable, and makes the index anew.
// reachable calls visit with every particle that must stay, in any order; it may read
// the store and must not write to it. Writes wait until the collection has ended, reads
// until it has, once something is removed. Nothing is removed if reachable fails, if
// something that is visited is missing or damaged, or if ctx ends before. A crash
// leaves a store that has everything reachable; opening it takes longer then, because
// the index is made again.
func (s *Store) Collect(ctx context.Context, reachable func(visit func(record.Particle) error) error) (Collected, error) {
	s.writes.Lock()
	defer s.writes.Unlock()
	if err := s.Health(); err != nil {
		return Collected{}, err
	}
	c := &collecting{s: s, live: map[int64]*[packItems / 64]uint64{}}
	if err := reachable(func(p record.Particle) error { return c.visit(ctx, p) }); err != nil {
		return Collected{}, err
	}
	s.tidying.Lock()
	defer s.tidying.Unlock()
	s.reads.Lock()
	defer s.reads.Unlock()
	if err := ctx.Err(); err != nil {
		return Collected{}, err
	}
	// Half a collection has no index, so it is finished whatever becomes of ctx.
	ctx = context.WithoutCancel(ctx)
	var done Collected
	err := c.run(ctx, func(fn func(*tx) error) error { return s.update(ctx, fn) }, &done)
	return done, err
}

// visit notes that content stays, and verifies it.
func (c *collecting) visit(ctx context.Context, p record.Particle) error {
	err := c.s.reading(ctx, func(r conn) error {
		_, where, ok, err := c.s.find(r, p, true)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: no content is named %v", cell.ErrMissing, p)
		}
		n := where.ordinal()
		bits := c.live[where.pack()]
		if bits == nil {
			bits = new([packItems / 64]uint64)
			c.live[where.pack()] = bits
		}
		bits[n/64] |= 1 << (n % 64)
		return nil
	})
	return unread(ctx, err)
}

func (c *collecting) stays(number int64, ordinal int) bool {
	bits := c.live[number]
	return bits != nil && bits[ordinal/64]&(1<<(ordinal%64)) != 0
}

// run removes what does not stay, and makes the index anew.
func (c *collecting) run(ctx context.Context, do doer, done *Collected) error {
	var found tally
	err := c.s.reindex(ctx, do, &found, func() error { return c.rewrite(ctx, do, done) })
	if err == nil {
		// What was damaged may have been counted with other numbers.
		err = do(func(t *tx) error { return t.recount(&found) })
	}
	if err != nil {
		return err
	}
	return c.shrink()
}

// Reindex makes the index anew from the packs, which is what a damaged index needs.
// Writes and reads wait until it has ended. After a crash opening the store goes on with
// it.
func (s *Store) Reindex(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writes.Lock()
	defer s.writes.Unlock()
	s.tidying.Lock()
	defer s.tidying.Unlock()
	s.reads.Lock()
	defer s.reads.Unlock()
	ctx = context.WithoutCancel(ctx)
	do := func(fn func(*tx) error) error { return s.update(ctx, fn) }
	return s.reindex(ctx, do, new(tally), func() error { return nil })
}

// reindex makes the index anew, after change has changed the packs, and says what it has
// found.
func (s *Store) reindex(ctx context.Context, do doer, found *tally, change func() error) error {
	// From here on the index is what the packs say.
	if err := do(func(t *tx) error { return t.do("DELETE FROM runs", nil) }); err != nil {
		return err
	}
	err := change()
	// Even where that has failed there must be an index again.
	s.cache.clear()
	s.known.clear()
	s.index.reset()
	again := s.borrow(ctx, func(c conn) (err error) {
		if s.orphans, err = findOrphans(c, nil); err != nil {
			return err
		}
		*found, err = s.replay(ctx, c, 0, do)
		return err
	})
	if again == nil {
		again = s.tidy(ctx, do)
	}
	if again != nil {
		s.fail("the index could not be made again", again)
		return s.Health()
	}
	return err
}

// rewrite replaces packs that have something unreachable by those that don't.
func (c *collecting) rewrite(ctx context.Context, do doer, done *Collected) error {
	end := int64(0)
	err := c.s.borrow(ctx, func(r conn) error {
		return r.query("SELECT max(pack) FROM packs", nil, func(q *sqlite.Stmt) error { end = q.ColumnInt64(0); return nil })
	})
	if err != nil {
		return failed(ctx, "read", err)
	}
	for last := int64(0); last < end; {
		var rows []packRow
		err := c.s.borrow(ctx, func(r conn) (err error) {
			rows, err = packsAfter(r, last)
			return err
		})
		if err != nil {
			return failed(ctx, "read", err)
		}
		if len(rows) == 0 {
			return nil
		}
		var old []packRow
		var keep []record.Item
		for _, r := range rows {
			if last = r.number; last > end {
				break
			}
			items, whole, err := c.part(&r)
			if err != nil {
				return err
			}
			if !whole {
				old = append(old, r)
				keep = append(keep, items...)
			}
		}
		if len(old) == 0 {
			continue
		}
		var removed Collected
		err = do(func(t *tx) error {
			removed, err = t.replace(old, keep)
			return err
		})
		if err != nil {
			return err
		}
		done.Particles += removed.Particles
		done.Bytes += removed.Bytes
	}
	return nil
}

// part returns the items of a pack that stay, and whether these are all.
func (c *collecting) part(r *packRow) (items []record.Item, whole bool, err error) {
	if c.live[r.number] == nil {
		return nil, false, nil
	}
	p, err := readPack(r.number, r.data)
	if err != nil {
		return nil, false, err
	}
	for i := range p.items() {
		if c.stays(r.number, i) {
			it, err := p.verified(i)
			if err != nil {
				return nil, false, fmt.Errorf("pack %d: %w", r.number, err)
			}
			items = append(items, it)
		}
	}
	return items, len(items) == p.items() && p.sound(r.number) == nil, nil
}

// replace puts what stays of some packs in their place.
func (t *tx) replace(old []packRow, keep []record.Item) (removed Collected, err error) {
	before := t.tally
	for _, r := range old {
		if err := t.do("DELETE FROM packs WHERE pack = ?", func(q *sqlite.Stmt) { q.BindInt64(1, r.number) }); err != nil {
			return removed, err
		}
		t.pages += len(r.data) / pageSize
		t.tally.packs--
		p, err := readPack(r.number, r.data)
		if err != nil {
			continue // it was counted with numbers that nobody knows any more
		}
		t.tally.packMarks -= int64(p.mark())
		t.tally.items -= int64(p.items())
		t.tally.bytes -= int64(p.size)
	}
	if err := t.append(appendPacks(nil, keep)); err != nil {
		return removed, err
	}
	return Collected{before.items - t.tally.items, before.bytes - t.tally.bytes}, nil
}

// recount says what is in the packs. How many there are was always known.
func (t *tx) recount(n *tally) error {
	return t.do("UPDATE tally SET pack_marks = ?, items = ?, bytes = ?", func(q *sqlite.Stmt) {
		q.BindInt64(1, n.packMarks&sumMask)
		q.BindInt64(2, n.items)
		q.BindInt64(3, n.bytes)
	})
}

// reset forgets everything.
func (x *index) reset() {
	x.mu.Lock()
	x.tables = []*table{newTable()}
	x.mu.Unlock()
	x.runs.Store(&[]*run{})
	x.floor, x.packs, x.damaged = 0, 0, nil
}

// shrink gives the free pages of the file back, if they are many.
func (c *collecting) shrink() error {
	w, err := c.s.file.Connect(true)
	if err != nil {
		return failed(context.Background(), "connect", err)
	}
	defer w.Close()
	r := conn{w}
	pages, free := int64(0), int64(0)
	err = r.query("PRAGMA page_count", nil, func(q *sqlite.Stmt) error { pages = q.ColumnInt64(0); return nil })
	if err == nil {
		err = r.query("PRAGMA freelist_count", nil, func(q *sqlite.Stmt) error { free = q.ColumnInt64(0); return nil })
	}
	if err == nil && free > pages/4 {
		err = r.exec("VACUUM", nil)
		if err == nil {
			sqlitefile.Restart(w)
		}
	}
	return failed(context.Background(), "give free pages back", err)
}
