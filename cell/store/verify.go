package store

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
)

// Finding is something that is wrong with a store.
type Finding struct {
	Part string // file, packs, index, cells, history, requests, claims or tally
	What string
}

func (f Finding) String() string { return f.Part + ": " + f.What }

// maxFindings is how many findings of one part are told.
const maxFindings = 100

// verifying is a verification under way: of what one snapshot of the file has.
type verifying struct {
	s    *Store
	ctx  context.Context
	conn conn

	progress    func(done, total uint64)
	done, total uint64

	findings []Finding
	counts   map[string]int

	said, found tally
}

// Verify reads all of the store and says what is wrong with it: the file, every pack and
// the identity of everything in it, the index, heads, histories, requests and claims,
// and that the content of every commit is there. It does not follow references, which
// only those know who know records. progress is told now and then how much is done; it
// may be nil. An error says that the store could not be read to the end.
func (s *Store) Verify(ctx context.Context, progress func(done, total uint64)) ([]Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(uint64, uint64) {}
	}
	s.verifying.Lock() // it takes two connections
	defer s.verifying.Unlock()
	v := &verifying{s: s, ctx: ctx, progress: progress, counts: map[string]int{}}
	err := s.reading(ctx, func(c conn) (err error) {
		if err := c.exec("BEGIN", nil); err != nil {
			return err
		}
		defer func() {
			c.SetInterrupt(nil)
			if end := c.exec("ROLLBACK", nil); err == nil {
				err = end
			}
		}()
		v.conn = c
		return v.run()
	})
	return v.findings, unread(ctx, err)
}

func (v *verifying) report(part, format string, args ...any) {
	v.counts[part]++
	switch n := v.counts[part]; {
	case n < maxFindings:
		v.findings = append(v.findings, Finding{part, fmt.Sprintf(format, args...)})
	case n == maxFindings:
		v.findings = append(v.findings, Finding{part, "there is more"})
	}
}

// step counts one more row.
func (v *verifying) step() {
	if v.done++; v.done%1024 == 0 {
		v.progress(v.done, max(v.done, v.total))
	}
}

func (v *verifying) run() error {
	for _, step := range []func() error{v.count, v.file, v.packs, v.cells, v.history, v.requests, v.claims} {
		if err := step(); err != nil {
			return err
		}
	}
	names := []string{
		"packs", "marks of packs", "items in packs", "bytes in packs", "cells", "marks of cells", "commits", "marks of commits",
		"requests", "marks of requests", "claims", "marks of claims",
	}
	said, found := v.said.columns(), v.found.columns()
	for i, name := range names {
		// Sums of marks are kept modulo a power of two.
		if *said[i]&sumMask != *found[i]&sumMask {
			v.report("tally", "%s: %d were written and %d are there", name, *said[i], *found[i]&sumMask)
		}
	}
	v.progress(v.done, v.done)
	return nil
}

// count finds out how much there is to do.
func (v *verifying) count() (err error) {
	if v.said, err = readTally(v.conn); err != nil {
		return err
	}
	pages := int64(0)
	err = v.conn.query("SELECT count(*) FROM pages", nil, func(q *sqlite.Stmt) error { pages = q.ColumnInt64(0); return nil })
	t := &v.said
	v.total = uint64(max(0, t.packs) + pages + max(0, t.cells) + max(0, t.commits) + max(0, t.requests) + max(0, t.claims))
	return err
}

// file has SQLite look at its own structures.
func (v *verifying) file() error {
	return v.conn.query("PRAGMA integrity_check", nil, func(q *sqlite.Stmt) error {
		if text := q.ColumnText(0); text != "ok" {
			v.report("file", "%s", text)
		}
		return nil
	})
}

// shape tells multisets of entries apart: it is summed over all of them.
func shape(k key, at place) uint64 {
	x := uint64(k)*0x9e3779b97f4a7c15 ^ uint64(at)*0xc2b2ae3d27d4eb4f
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return x * 0x94d049bb133111eb
}

// packs verifies all content, and that the index has each item of the packs up to the
// floor once and nothing else.
func (v *verifying) packs() error {
	m, runs, damaged, err := readRuns(v.conn)
	if err != nil {
		return err
	}
	for _, wrong := range damaged {
		v.report("index", "%v", wrong)
	}
	items, shapes := uint64(0), uint64(0)
	for last := int64(0); ; {
		rows, err := packsAfter(v.conn, last)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			last = r.number
			v.step()
			p, err := readPack(r.number, r.data)
			if err == nil {
				v.found.add(p)
				err = p.sound(r.number)
			}
			if err != nil {
				v.report("packs", "%v", err)
			}
			if _, wrong := r.items(); wrong != nil && p != nil {
				v.report("packs", "%v", wrong)
			}
			if err != nil || r.number > m.floor {
				continue
			}
			for i := range p.items() {
				name := p.particle(i)
				items++
				shapes += shape(keyOf(&name), placeOf(r.number, i))
			}
		}
	}
	return v.index(runs, items, shapes)
}

