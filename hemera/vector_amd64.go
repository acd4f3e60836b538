//go:build amd64 && !purego

package hemera

import "golang.org/x/sys/cpu"

//go:generate sh -c "cd internal/asm && go run . -pkg hemera -out ../../avx512_amd64.s -stubs ../../avx512_amd64.go"

// vectorAt is from how many states on vectors are faster than plain arithmetic, since
// a vector takes as long with fewer than eight. It is out of reach if the processor has
// no AVX-512.
var vectorAt = func() int {
	if cpu.X86.HasAVX512F {
		return 4
	}
	return lanes + 1
}()

// perVector is how many states a vector has.
const perVector = 8

// eight are the states of a vector, element by element.
type eight = [width][perVector]uint64

// The constants as external takes them: lower halves, then upper halves.
var afterSpread = func() (t [1 + fullRounds][2][width]uint64) {
	for r := range after {
		for i := range width {
			t[r][0][i], t[r][1][i] = uint64(after[r].low[i]), uint64(after[r].high[i])
		}
	}
	return t
}()

// permuteVectors is permuteTogether with eight states in a vector. The inversions of a
// round are one for all states.
func permuteVectors(states []state) {
	var all [lanes / perVector]eight
	var xs, rest, products [lanes / perVector][perVector]uint64
	n := (len(states) + perVector - 1) / perVector
	for i := range states {
		v, lane := &all[i/perVector], i%perVector
		for e, x := range &states[i] {
			v[e][lane] = x
		}
	}
	for v := range n {
		s := &all[v]
		externalAVX512(s, &afterSpread[0])
		roundsAVX512(s, &afterSpread[1], fullRounds/2)
		xs[v] = s[0]
		for lane := range perVector {
			rest[v][lane] = sumOfRest(s, lane)
		}
	}
	last := len(states) - (n-1)*perVector // states of the last vector
	for r := range partialRounds {
		if n == 1 {
			invertAll(xs[0][:last])
		} else {
			productsAVX512(&products[0], &xs[0], n)
			inverse := products[n-1]
			invertAll(inverse[:])
			inversesAVX512(&xs[0], &products[0], &inverse, n)
		}
		next := &zero
		if r+1 < partialRounds {
			next = &partialConstants[r+1]
		}
		for v := range n {
			partialAVX512(&all[v], &xs[v], &rest[v], &diagonal, next)
		}
	}
	for v := range n {
		s := &all[v]
		s[0] = xs[v]
		addAVX512(s, &fullConstants[fullRounds/2])
		roundsAVX512(s, &afterSpread[1+fullRounds/2], fullRounds/2)
	}
	for i := range states {
		v, lane := &all[i/perVector], i%perVector
		for e := range &states[i] {
			states[i][e] = v[e][lane]
		}
	}
}

var zero uint64

// sumOfRest is the sum of all elements of a state but the first.
func sumOfRest(s *eight, lane int) uint64 {
	var one state
	for e := range one {
		one[e] = s[e][lane]
	}
	return one.sumOfRest()
}
