package convert

import (
	"errors"
	"fmt"
)

var (
	// ErrSource is returned for a source that is not what its kind demands: a
	// foreign file, a link, a file of another layout, a document that is not
	// well-formed. Nothing was published.
	ErrSource = errors.New("source is refused")

	// ErrChoice is returned for a kind of source or a gate that does not exist,
	// and for one that the kind of source does not have.
	ErrChoice = errors.New("no such conversion")

	// ErrDrift is returned when the source changed while it was converted.
	// Nothing was published.
	ErrDrift = errors.New("source has changed during the conversion")
)

// sourcef refuses the source because of one path in it.
func sourcef(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s %s", ErrSource, path, fmt.Sprintf(format, args...))
}

// driftf says which path of the source has changed and how.
func driftf(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s %s", ErrDrift, path, fmt.Sprintf(format, args...))
}
