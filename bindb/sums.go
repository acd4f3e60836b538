package bindb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/writ-authority/writ/internal/vfs"
)

// Records have no checksums. The sidecar runtime/sums/<label> holds a CRC-32C
// for each page of each file of a root, so that a flipped bit is found also
// where the record still looks plausible. It is not authority: losing it costs
// the detection of such bits until everything has been validated again.
//
//	magic[8] "WRITSUM1"   identity[32]   u64 batch   u32 files, then for each file
//	u8 name length, name, u64 length, u32 sum of each page
//
// A clean stop writes it without a sync, and the mark vouches for it with its
// length and its sum. Before the first batch after that it is removed, durably.
// So a sidecar that its mark vouches for also says that nothing has been
// committed since the clean stop: it is the seal of the mark.
const (
	sumsMagic    = "WRITSUM1"
	sumPage      = 4096
	maxSums      = 1 << 30
	sumsHead     = 8 + 32 + 8 + 4
	sumCheck     = "SUM"
	sumReadPages = 64
)

// sealMark is what the mark says about the sidecar.
type sealMark struct {
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"` // CRC-32C of the whole file
}

// sums are the checksums of one root as of the end of a batch.
type sums struct {
	batch uint64
	files []fileSums // by family number
}

// fileSums belongs to a file of the given length, 0 when nothing is known. The
// last page ends with the file.
type fileSums struct {
	length int64
	pages  []uint32
}

// any is false for a sidecar that is only a seal, left by a process that did not
// know the checksums.
func (s *sums) any() bool {
	return slices.ContainsFunc(s.files, func(f fileSums) bool { return f.length > 0 })
}

func (c Config) sumsPath() string { return filepath.Join(c.Runtime, "sums", c.Label) }

// castagnoli sums some ten gigabytes a second, so that a file can be verified as
// a whole when it is first used.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func pagesOf(length int64) int64 { return (length + sumPage - 1) / sumPage }

