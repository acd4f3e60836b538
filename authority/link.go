package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Link says that a Snapshot was made for a Task, and how.
type Link struct {
	record.SnapshotLink
	Index uint32
	record.SnapshotLinkPayload
}

// Links lists the live links of a Task, oldest first.
func (v *View) Links(task uint32) ([]Link, error) {
	row, err := bindb.TaskSnapshots.Get(v, task)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Link, error) {
		rec, err := bindb.SnapshotLinks.Get(v, i)
		l := Link{SnapshotLink: rec, Index: i}
		if err == nil {
			err = readPayload(v, bindb.SnapshotLinkPayload, rec.PayloadOffset, rec.PayloadLen, &l.SnapshotLinkPayload)
		}
		return l, err
	}, func(l Link) record.Ref { return l.PreviousInTask })
	return live(list, func(l Link) bool { return l.Meta.Tombstoned() }), err
}

// provenance reports whether the link names session, checkpoint and model.
func (l *Link) provenance() bool {
	return l.Meta.HasSession() && l.Meta.HasCheckpoint() && l.ModelName != ""
}

// LinkSpec describes a new link. All texts may be empty.
type LinkSpec struct {
	Task       uint32
	Change     record.Ref // of the same Task, if any
	Snapshot   uint32
	Session    bool // the work was one session of an agent
	Checkpoint bool // that can be taken up again
	Worktree   string
	Line       string
	AuthorMode string // a name of an author mode
	Model      string
}

// LinkSnapshot records that a Snapshot was made for an open Task. Decisions about
// Patchsets of the Task with this revision are no longer current when the link
// tells their provenance.
func (tx *Tx) LinkSnapshot(s LinkSpec) (index uint32, err error) {
	t, err := tx.Task(s.Task)
	if err != nil {
		return 0, err
	}
	if !t.Open() {
		return 0, statef("%s is closed", t.ID)
	}
	if _, err := tx.Snapshot(s.Snapshot); err != nil {
		return 0, err
	}
	change, hasChange := s.Change.Index()
	if hasChange {
		c, err := tx.Change(change)
		if err != nil {
			return 0, err
		}
		if c.Task != s.Task {
			return 0, fmt.Errorf("link: %w: %s does not belong to %s", bindb.ErrInvalid, c.ID, t.ID)
		}
	}
	if s.AuthorMode != "" {
		if _, err := record.ParseAuthorMode(s.AuthorMode); err != nil {
			return 0, fmt.Errorf("link: %w", bindb.Invalid(err))
		}
	}
	if index, err = bindb.SnapshotLinks.Count(tx); err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	inTask, ordinal, err := linkOrdinal(tx, bindb.TaskSnapshots, s.Task, index)
	if err != nil {
		return 0, err
	}
	var inChange record.Ref
	if hasChange {
		if inChange, err = linkInventory(tx, bindb.ChangeSnapshots, change, index); err != nil {
			return 0, err
		}
	}
	l := Link{Index: index, SnapshotLinkPayload: record.SnapshotLinkPayload{
		WorktreeName: s.Worktree, LineName: s.Line, AuthorMode: s.AuthorMode, ModelName: s.Model,
	}}
	off, n, err := addPayload(tx, bindb.SnapshotLinkPayload, &l.SnapshotLinkPayload)
	if err != nil {
		return 0, err
	}
	l.SnapshotLink = record.SnapshotLink{
		Ordinal: ordinal, PayloadOffset: off, PayloadLen: n, Task: s.Task, Change: s.Change, Snapshot: s.Snapshot,
		PreviousInTask: inTask, PreviousInChange: inChange, CreatedAt: tx.now,
	}
	l.Meta.SetHasChange(hasChange)
	l.Meta.SetHasSession(s.Session)
	l.Meta.SetHasCheckpoint(s.Checkpoint)
	l.SetMeta(&l.Meta)
	if _, err := bindb.SnapshotLinks.Append(tx.tx, l.SnapshotLink); err != nil {
		return 0, err
	}
	if !t.Meta.Snapshotted() {
		t.Meta.SetSnapshotted(true)
		if err := tx.putTask(&t); err != nil {
			return 0, err
		}
	}
	if !l.provenance() {
		return index, nil
	}
	return index, bindb.PatchsetsByRevision(tx, s.Snapshot, func(i uint32) (bool, error) {
		p, err := tx.Patchset(i)
		if err == nil && p.RevisionSnapshot == s.Snapshot && p.Task == s.Task {
			err = tx.touched(p, nil)
		}
		return true, err
	})
}
