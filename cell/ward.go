package cell

import (
	"context"
	"slices"
)

// Question is what a ward is asked before an act is attempted.
type Question struct {
	Cell        Particle
	Operation   Particle // its id
	Policy      Particle
	Epoch       uint64
	Tag         uint64
	AllowedActs []uint64 // of the policy, ascending
}

// Ward decides acts (section 13). It is part of the host: nothing that a program or a
// checkpoint contains can grant anything.
type Ward interface {
	// Allows reports whether the act may be attempted. An error decides nothing: the
	// act stays pending.
	Allows(ctx context.Context, q Question) (bool, error)
}

// LocalWard allows exactly the acts of the policy.
type LocalWard struct{}

// Allows implements Ward.
func (LocalWard) Allows(_ context.Context, q Question) (bool, error) {
	_, ok := slices.BinarySearch(q.AllowedActs, q.Tag)
	return ok, nil
}

// denyAll is the ward of an engine that was given none.
type denyAll struct{}

func (denyAll) Allows(context.Context, Question) (bool, error) { return false, nil }
