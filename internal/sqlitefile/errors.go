package sqlitefile

import "errors"

// Errors of opening a file. Each comes wrapped with the path.
var (
	// ErrLocked is returned when another process has the file open.
	ErrLocked = errors.New("is in use by another process")
	// ErrCorrupt is returned for a file that SQLite finds damaged as it is opened.
	ErrCorrupt = errors.New("is damaged")
	// ErrForeign is returned for a file that is something else.
	ErrForeign = errors.New("is another kind of file")
	// ErrNewerSchema is returned, and nothing touched, when a newer version has
	// written the file.
	ErrNewerSchema = errors.New("was written by a newer version")
	// ErrChangedSchema is returned when a migration that the file has had is not
	// the one of this version.
	ErrChangedSchema = errors.New("has a schema that no version has made")
	// ErrUnwritable is returned when the file can't be written, most often because
	// its disk is full.
	ErrUnwritable = errors.New("can't be written: is there room on the disk, and is it writable?")
	// ErrUnsuitable is returned for a path on which no store can be kept safely.
	ErrUnsuitable = errors.New("is no place for a store")
)
