package nox

import "fmt"

// Limits bound a noun that is read or written.
type Limits struct {
	Nodes uint64 // of which a noun has at least 1
	Depth uint64 // 0 allows atoms only
}

// Artifact are the limits of a noun artifact.
var Artifact = Limits{Nodes: 65536, Depth: 128}

// Text are the limits of [Parse] and [Noun.String]. They leave room for lists that are
// longer than an artifact may hold.
var Text = Limits{Nodes: 65536, Depth: 8192}

// Check returns an error that wraps [ErrNodes] or [ErrDepth] if n is outside the
// limits. The nodes are checked first.
func (l Limits) Check(n Noun) error {
	if n.Size() > l.Nodes {
		return fmt.Errorf("%w: a noun of %d, where %d are allowed", ErrNodes, n.Size(), l.Nodes)
	}
	if n.Depth() > l.Depth {
		return fmt.Errorf("%w: a noun %d levels deep, where %d are allowed", ErrDepth, n.Depth(), l.Depth)
	}
	return nil
}