func (s *sums) encode(r *Root) []byte {
	b := append([]byte(sumsMagic), r.Identity[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.batch)
	known := 0
	b = binary.LittleEndian.AppendUint32(b, 0)
	for no, f := range s.files {
		if f.length == 0 {
			continue
		}
		known++
		b = append(b, byte(len(families[no].file)))
		b = append(b, families[no].file...)
		b = binary.LittleEndian.AppendUint64(b, uint64(f.length))
		for _, sum := range f.pages {
			b = binary.LittleEndian.AppendUint32(b, sum)
		}
	}
	binary.LittleEndian.PutUint32(b[sumsHead-4:], uint32(known))
	return b
}

// decodeSums returns nil when b is not a whole sidecar of this root.
func decodeSums(r *Root, b []byte) *sums {
	d := decoder{b: b}
	if string(d.bytes(8)) != sumsMagic || !bytes.Equal(d.bytes(32), r.Identity[:]) {
		return nil
	}
	s := &sums{batch: d.u64(), files: make([]fileSums, len(families))}
	for range d.u32() {
		f, ok := byFile[string(d.bytes(int(d.u8())))]
		length := int64(d.u64())
		if d.err != nil || !ok || f.root != r.Kind || length < HeaderSize || pagesOf(length) > int64(len(d.b)/4) {
			return nil
		}
		fs := fileSums{length: length, pages: make([]uint32, pagesOf(length))}
		for i := range fs.pages {
			fs.pages[i] = d.u32()
		}
		s.files[f.no] = fs
	}
	if d.err != nil || len(d.b) != 0 {
		return nil
	}
	return s
}

// readSeal returns the sidecar that m vouches for, nil when there is none. The
// root's locks are held. Without a lock the answer may be out of date.
func (r *Root) readSeal(m *mark) *sums {
	if m == nil || m.Seal == nil {
		return nil
	}
	raw, err := vfs.ReadFile(r.FS, r.sumsPath(), min(m.Seal.Size, maxSums))
	if err != nil || int64(len(raw)) != m.Seal.Size || crc32.Checksum(raw, castagnoli) != m.Seal.Sum {
		return nil
	}
	if s := decodeSums(r, raw); s != nil && s.batch == m.Batch {
		return s
	}
	return nil
}

// breakSeal removes the sidecar, which the next batch makes untrue, and reports
// whether it was there.
func (r *Root) breakSeal() (broken bool, err error) {
	err = r.FS.Remove(r.sumsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// syncSeal makes a broken seal durable, whoever broke it.
func (r *Root) syncSeal() error {
	err := r.FS.SyncDir(filepath.Dir(r.sumsPath()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// latestBatch is the number of the latest batch of any process. The root's locks
// are held, and rw at least shared.
func (r *Root) latestBatch() (uint64, error) {
	h, err := r.journalHead()
	if err != nil {
		return 0, err
	}
	return r.newest(h)
}

// newest is that number, given the head of the journal. Without a whole one the
// number is in the mark, which whoever took the journal away has left; and since no
// number may come twice, a mark that cannot be read is not taken for none.
func (r *Root) newest(h head) (uint64, error) {
	batch := max(r.batch, h.batch)
	if h.whole {
		return batch, nil
	}
	m, err := r.loadMark()
	if m != nil {
		batch = max(batch, m.Batch)
	}
	return batch, err
}

// currentSums returns the checksums of the state after the given batch, which is
// the latest one, or nil when they are not known. The root's locks are held.
func (r *Root) currentSums(batch uint64) *sums {
	if s := r.sums.Load(); s != nil && s.batch == batch {
		return s
	}
	if there, err := vfs.Exists(r.FS, r.sumsPath()); err != nil || !there {
		return nil
	}
	if s := r.readSeal(r.readMark()); s != nil && s.batch == batch && s.any() {
		return s
	}
	return nil
}

// sumAll reads every file and keeps the checksums of what has just been
// validated under the same lock.
func (r *Root) sumAll(rd Reader) error {
	batch, err := r.latestBatch()
	if err != nil {
		return err
	}
	s := &sums{batch: batch, files: make([]fileSums, len(families))}
	for _, f := range familiesOf(r.Kind) {
		length, err := rd.size(f)
		if err != nil {
			return err
		}
		fs := fileSums{length: length, pages: make([]uint32, 0, pagesOf(length))}
		err = eachPage(rd, f, length, func(_ int64, b []byte) bool {
			fs.pages = append(fs.pages, crc32.Checksum(b, castagnoli))
			return true
		})
		if err != nil {
			return err
		}
		s.files[f.no] = fs
	}
	r.sums.Store(s)
	return nil
}

// emptySums are those of a root that was just made.
func (r *Root) emptySums() *sums {
	s := &sums{files: make([]fileSums, len(families))}
	for _, f := range familiesOf(r.Kind) {
		s.files[f.no] = fileSums{HeaderSize, []uint32{crc32.Checksum(header[:], castagnoli)}}
	}
	return s
}

// eachPage reads a file page by page until fn returns false.
func eachPage(rd Reader, f *family, length int64, fn func(page int64, b []byte) bool) error {
	err := pieces(rd, f, 0, length, sumReadPages*sumPage, func(at int64, b []byte) error {
		for page := range slices.Chunk(b, sumPage) {
			if !fn(at/sumPage, page) {
				return errStop
			}
			at += sumPage
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// verify compares the files with the checksums and reports at most limit pages
// that differ, and files that are too short. What was appended by somebody who
// does not keep checksums is not compared.
func (s *sums) verify(rd Reader, limit int) ([]Finding, error) {
	var findings []Finding
	for _, f := range families {
		if len(findings) >= limit {
			break
		}
		bad, err := s.verifyFile(rd, f, limit-len(findings))
		findings = append(findings, bad...)
		if errors.Is(err, ErrLayout) {
			continue // which other checks report
		}
		if err != nil {
			return nil, err
		}
	}
	return findings, nil
}

// verifyFile does so for one file.
func (s *sums) verifyFile(rd Reader, f *family, limit int) (findings []Finding, err error) {
	known := s.files[f.no]
	if known.length == 0 {
		return nil, nil
	}
	size, err := rd.size(f)
	if errors.Is(err, ErrCorrupt) || err == nil && size < known.length {
		return []Finding{{
			Check: sumCheck, File: f.file,
			Message: fmt.Sprintf("has %d bytes, but there are checksums of %d", size, known.length),
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	err = eachPage(rd, f, known.length, func(page int64, b []byte) bool {
		if crc32.Checksum(b, castagnoli) != known.pages[page] {
			findings = append(findings, badPage(f, page, int64(len(b))))
		}
		return len(findings) < limit
	})
	return findings, err
}

// badPage is the finding for a page of n bytes that does not have its sum.
func badPage(f *family, page, n int64) Finding {
	from := page * sumPage
	place := Finding{Check: sumCheck, File: f.file}
	what := fmt.Sprintf("bytes %d..%d", from, from+n-1)
	if f.fixed && from+n > HeaderSize {
		first := (max(from, HeaderSize) - HeaderSize) / int64(f.size)
		last := (from + n - 1 - HeaderSize) / int64(f.size)
		place.Index, place.HasIndex = uint32(first), true
		what = fmt.Sprintf("records %d..%d, %s", first, last, what)
	}
	place.Message = fmt.Sprintf("page %d (%s) does not have the checksum that was kept for it: some of its bits have changed since they were written", page, what)
	return place
}

// sumChange is what a batch makes of the checksums.
type sumChange struct {
	s     *sums
	files []fileChange
}

type fileChange struct {
	f      *family
	length int64
	pages  map[int64]uint32
}

// sumBatch computes the checksums behind a batch that has not been written yet.
// The pages of the records that it replaces are compared with their sums first;
// the error for one that differs is ErrCorrupt. It returns nil when the sums of
// the root are not known.
func (r *Root) sumBatch(tx *Tx, j *journal) (*sumChange, error) {
	s := r.currentSums(r.batch)
	r.sums.Store(s)
	if s == nil {
		return nil, nil
	}
	c := &sumChange{s: s}
	var buf [sumPage]byte
	for _, jf := range j.files {
		known := &s.files[jf.f.no]
		if known.length != jf.old {
			r.sums.Store(nil) // somebody who does not keep checksums has written
			r.unseen = true
			return nil, nil
		}
		fc := fileChange{jf.f, jf.new, map[int64]uint32{}}
		images := jf.images
		for page := int64(0); len(images) > 0; page++ {
			page = max(page, images[0].off/sumPage)
			from := page * sumPage
			b := buf[:min(sumPage, jf.old-from)]
			if err := tx.before.readAt(jf.f, b, from); err != nil {
				return nil, err
			}
			if crc32.Checksum(b, castagnoli) != known.pages[page] {
				return nil, firstOf([]Finding{badPage(jf.f, page, int64(len(b)))}, nil)
			}
			for _, img := range images {
				if img.off >= from+int64(len(b)) {
					break
				}
				overlay(b, from, img)
			}
			for len(images) > 0 && images[0].end() <= from+sumPage {
				images = images[1:]
			}
			fc.pages[page] = crc32.Checksum(b, castagnoli)
		}
		at := jf.old
		for b := tx.writes[jf.f.no].appended; len(b) > 0; {
			page := at / sumPage
			n := min(int64(len(b)), (page+1)*sumPage-at)
			sum, ok := fc.pages[page]
			if !ok && at%sumPage != 0 {
				sum = known.pages[page]
			}
			fc.pages[page] = crc32.Update(sum, castagnoli, b[:n])
			at, b = at+n, b[n:]
		}
		c.files = append(c.files, fc)
	}
	return c, nil
}

// overlay copies the part of an after-image that lies in b, which begins at from.
func overlay(b []byte, from int64, img journalImage) {
	if at := img.off - from; at >= 0 {
		copy(b[at:], img.after)
	} else {
		copy(b, img.after[-at:])
	}
}

// apply makes the checksums those behind the batch, which is durable.
func (c *sumChange) apply(batch uint64) {
	if c == nil {
		return
	}
	for _, fc := range c.files {
		known := &c.s.files[fc.f.no]
		known.length = fc.length
		if grow := int(pagesOf(fc.length)) - len(known.pages); grow > 0 {
			known.pages = append(known.pages, make([]uint32, grow)...)
		}
		for page, sum := range fc.pages {
			known.pages[page] = sum
		}
	}
	c.s.batch = batch
}

// skip leaves the checksums as they are behind a batch that was taken back.
func (c *sumChange) skip(batch uint64) {
	if c != nil {
		c.s.batch = batch
	}
}
