package bindb

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sort"

	"github.com/writ-authority/writ/bindb/record"
)

// Index files whose keys can change, unlike those of the others: a row says
// nothing without its record, and a missing row says nothing at all.
const (
	NamespaceIndex = "repository_namespace.idx" // Repositories by namespace (section 4.3)
	ReadyIndex     = "worker_ready.idx"         // queued Jobs by time (section 11.1)
	StateIndex     = "worker_state.idx"         // Jobs by state (section 11.1)
)

// errStop ends a scan whose caller has what it was looking for.
var errStop = errors.New("stop")

// RepositoriesByNamespace calls fn for the Repositories whose record has exactly
// the given namespace, of whatever lifecycle, until fn returns false. Those that
// the index names come first, then the others; fn may get one of them twice.
func RepositoriesByNamespace(r Reader, ns record.Namespace, fn func(index uint32, rec *record.Repository) (bool, error)) error {
	for _, i := range namespaceCandidates(r.root(), ns) {
		rec, err := Repositories.Get(r, i)
		if errors.Is(err, ErrNotFound) {
			continue // the row is from another time
		}
		if err != nil {
			return err
		}
		if rec.Namespace != ns {
			continue
		}
		if more, err := fn(i, &rec); err != nil || !more {
			return err
		}
	}
	err := Repositories.All(r, func(i uint32, rec *record.Repository) error {
		if rec.Namespace != ns {
			return nil
		}
		more, err := fn(i, rec)
		if err == nil && !more {
			err = errStop
		}
		return err
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// namespaceCandidates reads the rows of one namespace. It gives none where the
// file is missing or not in order; the records are read then.
func namespaceCandidates(root *Root, ns record.Namespace) []uint32 {
	f, err := root.FS.OpenFile(filepath.Join(root.Dir, NamespaceIndex), os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close() // only read
	size, err := f.Size()
	if err != nil || size < HeaderSize || (size-HeaderSize)%record.NamespaceIndexSize != 0 {
		return nil
	}
	count := int((size - HeaderSize) / record.NamespaceIndexSize)
	key := binary.BigEndian.Uint16(ns[:])
	row := func(i int) (record.NamespaceIndex, uint16, bool) {
		var rec record.NamespaceIndex
		b := make([]byte, record.NamespaceIndexSize)
		if n, _ := f.ReadAt(b, HeaderSize+int64(i)*record.NamespaceIndexSize); n < len(b) || rec.Decode(b) != nil || rec.Check() != nil {
			return rec, 0, false
		}
		return rec, binary.BigEndian.Uint16(rec.Namespace[:]), true
	}
	sound := true
	at := sort.Search(count, func(i int) bool {
		_, k, ok := row(i)
		sound = sound && ok
		return k >= key
	})
	var list []uint32
	for ; sound && at < count; at++ {
		rec, k, ok := row(at)
		if !ok || k != key {
			break
		}
		i, _ := rec.Repository.Index()
		list = append(list, i)
	}
	return list
}
