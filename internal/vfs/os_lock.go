package vfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is the pause between two tries. flock has no wait that a context
// could end, and a blocked call would also keep waiting for a file that was
// replaced.
const lockPoll = 5 * time.Millisecond

func (osFS) Lock(ctx context.Context, name string, mode LockMode) (Lock, error) {
	lock, err := tryLock(name, mode)
	if err == nil || !errors.Is(err, ErrLocked) {
		return lock, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, lockTimeout(ctx, name)
		case <-tick.C:
		}
		lock, err := tryLock(name, mode)
		if err == nil || !errors.Is(err, ErrLocked) {
			return lock, err
		}
	}
}

// lockTimeout is the error of a wait that ended with ctx.
func lockTimeout(ctx context.Context, name string) error {
	return pathError("lock", name, fmt.Errorf("%w: %w", ErrLocked, ctx.Err()))
}

// tryLock opens and locks the file that name means now. It returns ErrLocked if
// somebody else holds it.
func tryLock(name string, mode LockMode) (Lock, error) {
	for {
		f, info, err := openLock(name, mode)
		if err != nil {
			return nil, err
		}
		if info.Links > 1 {
			f.Close()
			return nil, pathError("lock", name, ErrLinks)
		}
		if err := flock(f, mode); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				err = pathError("lock", name, ErrLocked)
			}
			return nil, err
		}
		same, err := stillNamed(f, name)
		if err != nil {
			f.Close()
			return nil, err
		}
		if same {
			return &osLock{f: f}, nil
		}
		// Replaced between open and lock: whoever comes next will lock the new
		// file, so this lock would exclude nobody.
		f.Close()
	}
}

// openLock opens a lock file and creates it if it is missing.
func openLock(name string, mode LockMode) (*os.File, Info, error) {
	f, info, err := openRegular(name, os.O_RDWR|os.O_CREATE, 0o600)
	readOnly := errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
	if readOnly && mode == Shared {
		// A reader of read-only media still needs the lock; flock does not ask
		// for a writable handle.
		if f, info, rerr := openRegular(name, os.O_RDONLY, 0); rerr == nil {
			return f, info, nil
		}
	}
	return f, info, err
}

// stillNamed reports whether name means the open file f.
func stillNamed(f *os.File, name string) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !os.SameFile(opened, named) {
		return false, nil
	}
	if infoOf(named).Links > 1 {
		return false, pathError("lock", name, ErrLinks)
	}
	return true, nil
}

// flock takes the lock without waiting.
func flock(f *os.File, mode LockMode) error {
	how := unix.LOCK_SH
	if mode == Exclusive {
		how = unix.LOCK_EX
	}
	return onHandle(f, "lock", func(fd int) error { return unix.Flock(fd, how|unix.LOCK_NB) })
}

type osLock struct {
	f    *os.File
	done atomic.Bool
}

func (l *osLock) Unlock() error {
	if l.done.Swap(true) {
		return pathError("unlock", l.f.Name(), fs.ErrClosed)
	}
	// Close alone is not enough: a child that was forked but has not executed
	// yet shares the handle and would keep the lock for a moment.
	err := onHandle(l.f, "unlock", func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	return err
}
