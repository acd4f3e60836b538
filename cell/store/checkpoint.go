package store

import (
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

// checkpointAfter is how many pages are written, about, before the log is copied into
// the database: 32 MB.
const checkpointAfter = 32 << 20 / pageSize

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
		if err := sqlitefile.Passive(c); err == nil {
			s.copied.Store(true)
		}
	}
}

// restartPatience bounds how long the writer waits for the reads that are under
// way, so that the log can start anew.
const restartPatience = 20 * time.Millisecond

// finishCheckpoint is the writer's part: once most of the log was copied beside
// it, it copies the few transactions that have come since, so that the next one
// starts the log anew.
func (s *Store) finishCheckpoint() {
	if s.copied.CompareAndSwap(true, false) {
		s.restartLog()
		s.uncopied = 0
		return
	}
	if s.uncopied < checkpointAfter {
		return
	}
	select {
	case s.backlog <- struct{}{}:
	default:
	}
}

// restartLog copies the rest of the log. A read that is under way keeps it from
// starting anew; where reads follow one another without a gap there would always be
// one, and the log would grow without end. So they are held back for a moment.
func (s *Store) restartLog() {
	if sqlitefile.Restart(s.conn.Conn) {
		return
	}
	var held []conn
	defer func() {
		for _, c := range held {
			s.readers <- c
		}
	}()
	patience := time.NewTimer(restartPatience)
	defer patience.Stop()
	for range s.lent {
		select {
		case c := <-s.readers:
			held = append(held, c)
		case <-patience.C:
			return
		}
	}
	sqlitefile.Restart(s.conn.Conn)
}
