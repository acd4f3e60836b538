package record

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// ErrMalformed is matched by every error of Decode and Check and by every
// payload decoder: the bytes violate the format.
var ErrMalformed = errors.New("malformed")

// ErrTooLong is matched when a value does not fit the width that the format
// gives it. Nothing was encoded.
var ErrTooLong = errors.New("too long")

// ErrSyntax is matched when text is not what a parser of this package accepts.
var ErrSyntax = errors.New("invalid syntax")

// FieldError says which field of a record is wrong and why. It matches
// ErrMalformed. File and record index are unknown here; callers add them.
type FieldError struct {
	Field string // name in the format; a bit field is written meta.bits
	Value uint64 // the value found, unless Bytes is set
	Bytes []byte // the value found in a byte-array field
	Want  string // what was expected
	Check string // the check of section 17 that failed, such as "P04"
}

func (e *FieldError) Error() string {
	value := strconv.FormatUint(e.Value, 10)
	if e.Bytes != nil {
		value = hex.EncodeToString(e.Bytes)
	}
	return fmt.Sprintf("%s is %s, want %s (%s)", e.Field, value, e.Want, e.Check)
}

func (e *FieldError) Unwrap() error { return ErrMalformed }

func fieldError[V ~uint8 | ~uint16 | ~uint32 | ~uint64](check, field string, value V, want string) error {
	return &FieldError{Field: field, Value: uint64(value), Want: want, Check: check}
}

func lengthError(got, want int) error {
	return &FieldError{Field: "record length", Value: uint64(got), Want: strconv.Itoa(want) + " bytes", Check: "F03"}
}
