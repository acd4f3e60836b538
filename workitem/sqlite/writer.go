package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// update is one caller's function on its way through the writer.
type update struct {
	ctx  context.Context
	fn   func(workitem.Tx) error
	err  error
	done chan struct{}
}

// commit is a transaction on its way from the writer to the syncer.
type commit struct {
	number  uint64 // 0 if nothing was written
	updates []*update
	run     time.Duration
}

// Update implements workitem.Store.
func (s *Store) Update(ctx context.Context, fn func(workitem.Tx) error) error {
	if e := s.failure.Load(); e != nil {
		return e
	}
	u := &update{ctx: ctx, fn: fn, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return unavailable("the store is closed", nil)
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
		// The writer has it: fn may be running, and its outcome is about to be
		// known.
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

// maxBatch bounds how many updates one transaction takes, and with that how long
// the first of them waits for the last.
const maxBatch = 512

// take gives the writer what waits. It returns nil when the store was closed and
// nothing waits any more.
func (s *Store) take() []*update {
	for {
		s.gather()
		s.mu.Lock()
		n := min(len(s.waiting), maxBatch)
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

// gather lets those come back who were answered last: most of them ask again at
// once, and one transaction for all costs much less than one for the first and one
// for the rest. It ends as soon as most of them are there, or when nobody has come for
// a turn or two.
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
		s.transact(batch)
		s.finishCheckpoint()
	}
}

// transact runs a batch and hands it to the syncer. An update that fails after it
// has written takes the whole transaction back; the others run again without it.
func (s *Store) transact(batch []*update) {
	start := time.Now()
	for {
		again, err := s.attempt(batch, start)
		if err == nil {
			return
		}
		if again != nil {
			batch = again
			continue
		}
		failure := unavailable("the store can't be written", err)
		s.trouble.Store(failure)
		answer(batch, failure)
		return
	}
}

// errUndo is the reason of a rollback for the sake of one update.
var errUndo = errors.New("an update failed after it had written")

// attempt runs a batch once. If it returns an error nothing of the batch was
// kept, and what it returns beside it may be tried again.
func (s *Store) attempt(batch []*update, start time.Time) (again []*update, err error) {
	if e := s.failure.Load(); e != nil {
		return nil, e
	}
	if err := s.stmts.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	t := &tx{reader: reader{s: s, stmts: s.stmts, writer: true}}
	for i, u := range batch {
		if u.err = u.ctx.Err(); u.err != nil {
			continue
		}
		t.at = 0
		before := t.writes
		u.err = u.fn(t)
		if u.err == nil && t.err == nil {
			continue
		}
		if t.err != nil {
			return nil, s.rollback(t.err)
		}
		if t.writes != before {
			if err := s.rollback(errUndo); !errors.Is(err, errUndo) {
				return nil, err
			}
			// u has its answer; it goes out on its own.
			answer(batch[i:i+1], u.err)
			rest := make([]*update, 0, len(batch)-1)
			rest = append(append(rest, batch[:i]...), batch[i+1:]...)
			if len(rest) == 0 {
				return nil, nil
			}
			return rest, errUndo
		}
	}
	c := commit{updates: batch}
	if t.writes == 0 {
		if err := s.stmts.exec("ROLLBACK"); err != nil {
			return nil, s.rollback(err)
		}
	} else {
		if err := s.flush(t); err != nil {
			return nil, s.rollback(err)
		}
		c.number = s.begun.Add(1)
		if err := s.stmts.exec("COMMIT"); err != nil {
			err = s.rollback(err)
			// Views that saw the number wait for it in vain otherwise.
			s.commits <- commit{number: c.number}
			return nil, err
		}
		s.state.settle()
		s.trouble.Store(nil)
	}
	c.run = time.Since(start)
	s.commits <- c
	return nil, nil
}

// rollback takes the transaction back and reads what the writer keeps in memory
// from the database again. If that fails too the store is finished.
func (s *Store) rollback(cause error) error {
	err := error(nil)
	if !s.conn.AutocommitEnabled() {
		err = s.stmts.exec("ROLLBACK")
	}
	if err == nil {
		var fresh *state
		if fresh, err = s.load(); err == nil {
			s.state = fresh
		}
	}
	if err != nil {
		s.fail("the store could not take a failed transaction back: restart the server", err)
		return errors.Join(cause, err)
	}
	return cause
}

// fail ends the store for good.
func (s *Store) fail(message string, cause error) {
	s.failure.CompareAndSwap(nil, unavailable(message, cause))
}

// answer ends updates. A nil err leaves each with its own.
func answer(batch []*update, err error) {
	for _, u := range batch {
		if err != nil && u.err == nil {
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
		start := time.Now()
		var failure error
		if last > 0 {
			if e := s.failure.Load(); e != nil {
				failure = e
			} else if err := s.file.Sync(); err != nil {
				s.fail("a sync of the store failed, so what was written last may be lost: restart the server", err)
				failure = s.failure.Load()
			}
		} else if e := s.failure.Load(); e != nil {
			failure = e
		}
		took := time.Since(start)
		if failure == nil {
			s.durable.Reach(last)
		} else {
			s.durable.Fail()
		}
		n := 0
		for _, c := range ready {
			n += len(c.updates)
		}
		s.answered.Store(int64(n))
		for _, c := range ready {
			if failure != nil {
				for _, u := range c.updates {
					u.err = failure
				}
			}
			answer(c.updates, nil)
			if c.number > 0 && len(c.updates) > 0 {
				s.batch(len(c.updates), c.run, took)
			}
		}
	}
}

// statements runs SQL on one connection; each text is prepared once.
type statements struct{ conn *sqlite.Conn }

// prepare gives a statement that is ready to be bound.
func (q statements) prepare(text string) (*sqlite.Stmt, error) {
	s, err := q.conn.Prepare(text)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	return s, nil
}

// exec runs a statement without parameters or rows.
func (q statements) exec(text string) error {
	s, err := q.prepare(text)
	if err != nil {
		return err
	}
	return run(s)
}

// do prepares, binds and runs one statement that has no rows.
func (q statements) do(text string, bind func(*binder)) error {
	s, err := q.prepare(text)
	if err != nil {
		return err
	}
	bind(&binder{s: s})
	return run(s)
}

// run executes a bound statement that has no rows.
func run(s *sqlite.Stmt) error {
	_, err := s.Step()
	if reset := s.Reset(); err == nil {
		err = reset
	}
	return err
}
