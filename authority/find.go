package authority

import (
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Found is the record that an identity names: its kind, and its index in the
// table of that kind.
type Found struct {
	record.Identity
	Index uint32
}

// Find reads an identity in any form that record.ParseIdentity knows and looks its
// record up. The error is bindb.ErrInvalid for text that is no identity and for a
// short form that fits several Changes, and bindb.ErrNotFound when there is no
// such record or it was removed.
func (v *View) Find(text string) (Found, error) {
	id, err := record.ParseIdentity(text, v.repo.namespace())
	if err != nil {
		return Found{}, bindb.Invalid(err)
	}
	return v.Resolve(id)
}

// Resolve looks the record of an identity up. A short form is completed with its
// Task. Several Snapshots can share a name; the newest one is meant.
func (v *View) Resolve(id record.Identity) (Found, error) {
	var index uint32
	var err error
	switch id.Object {
	case record.ObjectPlan:
		index = id.Index
		if err = named(v, bindb.Plans, index); err == nil {
			_, err = v.Plan(index)
		}
	case record.ObjectPlanRevision:
		index = id.Index
		if err = named(v, bindb.PlanRevisions, index); err == nil {
			_, err = v.PlanRevision(index)
		}
	case record.ObjectJob:
		index = id.Index
		if id.Repository != v.repo.info.Index {
			return Found{}, fmt.Errorf("%s: %w: this is repository %d", id, bindb.ErrNotFound, v.repo.info.Index)
		}
		_, err = v.Job(index)
	case record.ObjectSnapshot:
		var list []Snapshot
		if list, err = v.SnapshotsByHash(id.Hash48, 1); err == nil && len(list) == 0 {
			err = bindb.ErrNotFound
		} else if err == nil {
			index = list[0].Index
		}
	default:
		if !id.HasTask {
			if id, err = v.complete(id); err != nil {
				return Found{}, err
			}
		}
		index, err = v.inTask(id)
	}
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", id, err)
	}
	return Found{id, index}, nil
}

// named tells an index that a person got wrong, which is bindb.ErrNotFound alone,
// from one that a record got wrong, which is bindb.ErrNoRecord.
func named[T any, P record.Codec[T]](r bindb.Reader, t bindb.Table[T, P], index uint32) error {
	n, err := t.Count(r)
	if err == nil && index >= n {
		err = bindb.ErrNotFound
	}
	return err
}

// complete finds the Task of a short form: the only one with such a Change.
func (v *View) complete(id record.Identity) (record.Identity, error) {
	short := id
	found := 0
	err := bindb.Changes.All(v, func(_ uint32, c *record.Change) error {
		if c.Ordinal == id.ChangeOrdinal && !c.RemoteMeta.Deleted() {
			if found++; found == 1 {
				id = id.WithTask(record.TaskIdentity(v.repo.namespace(), c.Task))
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return short, err
	case found == 0:
		return short, fmt.Errorf("%s: %w", short, bindb.ErrNotFound)
	case found > 1:
		return short, fmt.Errorf("%s: %w: %d tasks have such a change; say which, as in %s", short, bindb.ErrInvalid, found, id)
	}
	return id, nil
}

// inTask follows an identity from its Task down.
func (v *View) inTask(id record.Identity) (uint32, error) {
	if err := named(v, bindb.Tasks, id.TaskIndex); err != nil {
		return 0, err
	}
	if _, err := v.Task(id.TaskIndex); err != nil || id.Object == record.ObjectTask {
		return id.TaskIndex, err
	}
	switch id.Object {
	case record.ObjectAttestation:
		return member(v, bindb.TaskAttests, id.TaskIndex, id.Ordinal, bindb.Attestations,
			func(a *record.Attestation) (uint8, record.Ref, bool) {
				return a.Ordinal, a.PreviousInTask, a.Meta.Tombstoned()
			})
	case record.ObjectWaiver:
		return member(v, bindb.TaskWaivers, id.TaskIndex, id.Ordinal, bindb.Waivers,
			func(w *record.Waiver) (uint8, record.Ref, bool) {
				return w.Ordinal, w.PreviousInTask, w.Meta.Tombstoned()
			})
	}
	change, err := member(v, bindb.TaskChanges, id.TaskIndex, id.ChangeOrdinal, bindb.Changes,
		func(c *record.Change) (uint8, record.Ref, bool) {
			return c.Ordinal, c.PreviousInTask, c.RemoteMeta.Deleted()
		})
	if err != nil || id.Object == record.ObjectChange {
		return change, err
	}
	if id.Object == record.ObjectLand {
		return member(v, bindb.ChangeLands, change, id.Ordinal, bindb.Lands,
			func(l *record.Land) (uint8, record.Ref, bool) {
				return l.Ordinal, l.PreviousInChange, l.Meta.Tombstoned()
			})
	}
	patchset, err := member(v, bindb.ChangePatchsets, change, id.PatchOrdinal, bindb.Patchsets,
		func(p *record.Patchset) (uint8, record.Ref, bool) { return p.Ordinal, p.PreviousInChange, false })
	if err != nil || id.Object == record.ObjectPatchset {
		return patchset, err
	}
	if id.Object == record.ObjectReview {
		return member(v, bindb.PatchsetReviews, patchset, id.Ordinal, bindb.Reviews,
			func(r *record.Review) (uint8, record.Ref, bool) {
				return r.Ordinal, r.PreviousInPatchset, r.Meta.Tombstoned()
			})
	}
	return member(v, bindb.PatchsetPolicies, patchset, id.Ordinal, bindb.PolicyDecisions,
		func(d *record.PolicyDecision) (uint8, record.Ref, bool) {
			return d.Ordinal, d.PreviousInPatchset, d.Meta.Tombstoned()
		})
}

// member finds the live record with an ordinal in an ordinal chain. look gives a
// record's ordinal, its previous one and whether it was removed.
func member[T any, P record.Codec[T]](v *View, chain ordinalTable, owner uint32, ordinal uint8, t bindb.Table[T, P], look func(*T) (uint8, record.Ref, bool)) (uint32, error) {
	row, err := chain.Get(v, owner)
	if err != nil {
		return 0, err
	}
	ref := row.Latest
	for range record.MaxOrdinals {
		i, ok := ref.Index()
		if !ok {
			break
		}
		rec, err := t.Get(v, i)
		if err != nil {
			return 0, &bindb.RecordError{File: chain.File(), Index: owner, Err: err}
		}
		has, previous, gone := look(&rec)
		switch {
		case has == ordinal && !gone:
			return i, nil
		case has <= ordinal:
			return 0, bindb.ErrNotFound
		}
		ref = previous
	}
	return 0, bindb.ErrNotFound
}
