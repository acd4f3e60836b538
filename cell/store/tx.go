package store

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// tx is a transaction of the writer.
type tx struct {
	s     *Store
	conn  conn
	err   error // of the transaction itself: nothing of it is kept
	pages int   // of the log, about

	pack, cell int64             // the last numbers
	packs      []*pack           // the new ones, whose numbers are the last ones
	cells      []record.Particle // whose heads were changed
	tally      tally
}

// tally are numbers of rows and the sums of their marks.
type tally struct {
	packs, packMarks       int64
	items, bytes           int64 // in packs
	cells, cellMarks       int64
	commits, commitMarks   int64
	requests, requestMarks int64
	claims, claimMarks     int64
}

// columns are the numbers in the order of the row.
func (c *tally) columns() []*int64 {
	return []*int64{
		&c.packs, &c.packMarks, &c.items, &c.bytes, &c.cells, &c.cellMarks, &c.commits, &c.commitMarks,
		&c.requests, &c.requestMarks, &c.claims, &c.claimMarks,
	}
}

// add counts a pack.
func (c *tally) add(p *pack) {
	c.packs++
	c.packMarks += int64(p.mark())
	c.items += int64(p.items())
	c.bytes += int64(p.size)
}

// readTally reads the row.
func readTally(c conn) (t tally, err error) {
	found := false
	err = c.query(`SELECT packs, pack_marks, items, bytes, cells, cell_marks, commits, commit_marks,
		requests, request_marks, claims, claim_marks FROM tally`, nil, func(q *sqlite.Stmt) error {
		found = true
		for i, n := range t.columns() {
			*n = q.ColumnInt64(i)
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: the row of tally is not there", cell.ErrCorrupt)
	}
	return t, err
}

// do runs a statement that changes rows.
func (t *tx) do(text string, bind func(*sqlite.Stmt)) error {
	t.pages++
	err := t.conn.exec(text, bind)
	if err != nil {
		t.err = err
	}
	return err
}

// sumMask keeps sums of marks from becoming larger than an integer of SQLite.
const sumMask = 1<<62 - 1

// count writes what the transaction has added to the tally.
func (t *tx) count() error {
	return t.do(`UPDATE tally SET packs = packs + ?1, pack_marks = (pack_marks + ?2) & ?13, items = items + ?3, bytes = bytes + ?4,
		cells = cells + ?5, cell_marks = (cell_marks + ?6) & ?13, commits = commits + ?7, commit_marks = (commit_marks + ?8) & ?13,
		requests = requests + ?9, request_marks = (request_marks + ?10) & ?13, claims = claims + ?11, claim_marks = (claim_marks + ?12) & ?13`,
		func(q *sqlite.Stmt) {
			for i, n := range t.tally.columns() {
				q.BindInt64(1+i, *n)
			}
			q.BindInt64(13, sumMask)
		})
}

// append stores packs.
func (t *tx) append(packs []*pack) error {
	for _, p := range packs {
		if t.pack >= maxPack {
			t.err = fmt.Errorf("%w: the numbers of packs are used up", cell.ErrStore)
			return t.err
		}
		t.pack++
		err := t.do("INSERT INTO packs (pack, data) VALUES (?, ?)", func(q *sqlite.Stmt) {
			q.BindInt64(1, t.pack)
			q.BindBytes(2, p.data)
		})
		if err != nil {
			return err
		}
		t.pages += len(p.data) / pageSize
		t.packs = append(t.packs, p)
		t.tally.add(p)
	}
	return nil
}

// markOf is the check of a row: of its table, its numbers and its bytes.
func markOf(table byte, numbers [2]uint64, parts ...[]byte) int64 {
	var head [17]byte
	head[0] = table
	for i, n := range numbers {
		for b := range 8 {
			head[1+8*i+b] = byte(n >> (8 * b))
		}
	}
	sum := crc32.Update(0, castagnoli, head[:])
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return int64(sum)
}

// row is a row of cells.
type row struct {
	number int64
	cell   record.Particle
	head   cell.Head
	mark   int64
}

func (r *row) marked() int64 {
	return markOf('c', [2]uint64{uint64(r.number), r.head.Index}, r.cell[:], r.head.Commit[:])
}

// scanRow reads number, cell, head, commit and mark of a row of cells, and checks it.
func scanRow(q *sqlite.Stmt) (r row, err error) {
	r = row{number: q.ColumnInt64(0), mark: q.ColumnInt64(4)}
	r.head.Index = uint64(q.ColumnInt64(2))
	var named, committed bool
	r.cell, named = particle(q, 1)
	r.head.Commit, committed = particle(q, 3)
	if !named || !committed || r.mark != r.marked() {
		return r, fmt.Errorf("%w: the head of cell %v, row %d of cells, is not what was written", cell.ErrCorrupt, r.cell, r.number)
	}
	return r, nil
}

// readRow reads the row of a cell, if there is one.
func readRow(c conn, p record.Particle) (r row, ok bool, err error) {
	err = c.query(`SELECT number, cell, head, "commit", mark FROM cells WHERE cell = ?`,
		func(q *sqlite.Stmt) { q.BindBytes(1, p[:]) },
		func(q *sqlite.Stmt) (err error) {
			ok = true
			r, err = scanRow(q)
			return err
		})
	return r, ok, err
}

// answered is a row of requests.
type answered struct {
	head        cell.Head
	fingerprint fingerprint
	mark        int64
}

func (a *answered) marked(number int64, request record.Particle) int64 {
	return markOf('r', [2]uint64{uint64(number), a.head.Index}, request[:], a.head.Commit[:], a.fingerprint[:])
}

// is says whether it is the write that a request stands for. Of an adopted one only the
// commit is known, which by its hash says everything but how the content came here.
func (a *answered) is(print fingerprint, next cell.Head) bool {
	return a.fingerprint == print || a.fingerprint == fingerprint{} && a.head == next
}

// scanAnswered reads head, commit, fingerprint and mark of a row of requests.
func scanAnswered(q *sqlite.Stmt, at int, number int64, request record.Particle) (a answered, err error) {
	a = answered{head: cell.Head{Index: uint64(q.ColumnInt64(at))}, mark: q.ColumnInt64(at + 3)}
	commit, committed := particle(q, at+1)
	print, printed := particle(q, at+2)
	a.head.Commit, a.fingerprint = commit, fingerprint(print)
	if !committed || !printed || a.mark != a.marked(number, request) {
		return a, fmt.Errorf("%w: the request %v of the cell with the number %d is not what was written", cell.ErrCorrupt, request, number)
	}
	return a, nil
}

// readRequest reads what a request has led to, if it is known.
func readRequest(c conn, number int64, request record.Particle) (a answered, ok bool, err error) {
	err = c.query(`SELECT head, "commit", fingerprint, mark FROM requests WHERE cell = ? AND request = ?`,
		func(q *sqlite.Stmt) {
			q.BindInt64(1, number)
			q.BindBytes(2, request[:])
		},
		func(q *sqlite.Stmt) (err error) {
			ok = true
			a, err = scanAnswered(q, 0, number, request)
			return err
		})
	return a, ok, err
}

func claimMark(request, event record.Particle) int64 {
	return markOf('e', [2]uint64{}, request[:], event[:])
}

// readClaim reads the event of a request, if it has one.
func readClaim(c conn, request record.Particle) (event record.Particle, ok bool, err error) {
	err = c.query("SELECT event, mark FROM claims WHERE request = ?",
		func(q *sqlite.Stmt) { q.BindBytes(1, request[:]) },
		func(q *sqlite.Stmt) error {
			var whole bool
			ok = true
			event, whole = particle(q, 0)
			if !whole || q.ColumnInt64(1) != claimMark(request, event) {
				return fmt.Errorf("%w: the claim of the request %v is not what was written", cell.ErrCorrupt, request)
			}
			return nil
		})
	return event, ok, err
}

func historyMark(number int64, head cell.Head) int64 {
	return markOf('h', [2]uint64{uint64(number), head.Index}, head.Commit[:])
}

// head makes a commit the head of a cell, whose row is there already if it exists.
func (t *tx) head(r *row, exists bool, next cell.Head) error {
	if next.Index > math.MaxInt64 {
		t.err = fmt.Errorf("%w: the index %d is larger than any", cell.ErrStore, next.Index)
		return t.err
	}
	text := `UPDATE cells SET head = ?3, "commit" = ?4, mark = ?5 WHERE number = ?1 AND cell = ?2`
	if exists {
		t.tally.cellMarks -= r.mark
	} else {
		text = `INSERT INTO cells (number, cell, head, "commit", mark) VALUES (?1, ?2, ?3, ?4, ?5)`
		t.cell++
		r.number = t.cell
		t.tally.cells++
	}
	r.head = next
	r.mark = r.marked()
	t.tally.cellMarks += r.mark
	t.cells = append(t.cells, r.cell)
	err := t.do(text, func(q *sqlite.Stmt) {
		q.BindInt64(1, r.number)
		q.BindBytes(2, r.cell[:])
		q.BindInt64(3, int64(next.Index))
		q.BindBytes(4, next.Commit[:])
		q.BindInt64(5, r.mark)
	})
	if err == nil && t.conn.Changes() != 1 {
		t.err = fmt.Errorf("%w: row %d of cells, of cell %v, can't be found", cell.ErrCorrupt, r.number, r.cell)
	}
	return cmp.Or(err, t.err)
}

// commit puts a commit into the history of a cell, and what request has led to it.
func (t *tx) commit(number int64, next cell.Head, request record.Particle, print fingerprint) error {
	mark := historyMark(number, next)
	t.tally.commits++
	t.tally.commitMarks += mark
	err := t.do(`INSERT INTO history (cell, head, "commit", mark) VALUES (?, ?, ?, ?)`, func(q *sqlite.Stmt) {
		q.BindInt64(1, number)
		q.BindInt64(2, int64(next.Index))
		q.BindBytes(3, next.Commit[:])
		q.BindInt64(4, mark)
	})
	if err != nil {
		return err
	}
	a := answered{head: next, fingerprint: print}
	mark = a.marked(number, request)
	t.tally.requests++
	t.tally.requestMarks += mark
	return t.do(`INSERT INTO requests (cell, request, head, "commit", fingerprint, mark) VALUES (?, ?, ?, ?, ?, ?)`, func(q *sqlite.Stmt) {
		q.BindInt64(1, number)
		q.BindBytes(2, request[:])
		q.BindInt64(3, int64(next.Index))
		q.BindBytes(4, next.Commit[:])
		q.BindBytes(5, print[:])
		q.BindInt64(6, mark)
	})
}

// claim binds a request that no event has.
func (t *tx) claim(c cell.Claim) error {
	mark := claimMark(c.Request, c.Event)
	t.tally.claims++
	t.tally.claimMarks += mark
	return t.do("INSERT INTO claims (request, event, mark) VALUES (?, ?, ?)", func(q *sqlite.Stmt) {
		q.BindBytes(1, c.Request[:])
		q.BindBytes(2, c.Event[:])
		q.BindInt64(3, mark)
	})
}
