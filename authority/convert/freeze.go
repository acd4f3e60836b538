package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// copying is one file of the source on its way.
type copying struct {
	file sourceFile
	// to is where it goes; "" is a file that is only inventoried.
	to string
	// widening is how its records change; nil copies the bytes.
	widening *widening

	sum [32]byte
}

// size is the length of the file that it becomes.
func (c *copying) size() int64 {
	if c.widening == nil {
		return c.file.size
	}
	records := (c.file.size - bindb.HeaderSize) / int64(c.widening.old)
	return bindb.HeaderSize + records*int64(c.widening.size)
}

// measure checks what the length can show of a family, which is called name.
func (c *copying) measure(name string) error {
	if c.file.size < bindb.HeaderSize {
		return sourcef(c.file.path, "is %d bytes long, shorter than its header of %d", c.file.size, bindb.HeaderSize)
	}
	l, ok := record.ByFile(name)
	if !ok {
		return nil // variable bytes
	}
	of, body := l.Size, c.file.size-bindb.HeaderSize
	if c.widening != nil {
		of = c.widening.old
	}
	if body%int64(of) != 0 {
		return sourcef(c.file.path, "has %d bytes behind its header, which is no multiple of the %d bytes of a record", body, of)
	}
	if n := body / int64(of); n > record.MaxTargets {
		return sourcef(c.file.path, "holds %d records, more than %d", n, int64(record.MaxTargets))
	}
	return nil
}

// piece gives the lengths of what is read and written at a time, whole records
// each.
func (c *copying) piece() (read, write int) {
	const about = 1 << 20
	if c.widening == nil {
		return about, about
	}
	n := about / c.widening.size
	return n * c.widening.old, n * c.widening.size
}

// convert gives the bytes that those of src, which begin at offset off of the
// file, become in the target. It uses dst or returns src.
func (c *copying) convert(dst, src []byte, off int64) ([]byte, error) {
	if off == 0 {
		if !bytes.Equal(src, []byte{bindb.LayoutID, 0, 0, 0}) {
			return nil, sourcef(c.file.path, "begins with % x, want the header 01 00 00 00", src)
		}
	}
	if c.widening == nil {
		return src, nil
	}
	if off == 0 {
		return append(dst[:0], src...), nil
	}
	return dst[:c.widening.records(dst[:cap(dst)], src)], nil
}

