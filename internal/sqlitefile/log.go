package sqlitefile

import (
	"errors"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/vfs"
)

// openLog opens the log, which exists once something was written. SQLite takes no
// locks on this file, so that closing it ends none.
func (f *File) openLog() error {
	// A transaction that changes nothing makes no log: this one does.
	err := sqlitex.ExecuteTransient(f.Conn, "INSERT INTO meta (name, value) VALUES ('opened', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1", nil)
	if err != nil {
		return err
	}
	log, err := vfs.OS.OpenFile(f.path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := log.Sync(); err != nil {
		return errors.Join(err, log.Close())
	}
	f.log = log
	return nil
}

// Sync makes everything durable that was committed before. After it has failed once
// nothing is known any more: the file must be closed.
func (f *File) Sync() error { return f.log.Sync() }

// ID tells the database from copies of it.
func (f *File) ID() (vfs.FileID, error) {
	// Opening and closing the file would end the locks that SQLite has on it.
	info, err := vfs.OS.Lstat(f.path)
	return info.ID, err
}

// Passive copies as much of the log into the database as no reader needs. It may run
// beside the writer, on a connection of its own.
func Passive(c *sqlite.Conn) error {
	return sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint(PASSIVE)", nil)
}

// Restart copies what can be copied of the log, and says whether the next
// transaction starts it anew. It waits for no reader.
func Restart(c *sqlite.Conn) bool {
	c.SetBusyTimeout(0)
	defer c.SetBusyTimeout(busyTimeout)
	busy := true
	err := sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint(RESTART)", &sqlitex.ExecOptions{
		ResultFunc: func(r *sqlite.Stmt) error { busy = r.ColumnBool(0); return nil },
	})
	return err == nil && !busy
}
