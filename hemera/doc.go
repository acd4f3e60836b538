// Package hemera computes Hemera 0.3: a 32-byte hash over the field of
// 2^64 - 2^32 + 1 elements, and the identities of data that are built on it.
//
// Bytes are hashed by [Sum], [SumReader] and [New]; with a key by [SumKeyed] and
// [NewKeyed]; keys are derived by [DeriveKey]. Any of these hashers gives an unlimited
// stream through [Hasher.XOF]. [Leaf], [Node] and [Tree] put the place in a tree into
// what is hashed.
//
// Data is a binary tree of atoms, which are elements of the field, and pairs. [AtomID]
// and [PairID] give its identities, which say nothing but what the data is. A pair
// depends on its members' identities only, so that deep data needs no recursion.
//
// Whatever does not stand for elements in the one way that counts is refused and never
// folded: see [ErrNotCanonical].
//
// [SumAll], [AtomIDs] and [PairIDs] hash many independent inputs at once, which takes
// half the time for each, or less: they share the inversions of the permutation, which
// are most of its work. A [Pipeline] does so for data whose parts depend on each other.
// On processors with AVX-512 IFMA the rest of the work is done in vectors, also for one
// input alone, and a large batch takes a quarter of the time that it takes in plain Go;
// the build tag purego leaves that out.
//
// Times depend on what is hashed: nothing here is constant-time, which is harmless for
// identities of content and a reason not to hash secrets where somebody can measure.
// The function is young and nobody independent has analysed it. Two equal digests
// should be trusted as far as that goes; docs/hemera.md says more.
package hemera
