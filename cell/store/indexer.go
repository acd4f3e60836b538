package store

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
)

// look asks the indexer whether there is something to do.
func (s *Store) look() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// indexing is the indexer: it makes runs of full tables and merges runs, in pieces
// that the writer takes like other writes.
func (s *Store) indexing() {
	defer s.done.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	do := func(fn func(*tx) error) error { return s.update(ctx, fn) }
	for {
		select {
		case <-s.stop:
			return
		case <-s.full:
		}
		// What fails is tried again when there is more to do: the packs have everything
		// that is needed for it. Reads find what is damaged themselves.
		s.tidying.Lock()
		s.index.tried(s.tidy(ctx, do))
		s.tidying.Unlock()
	}
}

// doer runs a function in a transaction and returns when it is committed.
type doer func(func(*tx) error) error

// tidy does all there is to do.
func (s *Store) tidy(ctx context.Context, do doer) error {
	for {
		if t, full := s.index.oldest(); full > 0 {
			if err := s.flush(t, do); err != nil {
				return err
			}
			continue
		}
		if len(s.orphans) > 0 {
			if err := s.removePages(s.orphans[0], do); err != nil {
				return err
			}
			s.orphans = s.orphans[1:]
			continue
		}
		merge := s.mergeable()
		if merge == nil {
			return nil
		}
		if err := s.merge(ctx, merge, do); err != nil {
			return err
		}
	}
}

// flush makes a run of a full table.
func (s *Store) flush(t *table, do doer) error {
	list := t.sorted()
	err := s.makeRun(uint64(len(list)), do, func(w *runWriter) error {
		for _, e := range list {
			if err := w.add(e); err != nil {
				return err
			}
		}
		return w.finish(t, nil)
	})
	if err == nil {
		s.index.drop()
	}
	return err
}

// makeRun has fn write a run. If that fails its pages are removed later.
func (s *Store) makeRun(entries uint64, do doer, fn func(*runWriter) error) error {
	s.lastRun++
	w := &runWriter{
		s: s, do: do, list: make([]entry, 0, pageEntries),
		run: &run{number: s.lastRun, entries: entries, filter: newFilter(entries)},
	}
	err := fn(w)
	if err != nil {
		s.orphans = append(s.orphans, w.run.number)
	}
	return err
}

// fanout is how many runs of a size there are before they become one.
const fanout = 8

// tier is the size of a run: how often its entries were merged, about.
func (x *index) tier(r *run) int { return (bits.Len64(r.entries/uint64(x.size)) + 2) / 3 }

// mergeable returns runs of a size if there are enough. Those in which a merge has found
// damage stay as they are.
func (s *Store) mergeable() []*run {
	tiers := map[int][]*run{}
	for _, r := range *s.index.runs.Load() {
		if r.damaged {
			continue
		}
		n := s.index.tier(r)
		if tiers[n] = append(tiers[n], r); len(tiers[n]) == fanout {
			return tiers[n]
		}
	}
	return nil
}

