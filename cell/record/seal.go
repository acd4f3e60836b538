package record

import (
	"encoding/binary"

	"slices"
	"sync"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

// Seal computes all identities. It returns the first mistake that was made in
// building, or ErrLimit for more than MaxItems items.
func (b *Builder) Seal() error { return Seal(b) }

// Seal is Seal of several builders at once, which is faster than one after another
// the more of them there are. The error is the first one; every builder without a
// mistake of its own is sealed.
func Seal(builders ...*Builder) error {
	var first error
	s := sealers.Get().(*sealer)
	defer sealers.Put(s)
	s.work = s.work[:0]
	for _, b := range builders {
		if b.err != nil {
			if first == nil {
				first = b.err
			}
			continue
		}
		if !b.sealed {
			s.work = append(s.work, b)
		}
	}
	s.seal()
	return first
}

// Err returns the mistake that Seal would return.
func (b *Builder) Err() error { return b.err }

// sealer are the buffers of sealing.
type sealer struct {
	work    []*Builder
	ends    []int    // of each level and kind in order
	order   []member // all nodes that are hashed but for blobs, by level and kind
	blobs   []member
	values  []uint64
	members [][2]Particle
	data    [][]byte
	ids     []Particle
}

// member is a node of one of the builders.
type member struct {
	builder int32
	node    Node
}

var sealers = sync.Pool{New: func() any { return new(sealer) }}

// At each level all atoms are hashed at once, and then all pairs.
const (
	levelAtoms = iota
	levelPairs
	levelKinds
)

func (s *sealer) seal() {
	s.sort()
	s.hashBlobs()
	from := 0
	for i, end := range s.ends {
		if end > from {
			if i%levelKinds == levelAtoms {
				s.hashAtoms(s.order[from:end])
			} else {
				s.hashPairs(s.order[from:end])
			}
		}
		from = end
	}
	for _, b := range s.work {
		b.sealed = true
		b.collect()
	}
	clear(s.work)
}

// sort puts the nodes in the order in which they are hashed.
func (s *sealer) sort() {
	depth, total := int32(0), 0
	for _, b := range s.work {
		depth = max(depth, b.depth)
	}
	s.ends = append(s.ends[:0], make([]int, levelKinds*(depth+1))...)
	s.blobs = s.blobs[:0]
	for i, b := range s.work {
		for n := 1; n < len(b.nodes); n++ {
			if x := &b.nodes[n]; x.op == opBlob {
				s.blobs = append(s.blobs, member{int32(i), Node(n)})
			} else if x.level > 0 {
				s.ends[x.group()]++
				total++
			}
		}
	}
	begin := 0
	for i, n := range s.ends {
		s.ends[i] = begin
		begin += n
	}
	s.order = slices.Grow(s.order[:0], total)[:total]
	for i, b := range s.work {
		for n := 1; n < len(b.nodes); n++ {
			if x := &b.nodes[n]; x.level > 0 && x.op != opBlob {
				at := &s.ends[x.group()] // now the end of what is there
				s.order[*at] = member{int32(i), Node(n)}
				*at++
			}
		}
	}
}

// group is the place of the node's level and kind.
func (n *node) group() int32 {
	if n.op == opPair {
		return levelKinds*n.level + levelPairs
	}
	return levelKinds*n.level + levelAtoms
}

// buffer returns room for n identities.
func (s *sealer) buffer(n int) []Particle {
	s.ids = slices.Grow(s.ids[:0], n)[:n]
	return s.ids
}

func (s *sealer) set(members []member, ids []Particle) {
	for k, m := range members {
		s.work[m.builder].ids[m.node] = ids[k]
	}
}

func (s *sealer) hashBlobs() {
	if len(s.blobs) == 0 {
		return
	}
	s.data = s.data[:0]
	for _, m := range s.blobs {
		b := s.work[m.builder]
		s.data = append(s.data, b.blobs[b.nodes[m.node].value])
	}
	ids := s.buffer(len(s.data))
	hemera.SumAll(ids, s.data)
	s.set(s.blobs, ids)
	clear(s.data)
}

func (s *sealer) hashAtoms(atoms []member) {
	s.values = s.values[:0]
	for _, m := range atoms {
		s.values = append(s.values, s.work[m.builder].number(m.node))
	}
	ids := s.buffer(len(s.values))
	if err := hemera.AtomIDs(ids, s.values); err != nil {
		panic(err) // Atom has refused those; limbs and words are elements
	}
	s.set(atoms, ids)
}

func (s *sealer) hashPairs(pairs []member) {
	s.members = slices.Grow(s.members[:0], len(pairs))[:len(pairs)]
	for k, m := range pairs {
		b := s.work[m.builder]
		x := &b.nodes[m.node]
		s.members[k][0], s.members[k][1] = b.ids[x.left()], b.ids[x.right()]
	}
	ids := s.buffer(len(s.members))
	if err := hemera.PairIDs(ids, s.members); err != nil {
		panic(err) // Known has refused what no hash results in
	}
	s.set(pairs, ids)
}

// number is what an atom stands for.
func (b *Builder) number(n Node) uint64 {
	x := &b.nodes[n]
	switch x.op {
	case opLimb:
		return le64(b.ids[x.left()][8*x.right():])
	case opWord:
		return uint64(binary.LittleEndian.Uint32(b.ids[x.left()][4*x.right():]))
	}
	return x.value
}

// collect makes the items: what the store is not known to have, each once, members
// before their pairs. Their bytes lie in one piece of memory.
func (b *Builder) collect() {
	size, count := 0, 0
	for i := 1; i < len(b.nodes); i++ {
		x := &b.nodes[i]
		if x.level == 0 {
			continue
		}
		count++
		switch x.op {
		case opPair:
			size += hemera.PairSize
		case opBlob:
		default:
			size += hemera.AtomSize
		}
	}
	clear(b.table) // it is now of nodes by their particles
	buffer := make([]byte, 0, size)
	b.items = make([]Item, 0, count)
	for i := 1; i < len(b.nodes); i++ {
		x := &b.nodes[i]
		if x.level == 0 || !b.first(Node(i)) {
			continue
		}
		it := Item{Particle: b.ids[i]}
		from := len(buffer)
		switch x.op {
		case opPair:
			it.Kind = KindPair
			buffer = append(append(buffer, b.ids[x.left()][:]...), b.ids[x.right()][:]...)
			it.Bytes = buffer[from:len(buffer):len(buffer)]
		case opBlob:
			it.Kind = KindBlob
			it.Bytes = b.blobs[x.value]
		default:
			it.Kind = KindAtom
			buffer = binary.LittleEndian.AppendUint64(buffer, b.number(Node(i)))
			it.Bytes = buffer[from:len(buffer):len(buffer)]
		}
		b.items = append(b.items, it)
	}
}

// first reports whether no node before n has its particle.
func (b *Builder) first(n Node) bool {
	mask := uint64(len(b.table) - 1)
	for at := le64(b.ids[n][:]) >> 1 & mask; ; at = (at + 1) & mask {
		switch m := b.table[at]; {
		case m == 0:
			b.table[at] = n
			return true
		case b.ids[m] == b.ids[n]:
			return false
		}
	}
}

// Particle is the identity of a node of a sealed builder, or of a Known one.
func (b *Builder) Particle(n Node) Particle {
	if !b.sealed && b.nodes[n].level > 0 {
		panic("record: the particle of a node before Seal")
	}
	return b.ids[n]
}

// Items are what the store is not known to have, each once and members before their
// pairs. Their bytes must not be changed.
func (b *Builder) Items() []Item { return b.items }

// Committed says that the items of a sealed builder are durable, so that the memo may
// rely on them. It must not be called where they were not written, such as for a
// request that the store knew already.
func (b *Builder) Committed() {
	if !b.sealed {
		panic("record: content that is committed before Seal")
	}
	b.memo.learn(b)
}

// Canonical reports whether p could be a particle: none of its limbs is 2^64 - 2^32
// + 1 or more.
func Canonical(p Particle) bool {
	for i := 0; i < hemera.Size; i += 8 {
		if le64(p[i:]) >= nox.P {
			return false
		}
	}
	return true
}
