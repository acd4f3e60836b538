package hemera

import "math/bits"

// prime is the modulus of the field, 2^64 - 2^32 + 1.
const prime uint64 = 0xffffffff00000001

// epsilon is 2^64 modulo prime, 2^32 - 1.
const epsilon uint64 = 1<<32 - 1

// Elements are held as any representative below 2^64. Only canonical makes them
// unique: before bytes are written, and before an element is compared with zero.

// canonical returns the representative below prime.
func canonical(x uint64) uint64 {
	r, borrow := bits.Sub64(x, prime, 0)
	return r + (-borrow & prime)
}

// add returns a + b. b must be canonical, so that the correction cannot carry again.
func add(a, b uint64) uint64 {
	r, carry := bits.Add64(a, b, 0)
	return r + (-carry & epsilon)
}

// addLoose returns a + b for any two representatives.
func addLoose(a, b uint64) uint64 {
	r, carry := bits.Add64(a, b, 0)
	r, carry = bits.Add64(r, -carry&epsilon, 0)
	return r + (-carry & epsilon)
}

// reduce returns hi·2^64 + lo, which is lo + m·epsilon - h with m and h the lower and
// the upper half of hi.
func reduce(hi, lo uint64) uint64 {
	r, borrow := bits.Sub64(lo, hi>>32, 0)
	r -= -borrow & epsilon
	m := hi & epsilon
	r, carry := bits.Add64(r, m<<32-m, 0)
	return r + (-carry & epsilon)
}

// mul returns a · b.
func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return reduce(hi, lo)
}

// mulAdd returns a · b + c, which fits into 128 bits before it is reduced.
func mulAdd(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c, 0)
	return reduce(hi+carry, lo)
}
