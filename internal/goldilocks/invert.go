package goldilocks

import "math/bits"

// firstPhase is the number of steps after which Invert starts with new cofactors. A
// step removes two bits on average, an inversion about ninety, and the cofactors of
// a phase have room for 62: both phases fit but for about one element in a hundred.
const firstPhase = 22

// cofactorBits is how many bits a phase may remove before its cofactors, which are
// at most 2 to that power, could overflow.
const cofactorBits = 62

// Invert returns 1/x, and 0 for 0, or for Prime.
//
// It is a binary Euclid on (x, Prime) that removes all trailing zeros of a
// difference at once and has no branch that depends on which number is larger. The
// cofactor of the other number is multiplied instead of halving one's own, so that
// they are plain integers and the result is divided by 2^k in the end. Its time
// depends on x.
func Invert(x uint64) uint64 {
	x = Canonical(x)
	if x == 0 {
		return 0
	}
	// a·2^k = u·x and b·2^k = v·x modulo Prime, with a and b odd.
	initial := uint(bits.TrailingZeros64(x))
	a, b := x>>initial, Prime
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
	uf := Mul(signed(u), signed(f))
	vg := Mul(signed(v), signed(g))
	return Mul(AddLoose(uf, vg), halves[(initial+k1+k)&127])
}

// signed returns the element of an integer in two's complement.
func signed(x uint64) uint64 {
	return x - (uint64(int64(x)>>63) & Epsilon)
}

// inverseOfOdd returns the inverse of an odd number modulo 2^64.
func inverseOfOdd(b uint64) uint64 {
	y := 3*b ^ 2 // right in 5 bits; each step doubles them
	y *= 2 - b*y
	y *= 2 - b*y
	y *= 2 - b*y
	return y * (2 - b*y)
}

// halves has 2^-k. An inversion removes at most 127 bits, as x · Prime < 2^128.
var halves = func() (t [128]uint64) {
	t[0] = 1
	for k := 1; k < len(t); k++ {
		t[k] = Mul(t[k-1], (Prime+1)/2)
	}
	return t
}()

// invertByPower returns x^(Prime-2).
func invertByPower(x uint64) uint64 {
	// xN is x^(2^N - 1).
	x2 := Mul(square(x, 1), x)
	x3 := Mul(square(x2, 1), x)
	x6 := Mul(square(x3, 3), x3)
	x12 := Mul(square(x6, 6), x6)
	x24 := Mul(square(x12, 12), x12)
	x30 := Mul(square(x24, 6), x6)
	x31 := Mul(square(x30, 1), x)
	x32 := Mul(square(x31, 1), x)
	return Mul(square(x31, 33), x32)
}

// square returns x^(2^n).
func square(x uint64, n int) uint64 {
	for range n {
		x = Mul(x, x)
	}
	return x
}
