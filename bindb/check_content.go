package bindb

import (
	"slices"

	"github.com/writ-authority/writ/bindb/record"
)

var (
	blobs           = table[record.Blob]("blob.bin")
	objectPacks     = table[record.ObjectPack]("object_pack.bin")
	objectMembers   = table[record.ObjectPackMember]("object_pack_member.bin")
	treePacks       = table[record.TreePack]("tree_pack.bin")
	trees           = table[record.Tree]("tree.bin")
	treeEntryRanges = table[record.TreeEntryRange]("tree_entry_range.bin")
	treeEntries     = table[record.TreeEntry]("tree_entry.bin")
)

// content checks Lines, Snapshots, packs and Trees (S01).
func (c *checker) content(t *targets) {
	c.lines(t)
	c.snapshots(t)
	c.packs()
	c.trees()
}

func (c *checker) lines(t *targets) {
	var name record.LineNamePayload
	scan(c, Lines, func(i uint32, r *record.Line) {
		c.payload(Lines.f, i, "line_name_offset", LineNamePayload, r.NameOffset, int(r.NameLen), &name, "F07")
		c.snapshot(t, Lines.f, i, "S01", "head_snapshot_index_plus1", r.Head, r.Meta.Tombstoned())
	})
}

func (c *checker) snapshots(t *targets) {
	f := Snapshots.f
	var text record.SnapshotPayload
	parents := make([]record.Ref, 0)
	if c.full {
		parents = make([]record.Ref, c.counts[f.no])
	}
	forward := false // a parent that was recorded after its child
	scan(c, Snapshots, func(i uint32, r *record.Snapshot) {
		if r.PayloadLen > 0 {
			if c.payload(f, i, "payload_offset", SnapshotPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07") {
				if err := text.CheckMeta(r.Meta); err != nil {
					c.badRecord(f, i, err)
				}
			}
		}
		c.inRange(f, i, "S01", "line_index_plus1", r.Line, Lines.f)
		c.inRange(f, i, "S01", "root_tree_pack_index_plus1", r.RootTreePack, treePacks.f)
		p, ok := r.Parent.Index()
		if !ok {
			return
		}
		if p >= c.counts[f.no] {
			c.missing(f, i, "S01", "parent_snapshot_index_plus1", p, f)
			return
		}
		if c.full {
			parents[i] = r.Parent
		}
		forward = forward || p >= i
	})
	edges := c.parentEdges(parents)
	if c.full && (forward || slices.ContainsFunc(edges, func(e record.SnapshotParentEdge) bool { return e.Parent >= e.Child })) {
		c.cycles(parents, edges)
	}
}

// parentEdges checks that the edges of one child number its parents from 0 and
// begin with the cached one. It returns the edges of a full check.
func (c *checker) parentEdges(cached []record.Ref) []record.SnapshotParentEdge {
	f, n := SnapshotParentEdges.f, c.counts[Snapshots.f.no]
	var list []record.SnapshotParentEdge
	next := map[uint32]uint16{}
	scan(c, SnapshotParentEdges, func(i uint32, r *record.SnapshotParentEdge) {
		if r.Child >= n {
			c.missing(f, i, "S01", "child_snapshot_index", r.Child, Snapshots.f)
			return
		}
		if r.Parent >= n {
			c.missing(f, i, "S01", "parent_snapshot_index", r.Parent, Snapshots.f)
			return
		}
		if !c.full {
			return
		}
		list = append(list, *r)
		if r.Ordinal != next[r.Child] {
			c.badField(f, i, "S01", "parent_ordinal", "is %d, want %d as the next one of Snapshot %d", r.Ordinal, next[r.Child], r.Child)
		}
		next[r.Child]++
		if r.Ordinal == 0 && cached[r.Child] != record.RefTo(r.Parent) {
			c.badField(Snapshots.f, r.Child, "S01", "parent_snapshot_index_plus1", "is %d, but the first parent edge names Snapshot %d", cached[r.Child], r.Parent)
		}
	})
	return list
}

