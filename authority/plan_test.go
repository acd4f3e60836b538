package authority_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

func revision(refs ...string) authority.RevisionSpec {
	s := authority.RevisionSpec{Summary: "sum", ArtifactPath: "PLAN.md", ArtifactSelector: "main", ArtifactHeading: "Head", ArtifactBlob: "BLB-00"}
	for i, ref := range refs {
		s.Items = append(s.Items, authority.ItemSpec{
			Ref: ref, Text: "do " + ref, Headings: []string{"One", "Two"}, State: record.PlanItemStateDone, Taskable: true, Line: uint32(i) + 1,
		})
	}
	return s
}

func plan(b *authoritytest.Bundle, title string, s authority.RevisionSpec) (index uint32) {
	b.TB.Helper()
	b.Update(func(tx *authority.Tx) (err error) { index, err = tx.CreatePlan(title, s); return err })
	return index
}

// item is the revision that counts in a Plan, with its item of that reference.
func item(b *authoritytest.Bundle, plan uint32, ref string) (revision, item uint32) {
	b.TB.Helper()
	b.View(func(v *authority.View) error {
		p, err := v.Plan(plan)
		if err != nil {
			return err
		}
		r, err := v.LatestRevision(&p)
		if err != nil {
			return err
		}
		it, ok, err := v.ItemByRef(&r, ref)
		if !ok {
			b.TB.Fatalf("no item %q", ref)
		}
		revision, item = r.Index, it.Index
		return err
	})
	return revision, item
}

func TestPlan(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	first := plan(b, "First", revision("a", "b"))
	other := plan(b, "Other", authority.RevisionSpec{})
	b.Clock.Advance(5e9)
	b.Update(func(tx *authority.Tx) error {
		r, err := tx.RevisePlan(first, revision("b", "c", "d"))
		if err == nil && r != 2 {
			t.Errorf("revision %d", r)
		}
		return err
	})
	b.Update(func(tx *authority.Tx) error { return tx.RetitlePlan(first, "Renamed") })
	b.Update(func(tx *authority.Tx) error { return tx.RetitlePlan(first, "Renamed") }) // nothing to do
	b.View(func(v *authority.View) error {
		p, err := v.Plan(first)
		if err != nil {
			return err
		}
		if p.ID.String() != "PR-0" || p.Title != "Renamed" || !p.Draft() || p.UpdatedAt != p.CreatedAt+5 {
			t.Errorf("plan %+v", p)
		}
		list, err := v.Revisions(&p)
		if err != nil || len(list) != 2 {
			t.Fatalf("%d revisions, %v", len(list), err)
		}
		old, now := list[0], list[1]
		if old.ID.String() != "plan-revision:0" || old.Number != 1 || now.Number != 2 || now.Previous != record.RefTo(0) ||
			old.TitleSnapshot != "First" || now.ArtifactBlobID != "BLB-00" || now.Summary != "sum" || now.ArtifactSelector != "main" {
			t.Errorf("revisions %+v %+v", old, now)
		}
		items, err := v.Items(&now)
		if err != nil || len(items) != 3 {
			t.Fatalf("%d items, %v", len(items), err)
		}
		it := items[1]
		if it.Ref != "c" || it.Text != "do c" || !slices.Equal(it.Headings, []string{"One", "Two"}) || it.LineNumber != 2 ||
			it.Meta.State() != record.PlanItemStateDone || !it.Meta.HasRef() || !it.Meta.TaskableHint() {
			t.Errorf("item %+v", it)
		}
		if _, ok, err := v.ItemByRef(&now, "a"); ok || err != nil {
			t.Errorf("an item of the old revision is found in the new one: %v", err)
		}
		if _, ok, err := v.ItemByRef(&now, ""); ok || err != nil {
			t.Errorf("an empty reference finds an item: %v", err)
		}
		plans, err := v.Plans()
		if len(plans) != 2 || plans[1].Index != other {
			t.Errorf("%d plans", len(plans))
		}
		return err
	})
	b.Update(func(tx *authority.Tx) error {
		if err := tx.ArchivePlan(first); err != nil {
			return err
		}
		return tx.SupersedePlan(other)
	})
	b.Update(func(tx *authority.Tx) error { return tx.ArchivePlan(first) }) // nothing to do
	long := strings.Repeat("x", 65536)
	for name, c := range map[string]struct {
		want error
		verb func(*authority.Tx) error
	}{
		"revise an archived plan":   {authority.ErrState, func(tx *authority.Tx) error { _, err := tx.RevisePlan(first, revision("a")); return err }},
		"revise a superseded plan":  {authority.ErrState, func(tx *authority.Tx) error { _, err := tx.RevisePlan(other, revision("a")); return err }},
		"retitle an archived plan":  {authority.ErrState, func(tx *authority.Tx) error { return tx.RetitlePlan(first, "x") }},
		"supersede an archived one": {authority.ErrState, func(tx *authority.Tx) error { return tx.SupersedePlan(first) }},
		"revise nothing":            {bindb.ErrNotFound, func(tx *authority.Tx) error { _, err := tx.RevisePlan(9, revision("a")); return err }},
		"retitle nothing":           {bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.RetitlePlan(9, "x") }},
		"archive nothing":           {bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.ArchivePlan(9) }},
		"no title":                  {bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.CreatePlan("", revision("a")); return err }},
		"the same reference twice":  {bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.CreatePlan("x", revision("a", "b", "a")); return err }},
		"a long title":              {bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.CreatePlan(long, revision("a")); return err }},
		"a long item":               {bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.CreatePlan("x", revision(long)); return err }},
		"text that is not UTF-8":    {bindb.ErrInvalid, func(tx *authority.Tx) error { _, err := tx.CreatePlan("x", revision("\xff")); return err }},
		"a long summary": {bindb.ErrInvalid, func(tx *authority.Tx) error {
			_, err := tx.CreatePlan("x", authority.RevisionSpec{Summary: long})
			return err
		}},
		"a state without a name": {bindb.ErrInvalid, func(tx *authority.Tx) error {
			_, err := tx.CreatePlan("x", authority.RevisionSpec{Items: []authority.ItemSpec{{Text: "x", State: 3}}})
			return err
		}},
		"too many items": {bindb.ErrCapacity, func(tx *authority.Tx) error {
			_, err := tx.CreatePlan("x", authority.RevisionSpec{Items: make([]authority.ItemSpec, 65536)})
			return err
		}},
	} {
		t.Log(name)
		wantErr(t, b.Repo, c.want, c.verb)
	}
}

