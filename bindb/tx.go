package bindb

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/writ-authority/writ/internal/vfs"
)

// Tx is one batch of mutations under construction. It reads its own writes.
// Nothing reaches a file before the whole batch is complete and its journal is
// durable.
type Tx struct {
	before  Reader       // the state that the batch changes
	writes  []*fileWrite // by family number, nil where nothing is written
	undo    []undoEntry
	prepare []func() error
	after   []func()
	// mutations is how many have succeeded.
	mutations int
	batch     any // see Batch
}

// fileWrite is what a batch changes in one file.
type fileWrite struct {
	old      int64         // length before the batch
	count    uint32        // records before the batch
	appended []byte        // bytes behind the old length
	replaced []replacement // below the old length, each offset once
	at       map[int64]int // positions in replaced, once they are many
}

// replacement is the complete after-image of a record.
type replacement struct {
	off   int64
	image []byte
}

// undoEntry takes back one write of a mutation that failed, without touching
// the mutations of the same batch before it.
type undoEntry struct {
	f      *family
	off    int64  // -1: an append
	length int    // of the appended bytes before it
	image  []byte // what the overlay held at off; nil: nothing
}

func newTx(before Reader) *Tx {
	return &Tx{before: before, writes: make([]*fileWrite, len(families))}
}

// find returns the after-image at off, or nil.
func (w *fileWrite) find(off int64) *replacement {
	if w.at != nil {
		if i, ok := w.at[off]; ok {
			return &w.replaced[i]
		}
		return nil
	}
	for i := range w.replaced {
		if w.replaced[i].off == off {
			return &w.replaced[i]
		}
	}
	return nil
}

// add remembers the first replacement at off.
func (w *fileWrite) add(off int64, image []byte) {
	const few = 16
	w.replaced = append(w.replaced, replacement{off, image})
	switch n := len(w.replaced); {
	case w.at != nil:
		w.at[off] = n - 1
	case n > few:
		w.at = make(map[int64]int, 2*n)
		for i, r := range w.replaced {
			w.at[r.off] = i
		}
	}
}

// drop forgets the replacement that was added last.
func (w *fileWrite) drop() {
	last := len(w.replaced) - 1
	delete(w.at, w.replaced[last].off)
	w.replaced = w.replaced[:last]
}

func (w *fileWrite) changes() bool { return w != nil && (len(w.appended) > 0 || len(w.replaced) > 0) }

func (w *fileWrite) size() int64 { return w.old + int64(len(w.appended)) }

func (tx *Tx) write(f *family) (*fileWrite, error) {
	if w := tx.writes[f.no]; w != nil {
		return w, nil
	}
	if img, ok := tx.before.(*image); ok {
		if _, err := img.file(f); err != nil { // before the disk has other bytes
			return nil, err
		}
	}
	old, err := tx.before.size(f)
	if err != nil {
		return nil, err
	}
	w := &fileWrite{old: old}
	if f.fixed {
		if w.count, err = tx.before.count(f); err != nil {
			return nil, err
		}
	}
	tx.writes[f.no] = w
	return w, nil
}

func (tx *Tx) root() *Root  { return tx.before.root() }
func (tx *Tx) base() Reader { return tx.before }

func (tx *Tx) size(f *family) (int64, error) {
	if w := tx.writes[f.no]; w != nil {
		return w.size(), nil
	}
	return tx.before.size(f)
}

func (tx *Tx) count(f *family) (uint32, error) {
	if w := tx.writes[f.no]; w != nil {
		return f.count(w.size())
	}
	return tx.before.count(f)
}

func (tx *Tx) record(f *family, i uint32) ([]byte, error) {
	w := tx.writes[f.no]
	if w == nil {
		return tx.before.record(f, i)
	}
	if i < w.count {
		if r := w.find(f.offset(i)); r != nil {
			return r.image, nil
		}
		return tx.before.record(f, i)
	}
	at := f.offset(i) - w.old
	if end := at + int64(f.size); end <= int64(len(w.appended)) {
		return w.appended[at:end:end], nil
	}
	return nil, nil
}

func (tx *Tx) readAt(f *family, p []byte, off int64) error {
	w := tx.writes[f.no]
	if w == nil {
		return tx.before.readAt(f, p, off)
	}
	if off+int64(len(p)) > w.size() {
		return outside(f, len(p), off)
	}
	if off >= w.old {
		copy(p, w.appended[off-w.old:])
		return nil
	}
	below := p
	if left := w.old - off; int64(len(p)) > left {
		below = p[:left]
		copy(p[left:], w.appended)
	}
	if err := tx.before.readAt(f, below, off); err != nil {
		return err
	}
	for _, r := range w.replaced {
		if r.off >= off && r.off < off+int64(len(below)) {
			copy(below[r.off-off:], r.image)
		}
	}
	return nil
}

// extend makes room for n bytes behind the end of the file and returns it.
func (tx *Tx) extend(f *family, n int) ([]byte, error) {
	w, err := tx.write(f)
	if err != nil {
		return nil, err
	}
	at := len(w.appended)
	tx.undo = append(tx.undo, undoEntry{f: f, off: -1, length: at})
	w.appended = slices.Grow(w.appended, n)[:at+n]
	return w.appended[at:], nil
}

func (tx *Tx) replace(f *family, off int64, img []byte) error {
	w, err := tx.write(f)
	if err != nil {
		return err
	}
	u := undoEntry{f: f, off: off}
	if off >= w.old {
		to := w.appended[off-w.old:][:len(img)]
		u.image = slices.Clone(to)
		copy(to, img)
	} else if r := w.find(off); r != nil {
		u.image, r.image = r.image, img
	} else {
		w.add(off, img)
	}
	tx.undo = append(tx.undo, u)
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
			w.drop()
		default:
			w.find(u.off).image = u.image
		}
	}
	tx.undo = tx.undo[:s.undo]
	tx.prepare = tx.prepare[:s.prepare]
	tx.after = tx.after[:s.after]
}

// Prepare registers work that must be durable before the first record of the
// batch is written, such as a lease entry. It runs once, after all mutations of
// the batch have succeeded, while the journal becomes durable; if it fails,
// nothing of the batch is written.
func (tx *Tx) Prepare(fn func() error) { tx.prepare = append(tx.prepare, fn) }

// runPrepare runs the hooks up to the first that fails.
func (tx *Tx) runPrepare() error {
	for _, fn := range tx.prepare {
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}

// After registers work that runs once the batch is durable, still under the
// lock.
func (tx *Tx) After(fn func()) { tx.after = append(tx.after, fn) }

// Batch is where the caller of this package keeps what all mutations of a batch
// share. It begins as nil with every batch.
func (tx *Tx) Batch() *any { return &tx.batch }

func (tx *Tx) dirty() bool {
	for _, w := range tx.writes {
		if w.changes() {
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

func (r *Root) newView() *view {
	v := &view{r: r, sizes: make([]int64, len(families))}
	for i := range v.sizes {
		v.sizes[i] = -1
	}
	return v
}

func (v *view) root() *Root  { return v.r }
func (v *view) base() Reader { return v }

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
		return 0, shortFile(f, n)
	}
	v.sizes[f.no] = n
	return n, nil
}

func (v *view) count(f *family) (uint32, error) {
	n, err := v.size(f)
	if err != nil {
		return 0, err
	}
	return f.count(n)
}

func (v *view) record(f *family, i uint32) ([]byte, error) {
	n, err := v.count(f)
	if err != nil || i >= n {
		return nil, err
	}
	b := make([]byte, f.size)
	return b, v.readAt(f, b, f.offset(i))
}

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
