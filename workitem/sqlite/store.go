package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/vfs"
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
	path  string
	lock  vfs.Lock
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
	durable progress

	commits  chan commit  // from the writer to the syncer; one may wait for it
	answered atomic.Int64 // updates that the last sync has answered
	wal      *walFile
	done     sync.WaitGroup // writer, syncer and checkpointer
	stop     chan struct{}  // closed to end the checkpointer and to refuse views
	backlog  chan struct{}  // asks for a checkpoint
	copied   atomic.Bool    // a checkpoint has copied most of the log

	readers chan *reader
	all     []*reader

	failure atomic.Pointer[workitem.Error] // final
	trouble atomic.Pointer[workitem.Error] // of the last transaction
}

// Open opens the store of a path, making it if there is none. It refuses a file
// that another process has open (ErrLocked), that is something else (ErrForeign),
// damaged (ErrCorrupt) or newer (ErrNewerSchema), symbolic links and network file systems
// (ErrUnsuitable). If ctx has a deadline it waits until then for the other process.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := open(ctx, o)
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull, sqlite.ResultIOErr, sqlite.ResultReadOnly, sqlite.ResultCantOpen:
		err = fmt.Errorf("%w (%w)", ErrUnwritable, err)
	case sqlite.ResultCorrupt:
		err = fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return s, nil
}

func open(ctx context.Context, o Options) (_ *Store, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if err := suitable(path); err != nil {
		return nil, err
	}
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
		path: path, batch: o.Batch, tenants: newTenants(),
		arrived: make(chan struct{}, 1), commits: make(chan commit, 1),
		stop: make(chan struct{}), backlog: make(chan struct{}, 1),
		readers: make(chan *reader, o.Readers),
	}
	s.durable.init()
	at := ctx
	if _, ok := ctx.Deadline(); !ok {
		// Whoever has it open keeps it: trying once tells.
		var cancel context.CancelFunc
		at, cancel = context.WithCancel(ctx)
		cancel()
	}
	s.lock, err = vfs.OS.Lock(at, path+".lock", vfs.Exclusive)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	// Only the owner may read it; the log and its index take the mode over.
	file, err := vfs.OS.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	if s.conn, err = connect(path, true); err != nil {
		return nil, err
	}
	version, err := check(s.conn, migrations)
	if err != nil {
		return nil, err
	}
	if err := sqlitex.ExecuteTransient(s.conn, "PRAGMA journal_mode = WAL", nil); err != nil {
		return nil, err
	}
	if err := migrate(s.conn, version, migrations); err != nil {
		return nil, err
	}
	// Creations must survive a power cut like everything else that is
	// acknowledged: the directory has the names of the file and of its log.
	if err := vfs.OS.SyncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	s.stmts.conn = s.conn
	if s.state, err = s.load(); err != nil {
		return nil, err
	}
	s.clock = newClock(o.Clock, s.state.clock)
	if s.wal, err = openWAL(s.conn, path); err != nil {
		return nil, err
	}
	for range o.Readers {
		c, err := connect(path, false)
		if err != nil {
			return nil, err
		}
		r := &reader{s: s, stmts: statements{conn: c}}
		s.all = append(s.all, r)
		s.readers <- r
	}
	checkpointer, err := connect(path, true)
	if err != nil {
		return nil, err
	}
	s.done.Add(3)
	go s.write()
	go s.sync()
	go s.checkpoints(checkpointer)
	return s, nil
}

// suitable refuses places where the lock of one process would not keep others
// out.
func suitable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%w: it is a symbolic link", ErrUnsuitable)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is not a regular file", ErrUnsuitable)
	}
	kind, network, err := vfs.Network(path)
	if err != nil {
		return err
	}
	if network {
		return fmt.Errorf("%w: %s is a network file system, choose a local disk", ErrUnsuitable, kind)
	}
	return nil
}

// busyTimeout is how long a connection waits for a lock of another one.
const busyTimeout = 10 * time.Second

// connect opens one connection with the settings of this package.
func connect(path string, write bool) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	// The cache is small on purpose: when pages were split, the end of a
	// transaction walks all of it.
	settings := []string{
		"synchronous = NORMAL", "wal_autocheckpoint = 0", "temp_store = MEMORY", "trusted_schema = OFF", "cache_size = -8192",
	}
	if !write {
		settings = append(settings, "query_only = ON")
	}
	for _, setting := range settings {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+setting, nil); err != nil {
			if sqlite.ErrCode(err) == sqlite.ResultNotADB {
				err = ErrForeign
			}
			return nil, errors.Join(err, c.Close())
		}
	}
	c.SetBusyTimeout(busyTimeout)
	return c, nil
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
	if s.wal != nil {
		errs = append(errs, s.wal.close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	errs = append(errs, s.lock.Unlock())
	return errors.Join(errs...)
}
