package record

import (
	"encoding/binary"
	"fmt"
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
		if b.err == nil && len(b.nodes)-1 > MaxItems {
			b.err = fmt.Errorf("%w: %d items in one write, at most %d are allowed", ErrLimit, len(b.nodes)-1, MaxItems)
		}
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
	levels  [][]place // the nodes that are hashed at each level
	blobs   []place
	atoms   []place
	pairs   []place
	values  []uint64
	members [][2]Particle
	data    [][]byte
	ids     []Particle
}

type place struct {
	builder int32
	node    Node
}

var sealers = sync.Pool{New: func() any { return new(sealer) }}

func (s *sealer) seal() {
	var depth int32
	for _, b := range s.work {
		depth = max(depth, b.depth)
	}
	for len(s.levels) <= int(depth) {
		s.levels = append(s.levels, nil)
	}
	levels := s.levels[:depth+1]
	for l := range levels {
		levels[l] = levels[l][:0]
	}
	s.blobs = s.blobs[:0]
	for i, b := range s.work {
		for n := 1; n < len(b.nodes); n++ {
			at := place{int32(i), Node(n)}
			switch x := &b.nodes[n]; {
			case x.op == opBlob:
				s.blobs = append(s.blobs, at)
			case x.level > 0:
				levels[x.level] = append(levels[x.level], at)
			}
		}
	}
	s.hashBlobs()
	for _, level := range levels {
		s.atoms, s.pairs = s.atoms[:0], s.pairs[:0]
		for _, at := range level {
			if s.work[at.builder].nodes[at.node].op == opPair {
				s.pairs = append(s.pairs, at)
			} else {
				s.atoms = append(s.atoms, at)
			}
		}
		s.hashAtoms()
		s.hashPairs()
	}
	for _, b := range s.work {
		b.sealed = true
		b.collect()
	}
	clear(s.work)
}

// buffer returns room for n identities.
func (s *sealer) buffer(n int) []Particle {
	if cap(s.ids) < n {
		s.ids = make([]Particle, n)
	}
	return s.ids[:n]
}

func (s *sealer) set(places []place, ids []Particle) {
	for k, at := range places {
		s.work[at.builder].ids[at.node] = ids[k]
	}
}

func (s *sealer) hashBlobs() {
	s.data = s.data[:0]
	for _, at := range s.blobs {
		b := s.work[at.builder]
		s.data = append(s.data, b.blobs[b.nodes[at.node].b])
	}
	ids := s.buffer(len(s.data))
	hemera.SumAll(ids, s.data)
	s.set(s.blobs, ids)
	clear(s.data)
}

func (s *sealer) hashAtoms() {
	s.values = s.values[:0]
	for _, at := range s.atoms {
		s.values = append(s.values, s.work[at.builder].value(at.node))
	}
	ids := s.buffer(len(s.values))
	if err := hemera.AtomIDs(ids, s.values); err != nil {
		panic(err) // Atom has refused those; limbs and words are elements
	}
	s.set(s.atoms, ids)
}

func (s *sealer) hashPairs() {
	s.members = s.members[:0]
	for _, at := range s.pairs {
		b := s.work[at.builder]
		x := &b.nodes[at.node]
		s.members = append(s.members, [2]Particle{b.ids[x.a], b.ids[x.b]})
	}
	ids := s.buffer(len(s.members))
	if err := hemera.PairIDs(ids, s.members); err != nil {
		panic(err) // Known has refused what no hash results in
	}
	s.set(s.pairs, ids)
}

// value is the number that an atom stands for.
func (b *Builder) value(n Node) uint64 {
	x := &b.nodes[n]
	switch x.op {
	case opLimb:
		return le64(b.ids[x.a][8*x.b:])
	case opWord:
		return uint64(binary.LittleEndian.Uint32(b.ids[x.a][4*x.b:]))
	}
	return x.value
}

// collect makes the items: what the store is not known to have, each once, members
// before their pairs.
func (b *Builder) collect() {
	size, count := 0, 0
	for i := range b.nodes {
		switch x := &b.nodes[i]; x.op {
		case opKnown:
			continue
		case opPair:
			size += hemera.PairSize
		case opBlob:
		default:
			size += hemera.AtomSize
		}
		count++
	}
	buffer := make([]byte, 0, size)
	b.items = make([]Item, 0, count)
	seen := newParticleSet(count)
	for i := 1; i < len(b.nodes); i++ {
		x := &b.nodes[i]
		if x.op == opKnown || !seen.add(b.ids[i]) {
			continue
		}
		it := Item{Particle: b.ids[i]}
		from := len(buffer)
		switch x.op {
		case opPair:
			it.Kind = KindPair
			buffer = append(append(buffer, b.ids[x.a][:]...), b.ids[x.b][:]...)
			it.Bytes = buffer[from:len(buffer):len(buffer)]
		case opBlob:
			it.Kind = KindBlob
			it.Bytes = b.blobs[x.b]
		default:
			it.Kind = KindAtom
			buffer = binary.LittleEndian.AppendUint64(buffer, b.value(Node(i)))
			it.Bytes = buffer[from:len(buffer):len(buffer)]
		}
		b.items = append(b.items, it)
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
// rely on them.
func (b *Builder) Committed() { b.memo.learn(b) }

// particleSet is a set of particles, which are as good as random already.
type particleSet struct {
	table []Particle
	zero  bool
}

func newParticleSet(n int) *particleSet {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &particleSet{table: make([]Particle, size)}
}

// add reports whether p was not there yet.
func (s *particleSet) add(p Particle) bool {
	if p == (Particle{}) {
		was := s.zero
		s.zero = true
		return !was
	}
	mask := uint64(len(s.table) - 1)
	for i := le64(p[:]) & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case Particle{}:
			s.table[i] = p
			return true
		case p:
			return false
		}
	}
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