// each reads the file once and calls fn for its pieces: first the header, then
// whole records. A file that is shorter or longer than it was has drifted.
func (c *copying) each(ctx context.Context, s *source, fn func(off int64, b []byte) error) error {
	f, err := s.fs.OpenFile(s.path(c.file.path), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return driftf(c.file.path, "was removed")
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	switch id, err := f.ID(); {
	case err != nil:
		return err
	case id != c.file.id:
		return driftf(c.file.path, "was replaced by another file")
	}
	switch n, err := f.Size(); {
	case err != nil:
		return err
	case n != c.file.size:
		return driftf(c.file.path, "had %d bytes and has %d", c.file.size, n)
	}
	read, _ := c.piece()
	// Two pieces at a time: one is still summed up while the next is read.
	var bufs [2][]byte
	for i := range bufs {
		bufs[i] = make([]byte, min(int64(read), c.file.size))
	}
	for off, i := int64(0), 0; off < c.file.size; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(int64(read), c.file.size-off)
		if off == 0 {
			n = min(bindb.HeaderSize, c.file.size)
		}
		b := bufs[i%2][:n]
		switch got, err := f.ReadAt(b, off); {
		case int64(got) == n:
		case errors.Is(err, io.EOF):
			return driftf(c.file.path, "had %d bytes and now ends before", c.file.size)
		default:
			return fmt.Errorf("%s: %w", c.file.path, err)
		}
		if err := fn(off, b); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// hashing sums up pieces in a goroutine of its own, so that a large file is
// hashed while it is converted. A piece may be changed once the one after it was
// taken.
type hashing struct {
	pieces chan []byte
	done   chan [32]byte
}

func newHashing() *hashing {
	h := &hashing{make(chan []byte), make(chan [32]byte)}
	go func() {
		sum := sha256.New()
		for b := range h.pieces {
			sum.Write(b)
		}
		h.done <- [32]byte(sum.Sum(nil))
	}()
	return h
}

func (h *hashing) take(b []byte) { h.pieces <- b }

// end gives the sum and ends the goroutine.
func (h *hashing) end() [32]byte {
	close(h.pieces)
	return <-h.done
}

// copy reads the file for the first time: it writes what the file becomes and
// sums up what was read. The target is not synced; its file is returned open.
func (c *copying) copy(ctx context.Context, s *source, read *counter) (to vfs.File, err error) {
	if c.to != "" {
		if to, err = s.fs.OpenFile(c.to, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return nil, err
		}
	}
	h := newHashing()
	_, write := c.piece()
	dst := make([]byte, 0, min(int64(write), c.size()))
	at := int64(0)
	err = c.each(ctx, s, func(off int64, b []byte) error {
		h.take(b)
		read.add(len(b))
		if to == nil {
			return nil
		}
		out, err := c.convert(dst, b, off)
		if err != nil {
			return err
		}
		if _, err := to.WriteAt(out, at); err != nil {
			return err
		}
		at += int64(len(out))
		return nil
	})
	c.sum = h.end()
	if err != nil && to != nil {
		err = errors.Join(err, to.Close())
	}
	return to, err
}

// compare reads the file for the second time and compares what it becomes with
// what the target holds.
func (c *copying) compare(ctx context.Context, s *source, read *counter) (err error) {
	if c.to == "" {
		h := newHashing()
		err := c.each(ctx, s, func(_ int64, b []byte) error {
			h.take(b)
			read.add(len(b))
			return nil
		})
		if sum := h.end(); err == nil && sum != c.sum {
			err = driftf(c.file.path, "has other content than before")
		}
		return err
	}
	to, err := s.fs.OpenFile(c.to, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // only read
	_, write := c.piece()
	dst := make([]byte, 0, min(int64(write), c.size()))
	there := make([]byte, min(int64(write), c.size()))
	at := int64(0)
	return c.each(ctx, s, func(off int64, b []byte) error {
		read.add(len(b))
		out, err := c.convert(dst, b, off)
		if err != nil {
			return err
		}
		if n, err := to.ReadAt(there[:len(out)], at); n < len(out) {
			return fmt.Errorf("%s: %w", c.to, err)
		}
		if !bytes.Equal(there[:len(out)], out) {
			return driftf(c.file.path, "has other content near byte %d than before", off)
		}
		at += int64(len(out))
		return nil
	})
}

// freeze copies files in two passes. Between them stands a moment at which the
// source as a whole was what was copied, if both passes saw the same. The
// inventory is sorted, and complete when files is what list gave. Copies are
// durable when freeze returns; between the passes and beside the second one runs
// check, which sees all copies.
func (s *source) freeze(ctx context.Context, listed []sourceFile, files []*copying, check func(context.Context) error) (inventory, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	read := &counter{fn: s.progress}
	for _, c := range files {
		read.all += 2 * c.file.size
	}
	syncs := newSyncs()
	err := inParallel(ctx, len(files), func(ctx context.Context, i int) error {
		to, err := files[i].copy(ctx, s, read)
		if err == nil && to != nil {
			syncs.add(to)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, syncs.wait())
	}
	checked := make(chan error, 1)
	go func() { checked <- check(ctx) }()
	err = inParallel(ctx, len(files), func(ctx context.Context, i int) error {
		return files[i].compare(ctx, s, read)
	})
	if err == nil {
		err = s.unchanged(listed)
	}
	if err != nil {
		cancel(err)
	}
	// Drift comes first: a source that was written to may look damaged.
	if sound := <-checked; err == nil {
		err = sound
	}
	if err := errors.Join(err, syncs.wait()); err != nil {
		return nil, err
	}
	var inv inventory
	for _, c := range files {
		inv = append(inv, inventoried{c.file.path, c.file.size, c.sum})
	}
	inv.sort()
	return inv, nil
}

// syncs makes files durable and closes them while other work goes on.
type syncs struct {
	slots chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	err   error
}

func newSyncs() *syncs { return &syncs{slots: make(chan struct{}, 8)} }

// add takes the file over. It waits while many syncs are under way.
func (s *syncs) add(f vfs.File) {
	s.slots <- struct{}{}
	s.wg.Go(func() {
		err := errors.Join(f.Sync(), f.Close())
		<-s.slots
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = errors.Join(s.err, err)
	})
}

// wait returns once every file is durable, or the errors.
func (s *syncs) wait() error {
	s.wg.Wait()
	return s.err
}

// inParallel calls fn for 0..n-1 on every processor and returns the error of the
// smallest number, so that the same source always fails with the same words. No
// call begins after one has failed.
func inParallel(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = fn(ctx, i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
