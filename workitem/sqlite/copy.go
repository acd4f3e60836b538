package sqlite

import (
	"context"
	"io"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

// Copy writes the whole store to w, as Receive reads it, while updates and views go on.
// The copy is the store as it was, durably, at one moment before the end of the call,
// and has every update that was answered before the call. The log of the store grows
// meanwhile; so w must not block for long.
func (s *Store) Copy(ctx context.Context, w io.Writer) error {
	s.still.RLock()
	defer s.still.RUnlock()
	if err := s.ended(); err != nil {
		return err
	}
	if e := s.failure.Load(); e != nil {
		return e
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // until the copy has ended
		select {
		case <-s.stop:
			cancel(s.ended())
		case <-ctx.Done():
		}
	}()
	return s.file.Copy(ctx, w, func() error {
		if err := s.ended(); err != nil {
			return err
		}
		if !s.durable.Wait(s.begun.Load()) {
			return s.failure.Load()
		}
		return nil
	})
}

// ended is why nothing more is copied once the store is being closed.
func (s *Store) ended() error {
	select {
	case <-s.stop:
		return unavailable("the store is closed", nil)
	default:
		return nil
	}
}

// Receive makes the store of a path of what Store.Copy has written. Nothing may be
// there. What was made is durable but for its name, and was not checked; after an error
// it may be there in part. progress, if not nil, is told how many bytes have come.
func Receive(ctx context.Context, r io.Reader, path string, progress func(n int64)) error {
	return sqlitefile.Receive(ctx, r, path, progress)
}
