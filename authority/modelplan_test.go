package authority_test

import (
	"pgregory.net/rapid"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// The part of the model that is about Plans, links and further Lines.
type (
	modelPlanning struct {
		plans     []*modelPlan
		revisions []*modelRevision
		items     int
		lines     []*modelLine // those behind main
	}
	modelPlan struct {
		title     string
		status    record.PlanStatus
		revisions []int
	}
	modelRevision struct {
		plan  int
		start int
		refs  []string
	}
	modelItem struct {
		revision, item int
	}
	modelLine struct {
		name              string
		archived, removed bool
	}
)

var refs = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 3, rapid.ID[string])

func (m *machine) addRevision(t *rapid.T, plan int) authority.RevisionSpec {
	list := refs.Draw(t, "refs")
	m.plans[plan].revisions = append(m.plans[plan].revisions, len(m.revisions))
	m.revisions = append(m.revisions, &modelRevision{plan, m.items, list})
	m.items += len(list)
	return revision(list...)
}

func (m *machine) CreatePlan(t *rapid.T) {
	m.plans = append(m.plans, &modelPlan{title: "title"})
	spec := m.addRevision(t, len(m.plans)-1)
	m.update(t, nil, func(tx *authority.Tx) error { _, err := tx.CreatePlan("title", spec); return err })
}

func (p *modelPlan) refused() error {
	if p.status != record.PlanStatusDraft {
		return authority.ErrState
	}
	return nil
}

func (m *machine) RevisePlan(t *rapid.T) {
	i := pick(t, m.plans, "plan")
	want := m.plans[i].refused()
	spec := authority.RevisionSpec{}
	if want == nil {
		spec = m.addRevision(t, i)
	}
	m.update(t, want, func(tx *authority.Tx) error { _, err := tx.RevisePlan(uint32(i), spec); return err })
}

func (m *machine) RetitlePlan(t *rapid.T) {
	i := pick(t, m.plans, "plan")
	title := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "title")
	want := m.plans[i].refused()
	m.update(t, want, func(tx *authority.Tx) error { return tx.RetitlePlan(uint32(i), title) })
	if want == nil {
		m.plans[i].title = title
	}
}

func (m *machine) EndPlan(t *rapid.T) {
	i := pick(t, m.plans, "plan")
	p := m.plans[i]
	status := rapid.SampledFrom([]record.PlanStatus{record.PlanStatusArchived, record.PlanStatusSuperseded}).Draw(t, "status")
	want := p.refused()
	if p.status == status {
		want = nil
	}
	m.update(t, want, func(tx *authority.Tx) error {
		if status == record.PlanStatusArchived {
			return tx.ArchivePlan(uint32(i))
		}
		return tx.SupersedePlan(uint32(i))
	})
	if want == nil {
		p.status = status
	}
}

// current reports whether the latest revision of a Plan has the reference.
func (m *machine) current(p *modelPlan, ref string) bool {
	for _, r := range m.revisions[p.revisions[len(p.revisions)-1]].refs {
		if r == ref {
			return true
		}
	}
	return false
}

func (m *machine) BindTask(t *rapid.T) {
	i := pick(t, m.tasks, "task")
	r := pick(t, m.revisions, "revision")
	rev := m.revisions[r]
	k := pick(t, rev.refs, "item")
	task, plan, ref := m.tasks[i], m.plans[rev.plan], rev.refs[k]
	x := modelItem{r, rev.start + k}
	var want error
	switch {
	case task.status != "open":
		want = authority.ErrState
	case ref == "":
		want = bindb.ErrInvalid
	case task.bound != nil && *task.bound == x:
	case task.bound != nil, plan.status != record.PlanStatusDraft, !m.current(plan, ref):
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return tx.BindTask(uint32(i), uint32(r), uint32(x.item)) })
	if want == nil {
		task.bound = &x
	}
}

func (m *machine) UnbindTask(t *rapid.T) {
	i := pick(t, m.tasks, "task")
	task := m.tasks[i]
	var want error
	if task.bound != nil && task.status != "open" {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return tx.UnbindTask(uint32(i)) })
	if want == nil {
		task.bound = nil
	}
}

func (m *machine) LinkSnapshot(t *rapid.T) {
	i := pick(t, m.patchsets, "patchset")
	p := m.patchsets[i]
	change := m.changes[p.change]
	task := m.tasks[change.task]
	s := authority.LinkSpec{Task: change.task, Snapshot: p.revision, Session: true, Checkpoint: true, Line: "line"}
	if rapid.Bool().Draw(t, "in change") {
		s.Change = record.RefTo(p.change)
	}
	named := rapid.Bool().Draw(t, "model named")
	if named {
		s.Model = "model"
	}
	var want error
	if task.status != "open" {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { _, err := tx.LinkSnapshot(s); return err })
	if want != nil {
		return
	}
	task.links++
	if named {
		m.touch(i) // no other Patchset has this revision
	}
}

