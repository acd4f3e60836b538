package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
)

// update is one caller's change on its way through the writer.
type update struct {
	ctx  context.Context
	fn   func(*tx) error
	size int // bytes that it writes, about

	err  error
	done chan struct{}
}

// commit is a transaction on its way from the writer to the syncer.
type commit struct {
	number  uint64 // 0 if nothing was written
	updates []*update
	cells   []record.Particle // whose heads it has changed
}

// update has the writer run fn in a transaction, and returns its error once what it
// has written is durable. fn returns errors of its own before it writes anything; an
// error of the transaction ends it for all that share it.
func (s *Store) update(ctx context.Context, fn func(*tx) error) error {
	return s.updateSized(ctx, 0, fn)
}

// updateSized is update for one that says how many bytes it writes.
func (s *Store) updateSized(ctx context.Context, size int, fn func(*tx) error) error {
	if err := s.Health(); err != nil {
		return err
	}
	u := &update{ctx: ctx, fn: fn, size: size, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.waiting = append(s.waiting, u)
	first := len(s.waiting) == 1
	s.mu.Unlock()
	if first {
		s.ring()
	}
	select {
	case <-u.done:
	case <-ctx.Done():
		if s.withdraw(u) {
			return ctx.Err()
		}
		// The writer has it, and its outcome is about to be known.
		<-u.done
	}
	return u.err
}

// withdraw takes an update back that the writer has not taken yet.
func (s *Store) withdraw(u *update) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, u)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(slices.Clone(s.waiting), i, i+1)
	return true
}

// ring tells the writer that something waits.
func (s *Store) ring() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// The bounds of one transaction: how many updates it takes, and how much they write if
// there is more than one. They bound how long the first of them waits for the last.
const (
	maxBatch      = 256
	maxBatchBytes = 8 << 20
)

// take gives the writer what waits. It returns nil when the store was closed and
// nothing waits any more.
func (s *Store) take() []*update {
	for {
		s.gather()
		s.mu.Lock()
		n := batchOf(s.waiting)
		if n > 0 {
			batch := s.waiting[:n:n]
			s.waiting = s.waiting[n:]
			if len(s.waiting) == 0 {
				s.waiting = nil
			} else {
				s.ring()
			}
			s.mu.Unlock()
			return batch
		}
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return nil
		}
		<-s.arrived
	}
}

// batchOf is how many of those that wait one transaction takes.
func batchOf(waiting []*update) (n int) {
	size := 0
	for n < min(len(waiting), maxBatch) {
		if size += waiting[n].size; n > 0 && size > maxBatchBytes {
			break
		}
		n++
	}
	return n
}

// gather lets those come back who were answered last: most of them ask again at
// once, and one transaction for all costs less than one for the first and one for the
// rest. It ends as soon as most of them are there, or when nobody has come for a turn
// or two.
func (s *Store) gather() {
	const patience = 2
	seen := 0
	for idle := 0; idle < patience; {
		s.mu.Lock()
		n := len(s.waiting)
		s.mu.Unlock()
		if n >= maxBatch || n >= int(s.answered.Load())*3/4 {
			return
		}
		if idle++; n > seen {
			seen, idle = n, 0
		}
		runtime.Gosched()
	}
}

// write is the writer: one transaction after another, each with all updates that
// wait when it begins.
func (s *Store) write() {
	defer s.done.Done()
	defer close(s.commits)
	for {
		batch := s.take()
		if batch == nil {
			return
		}
		c, err := s.transact(batch)
		switch {
		case err == nil:
			s.commits <- c
		case len(batch) == 1 || s.Health() != nil:
			answer(batch, err)
		default:
			// Whatever it was may concern one of them, and what was said of the others
			// was said of a transaction that is none.
			for i := range batch {
				if c, err := s.transact(batch[i : i+1]); err == nil {
					s.commits <- c
				} else {
					answer(batch[i:i+1], err)
				}
			}
		}
		s.finishCheckpoint()
	}
}

