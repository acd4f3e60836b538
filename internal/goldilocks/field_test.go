package goldilocks

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestFieldAgainstBig takes every pair of edges and many random pairs.
func TestFieldAgainstBig(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	check := func(a, b, c uint64) {
		t.Helper()
		if got, want := Canonical(Mul(a, b)), bigMul(a, b); got != want {
			t.Errorf("%x · %x = %x, want %x", a, b, got, want)
		}
		if got, want := Canonical(AddLoose(a, b)), bigAdd(a, b); got != want {
			t.Errorf("%x + %x = %x, want %x", a, b, got, want)
		}
		if got, want := Canonical(Add(a, Canonical(b))), bigAdd(a, b); got != want {
			t.Errorf("%x + %x = %x, want %x", a, b, got, want)
		}
		if got, want := Canonical(MulAdd(a, b, c)), bigAdd(bigMul(a, b), c); got != want {
			t.Errorf("%x · %x + %x = %x, want %x", a, b, c, got, want)
		}
	}
	for _, a := range edges {
		for _, b := range edges {
			check(a, b, edges[r.IntN(len(edges))])
		}
		if got, want := Canonical(a), bigAdd(a, 0); got != want {
			t.Errorf("%x is %x, want %x", a, got, want)
		}
	}
	for range 20000 {
		check(anyElement(r), anyElement(r), anyElement(r))
	}
}

// hardToInvert finds elements of which one phase of Invert removes more bits than its
// cofactors have room for.
func hardToInvert(r *rand.Rand, n int) []uint64 {
	var found []uint64
	for len(found) < n {
		x := r.Uint64()
		if first, second := phases(x); first > cofactorBits || second > cofactorBits {
			found = append(found, x)
		}
	}
	return found
}

// phases returns how many bits the two phases of Invert remove.
func phases(x uint64) (first, second uint) {
	a, b := Canonical(x), Prime
	for a&1 == 0 {
		a >>= 1
	}
	for step := 0; a != b; step++ {
		if a < b {
			a, b = b, a
		}
		a -= b
		for a&1 == 0 {
			a >>= 1
			if step < firstPhase {
				first++
			} else {
				second++
			}
		}
	}
	return first, second
}

func TestInvert(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	check := func(x uint64) {
		t.Helper()
		want := bigInvert(x)
		if got := Canonical(Invert(x)); got != want {
			t.Errorf("1/%x = %x, want %x", x, got, want)
		}
		if got := Canonical(invertByPower(x)); got != want {
			t.Errorf("1/%x by power = %x, want %x", x, got, want)
		}
	}
	for _, x := range edges {
		check(x)
	}
	for k := range 64 {
		for d := range uint64(5) {
			check(1<<k + d - 2)
			check(Prime>>k + d - 2)
			check(Prime - 1<<k + d - 2)
		}
	}
	for _, x := range hardToInvert(r, 100) {
		check(x)
	}
	for range 20000 {
		check(anyElement(r))
	}
}

func FuzzField(f *testing.F) {
	for _, a := range edges {
		f.Add(a, Prime-a)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		if got, want := Canonical(Mul(a, b)), bigMul(a, b); got != want {
			t.Errorf("%x · %x = %x, want %x", a, b, got, want)
		}
		if got, want := Canonical(Invert(a)), bigInvert(a); got != want {
			t.Errorf("1/%x = %x, want %x", a, got, want)
		}
	})
}

// BenchmarkInvert inverts what it has just made, so that no branch is learnt.
func BenchmarkInvert(b *testing.B) {
	for _, form := range []struct {
		name   string
		invert func(uint64) uint64
	}{{"euclid", Invert}, {"power", invertByPower}} {
		b.Run(form.name, func(b *testing.B) {
			x := rand.Uint64()
			for b.Loop() {
				x = form.invert(x) + 12345
			}
			if x == 0 {
				b.Log(x)
			}
		})
	}
}

var bigPrime = new(big.Int).SetUint64(Prime)

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

// edges are representatives at which carries and borrows happen.
var edges = []uint64{
	0, 1, 2, 3, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1 << 33, 1<<48 - 1, 1 << 48, 1<<48 + 1,
	1 << 63, 1<<63 - 1, 1<<63 + 1, Prime/2 + 1, Prime / 2,
	Prime - 2, Prime - 1, Prime, Prime + 1, Prime + 2, ^uint64(0) - 1, ^uint64(0), 0xffffffff00000000, 0xfffffffeffffffff,
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

func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
