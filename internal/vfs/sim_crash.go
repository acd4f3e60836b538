package vfs

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// Policy bounds the enumeration of crash states. The zero Policy varies
// everything singly and adds no random subsets.
type Policy struct {
	// Random is the number of random subsets for each cut.
	Random int
	// Seed makes the random subsets repeatable.
	Seed uint64
	// Tears is the most points at which one write is torn, spread evenly over
	// its sector boundaries; 0 means all of them.
	Tears int
	// Recent limits the variation of single writes to those of the last Recent
	// operations; older ones survive or are lost together, and at random. 0
	// means no limit. It keeps a file that is never synced from making the
	// enumeration quadratic.
	Recent int
	// Skip is asked with the fingerprint of each state before it is made, if it
	// is not nil. A state for which it returns true is not yielded. A test that
	// has met a state at another cut saves most of its cost so.
	Skip func(fingerprint uint64) bool
}

// checkpointEvery is the number of operations between two kept disks, which
// bounds the work of going back to an earlier cut.
const checkpointEvery = 128

// recording is everything since Capture. A disk after any operation is rebuilt
// from the nearest earlier one by applying deltas.
type recording struct {
	first  int // operations before the recording
	deltas []delta

	mu          sync.Mutex
	checkpoints []*disk // after first + i*checkpointEvery operations; never changed
	cursor      *disk
	at          int // deltas applied to cursor
}

// Capture starts recording, so that CrashStates can be asked about every
// operation from now on. What is unsynced now is remembered as such.
func (s *Sim) Capture() {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := s.disk.clone()
	s.record = &recording{first: len(s.ops), checkpoints: []*disk{start}, cursor: start.clone()}
}

// disk returns a copy of the disk after the given deltas.
func (r *recording) disk(deltas []delta) *disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	if nearest := min(len(deltas)/checkpointEvery, len(r.checkpoints)-1); len(deltas) < r.at || nearest*checkpointEvery > r.at {
		r.cursor, r.at = r.checkpoints[nearest].clone(), nearest*checkpointEvery
	}
	for ; r.at < len(deltas); r.at++ {
		r.cursor.apply(r.first+r.at+1, deltas[r.at])
		if done := r.at + 1; done == len(r.checkpoints)*checkpointEvery {
			r.checkpoints = append(r.checkpoints, r.cursor.clone())
		}
	}
	return r.cursor.clone()
}

// CrashStates yields the states in which the disk can be after a power cut that
// hits when operation number cut is done and the next has not begun; cut goes
// from OpCount at Capture to OpCount now. States that are equal as a whole are
// yielded once. They are:
//
//   - nothing unsynced survives; everything does; file contents without
//     directory entries and the other way round;
//   - all new lengths without any of the data, showing zeros or garbage;
//   - each single unsynced write missing as a whole, without its data, or without
//     its new length; and each one alone surviving;
//   - each write torn at each sector boundary, either side surviving, the file
//     longer already or only as far as the tear;
//   - each single change of directory entries missing together with what depends
//     on it, and alone with what it depends on;
//   - random subsets.
//
// Each state is a new Sim with nothing unsynced, no locks, and an Origin. It
// shares unchanged content with the others but can be changed independently.
// CrashStates may be called for several cuts at the same time, and while the
// recorded Sim is still in use. It panics without a Capture or if cut lies
// outside of the recording.
func (s *Sim) CrashStates(cut int, policy Policy) iter.Seq[*Sim] {
	s.mu.Lock()
	r := s.record
	if r == nil {
		s.mu.Unlock()
		panic("vfs: CrashStates without Capture")
	}
	if cut < r.first || cut > len(s.ops) {
		s.mu.Unlock()
		panic(fmt.Sprintf("vfs: CrashStates at %d, recorded are %d to %d", cut, r.first, len(s.ops)))
	}
	deltas := r.deltas[:cut-r.first]
	var last Op
	if cut > 0 {
		last = s.ops[cut-1]
	}
	s.mu.Unlock()
	return func(yield func(*Sim) bool) {
		w := &wreck{
			disk:   r.disk(deltas),
			cut:    cut,
			last:   last,
			policy: policy,
			yield:  yield,
			seen:   map[uint64]bool{},
		}
		w.enumerate()
	}
}

// Fingerprint returns a sum of everything a program can see in the file system:
// paths, modes, contents, links. Sums of equal states are equal inside one
// process; they let a test skip states that it has met at another cut.
func (s *Sim) Fingerprint() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk.tree().fingerprint(visible)
}

