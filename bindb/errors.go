package bindb

import (
	"errors"
	"fmt"
)

var (
	// ErrBusy is returned when a lock could not be had within the wait limit.
	// The caller may try again.
	ErrBusy = errors.New("authority is busy")

	// ErrNotFound is returned for an identity that names no record.
	ErrNotFound = errors.New("not found")

	// ErrNoRecord is returned by Get for an index that a table does not reach. It
	// is an ErrNotFound for whoever names an index; an index that another record
	// gave is a broken reference.
	ErrNoRecord = fmt.Errorf("%w", ErrNotFound)

	// ErrInvalid is returned when a mutation violates a rule of the format.
	// Nothing was changed.
	ErrInvalid = errors.New("invalid")

	// ErrCorrupt is returned when stored bytes violate the format. Nothing is
	// repaired by guessing.
	ErrCorrupt = errors.New("corrupt authority")

	// ErrLayout is returned for a file of another layout, which is left
	// untouched.
	ErrLayout = errors.New("unknown layout")

	// ErrReadOnly is returned by every write after a sync has failed. The root
	// must be opened again; opening recovers it.
	ErrReadOnly = errors.New("authority is read-only after a failed sync")

	// ErrForeign is returned when the journal belongs to another root.
	ErrForeign = errors.New("belongs to another root")

	// ErrCapacity is returned when an append would exceed what a reference can
	// name, an ordinal beyond 64, or a full count. Nothing was changed.
	ErrCapacity = errors.New("capacity exhausted")

	// ErrTooLarge is returned for one mutation whose journal would exceed its
	// bound.
	ErrTooLarge = errors.New("mutation too large")

	// ErrNotOwned is returned for what only the owner of a root can give.
	ErrNotOwned = errors.New("root is shared with other processes")

	// ErrClosed is returned by every use of a closed root.
	ErrClosed = errors.New("root is closed")
)

// RecordError places an error at one record of one file.
type RecordError struct {
	File  string
	Index uint32
	Err   error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%s record %d: %v", e.File, e.Index, e.Err)
}

func (e *RecordError) Unwrap() []error { return []error{ErrCorrupt, e.Err} }

// Invalid makes err an ErrInvalid without another word.
func Invalid(err error) error { return &invalidError{err} }

type invalidError struct{ err error }

func (e *invalidError) Error() string   { return e.err.Error() }
func (e *invalidError) Unwrap() []error { return []error{ErrInvalid, e.err} }

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
