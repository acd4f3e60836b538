package hemera

import (
	"testing"

	"github.com/writ-authority/writ/internal/goldilocks"
)

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
					xs[r.IntN(n)] = []uint64{0, goldilocks.Prime}[r.IntN(2)]
				}
			}
			got := append([]uint64(nil), xs...)
			invertAll(got)
			for i, x := range xs {
				if want := bigInvert(x); goldilocks.Canonical(got[i]) != want {
					t.Fatalf("element %d of %x: %x, want %x", i, xs, goldilocks.Canonical(got[i]), want)
				}
			}
		}
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for range 20000 {
		low, high := anyElement(r)>>26, anyElement(r)>>26
		if got, want := goldilocks.Canonical(join(low, high)), bigAdd(low, bigMul(high, 1<<32)); got != want {
			t.Fatalf("%x + %x · 2^32 = %x, want %x", low, high, got, want)
		}
	}
}
