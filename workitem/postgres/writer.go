package postgres

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-authority/writ/workitem"
)

// update is one caller's function on its way through a writer.
type update struct {
	ctx   context.Context
	fn    func(workitem.Tx) error
	err   error
	done  chan struct{}
	wants wants     // everything that it is known to read
	stuck time.Time // since when it waits alone for what somebody else has locked
}

// The lanes of updates. Those that count the leases of a tenant wait for its lock, so
// they don't share a transaction with others; those that read what no batch reads have
// one each.
const (
	commits = iota
	claims
	alone
	lanes

	// writers is how many transactions a store has open at most: while one is being
	// made durable the next one runs.
	writers = 4
)

// lane is updates that wait for a writer.
type lane struct {
	mu       sync.Mutex
	waiting  []*update
	closed   bool
	arrived  chan struct{} // has a token while something may wait
	limit    int           // of a batch
	answered int64         // updates that the last transaction has answered
	recent   *atomic.Int64 // the sum of all lanes
}

// start starts the writers.
func (s *Store) start(process string) {
	recent := &atomic.Int64{}
	for i := range s.lanes {
		s.lanes[i] = &lane{recent: recent, arrived: make(chan struct{}, 1), limit: maxBatch}
	}
	s.lanes[alone].limit = 1
	for i, lane := range []int{commits, claims, alone} {
		w := &writer{s: s, lane: s.lanes[lane], alone: lane == alone, name: fmt.Sprintf("%s-%d", process, i), mixed: map[workitem.Selection]bool{}}
		s.done.Go(w.write)
	}
}

// maxBatch bounds how many updates one transaction takes, and with that how long
// the first of them waits for the last.
const maxBatch = 512

// Update implements workitem.Store.
func (s *Store) Update(ctx context.Context, fn func(workitem.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// What the function begins with is found out here, beside the writers.
	u := &update{ctx: ctx, fn: fn, done: make(chan struct{})}
	r := &run{s: s}
	if err := fn(r); !r.missed && !r.wrote {
		return err
	}
	u.wants = r.wants
	if !s.board() {
		return unavailable("the store is closed", nil)
	}
	defer s.aboard.Done()
	s.lane(u).put(u)
	select {
	case <-u.done:
	case <-ctx.Done():
		for _, l := range s.lanes {
			if l.withdraw(u) {
				return ctx.Err()
			}
		}
		// A writer has it: fn may be running, and its outcome is about to be known.
		<-u.done
	}
	return u.err
}

// board counts an update that the store must end before it closes. It is false if it
// is closed already.
func (s *Store) board() bool {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed.Load() {
		return false
	}
	s.aboard.Add(1)
	return true
}

// lane is where an update belongs by what it reads.
func (s *Store) lane(u *update) *lane {
	switch {
	case u.wants.alone:
		return s.lanes[alone]
	case len(u.wants.quotas) > 0:
		return s.lanes[claims]
	default:
		return s.lanes[commits]
	}
}

// put adds an update.
func (l *lane) put(u *update) {
	l.mu.Lock()
	l.waiting = append(l.waiting, u)
	first := len(l.waiting) == 1
	l.mu.Unlock()
	if first {
		l.ring()
	}
}

// putBack adds an update before the others.
func (l *lane) putBack(u *update) {
	l.mu.Lock()
	l.waiting = append([]*update{u}, l.waiting...)
	l.mu.Unlock()
	l.ring()
}

func (l *lane) ring() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// close ends the lane's writer. Nothing waits any more.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.ring()
}

// withdraw takes an update back that no writer has taken yet.
func (l *lane) withdraw(u *update) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, u)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(slices.Clone(l.waiting), i, i+1)
	return true
}

// take gives a writer what waits, or nil once the lane was closed and nothing waits
// any more.
func (l *lane) take() []*update {
	for {
		l.gather()
		l.mu.Lock()
		if n := min(len(l.waiting), l.limit); n > 0 {
			batch := l.waiting[:n:n]
			l.waiting = l.waiting[n:]
			rest := len(l.waiting)
			if rest == 0 {
				l.waiting = nil
			}
			l.mu.Unlock()
			if rest > 0 {
				l.ring()
			}
			return batch
		}
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return nil
		}
		<-l.arrived
	}
}