// FingerprintOf returns a sum of the names and contents of those files that lie
// directly in the directory dir and whose names keep accepts. It is zero when dir
// is no directory.
func (s *Sim) FingerprintOf(dir string, keep func(name string) bool) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.disk.find(dir, false)
	if err != nil || !n.mode.IsDir() {
		return 0
	}
	sum := uint64(1)
	for name, child := range n.entries {
		if child.mode.IsRegular() && keep(name) {
			sum += mix(maphash.String(sumSeed, name), visible(child).digest())
		}
	}
	return sum
}

// Fork returns a new Sim that holds what a program sees now, all of it durable.
func (s *Sim) Fork() *Sim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return newSim(s.disk.tree().build(s.disk.last, visible))
}

// visible returns what a program reads in a file, frozen so that it may be shared.
func visible(n *simNode) *content { return n.data.freeze() }

// tree is the directory tree as a program sees it.
func (d *disk) tree() *shape {
	return d.shape(func(n *simNode) map[string]*simNode { return n.entries })
}

// fate is what a power cut does to one fileEvent. The zero fate loses it.
type fate struct {
	kept   bool  // a length: kept; bytes: the sectors of [from, to) are
	size   int64 // a length: only so far, if not 0
	from   int   // bytes: sectors counted from the one with the first byte
	to     int
	sector []bool // bytes: the sectors that are kept, instead of from and to
}

// all keeps an event as a whole.
func (e *fileEvent) all() fate { return fate{kept: true, to: e.sectors()} }

// isSize reports whether e is a new length.
func (e *fileEvent) isSize() bool { return e.size >= 0 }

// sectors returns how many sectors the bytes touch.
func (e *fileEvent) sectors() int {
	if len(e.data) == 0 {
		return 0
	}
	return int((e.off+int64(len(e.data))-1)/sectorSize - e.off/sectorSize + 1)
}

// sector returns the range of the data that lies in sector i.
func (e *fileEvent) sector(i int) (from, to int) {
	start := (e.off/sectorSize+int64(i))*sectorSize - e.off
	return int(max(0, start)), int(min(int64(len(e.data)), start+sectorSize))
}

// filler is what lost new bytes show.
type filler bool

const (
	zeros   filler = false
	garbage filler = true
)

// fillGarbage overwrites p, which lies at offset off, with bytes that are
// neither zero nor what was written, as far as that can be.
func fillGarbage(p []byte, off int64) {
	for i := range p {
		p[i] = byte((off+int64(i))*151) | 0x81
	}
}

// survive returns the content of n after the power cut. fates are parallel to
// n.pending; nil loses everything that is not held.
func (n *simNode) survive(fates []fate, fill filler) *content {
	c := n.base.clone()
	size := n.base.size // c itself also remembers bytes behind the end
	for i := range n.pending {
		e := &n.pending[i]
		f := fate{}
		switch {
		case e.held:
			f = e.all()
		case fates != nil:
			f = fates[i]
		}
		if e.isSize() {
			if !f.kept {
				continue
			}
			size = e.size
			if f.size != 0 {
				size = f.size
			}
			if e.cut && size < c.size {
				c.setSize(size)
			}
			continue
		}
		for s := range e.sectors() {
			from, to := e.sector(s)
			keep := f.kept && s >= f.from && s < f.to
			if f.sector != nil {
				keep = f.sector[s]
			}
			if keep {
				c.writeAt(e.data[from:to], e.off+int64(from))
				continue
			}
			fresh := int(max(int64(from), e.fresh-e.off))
			if fill == garbage && fresh < to {
				junk := make([]byte, to-fresh)
				fillGarbage(junk, e.off+int64(fresh))
				c.writeAt(junk, e.off+int64(fresh))
			}
		}
	}
	c.setSize(size)
	return c.freeze()
}

// spot is a name in a directory tree.
type spot struct {
	parent int // index among the spots; the root has -1
	name   string
	node   *simNode
	sum    uint64 // of the path
}

// shape is a directory tree without the contents of the files.
type shape struct {
	spots []spot // parents before their children
	has   map[*simNode]int
	sum   uint64 // of everything but contents
}

