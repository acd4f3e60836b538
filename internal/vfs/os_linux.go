package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes data and length durable. fdatasync also writes the length and
// the block map, but not the times, which saves a journal commit when a record
// is overwritten in place.
func syncData(f *os.File) error { return onHandle(f, "sync", unix.Fdatasync) }
