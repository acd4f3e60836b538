package record

import "sync"

// memoSize is how many entries one generation of a Memo holds. An entry takes 100
// to 200 bytes.
const memoSize = 1 << 15

// Memo remembers what a store has, so that builders neither hash nor hand over again
// what is there: atoms, pairs of what is known, references, texts and manifests. It
// holds a bounded number of them, those that were used last. It may be used by any
// number of goroutines.
type Memo struct {
	suite *Suite

	mu       sync.RWMutex
	cur, old *generation
}

// generation is what was learnt during a while.
type generation struct {
	atoms     map[uint64]Particle
	pairs     map[[2]Particle]Particle
	refs      map[Particle]Particle // to the reference to a particle
	texts     map[string]Particle
	labels    map[string]Particle
	manifests map[string]Particle
	n         int
}

func newGeneration() *generation {
	return &generation{
		map[uint64]Particle{}, map[[2]Particle]Particle{}, map[Particle]Particle{},
		map[string]Particle{}, map[string]Particle{}, map[string]Particle{}, 0,
	}
}

// NewMemo returns a memo of a store of which nothing is known.
func NewMemo(s *Suite) *Memo {
	return &Memo{suite: s, cur: newGeneration(), old: newGeneration()}
}

// Suite returns the suite whose records are built.
func (m *Memo) Suite() *Suite { return m.suite }

// recall looks a key up in both generations; aged says that it was found in the
// older one only, and should be learnt again.
func recall[K comparable](m *Memo, of func(*generation) map[K]Particle, key K) (p Particle, ok, aged bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p, ok = of(m.cur)[key]; ok {
		return p, true, false
	}
	p, ok = of(m.old)[key]
	return p, ok, ok
}

func atomsOf(g *generation) map[uint64]Particle      { return g.atoms }
func pairsOf(g *generation) map[[2]Particle]Particle { return g.pairs }
func refsOf(g *generation) map[Particle]Particle     { return g.refs }
func textsOf(g *generation) map[string]Particle      { return g.texts }
func labelsOf(g *generation) map[string]Particle     { return g.labels }
func manifestsOf(g *generation) map[string]Particle  { return g.manifests }

// learn adds what a builder has learnt, now that its items are durable.
func (m *Memo) learn(b *Builder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.cur
	for _, n := range b.learnt {
		p := b.ids[n]
		switch x := &b.nodes[n]; x.op {
		case opAtom:
			g.atoms[x.value] = p
		case opPair:
			g.pairs[[2]Particle{b.ids[x.a], b.ids[x.b]}] = p
		}
	}
	for _, l := range b.lessons {
		switch p := b.ids[l.node]; l.of {
		case lessonAtom:
			g.atoms[l.value] = p
		case lessonPair:
			g.pairs[l.pair] = p
		case lessonRef:
			g.refs[b.ids[l.to]] = p
		case lessonText:
			g.texts[l.text] = p
		case lessonLabel:
			g.labels[l.text] = p
		case lessonManifest:
			g.manifests[l.text] = p
		}
	}
	g.n += len(b.learnt) + len(b.lessons)
	if g.n >= memoSize {
		m.old, m.cur = g, newGeneration()
	}
}
