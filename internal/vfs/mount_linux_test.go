package vfs_test

import "golang.org/x/sys/unix"

// mountReadOnly shows dir read-only at its own place.
func mountReadOnly(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	if err != nil {
		_ = unix.Unmount(dir, 0)
	}
	return err
}

// mountSmall mounts a file system of 64 KiB on dir.
func mountSmall(dir string) error {
	return unix.Mount("none", dir, "tmpfs", 0, "size=64k")
}
