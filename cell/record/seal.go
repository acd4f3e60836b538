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
	sealers.Put(s)
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
	steps   hemera.Pipeline
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

// The nodes of a level are atoms and then pairs.
const (
	levelAtoms = iota
	levelPairs
	levelKinds
)

// seal hashes all blobs, and then level by level what is above them. Atoms are begun
// one level before theirs, which has been left for that.
func (s *sealer) seal() {
	s.sort()
	s.hashBlobs()
	for level := firstStep; level < len(s.ends)/levelKinds; level++ {
		s.step(s.group(level+1, levelAtoms), s.group(level, levelAtoms), s.group(level, levelPairs))
	}
	for _, b := range s.work {
		b.sealed, b.before = true, nil
		b.collect()
	}
	clear(s.work)
}

// group are the nodes of a level and a kind.
func (s *sealer) group(level, kind int) []member {
	at := level*levelKinds + kind
	if at >= len(s.ends) {
		return nil
	}
	return s.order[s.ends[at-1]:s.ends[at]]
}

// sort puts the nodes in the order in which they are hashed.
func (s *sealer) sort() {
	depth, total := int32(0), 0
	for _, b := range s.work {
		depth = max(depth, b.depth)
	}
	s.ends = slices.Grow(s.ends[:0], levelKinds*int(depth+1))[:levelKinds*int(depth+1)]
	clear(s.ends)
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
	s.ids = slices.Grow(s.ids[:0], len(s.data))[:len(s.data)]
	hemera.SumAll(s.ids, s.data)
	s.set(s.blobs, s.ids)
	clear(s.data)
}

// step begins the atoms of the next level, ends those of this one, and hashes its pairs.
func (s *sealer) step(begun, ended, pairs []member) {
	s.values = s.values[:0]
	for _, m := range begun {
		s.values = append(s.values, s.work[m.builder].number(m.node))
	}
	s.members = slices.Grow(s.members[:0], len(pairs))[:len(pairs)]
	for k, m := range pairs {
		b := s.work[m.builder]
		x := &b.nodes[m.node]
		s.members[k][0], s.members[k][1] = b.ids[x.left()], b.ids[x.right()]
	}
	atomIDs, pairIDs, err := s.steps.Step(s.values, s.members)
	if err != nil {
		panic(err) // Atom and Known have refused what is no element
	}
	s.set(ended, atomIDs)
	s.set(pairs, pairIDs)
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
