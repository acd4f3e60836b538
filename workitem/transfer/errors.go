package transfer

import "errors"

var (
	// ErrFormat is returned for something that is no export of work items.
	ErrFormat = errors.New("not an export of jobs")
	// ErrNewer is returned for an export in a newer version of the format.
	ErrNewer = errors.New("the export was written by a newer version")
	// ErrDamaged is returned for an export that lacks something, or has something that
	// was not written so.
	ErrDamaged = errors.New("the export is damaged")
	// ErrMiscounted is returned where a store says that it has other jobs than were
	// found in it.
	ErrMiscounted = errors.New("the store has other jobs than it says")
	// ErrEngine is returned for a store whose engine can't be exported.
	ErrEngine = errors.New("the store can't be exported")
)
