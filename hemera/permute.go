package hemera

import (
	"math/bits"

	"github.com/writ-authority/writ/internal/goldilocks"
)

const (
	width         = 16
	rate          = 8
	fullRounds    = 8
	partialRounds = 16
)

// state is what the permutation works on: elements 0 to 7 take input, the rest is the
// capacity.
type state [width]uint64

// halfConstants are what external adds to the elements: their lower and upper halves.
type halfConstants struct{ low, high [width]uint32 }

// after has the constants that follow each external layer: the one in front, and those
// of the eight full rounds. The fourth round is followed by the first partial one,
// which has a constant for element 0 only, and the last round by none.
var after = func() (t [1 + fullRounds]halfConstants) {
	for r := range t {
		var row [width]uint64
		switch r {
		case fullRounds / 2:
			row[0] = partialConstants[0]
		case fullRounds:
		default:
			row = fullConstants[r]
		}
		for i, c := range row {
			t[r].low[i], t[r].high[i] = uint32(c), uint32(c>>32)
		}
	}
	return t
}()

// permute applies the permutation. The elements are any representatives, before it and
// after it.
func (s *state) permute() {
	if hasVectors {
		s.permuteVector()
	} else {
		s.permutePlain()
	}
}

// permutePlain is permute in plain arithmetic.
func (s *state) permutePlain() {
	s.opening()
	// In a partial round only element 0 passes an S-box. Its successor needs neither
	// the other new elements nor their sum, so that the processor has them done while
	// the next inversion waits for itself.
	x := s[0]
	rest := s.sumOfRest()
	for r := range partialRounds {
		y := goldilocks.Invert(x)
		sum := goldilocks.AddLoose(rest, y)
		x = goldilocks.MulAdd(diagonal[0], y, sum)
		if r+1 < partialRounds {
			x = goldilocks.Add(x, partialConstants[r+1])
		}
		rest = s.internal(sum)
	}
	s[0] = x
	s.closing()
}

// opening has the steps before the first inversion, the first constant included.
func (s *state) opening() {
	s.external(&after[0])
	for r := range fullRounds / 2 {
		s.substitute()
		s.external(&after[1+r])
	}
}

// closing has the steps after the last partial round.
func (s *state) closing() {
	for i := range s {
		s[i] = goldilocks.Add(s[i], fullConstants[fullRounds/2][i])
	}
	for r := fullRounds / 2; r < fullRounds; r++ {
		s.substitute()
		s.external(&after[1+r])
	}
}

// substitute replaces every element by its seventh power.
func (s *state) substitute() {
	for i := range s {
		x := s[i]
		x2 := goldilocks.Mul(x, x)
		x3, x4 := goldilocks.Mul(x2, x), goldilocks.Mul(x2, x2)
		s[i] = goldilocks.Mul(x3, x4)
	}
}

// sumOfRest returns the sum of all elements but the first.
func (s *state) sumOfRest() uint64 {
	var sum, over, carry uint64
	for _, x := range s[1:] {
		sum, carry = bits.Add64(sum, x, 0)
		over += carry
	}
	return goldilocks.Reduce(over, sum)
}