// live finds the Line that has a name now.
func (m *machine) live(name string) int {
	for i, l := range m.lines {
		if l.name == name && !l.archived && !l.removed {
			return i
		}
	}
	return -1
}

func (m *machine) AddLine(t *rapid.T) {
	name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "name")
	var want error
	if m.live(name) >= 0 {
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { _, err := tx.AddLine(name); return err })
	if want == nil {
		m.lines = append(m.lines, &modelLine{name: name})
	}
}

// onLine runs a verb about a Line behind main.
func (m *machine) onLine(t *rapid.T, verb func(*authority.Tx, uint32) error, allowed func(*modelLine) bool) *modelLine {
	i := pick(t, m.lines, "line")
	l := m.lines[i]
	var want error
	switch {
	case l.removed:
		want = bindb.ErrNotFound
	case !allowed(l):
		want = authority.ErrState
	}
	m.update(t, want, func(tx *authority.Tx) error { return verb(tx, m.main+1+uint32(i)) })
	if want != nil {
		return nil
	}
	return l
}

func (m *machine) ArchiveLine(t *rapid.T) {
	if l := m.onLine(t, (*authority.Tx).ArchiveLine, func(*modelLine) bool { return true }); l != nil {
		l.archived = true
	}
}

func (m *machine) UnarchiveLine(t *rapid.T) {
	l := m.onLine(t, (*authority.Tx).UnarchiveLine, func(l *modelLine) bool { return !l.archived || m.live(l.name) < 0 })
	if l != nil {
		l.archived = false
	}
}

func (m *machine) RemoveLine(t *rapid.T) {
	if l := m.onLine(t, (*authority.Tx).RemoveLine, func(*modelLine) bool { return true }); l != nil {
		l.removed = true
	}
}

func (m *machine) checkPlanning(t *rapid.T, v *authority.View) error {
	for i, task := range m.tasks {
		got, err := v.Task(uint32(i))
		if err != nil {
			return err
		}
		x, err := v.Binding(&got)
		if err != nil {
			return err
		}
		links, err := v.Links(uint32(i))
		if err != nil {
			return err
		}
		if got.Status() != task.status || (got.ClosedAt != 0) == got.Open() || len(links) != task.links ||
			got.Meta.Snapshotted() != (task.links > 0) || (x != nil) != (task.bound != nil) || got.Meta.Planned() != (x != nil) {
			t.Fatalf("task %d: %+v, %d links, binding %+v, model %+v", i, got, len(links), x, task)
		}
		if x == nil {
			continue
		}
		rev := m.revisions[task.bound.revision]
		plan := m.plans[rev.plan]
		ref := rev.refs[task.bound.item-rev.start]
		taskable := plan.status == record.PlanStatusDraft && m.current(plan, ref)
		if int(x.Revision.Index) != task.bound.revision || int(x.Item.Index) != task.bound.item || x.Item.Ref != ref ||
			int(x.Plan.Index) != rev.plan || x.Taskable != taskable {
			t.Fatalf("binding of task %d: %+v, want %+v, taskable %t", i, x, task.bound, taskable)
		}
	}
	for i, p := range m.plans {
		got, err := v.Plan(uint32(i))
		if err != nil {
			return err
		}
		list, err := v.Revisions(&got)
		if err != nil || len(list) != len(p.revisions) || got.Title != p.title || got.Meta.Status() != p.status {
			t.Fatalf("plan %d: %+v with %d revisions, %v; model %+v", i, got, len(list), err, p)
		}
		for j, r := range list {
			want := m.revisions[p.revisions[j]]
			items, err := v.Items(&r)
			if err != nil || int(r.Index) != p.revisions[j] || int(r.Number) != j+1 || len(items) != len(want.refs) {
				t.Fatalf("revision %d of plan %d: %+v, %v", j, i, r, err)
			}
			for k, it := range items {
				if it.Ref != want.refs[k] {
					t.Fatalf("item %d of revision %d is %q, want %q", k, r.Index, it.Ref, want.refs[k])
				}
			}
		}
	}
	for i, l := range m.lines {
		got, err := v.Line(m.main + 1 + uint32(i))
		if l.removed != (err != nil) || err == nil && (got.Name != l.name || got.Meta.Archived() != l.archived) {
			t.Fatalf("line %d: %+v, %v, model %+v", i, got, err, l)
		}
	}
	return nil
}
