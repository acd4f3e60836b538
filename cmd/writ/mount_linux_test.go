package main_test

import "golang.org/x/sys/unix"

// mountSmall mounts a file system of that size on dir.
func mountSmall(dir, size string) error { return unix.Mount("none", dir, "tmpfs", 0, "size="+size) }

// mountReadOnly shows dir read-only at its own place.
func mountReadOnly(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	if err != nil {
		_ = unmount(dir)
	}
	return err
}

func unmount(dir string) error { return unix.Unmount(dir, 0) }
