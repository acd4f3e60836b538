package vfs

import (
	"errors"
	"fmt"
)

// OpKind is the kind of an operation of a Sim.
type OpKind int

// Operations that change something, or could, are counted and logged. The
// others only pass the fault script.
const (
	OpCreate   OpKind = iota + 1 // OpenFile or Lock makes a file; Link and Symlink
	OpWrite                      // Off, Len
	OpTruncate                   // Len is the new length
	OpSync
	OpMkdir
	OpRename // To
	OpRemove // also each step of RemoveAll
	OpSyncDir
	OpLock   // logged when the lock is held
	OpUnlock // also when the process crashes

	OpOpen // an existing file
	OpRead // Off, Len
	OpStat // Lstat, File.Size, File.ID
	OpReadDir
	OpClose // a failing Close has closed the file all the same
)

var opNames = [...]string{
	OpCreate: "create", OpWrite: "write", OpTruncate: "truncate", OpSync: "sync", OpMkdir: "mkdir",
	OpRename: "rename", OpRemove: "remove", OpSyncDir: "syncdir", OpLock: "lock", OpUnlock: "unlock",
	OpOpen: "open", OpRead: "read", OpStat: "stat", OpReadDir: "readdir", OpClose: "close",
}

// String returns a lower-case name such as "write".
func (k OpKind) String() string { return opNames[k] }

// counted reports whether the kind is counted and logged.
func (k OpKind) counted() bool { return k < OpOpen }

// Op is one operation of a Sim. A handle's operations carry the path under
// which the file was opened.
type Op struct {
	// N counts from 1. In a fault script it is the number the operation gets if
	// no other comes in between. It is 0 for kinds that are not counted.
	N    int
	Kind OpKind
	Path string
	To   string // new path of a rename
	Off  int64  // bytes
	Len  int64  // bytes
	Err  error  // what the fault script returned; nil if the operation was done
}

// String returns, for instance, "12 write /d/patchset.bin 65+130".
func (op Op) String() string {
	s := fmt.Sprintf("%d %v %s", op.N, op.Kind, op.Path)
	switch op.Kind {
	case OpRename:
		s += " to " + op.To
	case OpWrite, OpRead:
		s += fmt.Sprintf(" %d+%d", op.Off, op.Len)
	case OpTruncate:
		s += fmt.Sprintf(" to %d", op.Len)
	}
	if op.Err != nil {
		s += ": " + op.Err.Error()
	}
	return s
}

// ShortWrite is returned by a fault script to let a write fail after its first
// N bytes, as on a disk that fills up.
type ShortWrite struct {
	N   int
	Err error
}

// Error returns the text of Err.
func (e *ShortWrite) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ShortWrite) Unwrap() error { return e.Err }

// ShortRead is returned by a fault script to let a read end after its first N
// bytes: with io.EOF as if the file ended there, with another error as on a disk
// with a bad sector.
type ShortRead struct {
	N   int
	Err error
}

// Error returns the text of Err.
func (e *ShortRead) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ShortRead) Unwrap() error { return e.Err }

// shortened returns how many of n bytes a failing write still writes, and the
// error the caller gets.
func shortened(err error, n int) (int, error) {
	var short *ShortWrite
	if !errors.As(err, &short) {
		return 0, err
	}
	return max(0, min(short.N, n)), short.Err
}
