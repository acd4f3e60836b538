package bindb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// indexSpec declares one sorted file of rows (key, target). Every key is
// derived from a record that never changes it, so that the file of the first
// n records stays right while records are appended: it is rewritten only when
// the records behind it have become many, and those few are read directly.
type indexSpec struct {
	name    string
	target  *family
	keySize int
	// plusOne: the target is stored as index + 1.
	plusOne bool
	// runtime: the file is no part of the format and lies in the runtime folder.
	runtime bool
	key     func(r Reader, raw []byte) ([]byte, error)
}

var (
	snapshotByHash = &indexSpec{
		name: "snapshot_id.idx", target: mustFamily("snapshot.bin"), keySize: 8, plusOne: true,
		key: func(_ Reader, raw []byte) ([]byte, error) {
			var s record.Snapshot
			if err := s.Decode(raw); err != nil {
				return nil, err
			}
			return binary.LittleEndian.AppendUint64(nil, s.Hash48), nil
		},
	}
	lineByName = &indexSpec{
		name: "line_name.idx", target: mustFamily("line.bin"), keySize: 8,
		key: func(r Reader, raw []byte) ([]byte, error) {
			var l record.Line
			if err := l.Decode(raw); err != nil {
				return nil, err
			}
			name, err := LineNamePayload.Read(r, l.NameOffset, int(l.NameLen))
			if err != nil {
				return nil, err
			}
			return binary.LittleEndian.AppendUint64(nil, record.FNV1a64(name)), nil
		},
	}
	actorByKey = &indexSpec{
		name: "actor_lookup.idx", target: mustFamily("actor.bin"), keySize: 8, plusOne: true,
		key: func(_ Reader, raw []byte) ([]byte, error) {
			var a record.Actor
			if err := a.Decode(raw); err != nil {
				return nil, err
			}
			return binary.LittleEndian.AppendUint64(nil, a.KeyHash), nil
		},
	}
	patchsetByRevision = &indexSpec{
		name: "patchset_revision.idx", target: mustFamily("patchset.bin"), keySize: 4, plusOne: true, runtime: true,
		key: func(_ Reader, raw []byte) ([]byte, error) {
			var p record.Patchset
			if err := p.Decode(raw); err != nil {
				return nil, err
			}
			return binary.LittleEndian.AppendUint32(nil, p.RevisionSnapshot), nil
		},
	}
	patchsetByLine = &indexSpec{
		name: "patchset_line.idx", target: mustFamily("patchset.bin"), keySize: 4, plusOne: true, runtime: true,
		key: func(r Reader, raw []byte) ([]byte, error) {
			var p record.Patchset
			if err := p.Decode(raw); err != nil {
				return nil, err
			}
			s, err := Snapshots.Get(r, p.RevisionSnapshot)
			if err != nil {
				return nil, err
			}
			return binary.LittleEndian.AppendUint32(nil, uint32(s.Line)), nil
		},
	}

	indexSpecs = []*indexSpec{snapshotByHash, lineByName, actorByKey, patchsetByRevision, patchsetByLine}
)

// SnapshotsByHash calls fn for the Snapshots with the given 48 bit hash, newest
// first, until fn returns false.
func SnapshotsByHash(r Reader, hash48 uint64, fn func(index uint32) (bool, error)) error {
	return lookup(r, snapshotByHash, binary.LittleEndian.AppendUint64(nil, hash48), fn)
}

// LinesByName calls fn for the Lines whose name has the hash of name, newest
// first, until fn returns false. The caller compares the names.
func LinesByName(r Reader, name string, fn func(index uint32) (bool, error)) error {
	return lookup(r, lineByName, binary.LittleEndian.AppendUint64(nil, record.FNV1a64([]byte(name))), fn)
}

// ActorsByName calls fn for the Actors whose user name has the hash of name,
// newest first, until fn returns false. The caller compares kind and payload.
func ActorsByName(r Reader, name string, fn func(index uint32) (bool, error)) error {
	return lookup(r, actorByKey, binary.LittleEndian.AppendUint64(nil, record.FNV1a64([]byte(name))), fn)
}

// PatchsetsByRevision calls fn for the Patchsets with the given revision
// Snapshot, newest first, until fn returns false.
func PatchsetsByRevision(r Reader, snapshot uint32, fn func(index uint32) (bool, error)) error {
	return lookup(r, patchsetByRevision, binary.LittleEndian.AppendUint32(nil, snapshot), fn)
}

