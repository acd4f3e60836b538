package bindb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/writ-authority/writ/internal/vfs"
)

// mark is what a clean stop leaves behind: the length up to which each file has
// been validated and made durable, and how much the derived indexes cover. It
// is disposable. A missing or damaged one costs a full validation.
//
// Batch is the number of the latest batch at that stop; numbering goes on from
// it. The lengths stay true when more batches follow. Whatever would not, such as
// checksums, counts only while the seal is whole; see readSeal.
type mark struct {
	Schema   string               `json:"schema"`
	Identity string               `json:"identity"`
	Batch    uint64               `json:"batch"`
	Seal     *sealMark            `json:"seal,omitempty"`
	Lengths  map[string]int64     `json:"lengths"`
	Indexes  map[string]indexMark `json:"indexes,omitempty"`
}

// indexMark says that an index file of Size bytes with the CRC-32C Sum holds the
// rows of the first Covered records.
type indexMark struct {
	Covered uint32 `json:"covered"`
	Size    int64  `json:"size"`
	Sum     uint32 `json:"sum"`
}

const (
	markSchema = "writ.bindb-mark.v1"
	maxMark    = 64 << 10
)

// readMark returns nil when there is no usable mark.
func (r *Root) readMark() *mark {
	m, _ := r.loadMark()
	return m
}

// loadMark is readMark for whoever must not take an error of input for no mark.
func (r *Root) loadMark() (*mark, error) {
	raw, err := vfs.ReadFile(r.FS, r.markPath(), maxMark)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.decodeMark(raw), nil
}

// decodeMark returns nil when raw is not a whole mark of this root.
func (r *Root) decodeMark(raw []byte) *mark {
	sum, body, ok := bytes.Cut(raw, []byte{'\n'})
	if want := sha256.Sum256(body); !ok || string(sum) != hex.EncodeToString(want[:]) {
		return nil
	}
	var m mark
	if json.Unmarshal(body, &m) != nil || m.Schema != markSchema || m.Identity != hex.EncodeToString(r.Identity[:]) {
		return nil
	}
	for _, f := range familiesOf(r.Kind) {
		if _, err := f.count(m.Lengths[f.file]); err != nil {
			return nil // of another version, which declares other files
		}
	}
	return &m
}

func (m *mark) encode() ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return append([]byte(hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// leaveClean writes indexes that have fallen behind and the mark, and removes
// the journal. It gives up quietly: the next open then validates more. The
// leader token and rw are held.
func (r *Root) leaveClean() {
	if r.unseen || !r.wrote && !r.sumsDue.Load() && r.marked != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if r.image.Load() == nil {
		locks, err := r.lock(ctx, vfs.Exclusive)
		if err != nil {
			return
		}
		defer locks.unlock()
		if _, err := r.recover(); err != nil {
			return
		}
	}
	rd := r.latest()
	present := r.readMark() // by another process, after this one had opened
	m := &mark{
		Schema: markSchema, Identity: hex.EncodeToString(r.Identity[:]), Batch: r.batch,
		Lengths: map[string]int64{}, Indexes: map[string]indexMark{},
	}
	s := r.currentSums(r.batch)
	if s == nil {
		s = &sums{batch: r.batch}
	}
	seal := s.encode(r)
	m.Seal = &sealMark{Size: int64(len(seal)), Sum: crc32.Checksum(seal, castagnoli)}
	for _, f := range familiesOf(r.Kind) {
		n, err := rd.size(f)
		if err != nil {
			return
		}
		if s.any() && s.files[f.no].length != n {
			return // a mark would vouch for what nobody has validated
		}
		m.Lengths[f.file] = n
	}
	for _, spec := range indexSpecs {
		if spec.target.root != r.Kind {
			continue
		}
		im, err := r.refreshIndex(rd, spec)
		if err != nil {
			return
		}
		if present != nil && present.Indexes[spec.name].Covered > im.Covered {
			im = present.Indexes[spec.name]
		}
		m.Indexes[spec.name] = im
	}
	b, err := m.encode()
	if err != nil {
		return
	}
	if r.replaceFile(r.sumsPath(), seal) != nil || r.replaceFile(r.markPath(), b) != nil {
		return
	}
	_ = r.FS.Remove(r.journalPath()) // it is settled, and who needs it makes a new one
}

// replaceFile puts a disposable file in place with a rename and without a sync:
// whoever reads it checks a digest.
func (r *Root) replaceFile(path string, data []byte) error {
	dir := filepath.Join(r.Runtime, "staging")
	if err := vfs.MkdirAll(r.FS, dir, 0o700); err != nil {
		return err
	}
	if err := vfs.MkdirAll(r.FS, filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp := filepath.Join(dir, fmt.Sprintf("%s-%s", r.Label, filepath.Base(path)))
	if err := writeWhole(r.FS, temp, data); err != nil {
		return err
	}
	return r.FS.Rename(temp, path)
}
