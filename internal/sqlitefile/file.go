package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/vfs"
)

// File is a database file that this process owns.
type File struct {
	// Conn is the connection that writes; one goroutine at a time may use it.
	Conn *sqlite.Conn

	// HadLog says that there was a log before the file was opened. SQLite removes it
	// when the last connection is closed.
	HadLog bool

	path string
	lock vfs.Lock
	data vfs.File // open as long as any connection: closing it ends their locks
	log  vfs.File
}

// Open takes a file over, making it if there is none, and brings its schema up to
// date. It refuses a file that another process has open (ErrLocked), that is
// something else (ErrForeign), damaged (ErrCorrupt) or newer (ErrNewerSchema),
// symbolic links and network file systems (ErrUnsuitable). If ctx has a deadline it
// waits until then for the other process.
func Open(ctx context.Context, path string, format *Format) (*File, error) {
	f, err := open(ctx, path, format)
	if err != nil {
		return nil, Wrap(path, err)
	}
	return f, nil
}

// Wrap makes an error of SQLite while a file is opened one of this package.
func Wrap(path string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull, sqlite.ResultIOErr, sqlite.ResultReadOnly, sqlite.ResultCantOpen:
		err = fmt.Errorf("%w (%w)", ErrUnwritable, err)
	case sqlite.ResultCorrupt:
		err = fmt.Errorf("%w (%w)", ErrCorrupt, err)
	case sqlite.ResultNotADB:
		err = fmt.Errorf("%w (%w)", ErrForeign, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func open(ctx context.Context, path string, format *Format) (_ *File, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := suitable(path); err != nil {
		return nil, err
	}
	f := &File{path: path}
	at := ctx
	if _, ok := ctx.Deadline(); !ok {
		// Whoever has it open keeps it: trying once tells.
		var cancel context.CancelFunc
		at, cancel = context.WithCancel(ctx)
		cancel()
	}
	f.lock, err = vfs.OS.Lock(at, path+".lock", vfs.Exclusive)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Abandon() // what has failed before is what the matter is
		}
	}()
	if f.HadLog, err = vfs.Exists(vfs.OS, path+"-wal"); err != nil {
		return nil, err
	}
	// Only the owner may read it; the log and its index take the mode over.
	if f.data, err = vfs.OS.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if f.Conn, err = f.Connect(true); err != nil {
		return nil, err
	}
	version, err := format.check(f.Conn)
	if err != nil {
		return nil, err
	}
	if err := sqlitex.ExecuteTransient(f.Conn, "PRAGMA journal_mode = WAL", nil); err != nil {
		return nil, err
	}
	if err := format.migrate(f.Conn, version); err != nil {
		return nil, err
	}
	if err := f.openLog(); err != nil {
		return nil, err
	}
	// Creations must survive a power cut like everything else that is
	// acknowledged: the directory has the names of the file and of its log.
	return f, vfs.OS.SyncDir(filepath.Dir(path))
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

// Connect opens one more connection. One that doesn't write can't be made to.
func (f *File) Connect(write bool) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(f.path, sqlite.OpenReadWrite)
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

// Close closes the log and the connection that writes, and gives the file up. The
// other connections must be closed before. SQLite copies the log into the database and
// removes it.
func (f *File) Close() error { return f.close(nil) }

// Abandon is Close for a file of which something is wrong: as far as possible it leaves
// the log as it is. After a sync that failed nobody knows what copying it would give.
func (f *File) Abandon() error {
	// SQLite copies the log when the last connection is closed, unless that one may not
	// write. It must have read something to be one of them.
	last, err := sqlite.OpenConn(f.path, sqlite.OpenReadOnly)
	if err != nil {
		return f.close(nil)
	}
	_, err = integer(last, "SELECT count(*) FROM sqlite_schema")
	return errors.Join(err, f.close(last))
}

func (f *File) close(last *sqlite.Conn) error {
	var errs []error
	if f.log != nil {
		errs = append(errs, f.log.Close())
	}
	if f.Conn != nil {
		errs = append(errs, f.Conn.Close())
	}
	if last != nil {
		errs = append(errs, last.Close())
	}
	if f.data != nil {
		errs = append(errs, f.data.Close())
	}
	return errors.Join(append(errs, f.lock.Unlock())...)
}