// merge makes one run of several.
func (s *Store) merge(ctx context.Context, old []*run, do doer) error {
	total := uint64(0)
	cursors := make([]*cursor, len(old))
	for i, r := range old {
		total += r.entries
		cursors[i] = &cursor{s: s, ctx: ctx, run: r}
	}
	err := s.makeRun(total, do, func(w *runWriter) error {
		for _, c := range cursors {
			if err := c.next(); err != nil {
				return err
			}
		}
		for {
			var least *cursor
			for _, c := range cursors {
				if !c.ended && (least == nil || compareEntries(c.entry, least.entry) < 0) {
					least = c
				}
			}
			if least == nil {
				return w.finish(nil, old)
			}
			if err := w.add(least.entry); err != nil {
				return err
			}
			if err := least.next(); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	for _, r := range old {
		s.orphans = append(s.orphans, r.number)
	}
	return nil
}

// cursor reads a run in order.
type cursor struct {
	s     *Store
	ctx   context.Context
	run   *run
	data  []byte
	page  int // the next one
	at    int // of the next entry in data
	entry entry
	ended bool
}

func (c *cursor) next() error {
	if c.data == nil || c.at == pageLen(c.data) {
		if c.ended = c.page == len(c.run.fences); c.ended {
			return nil
		}
		err := c.s.borrow(c.ctx, func(r conn) (err error) {
			c.data, err = readPage(r, c.run.page(c.page))
			return err
		})
		if err != nil {
			c.run.damaged = errors.Is(err, cell.ErrCorrupt)
			return err
		}
		c.page++
		c.at = 0
	}
	c.entry = pageEntry(c.data, c.at)
	c.at++
	return nil
}

// runWriter writes a run, in pieces.
type runWriter struct {
	s    *Store
	do   doer
	run  *run
	list []entry
	full []pageRow
}

type pageRow struct {
	number int64
	data   []byte
}

// pieceSize is how many pages are written or removed at once.
const pieceSize = 64

func (w *runWriter) add(e entry) error {
	w.list = append(w.list, e)
	if w.run.filter != nil {
		filterAdd(w.run.filter, e.key)
	}
	if len(w.list) < pageEntries {
		return nil
	}
	return w.page()
}

// page ends a page.
func (w *runWriter) page() error {
	n := len(w.run.fences)
	if n >= 1<<pageBits || w.run.number > maxRun {
		return fmt.Errorf("%w: the index has no room for more", cell.ErrStore)
	}
	number := w.run.page(n)
	w.run.fences = append(w.run.fences, w.list[0].key)
	w.full = append(w.full, pageRow{number, encodePage(number, w.list)})
	w.list = w.list[:0]
	if len(w.full) < pieceSize {
		return nil
	}
	full := w.full
	w.full = nil
	return w.do(func(t *tx) error { return t.writePages(full) })
}

func (t *tx) writePages(pages []pageRow) error {
	for _, p := range pages {
		err := t.do("INSERT INTO pages (page, data) VALUES (?, ?)", func(q *sqlite.Stmt) {
			q.BindInt64(1, p.number)
			q.BindBytes(2, p.data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// finish makes the run count, for a table or instead of the old ones.
func (w *runWriter) finish(of *table, old []*run) error {
	if len(w.list) > 0 {
		if err := w.page(); err != nil {
			return err
		}
	}
	x := w.s.index
	list := slices.DeleteFunc(slices.Clone(*x.runs.Load()), func(r *run) bool { return slices.Contains(old, r) })
	list = append(list, w.run)
	m := manifest{floor: x.floor, packs: x.packs}
	if of != nil {
		m.floor, m.packs = of.last, x.packs+of.packs
	}
	for _, r := range list {
		m.runs = append(m.runs, r.number)
	}
	err := w.do(func(t *tx) error {
		if err := t.writePages(w.full); err != nil {
			return err
		}
		for _, r := range old {
			if err := t.do("DELETE FROM runs WHERE run = ?", func(q *sqlite.Stmt) { q.BindInt64(1, r.number) }); err != nil {
				return err
			}
		}
		if err := t.writeRun(w.run.number, w.run.encode()); err != nil {
			return err
		}
		return t.writeRun(0, m.encode())
	})
	if err != nil {
		return err
	}
	x.floor, x.packs = m.floor, m.packs
	x.runs.Store(&list)
	return nil
}

func (t *tx) writeRun(number int64, data []byte) error {
	t.pages += len(data) / pageSize
	return t.do("INSERT INTO runs (run, data) VALUES (?1, ?2) ON CONFLICT (run) DO UPDATE SET data = ?2", func(q *sqlite.Stmt) {
		q.BindInt64(1, number)
		q.BindBytes(2, data)
	})
}

// removePages removes the pages of a run that does not count.
func (s *Store) removePages(number int64, do doer) error {
	for more := true; more; {
		err := do(func(t *tx) error {
			err := t.do("DELETE FROM pages WHERE page IN (SELECT page FROM pages WHERE page >= ? AND page < ? LIMIT ?)", func(q *sqlite.Stmt) {
				q.BindInt64(1, number<<pageBits)
				q.BindInt64(2, (number+1)<<pageBits)
				q.BindInt64(3, pieceSize)
			})
			n := t.conn.Changes()
			t.pages += n
			more = n == pieceSize
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// load reads what is kept in memory: the last numbers, the runs, and the packs that no
// run has. It runs before the writer.
func (s *Store) load() error {
	number := func(text string) (n int64, err error) {
		err = s.conn.query(text, nil, func(q *sqlite.Stmt) error { n = q.ColumnInt64(0); return nil })
		return n, err
	}
	var err error
	if s.lastPack, err = number("SELECT max(pack) FROM packs"); err != nil {
		return err
	}
	if s.lastCell, err = number("SELECT max(number) FROM cells"); err != nil {
		return err
	}
	lastPage, err := number("SELECT max(page) FROM pages")
	if err != nil {
		return err
	}
	m, runs, damaged, err := readRuns(s.conn)
	if err != nil {
		return err
	}
	if len(damaged) > 0 && m.floor == 0 {
		// Nobody knows what the runs have, and all packs are read again.
		if err := s.conn.exec("DELETE FROM runs", nil); err != nil {
			return err
		}
		damaged = nil
	}
	s.lastPack = max(s.lastPack, m.floor)
	s.lastRun = lastPage >> pageBits
	for _, n := range m.runs {
		s.lastRun = max(s.lastRun, n)
	}
	s.index.runs.Store(&runs)
	s.index.floor, s.index.packs, s.index.damaged = m.floor, m.packs, damaged
	if s.orphans, err = findOrphans(s.conn, m.runs); err != nil {
		return err
	}
	_, err = s.replay(context.Background(), s.conn, m.floor, s.direct)
	return err
}

// findOrphans returns the runs that have pages and don't count: they were not finished,
// or their pages not yet removed.
func findOrphans(c conn, runs []int64) (orphans []int64, err error) {
	for next := int64(0); ; {
		number := int64(-1)
		err := c.query("SELECT min(page) FROM pages WHERE page >= ?", func(q *sqlite.Stmt) { q.BindInt64(1, next<<pageBits) },
			func(q *sqlite.Stmt) error {
				if !q.ColumnIsNull(0) {
					number = q.ColumnInt64(0) >> pageBits
				}
				return nil
			})
		if err != nil || number < 0 {
			return orphans, err
		}
		if !slices.Contains(runs, number) {
			orphans = append(orphans, number)
		}
		next = number + 1
	}
}

// direct runs a function in a transaction of its own, before there is a writer.
func (s *Store) direct(fn func(*tx) error) error {
	c, err := s.transact([]*update{{ctx: context.Background(), fn: fn, done: make(chan struct{})}})
	if err != nil {
		return err
	}
	s.dirty.remove(c.cells, c.number)
	return c.updates[0].err
}

// replay reads the packs after the floor into tables. Only after everything was
// collected can there be so many that runs are made of them here. It says what it has
// read.
func (s *Store) replay(ctx context.Context, c conn, floor int64, do doer) (found tally, err error) {
	there := s.index.packs
	for last, more := floor, true; more; {
		more = false
		err := c.query("SELECT pack, data FROM packs WHERE pack > ? ORDER BY pack LIMIT 1024",
			func(q *sqlite.Stmt) { q.BindInt64(1, last) },
			func(q *sqlite.Stmt) error {
				last, more = q.ColumnInt64(0), true
				p, err := readPack(last, bytes(q, 1))
				if err == nil {
					err = p.sound(last)
				}
				if err != nil {
					found.packs++
					s.index.lose(last, err)
					return ctx.Err()
				}
				found.add(p)
				s.index.add(last, p)
				return ctx.Err()
			})
		if err != nil {
			return found, err
		}
		if _, n := s.index.oldest(); n >= maxTables {
			if err := s.tidy(ctx, do); err != nil {
				return found, err
			}
		}
	}
	t, err := readTally(c)
	if n := there + found.packs; err == nil && n != t.packs {
		// The tree of SQLite may be damaged so that it seems to end early.
		s.index.damaged = append(s.index.damaged, fmt.Errorf("%w: there are %d packs of %d", cell.ErrCorrupt, n, t.packs))
	}
	return found, err
}
