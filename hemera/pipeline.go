package hemera

import (
	"fmt"
	"slices"
)

// Pipeline hashes data whose parts depend on each other, in steps: what is ready is
// hashed together. It takes as many steps as permutations follow one another, which
// AtomIDs and PairIDs in turn do not reach, as an atom takes two. The zero value is
// ready for use; it is not safe for use by several goroutines at once.
type Pipeline struct {
	begun  []state // atoms of the last step
	states []state // those, then new atoms, then pairs
	ids    []Digest
}

// Step begins atoms, ends those that the last call has begun, and hashes pairs. It
// returns the identities of the atoms of the last call and of the pairs of this one,
// which are good until the next call. If one of the numbers is no element, nothing is
// done and the error is ErrNotCanonical.
func (p *Pipeline) Step(atoms []uint64, pairs [][2]Digest) (lastAtoms, pairIDs []Digest, err error) {
	for i, v := range atoms {
		if err := checkElement(v); err != nil {
			return nil, nil, fmt.Errorf("identity of atom %d of %d: %w", i+1, len(atoms), err)
		}
	}
	for i := range pairs {
		if err := checkPair(&pairs[i][0], &pairs[i][1]); err != nil {
			return nil, nil, fmt.Errorf("identity of pair %d of %d: %w", i+1, len(pairs), err)
		}
	}
	last := len(p.begun)
	ends := last + len(atoms) // of the atoms
	s := slices.Grow(p.states[:0], ends+len(pairs))
	for i := range p.begun {
		s = append(s, atomLeaf(&p.begun[i]))
	}
	for _, v := range atoms {
		s = append(s, atomState(v))
	}
	for i := range pairs {
		s = append(s, nodeState(&pairs[i][0], &pairs[i][1], false))
	}
	for group := range slices.Chunk(s, lanes) {
		permuteAll(group)
	}
	p.states = s
	p.begun = append(p.begun[:0], s[last:ends]...)
	p.ids = slices.Grow(p.ids[:0], last+len(pairs))
	for i := range s {
		if i < last || i >= ends {
			p.ids = append(p.ids, s[i].digest())
		}
	}
	return p.ids[:last], p.ids[last:], nil
}