// TestRevisionsEnd: numbers are sixteen bits wide.
func TestRevisionsEnd(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := plan(b, "Long", authority.RevisionSpec{})
	for range 15 {
		b.Update(func(tx *authority.Tx) error {
			for range 4369 - 1 {
				if _, err := tx.RevisePlan(p, authority.RevisionSpec{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.Update(func(tx *authority.Tx) error {
		at, err := tx.Plan(p)
		if err != nil {
			return err
		}
		r, err := tx.LatestRevision(&at)
		for n := r.Number; err == nil && n < 65535; n++ {
			_, err = tx.RevisePlan(p, authority.RevisionSpec{})
		}
		return err
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error { _, err := tx.RevisePlan(p, authority.RevisionSpec{}); return err })
}

// TestWidestPlan: a revision with as many items as it can count.
func TestWidestPlan(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := plan(b, "Wide", authority.RevisionSpec{Items: make([]authority.ItemSpec, 65535)})
	b.View(func(v *authority.View) error {
		at, err := v.Plan(p)
		if err != nil {
			return err
		}
		r, err := v.LatestRevision(&at)
		if err != nil {
			return err
		}
		items, err := v.Items(&r)
		if len(items) != 65535 {
			t.Errorf("%d items", len(items))
		}
		return err
	})
}

func binding(b *authoritytest.Bundle, task uint32) (x *authority.Binding) {
	b.TB.Helper()
	b.View(func(v *authority.View) error {
		t, err := v.Task(task)
		if err != nil {
			return err
		}
		x, err = v.Binding(&t)
		if (x != nil) != t.Meta.Planned() {
			b.TB.Errorf("planned: %t, bound: %t", t.Meta.Planned(), x != nil)
		}
		return err
	})
	return x
}

func TestBindTask(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	task, closed := b.Publish().Task, b.Publish().Task
	p := plan(b, "Plan", revision("a", "b", "c", ""))
	q := plan(b, "Other", revision("a"))
	r, a := item(b, p, "a")
	_, second := item(b, p, "b")
	otherRevision, otherItem := item(b, q, "a")
	b.Update(func(tx *authority.Tx) error { return tx.CompleteTask(closed) })
	for name, c := range map[string]struct {
		want                 error
		task, revision, item uint32
	}{
		"unknown task":             {bindb.ErrNotFound, 99, r, a},
		"unknown revision":         {bindb.ErrNotFound, task, 99, a},
		"unknown item":             {bindb.ErrNotFound, task, r, 99},
		"item of another revision": {bindb.ErrInvalid, task, r, otherItem},
		"item before the revision": {bindb.ErrInvalid, task, otherRevision, a},
		"item without reference":   {bindb.ErrInvalid, task, r, a + 3},
		"closed task":              {authority.ErrState, closed, r, a},
	} {
		t.Log(name)
		wantErr(t, b.Repo, c.want, func(tx *authority.Tx) error { return tx.BindTask(c.task, c.revision, c.item) })
	}
	b.Clock.Advance(1e9)
	b.Update(func(tx *authority.Tx) error { return tx.BindTask(task, r, a) })
	b.Update(func(tx *authority.Tx) error { return tx.BindTask(task, r, a) }) // nothing to do
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.BindTask(task, r, second) })
	x := binding(b, task)
	if x == nil || !x.Taskable || x.Item.Ref != "a" || x.Plan.Index != p || x.Revision.Index != r || x.LinkedAt != record.Seconds(b.Clock.Now().Unix()) {
		t.Fatalf("binding %+v", x)
	}
	// A revision that keeps the reference keeps the binding; one that does not makes
	// it mean nothing, until it is back, byte by byte.
	for _, step := range []struct {
		refs     []string
		taskable bool
	}{{[]string{"x", "a"}, true}, {[]string{"A"}, false}, {[]string{"a "}, false}, {[]string{"a"}, true}} {
		b.Update(func(tx *authority.Tx) error { _, err := tx.RevisePlan(p, revision(step.refs...)); return err })
		if x := binding(b, task); x.Taskable != step.taskable || x.Revision.Index != r {
			t.Errorf("after the items became %q: %+v", step.refs, x)
		}
	}
	// An item of an old revision can be bound as long as the latest has it.
	b.Update(func(tx *authority.Tx) error { return tx.UnbindTask(task) })
	b.Update(func(tx *authority.Tx) error { return tx.UnbindTask(task) }) // nothing to do
	if x := binding(b, task); x != nil {
		t.Errorf("unbound: %+v", x)
	}
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.BindTask(task, r, second) })
	b.Update(func(tx *authority.Tx) error { return tx.BindTask(task, r, a) })
	b.Update(func(tx *authority.Tx) error { return tx.ArchivePlan(p) })
	if x := binding(b, task); x == nil || x.Taskable {
		t.Errorf("bound to an archived plan: %+v", x)
	}
	b.Update(func(tx *authority.Tx) error { return tx.UnbindTask(task) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.BindTask(task, r, a) })
	b.Update(func(tx *authority.Tx) error {
		if err := tx.BindTask(task, otherRevision, otherItem); err != nil {
			return err
		}
		return tx.CancelTask(task)
	})
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error { return tx.UnbindTask(task) })
	wantErr(t, b.Repo, bindb.ErrNotFound, func(tx *authority.Tx) error { return tx.UnbindTask(99) })
}

func TestLinks(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p, q := b.Publish(), b.Publish()
	flags := record.PolicyFlags(0)
	flags.SetRequireAIProvenance(true)
	var published authoritytest.Published
	b.Update(func(tx *authority.Tx) (err error) {
		published = p
		published.Patchset, err = tx.Publish(authority.PatchsetSpec{
			Change: p.Change, Base: p.Revision, Revision: p.Revision, Summary: "s", AuthorMode: record.AuthorModeAIOnlyExperimental,
		})
		if err != nil {
			return err
		}
		return tx.SelectPatchset(published.Patchset)
	})
	link := func(s authority.LinkSpec) {
		t.Helper()
		s.Task, s.Snapshot = p.Task, p.Revision
		b.Update(func(tx *authority.Tx) error { _, err := tx.LinkSnapshot(s); return err })
	}
	link(authority.LinkSpec{Session: true, Checkpoint: true})
	link(authority.LinkSpec{Session: true, Model: "m"})
	if e, _ := decide(b, published.Patchset, flags); e.Decision != record.DecisionKindPending {
		t.Errorf("without a model or a checkpoint: %s", e.Decision)
	}
	if e, _ := decide(b, published.Patchset, 0); e.Decision != record.DecisionKindPass {
		t.Errorf("without the rule: %s", e.Decision)
	}
	link(authority.LinkSpec{
		Change: record.RefTo(p.Change), Session: true, Checkpoint: true, Worktree: "w", Line: "l", AuthorMode: "ai_only_experimental", Model: "m",
	})
	b.View(func(v *authority.View) error {
		got, err := v.Patchset(published.Patchset)
		if err != nil || !got.Meta.EvaluationPending() {
			t.Errorf("the decision is still current: %v", err)
		}
		list, err := v.Links(p.Task)
		if err != nil || len(list) != 3 {
			t.Fatalf("%d links, %v", len(list), err)
		}
		l := list[2]
		if l.Ordinal != 2 || l.WorktreeName != "w" || l.LineName != "l" || l.AuthorMode != "ai_only_experimental" || l.ModelName != "m" ||
			l.Change != record.RefTo(p.Change) || l.Snapshot != p.Revision {
			t.Errorf("link %+v", l)
		}
		return err
	})
	if !task(b, p.Task).Meta.Snapshotted() {
		t.Error("the task is not marked as snapshotted")
	}
	if e, _ := decide(b, published.Patchset, flags); e.Decision != record.DecisionKindPass {
		t.Errorf("with provenance: %s", e.Decision)
	}
	for name, c := range map[string]struct {
		want error
		s    authority.LinkSpec
	}{
		"unknown task":           {bindb.ErrNotFound, authority.LinkSpec{Task: 99, Snapshot: p.Revision}},
		"unknown snapshot":       {bindb.ErrNotFound, authority.LinkSpec{Task: p.Task, Snapshot: 99}},
		"unknown change":         {bindb.ErrNotFound, authority.LinkSpec{Task: p.Task, Snapshot: p.Revision, Change: record.RefTo(99)}},
		"change of another task": {bindb.ErrInvalid, authority.LinkSpec{Task: p.Task, Snapshot: p.Revision, Change: record.RefTo(q.Change)}},
		"unknown author mode":    {bindb.ErrInvalid, authority.LinkSpec{Task: p.Task, Snapshot: p.Revision, AuthorMode: "nobody"}},
		"long text":              {bindb.ErrInvalid, authority.LinkSpec{Task: p.Task, Snapshot: p.Revision, Model: strings.Repeat("x", 65530)}},
	} {
		t.Log(name)
		wantErr(t, b.Repo, c.want, func(tx *authority.Tx) error { _, err := tx.LinkSnapshot(c.s); return err })
	}
	b.Update(func(tx *authority.Tx) error {
		var errs []error
		for range 61 {
			_, err := tx.LinkSnapshot(authority.LinkSpec{Task: p.Task, Snapshot: p.Base})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	wantErr(t, b.Repo, bindb.ErrCapacity, func(tx *authority.Tx) error {
		_, err := tx.LinkSnapshot(authority.LinkSpec{Task: p.Task, Snapshot: p.Base})
		return err
	})
	b.Update(func(tx *authority.Tx) error { return tx.CompleteTask(q.Task) })
	wantErr(t, b.Repo, authority.ErrState, func(tx *authority.Tx) error {
		_, err := tx.LinkSnapshot(authority.LinkSpec{Task: q.Task, Snapshot: q.Base})
		return err
	})
}
