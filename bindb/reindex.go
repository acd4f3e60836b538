package bindb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// indexFile is one .idx file as the format defines it: complete, sorted, without
// equal rows (section 11). Those of section 11.1 sort by their fields as numbers,
// the others by the bytes of their key and then by the target.
type indexFile struct {
	name    string
	target  *family
	runtime bool       // no file of the format; it lies in the runtime folder
	spec    *indexSpec // set if lookups use the file
	rows    func(rd Reader, emit func(row []byte)) error
	// sort returns what rows are compared by, as bytes. nil: the key, which is all
	// but the last four bytes, then the target as a number.
	sort func(key, row []byte) []byte
}

// encode appends the bytes of a row.
func encodeRow[T any, P record.Codec[T]](size int, rec T) []byte {
	b := make([]byte, size)
	P(&rec).Encode(b)
	return b
}

// rowsOf emits at most one row for each record of a table.
func rowsOf[T any, P record.Codec[T]](t Table[T, P], row func(i uint32, rec *T) []byte) func(Reader, func([]byte)) error {
	return func(rd Reader, emit func([]byte)) error {
		return t.All(rd, func(i uint32, rec *T) error {
			if b := row(i, rec); b != nil {
				emit(b)
			}
			return nil
		})
	}
}

// rowsOfSpec emits the rows of an index that lookups use.
func rowsOfSpec(s *indexSpec) func(Reader, func([]byte)) error {
	return func(rd Reader, emit func([]byte)) error {
		n, err := rd.count(s.target)
		if err != nil {
			return err
		}
		return s.keys(rd, 0, n, func(i uint32, key []byte) { emit(s.appendRow(nil, key, i)) })
	}
}

var indexFiles = declareIndexFiles()

func declareIndexFiles() []*indexFile {
	list := []*indexFile{
		{
			name: NamespaceIndex, target: Repositories.f,
			rows: rowsOf(Repositories, func(i uint32, r *record.Repository) []byte {
				if r.Meta.Tombstoned() || r.Namespace == (record.Namespace{}) {
					return nil
				}
				return encodeRow(record.NamespaceIndexSize, record.NamespaceIndex{Namespace: r.Namespace, Repository: record.RefTo(i)})
			}),
		},
		{
			name: ReadyIndex, target: WorkerJobs.f,
			rows: rowsOf(WorkerJobs, func(i uint32, r *record.WorkerJob) []byte {
				if r.Meta.Tombstoned() || r.State != record.JobStateQueued {
					return nil
				}
				return encodeRow(record.WorkerReadyIndexSize, record.WorkerReadyIndex{AvailableAt: r.AvailableAt, Job: record.RefTo(i)})
			}),
			sort: func(key, row []byte) []byte {
				key = binary.BigEndian.AppendUint64(key, binary.LittleEndian.Uint64(row))
				return binary.BigEndian.AppendUint32(key, binary.LittleEndian.Uint32(row[8:]))
			},
		},
		{
			name: StateIndex, target: WorkerJobs.f,
			rows: rowsOf(WorkerJobs, func(i uint32, r *record.WorkerJob) []byte {
				if r.Meta.Tombstoned() {
					return nil
				}
				return encodeRow(record.WorkerStateIndexSize, record.WorkerStateIndex{State: r.State, Job: record.RefTo(i)})
			}),
		},
		{
			name: "blob_id.idx", target: blobs.f,
			rows: rowsOf(blobs, func(i uint32, r *record.Blob) []byte {
				return encodeRow(record.BlobIDIndexSize, record.BlobIDIndex{Prefix: [10]byte(r.SHA256[:10]), Blob: record.RefTo(i)})
			}),
		},
		{
			name: "manifest_hash.idx", target: Snapshots.f,
			rows: rowsOf(Snapshots, func(i uint32, r *record.Snapshot) []byte {
				return encodeRow(record.ManifestHashIndexSize, record.ManifestHashIndex{ManifestHash: r.ManifestHash, Snapshot: record.RefTo(i)})
			}),
		},
		{
			name: "object_pack_id.idx", target: objectPacks.f,
			rows: rowsOf(objectPacks, func(i uint32, r *record.ObjectPack) []byte {
				return encodeRow(record.ObjectPackIDIndexSize, record.ObjectPackIDIndex{Hash48: hash48(r.HashHigh16, r.HashLow32), Pack: record.RefTo(i)})
			}),
		},
		{name: "snapshot_parent_child.idx", target: Snapshots.f, rows: parentRows},
		{
			name: "tree_id.idx", target: trees.f,
			rows: rowsOf(trees, func(i uint32, r *record.Tree) []byte {
				return encodeRow(record.TreeIDIndexSize, record.TreeIDIndex{Hash80: r.Hash80, Tree: record.RefTo(i)})
			}),
		},
		{
			name: "tree_pack_id.idx", target: treePacks.f,
			rows: rowsOf(treePacks, func(i uint32, r *record.TreePack) []byte {
				return encodeRow(record.TreePackIDIndexSize, record.TreePackIDIndex{Hash48: hash48(r.HashHigh16, r.HashLow32), Pack: record.RefTo(i)})
			}),
		},
	}
	for _, s := range indexSpecs {
		list = append(list, &indexFile{name: s.name, target: s.target, runtime: s.runtime, spec: s, rows: rowsOfSpec(s)})
	}
	slices.SortFunc(list, func(a, b *indexFile) int { return cmp.Compare(a.name, b.name) })
	return list
}

