package vfs

import "golang.org/x/sys/unix"

// remoteTypes are f_fstypename values of file systems on another machine.
var remoteTypes = map[string]bool{
	"nfs": true, "smbfs": true, "cifs": true, "afpfs": true, "webdav": true,
	"ftp": true, "9p": true, "virtiofs": true, "AppleVirtIOFS": true,
}

func network(path string) (string, bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", false, pathError("statfs", path, err)
	}
	kind := unix.ByteSliceToString(st.Fstypename[:])
	// A FUSE mount such as sshfs shows only the name of the FUSE driver; what is
	// not local says so in its flags.
	return kind, remoteTypes[kind] || st.Flags&unix.MNT_LOCAL == 0, nil
}
