package nox

import "errors"

// Errors of [Parse], [Decode], [Encode] and everything else with [Limits].
var (
	// ErrSyntax is returned for text that is not a noun; see [SyntaxError].
	ErrSyntax = errors.New("not the text of a noun")
	// ErrTruncated is returned for an artifact that ends before its noun does.
	ErrTruncated = errors.New("noun artifact is truncated")
	// ErrTag is returned for an artifact with a byte that is neither the tag of an
	// atom nor that of a pair where one is due.
	ErrTag = errors.New("noun artifact has an unknown tag")
	// ErrTrailing is returned for an artifact with bytes after its noun.
	ErrTrailing = errors.New("noun artifact has trailing bytes")
	// ErrNodes is returned for a noun with more nodes than the limits allow.
	ErrNodes = errors.New("too many nodes")
	// ErrDepth is returned for a noun deeper than the limits allow.
	ErrDepth = errors.New("too deep")
)

// ErrNonCanonical is returned where identity or field arithmetic is asked of a noun
// with an atom that is not below [P].
var ErrNonCanonical = errors.New("atom not below 2^64 - 2^32 + 1")