func hash48(high uint16, low uint32) uint64 { return uint64(high)<<32 | uint64(low) }

// parentRows emits a row for each parent of each Snapshot, the cached first one
// and those of the edges.
func parentRows(rd Reader, emit func([]byte)) error {
	row := func(parent, child uint32) {
		emit(encodeRow(record.SnapshotParentChildIndexSize, record.SnapshotParentChildIndex{Parent: parent, Child: record.RefTo(child)}))
	}
	err := rowsOf(Snapshots, func(i uint32, r *record.Snapshot) []byte {
		if p, ok := r.Parent.Index(); ok {
			row(p, i)
		}
		return nil
	})(rd, emit)
	if err != nil {
		return err
	}
	return rowsOf(SnapshotParentEdges, func(_ uint32, r *record.SnapshotParentEdge) []byte {
		row(r.Parent, r.Child)
		return nil
	})(rd, emit)
}

func (x *indexFile) path(r *Root) string {
	if x.runtime {
		return filepath.Join(r.indexDir(), x.name)
	}
	return filepath.Join(r.Dir, x.name)
}

// build returns the complete file and the size of a row.
func (x *indexFile) build(rd Reader) (content []byte, rowSize int, err error) {
	var keys, rows []byte // of equal width each
	keySize := 0
	err = x.rows(rd, func(row []byte) {
		before := len(keys)
		if x.sort != nil {
			keys = x.sort(keys, row)
		} else {
			last := len(row) - 4
			keys = append(keys, row[:last]...)
			keys = binary.BigEndian.AppendUint32(keys, binary.LittleEndian.Uint32(row[last:]))
		}
		keySize, rowSize = len(keys)-before, len(row)
		rows = append(rows, row...)
	})
	if err != nil || keySize == 0 {
		return slices.Clone(header[:]), 0, err
	}
	order := make([]uint32, len(keys)/keySize)
	for i := range order {
		order[i] = uint32(i)
	}
	key := func(i uint32) []byte { return keys[int(i)*keySize:][:keySize] }
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(key(a), key(b)) })
	content = append(make([]byte, 0, HeaderSize+len(rows)), header[:]...)
	for n, i := range order {
		if n > 0 && bytes.Equal(key(i), key(order[n-1])) {
			continue
		}
		content = append(content, rows[int(i)*rowSize:][:rowSize]...)
	}
	return content, rowSize, nil
}

// IndexState says how an index file compares with the records. Only IndexCurrent
// saves anybody a scan; none of the others is an error.
type IndexState string

const (
	// IndexCurrent: the file is what the records give.
	IndexCurrent IndexState = "current"
	// IndexBehind: the file is right for the records that were there when it was
	// written; those behind them are read directly.
	IndexBehind IndexState = "behind"
	// IndexStale: the file is not what the records give.
	IndexStale IndexState = "stale"
	// IndexMissing: there is no file.
	IndexMissing IndexState = "missing"
)

// IndexInfo describes one index file of a root.
type IndexInfo struct {
	File  string
	State IndexState
	Rows  int // that the records give
}

