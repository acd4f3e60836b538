package hemera

import (
	"math/rand/v2"
	"testing"
)

// TestFieldAgainstBig takes every pair of edges and many random pairs.
func TestFieldAgainstBig(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	check := func(a, b, c uint64) {
		t.Helper()
		if got, want := canonical(mul(a, b)), bigMul(a, b); got != want {
			t.Errorf("%x · %x = %x, want %x", a, b, got, want)
		}
		if got, want := canonical(addLoose(a, b)), bigAdd(a, b); got != want {
			t.Errorf("%x + %x = %x, want %x", a, b, got, want)
		}
		if got, want := canonical(add(a, canonical(b))), bigAdd(a, b); got != want {
			t.Errorf("%x + %x = %x, want %x", a, b, got, want)
		}
		if got, want := canonical(mulAdd(a, b, c)), bigAdd(bigMul(a, b), c); got != want {
			t.Errorf("%x · %x + %x = %x, want %x", a, b, c, got, want)
		}
		low, high := a>>26, b>>26
		if got, want := canonical(join(low, high)), bigAdd(low, bigMul(high, 1<<32)); got != want {
			t.Errorf("%x + %x · 2^32 = %x, want %x", low, high, got, want)
		}
	}
	for _, a := range edges {
		for _, b := range edges {
			check(a, b, edges[r.IntN(len(edges))])
		}
		if got, want := canonical(a), bigAdd(a, 0); got != want {
			t.Errorf("%x is %x, want %x", a, got, want)
		}
	}
	for range 20000 {
		check(anyElement(r), anyElement(r), anyElement(r))
	}
}

// hardToInvert finds elements of which one phase of invert removes more bits than its
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

// phases returns how many bits the two phases of invert remove.
func phases(x uint64) (first, second uint) {
	a, b := canonical(x), prime
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
		if got := canonical(invert(x)); got != want {
			t.Errorf("1/%x = %x, want %x", x, got, want)
		}
		if got := canonical(invertByPower(x)); got != want {
			t.Errorf("1/%x by power = %x, want %x", x, got, want)
		}
	}
	for _, x := range edges {
		check(x)
	}
	for k := range 64 {
		for d := range uint64(5) {
			check(1<<k + d - 2)
			check(prime>>k + d - 2)
			check(prime - 1<<k + d - 2)
		}
	}
	for _, x := range hardToInvert(r, 100) {
		check(x)
	}
	for range 20000 {
		check(anyElement(r))
	}
}

func TestInvertAll(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for n := range lanes + 1 {
		for _, zeros := range []int{0, 1, n / 2, n} {
			xs := make([]uint64, n)
			for i := range xs {
				xs[i] = anyElement(r)
			}
			for range zeros {
				if n > 0 {
					xs[r.IntN(n)] = []uint64{0, prime}[r.IntN(2)]
				}
			}
			got := append([]uint64(nil), xs...)
			invertAll(got)
			for i, x := range xs {
				if want := bigInvert(x); canonical(got[i]) != want {
					t.Fatalf("element %d of %x: %x, want %x", i, xs, canonical(got[i]), want)
				}
			}
		}
	}
}

func FuzzField(f *testing.F) {
	for _, a := range edges {
		f.Add(a, prime-a)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		if got, want := canonical(mul(a, b)), bigMul(a, b); got != want {
			t.Errorf("%x · %x = %x, want %x", a, b, got, want)
		}
		if got, want := canonical(invert(a)), bigInvert(a); got != want {
			t.Errorf("1/%x = %x, want %x", a, got, want)
		}
	})
}

// BenchmarkInvert inverts what it has just made, so that no branch is learnt.
func BenchmarkInvert(b *testing.B) {
	for _, form := range []struct {
		name   string
		invert func(uint64) uint64
	}{{"euclid", invert}, {"power", invertByPower}} {
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
