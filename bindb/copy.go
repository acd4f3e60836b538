package bindb

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// FileSum is one authority file with its length in bytes and its SHA-256.
type FileSum struct {
	Name   string
	Size   int64
	SHA256 [32]byte
}

const (
	// copyPiece is how much of a file is copied at once.
	copyPiece = 1 << 20
	// copyAtOnce is how much is copied under the lock without a copy before.
	copyAtOnce = 4 << 20
)

// unlocked reads files without a lock. What it gives may be torn.
type unlocked struct{ r *Root }

func (u unlocked) size(f *family) (int64, error) {
	file, err := u.r.file(f)
	if err != nil {
		return 0, err
	}
	return file.Size()
}

func (u unlocked) readAt(f *family, p []byte, off int64) error {
	file, err := u.r.file(f)
	if err != nil {
		return err
	}
	return readFull(file, f.file, p, off)
}

// Copy writes the authority files of the root, as one committed state, to dir on
// fsys, which must be an existing empty directory. They are durable when it
// returns; the entry of dir in its parent is not. Writers go on meanwhile: most
// is copied without a lock, and what has changed since is copied again under the
// shared one. progress, if not nil, is told the bytes of each step.
func (r *Root) Copy(ctx context.Context, fsys vfs.FS, dir string, progress func(bytes int64)) ([]FileSum, error) {
	c, err := newCopier(fsys, dir, r.Kind)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ahead := false
	if !r.Own { // whose views hold nobody up
		if ahead, err = r.copiesAhead(); err != nil {
			return nil, err
		}
	}
	if ahead {
		for i, f := range c.list {
			err := follow(ctx, unlocked{r}, f, c.files[i], progress)
			// A batch that was taken back meanwhile has made the file shorter.
			if err != nil && !errors.Is(err, ErrCorrupt) {
				return nil, err
			}
		}
		progress = nil
	}
	err = r.View(ctx, func(rd Reader) error { return c.follow(ctx, rd, progress) })
	if err != nil {
		return nil, err
	}
	return c.finish()
}

// CopyView is Copy of what a Reader sees, for a caller that is in a View already.
func CopyView(ctx context.Context, rd Reader, fsys vfs.FS, dir string, progress func(bytes int64)) ([]FileSum, error) {
	c, err := newCopier(fsys, dir, rd.root().Kind)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.follow(ctx, rd, progress); err != nil {
		return nil, err
	}
	return c.finish()
}

// copier writes the files of one copy.
type copier struct {
	fs    vfs.FS
	dir   string
	list  []*family
	files []vfs.File
}

func newCopier(fsys vfs.FS, dir string, kind record.Root) (*copier, error) {
	c := &copier{fs: fsys, dir: dir, list: familiesOf(kind)}
	for _, f := range c.list {
		file, err := fsys.OpenFile(filepath.Join(dir, f.file), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			c.close()
			return nil, err
		}
		c.files = append(c.files, file)
	}
	return c, nil
}

// close is for files that were synced or are given up.
func (c *copier) close() {
	for _, f := range c.files {
		_ = f.Close()
	}
}

func (c *copier) follow(ctx context.Context, src source, progress func(int64)) error {
	for i, f := range c.list {
		if err := follow(ctx, src, f, c.files[i], progress); err != nil {
			return err
		}
	}
	return nil
}

// finish reads back what was written and makes it durable.
func (c *copier) finish() ([]FileSum, error) {
	sums := make([]FileSum, len(c.list))
	for i, f := range c.list {
		size, err := c.files[i].Size()
		if err != nil {
			return nil, err
		}
		sum, err := hashRange(c.files[i], f.file, 0, size)
		if err != nil {
			return nil, err
		}
		sums[i] = FileSum{f.file, size, sum}
	}
	if err := syncAll(c.files); err != nil {
		return nil, err
	}
	return sums, c.fs.SyncDir(c.dir)
}

// copiesAhead reports whether the root is so large that writers should not wait
// for all of it.
func (r *Root) copiesAhead() (bool, error) {
	total := int64(0)
	for _, f := range familiesOf(r.Kind) {
		n, err := unlocked{r}.size(f)
		if err != nil {
			return false, err
		}
		total += n
	}
	return total > copyAtOnce, nil
}

// follow makes dst equal to the file as src sees it, and writes only where it
// differs.
func follow(ctx context.Context, src source, f *family, dst vfs.File, progress func(int64)) error {
	size, err := src.size(f)
	if err != nil {
		return err
	}
	there, err := dst.Size()
	if err != nil {
		return err
	}
	buf, old := make([]byte, min(size, copyPiece)), make([]byte, min(size, there, copyPiece))
	for at := int64(0); at < size; at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf = buf[:min(int64(len(buf)), size-at)]
		if err := src.readAt(f, buf, at); err != nil {
			return err
		}
		same := false
		if at+int64(len(buf)) <= there {
			old = old[:len(buf)]
			if err := readFull(dst, f.file, old, at); err != nil {
				return err
			}
			same = bytes.Equal(buf, old)
		}
		if !same {
			if _, err := dst.WriteAt(buf, at); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(int64(len(buf)))
		}
	}
	if there > size {
		return dst.Truncate(size)
	}
	return nil
}

// Sum reads a file of size bytes and returns its SHA-256. It is
// ErrCorrupt when the file has another length.
func Sum(fsys vfs.FS, path string, size int64) (sum [32]byte, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := f.Size()
	if err != nil {
		return sum, err
	}
	if n != size {
		return sum, corruptf("%s has %d bytes, want %d", path, n, size)
	}
	return hashRange(f, path, 0, size)
}