// more gives a writer those of the first n who wait and belong to its transaction.
func (l *lane) more(n int, belongs func(*update) bool) []*update {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken, left []*update
	for _, u := range l.waiting {
		if len(taken) < n && belongs(u) {
			taken = append(taken, u)
		} else {
			left = append(left, u)
		}
	}
	l.waiting = left
	return taken
}

// gather waits for company, since one transaction for many costs little more than one
// for few: for half of those who were served last in all lanes, but not longer than a
// part of what a transaction takes. Whoever is alone does not wait.
func (l *lane) gather() {
	const patience, step = 200 * time.Microsecond, 40 * time.Microsecond
	var start time.Time
	for {
		l.mu.Lock()
		n := len(l.waiting)
		l.mu.Unlock()
		if n >= l.limit || n*2 >= int(l.recent.Load()) {
			return
		}
		if start.IsZero() {
			start = time.Now()
		} else if time.Since(start) > patience {
			return
		}
		time.Sleep(step)
	}
}

// writer runs the updates of a lane, one transaction after another.
type writer struct {
	s     *Store
	lane  *lane
	alone bool
	name  string    // in the table writers
	token int64     // of the last transaction
	known bool      // the table has the name
	lost  time.Time // since when there is no connection; zero while there is one
	wary  time.Time // until when locks of others are passed over
	conn  *pgx.Conn
	calm  int                         // transactions since locks were waited for
	mixed map[workitem.Selection]bool // whose buckets had more than one class of jobs
}

func (w *writer) write() {
	for {
		batch := w.lane.take()
		if batch == nil {
			return
		}
		w.transact(batch)
	}
}

