package bindb

import (
	"cmp"
	"slices"

	"github.com/writ-authority/writ/bindb/record"
)

// plans checks Plans, their revisions and items (L01, L02).
func (c *checker) plans(t *targets) {
	revisions := c.revisions(t)
	f := Plans.f
	var title record.PlanPayload
	scan(c, Plans, func(i uint32, r *record.Plan) {
		c.payload(f, i, "payload_offset", PlanPayload, r.PayloadOffset, int(r.PayloadLen), &title, "F07")
		c.inRange(f, i, "L01", "published_plan_index_plus1", r.PublishedPlan, Plans.f)
		c.inRange(f, i, "L01", "published_latest_revision_index_plus1", r.PublishedLatestRevision, PlanRevisions.f)
		latest, ok := r.LatestRevision.Index()
		if !ok {
			return
		}
		const id, field = "L01", "latest_revision_index_plus1"
		rev, ok := live(c, f, i, id, field, latest, &t.revisions, nil, true)
		switch {
		case !ok:
		case rev.plan != i:
			c.badField(f, i, id, field, "names revision %d, which belongs to Plan %d", latest, rev.plan)
		case c.full && uint32(rev.number) != revisions[i]:
			c.badField(f, i, id, field, "names revision number %d, but the Plan has %d revisions", rev.number, revisions[i])
		}
	})
	var item record.PlanItemPayload
	scan(c, PlanItems, func(i uint32, r *record.PlanItem) {
		c.payload(PlanItems.f, i, "payload_offset", PlanItemPayload, r.PayloadOffset, int(r.PayloadLen), &item, "F07")
	})
}

// revisions returns how many revisions each Plan has. Numbers that descend by
// one along the chain, and a chain as long as that count, leave no revision
// outside of it.
func (c *checker) revisions(t *targets) []uint32 {
	f := PlanRevisions.f
	perPlan := make([]uint32, c.counts[Plans.f.no])
	items := c.counts[PlanItems.f.no]
	var owned []span
	var text record.PlanRevisionPayload
	scan(c, PlanRevisions, func(i uint32, r *record.PlanRevision) {
		c.payload(f, i, "payload_offset", PlanRevisionPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07")
		if r.Plan >= c.counts[Plans.f.no] {
			c.missing(f, i, "L01", "plan_index", r.Plan, Plans.f)
		} else {
			perPlan[r.Plan]++
		}
		if p, ok := r.Previous.Index(); ok {
			const id, field = "L01", "previous_revision_index_plus1"
			prev, ok := live(c, f, i, id, field, p, &t.revisions, nil, true)
			switch {
			case !ok:
			case prev.plan != r.Plan:
				c.badField(f, i, id, field, "names revision %d, which belongs to Plan %d, want Plan %d", p, prev.plan, r.Plan)
			case prev.number != r.Number-1:
				c.badField(f, i, id, "revision_number", "is %d, but the previous revision has %d", r.Number, prev.number)
			}
		}
		if r.ItemStart > items || uint32(r.ItemCount) > items-r.ItemStart {
			c.badField(f, i, "L02", "item_start_index", "gives the items %d+%d, but %s has %d", r.ItemStart, r.ItemCount, PlanItems.f.file, items)
		} else if c.full && r.ItemCount > 0 {
			owned = append(owned, span{uint64(r.ItemStart), uint32(r.ItemCount), i})
		}
		c.inRange(f, i, "L01", "published_revision_index_plus1", r.Published, PlanRevisions.f)
		c.inRange(f, i, "L02", "root_tree_pack_index_plus1", r.RootTreePack, treePacks.f)
	})
	slices.SortFunc(owned, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	for j := 1; j < len(owned); j++ {
		if a, b := owned[j-1], owned[j]; b.off < a.off+uint64(a.len) {
			c.badField(f, b.index, "L02", "item_start_index", "is %d, inside the items of revision %d", b.off, a.index)
		}
	}
	return perPlan
}
