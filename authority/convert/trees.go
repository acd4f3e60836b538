package convert

import (
	"fmt"
	"slices"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

const (
	// maxTreeDepth bounds how deep directories are nested.
	maxTreeDepth = 512
	// maxTreeEntries bounds how many names one comparison looks at: Trees may
	// share others, so that few records can stand for very many paths.
	maxTreeEntries = 50_000_000
)

// difference is what a Patchset changes, as paths.
type difference struct {
	added, deleted, modified []string

	c    *content
	left int
}

// compareTrees compares the Trees of two Snapshots. A file that has other bytes or
// another mode is modified; one in place of a directory is added. ok is false when
// a Snapshot has no Tree.
func (c *content) compareTrees(base, revision uint32) (d *difference, ok bool, err error) {
	a, ok, err := c.rootTree(base)
	if err != nil || !ok {
		return nil, false, err
	}
	b, ok, err := c.rootTree(revision)
	if err != nil || !ok {
		return nil, false, err
	}
	d = &difference{c: c, left: maxTreeEntries}
	if err := d.trees("", record.RefTo(a), record.RefTo(b), 0); err != nil {
		return nil, false, err
	}
	slices.Sort(d.added)
	slices.Sort(d.deleted)
	slices.Sort(d.modified)
	return d, true, nil
}

// rootTree finds the root Tree of a Snapshot: the one of its pack with the entry
// ordinal of its locator.
func (c *content) rootTree(snapshot uint32) (uint32, bool, error) {
	s, err := get[record.Snapshot](c, snapshot)
	if err != nil {
		return 0, false, err
	}
	at, ok := s.RootTreePack.Index()
	if !ok {
		return 0, false, nil
	}
	p, err := get[record.TreePack](c, at)
	if err != nil {
		return 0, false, err
	}
	// Mostly Trees lie in the order of their entries.
	if s.RootEntry < p.TreeCount {
		i := p.FirstTree + s.RootEntry
		if t, err := get[record.Tree](c, i); err != nil || t.PackEntry == s.RootEntry && !t.Meta.Tombstoned() {
			return i, true, err
		}
	}
	trees, err := list[record.Tree](c, p.FirstTree, p.TreeCount)
	if err != nil {
		return 0, false, err
	}
	for i, t := range trees {
		if t.PackEntry == s.RootEntry && !t.Meta.Tombstoned() {
			return p.FirstTree + uint32(i), true, nil
		}
	}
	return 0, false, fmt.Errorf("%w: snapshot.bin record %d: tree pack %d has no live Tree with the entry %d", bindb.ErrCorrupt, snapshot, at, s.RootEntry)
}

// entry is one name in a directory.
type entry struct {
	name string
	record.TreeEntry
}

func (d *difference) entries(tree record.Ref) ([]entry, error) {
	i, ok := tree.Index()
	if !ok {
		return nil, nil
	}
	t, err := get[record.Tree](d.c, i)
	if err != nil {
		return nil, err
	}
	r, err := get[record.TreeEntryRange](d.c, i)
	if err != nil {
		return nil, err
	}
	if d.left -= int(t.EntryCount); d.left < 0 {
		return nil, fmt.Errorf("%w: the Trees have more than %d names", bindb.ErrTooLarge, maxTreeEntries)
	}
	recs, err := list[record.TreeEntry](d.c, r.FirstEntry, t.EntryCount)
	if err != nil {
		return nil, err
	}
	all := make([]entry, len(recs))
	for j, e := range recs {
		var p record.TreeNamePayload
		if err := d.c.text("tree_name_payload.bin", e.NameOffset, int(e.NameLen), &p); err != nil {
			return nil, &bindb.RecordError{File: "tree_entry.bin", Index: r.FirstEntry + uint32(j), Err: err}
		}
		if j > 0 && p.Name <= all[j-1].name {
			return nil, fmt.Errorf("%w: tree_entry.bin record %d: names of a Tree are not sorted", bindb.ErrCorrupt, r.FirstEntry+uint32(j))
		}
		all[j] = entry{p.Name, e}
	}
	return all, nil
}

// trees compares two directories, either of which may be absent.
func (d *difference) trees(path string, a, b record.Ref, depth int) error {
	if a == b {
		return nil
	}
	if depth > maxTreeDepth {
		return fmt.Errorf("%w: Trees are nested more than %d deep", bindb.ErrCorrupt, maxTreeDepth)
	}
	before, err := d.entries(a)
	if err != nil {
		return err
	}
	after, err := d.entries(b)
	if err != nil {
		return err
	}
	for len(before) > 0 || len(after) > 0 {
		var x, y *entry
		if len(after) == 0 || len(before) > 0 && before[0].name <= after[0].name {
			x = &before[0]
		}
		if len(before) == 0 || len(after) > 0 && after[0].name <= before[0].name {
			y = &after[0]
		}
		if x != nil {
			before = before[1:]
		}
		if y != nil {
			after = after[1:]
		}
		if err := d.entry(path, x, y, depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares what one name stands for in both directories.
func (d *difference) entry(path string, x, y *entry, depth int) error {
	var a, b record.Ref // directories
	var file, now *entry
	for _, e := range []*entry{x, y} {
		if e != nil {
			path += e.name
			break
		}
	}
	if x != nil && x.Meta.Kind() == record.EntryKindTree {
		a = record.RefTo(x.Target)
	} else {
		file = x
	}
	if y != nil && y.Meta.Kind() == record.EntryKindTree {
		b = record.RefTo(y.Target)
	} else {
		now = y
	}
	switch {
	case file != nil && now != nil:
		same, err := d.same(file, now)
		if err != nil {
			return err
		}
		if !same {
			d.modified = append(d.modified, path)
		}
	case file != nil:
		d.deleted = append(d.deleted, path)
	case now != nil:
		d.added = append(d.added, path)
	}
	return d.trees(path+"/", a, b, depth+1)
}

// same says whether two files have equal modes and bytes.
func (d *difference) same(a, b *entry) (bool, error) {
	if a.Mode != b.Mode || a.Target == b.Target {
		return a.Mode == b.Mode, nil
	}
	x, err := get[record.Blob](d.c, a.Target)
	if err != nil {
		return false, err
	}
	y, err := get[record.Blob](d.c, b.Target)
	return x.SHA256 == y.SHA256 && x.SizeBytes == y.SizeBytes, err
}

// matches says whether supplied statistics are those of the difference.
func (d *difference) matches(s *diffStatRow) bool {
	return !d.differs(s) && (s.Paths == nil || equalSets(s.Paths.Added, d.added) && equalSets(s.Paths.Deleted, d.deleted) && equalSets(s.Paths.Modified, d.modified))
}

func (d *difference) differs(s *diffStatRow) bool {
	return int(s.Added) != len(d.added) || int(s.Deleted) != len(d.deleted) || int(s.Modified) != len(d.modified) || int(s.Changed) != d.changed()
}

func (d *difference) changed() int { return len(d.added) + len(d.deleted) + len(d.modified) }

// equalSets compares paths in any order with sorted ones.
func equalSets(paths, sorted []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(paths)), sorted)
}
