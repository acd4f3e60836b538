package bindb

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/writ-authority/writ/internal/vfs"
)

// The writer's journal is undo storage for one batch: the length of each file
// before it, the SHA-256 of what is appended, and both images of every replaced
// record. It becomes durable before the first authority byte changes and is
// overwritten in place by the next batch, of whatever process. A torn journal
// therefore means that its batch has touched nothing.
//
//	magic[8] "WRITJNL1"   u8 state   zero[7]   u64 batch   identity[32]   u64 body length
//	body: u32 files, then for each file
//	      u8 name length, name, u64 old length, u64 new length,
//	      sha256[32] of the appended bytes, u32 images, then for each image
//	      u64 offset, u32 length, before, after
//	sha256[32] of everything above, with state zero
//
// The state lies in the first sector, together with what identifies the batch,
// and is written without a sync: it tells other processes on the same machine
// that there is nothing to recover. After a power cut it may be older than the
// truth, never newer.
const (
	journalMagic    = "WRITJNL1"
	journalStateAt  = 8
	journalBatchAt  = 16
	journalRootAt   = 24
	journalLengthAt = 56
	journalHead     = 64
	journalDigest   = sha256.Size
	// maxJournal bounds the memory that one batch or its recovery needs.
	maxJournal = 64 << 20
	// journalStep is what the length of the file is a multiple of.
	journalStep = 64 << 10
)

// journalState is how far the batch of a journal came, as its writer left word.
type journalState uint8

const (
	journalOpen    journalState = iota // it may be half written
	journalSettled                     // it is durable as a whole, or taken back as a whole
	journalFailed                      // a sync failed, nobody was told of success
)

// journal is the decoded form.
type journal struct {
	batch    uint64
	identity [32]byte
	files    []journalFile
}

type journalFile struct {
	f        *family
	old, new int64
	appended [32]byte
	images   []journalImage
}

// journalImage is one replaced record.
type journalImage struct {
	off           int64
	before, after []byte
}

func (img journalImage) end() int64 { return img.off + int64(len(img.after)) }

// newJournal reads the before-images of everything that tx replaces.
func newJournal(tx *Tx, batch uint64) (*journal, error) {
	j := &journal{batch: batch, identity: tx.root().Identity}
	for no, w := range tx.writes {
		if !w.changes() {
			continue
		}
		jf := journalFile{f: families[no], old: w.old, new: w.size()}
		if len(w.appended) > 0 {
			jf.appended = sha256.Sum256(w.appended)
		}
		if len(w.replaced) > 0 {
			jf.images = make([]journalImage, len(w.replaced))
			for i, r := range w.replaced {
				before, err := tx.before.record(jf.f, jf.f.index(r.off))
				if err != nil {
					return nil, err
				}
				jf.images[i] = journalImage{r.off, before, r.image}
			}
			slices.SortFunc(jf.images, func(a, b journalImage) int { return cmp.Compare(a.off, b.off) })
		}
		j.files = append(j.files, jf)
	}
	return j, nil
}

// encode appends the journal to b, which is empty.
func (j *journal) encode(b []byte) []byte {
	b = append(b, journalMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(journalOpen))
	b = binary.LittleEndian.AppendUint64(b, j.batch)
	b = append(b, j.identity[:]...)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(j.files)))
	for _, f := range j.files {
		b = append(b, byte(len(f.f.file)))
		b = append(b, f.f.file...)
		b = binary.LittleEndian.AppendUint64(b, uint64(f.old))
		b = binary.LittleEndian.AppendUint64(b, uint64(f.new))
		b = append(b, f.appended[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.images)))
		for _, img := range f.images {
			b = binary.LittleEndian.AppendUint64(b, uint64(img.off))
			b = binary.LittleEndian.AppendUint32(b, uint32(len(img.after)))
			b = append(b, img.before...)
			b = append(b, img.after...)
		}
	}
	binary.LittleEndian.PutUint64(b[journalLengthAt:], uint64(len(b)-journalHead))
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeJournal returns nil without an error when the bytes are not a complete
// journal: the batch that was about to be described has changed nothing.
func decodeJournal(b []byte) (*journal, error) {
	if len(b) < journalHead+journalDigest || string(b[:8]) != journalMagic {
		return nil, nil
	}
	body := binary.LittleEndian.Uint64(b[journalLengthAt:])
	if body > uint64(len(b)-journalHead-journalDigest) {
		return nil, nil
	}
	end := journalHead + int(body)
	h := sha256.New()
	h.Write(b[:journalStateAt])
	h.Write([]byte{byte(journalOpen)})
	h.Write(b[journalStateAt+1 : end])
	if !bytes.Equal(h.Sum(nil), b[end:end+journalDigest]) {
		return nil, nil
	}
	j := &journal{batch: binary.LittleEndian.Uint64(b[journalBatchAt:])}
	copy(j.identity[:], b[journalRootAt:])
	d := decoder{b: b[journalHead:end]}
	for range d.u32() {
		name := string(d.bytes(int(d.u8())))
		f, ok := byFile[name]
		if !ok && d.err == nil {
			return nil, corruptf("the journal names the unknown file %q", name)
		}
		jf := journalFile{f: f, old: int64(d.u64()), new: int64(d.u64())}
		copy(jf.appended[:], d.bytes(32))
		if d.err == nil && (jf.old < HeaderSize || jf.new < jf.old) {
			return nil, corruptf("the journal gives %s the lengths %d and %d", name, jf.old, jf.new)
		}
		for range d.u32() {
			img := journalImage{off: int64(d.u64())}
			n := int(d.u32())
			img.before, img.after = d.bytes(n), d.bytes(n)
			if d.err != nil {
				break
			}
			if img.off < HeaderSize || img.off > jf.old-int64(n) {
				return nil, corruptf("the journal replaces %s at %d, outside of its %d bytes", name, img.off, jf.old)
			}
			jf.images = append(jf.images, img)
		}
		if d.err != nil {
			break
		}
		j.files = append(j.files, jf)
	}
	if d.err != nil || len(d.b) != 0 {
		return nil, corruptf("the journal's digest is right but its body is not: %v", d.err)
	}
	return j, nil
}

