// Package goldilocks computes in the field of the integers modulo 2^64 - 2^32 + 1, which
// the hash and the numbers of programs share.
//
// Elements are held as any representative below 2^64, and so are operands and results
// unless a function says otherwise. Only [Canonical] makes them unique.
package goldilocks

import "math/bits"

// Prime is the modulus of the field, 2^64 - 2^32 + 1.
const Prime uint64 = 0xffffffff00000001

// Epsilon is 2^64 modulo Prime, 2^32 - 1.
const Epsilon uint64 = 1<<32 - 1

// Canonical returns the representative below Prime.
func Canonical(x uint64) uint64 {
	r, borrow := bits.Sub64(x, Prime, 0)
	return r + (-borrow & Prime)
}

// Add returns a + b. b must be canonical, so that the correction cannot carry again.
func Add(a, b uint64) uint64 {
	r, carry := bits.Add64(a, b, 0)
	return r + (-carry & Epsilon)
}

// AddLoose returns a + b for any two representatives.
func AddLoose(a, b uint64) uint64 {
	r, carry := bits.Add64(a, b, 0)
	r, carry = bits.Add64(r, -carry&Epsilon, 0)
	return r + (-carry & Epsilon)
}

// Reduce returns hi·2^64 + lo, which is lo + m·Epsilon - h with m and h the lower and
// the upper half of hi.
func Reduce(hi, lo uint64) uint64 {
	r, borrow := bits.Sub64(lo, hi>>32, 0)
	r -= -borrow & Epsilon
	m := hi & Epsilon
	r, carry := bits.Add64(r, m<<32-m, 0)
	return r + (-carry & Epsilon)
}

// Mul returns a · b.
func Mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return Reduce(hi, lo)
}

// MulAdd returns a · b + c, which fits into 128 bits before it is reduced.
func MulAdd(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c, 0)
	return Reduce(hi+carry, lo)
}
