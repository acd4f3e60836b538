package vfs

import (
	"io/fs"
	"iter"
	"maps"
	"slices"
)

// simNode is an inode. It has two sides: what a program sees now and what is on
// the disk for sure; pending leads from the second to the first.
type simNode struct {
	id     uint64
	mode   fs.FileMode
	target string // of a symbolic link
	opens  int    // handles, which keep an unlinked node

	// Files.
	data    *content
	base    *content // frozen
	pending []fileEvent

	// Directories.
	entries map[string]*simNode
	durable map[string]*simNode

	links        int // names the program sees
	durableLinks int // names on the disk
}

// fileEvent is one change of a file that can survive a power cut on its own: a
// new length, or written bytes. A write that makes a file longer is both, the
// length first.
type fileEvent struct {
	op    int
	size  int64 // new length, or -1 for bytes
	cut   bool  // the new length is smaller
	off   int64
	data  []byte
	fresh int64 // bytes from this offset on lay behind the end of the file before
	held  bool  // synced, but behind something that is not
	doubt bool  // a Sync failed: no later one can be trusted to write it
}

// place is a name in a directory.
type place struct {
	dir  uint64
	name string
}

// edit is an atomic change of directory entries.
type edit struct {
	set   map[place]uint64
	del   []place
	nodes []uint64 // every node that gains or loses a name
}

// places yields the names that e changes.
func (e *edit) places() iter.Seq[place] {
	return func(yield func(place) bool) {
		for p := range e.set {
			if !yield(p) {
				return
			}
		}
		for _, p := range e.del {
			if !yield(p) {
				return
			}
		}
	}
}

// dirs returns the directories that e changes.
func (e *edit) dirs() []uint64 {
	var dirs []uint64
	for p := range e.places() {
		if !slices.Contains(dirs, p.dir) {
			dirs = append(dirs, p.dir)
		}
	}
	return dirs
}

// dirEvent is an edit that is not on the disk for sure.
type dirEvent struct {
	op    int
	edit  *edit
	wait  []uint64 // directories that still have to be synced
	doubt bool     // a SyncDir failed
}

// dependencies returns for each event the earlier ones that must reach the disk
// before it. File systems journal their directories: changes of one name, or of
// the names of one node, keep their order; all others may overtake each other.
// Only the nearest ones are listed, which have dependencies of their own.
func dependencies(events []dirEvent) [][]int {
	deps := make([][]int, len(events))
	latest := map[place]int{} // a node is a place without a name
	for i, e := range events {
		touch := func(p place) {
			if j, ok := latest[p]; ok && !slices.Contains(deps[i], j) && j != i {
				deps[i] = append(deps[i], j)
			}
			latest[p] = i
		}
		for p := range e.edit.places() {
			touch(p)
		}
		for _, id := range e.edit.nodes {
			touch(place{dir: id})
		}
	}
	return deps
}

// withDependencies extends a choice of events by all that must precede them.
func withDependencies(deps [][]int, chosen []bool) {
	for i := len(chosen) - 1; i >= 0; i-- {
		if chosen[i] {
			for _, j := range deps[i] {
				chosen[j] = true
			}
		}
	}
}

// withoutOrphans reduces a choice to the events whose dependencies are in it.
func withoutOrphans(deps [][]int, chosen []bool) {
	for i := range chosen {
		for _, j := range deps[i] {
			chosen[i] = chosen[i] && chosen[j]
		}
	}
}

// disk is a whole file system with both sides.
type disk struct {
	root   *simNode
	nodes  map[uint64]*simNode
	last   uint64 // newest inode number
	events []dirEvent
}

func newDisk() *disk {
	d := &disk{nodes: map[uint64]*simNode{}}
	d.root = d.add(d.next(), fs.ModeDir|0o755, "", 0)
	d.root.links, d.root.durableLinks = 1, 1
	return d
}

// next returns an inode number that was never used.
func (d *disk) next() uint64 {
	d.last++
	return d.last
}

// add makes a node; a directory has room for so many entries.
func (d *disk) add(id uint64, mode fs.FileMode, target string, entries int) *simNode {
	n := &simNode{id: id, mode: mode, target: target}
	switch {
	case mode.IsDir():
		n.entries, n.durable = make(map[string]*simNode, entries), make(map[string]*simNode, entries)
	case mode.IsRegular():
		n.data, n.base = emptyContent, emptyContent
	}
	d.nodes[id] = n
	d.last = max(d.last, id)
	return n
}

// clone copies d; contents are shared and frozen.
func (d *disk) clone() *disk {
	c := &disk{nodes: make(map[uint64]*simNode, len(d.nodes)), last: d.last}
	for id, n := range d.nodes {
		m := *n
		m.opens = 0
		if n.data != nil {
			m.data = n.data.freeze()
		}
		m.pending = slices.Clone(n.pending)
		c.nodes[id] = &m
	}
	for _, n := range c.nodes {
		n.entries, n.durable = c.own(n.entries), c.own(n.durable)
	}
	c.root = c.nodes[d.root.id]
	c.events = slices.Clone(d.events)
	for i := range c.events {
		c.events[i].wait = slices.Clone(c.events[i].wait)
	}
	return c
}

