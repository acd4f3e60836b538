package record

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/hemera"
)

// Memo remembers what a store has, so that builders neither hash nor hand over again
// what is there: constants, atoms, pairs of what is known, references and short texts.
// It holds a bounded number of them, mostly those that were used last, in at most 10
// MiB. It may be used by any number of goroutines.
type Memo struct {
	suite *Suite

	manifests, heads, variants set // by schema
	small                      [smallAtoms / 64]set

	atoms cache[uint64]
	pairs cache[[2]Particle]
	refs  cache[Particle] // to the value that spells a particle

	mu      sync.Mutex // of those who change words
	strings atomic.Pointer[words]
}

// The bounds of a memo.
const (
	smallAtoms = 256 // those below it are not in the cache
	memoAtoms  = 1 << 12
	memoPairs  = 1 << 15
	memoRefs   = 1 << 16
	memoWords  = 256 // texts and labels, which are forgotten all at once
	memoWord   = 128 // bytes of one
)

// words are texts and labels. Those that are in use are never changed.
type words struct{ texts, labels map[string]Particle }

// NewMemo returns a memo of a store of which nothing is known.
func NewMemo(s *Suite) *Memo {
	m := &Memo{suite: s}
	m.atoms.limit, m.pairs.limit, m.refs.limit = memoAtoms/shards, memoPairs/shards, memoRefs/shards
	m.strings.Store(&words{})
	return m
}

// Suite returns the suite whose records are built.
func (m *Memo) Suite() *Suite { return m.suite }

// set has numbers below 64.
type set struct{ bits atomic.Uint64 }

func (s *set) has(i int) bool { return s.bits.Load()>>i&1 != 0 }

func (s *set) add(i int) {
	if !s.has(i) {
		s.bits.Or(1 << i)
	}
}

func (m *Memo) atom(v uint64) (p Particle, ok bool) {
	if v >= smallAtoms {
		return m.atoms.find(&v, v)
	}
	if !m.small[v/64].has(int(v % 64)) {
		return p, false
	}
	p, err := hemera.AtomID(v) // which has those in a table
	return p, err == nil
}

func (m *Memo) pair(left, right *Particle) (Particle, bool) {
	key := [2]Particle{*left, *right}
	return m.pairs.find(&key, mixed(left, right))
}

func (m *Memo) ref(to *Particle) (Particle, bool) { return m.refs.find(to, le64(to[:])) }

// mixed is the key of a pair in 64 bits.
func mixed(left, right *Particle) uint64 { return le64(left[:]) + le64(right[8:]) }

// learn adds what a builder has made, now that its items are durable.
func (m *Memo) learn(b *Builder) {
	for i := 1; i < len(b.nodes); i++ {
		n := &b.nodes[i]
		if n.ref != 0 && b.nodes[n.ref].level > 0 {
			m.refs.put(&b.ids[i], le64(b.ids[i][:]), &b.ids[n.ref])
		}
		switch {
		case n.level == 0:
		case n.op == opAtom && n.value < smallAtoms:
			m.small[n.value/64].add(int(n.value % 64))
		case n.op == opAtom:
			m.atoms.put(&n.value, n.value, &b.ids[i])
		case n.op == opPair && b.nodes[n.left()].lasts() && b.nodes[n.right()].lasts():
			left, right := &b.ids[n.left()], &b.ids[n.right()]
			m.pairs.put(&[2]Particle{*left, *right}, mixed(left, right), &b.ids[i])
		}
	}
	for i := range schemaNames {
		if b.manifests[i] != 0 {
			m.manifests.add(i)
		}
		if b.heads[i] != 0 {
			m.heads.add(i)
		}
		if b.constants[i] != 0 {
			m.variants.add(i)
		}
	}
	m.learnWords(b)
}

// lasts tells what a pair may be met again with: content that was known, or a number.
func (n *node) lasts() bool { return n.level == 0 || n.op == opAtom }

func (m *Memo) learnWords(b *Builder) {
	is := func(w named) bool { return b.nodes[w.node].level > 0 && len(w.text) <= memoWord }
	var next *words
	learn := func(list []named, of func(*words) map[string]Particle) {
		for _, w := range list {
			if !is(w) {
				continue
			}
			if next == nil {
				m.mu.Lock()
				old := m.strings.Load()
				next = &words{map[string]Particle{}, map[string]Particle{}}
				if len(old.texts)+len(old.labels) < memoWords {
					maps.Copy(next.texts, old.texts)
					maps.Copy(next.labels, old.labels)
				}
			}
			of(next)[w.text] = b.ids[w.node]
		}
	}
	learn(b.texts, func(w *words) map[string]Particle { return w.texts })
	learn(b.labels, func(w *words) map[string]Particle { return w.labels })
	if next != nil {
		m.strings.Store(next)
		m.mu.Unlock()
	}
}
