package hemera

import "math/bits"

// firstPhase is the number of steps after which invert starts with new cofactors. A
// step removes two bits on average, an inversion about ninety, and the cofactors of
// a phase have room for 62: both phases fit but for about one element in a hundred.
const firstPhase = 22

// cofactorBits is how many bits a phase may remove before its cofactors, which are
// at most 2 to that power, could overflow.
const cofactorBits = 62

// invert returns 1/x, and 0 for 0.
//
// It is a binary Euclid on (x, prime) that removes all trailing zeros of a
// difference at once and has no branch that depends on which number is larger. The
// cofactor of the other number is multiplied instead of halving one's own, so that
// they are plain integers and the result is divided by 2^k in the end. Its time
// depends on x.
func invert(x uint64) uint64 {
	x = canonical(x)
	if x == 0 {
		return 0
	}
	// a·2^k = u·x and b·2^k = v·x modulo prime, with a and b odd.
	initial := uint(bits.TrailingZeros64(x))
	a, b := x>>initial, prime
	u, v, k := uint64(1), uint64(0), uint(0)
	for range firstPhase {
		d, borrow := bits.Sub64(a, b, 0)
		if d == 0 {
			break
		}
		m := -borrow // all ones if a < b: the two change places
		zeros := uint(bits.TrailingZeros64(d))
		w := u - v
		b += d & m
		a = ((d ^ m) - m) >> (zeros & 63)
		v = (v + w&m) << (zeros & 63)
		u = (w ^ m) - m
		k += zeros
	}
	a1, b1, k1 := a, b, k
	// a·2^k = f·a1 + ...·b1 and b·2^k = h·a1 + ...·b1 as integers. The cofactors of
	// b1 are not kept, as the last one follows from the others.
	f, h, k := uint64(1), uint64(0), uint(0)
	for {
		d, borrow := bits.Sub64(a, b, 0)
		if d == 0 {
			break // both are the greatest common divisor, 1
		}
		m := -borrow
		zeros := uint(bits.TrailingZeros64(d))
		w := f - h
		b += d & m
		a = ((d ^ m) - m) >> (zeros & 63)
		h = (h + w&m) << (zeros & 63)
		f = (w ^ m) - m
		k += zeros
	}
	if k1 > cofactorBits || k > cofactorBits {
		return invertByPower(x)
	}
	// 2^k = f·a1 + g·b1, and g fits into a word: the division is exact modulo 2^64.
	g := (1<<k - f*a1) * inverseOfOdd(b1)
	uf := mul(signed(u), signed(f))
	vg := mul(signed(v), signed(g))
	return mul(addLoose(uf, vg), halves[(initial+k1+k)&127])
}

// signed returns the element of an integer in two's complement.
func signed(x uint64) uint64 {
	return x - (uint64(int64(x)>>63) & epsilon)
}

// inverseOfOdd returns the inverse of an odd number modulo 2^64.
func inverseOfOdd(b uint64) uint64 {
	y := 3*b ^ 2 // right in 5 bits; each step doubles them
	y *= 2 - b*y
	y *= 2 - b*y
	y *= 2 - b*y
	return y * (2 - b*y)
}

// halves has 2^-k. An inversion removes at most 127 bits, as x · prime < 2^128.
var halves = func() (t [128]uint64) {
	t[0] = 1
	for k := 1; k < len(t); k++ {
		t[k] = mul(t[k-1], (prime+1)/2)
	}
	return t
}()

// invertByPower returns x^(prime-2).
func invertByPower(x uint64) uint64 {
	// xN is x^(2^N - 1).
	x2 := mul(square(x, 1), x)
	x3 := mul(square(x2, 1), x)
	x6 := mul(square(x3, 3), x3)
	x12 := mul(square(x6, 6), x6)
	x24 := mul(square(x12, 12), x12)
	x30 := mul(square(x24, 6), x6)
	x31 := mul(square(x30, 1), x)
	x32 := mul(square(x31, 1), x)
	return mul(square(x31, 33), x32)
}

// square returns x^(2^n).
func square(x uint64, n int) uint64 {
	for range n {
		x = mul(x, x)
	}
	return x
}

// invertAll replaces every element of xs by its inverse, with one inversion and three
// multiplications an element. A zero stays zero and touches no other.
func invertAll(xs []uint64) {
	if len(xs) == 0 {
		return
	}
	var products [lanes]uint64
	// Four chains, which the processor works on at the same time.
	const chains = 4
	var run [chains]uint64
	for c := range run {
		run[c] = 1
	}
	for i := range xs {
		x := canonical(xs[i])
		if x == 0 {
			x = 1
			xs[i] = 0
		} else {
			xs[i] = x
		}
		products[i] = run[i%chains]
		run[i%chains] = mul(run[i%chains], x)
	}
	r01, r23 := mul(run[0], run[1]), mul(run[2], run[3])
	all := invert(mul(r01, r23))
	i01, i23 := mul(all, r23), mul(all, r01)
	run = [chains]uint64{mul(i01, run[1]), mul(i01, run[0]), mul(i23, run[3]), mul(i23, run[2])}
	for i := len(xs) - 1; i >= 0; i-- {
		x := xs[i]
		if x == 0 {
			continue
		}
		xs[i] = mul(run[i%chains], products[i])
		run[i%chains] = mul(run[i%chains], x)
	}
}
