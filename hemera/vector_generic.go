//go:build !amd64 || purego

package hemera

// vectorAt says that there are no vectors: batches are smaller.
const vectorAt = lanes + 1

// permuteVectors is never reached.
func permuteVectors(states []state) { permuteTogether(states) }