// shape walks the tree that the given entries form.
func (d *disk) shape(entries func(dir *simNode) map[string]*simNode) *shape {
	t := &shape{spots: make([]spot, 0, len(d.nodes)), has: make(map[*simNode]int, len(d.nodes))}
	t.add(spot{parent: -1, node: d.root, sum: 1})
	for i := 0; i < len(t.spots); i++ {
		at := t.spots[i]
		if !at.node.mode.IsDir() {
			continue
		}
		for name, n := range entries(at.node) {
			t.add(spot{parent: i, name: name, node: n, sum: mix(at.sum, maphash.String(sumSeed, name))})
		}
	}
	for n, links := range t.has {
		if links > 1 {
			t.sum += mix(n.id, uint64(links))
		}
	}
	return t
}

func (t *shape) add(at spot) {
	t.spots = append(t.spots, at)
	t.has[at.node]++
	t.sum += mix(at.sum, uint64(at.node.mode))
	if at.node.target != "" {
		t.sum += mix(at.sum, maphash.String(sumSeed, at.node.target))
	}
}

// fingerprint returns the sum of the tree with contents.
func (t *shape) fingerprint(content func(*simNode) *content) uint64 {
	sum := t.sum
	for _, at := range t.spots {
		if at.node.mode.IsRegular() {
			sum += mix(at.sum, content(at.node).digest())
		}
	}
	return sum
}

// build makes the disk that a machine finds when it starts again.
func (t *shape) build(last uint64, content func(*simNode) *content) *disk {
	d := &disk{nodes: make(map[uint64]*simNode, len(t.spots)), last: last}
	made := make([]*simNode, len(t.spots))
	for i, at := range t.spots {
		n := d.nodes[at.node.id]
		if n == nil {
			n = d.add(at.node.id, at.node.mode, at.node.target, len(at.node.entries))
			if n.mode.IsRegular() {
				n.data = content(at.node)
				n.base = n.data
			}
		}
		made[i] = n
		n.links++
		n.durableLinks++
		if at.parent < 0 {
			d.root = n
			continue
		}
		made[at.parent].entries[at.name] = n
		made[at.parent].durable[at.name] = n
	}
	return d
}

// wreck enumerates the states after one power cut. Its disk is its own and does
// not change any more.
type wreck struct {
	disk   *disk
	cut    int
	last   Op
	policy Policy
	yield  func(*Sim) bool
	seen   map[uint64]bool
	done   bool // the caller has had enough

	deps  [][]int
	files []*simNode // with something unsynced, by inode
	whole map[wholeKey]*content
}

// wholesale is what happens to all unsynced events of a file alike.
type wholesale int

const (
	allSurvives wholesale = iota
	noneSurvives
	onlySizes
	onlySizesGarbage
)

var wholesaleNames = [...]string{
	allSurvives:      "all unsynced data survives",
	noneSurvives:     "no unsynced data survives",
	onlySizes:        "new lengths survive, their data is zeros",
	onlySizesGarbage: "new lengths survive, their data is garbage",
}

type wholeKey struct {
	node *simNode
	how  wholesale
}

// contentOf returns what n holds if all its events have the same fate.
func (w *wreck) contentOf(n *simNode, how wholesale) *content {
	if len(n.pending) == 0 {
		return n.base
	}
	key := wholeKey{n, how}
	c := w.whole[key]
	if c == nil {
		var fates []fate
		switch how {
		case allSurvives:
			fates = n.allFates()
		case onlySizes, onlySizesGarbage:
			fates = n.allFates()
			for i := range n.pending {
				if !n.pending[i].isSize() {
					fates[i] = fate{}
				}
			}
		}
		c = n.survive(fates, filler(how == onlySizesGarbage))
		w.whole[key] = c
	}
	return c
}

// allFates keeps everything.
func (n *simNode) allFates() []fate {
	fates := make([]fate, len(n.pending))
	for i := range n.pending {
		fates[i] = n.pending[i].all()
	}
	return fates
}

// emit yields one state unless it was there before. changed holds the contents
// that differ from those of the others.
func (w *wreck) emit(t *shape, others wholesale, changed map[*simNode]*content, describe func() string) {
	if w.done {
		return
	}
	content := func(n *simNode) *content {
		if c := changed[n]; c != nil {
			return c
		}
		return w.contentOf(n, others)
	}
	sum := t.fingerprint(content)
	if w.seen[sum] {
		return
	}
	w.seen[sum] = true
	if w.policy.Skip != nil && w.policy.Skip(sum) {
		return
	}
	s := newSim(t.build(w.disk.last, content))
	cut, last := w.cut, w.last
	s.origin = func() string {
		if cut == 0 {
			return "power cut before the first operation: " + describe()
		}
		return fmt.Sprintf("power cut after %v: %s", last, describe())
	}
	w.done = !w.yield(s)
}