// transact runs a batch in one transaction. If it returns an error nothing of the batch
// was kept, or it is not known whether it was.
func (s *Store) transact(batch []*update) (commit, error) {
	if err := s.Health(); err != nil {
		return commit{}, err
	}
	if err := s.conn.exec("BEGIN IMMEDIATE", nil); err != nil {
		return commit{}, failed(context.Background(), "begin", err)
	}
	t := &tx{s: s, conn: s.conn, pack: s.lastPack, cell: s.lastCell}
	for _, u := range batch {
		if u.err = u.ctx.Err(); u.err != nil {
			continue
		}
		if u.err = u.fn(t); t.err != nil {
			return commit{}, s.rollback(t.err)
		}
	}
	c := commit{updates: batch, cells: t.cells}
	if t.pages == 0 {
		if err := s.conn.exec("ROLLBACK", nil); err != nil {
			return commit{}, s.rollback(err)
		}
		return c, nil
	}
	if err := t.count(); err != nil {
		return commit{}, s.rollback(err)
	}
	c.number = s.begun.Load() + 1
	s.dirty.add(t.cells, c.number)
	s.begun.Store(c.number)
	if err := s.conn.exec("COMMIT", nil); err != nil {
		// If the disk is full the end of the transaction was not written.
		unknown := sqlite.ErrCode(err).ToPrimary() != sqlite.ResultFull
		if unknown {
			s.fail("a transaction may or may not have been kept", err)
		}
		err = s.rollback(err)
		// Reads that saw the number wait for it in vain otherwise.
		s.commits <- commit{number: c.number, cells: t.cells}
		if unknown {
			err = fmt.Errorf("%w: %w", cell.ErrCommitUnknown, err)
		}
		return commit{}, err
	}
	s.lastPack, s.lastCell = t.pack, t.cell
	s.uncopied += t.pages
	full := false
	for i, p := range t.packs {
		number := t.pack - int64(len(t.packs)-1-i)
		full = s.index.add(number, p) || full
		p.trust()
		s.cache.put(number, p)
	}
	if full {
		s.look()
	}
	return c, nil
}

// rollback takes the transaction back. If that fails the store takes no more.
func (s *Store) rollback(cause error) error {
	if !s.conn.AutocommitEnabled() {
		if err := s.conn.exec("ROLLBACK", nil); err != nil {
			s.fail("a failed transaction could not be taken back", err)
			return failed(context.Background(), "roll back", errors.Join(cause, err))
		}
	}
	return failed(context.Background(), "write", cause)
}

// answer ends updates. A nil err leaves each with its own.
func answer(batch []*update, err error) {
	for _, u := range batch {
		if err != nil {
			u.err = err
		}
		close(u.done)
	}
}

// sync is the syncer: one sync of the log for all transactions that the writer
// has committed meanwhile, then their answers.
func (s *Store) sync() {
	defer s.done.Done()
	var ready []commit
	for c := range s.commits {
		ready = append(ready[:0], c)
		for more := true; more; {
			select {
			case c, ok := <-s.commits:
				if ok {
					ready = append(ready, c)
				} else {
					more = false
				}
			default:
				more = false
			}
		}
		last := uint64(0)
		for _, c := range ready {
			last = max(last, c.number)
		}
		if last > 0 && s.Health() == nil {
			if err := s.syncLog(); err != nil {
				s.fail("a sync has failed, and what was written last may be lost", err)
			}
		}
		failure := s.Health()
		if failure == nil {
			s.durable.Reach(last)
		} else {
			s.durable.Fail()
		}
		n := 0
		for _, c := range ready {
			n += len(c.updates)
			if failure == nil {
				s.dirty.remove(c.cells, c.number)
			}
		}
		s.answered.Store(int64(n))
		for _, c := range ready {
			if failure != nil {
				for _, u := range c.updates {
					u.err = fmt.Errorf("%w: %w", cell.ErrCommitUnknown, failure)
				}
			}
			answer(c.updates, nil)
		}
	}
}

// dirty has the cells whose newest commits may not be durable yet, each with the
// number of the last transaction that has changed it.
type dirty struct {
	mu    sync.Mutex
	cells map[record.Particle]uint64
}

func (d *dirty) add(cells []record.Particle, number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range cells {
		d.cells[c] = number
	}
}

func (d *dirty) remove(cells []record.Particle, number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range cells {
		if d.cells[c] == number {
			delete(d.cells, c)
		}
	}
}

// of is the transaction that must be durable for what was read of a cell to be; 0 if it
// is already.
func (d *dirty) of(c record.Particle) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cells[c]
}
