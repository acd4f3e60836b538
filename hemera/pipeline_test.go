package hemera

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// TestPipeline compares steps of any width with the identities of single data.
func TestPipeline(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var p Pipeline
	var last []uint64
	known := []Digest{Sum(nil)}
	for range 40 {
		var atoms []uint64
		var pairs [][2]Digest
		for range random.IntN(5) * random.IntN(30) {
			atoms = append(atoms, random.Uint64N(goldilocks.Prime)>>(8*random.IntN(8)))
		}
		for range random.IntN(5) * random.IntN(30) {
			pairs = append(pairs, [2]Digest{known[random.IntN(len(known))], known[random.IntN(len(known))]})
		}
		if _, _, err := p.Step([]uint64{1, goldilocks.Prime}, pairs); !errors.Is(err, ErrNotCanonical) {
			t.Fatalf("a number that is no element: %v", err)
		}
		if _, _, err := p.Step(atoms, [][2]Digest{{known[0], {7: 255, 6: 255, 5: 255, 4: 255, 3: 1}}}); !errors.Is(err, ErrNotCanonical) {
			t.Fatalf("a member that is no digest: %v", err)
		}
		atomIDs, pairIDs, err := p.Step(atoms, pairs)
		if err != nil {
			t.Fatal(err)
		}
		wantAtoms, wantPairs := make([]Digest, len(last)), make([]Digest, len(pairs))
		for i, v := range last {
			wantAtoms[i], _ = AtomID(v)
		}
		for i, pair := range pairs {
			wantPairs[i], _ = PairID(pair[0], pair[1])
		}
		if !slices.Equal(atomIDs, wantAtoms) || !slices.Equal(pairIDs, wantPairs) {
			t.Fatalf("%d atoms and %d pairs have other identities than one by one", len(last), len(pairs))
		}
		known = append(append(known, atomIDs...), pairIDs...)
		last = atoms
	}
}
