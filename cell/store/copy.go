package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

// Copy makes a store at the path to, where nothing may be, that has all of the one at
// from, and verifies it. Nobody else can open from meanwhile; if ctx has a deadline that
// is for whoever has it open now. What was made is durable but for its name; after an
// error it may be there in part. progress, if not nil, is told how many bytes have come.
func Copy(ctx context.Context, from, to string, progress func(n int64)) error {
	file, err := sqlitefile.Open(ctx, from, &format)
	if err != nil {
		return err
	}
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})()
	if err := usable(file); err != nil {
		_ = file.Close() // opening has made a log, which must not be there the next time
		return sqlitefile.Wrap(from, err)
	}
	r, w := io.Pipe()
	sent := make(chan struct{})
	go func() { // until everything was sent, or nobody receives any more
		defer close(sent)
		w.CloseWithError(file.Copy(whole, w, file.Sync))
	}()
	err = sqlitefile.Receive(whole, r, to, progress)
	_ = r.Close() // it never fails, and ends the sender
	<-sent
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return settle(whole, to)
}

// usable refuses what Open would refuse of a file that is there.
func usable(file *sqlitefile.File) error {
	id, err := file.ID()
	if err != nil {
		return err
	}
	copied, err := (&Store{conn: conn{file.Conn}}).copiedFrom(int64(id.Ino))
	if err == nil && copied && !file.HadLog {
		err = ErrNoLog
	}
	return err
}

// settle makes a copy one that was not in use, and verifies it.
func settle(ctx context.Context, path string) error {
	file, err := sqlitefile.Open(ctx, path, &format)
	if err != nil {
		return err
	}
	c := conn{file.Conn}
	if err := errors.Join(c.exec("DELETE FROM meta WHERE name = 'used'", nil), file.Sync(), file.Close()); err != nil {
		return sqlitefile.Wrap(path, err)
	}
	s, err := Open(ctx, Options{Path: path})
	if err != nil {
		return err
	}
	findings, err := s.Verify(ctx, nil)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if len(findings) > 0 {
		return fmt.Errorf("%s: %w: %v", path, ErrCorrupt, findings[0])
	}
	return nil
}

// CheckFile has SQLite look at the structures of the store of a path, which nobody may
// have open, and writes nothing. The content is what Copy has verified as long as the
// bytes of the file are. It returns the version of the schema, and what Open would.
func CheckFile(ctx context.Context, path string) (schema int64, err error) {
	c, schema, err := sqlitefile.Sealed(path, &format)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(sqlitefile.Integrity(ctx, c), c.Close()); err != nil {
		return 0, sqlitefile.Wrap(path, err)
	}
	return schema, nil
}