// Limits of trying again.
const (
	maxTries   = 30               // of a batch that others interfere with
	maxBusy    = 30 * time.Second // in which the locks of others end most tries
	maxOutage  = 15 * time.Second // without a connection
	waryFor    = 5 * time.Second  // after somebody has held a lock for long
	firstPause = time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// errUnknown is a commit of which nobody knows whether it counts.
var errUnknown = errors.New("the connection was lost while a transaction was committed")

func outcomeUnknown(err error) *workitem.Error {
	return unavailable("the outcome is unknown, since the connection to the database was lost during the commit: ask again", err)
}

// transact runs a batch until it is durable or can't be.
func (w *writer) transact(batch []*update) {
	if w.lane == w.s.lanes[commits] {
		if batch = w.quick(batch); len(batch) == 0 {
			return
		}
	}
	start := time.Now()
	strict := false
	wary := time.Now().Before(w.wary)
	pause := firstPause
	for tries := 1; ; tries++ {
		err := w.attempt(&batch, strict, wary)
		if err == nil {
			w.s.trouble.Store(nil)
			w.lost = time.Time{}
			return
		}
		e := sqlError(err)
		if e != nil && !disconnected(e) {
			w.lost = time.Time{}
		}
		switch {
		case errors.Is(err, errUnknown):
			w.refuse(batch, outcomeUnknown(err))
			return
		case errors.Is(err, workitem.ErrUnfinished):
			w.refuse(batch, checkEpoch(-1).(*workitem.Error))
			return
		case w.s.ctx.Err() != nil:
			w.refuse(batch, unavailable("the store is closed", nil))
			return
		case isCode(err, divisionByZero, uniqueViolation, serializationFailure, deadlockDetected, lockNotAvailable, queryCanceled):
			// Somebody else was faster; the batch reads again what there is now.
			w.s.log.Debug("a transaction is tried again", "code", e.Code, "updates", len(batch))
			strict = true
			w.known = w.known && e.Code != divisionByZero // it may be the writer that is missing
			if isCode(err, lockNotAvailable, queryCanceled) {
				if w.alone {
					w.stuck(batch[0], err)
					return
				}
				// Somebody holds a lock for long: whoever wants it waits by himself.
				wary = true
				if w.lane == w.s.lanes[commits] {
					w.wary = time.Now().Add(waryFor)
				}
			}
			if tries <= maxTries && time.Since(start) <= maxBusy {
				break
			}
			if len(batch) > 1 {
				w.transactEach(batch)
			} else {
				w.refuse(batch, unavailable("the database is too busy", err))
			}
			return
		case e == nil && isDamage(err), e != nil && isRefusal(e):
			// One of them has met or has something that can't be.
			if len(batch) > 1 {
				w.transactEach(batch)
				return
			}
			var damage *workitem.Error
			if !errors.As(err, &damage) {
				damage = &workitem.Error{Code: workitem.Internal, Message: "the database does not take what was to be written", Err: err}
			}
			w.answer(batch, damage)
			return
		case e == nil || disconnected(e):
			if w.lost.IsZero() {
				w.lost = time.Now()
				w.s.log.Warn("the connection to the database was lost", "error", err.Error())
			}
			// Whoever comes later does not wait anew.
			if time.Since(w.lost) > maxOutage {
				w.refuse(batch, unavailable("the database can't be reached", err))
				return
			}
		default:
			w.refuse(batch, unavailable("the store can't be written", err))
			return
		}
		select {
		case <-time.After(pause/2 + mathrand.N(pause)):
		case <-w.s.ctx.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// stuck puts an update that waits for somebody's lock behind the others that wait
// alone, or refuses it after long.
func (w *writer) stuck(u *update, err error) {
	if u.stuck.IsZero() {
		u.stuck = time.Now()
	}
	if time.Since(u.stuck) > maxBusy {
		w.answer([]*update{u}, unavailable("somebody else has had what is to be written locked for long", err))
		return
	}
	w.lane.put(u)
}

// transactEach gives every update a transaction of its own.
func (w *writer) transactEach(batch []*update) {
	for i := range batch {
		w.transact(batch[i : i+1 : i+1])
	}
}

// isDamage says that an error is not the connection's: a row that was read can't be
// what it says, or a function does not end.
func isDamage(err error) bool {
	var damage *workitem.Error
	var scan pgx.ScanArgError
	return errors.As(err, &damage) && damage.Code == workitem.Internal || errors.As(err, &scan) || errors.Is(err, errEndless)
}

// isRefusal says that the database refuses values, rather than everybody: wrong data,
// violated constraints, limits of rows and indexes.
func isRefusal(e *pgconn.PgError) bool {
	return len(e.Code) == 5 && (e.Code[:2] == "22" || e.Code[:2] == "23" || e.Code[:2] == "54")
}

// disconnected says that an error of PostgreSQL ends the connection: the server stops,
// starts, or takes no more connections.
func disconnected(e *pgconn.PgError) bool {
	switch e.Code {
	case "57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300":
		return true
	}
	return len(e.Code) == 5 && e.Code[:2] == "08"
}

// refuse answers a batch with an error of the store, which others will meet too.
func (w *writer) refuse(batch []*update, failure *workitem.Error) {
	w.s.fail(failure)
	w.answer(batch, failure)
}

// answer answers a batch with an error.
func (w *writer) answer(batch []*update, failure *workitem.Error) {
	w.s.log.Error("a transaction failed", "updates", len(batch), "error", fmt.Sprint(failure.Err))
	for _, u := range batch {
		u.err = failure
		close(u.done)
	}
}

// attempt runs a batch once, with those who join it. If it returns an error nothing of
// the batch was kept, unless that is errUnknown.
func (w *writer) attempt(joined *[]*update, strict, wary bool) (err error) {
	start := time.Now()
	ctx := w.s.ctx
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer func() { leave(err) }()
	b := newBatch(w)
	b.strict, b.wary = strict, wary
	if w.lane == w.s.lanes[claims] && w.calm < calm && !wary {
		if *joined, err = w.beginFirst(b, *joined); err != nil {
			return err
		}
	}
	batch := *joined
	b.scale = len(batch)
	var all wants
	for _, u := range batch {
		all.add(&u.wants)
	}
	if err := w.load(b, &all, true); err != nil {
		return err
	}
	finished, moved, err := w.runAll(b, batch)
	if err != nil {
		return err
	}
	ran := time.Now()
	wrote := b.out.any()
	if wrote {
		if err := w.settle(ctx, w.flush(b, true)); err != nil {
			return err
		}
	} else if _, err := w.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	w.finish(b, finished, moved)
	if wrote {
		w.s.batch(len(finished), ran.Sub(start), time.Since(ran))
	}
	return nil
}

// enter takes a connection for a transaction; leave gives it back.
func (w *writer) enter(ctx context.Context) (leave func(error), err error) {
	c, err := w.s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	w.conn = c.Conn()
	leave = func(err error) {
		if err != nil && !w.conn.IsClosed() {
			// What has failed is what the matter is; a connection that can't even
			// do this is closed.
			_, e := w.conn.Exec(ctx, "ROLLBACK")
			// A session that began while the database was read-only stays so.
			if e != nil || isCode(err, readOnly) {
				_ = w.conn.Close(ctx)
			}
		}
		c.Release()
	}
	if err := w.introduce(ctx); err != nil {
		leave(err)
		return nil, err
	}
	return leave, nil
}

// settle is the end of a transaction whose commit has failed with err: if the
// connection is lost it finds out whether the transaction counts.
func (w *writer) settle(ctx context.Context, err error) error {
	if err == nil || !w.conn.IsClosed() {
		return err
	}
	if err := w.outcome(ctx, err); err != nil {
		return err
	}
	w.s.log.Warn("a commit was done although the connection was lost")
	return nil
}

// finish answers the updates of a transaction that counts, and sends those on that
// belong elsewhere.
func (w *writer) finish(b *batch, finished, moved []*update) {
	w.lane.recent.Add(int64(len(finished)) - w.lane.answered)
	w.lane.answered = int64(len(finished))
	for _, u := range finished {
		close(u.done)
	}
	for _, u := range slices.Backward(moved) {
		w.s.lane(u).putBack(u)
	}
	w.s.wakes.send(&b.out.change)
}

// introduce adds the writer to the table of writers once.
func (w *writer) introduce(ctx context.Context) error {
	if w.known {
		return nil
	}
	_, err := w.conn.Exec(ctx, "INSERT INTO writers (writer, token, at) VALUES ($2, 0, "+sqlNow+") ON CONFLICT DO NOTHING",
		w.s.clock.parameter(), w.name)
	w.known = err == nil
	return err
}

// maxRounds bounds how often one transaction reads more. A chain of retries and the
// children of its adoption take about twenty.
const maxRounds = 10000

var errEndless = fmt.Errorf("an update has read %d times and is not done", maxRounds)

// runAll runs the functions of a batch until each has ended, or belongs into another
// transaction.
func (w *writer) runAll(b *batch, batch []*update) (finished, moved []*update, err error) {
	pending := batch
	for round := 0; len(pending) > 0; round++ {
		if round == maxRounds {
			return nil, nil, errEndless
		}
		var again []*update
		var more wants
		for _, u := range pending {
			if u.err = u.ctx.Err(); u.err != nil {
				finished = append(finished, u)
				continue
			}
			r := &run{b: b, s: w.s, alone: w.alone}
			u.err = u.fn(r)
			switch {
			case r.err != nil:
				return nil, nil, r.err
			case !r.missed:
				if u.err == nil {
					b.merge(r)
				}
				finished = append(finished, u)
			case w.elsewhere(b, &r.wants):
				u.wants.add(&r.wants)
				u.wants.alone = u.wants.alone || b.wary // where nobody waits with it
				moved = append(moved, u)
			default:
				u.wants.add(&r.wants)
				more.add(&r.wants)
				again = append(again, u)
			}
			if w.alone && (u.err != nil || r.missed) {
				b.out = writes{} // what was sent already goes with the transaction
			}
		}
		if len(again) > 0 {
			if err := w.load(b, &more, false); err != nil {
				return nil, nil, err
			}
		}
		pending = again
	}
	return finished, moved, nil
}

// elsewhere says that a function belongs into another transaction: one that waits for
// jobs which somebody else has locked, locks other tenants, or is for it alone.
func (w *writer) elsewhere(b *batch, missing *wants) bool {
	if missing.alone != w.alone && missing.alone {
		return true
	}
	for tenant := range missing.quotas {
		if b.quotas[tenant] == nil {
			return true
		}
	}
	for id := range missing.items {
		if b.busy[id] {
			return true
		}
	}
	return false
}

// outcome finds out what became of a transaction whose commit was not answered
// because of cause. It is nil if the transaction counts, cause if it does not, and
// errUnknown if that can't be told.
func (w *writer) outcome(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, maxOutage)
	defer cancel()
	for {
		var token int64
		// The row is locked until the transaction has ended.
		err := w.s.aside.QueryRow(ctx, "SELECT token FROM writers WHERE writer = $1 FOR UPDATE", w.name).Scan(&token)
		switch {
		case err == nil && token == w.token:
			return nil
		case err == nil:
			return cause
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("%w: %w", errUnknown, cause) // of another database
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errUnknown, cause)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// reader reads rarely used things in the transaction of a batch.
func (w *writer) reader(b *batch) *reader {
	return &reader{ctx: w.s.ctx, s: w.s, conn: w.conn, at: b.now, epoch: b.epoch}
}
