package vfs

import "errors"

// Sentinel errors. They arrive wrapped in an *fs.PathError that names the
// operation and the path.
var (
	// ErrSymlink is returned when the last element of a path that is opened or
	// locked is a symbolic link.
	ErrSymlink = errors.New("is a symbolic link, which is not followed here")

	// ErrNotRegular is returned when a path that is opened or locked is a
	// directory, a device, a socket or a pipe.
	ErrNotRegular = errors.New("is not a regular file")

	// ErrLinks is returned when a lock file has more than one hard link: under
	// its other name it may guard something else.
	ErrLinks = errors.New("has more than one hard link, so it can't be used as a lock")

	// ErrLocked is returned by Lock when the context ended while somebody else
	// held the lock. The error of the context is wrapped beside it.
	ErrLocked = errors.New("is locked by another process or handle")

	// ErrTooLarge is returned by ReadFile for a file above the caller's limit.
	ErrTooLarge = errors.New("is larger than allowed")

	// ErrCrashed is returned by everything that a simulated process tries after
	// its Crash.
	ErrCrashed = errors.New("was used by a simulated process after its crash")
)