// entryShape returns the tree with the chosen changes of directory entries.
func (w *wreck) entryShape(chosen []bool) *shape {
	changed := map[uint64]map[string]*simNode{}
	entries := func(p place) map[string]*simNode {
		dir := w.disk.nodes[p.dir]
		if dir == nil {
			return nil
		}
		if changed[p.dir] == nil {
			changed[p.dir] = maps.Clone(dir.durable)
		}
		return changed[p.dir]
	}
	for i, e := range w.disk.events {
		if !chosen[i] {
			continue
		}
		for _, p := range e.edit.del {
			delete(entries(p), p.name)
		}
		for p, id := range e.edit.set {
			if to, n := entries(p), w.disk.nodes[id]; to != nil && n != nil {
				to[p.name] = n
			}
		}
	}
	return w.disk.shape(func(dir *simNode) map[string]*simNode {
		if entries, ok := changed[dir.id]; ok {
			return entries
		}
		return dir.durable
	})
}

func (w *wreck) enumerate() {
	w.deps = dependencies(w.disk.events)
	w.whole = map[wholeKey]*content{}
	for _, n := range w.disk.nodes {
		if slices.ContainsFunc(n.pending, func(e fileEvent) bool { return !e.held }) {
			w.files = append(w.files, n)
		}
	}
	slices.SortFunc(w.files, func(a, b *simNode) int { return cmp.Compare(a.id, b.id) })

	none := w.entryShape(make([]bool, len(w.disk.events)))
	all := none
	if len(w.disk.events) > 0 {
		all = w.entryShape(slices.Repeat([]bool{true}, len(w.disk.events)))
	}
	for how, data := range wholesaleNames {
		w.emit(none, wholesale(how), nil, func() string { return data + ", new directory entries are lost" })
		w.emit(all, wholesale(how), nil, func() string { return data + ", new directory entries survive" })
	}
	for _, n := range w.files {
		w.varyFile(all, n, "survive")
		if all != none {
			w.varyFile(none, n, "are lost")
		}
	}
	w.varyEntries()
	w.random(all)
}

// recent reports whether operation op is to be varied singly.
func (w *wreck) recent(op int) bool {
	return w.policy.Recent <= 0 || op > w.cut-w.policy.Recent
}

// varyFile varies each unsynced operation of n.
func (w *wreck) varyFile(t *shape, n *simNode, entries string) {
	if t.has[n] == 0 {
		return // not reachable: no content of it makes a difference
	}
	for i := 0; i < len(n.pending) && !w.done; {
		size, data := -1, -1
		op, held := n.pending[i].op, n.pending[i].held
		for ; i < len(n.pending) && n.pending[i].op == op; i++ {
			if n.pending[i].isSize() {
				size = i
			} else {
				data = i
			}
		}
		if !held && w.recent(op) {
			w.varyOperation(t, n, size, data, entries)
		}
	}
}

