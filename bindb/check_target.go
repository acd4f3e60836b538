package bindb

import "github.com/writ-authority/writ/bindb/record"

// targets are the few facts about records that rules about other records ask
// for. A full check holds all of them in memory, some bytes a record; otherwise
// each one is read when it is asked for.
type targets struct {
	changes   facts[record.Change, *record.Change, changeFact]
	patchsets facts[record.Patchset, *record.Patchset, patchsetFact]
	snapshots facts[record.Snapshot, *record.Snapshot, liveFact]
	lines     facts[record.Line, *record.Line, liveFact]
	actors    facts[record.Actor, *record.Actor, actorFact]
	jobs      facts[record.WorkerJob, *record.WorkerJob, jobFact]
	revisions facts[record.PlanRevision, *record.PlanRevision, revisionFact]
}

type liveFact struct{ live bool }

type changeFact struct {
	task    uint32
	ordinal uint8
}

type patchsetFact struct {
	change        uint32
	ordinal       uint8
	changeOrdinal uint8
	discarded     bool // withdrawn or invalidated
}

type actorFact struct {
	live bool
	kind record.ActorKind
}

type jobFact struct {
	patchset record.Ref
	kind     record.JobKind
	live     bool
}

type revisionFact struct {
	plan   uint32
	number uint16
}

func (c *checker) loadTargets() *targets {
	t := &targets{}
	c.together(
		func(c *checker) {
			t.jobs.load(c, WorkerJobs, func(r *record.WorkerJob) jobFact { return jobFact{r.Patchset, r.Kind, !r.Meta.Tombstoned()} })
		},
		func(c *checker) {
			t.changes.load(c, Changes, func(r *record.Change) changeFact { return changeFact{r.Task, r.Ordinal} })
			t.patchsets.load(c, Patchsets, func(r *record.Patchset) patchsetFact {
				return patchsetFact{r.Change, r.Ordinal, r.ChangeOrdinal, r.Meta.Withdrawn() || r.Meta.Invalidated()}
			})
			t.snapshots.load(c, Snapshots, func(r *record.Snapshot) liveFact { return liveFact{!r.Meta.Tombstoned()} })
			t.lines.load(c, Lines, func(r *record.Line) liveFact { return liveFact{!r.Meta.Tombstoned()} })
			t.actors.load(c, Actors, func(r *record.Actor) actorFact { return actorFact{!r.Meta.Tombstoned(), r.Meta.Kind()} })
			t.revisions.load(c, PlanRevisions, func(r *record.PlanRevision) revisionFact { return revisionFact{r.Plan, r.Number} })
		},
	)
	return t
}

// facts are what is known about the records of one table.
type facts[T any, P record.Codec[T], F any] struct {
	c       *checker
	table   Table[T, P]
	project func(*T) F
	all     []F // of a full check
}

func (x *facts[T, P, F]) load(c *checker, t Table[T, P], project func(*T) F) {
	x.c, x.table, x.project = c, t, project
	if !c.full {
		return
	}
	x.all = make([]F, c.counts[t.f.no])
	var rec T
	each(c, t.f, 0, func(i uint32, raw []byte) {
		// What can't be decoded is reported when its own turn comes.
		if err := P(&rec).Decode(raw); err == nil {
			x.all[i] = project(&rec)
		}
	})
}

func (x *facts[T, P, F]) count() uint32 { return x.c.counts[x.table.f.no] }

// get returns what is known about record i, and false when there is none.
func (x *facts[T, P, F]) get(i uint32) (F, bool) {
	var none F
	if i >= x.count() || x.c.stop != nil {
		return none, false
	}
	if x.c.full {
		return x.all[i], true
	}
	var rec T
	raw, err := x.c.rd.record(x.table.f, i)
	if err != nil {
		x.c.fail(err)
		return none, false
	}
	if err := P(&rec).Decode(raw); err != nil {
		x.c.badRecord(x.table.f, i, err)
		return none, false
	}
	return x.project(&rec), true
}

