package bindb

import "github.com/writ-authority/writ/bindb/record"

// workflow checks Tasks, Changes and what belongs to them, policy apart (T01 to
// T06, P01 to P06, A01, U01 to U04, R01 to R03, W01, N01).
func (c *checker) workflow(t *targets, all chains) {
	c.tasks()
	landed := c.lands(t, all)
	patchsets := c.patchsets(t, all)
	c.changes(t, all, patchsets, landed)
	c.attestations(t, all)
	c.actors()
	c.reviews(t, all)
	c.waivers(t, all)
	c.snapshotLinks(t, all)
}

func (c *checker) tasks() {
	f := Tasks.f
	var text record.TaskPayload
	scan(c, Tasks, func(i uint32, r *record.Task) {
		c.payload(f, i, "payload_offset", TaskPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07")
		c.inRange(f, i, "T01", "origin_plan_revision_index_plus1", r.OriginPlanRevision, PlanRevisions.f)
		c.inRange(f, i, "T01", "plan_item_index_plus1", r.PlanItem, PlanItems.f)
	})
}

// bitset has one bit a record.
type bitset []uint64

func newBitset(n uint32) bitset    { return make(bitset, (uint64(n)+63)/64) }
func (b bitset) set(i uint32)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) has(i uint32) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (c *checker) changes(t *targets, all chains, withPatchsets, landed bitset) {
	f := Changes.f
	inTask := all["task_change_index.bin"]
	var text record.ChangePayload
	scan(c, Changes, func(i uint32, r *record.Change) {
		dead := r.RemoteMeta.Deleted()
		c.payload(f, i, "payload_offset", ChangePayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07")
		if r.Task >= c.counts[Tasks.f.no] {
			c.missing(f, i, "T03", "task_index", r.Task, Tasks.f)
		} else {
			c.join(inTask, "previous_change_index_plus1", i, r.Task, r.Ordinal, r.PreviousInTask)
		}
		c.line(t, f, i, "T03", "base_line_index_plus1", r.BaseLine, dead)
		c.snapshot(t, f, i, "T03", "fork_snapshot_index_plus1", r.ForkSnapshot, dead)
		if p, ok := r.SelectedPatchset.Index(); ok {
			c.selected(t, i, p)
		}
		if !c.full {
			return
		}
		if has := withPatchsets.has(i); has != r.Meta.HasPatchsets() {
			c.badField(f, i, "T05", "change_meta.has_patchsets", "is %t, but it is %t that Patchsets of the Change exist", r.Meta.HasPatchsets(), has)
		}
		if is := r.Meta.Lifecycle() == record.ChangeLifecycleLanded; is != landed.has(i) {
			c.badField(f, i, "T06", "change_meta.lifecycle", "is %s, but it is %t that a Land of the Change succeeded", r.Meta.Lifecycle(), landed.has(i))
		}
	})
}

// selected checks the Patchset that a Change selects.
func (c *checker) selected(t *targets, change, patchset uint32) {
	const id, field = "T05", "selected_patchset_index_plus1"
	f := Changes.f
	p, ok := live(c, f, change, id, field, patchset, &t.patchsets, nil, true)
	switch {
	case !ok:
	case p.change != change:
		c.badField(f, change, id, field, "names Patchset %d, which belongs to Change %d", patchset, p.change)
	case p.discarded:
		c.badField(f, change, id, field, "names Patchset %d, which is withdrawn or invalidated", patchset)
	}
}

// patchsets returns which Changes have a Patchset.
func (c *checker) patchsets(t *targets, all chains) bitset {
	f := Patchsets.f
	inTask, inChange := all["task_patchset_index.bin"], all["change_patchset_index.bin"]
	owners := newBitset(c.counts[Changes.f.no])
	var text record.PatchsetSummary
	scan(c, Patchsets, func(i uint32, r *record.Patchset) {
		if owner, ok := c.ownerChange(t, f, i, "P01", r.Change, r.ChangeOrdinal); ok {
			owners.set(r.Change)
			c.join(inTask, "previous_task_patchset_index_plus1", i, owner.task, 0, r.PreviousInTask)
			c.join(inChange, "previous_change_patchset_index_plus1", i, r.Change, r.Ordinal, r.PreviousInChange)
		}
		c.snapshotAt(t, f, i, "P02", "base_snapshot_index", r.BaseSnapshot, false)
		c.snapshotAt(t, f, i, "P02", "revision_snapshot_index", r.RevisionSnapshot, false)
		c.payload(f, i, "summary_offset", PatchsetSummary, r.SummaryOffset, int(r.SummaryLen), &text, "P03")
		if j, ok := r.CIJob.Index(); ok {
			c.ciJob(t, i, j)
		}
	})
	return owners
}

// ciJob checks the Job that a Patchset selects for its evidence (P06).
func (c *checker) ciJob(t *targets, patchset, job uint32) {
	const id, field = "P06", "ci_worker_job_index_plus1"
	f := Patchsets.f
	j, ok := live(c, f, patchset, id, field, job, &t.jobs, func(j jobFact) bool { return j.live }, false)
	switch {
	case !ok || !j.live:
	case j.kind != record.JobKindPatchsetCI:
		c.badField(f, patchset, id, field, "names Job %d, which is of the kind %s, want %s", job, j.kind, record.JobKindPatchsetCI)
	case j.patchset != record.RefTo(patchset):
		c.badField(f, patchset, id, field, "names Job %d, which belongs to %s of %s", job, refText(j.patchset), f.file)
	}
}

func (c *checker) attestations(t *targets, all chains) {
	f := Attestations.f
	inTask, inPatchset := all["task_attest_index.bin"], all["patchset_attest_index.bin"]
	scan(c, Attestations, func(i uint32, r *record.Attestation) {
		if task, ok := c.ownerPatchset(t, f, i, "A01", r.Patchset, r.PatchOrdinal, r.ChangeOrdinal); ok {
			c.join(inTask, "previous_task_attest_index_plus1", i, task, r.Ordinal, r.PreviousInTask)
			c.join(inPatchset, "previous_patchset_attest_index_plus1", i, r.Patchset, 0, r.PreviousInPatchset)
		}
	})
}

func (c *checker) actors() {
	f := Actors.f
	var text record.ActorPayload
	// Live Actors by kind and hash; two with the same one are compared.
	same := map[uint64][]uint32{}
	locators := map[uint32]span{}
	scan(c, Actors, func(i uint32, r *record.Actor) {
		if !c.payload(f, i, "payload_offset", ActorPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07") {
			return
		}
		if err := text.CheckMeta(r.Meta); err != nil {
			c.badRecord(f, i, err)
		}
		if want := record.FNV1a64([]byte(text.UserName)); r.KeyHash != want {
			c.badField(f, i, "U02", "actor_key_hash", "is %#x, but the user name has the hash %#x", r.KeyHash, want)
		}
		if !c.full || r.Meta.Tombstoned() {
			return
		}
		key := r.KeyHash ^ uint64(r.Meta.Kind())<<61
		locators[i] = span{off: r.PayloadOffset, len: uint32(r.PayloadLen)}
		for _, other := range same[key] {
			if c.samePayload(ActorPayload.f, locators[i], locators[other]) {
				c.badField(f, i, "U04", "", "is equal to the live Actor %d", other)
			}
		}
		same[key] = append(same[key], i)
	})
}

// samePayload compares two ranges of a payload file.
func (c *checker) samePayload(f *family, a, b span) bool {
	if a.len != b.len {
		return false
	}
	first := string(c.bytes(f, int64(a.off), int(a.len)))
	return string(c.bytes(f, int64(b.off), int(b.len))) == first
}

func (c *checker) reviews(t *targets, all chains) {
	f := Reviews.f
	inTask, inPatchset := all["task_review_index.bin"], all["patchset_review_index.bin"]
	var text record.ReviewPayload
	scan(c, Reviews, func(i uint32, r *record.Review) {
		if task, ok := c.ownerPatchset(t, f, i, "R02", r.Patchset, r.PatchOrdinal, r.ChangeOrdinal); ok {
			c.join(inTask, "previous_task_review_index_plus1", i, task, 0, r.PreviousInTask)
			c.join(inPatchset, "previous_patchset_review_index_plus1", i, r.Patchset, r.Ordinal, r.PreviousInPatchset)
		}
		if a, ok := r.Actor.Index(); ok {
			actor, ok := live(c, f, i, "R02", "actor_index_plus1", a, &t.actors, func(a actorFact) bool { return a.live }, r.Meta.Tombstoned())
			action, err := r.Meta.Action()
			if ok && err == nil && action == record.ReviewActionRequest && actor.kind != record.ActorKindTeam {
				c.badField(f, i, "R03", "actor_index_plus1", "names Actor %d, which is of the kind %s, want %s for a request", a, actor.kind, record.ActorKindTeam)
			}
		}
		c.payload(f, i, "payload_offset", ReviewPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07")
	})
}

func (c *checker) waivers(t *targets, all chains) {
	f := Waivers.f
	inTask, inPatchset := all["task_waiver_index.bin"], all["patchset_waiver_index.bin"]
	var text record.WaiverPayload
	scan(c, Waivers, func(i uint32, r *record.Waiver) {
		if task, ok := c.ownerPatchset(t, f, i, "W01", r.Patchset, r.PatchOrdinal, r.ChangeOrdinal); ok {
			c.join(inTask, "previous_task_waiver_index_plus1", i, task, r.Ordinal, r.PreviousInTask)
			c.join(inPatchset, "previous_patchset_waiver_index_plus1", i, r.Patchset, 0, r.PreviousInPatchset)
		}
		c.payload(f, i, "payload_offset", WaiverPayload, r.PayloadOffset, int(r.PayloadLen), &text, "W01")
	})
}

// lands returns which Changes have a live Land that succeeded.
func (c *checker) lands(t *targets, all chains) bitset {
	const id = "N01"
	f := Lands.f
	inTask, inChange := all["task_land_index.bin"], all["change_land_index.bin"]
	landed := newBitset(c.counts[Changes.f.no])
	scan(c, Lands, func(i uint32, r *record.Land) {
		dead := r.Meta.Tombstoned()
		if owner, ok := c.ownerChange(t, f, i, id, r.Change, r.ChangeOrdinal); ok {
			if !dead && r.Meta.Status() == record.LandStatusSucceeded {
				landed.set(r.Change)
			}
			c.join(inTask, "previous_task_land_index_plus1", i, owner.task, 0, r.PreviousInTask)
			c.join(inChange, "previous_change_land_index_plus1", i, r.Change, r.Ordinal, r.PreviousInChange)
		}
		p, ok := live(c, f, i, id, "patchset_index", r.Patchset, &t.patchsets, nil, true)
		if ok && p.change != r.Change {
			c.badField(f, i, id, "patchset_index", "names Patchset %d, which belongs to Change %d, want Change %d", r.Patchset, p.change, r.Change)
		}
		c.snapshot(t, f, i, id, "pre_land_target_snapshot_index_plus1", r.PreTarget, dead)
		c.snapshot(t, f, i, id, "landed_snapshot_index_plus1", r.Landed, dead)
		c.line(t, f, i, id, "target_line_index_plus1", r.TargetLine, dead)
	})
	return landed
}

func (c *checker) snapshotLinks(t *targets, all chains) {
	const id = "F06"
	f := SnapshotLinks.f
	inTask, inChange := all["task_snapshot_index.bin"], all["change_snapshot_index.bin"]
	var text record.SnapshotLinkPayload
	scan(c, SnapshotLinks, func(i uint32, r *record.SnapshotLink) {
		if r.Task >= c.counts[Tasks.f.no] {
			c.missing(f, i, id, "task_index", r.Task, Tasks.f)
		} else {
			c.join(inTask, "previous_task_snapshot_link_index_plus1", i, r.Task, r.Ordinal, r.PreviousInTask)
		}
		if change, ok := r.Change.Index(); ok {
			owner, ok := live(c, f, i, id, "change_index_plus1", change, &t.changes, nil, true)
			if ok && owner.task != r.Task {
				c.badField(f, i, id, "change_index_plus1", "names Change %d, which belongs to Task %d, want Task %d", change, owner.task, r.Task)
			}
			if ok {
				c.join(inChange, "previous_change_snapshot_link_index_plus1", i, change, 0, r.PreviousInChange)
			}
		}
		c.snapshotAt(t, f, i, id, "content_snapshot_index", r.Snapshot, r.Meta.Tombstoned())
		if c.payload(f, i, "payload_offset", SnapshotLinkPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07") {
			if err := text.CheckMeta(r.Meta); err != nil {
				c.badRecord(f, i, err)
			}
		}
	})
}
