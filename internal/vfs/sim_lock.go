package vfs

import (
	"context"
	"io/fs"
	"os"
	"slices"
)

// simFlock is the lock of one file. A file without holders has none.
type simFlock struct {
	exclusive bool
	holders   int
}

// simLock is a held lock. done is guarded by Sim.mu.
type simLock struct {
	view
	node *simNode
	name string
	done bool
}

func (v view) Lock(ctx context.Context, name string, mode LockMode) (Lock, error) {
	op := Op{Kind: OpLock, Path: name}
	if err := v.before(op, delta{}); err != nil {
		return nil, err
	}
	for {
		if err := v.enter(op); err != nil {
			return nil, err
		}
		lock, busy, err := v.tryLock(op, mode)
		released := v.sim.released
		v.sim.mu.Unlock()
		switch {
		case missing(err):
			f, err := v.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return nil, err
			}
			if err := f.Close(); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, pathError("lock", name, err)
		case !busy:
			return lock, nil
		default:
			select {
			case <-ctx.Done():
				return nil, lockTimeout(ctx, name)
			case <-released:
			}
		}
	}
}

// tryLock locks the file that name means now, if it can be had. Sim.mu is held,
// so name can't be replaced in between.
func (v view) tryLock(op Op, mode LockMode) (lock *simLock, busy bool, err error) {
	s := v.sim
	n, err := s.disk.find(op.Path, false)
	switch {
	case err != nil:
		return nil, false, err
	case n.mode&fs.ModeSymlink != 0:
		return nil, false, ErrSymlink
	case !n.mode.IsRegular():
		return nil, false, ErrNotRegular
	case n.links > 1:
		return nil, false, ErrLinks
	}
	held := s.locks[n]
	if held != nil && (held.exclusive || mode == Exclusive) {
		return nil, true, nil
	}
	if held == nil {
		held = &simFlock{exclusive: mode == Exclusive}
		s.locks[n] = held
	}
	held.holders++
	n.opens++
	lock = &simLock{view: v, node: n, name: op.Path}
	v.proc.locks = append(v.proc.locks, lock)
	s.log(op, delta{})
	return lock, false, nil
}

func (l *simLock) Unlock() error {
	op := Op{Kind: OpUnlock, Path: l.name}
	if err := l.before(op, delta{}); err != nil {
		return err
	}
	if err := l.enter(op); err != nil {
		return err
	}
	defer l.sim.mu.Unlock()
	if l.done {
		return pathError("unlock", l.name, fs.ErrClosed)
	}
	l.release()
	return nil
}

// release gives the lock back. Sim.mu is held.
func (l *simLock) release() {
	s := l.sim
	l.done = true
	l.node.opens--
	l.proc.locks = slices.DeleteFunc(l.proc.locks, func(m *simLock) bool { return m == l })
	held := s.locks[l.node]
	if held.holders--; held.holders == 0 {
		delete(s.locks, l.node)
	}
	s.log(Op{Kind: OpUnlock, Path: l.name}, delta{})
	s.wake()
}

// wake makes everybody who waits for a lock try again. s.mu is held.
func (s *Sim) wake() {
	close(s.released)
	s.released = make(chan struct{})
}
