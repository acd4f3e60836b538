package sqlite

import (
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

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
		if !s.still.TryLock() {
			continue
		}
		if err := sqlitefile.Passive(c); err == nil {
			s.copied.Store(true)
		}
		s.still.Unlock()
	}
}

// restartPatience bounds how long the writer waits for the views that are under
// way, so that the log can start anew.
const restartPatience = 50 * time.Millisecond

// finishCheckpoint is the writer's part: once most of the log was copied beside
// it, it copies the few transactions that have come since, so that the next one
// starts the log anew. The file keeps its length: overwriting is cheaper than
// appending.
func (s *Store) finishCheckpoint() {
	if s.copied.Load() {
		if !s.still.TryLock() {
			return
		}
		s.copied.Store(false)
		s.restartLog()
		s.state.uncopied = 0
		s.still.Unlock()
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
	if sqlitefile.Restart(s.conn) {
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
	sqlitefile.Restart(s.conn)
}
