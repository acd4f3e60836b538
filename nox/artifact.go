package nox

import (
	"encoding/binary"
	"fmt"
)

// The tags of the byte form. An atom is its tag and 8 bytes, little-endian; a pair is
// its tag, the bytes of its head and those of its tail.
const (
	tagAtom = 0x00
	tagPair = 0x01

	atomBytes = 9
)

// Encode returns the noun artifact of n, or an error that wraps [ErrNodes] or
// [ErrDepth].
func Encode(n Noun) ([]byte, error) { return Artifact.Encode(n) }

// Decode returns the noun of an artifact. The error wraps [ErrTruncated], [ErrTag],
// [ErrTrailing], [ErrNodes] or [ErrDepth] and says at which byte.
func Decode(artifact []byte) (Noun, error) { return Artifact.Decode(artifact) }

// Encode is [Encode] with other limits.
func (l Limits) Encode(n Noun) ([]byte, error) {
	if err := l.Check(n); err != nil {
		return nil, err
	}
	size := n.Size()
	out := make([]byte, 0, (size+1)/2*atomBytes+size/2)
	var todo []Noun // tails, the next one last
	for {
		for n.pair != nil {
			out = append(out, tagPair)
			todo = append(todo, n.pair.tail)
			n = n.pair.head
		}
		out = append(out, tagAtom)
		out = binary.LittleEndian.AppendUint64(out, n.word)
		if len(todo) == 0 {
			return out, nil
		}
		n = todo[len(todo)-1]
		todo = todo[:len(todo)-1]
	}
}

// open is a pair whose members are being read.
type open struct {
	head Noun
	tail bool // head is there, the tail is being read
}

// Decode is [Decode] with other limits.
func (l Limits) Decode(artifact []byte) (Noun, error) {
	var opened []open
	rest := artifact
	for nodes := uint64(1); ; nodes++ {
		at := len(artifact) - len(rest)
		if len(rest) == 0 {
			return Noun{}, fmt.Errorf("%w: byte %d should begin a node, but the artifact ends there", ErrTruncated, at)
		}
		tag := rest[0]
		if tag != tagAtom && tag != tagPair {
			return Noun{}, fmt.Errorf("%w: byte %d is %#02x; expected 0x00 for an atom or 0x01 for a pair", ErrTag, at, tag)
		}
		if nodes > l.Nodes {
			return Noun{}, fmt.Errorf("%w: byte %d begins node %d, where %d are allowed", ErrNodes, at, nodes, l.Nodes)
		}
		if uint64(len(opened)) > l.Depth {
			return Noun{}, fmt.Errorf("%w: byte %d begins a node %d levels down, where %d are allowed", ErrDepth, at, len(opened), l.Depth)
		}
		if tag == tagPair {
			opened = append(opened, open{})
			rest = rest[1:]
			continue
		}
		if len(rest) < atomBytes {
			return Noun{}, fmt.Errorf("%w: byte %d begins an atom of %d bytes, of which %d are there", ErrTruncated, at, atomBytes, len(rest))
		}
		n := Atom(binary.LittleEndian.Uint64(rest[1:]))
		rest = rest[atomBytes:]
		for len(opened) > 0 && opened[len(opened)-1].tail {
			n = Pair(opened[len(opened)-1].head, n)
			opened = opened[:len(opened)-1]
		}
		if len(opened) == 0 {
			if len(rest) > 0 {
				return Noun{}, fmt.Errorf("%w: its noun ends at byte %d of %d", ErrTrailing, len(artifact)-len(rest), len(artifact))
			}
			return n, nil
		}
		opened[len(opened)-1] = open{head: n, tail: true}
	}
}
