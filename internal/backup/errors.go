package backup

import "errors"

var (
	// ErrNothing is returned by Create for a data directory that has nothing to back up.
	ErrNothing = errors.New("there is nothing to back up here")

	// ErrElsewhere is what Source.Jobs returns if work.db is not what has the jobs: the
	// backup is made without it.
	ErrElsewhere = errors.New("the jobs are in a database, which its own tools back up")

	// ErrNoBackup is returned for a directory that is no backup.
	ErrNoBackup = errors.New("no backup of a data directory here")

	// ErrDamaged is returned for a backup that is not what was written.
	ErrDamaged = errors.New("the backup is damaged")

	// ErrNewer is returned for a backup that a newer version has written.
	ErrNewer = errors.New("written by a newer version")

	// ErrInside is returned for a backup that would lie in the data directory itself.
	ErrInside = errors.New("a backup must lie outside of the data directory")
)
