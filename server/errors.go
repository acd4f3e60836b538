package server

import (
	"errors"
	"fmt"
)

var (
	// ErrUsage is in every error about a setting that is wrong in itself.
	ErrUsage = errors.New("wrong setting")
	// ErrRunning is returned when another server answers at the socket.
	ErrRunning = errors.New("another server is running on this data directory")
)

// usageError is an ErrUsage that shows only what is wrong.
type usageError struct{ message string }

func (e *usageError) Error() string        { return e.message }
func (e *usageError) Is(target error) bool { return target == ErrUsage }

func usage(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}
