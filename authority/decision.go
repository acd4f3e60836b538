package authority

import (
	"fmt"
	"math"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Decision is one stored policy decision.
type Decision struct {
	record.PolicyDecision
	Index  uint32
	ID     record.Identity
	Checks []record.PolicyCheck
}

// Kind is what was decided.
func (d *Decision) Kind() record.DecisionKind { return d.Meta.Decision() }

// Decision returns the newest live decision about a Patchset, or nil.
func (v *View) Decision(p *Patchset) (*Decision, error) {
	row, err := bindb.PatchsetPolicies.Get(v, p.Index)
	if err != nil {
		return nil, err
	}
	ref := row.Latest
	for range row.Count {
		i, ok := ref.Index()
		if !ok {
			break
		}
		d, err := v.decision(p, i)
		if err != nil {
			return nil, err
		}
		if !d.Meta.Tombstoned() {
			return &d, nil
		}
		ref = d.PreviousInPatchset
	}
	return nil, nil
}

// Decisions lists the live decisions about a Patchset, oldest first.
func (v *View) Decisions(p *Patchset) ([]Decision, error) {
	row, err := bindb.PatchsetPolicies.Get(v, p.Index)
	if err != nil {
		return nil, err
	}
	list, err := walk(row.Latest, func(i uint32) (Decision, error) { return v.decision(p, i) },
		func(d Decision) record.Ref { return d.PreviousInPatchset })
	return live(list, func(d Decision) bool { return d.Meta.Tombstoned() }), err
}

func (v *View) decision(p *Patchset, index uint32) (Decision, error) {
	rec, err := bindb.PolicyDecisions.Get(v, index)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{PolicyDecision: rec, Index: index, ID: p.ID.PolicyDecision(rec.Ordinal)}
	if first, ok := rec.FirstCheck.Index(); ok {
		err = bindb.PolicyChecks.Scan(v, first, first+uint32(rec.CheckCount), func(_ uint32, c *record.PolicyCheck) error {
			d.Checks = append(d.Checks, *c)
			return nil
		})
	}
	return d, err
}

// Facts gathers the records that a decision about a Patchset depends on, with the
// Waivers that are active at the given instant.
func (v *View) Facts(patchset uint32, now record.Seconds) (Facts, error) {
	var f Facts
	var err error
	if f.Patchset, err = v.Patchset(patchset); err != nil {
		return f, err
	}
	if f.Attestation, err = v.Attestation(&f.Patchset); err != nil {
		return f, err
	}
	if f.Reviews, err = v.Reviews(&f.Patchset); err != nil {
		return f, err
	}
	waivers, err := v.Waivers(&f.Patchset)
	if err != nil {
		return f, err
	}
	f.Waivers = live(waivers, func(w Waiver) bool { return !w.ActiveAt(now) })
	f.Provenance, err = v.provenance(&f.Patchset)
	return f, err
}

// provenance looks for a live link of the revision Snapshot that names session,
// checkpoint and model.
func (v *View) provenance(p *Patchset) (bool, error) {
	links, err := v.Links(p.Task)
	return slices.ContainsFunc(links, func(l Link) bool {
		return l.Snapshot == p.RevisionSnapshot && l.provenance()
	}), err
}

// Decide evaluates a Patchset and records the decision with its checks. An
// evaluation that gives the same as the latest decision appends none, because
// ordinals end at 64, and returns that one. The error is bindb.ErrCapacity when
// they have ended; the content must be published as another Patchset then.
func (tx *Tx) Decide(patchset uint32, in PolicyInput) (e *Evaluation, latest *Decision, err error) {
	f, err := tx.Facts(patchset, tx.now)
	if err != nil {
		return nil, nil, err
	}
	e = Evaluate(in, f)
	if len(e.Checks) > math.MaxUint16 {
		return nil, nil, statef("%s has %d checks, at most %d fit", f.Patchset.ID, len(e.Checks), math.MaxUint16)
	}
	if latest, err = tx.Decision(&f.Patchset); err != nil {
		return nil, nil, err
	}
	defer tx.writes(&err)
	if latest == nil || latest.Kind() != e.Decision || !slices.Equal(latest.Checks, e.Checks) {
		if latest, err = tx.addDecision(&f.Patchset, e); err != nil {
			return nil, nil, err
		}
	}
	return e, latest, tx.settleDecision(f.Patchset, e)
}

func (tx *Tx) addDecision(p *Patchset, e *Evaluation) (*Decision, error) {
	index, err := bindb.PolicyDecisions.Count(tx)
	if err != nil {
		return nil, err
	}
	inPatchset, ordinal, err := linkOrdinal(tx, bindb.PatchsetPolicies, p.Index, index)
	if err != nil {
		return nil, fmt.Errorf("decide on %s, which must be published anew once its decisions are used up: %w", p.ID, err)
	}
	inTask, err := linkInventory(tx, bindb.TaskPolicies, p.Task, index)
	if err != nil {
		return nil, err
	}
	first, err := bindb.PolicyChecks.Count(tx)
	if err != nil {
		return nil, err
	}
	for _, c := range e.Checks {
		if _, err := bindb.PolicyChecks.Append(tx.tx, c); err != nil {
			return nil, err
		}
	}
	rec := record.PolicyDecision{
		Ordinal: ordinal, PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Patchset: p.Index,
		PreviousInTask: inTask, PreviousInPatchset: inPatchset,
		FirstCheck: record.RefTo(first), CheckCount: uint16(len(e.Checks)), CreatedAt: tx.now,
	}
	rec.Meta.SetDecision(e.Decision)
	if _, err := bindb.PolicyDecisions.Append(tx.tx, rec); err != nil {
		return nil, err
	}
	return &Decision{rec, index, p.ID.PolicyDecision(ordinal), e.Checks}, nil
}

// settleDecision brings Patchset and Change in line with a decision (section
// 16.7). Records that already agree are left alone.
func (tx *Tx) settleDecision(p Patchset, e *Evaluation) error {
	before := p.Meta
	p.Meta.SetEvaluationPending(e.Decision == record.DecisionKindPending)
	if p.Meta != before {
		if err := bindb.Patchsets.Put(tx.tx, p.Index, p.Patchset); err != nil {
			return err
		}
	}
	c, err := tx.Change(p.Change)
	if err != nil || !c.Open() || c.SelectedPatchset != record.RefTo(p.Index) {
		return err
	}
	meta := c.Meta
	switch e.Decision {
	case record.DecisionKindPass, record.DecisionKindWaived:
		meta.SetValidationPending(false)
		meta.SetBlocked(false)
		meta.SetReadyToLand(!meta.ReviewPending() && len(e.Objections) == 0)
	case record.DecisionKindHardFail:
		meta.SetBlocked(true)
		meta.SetReadyToLand(false)
	default:
		meta.SetValidationPending(true)
		meta.SetReadyToLand(false)
	}
	if meta == c.Meta {
		return nil
	}
	return tx.putChange(p.Change, func(c *record.Change) { c.Meta = meta })
}

// live filters a list in place.
func live[T any](list []T, gone func(T) bool) []T { return slices.DeleteFunc(list, gone) }
