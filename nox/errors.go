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

// Errors of [Reduce], wrapped in a [Fault] that says where.
var (
	// ErrHalt is returned when the next pattern costs more than is left of the budget.
	ErrHalt = errors.New("budget is used up")
	// ErrAxis is returned for an axis that leads into an atom.
	ErrAxis = errors.New("no such axis")
	// ErrType is returned where an operand is a pair and must be an atom, or is not
	// a 32-bit word and must be one.
	ErrType = errors.New("operand of the wrong type")
	// ErrInverse is returned for the inverse of zero.
	ErrInverse = errors.New("zero has no inverse")
	// ErrPattern is returned for an operator that is no pattern of Nox.
	ErrPattern = errors.New("unknown pattern")
	// ErrMalformed is returned for a formula that is not of the shape that its pattern
	// asks for.
	ErrMalformed = errors.New("malformed formula")
	// ErrProvider is returned for the patterns call and look, which need somebody to
	// provide witnesses or state: nobody does here.
	ErrProvider = errors.New("no provider")
)
