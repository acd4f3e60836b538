package hemera

import "errors"

var (
	// ErrNotCanonical is returned where a number or an eight-byte limb of a digest is
	// 2^64 - 2^32 + 1 or more, which no element is and no digest has.
	ErrNotCanonical = errors.New("not an element of the field")

	// ErrEncoding is returned where bytes cannot be the encoding of data, which is 8
	// bytes long for an atom and 64 for a pair, or text cannot be a digest.
	ErrEncoding = errors.New("wrong encoding")

	// ErrMismatch is returned where content is not what an identity names.
	ErrMismatch = errors.New("content and identity differ")
)
