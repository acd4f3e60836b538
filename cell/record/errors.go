package record

import "errors"

var (
	// ErrInvalid is returned for content that has not the shape of what it is read as.
	ErrInvalid = errors.New("invalid record")

	// ErrSchema is returned for a record of another schema than the expected one.
	ErrSchema = errors.New("another schema")

	// ErrLimit is returned for what is larger than the suite allows, and by a Reader
	// whose budget is used up.
	ErrLimit = errors.New("over the limit")

	// ErrCorrupt is returned for content that is not what its particle names.
	ErrCorrupt = errors.New("corrupt content")
)
