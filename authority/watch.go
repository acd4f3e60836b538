package authority

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/writ-authority/writ/internal/vfs"
)

// watch tells an open authority that another generation has taken its place. It
// keeps active.json open, so that the file's identity can't be given to another
// one, and compares it with what the path means now: one look at the directory
// each time a lock is taken.
type watch struct {
	fs     vfs.FS
	path   string
	active active // as it was when the authority was opened

	mu   sync.Mutex
	file vfs.File // nil once closed
	id   vfs.FileID
}

// newWatch reads active.json and stays with it.
func newWatch(o Options) (*watch, error) {
	w := &watch{fs: o.FS, path: o.activePath()}
	f, a, err := w.open()
	if err != nil {
		return nil, err
	}
	w.active = a
	if w.id, err = f.ID(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.file = f
	return w, nil
}

func (w *watch) open() (vfs.File, active, error) {
	f, err := w.fs.OpenFile(w.path, os.O_RDONLY, 0)
	if err != nil {
		a, err := decodeActive(w.path, nil, err)
		return nil, a, err
	}
	raw, err := readAll(f, w.path)
	a, err := decodeActive(w.path, raw, err)
	if err != nil {
		return nil, a, errors.Join(err, f.Close())
	}
	return f, a, nil
}

func readAll(f vfs.File, path string) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxActive {
		return nil, fmt.Errorf("%s: %w: %d bytes", path, vfs.ErrTooLarge, size)
	}
	raw := make([]byte, size)
	n, err := f.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return raw[:n], nil
}

// check returns ErrGeneration once active.json names another generation.
func (w *watch) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil // closed, and the roots say so themselves
	}
	info, err := w.fs.Lstat(w.path)
	if err == nil && info.ID == w.id {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, a, err := w.open()
	if err != nil {
		return err
	}
	id, err := f.ID()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if !a.same(w.active) {
		err := fmt.Errorf("%w (it was generation %d; %s names %d)", ErrGeneration, w.active.Generation, w.path, a.Generation)
		return errors.Join(err, f.Close())
	}
	// It was written again with the same content.
	err = w.file.Close()
	w.file, w.id = f, id
	return err
}

func (w *watch) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
