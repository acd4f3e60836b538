package hemera

import "github.com/writ-authority/writ/internal/goldilocks"

// lanes is how many states are permuted together at most. They share each inversion.
const lanes = 64

// permuteAll permutes independent states, of which there are at most lanes.
func permuteAll(states []state) {
	switch {
	case hasVectors:
		permuteVectors(states)
	case len(states) == 1:
		states[0].permutePlain()
	default:
		permuteTogether(states)
	}
}

// permuteTogether permutes independent states with plain arithmetic.
func permuteTogether(states []state) {
	var xs, rest [lanes]uint64 // element 0 of each state, and the sum of the others
	for i := range states {
		s := &states[i]
		s.opening()
		xs[i], rest[i] = s[0], s.sumOfRest()
	}
	for r := range partialRounds {
		invertAll(xs[:len(states)])
		next := uint64(0)
		if r+1 < partialRounds {
			next = partialConstants[r+1]
		}
		for i := range states {
			s := &states[i]
			y := xs[i]
			sum := goldilocks.AddLoose(rest[i], y)
			xs[i] = goldilocks.Add(goldilocks.MulAdd(diagonal[0], y, sum), next)
			rest[i] = s.internal(sum)
		}
	}
	for i := range states {
		states[i][0] = xs[i]
		states[i].closing()
	}
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
		x := goldilocks.Canonical(xs[i])
		if x == 0 {
			x = 1
			xs[i] = 0
		} else {
			xs[i] = x
		}
		products[i] = run[i%chains]
		run[i%chains] = goldilocks.Mul(run[i%chains], x)
	}
	r01, r23 := goldilocks.Mul(run[0], run[1]), goldilocks.Mul(run[2], run[3])
	all := goldilocks.Invert(goldilocks.Mul(r01, r23))
	i01, i23 := goldilocks.Mul(all, r23), goldilocks.Mul(all, r01)
	run = [chains]uint64{goldilocks.Mul(i01, run[1]), goldilocks.Mul(i01, run[0]), goldilocks.Mul(i23, run[3]), goldilocks.Mul(i23, run[2])}
	for i := len(xs) - 1; i >= 0; i-- {
		x := xs[i]
		if x == 0 {
			continue
		}
		xs[i] = goldilocks.Mul(run[i%chains], products[i])
		run[i%chains] = goldilocks.Mul(run[i%chains], x)
	}
}