// cycles reports a Snapshot that is its own ancestor: it takes away, again and
// again, the Snapshots that no remaining one descends from.
func (c *checker) cycles(cached []record.Ref, edges []record.SnapshotParentEdge) {
	for i, p := range cached {
		if p, ok := p.Index(); ok {
			edges = append(edges, record.SnapshotParentEdge{Child: uint32(i), Parent: p})
		}
	}
	children := make([]uint32, len(cached)) // edges from a remaining child
	for _, e := range edges {
		children[e.Parent]++
	}
	slices.SortFunc(edges, func(a, b record.SnapshotParentEdge) int { return int(int64(a.Child) - int64(b.Child)) })
	var leaves []uint32
	for i, n := range children {
		if n == 0 {
			leaves = append(leaves, uint32(i))
		}
	}
	removed := 0
	for len(leaves) > 0 {
		s := leaves[len(leaves)-1]
		leaves = leaves[:len(leaves)-1]
		removed++
		at, _ := slices.BinarySearchFunc(edges, s, func(e record.SnapshotParentEdge, s uint32) int { return int(int64(e.Child) - int64(s)) })
		for ; at < len(edges) && edges[at].Child == s; at++ {
			p := edges[at].Parent
			if children[p]--; children[p] == 0 {
				leaves = append(leaves, p)
			}
		}
	}
	if removed == len(cached) {
		return
	}
	for i, n := range children {
		if n > 0 {
			c.badField(Snapshots.f, uint32(i), "S01", "parent_snapshot_index_plus1", "leads back to the Snapshot itself or to a cycle of others")
			return
		}
	}
}

func (c *checker) packs() {
	scan(c, blobs, func(i uint32, r *record.Blob) {
		c.inRange(blobs.f, i, "S01", "pack_member_index_plus1", r.PackMember, objectMembers.f)
	})
	scan(c, objectPacks, func(i uint32, r *record.ObjectPack) {
		c.within(objectPacks.f, i, "first_member_index", r.FirstMember, r.MemberCount, objectMembers.f)
	})
	scan(c, objectMembers, func(i uint32, r *record.ObjectPackMember) {
		c.exists(objectMembers.f, i, "S01", "pack_index", r.Pack, objectPacks.f)
		c.exists(objectMembers.f, i, "S01", "blob_index", r.Blob, blobs.f)
		c.inRange(objectMembers.f, i, "S01", "base_blob_index_plus1", r.BaseBlob, blobs.f)
	})
	scan(c, treePacks, func(i uint32, r *record.TreePack) {
		c.within(treePacks.f, i, "first_tree_index", r.FirstTree, r.TreeCount, trees.f)
	})
}

// within checks a range of records.
func (c *checker) within(f *family, i uint32, field string, first, count uint32, target *family) {
	if n := c.counts[target.no]; first > n || count > n-first {
		c.badField(f, i, "S01", field, "gives the records %d+%d, but %s has %d", first, count, target.file, n)
	}
}

func (c *checker) trees() {
	if n, m := c.counts[treeEntryRanges.f.no], c.counts[trees.f.no]; n != m {
		c.bad(treeEntryRanges.f, "S01", "has %d rows, but %s has %d records", n, trees.f.file, m)
		return
	}
	first := make([]uint32, 0)
	scan(c, treeEntryRanges, func(_ uint32, r *record.TreeEntryRange) { first = append(first, r.FirstEntry) })
	base := c.from[trees.f.no]
	ends := map[uint32]bool{} // entries at which a Tree begins
	scan(c, trees, func(i uint32, r *record.Tree) {
		at := int(i - base)
		if at >= len(first) {
			return // its row could not be decoded
		}
		ends[first[at]] = true
		c.within(treeEntryRanges.f, i, "first_entry_index", first[at], r.EntryCount, treeEntries.f)
		if at+1 < len(first) && uint64(first[at])+uint64(r.EntryCount) != uint64(first[at+1]) {
			c.badField(treeEntryRanges.f, i+1, "S01", "first_entry_index", "is %d, but the Tree before it has %d entries from %d on", first[at+1], r.EntryCount, first[at])
		}
	})
	previous := ""
	var name record.TreeNamePayload
	scan(c, treeEntries, func(i uint32, r *record.TreeEntry) {
		if r.Meta.Kind() == record.EntryKindTree {
			c.exists(treeEntries.f, i, "S01", "target_index", r.Target, trees.f)
		} else {
			c.exists(treeEntries.f, i, "S01", "target_index", r.Target, blobs.f)
		}
		if !c.payload(treeEntries.f, i, "name_offset", treeNames, r.NameOffset, int(r.NameLen), &name, "F07") {
			return
		}
		if c.full && i > 0 && !ends[i] && name.Name <= previous {
			c.badField(treeEntries.f, i, "S01", "name_offset", "gives the name %.60q, which is not greater than %.60q before it", name.Name, previous)
		}
		previous = name.Name
	})
}
