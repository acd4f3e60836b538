package hemera

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// The lengths of encoded data, which tell an atom from a pair.
const (
	AtomSize = 8
	PairSize = 2 * Size
)

// commonAtoms has the identities of the smallest atoms, which most data is full of.
var commonAtoms = sync.OnceValue(func() *[256]Digest {
	var ids [256]Digest
	atomIDs(ids[:], func(i int) uint64 { return uint64(i) })
	return &ids
})

// AtomID returns the identity of an atom. A number that is no element has none:
// ErrNotCanonical.
func AtomID(v uint64) (Digest, error) {
	if err := checkElement(v); err != nil {
		return Digest{}, fmt.Errorf("identity of an atom: %w", err)
	}
	if common := commonAtoms(); v < uint64(len(common)) {
		return common[v], nil
	}
	s := atomState(v)
	s.permute()
	s = atomLeaf(&s)
	s.permute()
	return s.digest(), nil
}

// atomState is the hash of an atom's eight bytes before its one permutation. The eighth
// byte is followed by the padding.
func atomState(v uint64) state {
	const low = 8 * bytesPerElement
	return state{0: v & (1<<low - 1), 1: v>>low | 1<<8, placeLength: AtomSize}
}

// atomLeaf makes a leaf of what atomState has become, before its permutation.
func atomLeaf(s *state) state {
	return state{goldilocks.Canonical(s[0]), goldilocks.Canonical(s[1]), goldilocks.Canonical(s[2]), goldilocks.Canonical(s[3]), placeFlags: flagChunk}
}

// AtomIDs sets dst[i] to the identity of the atom vs[i], many at once. If one is no
// element nothing is set, and ErrNotCanonical returned. It panics if the lengths differ.
func AtomIDs(dst []Digest, vs []uint64) error {
	if len(dst) != len(vs) {
		panic("hemera: AtomIDs needs as many results as atoms")
	}
	common := commonAtoms()
	var rare []int
	for i, v := range vs {
		if err := checkElement(v); err != nil {
			return fmt.Errorf("identity of atom %d of %d: %w", i+1, len(vs), err)
		}
		if v >= uint64(len(common)) {
			rare = append(rare, i)
		}
	}
	ids := make([]Digest, len(rare))
	atomIDs(ids, func(i int) uint64 { return vs[rare[i]] })
	for i, v := range vs {
		if v < uint64(len(common)) {
			dst[i] = common[v]
		}
	}
	for i, at := range rare {
		dst[at] = ids[i]
	}
	return nil
}

func atomIDs(dst []Digest, v func(i int) uint64) {
	var states [lanes]state
	for begin := 0; begin < len(dst); begin += lanes {
		group := dst[begin:min(begin+lanes, len(dst))]
		now := states[:len(group)]
		for i := range now {
			now[i] = atomState(v(begin + i))
		}
		permuteAll(now)
		for i := range now {
			now[i] = atomLeaf(&now[i])
		}
		permuteAll(now)
		for i := range now {
			group[i] = now[i].digest()
		}
	}
}

// PairID returns the identity of the pair of two pieces of data, from their identities.
// One that no hash can have resulted in is refused with ErrNotCanonical.
func PairID(left, right Digest) (Digest, error) { return Node(left, right, false) }

// PairIDs sets dst[i] to the identity of the pair pairs[i], many at once. If a member is
// refused nothing is set, and ErrNotCanonical returned. It panics if the lengths differ.
// A pair must not be a member of another one of the same call.
func PairIDs(dst []Digest, pairs [][2]Digest) error {
	if len(dst) != len(pairs) {
		panic("hemera: PairIDs needs as many results as pairs")
	}
	for i := range pairs {
		if err := checkPair(&pairs[i][0], &pairs[i][1]); err != nil {
			return fmt.Errorf("identity of pair %d of %d: %w", i+1, len(pairs), err)
		}
	}
	permuteEach(dst, func(i int) state {
		return nodeState(&pairs[i][0], &pairs[i][1], false)
	})
	return nil
}

// DataID returns the identity of encoded data: an atom of AtomSize bytes, lowest first,
// or a pair of PairSize bytes, which are its members' identities. It refuses with
// ErrEncoding what has another length, and with ErrNotCanonical what has a number that
// is no element.
func DataID(encoding []byte) (Digest, error) {
	switch len(encoding) {
	case AtomSize:
		return AtomID(binary.LittleEndian.Uint64(encoding))
	case PairSize:
		return PairID(Digest(encoding[:Size]), Digest(encoding[Size:]))
	default:
		return Digest{}, fmt.Errorf("%w: data has %d or %d bytes, not %d", ErrEncoding, AtomSize, PairSize, len(encoding))
	}
}

// CheckData says whether encoded data is what id names: nil, what DataID refuses, or
// ErrMismatch.
func CheckData(id Digest, encoding []byte) error {
	is, err := DataID(encoding)
	if err != nil {
		return err
	}
	return compare(id, is)
}

// CheckBlob says whether a byte string is what id names: nil, ErrNotCanonical for an id
// that names nothing, or ErrMismatch. Whether an id is that of a blob or of data must be
// known: eight bytes have one identity as a blob and another as an atom.
func CheckBlob(id Digest, content []byte) error { return compare(id, Sum(content)) }

func compare(claimed, is Digest) error {
	if err := claimed.check(); err != nil {
		return fmt.Errorf("claimed identity: %w", err)
	}
	if claimed != is {
		return fmt.Errorf("%w: expected %s, got %s", ErrMismatch, claimed, is)
	}
	return nil
}
