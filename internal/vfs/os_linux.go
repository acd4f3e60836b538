package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes data and length durable. fdatasync also writes the length and
// the block map, but not the times, which saves a journal commit when a record
// is overwritten in place.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = conn.Control(func(fd uintptr) {
		for {
			serr = unix.Fdatasync(int(fd))
			if serr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return pathError("sync", f.Name(), serr)
}
