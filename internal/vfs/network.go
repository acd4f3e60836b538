package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Network reports on what kind of file system path lies, for instance "ext4" or
// "nfs", and whether another machine may change its files without respecting
// this kernel's locks: NFS, SMB, 9p, cluster file systems, remote FUSE mounts
// and shares of a virtual machine's host. If path does not exist its nearest
// existing parent is asked.
func Network(path string) (kind string, yes bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", false, err
	}
	for {
		_, err := os.Stat(path)
		if err == nil {
			return network(path)
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return "", false, err
		}
		path = parent
	}
}