// inRange checks a reference that only has to exist.
func (c *checker) inRange(f *family, i uint32, id, field string, ref record.Ref, target *family) {
	if t, ok := ref.Index(); ok {
		c.exists(f, i, id, field, t, target)
	}
}

// exists checks a required reference in the same way.
func (c *checker) exists(f *family, i uint32, id, field string, t uint32, target *family) {
	if t >= c.counts[target.no] {
		c.missing(f, i, id, field, t, target)
	}
}

// missing reports a reference to a record that is not there.
func (c *checker) missing(f *family, i uint32, id, field string, target uint32, to *family) {
	c.badField(f, i, id, field, "names record %d of %s, which has %d", target, to.file, c.counts[to.no])
}

// live checks a reference to a record that must exist and, unless the referring
// record is itself tombstoned, must not be tombstoned (section 17.4).
func live[T any, P record.Codec[T], F any](c *checker, f *family, i uint32, id, field string, target uint32, to *facts[T, P, F], isLive func(F) bool, dead bool) (F, bool) {
	fact, ok := to.get(target)
	switch {
	case c.stop != nil:
		return fact, false
	case !ok:
		if target >= to.count() {
			c.missing(f, i, id, field, target, to.table.f)
		}
		return fact, false
	case !dead && !isLive(fact):
		c.badField(f, i, id, field, "names record %d of %s, which is tombstoned", target, to.table.f.file)
	}
	return fact, true
}

// snapshot checks a reference to a live Snapshot.
func (c *checker) snapshot(t *targets, f *family, i uint32, id, field string, ref record.Ref, dead bool) {
	if s, ok := ref.Index(); ok {
		c.snapshotAt(t, f, i, id, field, s, dead)
	}
}

// snapshotAt checks a required reference in the same way.
func (c *checker) snapshotAt(t *targets, f *family, i uint32, id, field string, s uint32, dead bool) {
	live(c, f, i, id, field, s, &t.snapshots, func(x liveFact) bool { return x.live }, dead)
}

// line checks a reference to a live Line.
func (c *checker) line(t *targets, f *family, i uint32, id, field string, ref record.Ref, dead bool) {
	if l, ok := ref.Index(); ok {
		live(c, f, i, id, field, l, &t.lines, func(x liveFact) bool { return x.live }, dead)
	}
}

// ownerChange checks that a record belongs to an existing Change and copies its
// ordinal.
func (c *checker) ownerChange(t *targets, f *family, i uint32, id string, change uint32, ordinal uint8) (changeFact, bool) {
	owner, ok := live(c, f, i, id, "change_index", change, &t.changes, nil, true)
	if ok && owner.ordinal != ordinal {
		c.badField(f, i, id, "change_ordinal", "is %d, but Change %d has %d", ordinal, change, owner.ordinal)
	}
	return owner, ok
}

// ownerPatchset checks that a record belongs to an existing Patchset and copies
// its ordinals. It returns the Patchset and its Task.
func (c *checker) ownerPatchset(t *targets, f *family, i uint32, id string, patchset uint32, patch, change uint8) (task uint32, ok bool) {
	owner, ok := live(c, f, i, id, "patchset_index", patchset, &t.patchsets, nil, true)
	if !ok {
		return 0, false
	}
	if owner.ordinal != patch {
		c.badField(f, i, id, "patch_ordinal", "is %d, but Patchset %d has %d", patch, patchset, owner.ordinal)
	}
	if owner.changeOrdinal != change {
		c.badField(f, i, id, "change_ordinal", "is %d, but Patchset %d has %d", change, patchset, owner.changeOrdinal)
	}
	// A Patchset without a Change is reported at the Patchset.
	if owner.change >= t.changes.count() {
		return 0, false
	}
	ch, ok := t.changes.get(owner.change)
	return ch.task, ok
}