// decoder takes little-endian values off the front of b and remembers the first
// failure.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) bytes(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.b)) {
		d.err = fmt.Errorf("%d bytes expected, %d left", n, len(d.b))
	}
	if d.err != nil {
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) u8() uint8 {
	if p := d.bytes(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if p := d.bytes(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if p := d.bytes(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// applied reports whether every file is in its after-state.
func (j *journal) applied(r *Root) (bool, error) {
	for _, jf := range j.files {
		file, err := r.file(jf.f)
		if err != nil {
			return false, err
		}
		size, err := file.Size()
		if err != nil {
			return false, err
		}
		if size < jf.old {
			return false, corruptf("%s has %d bytes; %d of them were committed", jf.f.file, size, jf.old)
		}
		if size != jf.new {
			return false, nil
		}
		if jf.new > jf.old {
			sum, err := hashRange(file, jf.f.file, jf.old, jf.new)
			if err != nil {
				return false, err
			}
			if sum != jf.appended {
				return false, nil
			}
		}
		for _, img := range jf.images {
			now := make([]byte, len(img.after))
			if err := readFull(file, jf.f.file, now, img.off); err != nil {
				return false, err
			}
			if !bytes.Equal(now, img.after) {
				return false, nil
			}
		}
	}
	return true, nil
}

// undo restores every before-image and cuts every appended tail. Bytes below
// the old length of a file are never cut.
func (j *journal) undo(r *Root) ([]vfs.File, error) {
	var dirty []vfs.File
	for _, jf := range j.files {
		file, err := r.file(jf.f)
		if err != nil {
			return nil, err
		}
		size, err := file.Size()
		if err != nil {
			return nil, err
		}
		if size < jf.old {
			return nil, corruptf("%s has %d bytes; %d of them were committed", jf.f.file, size, jf.old)
		}
		for _, img := range jf.images {
			if _, err := file.WriteAt(img.before, img.off); err != nil {
				return nil, err
			}
		}
		if size > jf.old {
			if err := file.Truncate(jf.old); err != nil {
				return nil, err
			}
		}
		dirty = append(dirty, file)
	}
	return dirty, nil
}

// revert undoes the batch and makes that durable.
func (j *journal) revert(r *Root) error {
	dirty, err := j.undo(r)
	if err != nil || len(dirty) == 0 {
		return err
	}
	return r.syncAll(dirty)
}

// confirm makes an applied batch durable: its writer may have died before it
// could, or its sync may have failed without a word. The kernel may have dropped
// pages of a failed sync while still showing them, so that a sync alone would
// prove nothing; what is shown is written once more.
func (j *journal) confirm(r *Root) error {
	var dirty []vfs.File
	for _, jf := range j.files {
		file, err := r.file(jf.f)
		if err != nil {
			return err
		}
		for _, img := range jf.images {
			if _, err := file.WriteAt(img.after, img.off); err != nil {
				return err
			}
		}
		if err := rewrite(file, jf.f.file, jf.old, jf.new); err != nil {
			return err
		}
		dirty = append(dirty, file)
	}
	if len(dirty) == 0 {
		return nil
	}
	return r.syncAll(dirty)
}

// rewrite writes the bytes from..to-1 of a file once more, as they are seen.
func rewrite(file vfs.File, name string, from, to int64) error {
	b := make([]byte, min(1<<20, to-from))
	for at := from; at < to; at += int64(len(b)) {
		b = b[:min(int64(len(b)), to-at)]
		if err := readFull(file, name, b, at); err != nil {
			return err
		}
		if _, err := file.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}

func hashRange(file vfs.File, name string, from, to int64) ([32]byte, error) {
	h := sha256.New()
	b := make([]byte, min(1<<20, to-from))
	for at := from; at < to; at += int64(len(b)) {
		b = b[:min(int64(len(b)), to-at)]
		if err := readFull(file, name, b, at); err != nil {
			return [32]byte{}, err
		}
		h.Write(b)
	}
	return [32]byte(h.Sum(nil)), nil
}
