package nox

import "math/bits"

// P is the order of the field, 2^64 - 2^32 + 1. Only atoms below it have an identity.
const P = 0xffffffff00000001

// Noun is an atom or a pair of nouns. The zero value is the atom 0. It is a small
// handle that is passed by value; handles may be compared with == and used as keys of
// maps, which tells nodes apart, not nouns: two pairs built separately differ although
// [Equal] holds.
type Noun struct {
	pair *pair  // nil for an atom
	word uint64 // the value of an atom, the measure of a pair
}

// pair is the node that handles of a pair share. It has no more than 48 bytes, so
// that it fits the allocator's class.
type pair struct {
	head, tail Noun
	id         identity
}

// The measure of a noun packs what is known of it without looking: its number of nodes
// in the low 32 bits, its depth in the next 31, and in the highest bit whether an atom
// not below P is in it. It lies in the handle, so building a pair reads no memory. A
// noun whose depth stands still has more than 2^31 pairs, which is 100 GB.
const (
	sizeBits  = 32
	depthBits = 63 - sizeBits

	sizeMax  = 1<<sizeBits - 1
	depthMax = 1<<depthBits - 1

	depthOne     = 1 << sizeBits
	depthMask    = depthMax << sizeBits
	nonCanonical = 1 << 63
)

// Atom returns the atom v.
func Atom(v uint64) Noun { return Noun{word: v} }

// Pair returns the pair of head and tail.
func Pair(head, tail Noun) Noun {
	a, b := head.measure(), tail.measure()
	size := a&sizeMax + b&sizeMax + 1
	if size > sizeMax {
		size = sizeMax
	}
	depth := max(a&depthMask, b&depthMask)
	if depth != depthMask {
		depth += depthOne
	}
	return Noun{
		pair: &pair{head: head, tail: tail},
		word: (a|b)&nonCanonical | depth | size,
	}
}

func (n Noun) measure() uint64 {
	if n.pair != nil {
		return n.word
	}
	if n.word >= P {
		return 1 | nonCanonical
	}
	return 1
}

// IsAtom reports whether n is an atom.
func (n Noun) IsAtom() bool { return n.pair == nil }

// Value returns the value of an atom. It panics if n is a pair.
func (n Noun) Value() uint64 {
	if n.pair != nil {
		panic("nox: Value of a pair")
	}
	return n.word
}

// Head returns the first member of a pair. It panics if n is an atom.
func (n Noun) Head() Noun {
	if n.pair == nil {
		panic("nox: Head of an atom")
	}
	return n.pair.head
}

// Tail returns the second member of a pair. It panics if n is an atom.
func (n Noun) Tail() Noun {
	if n.pair == nil {
		panic("nox: Tail of an atom")
	}
	return n.pair.tail
}

// Size returns the number of nodes: 1 for an atom, 1 and those of both sides for a
// pair, with shared parts counted again each time. From 2^32 - 1 on it stands still.
func (n Noun) Size() uint64 { return n.measure() & sizeMax }

// Depth returns 0 for an atom, and 1 more than the deeper side for a pair. From
// 2^31 - 1 on it stands still.
func (n Noun) Depth() uint64 { return n.measure() & depthMask >> sizeBits }

// IsCanonical reports whether all atoms of n are below [P], so that n has an identity.
func (n Noun) IsCanonical() bool { return n.measure()&nonCanonical == 0 }

// Axis returns the part of n at the axis: n itself at 1, the head of axis k at 2k and
// its tail at 2k+1. It returns false for axis 0, and for one that leads into an atom.
func (n Noun) Axis(axis uint64) (Noun, bool) {
	if axis == 0 {
		return Noun{}, false
	}
	for bit := bits.Len64(axis) - 1; bit > 0; bit-- { // all after the leading 1
		if n.pair == nil {
			return Noun{}, false
		}
		if axis>>(bit-1)&1 == 0 {
			n = n.pair.head
		} else {
			n = n.pair.tail
		}
	}
	return n, true
}