// Indexes compares every index file with the records. None of them is authority:
// whatever the result is, nothing is wrong with the root.
func (r *Root) Indexes(ctx context.Context) ([]IndexInfo, error) {
	var list []IndexInfo
	err := r.View(ctx, func(rd Reader) error {
		list = nil
		for _, x := range indexFiles {
			if x.target.root != r.Kind {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			content, rowSize, err := x.build(rd)
			if err != nil {
				return err
			}
			info := IndexInfo{File: x.name, Rows: rowCount(content, rowSize)}
			if info.State, err = x.state(r, content, rowSize); err != nil {
				return err
			}
			list = append(list, info)
		}
		return nil
	})
	return list, err
}

func rowCount(content []byte, rowSize int) int {
	if rowSize == 0 {
		return 0
	}
	return (len(content) - HeaderSize) / rowSize
}

// state compares the file with what it should hold.
func (x *indexFile) state(r *Root, want []byte, rowSize int) (IndexState, error) {
	f, err := r.FS.OpenFile(x.path(r), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return IndexMissing, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close() // only read
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	if size > int64(len(want)) {
		return IndexStale, nil
	}
	have := make([]byte, size)
	if err := readFull(f, x.name, have, 0); err != nil {
		return "", err
	}
	switch {
	case bytes.Equal(have, want):
		return IndexCurrent, nil
	case x.spec == nil || len(have) < HeaderSize || !bytes.Equal(have[:HeaderSize], header[:]) || (len(have)-HeaderSize)%rowSize != 0:
		return IndexStale, nil
	}
	// One row a record, and keys never change: it may cover the first records.
	covered := uint32(rowCount(have, rowSize))
	have = have[HeaderSize:]
	for row := range slices.Chunk(want[HeaderSize:], rowSize) {
		target := binary.LittleEndian.Uint32(row[rowSize-4:])
		if x.spec.plusOne {
			target--
		}
		if target >= covered {
			continue
		}
		if len(have) < rowSize || !bytes.Equal(have[:rowSize], row) {
			return IndexStale, nil
		}
		have = have[rowSize:]
	}
	return IndexBehind, nil
}

// Reindex rebuilds every index file of the root from the records, those of the
// format and those of the runtime folder. Each one is written beside, synced and
// renamed into place, so that an interruption leaves the old one or the new one.
func (r *Root) Reindex(ctx context.Context) error {
	select {
	case r.leader <- struct{}{}:
		defer func() { <-r.leader }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.exclusive(ctx, func() error { return r.reindex(ctx, nil) })
}

// Reindex rebuilds the index files with the given names in the same way.
func (s *Session) Reindex(ctx context.Context, names ...string) error {
	return s.r.reindex(ctx, names)
}

// reindex rebuilds the named files, or all of them, with the root's locks held
// exclusively.
func (r *Root) reindex(ctx context.Context, names []string) error {
	staging := filepath.Join(r.Runtime, "staging")
	dirs := []string{staging, r.indexDir()}
	for _, dir := range dirs {
		if err := vfs.MkdirAll(r.FS, dir, 0o700); err != nil {
			return err
		}
	}
	type written struct {
		index *indexFile
		temp  string
		mark  indexMark
	}
	var all []written
	var files []vfs.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // already synced, or already failed
		}
	}()
	rd := r.latest()
	for _, x := range indexFiles {
		if x.target.root != r.Kind || names != nil && !slices.Contains(names, x.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		content, _, err := x.build(rd)
		if err != nil {
			return err
		}
		w := written{index: x, temp: filepath.Join(staging, fmt.Sprintf("%s-%s", r.Label, x.name))}
		if w.mark.Covered, err = rd.count(x.target); err != nil {
			return err
		}
		w.mark.Size, w.mark.Sum = int64(len(content)), crc32.Checksum(content, castagnoli)
		if err := writeWhole(r.FS, w.temp, content); err != nil {
			return err
		}
		f, err := r.FS.OpenFile(w.temp, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		files, all = append(files, f), append(all, w)
	}
	if err := syncAll(files); err != nil {
		return err
	}
	for _, w := range all {
		if err := r.FS.Rename(w.temp, w.index.path(r)); err != nil {
			return err
		}
		if w.index.spec != nil {
			r.adopt(w.index.spec, w.mark)
		}
	}
	for _, dir := range append(dirs, r.Dir) {
		if err := r.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	r.sumsDue.Store(true) // the next clean stop vouches for the new files
	return nil
}

// adopt makes a rebuilt file the one that lookups use.
func (r *Root) adopt(spec *indexSpec, m indexMark) {
	fresh := newIndex(spec)
	fresh.use(r, m)
	r.indexMu.Lock()
	defer r.indexMu.Unlock()
	r.indexes[spec] = fresh
}
