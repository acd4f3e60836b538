// Package vfs is the file system as an interface, so that everything that must
// survive a power cut can be tested against one.
//
// There are two implementations. OS is the real thing. Sim keeps its files in
// memory, models what a disk may forget, and hands out every state in which a
// power cut could have left it.
//
// What a caller may rely on, in both:
//
//   - A write or a change of length is durable after a successful File.Sync of
//     the same file, not before. Without it any part of it may survive.
//   - A creation, a rename or a removal is durable after a successful SyncDir of
//     the directory; a rename between directories needs both.
//   - A failed Sync can't be repaired by another one: what was unsynced then may
//     be lost even if a later Sync succeeds.
//   - OpenFile and Lock never follow a symbolic link in the last element of a
//     path and never touch anything but regular files.
//   - A lock belongs to the handle that Lock returned, not to the process, and
//     ends with the process at the latest.
//
// Errors of one path are *fs.PathError, those of Rename *os.LinkError; errors.Is
// finds fs.ErrNotExist, system errors such as syscall.ENOSPC, and the sentinels
// of this package in both.
package vfs

import (
	"context"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is an open regular file. It has no position; reads and writes name their
// offset in bytes. Its methods may be called concurrently.
type File interface {
	// ReadAt returns io.EOF together with what it read if the file ends early.
	io.ReaderAt
	// WriteAt makes the file longer where it writes beyond its end.
	io.WriterAt
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length; new bytes read as zeros.
	Truncate(size int64) error
	// Sync makes data and length durable (fdatasync, on macOS F_FULLFSYNC). It
	// says nothing about the directory entry, see FS.SyncDir.
	Sync() error
	Close() error
	// ID returns which file this is, whatever its path means by now.
	ID() (FileID, error)
}

// FileID identifies a file on one machine: device and inode.
type FileID struct {
	Dev, Ino uint64
}

// Info describes a directory entry without following a symbolic link.
type Info struct {
	Name  string // last element of the path
	Mode  fs.FileMode
	Size  int64 // bytes
	Links uint64
	ID    FileID
}

// LockMode says who else may hold a lock at the same time.
type LockMode int

const (
	// Shared admits other shared holders.
	Shared LockMode = iota + 1
	// Exclusive admits nobody else.
	Exclusive
)

// Lock is a held lock.
type Lock interface {
	// Unlock gives the lock back; a second call returns fs.ErrClosed.
	Unlock() error
}

// FS is a file system. Its methods may be called concurrently.
type FS interface {
	// OpenFile opens a regular file. Flags are os.O_RDONLY or os.O_RDWR, with
	// os.O_CREATE and os.O_EXCL; any other is refused with syscall.EINVAL, since
	// they would bypass the rules above. It returns ErrSymlink if the last
	// element is a symbolic link and ErrNotRegular for whatever else is not a
	// file. perm is used for a new file and is subject to the umask.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Mkdir makes one directory; the parent must exist.
	Mkdir(name string, perm fs.FileMode) error
	// Rename moves a file or a directory and replaces a file that is there; it
	// refuses to replace a directory.
	Rename(oldname, newname string) error
	// Remove removes a file, a symbolic link or an empty directory.
	Remove(name string) error
	// RemoveAll removes name and everything below; nothing there is no error.
	// It is many steps: an interruption leaves a part.
	RemoveAll(name string) error
	// ReadDir lists a directory sorted by name.
	ReadDir(name string) ([]Info, error)
	// Lstat describes name without following it.
	Lstat(name string) (Info, error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// Lock takes a flock(2) lock of the whole file, which is created with mode
	// 0600 if it is missing. It tries once in any case, then waits until ctx
	// ends and returns ErrLocked. The file it has locked is the one that name
	// means at that moment: a lock file that was replaced meanwhile is opened
	// anew. It refuses symbolic links (ErrSymlink), anything that is not a
	// regular file (ErrNotRegular) and files with several links (ErrLinks).
	// A shared lock works on read-only media if the file exists.
	Lock(ctx context.Context, name string, mode LockMode) (Lock, error)
}

// openFlags are the flags OpenFile accepts.
const openFlags = os.O_RDONLY | os.O_RDWR | os.O_CREATE | os.O_EXCL

// pathError returns err as an *fs.PathError.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// checkFlags refuses flags that OpenFile does not promise to honour.
func checkFlags(name string, flag int) error {
	if flag&^openFlags != 0 {
		return pathError("open", name, syscall.EINVAL)
	}
	return nil
}
