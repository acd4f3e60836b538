package sqlitefile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/vfs"
)

// A copy on its way is copyMagic, then the length in 8 bytes and the content of the
// database, the same of its log, a byte that says whether the log comes again instead, and
// the SHA-256 of all that.
const (
	copyMagic = "writ copy of a file, 1\n"

	logIsWhole    = 0
	logComesAgain = 1
)

// logHeader is how many bytes at the beginning of a log change when it starts anew.
const logHeader = 32

// copyAtOnce is how many bytes are read and written in one go.
const copyAtOnce = 256 << 10

// ErrBrokenCopy is returned by Receive for a copy that did not arrive whole.
var ErrBrokenCopy = errors.New("the copy did not arrive whole")

// Copy writes the file and its log to w, as Receive reads them. The copy has every
// transaction that was committed before the call, and of the later ones those up to
// some moment before the end. Transactions may go on, but nothing may copy the log into
// the database meanwhile. When all was read settle is called, which returns once what
// was committed until then is durable: only then the copy becomes whole.
func (f *File) Copy(ctx context.Context, w io.Writer, settle func() error) error {
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if _, err := io.WriteString(out, copyMagic); err != nil {
		return err
	}
	if err := sendPart(ctx, out, f.data); err != nil {
		return err
	}
	// The log comes second, so that it has all that the database lacks. If the database
	// had all of it when the copy began, the next transaction starts it anew, and may
	// overtake the copy: what was read then is of two logs. That happens once at most,
	// since from then on the database lacks something.
	for range 2 {
		before, err := f.logHeader()
		if err != nil {
			return err
		}
		if err := sendPart(ctx, out, f.log); err != nil {
			return err
		}
		after, err := f.logHeader()
		if err != nil {
			return err
		}
		if before != after {
			if _, err := out.Write([]byte{logComesAgain}); err != nil {
				return err
			}
			continue
		}
		if err := settle(); err != nil {
			return err
		}
		if _, err := out.Write([]byte{logIsWhole}); err != nil {
			return err
		}
		_, err = w.Write(sum.Sum(nil))
		return err
	}
	return errors.New("the log has started anew twice while it was copied, which nothing but a copy of it into the database makes it do")
}

func (f *File) logHeader() (header [logHeader]byte, err error) {
	_, err = f.log.ReadAt(header[:], 0)
	if errors.Is(err, io.EOF) { // nothing was written yet
		err = nil
	}
	return header, err
}

func sendPart(ctx context.Context, out io.Writer, part vfs.File) error {
	size, err := part.Size()
	if err != nil {
		return err
	}
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], uint64(size))
	if _, err := out.Write(head[:]); err != nil {
		return err
	}
	_, err = io.CopyBuffer(out, &reading{ctx: ctx, r: io.NewSectionReader(part, 0, size)}, make([]byte, copyAtOnce))
	return err
}

// reading is a reader that ends with a context, and tells how much it has read.
type reading struct {
	ctx  context.Context
	r    io.Reader
	tell func(n int64) // may be nil
}

func (r *reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.r.Read(p)
	if r.tell != nil {
		r.tell(int64(n))
	}
	return n, err
}

// Receive makes a file of what Copy has written: one that nobody has open, without a
// log. Nothing may be at path. What was made is durable but for its name; after an error
// it may be there in part. progress, if not nil, is told how many bytes have come.
func Receive(ctx context.Context, r io.Reader, path string, progress func(n int64)) error {
	sum := sha256.New()
	in := io.TeeReader(&reading{ctx: ctx, r: r, tell: progress}, sum)
	magic := make([]byte, len(copyMagic))
	if _, err := io.ReadFull(in, magic); err != nil {
		return broken(ctx, err)
	}
	if string(magic) != copyMagic {
		return fmt.Errorf("%w: it is of another version, or something else", ErrBrokenCopy)
	}
	if err := receivePart(ctx, in, path, os.O_EXCL); err != nil {
		return err
	}
	mode := os.O_EXCL
	for again := true; again; mode = 0 {
		if err := receivePart(ctx, in, path+"-wal", mode); err != nil {
			return err
		}
		var flag [1]byte
		if _, err := io.ReadFull(in, flag[:]); err != nil {
			return broken(ctx, err)
		}
		if again = flag[0] == logComesAgain; !again && flag[0] != logIsWhole {
			return fmt.Errorf("%w: its log ends with %d", ErrBrokenCopy, flag[0])
		}
	}
	want := sum.Sum(nil)
	var got [sha256.Size]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return broken(ctx, err)
	}
	if !bytes.Equal(got[:], want) {
		return fmt.Errorf("%w: its SHA-256 is another one", ErrBrokenCopy)
	}
	return merge(path)
}

