package store

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell/record"
)

// conn is one connection. Each text is prepared once.
type conn struct{ *sqlite.Conn }

// exec runs a statement that has no rows.
func (c conn) exec(text string, bind func(*sqlite.Stmt)) error {
	s, err := c.Prepare(text)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if bind != nil {
		bind(s)
	}
	_, err = s.Step()
	if reset := s.Reset(); err == nil {
		err = reset
	}
	return err
}

// query runs a statement and calls fn for each row.
func (c conn) query(text string, bind func(*sqlite.Stmt), fn func(*sqlite.Stmt) error) error {
	s, err := c.Prepare(text)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if bind != nil {
		bind(s)
	}
	for {
		row, err := s.Step()
		if row && err == nil {
			if err = fn(s); err == nil {
				continue
			}
		}
		if reset := s.Reset(); err == nil {
			err = reset
		}
		return err
	}
}

// bytes is a column of bytes.
func bytes(s *sqlite.Stmt, column int) []byte {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return b
}

// particle is a column that is as long as a particle, or ok is false.
func particle(s *sqlite.Stmt, column int) (p record.Particle, ok bool) {
	if s.ColumnLen(column) != len(p) {
		return p, false
	}
	s.ColumnBytes(column, p[:])
	return p, true
}

// reading lends a connection for reading until ctx ends.
func (s *Store) reading(ctx context.Context, fn func(conn) error) error {
	s.reads.RLock()
	defer s.reads.RUnlock()
	return s.borrow(ctx, fn)
}

// borrow is reading for those who have taken reads already.
func (s *Store) borrow(ctx context.Context, fn func(conn) error) error {
	var c conn
	select {
	case c = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return errClosed
	}
	c.SetInterrupt(ctx.Done())
	err := fn(c)
	c.SetInterrupt(nil)
	s.readers <- c
	return err
}