// PatchsetsByLine calls fn for the Patchsets whose revision Snapshot was
// authored on the given Line, newest first, until fn returns false.
func PatchsetsByLine(r Reader, line uint32, fn func(index uint32) (bool, error)) error {
	return lookup(r, patchsetByLine, binary.LittleEndian.AppendUint32(nil, uint32(record.RefTo(line))), fn)
}

// index is the state of one index in an open root: rows, sorted, for the first
// records, and the committed records behind them that have been seen.
type index struct {
	spec *indexSpec

	mu   sync.RWMutex
	rows []byte // as in the file, without its header; never changed in place
	seen uint32 // records in rows and tail
	tail map[string][]uint32

	covered uint32 // by the file
	sum     uint32 // of the file
}

func (s *indexSpec) rowSize() int { return s.keySize + 4 }

func (s *indexSpec) path(r *Root) string {
	if s.runtime {
		return filepath.Join(r.indexDir(), s.name)
	}
	return filepath.Join(r.Dir, s.name)
}

// lookup reports the records whose key is equal, in descending order.
func lookup(rd Reader, spec *indexSpec, key []byte, fn func(uint32) (bool, error)) error {
	before := rd.base()
	committed, err := before.count(spec.target)
	if err != nil {
		return err
	}
	if before != rd {
		count, err := rd.count(spec.target)
		if err != nil {
			return err
		}
		for i := count; i > committed; i-- {
			k, err := spec.keyOf(rd, i-1)
			if err != nil {
				return err
			}
			if !bytes.Equal(k, key) {
				continue
			}
			if more, err := fn(i - 1); err != nil || !more {
				return err
			}
		}
	}
	tail, rows, err := rd.root().index(spec).find(before, key, committed)
	if err != nil {
		return err
	}
	// A reader of an older state does not see what has come since.
	for i := len(tail) - 1; i >= 0; i-- {
		if tail[i] >= committed {
			continue
		}
		if more, err := fn(tail[i]); err != nil || !more {
			return err
		}
	}
	for i := len(rows)/spec.rowSize() - 1; i >= 0; i-- {
		t := spec.targetOf(rows[i*spec.rowSize():])
		if t >= committed {
			continue
		}
		if more, err := fn(t); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *indexSpec) keyOf(rd Reader, i uint32) ([]byte, error) {
	raw, err := rd.record(s.target, i)
	if err != nil {
		return nil, err
	}
	k, err := s.key(rd, raw)
	if err != nil {
		return nil, &RecordError{s.target.file, i, err}
	}
	return k, nil
}

// keys calls fn with the keys of the records from..to-1.
func (s *indexSpec) keys(rd Reader, from, to uint32, fn func(i uint32, key []byte)) error {
	return eachRecord(rd, s.target, from, to, func(i uint32, raw []byte) error {
		key, err := s.key(rd, raw)
		if err != nil {
			return &RecordError{s.target.file, i, err}
		}
		fn(i, key)
		return nil
	})
}

// targetOf returns the record that a row names.
func (s *indexSpec) targetOf(row []byte) uint32 {
	t := binary.LittleEndian.Uint32(row[s.keySize:])
	if s.plusOne {
		t--
	}
	return t
}

// appendRow adds the row of record i.
func (s *indexSpec) appendRow(rows, key []byte, i uint32) []byte {
	if s.plusOne {
		i++
	}
	return binary.LittleEndian.AppendUint32(append(rows, key...), i)
}

func newIndex(spec *indexSpec) *index {
	return &index{spec: spec, tail: map[string][]uint32{}}
}

// index returns the state of one index. A file that the mark does not vouch for
// is not used.
func (r *Root) index(spec *indexSpec) *index {
	r.indexMu.Lock()
	defer r.indexMu.Unlock()
	if x := r.indexes[spec]; x != nil {
		return x
	}
	x := newIndex(spec)
	if r.marked != nil {
		if im, ok := r.marked.Indexes[spec.name]; ok && im.Covered > 0 {
			x.use(r, im)
		}
	}
	r.indexes[spec] = x
	return x
}

// use reads the index file when it is the one that the mark speaks of. What is
// wrong with it is not reported: the records are read instead.
func (x *index) use(r *Root, im indexMark) {
	size := int64(HeaderSize) + int64(im.Covered)*int64(x.spec.rowSize())
	if im.Size != size {
		return
	}
	b, err := vfs.ReadFile(r.FS, x.spec.path(r), size)
	if err != nil || int64(len(b)) != size || crc32.Checksum(b, castagnoli) != im.Sum {
		return
	}
	x.rows, x.seen, x.covered, x.sum = b[HeaderSize:], im.Covered, im.Covered, im.Sum
}

// find returns the records with the given key, in ascending order: those of the
// tail, and behind them in age the matching rows. It knows all records that the
// reader has at least.
func (x *index) find(rd Reader, key []byte, committed uint32) (tail []uint32, rows []byte, err error) {
	x.mu.RLock()
	if x.seen < committed {
		x.mu.RUnlock()
		x.mu.Lock()
		err = x.extend(rd, committed)
		x.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		x.mu.RLock()
	}
	defer x.mu.RUnlock()
	size := x.spec.rowSize()
	bound := func(above int) int {
		return sort.Search(len(x.rows)/size, func(i int) bool {
			return bytes.Compare(x.rows[i*size:][:x.spec.keySize], key) >= above
		})
	}
	from := bound(0)
	to := from
	if from*size < len(x.rows) && bytes.Equal(x.rows[from*size:][:x.spec.keySize], key) {
		to = bound(1)
	}
	return x.tail[string(key)], x.rows[from*size : to*size], nil
}

// extend reads the keys of the committed records that the index has not seen. It
// holds mu.
func (x *index) extend(rd Reader, committed uint32) error {
	if x.seen >= committed {
		return nil
	}
	// Many records are cheaper as rows than in the tail.
	many := int(max(1024, uint32(len(x.rows)/x.spec.rowSize())/8))
	bulk := int(committed-x.seen) > many
	var fresh []byte
	err := x.spec.keys(rd, x.seen, committed, func(i uint32, key []byte) {
		if bulk {
			fresh = x.spec.appendRow(fresh, key, i)
		} else {
			x.tail[string(key)] = append(x.tail[string(key)], i)
			x.seen = i + 1
		}
	})
	if err != nil {
		return err
	}
	if bulk {
		x.fold(fresh)
		x.seen = committed
	} else if int(x.seen)-len(x.rows)/x.spec.rowSize() > many {
		x.fold(nil)
	}
	return nil
}

// fold makes rows of the tail and of the given ones. Readers keep the old ones.
func (x *index) fold(fresh []byte) {
	for key, list := range x.tail {
		for _, i := range list {
			fresh = x.spec.appendRow(fresh, []byte(key), i)
		}
	}
	x.rows = x.merge(x.rows, x.sort(fresh))
	x.tail = map[string][]uint32{}
}

// compare orders rows by key, then by target.
func (x *index) compare(a, b []byte) int {
	k := x.spec.keySize
	return cmp.Or(
		bytes.Compare(a[:k], b[:k]),
		cmp.Compare(binary.LittleEndian.Uint32(a[k:]), binary.LittleEndian.Uint32(b[k:])),
	)
}

func (x *index) sort(rows []byte) []byte {
	size := x.spec.rowSize()
	list := make([][]byte, 0, len(rows)/size)
	for at := 0; at < len(rows); at += size {
		list = append(list, rows[at:at+size])
	}
	slices.SortFunc(list, x.compare)
	out := make([]byte, 0, len(rows))
	for _, row := range list {
		out = append(out, row...)
	}
	return out
}

// merge returns the rows of both, sorted as they are.
func (x *index) merge(a, b []byte) []byte {
	size := x.spec.rowSize()
	out := make([]byte, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if x.compare(a[:size], b[:size]) <= 0 {
			out, a = append(out, a[:size]...), a[size:]
		} else {
			out, b = append(out, b[:size]...), b[size:]
		}
	}
	return append(append(out, a...), b...)
}

// refreshIndex rewrites an index file that too many records are missing from.
// The lock is held exclusively.
func (r *Root) refreshIndex(rd Reader, spec *indexSpec) (indexMark, error) {
	count, err := rd.count(spec.target)
	if err != nil {
		return indexMark{}, err
	}
	x := r.index(spec)
	x.mu.Lock()
	defer x.mu.Unlock()
	if count-x.covered < max(64, x.covered/16) {
		return indexMark{x.covered, int64(HeaderSize) + int64(x.covered)*int64(spec.rowSize()), x.sum}, nil
	}
	if err := x.extend(rd, count); err != nil {
		return indexMark{}, err
	}
	if len(x.tail) > 0 {
		x.fold(nil)
	}
	file := append(slices.Clone(header[:]), x.rows...)
	if err := r.replaceFile(spec.path(r), file); err != nil {
		return indexMark{}, err
	}
	return indexMark{count, int64(len(file)), crc32.Checksum(file, castagnoli)}, nil
}

// writeWhole writes a file that may exist from an interrupted try. It is not
// synced: whoever reads it checks a sum.
func writeWhole(fsys vfs.FS, path string, data []byte) error {
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	return errors.Join(err, f.Close())
}
