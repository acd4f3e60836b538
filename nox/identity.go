package nox

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/hemera"
)

// identity is the digest of a pair once it is known.
type identity = atomic.Pointer[hemera.Digest]

// identityBatch is how many digests are computed in one call. They are allocated
// together, so one of them in use keeps them all.
const identityBatch = 64

// Identity returns the particle of n: the name of the data, which depends on nothing
// else. It is computed once for each pair and kept. The error wraps [ErrNonCanonical]
// if an atom in n is not below [P], or [ErrDepth] for a noun so deep that its depth is
// not known.
func (n Noun) Identity() (hemera.Digest, error) {
	if n.pair == nil {
		id, err := hemera.AtomID(n.word)
		if err != nil {
			return id, fmt.Errorf("%w: %d", ErrNonCanonical, n.word)
		}
		return id, nil
	}
	if id := n.pair.id.Load(); id != nil {
		return *id, nil
	}
	var ids [1]hemera.Digest
	err := Identities(ids[:], []Noun{n})
	return ids[0], err
}

// Identities computes the identities of many nouns at once, which is faster than one
// after another, and uses all processors where there is enough to do. dst must be as
// long as nouns. The error is that of [Noun.Identity]
// for the first noun that has none, and nothing is computed then.
func Identities(dst []hemera.Digest, nouns []Noun) error {
	if len(dst) != len(nouns) {
		panic(fmt.Sprintf("nox: %d digests for %d nouns", len(dst), len(nouns)))
	}
	for _, n := range nouns {
		if !n.IsCanonical() {
			return fmt.Errorf("%w: in %s", ErrNonCanonical, brief(n))
		}
		if n.Depth() == depthMax {
			return fmt.Errorf("%w: identities are for nouns less than %d levels deep", ErrDepth, depthMax)
		}
	}
	var w work
	for _, n := range nouns {
		w.collect(n)
	}
	if err := w.computeAtoms(); err != nil {
		return err
	}
	if err := w.computePairs(); err != nil {
		return err
	}
	for i, n := range nouns {
		dst[i] = w.digest(n)
	}
	return nil
}

// work is what must be hashed for some nouns.
type work struct {
	atoms   map[uint64]int // where the atom's digest is
	values  []uint64
	digests []hemera.Digest

	seen  map[*pair]struct{}
	pairs []Noun // each once
}

// collect notes everything below n that has no identity yet.
func (w *work) collect(n Noun) {
	todo := []Noun{n}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for n.pair != nil && n.pair.id.Load() == nil {
			if _, ok := w.seen[n.pair]; ok {
				break
			}
			if w.seen == nil {
				w.seen = map[*pair]struct{}{}
			}
			w.seen[n.pair] = struct{}{}
			w.pairs = append(w.pairs, n)
			todo = append(todo, n.pair.tail)
			n = n.pair.head
		}
		if n.pair == nil {
			w.collectAtom(n.word)
		}
	}
}

func (w *work) collectAtom(v uint64) {
	if _, ok := w.atoms[v]; ok {
		return
	}
	if w.atoms == nil {
		w.atoms = map[uint64]int{}
	}
	w.atoms[v] = len(w.values)
	w.values = append(w.values, v)
}

func (w *work) computeAtoms() error {
	w.digests = make([]hemera.Digest, len(w.values))
	return share(len(w.values), func(from, to int) error {
		return hemera.AtomIDs(w.digests[from:to], w.values[from:to])
	})
}

// computePairs goes by depth, as pairs of one depth do not depend on each other.
func (w *work) computePairs() error {
	slices.SortFunc(w.pairs, func(a, b Noun) int { return cmp.Compare(a.Depth(), b.Depth()) })
	for rest := w.pairs; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Depth() == rest[0].Depth() {
			n++
		}
		level := rest[:n]
		rest = rest[n:]
		err := share(n, func(from, to int) error { return w.computeLevel(level[from:to]) })
		if err != nil {
			return err
		}
	}
	return nil
}

// computeLevel computes the identities of some pairs of one depth.
func (w *work) computeLevel(level []Noun) error {
	members := make([][2]hemera.Digest, 0, min(len(level), identityBatch))
	for batch := range slices.Chunk(level, identityBatch) {
		members = members[:0]
		for _, n := range batch {
			members = append(members, [2]hemera.Digest{w.digest(n.pair.head), w.digest(n.pair.tail)})
		}
		ids := make([]hemera.Digest, len(batch))
		if err := hemera.PairIDs(ids, members); err != nil {
			return err
		}
		for i, n := range batch {
			n.pair.id.Store(&ids[i])
		}
	}
	return nil
}

// identityShare is how many hashes are worth a goroutine.
const identityShare = 48

// share has do work on the numbers below n, split among the processors if there are
// many, and waits for all of them.
func share(n int, do func(from, to int) error) error {
	workers := min(runtime.GOMAXPROCS(0), n/identityShare)
	if workers < 2 {
		return do(0, n)
	}
	errs := make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers {
		wait.Go(func() { errs[i] = do(i*n/workers, (i+1)*n/workers) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// digest returns the identity of a noun for which all is computed.
func (w *work) digest(n Noun) hemera.Digest {
	if n.pair != nil {
		return *n.pair.id.Load()
	}
	return w.digests[w.atoms[n.word]]
}

// FromDigest returns a digest as a value: its four limbs as [[L0 L1] [L2 L3]]. That
// is not the noun that the digest names.
func FromDigest(d hemera.Digest) Noun { return quartet(d.Limbs()) }

func quartet(e [4]uint64) Noun {
	return Pair(Pair(Atom(e[0]), Atom(e[1])), Pair(Atom(e[2]), Atom(e[3])))
}

// Particle returns the identity of n as a value, which is what axis 0 gives.
func Particle(n Noun) (Noun, error) {
	id, err := n.Identity()
	if err != nil {
		return Noun{}, err
	}
	return FromDigest(id), nil
}

// Hash returns what the pattern hash makes of n: the first four elements of the
// permutation of the limbs of its identity, as [[e0 e1] [e2 e3]].
func Hash(n Noun) (Noun, error) {
	id, err := n.Identity()
	if err != nil {
		return Noun{}, err
	}
	var state [16]uint64
	limbs := id.Limbs()
	copy(state[:], limbs[:])
	if err := hemera.Permute(&state); err != nil {
		return Noun{}, err
	}
	return quartet([4]uint64(state[:4])), nil
}
