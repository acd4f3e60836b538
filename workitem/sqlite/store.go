package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/internal/sqlitefile"
	"github.com/writ-authority/writ/workitem"
)

// Options say where a store is and how it is watched.
type Options struct {
	// Path of the database file. Its directory must exist.
	Path string
	// Clock is the time; nil is the machine's.
	Clock Clock
	// Batch is told of every durable transaction: how many updates it had, how
	// long they ran and how long the disk took. It must not block. May be nil.
	Batch func(size int, run, sync time.Duration)
	// Readers is how many views may run at the same time; 0 is twice the number
	// of processors, at least 4.
	Readers int
}

// Store is a workitem.Store in one SQLite file. Its methods may be called
// concurrently.
type Store struct {
	file  *sqlitefile.File
	clock *clock
	batch func(int, time.Duration, time.Duration)

	// Of the writer alone.
	conn  *sqlite.Conn
	stmts statements
	state *state

	tenants *tenants

	// Updates that wait for the writer.
	mu      sync.Mutex
	waiting []*update
	closed  bool
	arrived chan struct{} // has a token while something may wait

	// begun counts transactions whose commit has started, durable those that a
	// power cut can't take back.
	begun   atomic.Uint64
	durable sqlitefile.Progress

	commits  chan commit    // from the writer to the syncer; one may wait for it
	answered atomic.Int64   // updates that the last sync has answered
	done     sync.WaitGroup // writer, syncer and checkpointer
	stop     chan struct{}  // closed to end the checkpointer and to refuse views
	backlog  chan struct{}  // asks for a checkpoint
	copied   atomic.Bool    // a checkpoint has copied most of the log
	still    sync.RWMutex   // held while the file is copied: the log stays where it is

	readers chan *reader
	all     []*reader

	failure atomic.Pointer[workitem.Error] // final
	trouble atomic.Pointer[workitem.Error] // of the last transaction
}

// Open opens the store of a path, making it if there is none. It refuses a file
// that another process has open (ErrLocked), that is something else (ErrForeign),
// damaged (ErrCorrupt) or newer (ErrNewerSchema), symbolic links and network file systems
// (ErrUnsuitable), and stores that were not filled to the end (workitem.ErrUnfinished).
// If ctx has a deadline it waits until then for the other process.
func Open(ctx context.Context, o Options) (*Store, error) {
	file, err := sqlitefile.Open(ctx, o.Path, &format)
	if err != nil {
		return nil, err
	}
	s, err := start(file, o)
	if err != nil {
		return nil, sqlitefile.Wrap(o.Path, err)
	}
	return s, nil
}

// start reads what is kept in memory and starts the goroutines. The file is closed if
// that fails.
func start(file *sqlitefile.File, o Options) (_ *Store, err error) {
	if o.Clock == nil {
		o.Clock = &systemClock{start: time.Now()}
	}
	if o.Batch == nil {
		o.Batch = func(int, time.Duration, time.Duration) {}
	}
	if o.Readers == 0 {
		o.Readers = max(4, 2*runtime.NumCPU())
	}
	s := &Store{
		file: file, conn: file.Conn, batch: o.Batch, tenants: newTenants(),
		arrived: make(chan struct{}, 1), commits: make(chan commit, 1),
		stop: make(chan struct{}), backlog: make(chan struct{}, 1),
		readers: make(chan *reader, o.Readers),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	s.stmts.conn = s.conn
	half, err := isUnfinished(s.conn)
	if err != nil {
		return nil, err
	}
	if half {
		return nil, fmt.Errorf("%w: import into it again from the beginning, or remove the file", workitem.ErrUnfinished)
	}
	if s.state, err = s.load(); err != nil {
		return nil, err
	}
	s.clock = newClock(o.Clock, s.state.clock)
	for range o.Readers {
		c, err := file.Connect(false)
		if err != nil {
			return nil, err
		}
		r := &reader{s: s, stmts: statements{conn: c}}
		s.all = append(s.all, r)
		s.readers <- r
	}
	checkpointer, err := file.Connect(true)
	if err != nil {
		return nil, err
	}
	s.done.Add(3)
	go s.write()
	go s.sync()
	go s.checkpoints(checkpointer)
	return s, nil
}

// Health is nil, or why the store can't be written: for good after a failed sync,
// for the moment when the last transaction failed.
func (s *Store) Health() error {
	if e := s.failure.Load(); e != nil {
		return e
	}
	if e := s.trouble.Load(); e != nil {
		return e
	}
	return nil
}

// unavailable is the refusal of a store that can't be written or read.
func unavailable(message string, cause error) *workitem.Error {
	return &workitem.Error{Code: workitem.AuthorityUnavailable, Message: message, Err: cause}
}

// Close finishes the updates that wait and closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.ring()
	close(s.stop)
	s.done.Wait()
	s.still.Lock() // copies end when they find that the store is closed
	defer s.still.Unlock()
	// Views that are under way give their connections back first.
	for range s.all {
		<-s.readers
	}
	return s.release()
}

// release closes what open has opened so far.
func (s *Store) release() error {
	var errs []error
	for _, r := range s.all {
		errs = append(errs, r.stmts.conn.Close())
	}
	return errors.Join(append(errs, s.file.Close())...)
}
