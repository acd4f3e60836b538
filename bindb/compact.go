package bindb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// Compaction writes a root anew without the bytes that nothing refers to
// (section 18.4): payload bytes of replaced or interrupted writes, and the rows
// behind the last check of a decision and the last item of a revision. Every
// record keeps its index and every field but the offsets of its payload. It needs
// memory for the pieces of the payload files that are in use, which lie one
// behind the other unless records were replaced.

// locator is where the records of a family say which payload bytes are theirs.
type locator struct {
	payload, f       *family
	offsetAt, lenAt  int // in the record
	lenWidth, stride int // bytes
}

// locators are those of the families that have a payload.
var locators = declareLocators()

func declareLocators() map[*family]locator {
	list := map[*family]locator{}
	for _, o := range declarePayloadOwners() {
		l, _ := record.ByFile(o.f.file)
		loc := locator{payload: o.payload, f: o.f, offsetAt: -1, lenAt: -1, stride: l.Size}
		for _, field := range l.Fields {
			switch field.Name {
			case o.field:
				loc.offsetAt = field.Offset
			case strings.TrimSuffix(o.field, "offset") + "len":
				loc.lenAt, loc.lenWidth = field.Offset, field.Width
			}
		}
		if loc.offsetAt < 0 || loc.lenAt < 0 || list[o.f] != (locator{}) {
			panic("bindb: " + o.f.file + " has no single payload locator")
		}
		list[o.f] = loc
	}
	return list
}

func (l locator) get(raw []byte) (off, n int64) {
	var length [8]byte
	copy(length[:], raw[l.lenAt:l.lenAt+l.lenWidth])
	return int64(binary.LittleEndian.Uint64(raw[l.offsetAt:])), int64(binary.LittleEndian.Uint64(length[:]))
}

// extents are the pieces of a payload file that are in use.
type extents struct {
	list []extent
}

type extent struct {
	from, to int64
	at       int64 // where the piece begins in the new file
}

// add marks a range as used. Ranges mostly come in the order in which they lie.
func (x *extents) add(off, n int64) {
	if k := len(x.list) - 1; k >= 0 {
		if last := &x.list[k]; off >= last.from && off <= last.to {
			last.to = max(last.to, off+n)
			return
		}
	}
	x.list = append(x.list, extent{from: off, to: off + n})
}

