package authority

import (
	"fmt"
	"math"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Plan is what is meant to be done. It is a chain of immutable revisions, of which
// the latest counts.
type Plan struct {
	record.Plan
	Index uint32
	ID    record.Identity
	Title string
}

// Draft reports whether the Plan takes further revisions and Tasks may be bound to
// its items.
func (p *Plan) Draft() bool { return p.Meta.Status() == record.PlanStatusDraft }

// PlanRevision is one immutable version of a Plan.
type PlanRevision struct {
	record.PlanRevision
	Index uint32
	ID    record.Identity
	record.PlanRevisionPayload
}

// PlanItem is one line of a revision.
type PlanItem struct {
	record.PlanItem
	Index uint32
	record.PlanItemPayload
}

// Plan reads one Plan.
func (v *View) Plan(index uint32) (Plan, error) {
	rec, err := bindb.Plans.Get(v, index)
	if err != nil {
		return Plan{}, err
	}
	var p record.PlanPayload
	if err := readPayload(v, bindb.PlanPayload, rec.PayloadOffset, rec.PayloadLen, &p); err != nil {
		return Plan{}, err
	}
	return Plan{rec, index, record.PlanIdentity(index), p.Title}, nil
}

// Plans lists all Plans in order of index.
func (v *View) Plans() ([]Plan, error) {
	var list []Plan
	err := bindb.Plans.All(v, func(i uint32, _ *record.Plan) error {
		p, err := v.Plan(i)
		list = append(list, p)
		return err
	})
	return list, err
}

// PlanRevision reads one revision without its items.
func (v *View) PlanRevision(index uint32) (PlanRevision, error) {
	r := PlanRevision{Index: index, ID: record.PlanRevisionIdentity(index)}
	var err error
	if r.PlanRevision, err = bindb.PlanRevisions.Get(v, index); err != nil {
		return r, err
	}
	return r, readPayload(v, bindb.PlanRevisionPayload, r.PayloadOffset, r.PayloadLen, &r.PlanRevisionPayload)
}

// LatestRevision reads the revision of a Plan that counts.
func (v *View) LatestRevision(p *Plan) (PlanRevision, error) {
	i, ok := p.LatestRevision.Index()
	if !ok {
		return PlanRevision{}, &bindb.RecordError{File: bindb.Plans.File(), Index: p.Index, Err: fmt.Errorf("it has no revision")}
	}
	return v.PlanRevision(i)
}

// Revisions lists the revisions of a Plan, oldest first.
func (v *View) Revisions(p *Plan) ([]PlanRevision, error) {
	return walk(p.LatestRevision, v.PlanRevision, func(r PlanRevision) record.Ref { return r.Previous })
}

// PlanItem reads one item.
func (v *View) PlanItem(index uint32) (PlanItem, error) {
	it := PlanItem{Index: index}
	var err error
	if it.PlanItem, err = bindb.PlanItems.Get(v, index); err != nil {
		return it, err
	}
	return it, readPayload(v, bindb.PlanItemPayload, it.PayloadOffset, it.PayloadLen, &it.PlanItemPayload)
}

// Items lists the items of a revision in their order.
func (v *View) Items(r *PlanRevision) ([]PlanItem, error) {
	list := make([]PlanItem, 0, r.ItemCount)
	for i := range uint32(r.ItemCount) {
		it, err := v.PlanItem(r.ItemStart + i)
		if err != nil {
			return nil, err
		}
		list = append(list, it)
	}
	return list, nil
}

// ItemByRef finds the item of a revision whose reference is exactly ref. An empty
// ref names none.
func (v *View) ItemByRef(r *PlanRevision, ref string) (PlanItem, bool, error) {
	for i := range uint32(r.ItemCount) {
		it, err := v.PlanItem(r.ItemStart + i)
		if err != nil || ref != "" && it.Ref == ref {
			return it, err == nil, err
		}
	}
	return PlanItem{}, false, nil
}

// RevisionSpec describes a new revision of a Plan.
type RevisionSpec struct {
	Summary string // may be empty
	// ArtifactPath, Selector and Heading say where the Plan was read from, and
	// ArtifactBlob what was there; all may be empty.
	ArtifactPath, ArtifactSelector, ArtifactHeading, ArtifactBlob string
	Items                                                         []ItemSpec
}

// ItemSpec describes one item of a new revision.
type ItemSpec struct {
	// Ref names the item across revisions. It may be empty; then no Task can be
	// bound to the item. No two items of a revision have the same one.
	Ref      string
	Text     string
	Headings []string // above the item, outermost first
	State    record.PlanItemState
	Taskable bool   // a hint that a Task should take it up
	Line     uint32 // of the artifact, 0 when unknown
}

// CreatePlan creates a Plan with its first revision.
func (tx *Tx) CreatePlan(title string, first RevisionSpec) (index uint32, err error) {
	if err := tx.beginsWork(); err != nil {
		return 0, err
	}
	if title == "" {
		return 0, fmt.Errorf("plan: %w: it needs a title", bindb.ErrInvalid)
	}
	if err := first.check(); err != nil {
		return 0, err
	}
	if index, err = bindb.Plans.Count(tx); err != nil {
		return 0, err
	}
	defer tx.writes(&err)
	revision, err := tx.addRevision(index, title, 1, 0, first)
	if err != nil {
		return 0, err
	}
	off, n, err := addPayload(tx, bindb.PlanPayload, &record.PlanPayload{Title: title})
	if err != nil {
		return 0, err
	}
	return bindb.Plans.Append(tx.tx, record.Plan{
		PayloadOffset: off, PayloadLen: n, LatestRevision: record.RefTo(revision), CreatedAt: tx.now, UpdatedAt: tx.now,
	})
}

// RevisePlan appends a revision, which is the latest one from then on.
func (tx *Tx) RevisePlan(plan uint32, s RevisionSpec) (revision uint32, err error) {
	p, err := tx.draft(plan)
	if err != nil {
		return 0, err
	}
	if err := s.check(); err != nil {
		return 0, err
	}
	latest, err := tx.LatestRevision(&p)
	if err != nil {
		return 0, err
	}
	if latest.Number == math.MaxUint16 {
		return 0, fmt.Errorf("%s: %w: it has %d revisions", p.ID, bindb.ErrCapacity, latest.Number)
	}
	defer tx.writes(&err)
	if revision, err = tx.addRevision(plan, p.Title, latest.Number+1, record.RefTo(latest.Index), s); err != nil {
		return 0, err
	}
	p.LatestRevision = record.RefTo(revision)
	return revision, tx.putPlan(&p)
}

// RetitlePlan gives a Plan another title. Its revisions keep the one they were
// made under.
func (tx *Tx) RetitlePlan(plan uint32, title string) (err error) {
	p, err := tx.draft(plan)
	if err != nil || p.Title == title {
		return err
	}
	if title == "" {
		return fmt.Errorf("plan: %w: it needs a title", bindb.ErrInvalid)
	}
	defer tx.writes(&err)
	if p.PayloadOffset, p.PayloadLen, err = addPayload(tx, bindb.PlanPayload, &record.PlanPayload{Title: title}); err != nil {
		return err
	}
	return tx.putPlan(&p)
}

// ArchivePlan puts a Plan aside; Tasks that are bound to it stay so.
func (tx *Tx) ArchivePlan(plan uint32) error { return tx.endPlan(plan, record.PlanStatusArchived) }

// SupersedePlan puts a Plan aside because another one takes its place.
func (tx *Tx) SupersedePlan(plan uint32) error { return tx.endPlan(plan, record.PlanStatusSuperseded) }

func (tx *Tx) endPlan(plan uint32, status record.PlanStatus) error {
	p, err := tx.Plan(plan)
	if err != nil || p.Meta.Status() == status {
		return err
	}
	if !p.Draft() {
		return statef("%s is %s", p.ID, p.Meta.Status())
	}
	p.Meta.SetStatus(status)
	return tx.putPlan(&p)
}

// draft reads a Plan that may still change.
func (tx *Tx) draft(plan uint32) (Plan, error) {
	p, err := tx.Plan(plan)
	if err == nil && !p.Draft() {
		err = statef("%s is %s", p.ID, p.Meta.Status())
	}
	return p, err
}

func (tx *Tx) putPlan(p *Plan) error {
	p.UpdatedAt = max(tx.now, p.UpdatedAt)
	return bindb.Plans.Put(tx.tx, p.Index, p.Plan)
}

// check refuses what no revision can hold.
func (s *RevisionSpec) check() error {
	if len(s.Items) > math.MaxUint16 {
		return fmt.Errorf("plan: %w: it has %d items, at most %d fit", bindb.ErrCapacity, len(s.Items), math.MaxUint16)
	}
	seen := make(map[string]int, len(s.Items))
	for i, it := range s.Items {
		if !it.State.Valid() {
			return fmt.Errorf("plan item %d: %w: unknown state %d", i+1, bindb.ErrInvalid, it.State)
		}
		if it.Ref == "" {
			continue
		}
		if other, there := seen[it.Ref]; there {
			return fmt.Errorf("plan item %d: %w: item %d has the reference %.60q too", i+1, bindb.ErrInvalid, other+1, it.Ref)
		}
		seen[it.Ref] = i
	}
	return nil
}

func (tx *Tx) addRevision(plan uint32, title string, number uint16, previous record.Ref, s RevisionSpec) (uint32, error) {
	start, err := bindb.PlanItems.Count(tx)
	if err != nil {
		return 0, err
	}
	for _, it := range s.Items {
		off, n, err := addPayload(tx, bindb.PlanItemPayload, &record.PlanItemPayload{Ref: it.Ref, Text: it.Text, Headings: it.Headings})
		if err != nil {
			return 0, err
		}
		rec := record.PlanItem{PayloadOffset: off, PayloadLen: n, LineNumber: it.Line}
		rec.Meta.SetState(it.State)
		rec.Meta.SetHasRef(it.Ref != "")
		rec.Meta.SetTaskableHint(it.Taskable)
		if _, err := bindb.PlanItems.Append(tx.tx, rec); err != nil {
			return 0, err
		}
	}
	off, n, err := addPayload(tx, bindb.PlanRevisionPayload, &record.PlanRevisionPayload{
		TitleSnapshot: title, Summary: s.Summary, ArtifactPath: s.ArtifactPath, ArtifactSelector: s.ArtifactSelector,
		ArtifactHeading: s.ArtifactHeading, ArtifactBlobID: s.ArtifactBlob,
	})
	if err != nil {
		return 0, err
	}
	return bindb.PlanRevisions.Append(tx.tx, record.PlanRevision{
		PayloadOffset: off, PayloadLen: n, Number: number, ItemCount: uint16(len(s.Items)), Plan: plan, Previous: previous,
		ItemStart: start, CreatedAt: tx.now,
	})
}
