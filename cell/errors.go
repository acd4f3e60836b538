package cell

import (
	"errors"

	"github.com/writ-authority/writ/cell/record"
)

// The errors of the engine and of stores (section 17).
var (
	// ErrMissing is returned where a cell, an input, an act or content does not exist.
	ErrMissing = errors.New("missing")

	// ErrConflict is returned where a head has moved, or a request, a nonce or an
	// outcome is bound to something else.
	ErrConflict = errors.New("conflict")

	// ErrBusy is returned where an input in progress is in the way.
	ErrBusy = errors.New("an input is in progress")

	// ErrLifecycle is returned for what the lifecycle of a cell does not allow.
	ErrLifecycle = errors.New("not allowed in this lifecycle")

	// ErrDenied is returned where the ward refuses an act. The refusal is recorded.
	ErrDenied = errors.New("denied")

	// ErrUnknownOutcome is returned where an attempt is recorded and what became of it
	// is not.
	ErrUnknownOutcome = errors.New("the outcome of an attempt is unknown")

	// ErrBudget is returned for steps out of range or used up, for too many acts, and
	// for a reason that is too long.
	ErrBudget = errors.New("budget")

	// ErrUnsupported is returned for another profile than the local one, and for a
	// program that waits for events.
	ErrUnsupported = errors.New("unsupported")

	// ErrRuntime is returned where a source, a noun or a run fails.
	ErrRuntime = errors.New("runtime")

	// ErrCommitUnknown is returned where a write may or may not have become durable.
	// Doing the same again tells.
	ErrCommitUnknown = errors.New("commit unknown")

	// ErrStore is returned for any other failure of the store.
	ErrStore = errors.New("store failed")
)

// Errors of records, which stores and the engine return too.
var (
	ErrInvalid = record.ErrInvalid
	ErrSchema  = record.ErrSchema
	ErrLimit   = record.ErrLimit
	ErrCorrupt = record.ErrCorrupt
)

// classes are the names of errors. What is more special comes first.
var classes = []struct {
	err  error
	name string
}{
	{ErrCommitUnknown, "commit-unknown"},
	{ErrCorrupt, "corrupt"},
	{ErrMissing, "missing"},
	{ErrConflict, "conflict"},
	{ErrBusy, "busy"},
	{ErrLifecycle, "lifecycle"},
	{ErrDenied, "denied"},
	{ErrUnknownOutcome, "unknown-outcome"},
	{ErrBudget, "budget"},
	{ErrUnsupported, "unsupported"},
	{ErrRuntime, "runtime"},
	{ErrSchema, "schema"},
	{ErrLimit, "limit"},
	{ErrInvalid, "invalid"},
	{ErrStore, "store-failed"},
}

// Code returns the name of an error's class, such as conflict; store-failed for an
// error that has none, and the empty string for nil.
func Code(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "store-failed"
}
