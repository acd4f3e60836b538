package authority

import (
	"errors"
	"fmt"
	"math"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// MainLine is the name of the logical default Line of every Repository. It
// stands for the branch that changes land on, whatever that branch is called.
const MainLine = "main"

// Line is a named line of development.
type Line struct {
	record.Line
	Index uint32
	Name  string
}

// Line reads one Line that is live.
func (v *View) Line(index uint32) (Line, error) {
	rec, err := bindb.Lines.Get(v, index)
	if err != nil {
		return Line{}, err
	}
	if rec.Meta.Tombstoned() {
		return Line{}, fmt.Errorf("line %d: %w: it was removed", index, bindb.ErrNotFound)
	}
	var p record.LineNamePayload
	if err := readPayload(v, bindb.LineNamePayload, rec.NameOffset, rec.NameLen, &p); err != nil {
		return Line{}, err
	}
	return Line{rec, index, p.Name}, nil
}

// FindLine looks a live Line up by its exact name.
func (v *View) FindLine(name string) (Line, bool, error) {
	var found Line
	var ok bool
	err := bindb.LinesByName(v, name, func(i uint32) (bool, error) {
		l, err := v.Line(i)
		if errors.Is(err, bindb.ErrNotFound) {
			return true, nil // it was removed
		}
		if err != nil {
			return false, err
		}
		if l.Name == name && !l.Meta.Archived() {
			found, ok = l, true
		}
		return !ok, nil
	})
	return found, ok, err
}

// EnsureLine returns the Line with that name and creates it when there is none.
func (tx *Tx) EnsureLine(name string) (index uint32, err error) {
	if l, ok, err := tx.FindLine(name); err != nil || ok {
		return l.Index, err
	}
	defer tx.writes(&err)
	off, n, err := addPayload(tx, bindb.LineNamePayload, &record.LineNamePayload{Name: name})
	if err != nil {
		return 0, err
	}
	return bindb.Lines.Append(tx.tx, record.Line{NameOffset: off, NameLen: n, CreatedAt: tx.now, UpdatedAt: tx.now})
}

// SetLineHead moves a Line to a Snapshot.
func (tx *Tx) SetLineHead(line, snapshot uint32) error {
	l, err := tx.Line(line)
	if err != nil {
		return err
	}
	if _, err := tx.Snapshot(snapshot); err != nil {
		return err
	}
	l.Head = record.RefTo(snapshot)
	l.UpdatedAt = max(tx.now, l.UpdatedAt)
	return bindb.Lines.Put(tx.tx, line, l.Line)
}

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
}

// AddSnapshot records a Snapshot.
func (tx *Tx) AddSnapshot(s SnapshotSpec) (index uint32, err error) {
	if s.Hash48 >= 1<<48 {
		return 0, fmt.Errorf("snapshot hash: %w: %x has more than 48 bits", bindb.ErrInvalid, s.Hash48)
	}
	if len(s.Message) > math.MaxUint16-2 {
		return 0, fmt.Errorf("snapshot message: %w: %d bytes", bindb.ErrInvalid, len(s.Message))
	}
	if _, err := tx.Line(s.Line); err != nil {
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
	return bindb.Snapshots.Append(tx.tx, rec)
}
