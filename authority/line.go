package authority

import (
	"errors"
	"fmt"

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
	l, err := tx.usableLine(line)
	if err != nil {
		return err
	}
	if _, err := tx.Snapshot(snapshot); err != nil {
		return err
	}
	l.Head = record.RefTo(snapshot)
	return tx.putLine(&l)
}

// Lines lists the live Lines in order of index, archived ones included.
func (v *View) Lines() ([]Line, error) {
	var list []Line
	err := bindb.Lines.All(v, func(i uint32, rec *record.Line) error {
		if rec.Meta.Tombstoned() {
			return nil
		}
		l, err := v.Line(i)
		list = append(list, l)
		return err
	})
	return list, err
}

// AddLine creates a Line. The error is ErrState when there is one of that name
// that is not archived.
func (tx *Tx) AddLine(name string) (index uint32, err error) {
	if l, ok, err := tx.FindLine(name); err != nil {
		return 0, err
	} else if ok {
		return 0, statef("there is a line %q already, number %d", name, l.Index)
	}
	return tx.EnsureLine(name)
}

// ArchiveLine puts a Line aside: nothing is based on it or landed on it any more,
// and its name is free. The logical Line main is never archived, nor one that a
// Land is running onto.
func (tx *Tx) ArchiveLine(line uint32) error {
	l, err := tx.Line(line)
	if err != nil || l.Meta.Archived() {
		return err
	}
	if err := tx.dispensable(&l); err != nil {
		return err
	}
	l.Meta.SetArchived(true)
	l.ArchivedAt = tx.now
	return tx.putLine(&l)
}

// UnarchiveLine takes an archived Line up again. The error is ErrState when its
// name has been given to another Line.
func (tx *Tx) UnarchiveLine(line uint32) error {
	l, err := tx.Line(line)
	if err != nil || !l.Meta.Archived() {
		return err
	}
	if other, ok, err := tx.FindLine(l.Name); err != nil {
		return err
	} else if ok {
		return statef("line %d has the name %q now", other.Index, l.Name)
	}
	l.Meta.SetArchived(false)
	l.ArchivedAt = 0
	return tx.putLine(&l)
}

// RemoveLine leaves a tombstone of a Line that no Change, Land or Snapshot that is
// live refers to. It reads all of them.
func (tx *Tx) RemoveLine(line uint32) error {
	l, err := tx.Line(line)
	if err != nil {
		return err
	}
	if err := tx.dispensable(&l); err != nil {
		return err
	}
	ref := record.RefTo(line)
	err = bindb.Changes.All(tx, func(i uint32, c *record.Change) error {
		if c.BaseLine == ref && !c.RemoteMeta.Deleted() {
			return statef("line %q is the base of change %d", l.Name, i)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = bindb.Lands.All(tx, func(i uint32, land *record.Land) error {
		if land.TargetLine == ref && !land.Meta.Tombstoned() {
			return statef("line %q is the target of land %d", l.Name, i)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = bindb.Snapshots.All(tx, func(i uint32, s *record.Snapshot) error {
		if s.Line == ref && !s.Meta.Tombstoned() {
			return statef("snapshot %d was authored on line %q", i, l.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.Meta.SetTombstoned(true)
	return tx.putLine(&l)
}

// dispensable refuses a Line that must stay as it is.
func (tx *Tx) dispensable(l *Line) error {
	if l.Name == MainLine {
		return statef("line %q stands for the branch that changes land on", l.Name)
	}
	running, err := tx.RunningLand()
	if err == nil && running != nil && running.TargetLine == record.RefTo(l.Index) {
		err = statef("%s is running onto line %q", running.ID, l.Name)
	}
	return err
}

// usableLine reads a Line that work may be based on or landed on.
func (v *View) usableLine(index uint32) (Line, error) {
	l, err := v.Line(index)
	if err == nil && l.Meta.Archived() {
		err = statef("line %q is archived", l.Name)
	}
	return l, err
}

func (tx *Tx) putLine(l *Line) error {
	l.UpdatedAt = max(tx.now, l.UpdatedAt)
	return bindb.Lines.Put(tx.tx, l.Index, l.Line)
}
