package gate

import (
	"errors"
	"fmt"
)

var (
	// ErrUsage is returned when the request cannot be carried out as it stands:
	// an empty range, an unknown name, uncommitted changes. Nothing was changed.
	ErrUsage = errors.New("cannot do that")

	// ErrInterrupted is returned when the caller's context ended while suites
	// ran. The Job has failed, no process and no checkout is left.
	ErrInterrupted = errors.New("interrupted")

	// ErrLostContent is returned when Git no longer has the commit of a Snapshot.
	ErrLostContent = errors.New("git has lost the commit of a snapshot")
)

// advised is an error with what to do about it.
type advised struct {
	err    error
	advice string
}

func (e *advised) Error() string { return e.err.Error() }
func (e *advised) Unwrap() error { return e.err }

// Advice returns what the user can do about an error, or "".
func Advice(err error) string {
	var a *advised
	if errors.As(err, &a) {
		return a.advice
	}
	return ""
}

// usagef makes an ErrUsage with advice.
func usagef(advice, format string, args ...any) error {
	return &advised{fmt.Errorf("%w: %s", ErrUsage, fmt.Sprintf(format, args...)), advice}
}
