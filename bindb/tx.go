package bindb

import (
	"errors"
	"fmt"
	"io"

	"github.com/writ-authority/writ/internal/vfs"
)

// Tx is one batch of mutations under construction. It reads its own writes.
// Nothing reaches a file before the whole batch is complete and its journal is
// durable.
type Tx struct {
	view
	writes  []*fileWrite // by family number, nil where nothing is written
	undo    []undoEntry
	prepare []func() error
	after   []func()
}

// fileWrite is what a batch changes in one file.
type fileWrite struct {
	old      int64            // length before the batch
	appended []byte           // bytes behind the old length
	replaced map[int64][]byte // complete after-images by offset, below the old length
}

// undoEntry takes back one write of a mutation that failed, without touching
// the mutations of the same batch before it.
type undoEntry struct {
	f      *family
	off    int64
	length int
	image  []byte // what the overlay held at off; nil: nothing
}

func newTx(v view) *Tx {
	return &Tx{view: v, writes: make([]*fileWrite, len(families))}
}

func (tx *Tx) write(f *family) (*fileWrite, error) {
	if w := tx.writes[f.no]; w != nil {
		return w, nil
	}
	old, err := tx.view.size(f)
	if err != nil {
		return nil, err
	}
	w := &fileWrite{old: old, replaced: map[int64][]byte{}}
	tx.writes[f.no] = w
	return w, nil
}

func (tx *Tx) size(f *family) (int64, error) {
	if w := tx.writes[f.no]; w != nil {
		return w.old + int64(len(w.appended)), nil
	}
	return tx.view.size(f)
}

func (tx *Tx) committed(f *family) (int64, error) { return tx.view.size(f) }

func (tx *Tx) readAt(f *family, p []byte, off int64) error {
	w := tx.writes[f.no]
	if w == nil {
		return tx.view.readAt(f, p, off)
	}
	end := off + int64(len(p))
	if off >= w.old {
		at := off - w.old
		if end > w.old+int64(len(w.appended)) {
			return corruptf("%s: read of %d bytes at %d is outside of the file", f.file, len(p), off)
		}
		copy(p, w.appended[at:])
		return nil
	}
	disk := p
	if end > w.old {
		disk = p[:w.old-off]
		if end > w.old+int64(len(w.appended)) {
			return corruptf("%s: read of %d bytes at %d is outside of the file", f.file, len(p), off)
		}
		copy(p[len(disk):], w.appended)
	}
	if len(w.replaced) > 0 && f.fixed {
		if img, ok := w.replaced[off]; ok && len(img) == len(p) {
			copy(p, img)
			return nil
		}
	}
	if err := tx.view.readAt(f, disk, off); err != nil {
		return err
	}
	for at, img := range w.replaced {
		if at >= off && at < off+int64(len(disk)) {
			copy(disk[at-off:], img)
		}
	}
	return nil
}

// append adds b behind the end of the file. The family's length was read by the
// caller already, so that reading it again cannot fail.
func (tx *Tx) append(f *family, b []byte) {
	w, err := tx.write(f)
	if err != nil {
		panic("bindb: append before the length was read: " + err.Error())
	}
	tx.undo = append(tx.undo, undoEntry{f: f, off: -1, length: len(w.appended)})
	w.appended = append(w.appended, b...)
}

func (tx *Tx) replace(f *family, off int64, img []byte) error {
	w, err := tx.write(f)
	if err != nil {
		return err
	}
	if off >= w.old {
		at := off - w.old
		before := append([]byte(nil), w.appended[at:at+int64(len(img))]...)
		tx.undo = append(tx.undo, undoEntry{f: f, off: off, length: len(w.appended), image: before})
		copy(w.appended[at:], img)
		return nil
	}
	tx.undo = append(tx.undo, undoEntry{f: f, off: off, length: len(w.appended), image: w.replaced[off]})
	w.replaced[off] = img
	return nil
}

// savepoint marks the present state of the batch.
type savepoint struct{ undo, prepare, after int }

func (tx *Tx) save() savepoint {
	return savepoint{len(tx.undo), len(tx.prepare), len(tx.after)}
}

// rollback takes back everything written since the savepoint.
func (tx *Tx) rollback(s savepoint) {
	for i := len(tx.undo) - 1; i >= s.undo; i-- {
		u := tx.undo[i]
		w := tx.writes[u.f.no]
		switch {
		case u.off < 0:
			w.appended = w.appended[:u.length]
		case u.off >= w.old:
			copy(w.appended[u.off-w.old:], u.image)
		case u.image == nil:
			delete(w.replaced, u.off)
		default:
			w.replaced[u.off] = u.image
		}
	}
	tx.undo = tx.undo[:s.undo]
	tx.prepare = tx.prepare[:s.prepare]
	tx.after = tx.after[:s.after]
}

// Prepare registers work that must be durable before the first record of the
// batch is written, such as a lease entry. It runs once, after all mutations of
// the batch have succeeded; if it fails, nothing of the batch is written.
func (tx *Tx) Prepare(fn func() error) { tx.prepare = append(tx.prepare, fn) }

// After registers work that runs once the batch is durable, still under the
// lock.
func (tx *Tx) After(fn func()) { tx.after = append(tx.after, fn) }

func (tx *Tx) dirty() bool {
	for _, w := range tx.writes {
		if w != nil && (len(w.appended) > 0 || len(w.replaced) > 0) {
			return true
		}
	}
	return false
}

// journalSize is an upper bound of what the journal of the batch takes.
func (tx *Tx) journalSize() int {
	n := journalHead + journalDigest
	for no, w := range tx.writes {
		if w != nil {
			n += 128 + len(w.replaced)*(12+2*families[no].size)
		}
	}
	return n
}

// view reads the files as they are while a lock is held. Lengths are read once
// a view, on first use.
type view struct {
	r     *Root
	sizes []int64 // by family number; -1: not read yet
}

func (r *Root) newView() view {
	v := view{r: r, sizes: make([]int64, len(families))}
	for i := range v.sizes {
		v.sizes[i] = -1
	}
	return v
}

func (v *view) root() *Root { return v.r }

func (v *view) size(f *family) (int64, error) {
	if n := v.sizes[f.no]; n >= 0 {
		return n, nil
	}
	file, err := v.r.file(f)
	if err != nil {
		return 0, err
	}
	n, err := file.Size()
	if err != nil {
		return 0, err
	}
	if n < HeaderSize {
		return 0, corruptf("%s is %d bytes long, shorter than its %d byte header", f.file, n, HeaderSize)
	}
	v.sizes[f.no] = n
	return n, nil
}

func (v *view) committed(f *family) (int64, error) { return v.size(f) }

func (v *view) readAt(f *family, p []byte, off int64) error {
	file, err := v.r.file(f)
	if err != nil {
		return err
	}
	return readFull(file, f.file, p, off)
}

func readFull(file vfs.File, name string, p []byte, off int64) error {
	n, err := file.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: read %d bytes at %d: %w", name, len(p), off, err)
	}
	return corruptf("%s ends after %d of %d bytes at %d", name, n, len(p), off)
}
