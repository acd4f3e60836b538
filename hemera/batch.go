package hemera

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
			sum := addLoose(rest[i], y)
			xs[i] = add(mulAdd(diagonal[0], y, sum), next)
			rest[i] = s.internal(sum)
		}
	}
	for i := range states {
		states[i][0] = xs[i]
		states[i].closing()
	}
}