// settle joins what touches and gives every piece its new place.
func (x *extents) settle() {
	slices.SortFunc(x.list, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	joined := x.list[:0]
	at := int64(HeaderSize)
	for _, e := range x.list {
		if k := len(joined) - 1; k >= 0 && e.from <= joined[k].to {
			grown := max(joined[k].to, e.to)
			at += grown - joined[k].to
			joined[k].to = grown
			continue
		}
		e.at = at
		at += e.to - e.from
		joined = append(joined, e)
	}
	x.list = joined
}

// moved is the new offset of a used byte.
func (x *extents) moved(off int64) int64 {
	i := sort.Search(len(x.list), func(i int) bool { return x.list[i].to > off })
	return x.list[i].at + off - x.list[i].from
}

// Compacted is what a compaction did to one root.
type Compacted struct {
	Before, After int64 // bytes in all files
	DroppedRows   uint32
}

// Compact writes the compacted files of the root to dir on fsys, which must be an
// existing empty directory, and compares every record with the one it was made
// from. Nothing is synced. Check must have succeeded before.
func (h *Held) Compact(ctx context.Context, fsys vfs.FS, dir string, progress func(bytes int64)) (Compacted, error) {
	defer func() { _ = h.r.closeFiles() }() // only read
	c := &compactor{
		ctx: ctx, fs: fsys, dir: dir, src: h.r.newView(), progress: progress,
		keep: map[*family]uint32{}, used: map[*family]*extents{},
	}
	if err := c.run(h.r.Kind); err != nil {
		return Compacted{}, err
	}
	if err := c.compare(h.r.Kind); err != nil {
		return Compacted{}, fmt.Errorf("the compacted root is not the same: %w", err)
	}
	return c.done, nil
}

type compactor struct {
	ctx      context.Context
	fs       vfs.FS
	dir      string
	src      Reader
	progress func(int64)
	keep     map[*family]uint32   // records of fixed families
	used     map[*family]*extents // of payload families
	done     Compacted
}

func (c *compactor) run(kind record.Root) error {
	list := familiesOf(kind)
	for _, f := range list {
		size, err := c.src.size(f)
		if err != nil {
			return err
		}
		c.done.Before += size
		if !f.fixed {
			c.used[f] = &extents{}
		} else if c.keep[f], err = c.kept(f); err != nil {
			return err
		}
	}
	for _, f := range list {
		loc, ok := locators[f]
		if !ok {
			continue
		}
		x := c.used[loc.payload]
		err := c.pieces(f, HeaderSize, f.offset(c.keep[f]), func(_ int64, b []byte) error {
			for ; len(b) > 0; b = b[loc.stride:] {
				if off, n := loc.get(b); n > 0 {
					x.add(off, n)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		x.settle()
	}
	for _, f := range list {
		n, err := c.write(f)
		if err != nil {
			return err
		}
		c.done.After += n
	}
	return nil
}

// kept is how many records of a family are kept: all, apart from rows at the end
// of which no decision or revision knows.
func (c *compactor) kept(f *family) (uint32, error) {
	count, err := c.src.count(f)
	if err != nil {
		return 0, err
	}
	end := count
	switch f {
	case PolicyChecks.f:
		end = 0
		err = PolicyDecisions.All(c.src, func(_ uint32, r *record.PolicyDecision) error {
			if first, ok := r.FirstCheck.Index(); ok {
				end = max(end, first+uint32(r.CheckCount))
			}
			return nil
		})
	case PlanItems.f:
		end = 0
		err = PlanRevisions.All(c.src, func(_ uint32, r *record.PlanRevision) error {
			if r.ItemCount > 0 {
				end = max(end, r.ItemStart+uint32(r.ItemCount))
			}
			return nil
		})
	}
	if err != nil {
		return 0, err
	}
	if end > count {
		return 0, corruptf("%s has %d records, but %d are referred to", f.file, count, end)
	}
	c.done.DroppedRows += count - end
	return end, nil
}

// pieces reads the bytes from..to-1 of a file in whole records.
func (c *compactor) pieces(f *family, from, to int64, fn func(at int64, b []byte) error) error {
	return pieces(c.src, f, from, to, f.wholeRecords(copyPiece), func(at int64, b []byte) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		return fn(at, b)
	})
}

// write makes one file and returns its length.
func (c *compactor) write(f *family) (at int64, err error) {
	dst, err := c.fs.OpenFile(filepath.Join(c.dir, f.file), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	put := func(_ int64, b []byte) error {
		_, err := dst.WriteAt(b, at)
		at += int64(len(b))
		if c.progress != nil {
			c.progress(int64(len(b)))
		}
		return err
	}
	if err := put(0, header[:]); err != nil {
		return 0, err
	}
	if !f.fixed {
		for _, e := range c.used[f].list {
			if err := c.pieces(f, e.from, e.to, put); err != nil {
				return 0, err
			}
		}
		return at, nil
	}
	return at, c.pieces(f, HeaderSize, f.offset(c.keep[f]), func(from int64, b []byte) error {
		c.relocate(f, b)
		return put(from, b)
	})
}

// relocate gives the records in b the new offsets of their payloads.
func (c *compactor) relocate(f *family, b []byte) {
	loc, ok := locators[f]
	if !ok {
		return
	}
	for ; len(b) > 0; b = b[loc.stride:] {
		off, n := loc.get(b)
		switch {
		case n > 0:
			off = c.used[loc.payload].moved(off)
		case off > HeaderSize:
			off = HeaderSize // an empty payload, which may lie behind the new end
		}
		binary.LittleEndian.PutUint64(b[loc.offsetAt:], uint64(off))
	}
}

// compare reads both roots record by record: apart from offsets they are equal,
// and the offsets lead to equal bytes.
func (c *compactor) compare(kind record.Root) (err error) {
	r := newRoot(Config{FS: c.fs, Dir: c.dir, Kind: kind})
	defer func() { err = errors.Join(err, r.closeFiles()) }()
	dst := r.newView()
	for _, f := range familiesOf(kind) {
		if !f.fixed {
			continue
		}
		loc, hasPayload := locators[f]
		var before, after payloadReader
		if hasPayload {
			before, after = payloadReader{src: c.src, f: loc.payload}, payloadReader{src: dst, f: loc.payload}
		}
		other := make([]byte, 0, copyPiece)
		err := c.pieces(f, HeaderSize, f.offset(c.keep[f]), func(at int64, b []byte) error {
			other = other[:len(b)]
			if err := dst.readAt(f, other, at); err != nil {
				return err
			}
			for i := 0; i < len(b); i += f.size {
				x, y := b[i:i+f.size], other[i:i+f.size]
				if hasPayload {
					offX, n := loc.get(x)
					offY, _ := loc.get(y)
					same, err := before.equal(&after, offX, offY, n)
					if err != nil {
						return err
					}
					copy(y[loc.offsetAt:loc.offsetAt+8], x[loc.offsetAt:])
					if !same {
						y = nil
					}
				}
				if !bytes.Equal(x, y) {
					return corruptf("%s record %d", f.file, (at-HeaderSize+int64(i))/int64(f.size))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// textPiece is how much of a payload file is read at once.
const textPiece = 128 << 10

// payloadReader reads a payload file in pieces, since locators mostly ascend.
type payloadReader struct {
	src source
	f   *family
	at  int64
	buf []byte
}

func (p *payloadReader) bytes(off, n int64) ([]byte, error) {
	if off < p.at || off+n > p.at+int64(len(p.buf)) {
		size, err := p.src.size(p.f)
		if err != nil {
			return nil, err
		}
		if off+n > size {
			return nil, fmt.Errorf("%s: %w", p.f.file, io.ErrUnexpectedEOF)
		}
		want := n
		if end := p.at + int64(len(p.buf)); off >= p.at && off <= end+textPiece { // ascending
			want = min(max(n, textPiece), size-off)
		}
		p.at, p.buf = off, slices.Grow(p.buf[:0], int(want))[:want]
		if err := p.src.readAt(p.f, p.buf, off); err != nil {
			p.buf = nil
			return nil, err
		}
	}
	return p.buf[off-p.at:][:n], nil
}

func (p *payloadReader) equal(o *payloadReader, off, otherOff, n int64) (bool, error) {
	if n == 0 {
		return true, nil
	}
	a, err := p.bytes(off, n)
	if err != nil {
		return false, err
	}
	b, err := o.bytes(otherOff, n)
	return bytes.Equal(a, b), err
}