// own returns entries with d's nodes of the same numbers.
func (d *disk) own(entries map[string]*simNode) map[string]*simNode {
	entries = maps.Clone(entries)
	for name, n := range entries {
		entries[name] = d.nodes[n.id]
	}
	return entries
}

// delta is one counted operation, in a form that can be applied to any disk that
// has the same past. The zero delta changes nothing.
type delta struct {
	kind   OpKind
	node   uint64 // file or directory
	fresh  bool   // node is new, with mode and target
	off    int64
	size   int64
	data   []byte // never changed afterwards
	mode   fs.FileMode
	target string
	edit   *edit
	failed bool // of OpSync and OpSyncDir
}

// apply carries out operation number op.
func (d *disk) apply(op int, do delta) {
	if do.fresh {
		d.add(do.node, do.mode, do.target, 0)
	}
	if do.edit != nil {
		d.edit(do.edit, (*simNode).seen)
		d.events = append(d.events, dirEvent{op: op, edit: do.edit, wait: do.edit.dirs()})
		return
	}
	n := d.nodes[do.node]
	if n == nil {
		return // unlinked for good, only a handle still knew it
	}
	switch do.kind {
	case OpWrite:
		fresh := n.data.size
		if end := do.off + int64(len(do.data)); end > fresh {
			n.pending = append(n.pending, fileEvent{op: op, size: end})
		}
		n.edit().writeAt(do.data, do.off)
		n.pending = append(n.pending, fileEvent{op: op, size: -1, off: do.off, data: do.data, fresh: fresh})
	case OpTruncate:
		if do.size != n.data.size {
			n.pending = append(n.pending, fileEvent{op: op, size: do.size, cut: do.size < n.data.size})
			n.edit().setSize(do.size)
		}
	case OpSync:
		n.sync(do.failed)
	case OpSyncDir:
		d.syncDir(n, do.failed)
	}
}

// edit returns the data for changing it.
func (n *simNode) edit() *content {
	if n.data.frozen {
		n.data = n.data.clone()
	}
	return n.data
}

func (n *simNode) sync(failed bool) {
	all := true
	for i := range n.pending {
		e := &n.pending[i]
		switch {
		case failed:
			e.doubt = e.doubt || !e.held
		case !e.doubt:
			e.held = true
		}
		all = all && e.held
	}
	if all {
		n.base, n.pending = n.data.freeze(), nil
	}
}

func (d *disk) syncDir(dir *simNode, failed bool) {
	chosen := make([]bool, len(d.events))
	for i := range d.events {
		e := &d.events[i]
		at := slices.Index(e.wait, dir.id)
		switch {
		case at < 0 || e.doubt:
		case failed:
			e.doubt = true
		default:
			e.wait = slices.Delete(e.wait, at, at+1)
			chosen[i] = len(e.wait) == 0
		}
	}
	withDependencies(dependencies(d.events), chosen)
	var rest []dirEvent
	for i, e := range d.events {
		if chosen[i] {
			d.edit(e.edit, (*simNode).stored)
		} else {
			rest = append(rest, e)
		}
	}
	d.events = rest
	d.sweep()
}

// seen and stored are the two sides of a directory entry: where it is, and
// where the names of its node are counted.
func (n *simNode) seen() (map[string]*simNode, *int)   { return n.entries, &n.links }
func (n *simNode) stored() (map[string]*simNode, *int) { return n.durable, &n.durableLinks }

// edit changes the entries of one side.
func (d *disk) edit(e *edit, side func(*simNode) (map[string]*simNode, *int)) {
	drop := func(p place) map[string]*simNode {
		dir := d.nodes[p.dir]
		if dir == nil {
			return nil // the directory itself is gone for good
		}
		entries, _ := side(dir)
		if old := entries[p.name]; old != nil {
			_, links := side(old)
			*links--
			delete(entries, p.name)
		}
		return entries
	}
	for _, p := range e.del {
		drop(p)
	}
	for p, id := range e.set {
		entries, n := drop(p), d.nodes[id]
		if entries == nil || n == nil {
			continue
		}
		_, links := side(n)
		*links++
		entries[p.name] = n
	}
}

// sweep forgets nodes that no power cut can bring back, and the changes of
// directories among them.
func (d *disk) sweep() {
	for {
		wanted := map[uint64]bool{}
		for _, e := range d.events {
			for _, id := range e.edit.nodes {
				wanted[id] = true
			}
		}
		swept := false
		for id, n := range d.nodes {
			if n.links == 0 && n.durableLinks == 0 && n.opens == 0 && !wanted[id] {
				for _, child := range n.durable {
					child.durableLinks--
				}
				delete(d.nodes, id)
				swept = true
			}
		}
		if !swept {
			return
		}
		d.events = slices.DeleteFunc(d.events, func(e dirEvent) bool {
			return !slices.ContainsFunc(e.edit.dirs(), func(dir uint64) bool { return d.nodes[dir] != nil })
		})
	}
}
