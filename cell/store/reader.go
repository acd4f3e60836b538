package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// Content implements cell.Store. What it returns belongs to the caller.
func (s *Store) Content(ctx context.Context, p record.Particle) (kind record.Kind, data []byte, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	if at, ordinal, ok := s.cache.near.find(&p); ok {
		// If it is damaged there may be another copy, which the index leads to.
		if it, err := at.verified(ordinal); err == nil {
			return it.Kind, append([]byte{}, it.Bytes...), nil
		}
	}
	err = s.reading(ctx, func(c conn) error {
		at, where, ok, err := s.find(c, p, true)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: no content is named %v", cell.ErrMissing, p)
		}
		it, err := at.verified(where.ordinal())
		if err != nil {
			return fmt.Errorf("content %v: %w", p, err)
		}
		s.cache.near.add(where.pack(), at)
		kind, data = it.Kind, append([]byte{}, it.Bytes...)
		return nil
	})
	return kind, data, unread(ctx, err)
}

// unread is the error of a read: those that say what the matter is stay as they are.
func unread(ctx context.Context, err error) error {
	if err == nil || cell.Code(err) != "store-failed" {
		return err
	}
	return failed(ctx, "read", err)
}

// about reads what concerns one cell, and returns when that is durable.
func (s *Store) about(ctx context.Context, p record.Particle, fn func(c conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.reading(ctx, fn)
	// Whatever was read of the cell had been entered here before.
	if n := s.dirty.of(p); n > 0 && !s.durable.Wait(n) {
		return s.lost()
	}
	return unread(ctx, err)
}

// lost is the error of reads that may have seen what is not durable.
func (s *Store) lost() error {
	return fmt.Errorf("what was read may be lost: %w", s.Health())
}

// Head implements cell.Store.
func (s *Store) Head(ctx context.Context, p record.Particle) (head cell.Head, err error) {
	err = s.about(ctx, p, func(c conn) error {
		r, err := mustRow(c, p)
		head = r.head
		return err
	})
	return head, err
}

// mustRow reads the row of a cell.
func mustRow(c conn, p record.Particle) (row, error) {
	r, ok, err := readRow(c, p)
	if err == nil && !ok {
		err = fmt.Errorf("%w: no cell is named %v", cell.ErrMissing, p)
	}
	return r, err
}

func checkLimit(limit int, of string) error {
	if limit < 1 || limit > cell.MaxHistory {
		return fmt.Errorf("%w: a page of %d %s, expected 1 to %d", cell.ErrLimit, limit, of, cell.MaxHistory)
	}
	return nil
}

// Cells implements cell.Store. The limit is 1 to cell.MaxHistory.
func (s *Store) Cells(ctx context.Context, after record.Particle, limit int) (list []cell.CellHead, err error) {
	if err := checkLimit(limit, "cells"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.reading(ctx, func(c conn) error {
		return c.query(`SELECT number, cell, head, "commit", mark FROM cells WHERE cell > ? ORDER BY cell LIMIT ?`,
			func(q *sqlite.Stmt) {
				q.BindBytes(1, after[:])
				q.BindInt64(2, int64(limit))
			},
			func(q *sqlite.Stmt) error {
				r, err := scanRow(q)
				list = append(list, cell.CellHead{Cell: r.cell, Head: r.head})
				return err
			})
	})
	if err != nil {
		return nil, unread(ctx, err)
	}
	if !s.durable.Wait(s.begun.Load()) {
		return nil, s.lost()
	}
	return list, nil
}

// History implements cell.Store.
func (s *Store) History(ctx context.Context, p record.Particle, from uint64, limit int) (list []cell.Head, err error) {
	if err := checkLimit(limit, "commits"); err != nil {
		return nil, err
	}
	err = s.about(ctx, p, func(c conn) error {
		r, err := mustRow(c, p)
		if err != nil || from > math.MaxInt64 || from > r.head.Index {
			return err
		}
		next := from
		err = c.query(`SELECT head, "commit", mark FROM history WHERE cell = ? AND head >= ? ORDER BY head LIMIT ?`,
			func(q *sqlite.Stmt) {
				q.BindInt64(1, r.number)
				q.BindInt64(2, int64(from))
				q.BindInt64(3, int64(limit))
			},
			func(q *sqlite.Stmt) error {
				head := cell.Head{Index: uint64(q.ColumnInt64(0))}
				var whole bool
				head.Commit, whole = particle(q, 1)
				if !whole || head.Index != next || q.ColumnInt64(2) != historyMark(r.number, head) {
					return fmt.Errorf("%w: commit %d of cell %v is not what was written", cell.ErrCorrupt, next, p)
				}
				list = append(list, head)
				next++
				return nil
			})
		// The row was read before the history, which may have grown since.
		if err == nil && next <= r.head.Index && len(list) < limit {
			err = fmt.Errorf("%w: commit %d of cell %v is not there", cell.ErrCorrupt, next, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Request implements cell.Store.
func (s *Store) Request(ctx context.Context, p, request record.Particle) (head cell.Head, known bool, err error) {
	err = s.about(ctx, p, func(c conn) error {
		r, ok, err := readRow(c, p)
		if err != nil || !ok {
			return err
		}
		a, ok, err := readRequest(c, r.number, request)
		head, known = a.head, ok
		return err
	})
	if err != nil || !known {
		return cell.Head{}, false, err
	}
	return head, true, nil
}

// Each calls fn with all content of the store, which was verified, in no order that
// means anything. Content that was stored twice comes twice. What is added meanwhile
// may be left out.
func (s *Store) Each(ctx context.Context, fn func(record.Item) error) error {
	for last := int64(0); ; {
		var rows []packRow
		err := s.reading(ctx, func(c conn) (err error) {
			rows, err = packsAfter(c, last)
			return err
		})
		if err != nil {
			return unread(ctx, err)
		}
		if len(rows) == 0 {
			return nil
		}
		for _, r := range rows {
			items, err := r.items()
			if err != nil {
				return err
			}
			for _, it := range items {
				if err := fn(it); err != nil {
					return err
				}
			}
			last = r.number
		}
	}
}

// packRow is a row of packs as it is in the file.
type packRow struct {
	number int64
	data   []byte
}

// items returns the items of a pack, all of them verified.
func (r *packRow) items() ([]record.Item, error) {
	p, err := readPack(r.number, r.data)
	if err != nil {
		return nil, err
	}
	items := make([]record.Item, p.items())
	for i := range items {
		if items[i], err = p.item(i); err != nil {
			return nil, fmt.Errorf("pack %d: %w", r.number, err)
		}
	}
	if err := record.CheckAll(items); err != nil {
		return nil, fmt.Errorf("pack %d: %w", r.number, err)
	}
	return items, nil
}

// packsAfter reads some packs.
func packsAfter(c conn, last int64) (rows []packRow, err error) {
	size := 0
	err = c.query("SELECT pack, data FROM packs WHERE pack > ? ORDER BY pack LIMIT 256",
		func(q *sqlite.Stmt) { q.BindInt64(1, last) },
		func(q *sqlite.Stmt) error {
			rows = append(rows, packRow{q.ColumnInt64(0), bytes(q, 1)})
			if size += len(rows[len(rows)-1].data); size > 4<<20 {
				return errEnough
			}
			return nil
		})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}

// errEnough ends a query early.
var errEnough = errors.New("enough")

// Stats are numbers of a store.
type Stats struct {
	Cells, Commits, Claims int64
	Particles              int64 // those that were stored twice count twice
	Bytes                  int64 // of content
}

// Stats counts what the store has. It takes no longer for a large one.
func (s *Store) Stats(ctx context.Context) (n Stats, err error) {
	if err := ctx.Err(); err != nil {
		return n, err
	}
	var t tally
	err = s.reading(ctx, func(c conn) (err error) {
		t, err = readTally(c)
		return err
	})
	return Stats{t.cells, t.commits, t.claims, t.items, t.bytes}, unread(ctx, err)
}
