package authority

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Snapshot stands for the tree of one commit.
type Snapshot struct {
	record.Snapshot
	Index   uint32
	Message string
}

// Name is the displayed name, SNP- and twelve digits.
func (s *Snapshot) Name() string { return record.SnapshotName(s.Hash48) }

// Snapshot reads one Snapshot that is live.
func (v *View) Snapshot(index uint32) (Snapshot, error) {
	rec, err := bindb.Snapshots.Get(v, index)
	if err != nil {
		return Snapshot{}, err
	}
	if rec.Meta.Tombstoned() {
		return Snapshot{}, fmt.Errorf("snapshot %d: %w: it was removed", index, bindb.ErrNotFound)
	}
	var p record.SnapshotPayload
	if err := readPayload(v, bindb.SnapshotPayload, rec.PayloadOffset, rec.PayloadLen, &p); err != nil {
		return Snapshot{}, err
	}
	return Snapshot{rec, index, p.Message}, nil
}

// SnapshotsByHash lists the live Snapshots with a 48 bit hash, newest first, at
// most limit of them.
func (v *View) SnapshotsByHash(hash48 uint64, limit int) ([]Snapshot, error) {
	var list []Snapshot
	err := bindb.SnapshotsByHash(v, hash48, func(i uint32) (bool, error) {
		s, err := v.Snapshot(i)
		if errors.Is(err, bindb.ErrNotFound) {
			return true, nil // it was removed
		}
		if err != nil {
			return false, err
		}
		if s.Hash48 == hash48 {
			list = append(list, s)
		}
		return len(list) < limit, nil
	})
	return list, err
}

// SnapshotSpec describes a new Snapshot.
type SnapshotSpec struct {
	Hash48   uint64 // the low 48 bits are used
	Line     uint32 // authoring Line, immutable
	Manifest [32]byte
	Files    uint32
	Bytes    uint64
	Message  string // may be empty
	// Parents are live Snapshots, each once, at most record.MaxParents. Without any,
	// nothing is recorded of where the Snapshot comes from.
	Parents []uint32
}

// Parents lists the parents of a Snapshot in their order.
func (v *View) Parents(s *Snapshot) ([]uint32, error) {
	first, ok := s.Parent.Index()
	if !s.Meta.ParentEdgesAuthority() {
		if !ok {
			return nil, nil
		}
		return []uint32{first}, nil
	}
	var list []uint32
	err := bindb.SnapshotParentEdges.All(v, func(_ uint32, e *record.SnapshotParentEdge) error {
		if e.Child == s.Index {
			list = append(list, e.Parent)
		}
		return nil
	})
	return list, err
}

// AddSnapshot records a Snapshot. Edges to its parents precede the record that
// commits it.
func (tx *Tx) AddSnapshot(s SnapshotSpec) (index uint32, err error) {
	if s.Hash48 >= 1<<48 {
		return 0, fmt.Errorf("snapshot hash: %w: %x has more than 48 bits", bindb.ErrInvalid, s.Hash48)
	}
	if len(s.Message) > math.MaxUint16-2 {
		return 0, fmt.Errorf("snapshot message: %w: %d bytes", bindb.ErrInvalid, len(s.Message))
	}
	if len(s.Parents) > record.MaxParents {
		return 0, fmt.Errorf("snapshot: %w: it has %d parents, at most %d fit", bindb.ErrCapacity, len(s.Parents), record.MaxParents)
	}
	for i, parent := range s.Parents {
		if _, err := tx.Snapshot(parent); err != nil {
			return 0, err
		}
		if slices.Contains(s.Parents[:i], parent) {
			return 0, fmt.Errorf("snapshot: %w: snapshot %d is named twice as its parent", bindb.ErrInvalid, parent)
		}
	}
	if _, err := tx.Line(s.Line); err != nil {
		return 0, err
	}
	if index, err = bindb.Snapshots.Count(tx); err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	p := record.SnapshotPayload{Message: s.Message}
	off, n, err := addPayload(tx, bindb.SnapshotPayload, &p)
	if err != nil {
		return 0, err
	}
	rec := record.Snapshot{
		PayloadOffset: off, PayloadLen: n, Hash48: s.Hash48, Line: record.RefTo(s.Line),
		ManifestHash: s.Manifest, FileCount: s.Files, TotalBytes: s.Bytes, CreatedAt: tx.now,
	}
	p.SetMeta(&rec.Meta)
	for i, parent := range s.Parents {
		if _, err := bindb.SnapshotParentEdges.Append(tx.tx, record.SnapshotParentEdge{Child: index, Parent: parent, Ordinal: uint16(i)}); err != nil {
			return 0, err
		}
	}
	if len(s.Parents) > 0 {
		rec.Meta.SetParentEdgesAuthority(true)
		rec.Parent = record.RefTo(s.Parents[0])
	}
	return bindb.Snapshots.Append(tx.tx, rec)
}