// index verifies all runs.
func (v *verifying) index(runs []*run, items, shapes uint64) error {
	entries, sum := uint64(0), uint64(0)
	for _, r := range runs {
		n := uint64(0)
		previous := entry{}
		for page := range r.fences {
			if err := v.ctx.Err(); err != nil {
				return err
			}
			v.step()
			data, err := readPage(v.conn, r.page(page))
			if err != nil {
				v.report("index", "%v", err)
				continue
			}
			for i := range pageLen(data) {
				e := pageEntry(data, i)
				switch {
				case i == 0 && e.key != r.fences[page]:
					v.report("index", "page %d does not begin with the key that its run says", r.page(page))
				case n > 0 && compareEntries(previous, e) >= 0:
					v.report("index", "page %d is not sorted", r.page(page))
				case !r.has(e.key):
					v.report("index", "the filter of run %d does not have a key of page %d", r.number, r.page(page))
				}
				previous = e
				n++
				sum += shape(e.key, e.place)
			}
		}
		if n != r.entries {
			v.report("index", "run %d has %d entries and says %d", r.number, n, r.entries)
		}
		entries += n
	}
	if entries != items || sum != shapes {
		v.report("index", "it does not lead to the items of the packs: %d entries for %d items", entries, items)
	}
	return nil
}

// cells verifies heads.
func (v *verifying) cells() error {
	return v.conn.query(`SELECT number, cell, head, "commit", mark FROM cells`, nil, func(q *sqlite.Stmt) error {
		v.step()
		r, err := scanRow(q)
		if err != nil {
			v.report("cells", "%v", err)
		}
		v.found.cells++
		v.found.cellMarks += r.mark
		return v.ctx.Err()
	})
}

// history verifies that each cell has all of its commits and their content, and no
// others.
func (v *verifying) history() error {
	next := cell.Head{} // what comes next of this cell, and its commit if it is the head
	number, head := int64(0), cell.Head{}
	ended := true
	end := func() {
		if !ended {
			v.report("history", "commit %d of the cell with the number %d is not there", next.Index, number)
		}
	}
	err := v.conn.query(`SELECT h.cell, h.head, h."commit", h.mark, c.head, c."commit" FROM history h LEFT JOIN cells c ON c.number = h.cell
		ORDER BY h.cell, h.head`, nil, func(q *sqlite.Stmt) error {
		v.step()
		v.found.commits++
		v.found.commitMarks += q.ColumnInt64(3)
		of := q.ColumnInt64(0)
		if of != number {
			end()
			number, next, ended = of, cell.Head{}, false
			if q.ColumnIsNull(4) {
				v.report("history", "there is no cell with the number %d", of)
				ended = true
			}
			head.Index = uint64(q.ColumnInt64(4))
			head.Commit, _ = particle(q, 5)
		}
		at := cell.Head{Index: uint64(q.ColumnInt64(1))}
		var whole bool
		at.Commit, whole = particle(q, 2)
		switch {
		case !whole || q.ColumnInt64(3) != historyMark(of, at):
			v.report("history", "commit %d of the cell with the number %d is not what was written", at.Index, of)
		case at.Index != next.Index:
			v.report("history", "commit %d of the cell with the number %d follows commit %d", at.Index, of, next.Index-1)
		case at.Index > head.Index || at.Index == head.Index && at.Commit != head.Commit:
			v.report("history", "commit %d of the cell with the number %d is not the head", at.Index, of)
		default:
			v.there(at, of)
		}
		next.Index = at.Index + 1
		ended = ended || at.Index == head.Index
		return v.ctx.Err()
	})
	if err != nil {
		return err
	}
	end()
	return v.conn.query("SELECT number FROM cells WHERE NOT EXISTS (SELECT 1 FROM history WHERE history.cell = cells.number)", nil, func(q *sqlite.Stmt) error {
		v.report("history", "the cell with the number %d has none", q.ColumnInt64(0))
		return nil
	})
}

// there makes sure that the content of a commit is.
func (v *verifying) there(at cell.Head, number int64) {
	// Not in the snapshot: what is in memory may lead to what has come since.
	ok := false
	err := v.s.borrow(v.ctx, func(c conn) (err error) {
		_, _, ok, err = v.s.find(c, at.Commit, false)
		return err
	})
	switch {
	case err != nil:
		v.report("history", "commit %d of the cell with the number %d: %v", at.Index, number, err)
	case !ok:
		v.report("history", "commit %d of the cell with the number %d, %v, is not there", at.Index, number, at.Commit)
	}
}

// requests verifies that each request has led to a commit of its cell.
func (v *verifying) requests() error {
	return v.conn.query(`SELECT r.cell, r.request, r.head, r."commit", r.fingerprint, r.mark, h."commit" FROM requests r
		LEFT JOIN history h ON h.cell = r.cell AND h.head = r.head`, nil, func(q *sqlite.Stmt) error {
		v.step()
		v.found.requests++
		v.found.requestMarks += q.ColumnInt64(5)
		number := q.ColumnInt64(0)
		request, _ := particle(q, 1)
		a, err := scanAnswered(q, 2, number, request)
		if err != nil {
			v.report("requests", "%v", err)
			return v.ctx.Err()
		}
		if commit, ok := particle(q, 6); !ok || commit != a.head.Commit {
			v.report("requests", "the request %v of the cell with the number %d has led to no commit of the cell", request, number)
		}
		return v.ctx.Err()
	})
}

// claims verifies claims.
func (v *verifying) claims() error {
	return v.conn.query("SELECT request, event, mark FROM claims", nil, func(q *sqlite.Stmt) error {
		v.step()
		v.found.claims++
		v.found.claimMarks += q.ColumnInt64(2)
		request, _ := particle(q, 0)
		event, _ := particle(q, 1)
		if q.ColumnInt64(2) != claimMark(request, event) {
			v.report("claims", "the claim of the request %v is not what was written", request)
		}
		return v.ctx.Err()
	})
}
