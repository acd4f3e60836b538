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
	return Task{rec, index, record.TaskIdentity(v.repo.info.Namespace, index), p.Title, p.Intent}, nil
}

// Open reports whether the Task takes further Changes.
func (t *Task) Open() bool { return !t.Meta.Completed() && !t.Meta.Canceled() }

// OpenTask creates a Task. Title and intent are non-empty text.
func (tx *Tx) OpenTask(title, intent string) (index uint32, err error) {
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

// TaskIsFull reports whether all Change ordinals of a Task are used.
func (v *View) TaskIsFull(index uint32) (bool, error) {
	row, err := bindb.TaskChanges.Get(v, index)
	return row.Next >= record.MaxOrdinals, err
}