func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrBrokenCopy, err)
}

func receivePart(ctx context.Context, in io.Reader, name string, mode int) (err error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return broken(ctx, err)
	}
	size := int64(binary.BigEndian.Uint64(head[:]))
	if size < 0 {
		return fmt.Errorf("%w: it has a part of no sensible length", ErrBrokenCopy)
	}
	f, err := vfs.OS.OpenFile(name, os.O_RDWR|os.O_CREATE|mode, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(0); err != nil {
		return err
	}
	buf := make([]byte, copyAtOnce)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(in, buf[:min(int64(len(buf)), size-at)])
		if err != nil {
			return broken(ctx, err)
		}
		if _, err := f.WriteAt(buf[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// merge copies the log of a file that nobody else has open into it.
func merge(path string) error {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return Wrap(path, err)
	}
	busy := true
	err = sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint(TRUNCATE)", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { busy = s.ColumnBool(0); return nil },
	})
	if err == nil && busy {
		err = ErrLocked
	}
	if err := errors.Join(err, c.Close()); err != nil {
		return Wrap(path, err)
	}
	left, err := vfs.Exists(vfs.OS, path+"-wal")
	if err != nil {
		return err
	}
	if left {
		return fmt.Errorf("%s: %w: its log is still there", path, ErrLocked)
	}
	return syncFile(path)
}

func syncFile(path string) error {
	f, err := vfs.OS.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Sealed opens a file that nobody may change as long as the connection is open, and
// reads the version of its schema. It touches nothing, not even the directory. It
// refuses what Open refuses, and a file with a log (ErrUnsuitable).
func Sealed(path string, format *Format) (c *sqlite.Conn, version int64, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, 0, err
	}
	fail := func(err error) (*sqlite.Conn, int64, error) {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, 0, Wrap(path, err)
	}
	if log, err := vfs.Exists(vfs.OS, path+"-wal"); err != nil {
		return fail(err)
	} else if log {
		return fail(fmt.Errorf("%w: it has a log, so somebody may have it open", ErrUnsuitable))
	}
	if c, err = sqlite.OpenConn(immutable(path), sqlite.OpenReadOnly|sqlite.OpenURI); err != nil {
		return fail(err)
	}
	if err := sqlitex.ExecuteTransient(c, "PRAGMA trusted_schema = OFF", nil); err != nil {
		return fail(err)
	}
	if version, err = format.check(c); err != nil {
		return fail(err)
	}
	if version == 0 {
		return fail(format.foreign())
	}
	return c, version, nil
}

// immutable is a path as SQLite opens it without locks, log and index of the log.
func immutable(path string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: "immutable=1"}).String()
}

// Integrity has SQLite look at its own structures. The error is ErrCorrupt with what was
// found first.
func Integrity(ctx context.Context, c *sqlite.Conn) error {
	defer c.SetInterrupt(c.SetInterrupt(ctx.Done()))
	found := ""
	err := sqlitex.ExecuteTransient(c, "PRAGMA integrity_check(1)", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { found = s.ColumnText(0); return nil },
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCorrupt:
		return fmt.Errorf("%w (%w)", ErrCorrupt, err)
	case err != nil:
		return err
	case found != "ok":
		return fmt.Errorf("%w: %s", ErrCorrupt, found)
	}
	return nil
}
