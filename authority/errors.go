package authority

import (
	"errors"
	"fmt"
)

var (
	// ErrNoAuthority is returned when the data directory holds no authority.
	ErrNoAuthority = errors.New("no authority here")

	// ErrExists is returned by Create when the data directory holds one.
	ErrExists = errors.New("an authority exists here")

	// ErrGeneration is returned by every use of an open authority once another
	// generation has taken its place. Nothing of it is read or written any more.
	ErrGeneration = errors.New("this authority was replaced by another generation; open it again")

	// ErrNewerFormat is returned for a data directory that a newer version has
	// written. Nothing in it is touched.
	ErrNewerFormat = errors.New("written by a newer version")

	// ErrNoBackup is returned for a directory that is no backup.
	ErrNoBackup = errors.New("no backup here")

	// ErrDamagedBackup is returned, besides bindb.ErrCorrupt, for a backup that is
	// not what was written.
	ErrDamagedBackup = errors.New("it is damaged")

	// ErrDamagedActive is returned, besides bindb.ErrCorrupt, for an active.json
	// that cannot be read. Nothing else says which generation counts.
	ErrDamagedActive = errors.New("is damaged")

	// ErrUnsuitable is returned for a data directory that is a symbolic link or
	// lies on a network file system.
	ErrUnsuitable = errors.New("unsuitable data directory")

	// ErrNotActive is returned for new work on a Repository that is retiring
	// or purged.
	ErrNotActive = errors.New("repository is not active")

	// ErrConflict is returned for a namespace that another live Repository has.
	// Nothing was changed.
	ErrConflict = errors.New("namespace is taken")

	// ErrState is returned when the present state of a record does not allow
	// the change. Nothing was changed.
	ErrState = errors.New("state does not allow it")

	// ErrLeaseHeld is returned by a claim of a Job that somebody else holds.
	ErrLeaseHeld = errors.New("lease is held")

	// ErrLeaseLost is returned to a holder whose lease has expired, was
	// superseded, or never was. The work must not be reported again.
	ErrLeaseLost = errors.New("lease is lost")
)

func statef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrState, fmt.Sprintf(format, args...))
}
