package sqlite

import (
	"errors"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/vfs"
)

// walFile is the write-ahead log, opened beside SQLite for syncing it. SQLite
// takes no locks on this file, so that closing it here ends none.
type walFile struct {
	file vfs.File
}

// openWAL opens the log, which exists once something was written.
func openWAL(c *sqlite.Conn, path string) (*walFile, error) {
	// A transaction that changes nothing makes no log: this one does.
	err := sqlitex.ExecuteTransient(c, "INSERT INTO meta (name, value) VALUES ('opened', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1", nil)
	if err != nil {
		return nil, err
	}
	file, err := vfs.OS.OpenFile(path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &walFile{file: file}, nil
}

func (w *walFile) sync() error  { return w.file.Sync() }
func (w *walFile) close() error { return w.file.Close() }

// checkpointAfter is how many writes pass before the log is copied into the
// database: about 60 MB of it.
const checkpointAfter = 16384

// checkpoints copies the log into the database beside the writer, when it is
// asked to.
func (s *Store) checkpoints(c *sqlite.Conn) {
	defer s.done.Done()
	defer c.Close()
	for {
		select {
		case <-s.stop:
			return
		case <-s.backlog:
		}
		// A failed checkpoint loses nothing: the log keeps everything, and the
		// next one tries again. A disk that can't take writes shows itself to the
		// writer.
		if err := passive(c); err == nil {
			s.copied.Store(true)
		}
	}
}

// passive copies as much of the log as no reader needs.
func passive(c *sqlite.Conn) error {
	return sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint(PASSIVE)", nil)
}

// restartPatience bounds how long the writer waits for the views that are under
// way, so that the log can start anew.
const restartPatience = 50 * time.Millisecond

// finishCheckpoint is the writer's part: once most of the log was copied beside
// it, it copies the few transactions that have come since, so that the next one
// starts the log anew. The file keeps its length: overwriting is cheaper than
// appending.
func (s *Store) finishCheckpoint() {
	if s.copied.CompareAndSwap(true, false) {
		s.restartLog()
		s.state.uncopied = 0
		return
	}
	if s.state.uncopied < checkpointAfter {
		return
	}
	select {
	case s.backlog <- struct{}{}:
	default:
	}
}

// restartLog copies the rest of the log. A view that still reads from the log keeps
// it from starting anew; where views follow one another without a gap there would
// always be one, and the log would grow without end. So they are held back for a
// moment, unless one of them takes long: then the next checkpoint tries again.
func (s *Store) restartLog() {
	s.conn.SetBusyTimeout(0)
	defer s.conn.SetBusyTimeout(busyTimeout)
	if restart(s.conn) {
		return
	}
	var held []*reader
	defer func() {
		for _, r := range held {
			s.readers <- r
		}
	}()
	patience := time.NewTimer(restartPatience)
	defer patience.Stop()
	for range s.all {
		select {
		case r := <-s.readers:
			held = append(held, r)
		case <-patience.C:
			return
		}
	}
	restart(s.conn)
}

// restart copies what can be copied of the log, and says whether the next
// transaction starts it anew.
func restart(c *sqlite.Conn) bool {
	busy := true
	err := sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint(RESTART)", &sqlitex.ExecOptions{
		ResultFunc: func(r *sqlite.Stmt) error { busy = r.ColumnBool(0); return nil },
	})
	return err == nil && !busy
}
