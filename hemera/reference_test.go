package hemera

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/writ-authority/writ/internal/goldilocks"
)

// The reference is the permutation as its definition reads, with math/big.

var bigPrime = new(big.Int).SetUint64(goldilocks.Prime)

func bigMul(a, b uint64) uint64 {
	x, y := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
	return x.Mod(x.Mul(x, y), bigPrime).Uint64()
}

func bigAdd(a, b uint64) uint64 {
	x, y := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
	return x.Mod(x.Add(x, y), bigPrime).Uint64()
}

func bigInvert(a uint64) uint64 {
	x := new(big.Int).SetUint64(a)
	if x.Mod(x, bigPrime).Sign() == 0 {
		return 0
	}
	return x.ModInverse(x, bigPrime).Uint64()
}

func bigPow7(a uint64) uint64 {
	x := new(big.Int).SetUint64(a)
	return x.Exp(x, big.NewInt(7), bigPrime).Uint64()
}

// referenceExternal multiplies by 2M on the diagonal of blocks and M elsewhere.
func referenceExternal(s state) (r state) {
	m := [4][4]uint64{{2, 3, 1, 1}, {1, 2, 3, 1}, {1, 1, 2, 3}, {3, 1, 1, 2}}
	for i := range s {
		for j := range s {
			c := m[i%4][j%4]
			if i/4 == j/4 {
				c *= 2
			}
			r[i] = bigAdd(r[i], bigMul(c, s[j]))
		}
	}
	return r
}

func referenceInternal(s state) (r state) {
	sum := uint64(0)
	for _, x := range s {
		sum = bigAdd(sum, x)
	}
	for i, x := range s {
		r[i] = bigAdd(bigMul(diagonal[i], x), sum)
	}
	return r
}

// referencePermute returns the states after the first layer and after each round.
func referencePermute(s state, full [fullRounds][width]uint64, partial [partialRounds]uint64) []state {
	s = referenceExternal(s)
	trace := []state{s}
	fullRound := func(r int) {
		for i := range s {
			s[i] = bigPow7(bigAdd(s[i], full[r][i]))
		}
		s = referenceExternal(s)
		trace = append(trace, s)
	}
	for r := range fullRounds / 2 {
		fullRound(r)
	}
	for r := range partialRounds {
		s[0] = bigInvert(bigAdd(s[0], partial[r]))
		s = referenceInternal(s)
		trace = append(trace, s)
	}
	for r := fullRounds / 2; r < fullRounds; r++ {
		fullRound(r)
	}
	return trace
}

// reference returns the permutation of s with the constants in use.
func reference(s state) state {
	trace := referencePermute(s, fullConstants, partialConstants)
	return trace[len(trace)-1]
}

func (s *state) canonical() (r state) {
	for i, x := range s {
		r[i] = goldilocks.Canonical(x)
	}
	return r
}

// edges are representatives at which carries and borrows happen.
var edges = []uint64{
	0, 1, 2, 3, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1 << 33, 1<<48 - 1, 1 << 48, 1<<48 + 1,
	1 << 63, 1<<63 - 1, 1<<63 + 1, goldilocks.Prime/2 + 1, goldilocks.Prime / 2,
	goldilocks.Prime - 2, goldilocks.Prime - 1, goldilocks.Prime, goldilocks.Prime + 1, goldilocks.Prime + 2, ^uint64(0) - 1, ^uint64(0), 0xffffffff00000000, 0xfffffffeffffffff,
	1<<52 - 1, 1 << 52, 1<<52 + 1, 0xfff << 52, goldilocks.Prime - 1<<52, // where vectors divide an element
}

// anyElement draws edges and their neighbours more often than chance would.
func anyElement(r *rand.Rand) uint64 {
	switch r.IntN(4) {
	case 0:
		return edges[r.IntN(len(edges))]
	case 1:
		return 1<<r.IntN(64) + r.Uint64N(5) - 2
	default:
		return r.Uint64()
	}
}

func anyState(r *rand.Rand) (s state) {
	if r.IntN(8) == 0 {
		x := anyElement(r)
		for i := range s {
			s[i] = x
		}
		return s
	}
	for i := range s {
		s[i] = anyElement(r)
	}
	return s
}

func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
