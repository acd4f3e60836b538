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
// (ErrCorrupt), newer (ErrNewerSchema) or the copy of one that was in use (ErrCopied),
// symbolic links and network file systems (ErrUnsuitable). If ctx has a deadline it
// waits until then for the other process.
func Open(ctx context.Context, o Options) (*Store, error) {
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
	if err := s.start(); err != nil {
		return nil, sqlitefile.Wrap(o.Path, errors.Join(err, s.release()))
	}
	return s, nil
}

// readers is how many connections read.
func readers() int { return max(4, 2*runtime.NumCPU()) }

func (s *Store) start() error {
	if err := s.settle(); err != nil {
		return err
	}
	for range readers() {
		c, err := s.file.Connect(false)
		if err != nil {
			return err
		}
		s.lent++
		s.readers <- conn{c}
	}
	if err := s.load(); err != nil {
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

// settle marks the file as in use, by which file it is. A copy that was made while a
// process had it open has the mark of another file, and may be of several moments at
// once: the mark is in the database itself before anything else is, not only in the log.
func (s *Store) settle() error {
	id, err := s.file.ID()
	if err != nil {
		return err
	}
	marked, mine := false, false
	err = s.conn.query("SELECT value FROM meta WHERE name = 'used'", nil, func(q *sqlite.Stmt) error {
		marked, mine = true, q.ColumnInt64(0) == int64(id.Ino)
		return nil
	})
	if err != nil {
		return err
	}
	if marked && !mine {
		return ErrCopied
	}
	err = s.conn.exec("INSERT INTO meta (name, value) VALUES ('used', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1",
		func(q *sqlite.Stmt) { q.BindInt64(1, int64(id.Ino)) })
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
	var err error
	if s.failure.Load() == nil {
		err = s.conn.exec("DELETE FROM meta WHERE name = 'used'", nil)
	}
	return errors.Join(err, s.release())
}

// release closes what was opened. Reads that are under way give their connections
// back first.
func (s *Store) release() error {
	var errs []error
	for range s.lent {
		errs = append(errs, (<-s.readers).Close())
	}
	return errors.Join(append(errs, s.file.Close())...)
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