// internal replaces all elements but the first by d·s + sum, and returns the sum of
// the new ones. It is a loop, unrolled.
func (s *state) internal(sum uint64) uint64 {
	var over, carry uint64
	x1 := goldilocks.MulAdd(diagonal[1], s[1], sum)
	s[1] = x1
	rest := x1
	x2 := goldilocks.MulAdd(diagonal[2], s[2], sum)
	s[2] = x2
	rest, carry = bits.Add64(rest, x2, 0)
	over += carry
	x3 := goldilocks.MulAdd(diagonal[3], s[3], sum)
	s[3] = x3
	rest, carry = bits.Add64(rest, x3, 0)
	over += carry
	x4 := goldilocks.MulAdd(diagonal[4], s[4], sum)
	s[4] = x4
	rest, carry = bits.Add64(rest, x4, 0)
	over += carry
	x5 := goldilocks.MulAdd(diagonal[5], s[5], sum)
	s[5] = x5
	rest, carry = bits.Add64(rest, x5, 0)
	over += carry
	x6 := goldilocks.MulAdd(diagonal[6], s[6], sum)
	s[6] = x6
	rest, carry = bits.Add64(rest, x6, 0)
	over += carry
	x7 := goldilocks.MulAdd(diagonal[7], s[7], sum)
	s[7] = x7
	rest, carry = bits.Add64(rest, x7, 0)
	over += carry
	x8 := goldilocks.MulAdd(diagonal[8], s[8], sum)
	s[8] = x8
	rest, carry = bits.Add64(rest, x8, 0)
	over += carry
	x9 := goldilocks.MulAdd(diagonal[9], s[9], sum)
	s[9] = x9
	rest, carry = bits.Add64(rest, x9, 0)
	over += carry
	x10 := goldilocks.MulAdd(diagonal[10], s[10], sum)
	s[10] = x10
	rest, carry = bits.Add64(rest, x10, 0)
	over += carry
	x11 := goldilocks.MulAdd(diagonal[11], s[11], sum)
	s[11] = x11
	rest, carry = bits.Add64(rest, x11, 0)
	over += carry
	x12 := goldilocks.MulAdd(diagonal[12], s[12], sum)
	s[12] = x12
	rest, carry = bits.Add64(rest, x12, 0)
	over += carry
	x13 := goldilocks.MulAdd(diagonal[13], s[13], sum)
	s[13] = x13
	rest, carry = bits.Add64(rest, x13, 0)
	over += carry
	x14 := goldilocks.MulAdd(diagonal[14], s[14], sum)
	s[14] = x14
	rest, carry = bits.Add64(rest, x14, 0)
	over += carry
	x15 := goldilocks.MulAdd(diagonal[15], s[15], sum)
	s[15] = x15
	rest, carry = bits.Add64(rest, x15, 0)
	over += carry
	return goldilocks.Reduce(over, rest)
}

// join returns low + high·2^32. Both must be below 2^38.
func join(low, high uint64) uint64 {
	over := high >> 32
	r, carry := bits.Add64(high<<32, low+(over<<32-over), 0)
	return r + (-carry & goldilocks.Epsilon)
}

// external multiplies the state by the matrix of the external layer and adds constants.
// The coefficients of a row have the sum 35, so that halves of elements are summed
// without any carry and reduced once.
func (s *state) external(c *halfConstants) {
	var low, high state
	for i, x := range s {
		low[i], high[i] = x&goldilocks.Epsilon, x>>32
	}
	low.mix()
	high.mix()
	for i := range s {
		s[i] = join(low[i]+uint64(c.low[i]), high[i]+uint64(c.high[i]))
	}
}

// mix is the external layer on plain integers.
func (s *state) mix() {
	t0, t1, t2, t3 := mix4(s[0], s[1], s[2], s[3])
	t4, t5, t6, t7 := mix4(s[4], s[5], s[6], s[7])
	t8, t9, t10, t11 := mix4(s[8], s[9], s[10], s[11])
	t12, t13, t14, t15 := mix4(s[12], s[13], s[14], s[15])
	u0 := t0 + t4 + t8 + t12
	u1 := t1 + t5 + t9 + t13
	u2 := t2 + t6 + t10 + t14
	u3 := t3 + t7 + t11 + t15
	s[0], s[1], s[2], s[3] = t0+u0, t1+u1, t2+u2, t3+u3
	s[4], s[5], s[6], s[7] = t4+u0, t5+u1, t6+u2, t7+u3
	s[8], s[9], s[10], s[11] = t8+u0, t9+u1, t10+u2, t11+u3
	s[12], s[13], s[14], s[15] = t12+u0, t13+u1, t14+u2, t15+u3
}

// mix4 multiplies a group by the rows (2 3 1 1), (1 2 3 1), (1 1 2 3), (3 1 1 2).
func mix4(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	sum := a + b + c + d
	return sum + a + 2*b, sum + b + 2*c, sum + c + 2*d, sum + d + 2*a
}
