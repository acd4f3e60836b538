package bindb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sort"

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

// index is the state of one index in an open root: the file covers the first
// covered records, tail holds the committed ones behind them that have been seen.
type index struct {
	file    vfs.File
	sum     uint32 // of the file
	covered uint32
	seen    uint32
	tail    map[string][]uint32
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
	count, err := spec.target.countBy(rd.size)
	if err != nil {
		return err
	}
	committed, err := spec.target.countBy(rd.committed)
	if err != nil {
		return err
	}
	root := rd.root()
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
	root.indexMu.Lock()
	idx := root.index(spec)
	if err := idx.extend(rd, spec, committed); err != nil {
		root.indexMu.Unlock()
		return err
	}
	tail := idx.tail[string(key)]
	rows, err := idx.search(spec, key)
	root.indexMu.Unlock()
	if err != nil {
		return err
	}
	for _, list := range [][]uint32{tail, rows} {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i] >= committed {
				continue
			}
			if more, err := fn(list[i]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

func (s *indexSpec) keyOf(rd Reader, i uint32) ([]byte, error) {
	raw := make([]byte, s.target.size)
	if err := rd.readAt(s.target, raw, s.target.offset(i)); err != nil {
		return nil, err
	}
	k, err := s.key(rd, raw)
	if err != nil {
		return nil, &RecordError{s.target.file, i, err}
	}
	return k, nil
}

// index returns the state of one index; indexMu is held. A file that the mark
// does not vouch for is not used.
func (r *Root) index(spec *indexSpec) *index {
	if idx := r.indexes[spec]; idx != nil {
		return idx
	}
	idx := &index{tail: map[string][]uint32{}}
	if r.marked != nil {
		if im, ok := r.marked.Indexes[spec.name]; ok && im.Covered > 0 {
			idx.use(r, spec, im)
		}
	}
	r.indexes[spec] = idx
	return idx
}

// use opens the index file when it is the one that the mark speaks of. What is
// wrong with it is not reported: the records are read instead.
func (x *index) use(r *Root, spec *indexSpec, im indexMark) {
	f, err := r.FS.OpenFile(spec.path(r), os.O_RDONLY, 0)
	if err != nil {
		return
	}
	size, err := f.Size()
	if err == nil && size == im.Size && size == int64(HeaderSize)+int64(im.Covered)*int64(spec.rowSize()) {
		if sum, err := sumFile(f, size); err == nil && sum == im.Sum {
			x.file, x.sum, x.covered, x.seen = f, sum, im.Covered, im.Covered
			return
		}
	}
	_ = f.Close() // only read
}

func sumFile(f vfs.File, size int64) (uint32, error) {
	sum := uint32(0)
	b := make([]byte, min(256<<10, size))
	for at := int64(0); at < size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), size-at)]
		if n, err := f.ReadAt(b, at); n < len(b) {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
	}
	return sum, nil
}

// extend reads the keys of the committed records that the index has not seen.
func (x *index) extend(rd Reader, spec *indexSpec, committed uint32) error {
	const piece = 1024
	for x.seen < committed {
		k := min(piece, committed-x.seen)
		raw := make([]byte, int(k)*spec.target.size)
		if err := rd.readAt(spec.target, raw, spec.target.offset(x.seen)); err != nil {
			return err
		}
		for j := range int(k) {
			key, err := spec.key(rd, raw[j*spec.target.size:(j+1)*spec.target.size])
			if err != nil {
				return &RecordError{spec.target.file, x.seen, err}
			}
			x.tail[string(key)] = append(x.tail[string(key)], x.seen)
			x.seen++
		}
	}
	return nil
}

// maxSameKey bounds how many rows of one key are read at once; a caller that
// wants the newest finds it among the last ones.
const maxSameKey = 4096

// search returns the last targets of the rows with the given key, ascending.
func (x *index) search(spec *indexSpec, key []byte) ([]uint32, error) {
	if x.file == nil {
		return nil, nil
	}
	row := make([]byte, spec.rowSize())
	var failed error
	read := func(i int) []byte {
		if failed == nil {
			failed = readFull(x.file, spec.name, row, HeaderSize+int64(i)*int64(len(row)))
		}
		return row
	}
	end := sort.Search(int(x.covered), func(i int) bool {
		return bytes.Compare(read(i)[:spec.keySize], key) > 0
	})
	var list []uint32
	for i := end - 1; i >= 0 && failed == nil && len(list) < maxSameKey; i-- {
		b := read(i)
		if failed != nil || !bytes.Equal(b[:spec.keySize], key) {
			break
		}
		t := binary.LittleEndian.Uint32(b[spec.keySize:])
		if spec.plusOne {
			t--
		}
		list = append(list, t)
	}
	slices.Reverse(list)
	return list, failed
}

// refreshIndex rewrites an index file that too many records are missing from.
// The lock is held exclusively.
func (r *Root) refreshIndex(v *view, spec *indexSpec) (indexMark, error) {
	r.indexMu.Lock()
	defer r.indexMu.Unlock()
	count, err := spec.target.countBy(v.size)
	if err != nil {
		return indexMark{}, err
	}
	idx := r.index(spec)
	if count-idx.covered < max(64, idx.covered/16) {
		return indexMark{idx.covered, int64(HeaderSize) + int64(idx.covered)*int64(spec.rowSize()), idx.sum}, nil
	}
	if err := idx.extend(v, spec, count); err != nil {
		return indexMark{}, err
	}
	rows, err := idx.merge(spec)
	if err != nil {
		return indexMark{}, err
	}
	if err := r.replaceFile(spec.path(r), rows); err != nil {
		return indexMark{}, err
	}
	return indexMark{count, int64(len(rows)), crc32.Checksum(rows, castagnoli)}, nil
}

// merge returns the complete file: the covered rows and the tail, sorted.
func (x *index) merge(spec *indexSpec) ([]byte, error) {
	size := spec.rowSize()
	old := make([]byte, int(x.covered)*size)
	if x.file != nil {
		if err := readFull(x.file, spec.name, old, HeaderSize); err != nil {
			return nil, err
		}
	}
	var fresh [][]byte
	for key, list := range x.tail {
		for _, i := range list {
			t := i
			if spec.plusOne {
				t++
			}
			fresh = append(fresh, binary.LittleEndian.AppendUint32([]byte(key), t))
		}
	}
	less := func(a, b []byte) int {
		if c := bytes.Compare(a[:spec.keySize], b[:spec.keySize]); c != 0 {
			return c
		}
		return int(int64(binary.LittleEndian.Uint32(a[spec.keySize:])) - int64(binary.LittleEndian.Uint32(b[spec.keySize:])))
	}
	slices.SortFunc(fresh, less)
	out := make([]byte, 0, HeaderSize+len(old)+len(fresh)*size)
	out = append(out, header[:]...)
	for len(old) > 0 || len(fresh) > 0 {
		if len(fresh) == 0 || len(old) > 0 && less(old[:size], fresh[0]) <= 0 {
			out, old = append(out, old[:size]...), old[size:]
		} else {
			out, fresh = append(out, fresh[0]...), fresh[1:]
		}
	}
	return out, nil
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
