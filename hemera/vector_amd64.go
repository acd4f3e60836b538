//go:build amd64 && !purego

package hemera

import (
	"math/bits"

	"golang.org/x/sys/cpu"

	"github.com/writ-authority/writ/internal/goldilocks"
)

//go:generate sh -c "cd internal/asm && go run . -pkg hemera -out ../../avx512_amd64.s -stubs ../../avx512_amd64.go"

// hasVectors says whether the processor multiplies 52 bits in eight lanes. That is
// faster than plain arithmetic for one state already, which takes two vectors.
var hasVectors = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512IFMA

// pairs is a state as the vector code has it: element i is [i] + [width+i]·2^52.
type pairs = [2 * width]uint64

const lowerPart = 1<<52 - 1

// joinPair returns lo + hi·2^52, of which lo may have any sign.
func joinPair(lo, hi uint64) uint64 {
	hi += uint64(int64(lo) >> 52)
	m := hi >> 12
	r, carry := bits.Add64(hi<<52|lo&lowerPart, m<<32-m, 0)
	return r + (-carry & goldilocks.Epsilon)
}

func newPairs(s *[width]uint64) (p pairs) {
	for i, x := range s {
		p[i], p[width+i] = x&lowerPart, x>>52
	}
	return p
}

// Constants of the vector code. Rows that follow an external layer include what
// internal/asm calls primeLo in the lower parts: the modulus is 2^12·2^52 + primeLo.
var (
	openingPairs  = vectorRows(0)
	closingPairs  = vectorRows(fullRounds / 2)
	diagonalPairs = newPairs(&diagonal)
)

// vectorRows has the constants that come before the full round first and after each of
// the four from there, where those before the first round follow an external layer and
// those before the fifth do not.
func vectorRows(first int) (rows [1 + fullRounds/2]pairs) {
	for r := range rows {
		var constants [width]uint64
		switch {
		case first == 0 && r == fullRounds/2:
			constants[0] = partialConstants[0]
		case first+r < fullRounds:
			constants = fullConstants[first+r]
		}
		rows[r] = newPairs(&constants)
		if first > 0 && r == 0 {
			continue
		}
		for i := range width {
			rows[r][i] -= 1<<32 - 1
		}
	}
	return rows
}

// permuteVectors permutes states, of which there are 1 to lanes, in vectors.
func permuteVectors(states []state) {
	if len(states) == 1 {
		states[0].permuteVector()
		return
	}
	var all [lanes]pairs
	var xs, sums [lanes]uint64
	var rests [lanes][2]uint64
	n := len(states)
	openStates(&all[0], &rests[0], (*[width]uint64)(&states[0]), n, &openingPairs)
	for i := range n {
		xs[i] = joinPair(all[i][0]&lowerPart, all[i][width])
	}
	for r := range partialRounds {
		invertAll(xs[:n])
		next := uint64(0)
		if r+1 < partialRounds {
			next = partialConstants[r+1]
		}
		for i := range n {
			y := xs[i]
			sum := goldilocks.AddLoose(joinPair(rests[i][0], rests[i][1]), y)
			sums[i] = sum
			xs[i] = goldilocks.Add(goldilocks.MulAdd(diagonal[0], y, sum), next)
		}
		stepStates(&all[0], &rests[0], &sums[0], n, &diagonalPairs)
	}
	closeStates((*[width]uint64)(&states[0]), &all[0], &xs[0], n, &closingPairs)
}

// permuteVector is permute in vectors.
func (s *state) permuteVector() {
	var now pairs
	var rest [2]uint64
	openStates(&now, &rest, (*[width]uint64)(s), 1, &openingPairs)
	x := joinPair(now[0]&lowerPart, now[width])
	for r := range partialRounds {
		y := goldilocks.Invert(x)
		sum := goldilocks.AddLoose(joinPair(rest[0], rest[1]), y)
		x = goldilocks.MulAdd(diagonal[0], y, sum)
		if r+1 < partialRounds {
			x = goldilocks.Add(x, partialConstants[r+1])
		}
		stepStates(&now, &rest, &sum, 1, &diagonalPairs)
	}
	closeStates((*[width]uint64)(s), &now, &x, 1, &closingPairs)
}
