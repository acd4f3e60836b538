package nox

import "math/bits"

// The field of integers modulo [P]. Operands of Add, Sub, Mul and Inverse may be any
// 64-bit integers; results are below P.

// epsilon is 2^64 modulo P.
const epsilon = 1<<32 - 1

func reduce(x uint64) uint64 {
	if x >= P {
		x -= P
	}
	return x
}

// Add returns x + y modulo P.
func Add(x, y uint64) uint64 {
	sum, carry := bits.Add64(reduce(x), reduce(y), 0)
	if carry != 0 {
		return sum + epsilon // below P, as the sum of two elements is below 2P
	}
	return reduce(sum)
}

// Sub returns x - y modulo P.
func Sub(x, y uint64) uint64 {
	diff, borrow := bits.Sub64(reduce(x), reduce(y), 0)
	if borrow != 0 {
		return diff - epsilon
	}
	return diff
}

// Mul returns x·y modulo P.
func Mul(x, y uint64) uint64 { return reduce(mul(x, y)) }

// mul multiplies representatives in the whole range of 64 bits into another one. As
// 2^96 is -1, the upper half of the high word is subtracted, and as 2^64 is epsilon,
// the lower half comes in times that.
func mul(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	r, borrow := bits.Sub64(lo, hi>>32, 0)
	r -= epsilon * borrow
	r, carry := bits.Add64(r, hi&epsilon*epsilon, 0)
	return r + epsilon*carry
}

// Inverse returns the y with x·y = 1 modulo P, and 0 for an x that is 0 modulo P.
func Inverse(x uint64) uint64 {
	// x^(P-2), where P-2 = (2^31-1)·2^33 + (2^32-1). ones(k) is x^(2^k-1).
	square := func(x uint64, times int) uint64 {
		for range times {
			x = mul(x, x)
		}
		return x
	}
	ones2 := mul(square(x, 1), x)
	ones3 := mul(square(ones2, 1), x)
	ones6 := mul(square(ones3, 3), ones3)
	ones12 := mul(square(ones6, 6), ones6)
	ones24 := mul(square(ones12, 12), ones12)
	ones30 := mul(square(ones24, 6), ones6)
	ones31 := mul(square(ones30, 1), x)
	ones32 := mul(square(ones31, 1), x)
	return reduce(mul(square(ones31, 33), ones32))
}