// varyOperation varies one operation of n, of which size and data are the
// events or -1.
func (w *wreck) varyOperation(t *shape, n *simNode, size, data int, entries string) {
	try := func(others wholesale, fill filler, what string, tear int, change func(fates []fate)) {
		fates := n.allFates()
		if others == noneSurvives {
			fates = make([]fate, len(n.pending))
		}
		change(fates)
		w.emit(t, others, map[*simNode]*content{n: n.survive(fates, fill)}, func() string {
			op := n.pending[max(size, data)].op
			s := fmt.Sprintf("of operation %d %s", op, what)
			if tear > 0 {
				s += fmt.Sprintf(" %d", tear)
			}
			if fill == garbage {
				s += ", the rest is garbage"
			}
			return fmt.Sprintf("%s; else %s, new directory entries %s", s, wholesaleNames[others], entries)
		})
	}
	set := func(fates []fate, sizeFate, dataFate fate) {
		if size >= 0 {
			fates[size] = sizeFate
		}
		if data >= 0 {
			fates[data] = dataFate
		}
	}
	whole, lost := fate{kept: true}, fate{}
	if data >= 0 {
		whole = n.pending[data].all()
	}
	try(allSurvives, zeros, "nothing survives", 0, func(f []fate) { set(f, lost, lost) })
	try(noneSurvives, zeros, "everything survives", 0, func(f []fate) { set(f, fate{kept: true}, whole) })
	if data < 0 {
		return
	}
	fills := []filler{zeros}
	if size >= 0 {
		fills = []filler{zeros, garbage}
		try(allSurvives, zeros, "the new length is lost", 0, func(f []fate) { set(f, lost, whole) })
		for _, fill := range fills {
			try(allSurvives, fill, "only the new length survives", 0, func(f []fate) { set(f, fate{kept: true}, lost) })
		}
	}
	e := &n.pending[data]
	sectors := e.sectors()
	for _, tear := range w.tears(sectors) {
		head, rest := fate{kept: true, to: tear}, fate{kept: true, from: tear, to: sectors}
		for _, fill := range fills {
			try(allSurvives, fill, "only the sectors survive that lie before sector", tear,
				func(f []fate) { set(f, fate{kept: true}, head) })
			try(allSurvives, fill, "only the sectors survive that do not lie before sector", tear,
				func(f []fate) { set(f, fate{kept: true}, rest) })
		}
		try(noneSurvives, zeros, "only the sectors survive that lie before sector", tear,
			func(f []fate) { set(f, fate{kept: true}, head) })
		if at, _ := e.sector(tear); size >= 0 && e.off+int64(at) > e.fresh {
			try(allSurvives, zeros, "data and length survive only up to sector", tear,
				func(f []fate) { set(f, fate{kept: true, size: e.off + int64(at)}, head) })
		}
	}
}

// tears returns the sector boundaries at which a write is torn.
func (w *wreck) tears(sectors int) []int {
	boundaries := sectors - 1
	count := boundaries
	if w.policy.Tears > 0 {
		count = min(count, w.policy.Tears)
	}
	list := make([]int, 0, max(0, count))
	for i := range count {
		list = append(list, 1+i*boundaries/count)
	}
	return list
}

// varyEntries varies each unsynced change of directory entries.
func (w *wreck) varyEntries() {
	for i, e := range w.disk.events {
		if w.done {
			return
		}
		if !w.recent(e.op) {
			continue
		}
		without := slices.Repeat([]bool{true}, len(w.disk.events))
		without[i] = false
		withoutOrphans(w.deps, without)
		alone := make([]bool, len(w.disk.events))
		alone[i] = true
		withDependencies(w.deps, alone)
		for _, how := range []wholesale{allSurvives, noneSurvives} {
			w.emit(w.entryShape(without), how, nil, func() string {
				return fmt.Sprintf("%s, the directory change of operation %d is lost", wholesaleNames[how], e.op)
			})
			w.emit(w.entryShape(alone), how, nil, func() string {
				return fmt.Sprintf("%s, of directory changes only that of operation %d survives", wholesaleNames[how], e.op)
			})
		}
	}
}

// random draws subsets. Each file is more or less lucky as a whole, so that both
// nearly complete and nearly empty subsets turn up.
func (w *wreck) random(all *shape) {
	if len(w.files) == 0 && len(w.disk.events) == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.policy.Seed, uint64(w.cut)))
	for i := range w.policy.Random {
		if w.done {
			return
		}
		t := all
		if len(w.disk.events) > 0 {
			chosen := make([]bool, len(w.disk.events))
			luck := rng.Float64()
			for i := range chosen {
				chosen[i] = rng.Float64() < luck
			}
			withoutOrphans(w.deps, chosen)
			t = w.entryShape(chosen)
		}
		changed := map[*simNode]*content{}
		for _, n := range w.files {
			changed[n] = n.survive(n.randomFates(rng), filler(rng.IntN(2) == 0))
		}
		w.emit(t, noneSurvives, changed, func() string {
			return fmt.Sprintf("random subset %d with seed %d", i, w.policy.Seed)
		})
	}
}

func (n *simNode) randomFates(rng *rand.Rand) []fate {
	fates := make([]fate, len(n.pending))
	luck := rng.Float64()
	for i := range n.pending {
		e := &n.pending[i]
		switch {
		case e.isSize() || e.sectors() == 1 || rng.IntN(2) == 0:
			if rng.Float64() < luck {
				fates[i] = e.all()
			}
		default:
			sector := make([]bool, e.sectors())
			for s := range sector {
				sector[s] = rng.Float64() < luck
			}
			fates[i] = fate{sector: sector}
		}
	}
	return fates
}
