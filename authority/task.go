package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Task is one unit of intent: it owns Changes.
type Task struct {
	record.Task
	Index  uint32
	ID     record.Identity
	Title  string
	Intent string
}

// Task reads one Task.
func (v *View) Task(index uint32) (Task, error) {
	rec, err := bindb.Tasks.Get(v, index)
	if err != nil {
		return Task{}, err
	}
	if rec.RemoteMeta.Deleted() {
		return Task{}, fmt.Errorf("task %d: %w: it was deleted", index, bindb.ErrNotFound)
	}
	var p record.TaskPayload
	if err := readPayload(v, bindb.TaskPayload, rec.PayloadOffset, rec.PayloadLen, &p); err != nil {
		return Task{}, err
	}
	return Task{rec, index, record.TaskIdentity(v.repo.namespace(), index), p.Title, p.Intent}, nil
}

// Open reports whether the Task takes further Changes.
func (t *Task) Open() bool { return !t.Meta.Completed() && !t.Meta.Canceled() }

// Status is open, completed or canceled.
func (t *Task) Status() string {
	switch {
	case t.Meta.Completed():
		return "completed"
	case t.Meta.Canceled():
		return "canceled"
	}
	return "open"
}

// OpenTask creates a Task. Title and intent are non-empty text.
func (tx *Tx) OpenTask(title, intent string) (index uint32, err error) {
	if err := tx.beginsWork(); err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	off, n, err := addPayload(tx, bindb.TaskPayload, &record.TaskPayload{Title: title, Intent: intent})
	if err != nil {
		return 0, err
	}
	index, err = bindb.Tasks.Append(tx.tx, record.Task{
		PayloadOffset: off, PayloadLen: n, CreatedAt: tx.now, UpdatedAt: tx.now, FetchedAt: tx.now,
	})
	if err != nil {
		return 0, err
	}
	return index, addRows(tx,
		[]ordinalTable{bindb.TaskChanges, bindb.TaskAttests, bindb.TaskWaivers, bindb.TaskSnapshots},
		[]inventoryTable{bindb.TaskPatchsets, bindb.TaskReviews, bindb.TaskPolicies, bindb.TaskLands})
}

// CompleteTask closes a Task whose intent is met. It stays closed.
func (tx *Tx) CompleteTask(task uint32) error { return tx.closeTask(task, false) }

// CancelTask closes a Task that is given up. It stays closed.
func (tx *Tx) CancelTask(task uint32) error { return tx.closeTask(task, true) }

func (tx *Tx) closeTask(task uint32, canceled bool) error {
	t, err := tx.Task(task)
	if err != nil {
		return err
	}
	if !t.Open() {
		if t.Meta.Canceled() == canceled {
			return nil
		}
		return statef("%s is closed already: %s", t.ID, t.Status())
	}
	if l, err := tx.RunningLand(); err != nil {
		return err
	} else if l != nil && l.ID.Task() == t.ID {
		return statef("%s is running; it must be finished or failed first", l.ID)
	}
	t.Meta.SetCompleted(!canceled)
	t.Meta.SetCanceled(canceled)
	t.ClosedAt = max(tx.now, t.UpdatedAt)
	return tx.putTask(&t)
}

func (tx *Tx) putTask(t *Task) error {
	t.UpdatedAt = max(tx.now, t.UpdatedAt)
	return bindb.Tasks.Put(tx.tx, t.Index, t.Task)
}

// Tasks lists the Tasks that were not deleted in order of index.
func (v *View) Tasks() ([]Task, error) {
	var list []Task
	err := bindb.Tasks.All(v, func(i uint32, rec *record.Task) error {
		if rec.RemoteMeta.Deleted() {
			return nil
		}
		t, err := v.Task(i)
		list = append(list, t)
		return err
	})
	return list, err
}

// TaskIsFull reports whether all Change ordinals of a Task are used.
func (v *View) TaskIsFull(index uint32) (bool, error) {
	row, err := bindb.TaskChanges.Get(v, index)
	return row.Next >= record.MaxOrdinals, err
}
