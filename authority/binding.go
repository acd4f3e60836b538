package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Binding is the item of a Plan that a Task takes up.
type Binding struct {
	Plan     Plan
	Revision PlanRevision // in which the Task was bound
	Item     PlanItem
	LinkedAt record.Seconds
	// Taskable says that the binding still means something: the latest revision of
	// a Plan in draft has an item with exactly the same reference.
	Taskable bool
}

// Binding returns what a Task is bound to, or nil.
func (v *View) Binding(t *Task) (*Binding, error) {
	revision, ok := t.OriginPlanRevision.Index()
	item, _ := t.PlanItem.Index()
	if !ok {
		return nil, nil
	}
	b := Binding{LinkedAt: t.PlanLinkedAt}
	var err error
	if b.Revision, err = v.PlanRevision(revision); err != nil {
		return nil, err
	}
	if b.Item, err = v.PlanItem(item); err != nil {
		return nil, err
	}
	if b.Plan, err = v.Plan(b.Revision.Plan); err != nil {
		return nil, err
	}
	if b.Plan.Draft() {
		b.Taskable, err = v.current(&b.Plan, b.Item.Ref)
	}
	return &b, err
}

// current reports whether the latest revision of a Plan has an item with exactly
// that reference.
func (v *View) current(p *Plan, ref string) (bool, error) {
	latest, err := v.LatestRevision(p)
	if err != nil {
		return false, err
	}
	_, ok, err := v.ItemByRef(&latest, ref)
	return ok, err
}

// BindTask binds an open Task to an item of a revision. The Plan must be a draft,
// and its latest revision must still have an item with exactly the same reference.
// A Task that is bound to another item is unbound first.
func (tx *Tx) BindTask(task, revision, item uint32) error {
	t, err := tx.Task(task)
	if err != nil {
		return err
	}
	if !t.Open() {
		return statef("%s is closed", t.ID)
	}
	r, err := tx.PlanRevision(revision)
	if err != nil {
		return err
	}
	it, err := tx.PlanItem(item)
	if err != nil {
		return err
	}
	if item < r.ItemStart || item-r.ItemStart >= uint32(r.ItemCount) {
		return fmt.Errorf("bind %s: %w: item %d is not one of %s", t.ID, bindb.ErrInvalid, item, r.ID)
	}
	if it.Ref == "" {
		return fmt.Errorf("bind %s: %w: item %d of %s has no reference", t.ID, bindb.ErrInvalid, item, r.ID)
	}
	if t.OriginPlanRevision == record.RefTo(revision) && t.PlanItem == record.RefTo(item) {
		return nil
	}
	if t.OriginPlanRevision != 0 {
		return statef("%s is bound to another item; unbind it first", t.ID)
	}
	p, err := tx.draft(r.Plan)
	if err != nil {
		return err
	}
	if ok, err := tx.current(&p, it.Ref); err != nil {
		return err
	} else if !ok {
		return statef("the latest revision of %s has no item %.60q any more", p.ID, it.Ref)
	}
	t.OriginPlanRevision, t.PlanItem, t.PlanLinkedAt = record.RefTo(revision), record.RefTo(item), tx.now
	t.Meta.SetPlanned(true)
	return tx.putTask(&t)
}

// UnbindTask takes the binding of an open Task away.
func (tx *Tx) UnbindTask(task uint32) error {
	t, err := tx.Task(task)
	if err != nil || t.OriginPlanRevision == 0 {
		return err
	}
	if !t.Open() {
		return statef("%s is closed", t.ID)
	}
	t.OriginPlanRevision, t.PlanItem, t.PlanLinkedAt = 0, 0, 0
	t.Meta.SetPlanned(false)
	return tx.putTask(&t)
}
