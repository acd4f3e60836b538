package nox_test

import (
	"math/big"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
)

var order = number(nox.P)

func number(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

func plainAxis(n nox.Noun, axis uint64) (nox.Noun, bool) {
	if axis == 1 {
		return n, true
	}
	up, ok := plainAxis(n, axis/2)
	if !ok || up.IsAtom() {
		return up, false
	}
	if axis%2 == 0 {
		return up.Head(), true
	}
	return up.Tail(), true
}

// plainEqual compares what is shared once only, lest it should take for ever.
func plainEqual(a, b nox.Noun) bool {
	found := map[[2]nox.Noun]bool{}
	var equal func(a, b nox.Noun) bool
	equal = func(a, b nox.Noun) bool {
		if a.IsAtom() || b.IsAtom() {
			return a.IsAtom() && b.IsAtom() && a.Value() == b.Value()
		}
		is, ok := found[[2]nox.Noun{a, b}]
		if !ok {
			is = equal(a.Head(), b.Head()) && equal(a.Tail(), b.Tail())
			found[[2]nox.Noun{a, b}] = is
		}
		return is
	}
	return equal(a, b)
}

// plainIdentity names one node after another, what is shared once only.
func plainIdentity(n nox.Noun) hemera.Digest {
	found := map[nox.Noun]hemera.Digest{}
	var name func(n nox.Noun) hemera.Digest
	name = func(n nox.Noun) hemera.Digest {
		if id, ok := found[n]; ok {
			return id
		}
		var id hemera.Digest
		var err error
		if n.IsAtom() {
			id, err = hemera.AtomID(n.Value())
		} else {
			id, err = hemera.PairID(name(n.Head()), name(n.Tail()))
		}
		if err != nil {
			panic(err)
		}
		found[n] = id
		return id
	}
	return name(n)
}

// anyAtom draws atoms with a taste for the edges of words and of the field.
func anyAtom() *rapid.Generator[uint64] {
	return rapid.OneOf(
		rapid.Uint64Range(0, 40),
		rapid.SampledFrom([]uint64{1<<32 - 1, 1 << 32, nox.P - 1, nox.P, nox.P + 1, 1<<64 - 1, 1 << 56, 1<<56 - 1}),
		rapid.Uint64(),
	)
}

// canonicalAtom draws atoms of the field.
func canonicalAtom() *rapid.Generator[uint64] {
	return rapid.Map(anyAtom(), func(v uint64) uint64 { return v % nox.P })
}

func nounOf(atoms *rapid.Generator[uint64], depth int) *rapid.Generator[nox.Noun] {
	return rapid.Custom(func(t *rapid.T) nox.Noun {
		if depth == 0 || rapid.IntRange(0, 2).Draw(t, "atom") == 0 {
			return nox.Atom(atoms.Draw(t, "value"))
		}
		n := nounOf(atoms, depth-1)
		head := n.Draw(t, "head")
		if rapid.IntRange(0, 7).Draw(t, "shared") == 0 {
			return nox.Pair(head, head)
		}
		return nox.Pair(head, n.Draw(t, "tail"))
	})
}

func anyNoun() *rapid.Generator[nox.Noun]       { return nounOf(anyAtom(), 7) }
func canonicalNoun() *rapid.Generator[nox.Noun] { return nounOf(canonicalAtom(), 4) }
