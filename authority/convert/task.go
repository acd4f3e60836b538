package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// rankTasks orders Tasks by sequence number.
func (l *legacy) rankTasks() error {
	for i := range l.doc.Tasks {
		row, p := &l.doc.Tasks[i], l.at("tasks", i)
		if err := l.repository(p, row.RepoName, row.RepoID); err != nil {
			return err
		}
		if row.Seq < 1 || row.Seq > record.MaxTargets {
			return p.bad("task_seq", "is %d, want a number from 1", row.Seq)
		}
		id, err := l.identity(p, "task_id", row.TaskID, record.ObjectTask)
		if err != nil {
			return err
		}
		if want := record.TaskIdentity(l.ns, row.Seq-1); id != want {
			return p.bad("task_id", "is %q, want %s, since task_seq is %d", row.TaskID, want, row.Seq)
		}
		l.tasks = append(l.tasks, ranked[taskRow]{row: row, at: p, id: id})
	}
	slices.SortStableFunc(l.tasks, func(a, b ranked[taskRow]) int { return cmp.Compare(a.row.Seq, b.row.Seq) })
	for i, t := range l.tasks {
		if i > 0 && l.tasks[i-1].row.Seq == t.row.Seq {
			return t.at.bad("task_seq", "is %d, which tasks[%d] has too", t.row.Seq, l.tasks[i-1].at.row)
		}
		// The index of a Task is its number, so that a gap would rename it.
		if int64(t.row.Seq) != int64(i)+1 && !l.open(GateRenumberedTasks, t.id) {
			return t.at.bad("task_seq", "is %d, want %d: there is a gap, and %s would become %s (the gate %s allows it)",
				t.row.Seq, i+1, t.id, record.TaskIdentity(l.ns, uint32(i)), GateRenumberedTasks)
		}
		l.taskAt[t.id] = uint32(i)
	}
	return nil
}

func (l *legacy) addTasks() error {
	for _, t := range l.tasks {
		if err := l.addTask(t); err != nil {
			return err
		}
	}
	return nil
}

func (l *legacy) addTask(t ranked[taskRow]) (err error) {
	row, p := t.row, t.at
	rec := record.Task{ClosedAt: row.ClosedAt.Seconds}
	switch row.Status {
	case "active":
	case "completed":
		rec.Meta.SetCompleted(true)
	case "abandoned":
		rec.Meta.SetCanceled(true)
	case "canceled":
		if !l.open(GateCanceledTasks, t.id) {
			return p.bad("status", "is canceled, which is refused unless the gate %s allows it", GateCanceledTasks)
		}
		rec.Meta.SetCanceled(true)
	default:
		return p.bad("status", "is %.40q, want active, completed or abandoned", row.Status)
	}
	if row.ClosedAt.set && !rec.Meta.Terminal() {
		return p.bad("closed_at", "is a time, want null while the Task is active")
	}
	switch row.Planning {
	case "planned":
		rec.Meta.SetPlanned(true)
	case "unplanned", "explicit_unplanned":
	default:
		return p.bad("planning_state", "is %.40q, want planned, unplanned or explicit_unplanned", row.Planning)
	}
	if rec.CreatedAt, err = p.required("created_at", row.CreatedAt); err != nil {
		return err
	}
	if rec.UpdatedAt, err = p.required("updated_at", row.UpdatedAt); err != nil {
		return err
	}
	rec.FetchedAt = rec.CreatedAt
	if err := l.bindPlan(p, row, &rec); err != nil {
		return err
	}
	field := "title"
	if row.Intent == "" {
		field = "intent"
	}
	var n int
	if rec.PayloadOffset, n, err = l.addText(p, field, bindb.TaskPayload, &record.TaskPayload{Title: row.Title, Intent: row.Intent}); err != nil {
		return err
	}
	rec.PayloadLen = uint16(n)
	_, err = addRecord(l, p, &rec)
	return err
}

// bindPlan resolves the Plan item of a Task: a revision by index, and in it the
// one item with exactly this reference.
func (l *legacy) bindPlan(p place, row *taskRow, rec *record.Task) error {
	switch {
	case row.Revision == nil && row.PlanItem == nil && row.PlanID == nil && !row.PlanLinkedAt.set:
		return nil
	case row.Revision == nil:
		return p.bad("origin_plan_revision_id", "is null, but the Task is bound to a Plan by its other members")
	case row.PlanItem == nil:
		return p.bad("plan_item_ref", "is null, but origin_plan_revision_id is not")
	case !row.PlanLinkedAt.set:
		return p.bad("plan_linked_at", "is null, want the time of the binding to the Plan item")
	case !rec.Meta.Planned():
		return p.bad("planning_state", "is %s, but the Task is bound to a Plan item", row.Planning)
	}
	at, err := number(p, "origin_plan_revision_id", *row.Revision, "plan-revision:")
	if err != nil {
		return err
	}
	n, err := size[record.PlanRevision](l.content)
	if err != nil {
		return err
	}
	if at >= n {
		return p.bad("origin_plan_revision_id", "is %s, but there are %d revisions", *row.Revision, n)
	}
	rev, err := get[record.PlanRevision](l.content, at)
	if err != nil {
		return err
	}
	if err := p.same("plan_id", row.PlanID, fmt.Sprintf("PR-%d", rev.Plan)); err != nil {
		return err
	}
	items, err := list[record.PlanItem](l.content, rev.ItemStart, uint32(rev.ItemCount))
	if err != nil {
		return err
	}
	for i, item := range items {
		var text record.PlanItemPayload
		if err := l.content.text("plan_item_payload.bin", item.PayloadOffset, int(item.PayloadLen), &text); err != nil {
			return err
		}
		if text.Ref != *row.PlanItem {
			continue
		}
		if rec.PlanItem != 0 {
			return p.bad("plan_item_ref", "is %.80q, which several items of revision %d have", *row.PlanItem, at)
		}
		rec.PlanItem = record.RefTo(rev.ItemStart + uint32(i))
	}
	if rec.PlanItem == 0 {
		return p.bad("plan_item_ref", "is %.80q, which no item of revision %d has", *row.PlanItem, at)
	}
	rec.OriginPlanRevision, rec.PlanLinkedAt = record.RefTo(at), row.PlanLinkedAt.Seconds
	return nil
}

// number reads a canonical index behind a prefix.
func number(p place, field, text, prefix string) (uint32, error) {
	digits, ok := strings.CutPrefix(text, prefix)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, p.bad(field, "is %.60q, want %s and an index", text, prefix)
	}
	return uint32(n), nil
}
