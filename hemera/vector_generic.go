//go:build !amd64 || purego

package hemera

const hasVectors = false

// Without vectors nothing calls these.

func permuteVectors(states []state) { permuteTogether(states) }

func (s *state) permuteVector() { s.permutePlain() }
