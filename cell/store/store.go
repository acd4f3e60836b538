package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/internal/sqlitefile"
)

// Options say where a store is.
type Options struct {
	// Path of the database file. Its directory must exist.
	Path string

	tableSize int // other than usual, for tests
}

// Store is a cell.Store in one SQLite file.
type Store struct {
	file    *sqlitefile.File
	syncLog func() error // of the file; tests let it fail

	// Of the writer alone.
	conn     conn
	lastPack int64
	lastCell int64
	lastRun  int64   // of the indexer
	orphans  []int64 // runs that don't count and may have pages
	uncopied int     // pages of the log, about

	// writes are held by those who write, reads by those who read, tidying by the
	// indexer while it works. Collect takes them all for itself.
	writes, reads sync.RWMutex
	tidying       sync.Mutex
	verifying     sync.Mutex

	index *index
	cache *cache
	known *known

	// What waits for the writer.
	mu      sync.Mutex
	waiting []*update
	closed  bool
	arrived chan struct{} // has a token while something may wait

	// begun counts transactions whose commit has started, durable those that a
	// power cut can't take back.
	begun   atomic.Uint64
	durable sqlitefile.Progress
	dirty   dirty

	commits  chan commit  // from the writer to the syncer; one may wait for it
	answered atomic.Int64 // updates that the last sync has answered
	done     sync.WaitGroup
	stop     chan struct{} // closed when the store is
	backlog  chan struct{} // asks for a checkpoint
	copied   atomic.Bool   // a checkpoint has copied most of the log
	full     chan struct{} // asks the indexer to look

	readers chan conn
	lent    int

	failure atomic.Pointer[error] // final
}

var errClosed = fmt.Errorf("%w: the store is closed", cell.ErrStore)

// Open opens the store of a path, making it if there is none. It refuses a file that
// another process has open (ErrLocked), that is something else (ErrForeign), damaged
// (ErrCorrupt) or newer (ErrNewerSchema), symbolic links and network file systems
// (ErrUnsuitable). The copy of a store that was in use is verified first, which takes
// long, and refused (ErrCopied) unless it is sound; one without the log is refused in
// any case (ErrNoLog). If ctx has a deadline it waits until
// then for the other process.
func Open(ctx context.Context, o Options) (*Store, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	file, err := sqlitefile.Open(ctx, o.Path, &format)
	if err != nil {
		return nil, err
	}
	s := &Store{
		file: file, syncLog: file.Sync, conn: conn{file.Conn}, index: newIndex(cmp.Or(o.tableSize, tableSize)), cache: newCache(), known: newKnown(),
		arrived: make(chan struct{}, 1), commits: make(chan commit, 1), stop: make(chan struct{}),
		backlog: make(chan struct{}, 1), full: make(chan struct{}, 1), readers: make(chan conn, readers()),
	}
	s.dirty.cells = map[record.Particle]uint64{}
	if err := s.start(ctx); err != nil {
		end := s.file.Abandon
		if errors.Is(err, ErrNoLog) {
			end = s.file.Close // opening has made a log, which must not be there the next time
		}
		_ = s.release(end) // what has failed before is what the matter is
		return nil, sqlitefile.Wrap(o.Path, err)
	}
	return s, nil
}

// readers is how many connections read.
func readers() int { return max(4, 2*runtime.NumCPU()) }

func (s *Store) start(ctx context.Context) error {
	for range readers() {
		c, err := s.file.Connect(false)
		if err != nil {
			return err
		}
		s.lent++
		s.readers <- conn{c}
	}
	id, err := s.file.ID()
	if err != nil {
		return err
	}
	copied, err := s.copiedFrom(int64(id.Ino))
	switch {
	case err != nil:
		return err
	case copied && !s.file.HadLog:
		return ErrNoLog
	case copied:
		err = s.inspect(ctx)
	}
	if err == nil {
		err = s.claim(int64(id.Ino))
	}
	if err == nil && !copied {
		err = s.load()
	}
	// What was written here, of an index that was made anew, nobody else syncs.
	if n := s.begun.Load(); err == nil && n > 0 {
		if err = s.syncLog(); err == nil {
			s.durable.Reach(n)
		}
	}
	if err != nil {
		return err
	}
	checkpointer, err := s.file.Connect(true)
	if err != nil {
		return err
	}
	s.done.Add(4)
	go s.write()
	go s.sync()
	go s.checkpoints(checkpointer)
	go s.indexing()
	s.look()
	return nil
}

// copiedFrom says whether the file is marked as in use and was another one then.
func (s *Store) copiedFrom(id int64) (copied bool, err error) {
	err = s.conn.query("SELECT value FROM meta WHERE name = 'used'", nil, func(q *sqlite.Stmt) error {
		copied = q.ColumnInt64(0) != id
		return nil
	})
	return copied, err
}

// inspect loads a copy of a store that was in use, and refuses it unless all of it is
// sound. It may be of several moments at once; it may also have been made at one moment,
// or after a crash.
func (s *Store) inspect(ctx context.Context) error {
	if err := s.load(); err != nil {
		return fmt.Errorf("%w: %w", ErrCopied, err)
	}
	// The deadline is for another process only.
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})()
	findings, err := s.Verify(whole, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCopied, err)
	}
	if len(findings) > 0 {
		return fmt.Errorf("%w, and is not sound: %v", ErrCopied, findings[0])
	}
	return nil
}

// claim marks the file as in use, and by its number as the one that it is. A copy that
// was made while a process had it open has the mark of another file: the mark is in the
// database itself before anything else is, not only in the log.
func (s *Store) claim(id int64) error {
	err := s.conn.exec("INSERT INTO meta (name, value) VALUES ('used', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1",
		func(q *sqlite.Stmt) { q.BindInt64(1, id) })
	if err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if !sqlitefile.Restart(s.conn.Conn) {
		return fmt.Errorf("%w: the log could not be copied", sqlitefile.ErrUnwritable)
	}
	return nil
}

// Close finishes the writes that wait and closes the file.
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
	if s.Health() != nil {
		return s.release(s.file.Abandon)
	}
	if err := s.conn.exec("DELETE FROM meta WHERE name = 'used'", nil); err != nil {
		return errors.Join(err, s.release(s.file.Abandon))
	}
	return s.release(s.file.Close)
}

// release closes what was opened. Reads that are under way give their connections
// back first.
func (s *Store) release(file func() error) error {
	var errs []error
	for range s.lent {
		errs = append(errs, (<-s.readers).Close())
	}
	return errors.Join(append(errs, file())...)
}

// Health is nil, or why the store takes no writes until it is opened again.
func (s *Store) Health() error {
	if e := s.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// fail ends the writing of the store for good.
func (s *Store) fail(message string, cause error) {
	err := fmt.Errorf("%w: %s, so the store must be opened again: %w", cell.ErrStore, message, cause)
	s.failure.CompareAndSwap(nil, &err)
}
