package authority

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Repository is one open Repository authority. It is safe for concurrent use.
type Repository struct {
	a    *Authority
	info RepositoryInfo // as it was opened; Index and Name never change
	root *bindb.Root

	// latest is the registry entry as it was last seen, see Info.
	latest atomic.Pointer[RepositoryInfo]

	// purges counts the purges of this process that have begun, and those that
	// have ended.
	purges atomic.Uint64
	// leaseDisk belongs to whoever writes leases; those take turns.
	leaseDisk leaseDisk

	// broken is why nothing can be said about the Repository any more.
	broken atomic.Pointer[error]

	// table has the leases, in a process that owns the Repository.
	tableMu sync.Mutex
	table   *leaseTable
}

// Repository opens the Repository with the given index. A purged one can be
// read, which refuses one whose Jobs or locators are not as a purge leaves them.
// The error is bindb.ErrNotFound when the registry has none.
func (a *Authority) Repository(ctx context.Context, index uint32) (*Repository, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.repos[index]; r != nil {
		return r, nil
	}
	info, err := a.RepositoryInfo(ctx, index)
	if err != nil {
		return nil, err
	}
	if info.Meta.Tombstoned() {
		return nil, fmt.Errorf("repository %d: %w: it was removed", index, bindb.ErrNotFound)
	}
	root, err := a.openRoot(ctx, index)
	if err != nil {
		return nil, err
	}
	// A purge may have been waited for, or recovered.
	info, err = a.RepositoryInfo(ctx, index)
	if err == nil && info.Lifecycle == record.LifecyclePurged {
		err = checkPurged(ctx, root)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	r := &Repository{a: a, info: info, root: root}
	r.latest.Store(&info)
	a.repos[index] = r
	return r, nil
}

func (a *Authority) authorityConfig(index uint32) bindb.Config {
	return a.opt.config(a.active, record.RootAuthority, strconv.FormatUint(uint64(index), 10))
}

// Info is the Repository's registry entry as this process has last seen it: when
// it was opened, by its latest mutation, or by its latest change.
func (r *Repository) Info() RepositoryInfo { return *r.latest.Load() }

// namespace is what identities of this Repository begin with.
func (r *Repository) namespace() record.Namespace { return r.latest.Load().Namespace }

// Epoch is the epoch of the installation that the Repository belongs to.
func (r *Repository) Epoch() uint64 { return r.a.Epoch() }

// Root is the Binary DB root, for checks and dumps.
func (r *Repository) Root() *bindb.Root { return r.root }

// View reads the committed state. fn must be short: it holds the Repository's
// locks, shared.
func (r *Repository) View(ctx context.Context, fn func(*View) error) error {
	return r.unhindered(ctx, func() error {
		before := r.purges.Load()
		return r.root.View(ctx, func(rd bindb.Reader) error {
			if err := r.usable(); err != nil {
				return err
			}
			if err := r.purgeStands(before); err != nil {
				return err
			}
			return fn(&View{Reader: rd, repo: r})
		})
	})
}

// Update runs fn, which may do new work, and makes what its verbs wrote durable
// before it returns. An error from fn changes nothing. A verb that fails half-way
// fails the Update even if fn makes nothing of it. fn must not call Update or View
// of the same Repository and may run more than once. The error is ErrNotActive for
// a Repository that is retiring or purged at the moment of the commit.
func (r *Repository) Update(ctx context.Context, fn func(*Tx) error) error {
	return r.update(ctx, forWork, fn)
}

// UpdateQueue is Update for what lets the queue drain: claims, heartbeats,
// completions and failures of Jobs that exist. It also runs on a Repository that
// is retiring. Verbs that begin something new are refused there with ErrNotActive.
func (r *Repository) UpdateQueue(ctx context.Context, fn func(*Tx) error) error {
	return r.update(ctx, forQueue, fn)
}

func (r *Repository) update(ctx context.Context, p purpose, fn func(*Tx) error) error {
	return r.unhindered(ctx, func() error {
		return r.root.Update(ctx, func(tx *bindb.Tx) error {
			if err := r.admit(p); err != nil {
				return err
			}
			return r.run(tx, fn)
		})
	})
}

// purpose is what a mutation is for.
type purpose uint8

const (
	forWork  purpose = iota // anything; the Repository is active
	forQueue                // to drain the queue; the Repository may be retiring
)

// errRegistryBusy is the answer to a mutation that could not learn the lifecycle
// without waiting for the registry.
var errRegistryBusy = errors.New("the registry is being changed")

// admit refuses a mutation that the lifecycle of the Repository forbids. The
// Repository's locks are held exclusively. A change of its registry record takes
// them too, after the lock of the registry, so that the record stands still here
// and a lifecycle change that has returned is seen by every mutation of every
// process from then on. Since the registry comes first in the order of locks,
// nobody waits for it here; unhindered does, with nothing held.
func (r *Repository) admit(p purpose) error {
	if err := r.usable(); err != nil {
		return err
	}
	info := r.info
	err := r.a.registry.Peek(func(rd bindb.Reader) (err error) {
		info.Repository, err = bindb.Repositories.Get(rd, info.Index)
		return err
	})
	if errors.Is(err, bindb.ErrBusy) {
		return errRegistryBusy
	}
	if err != nil {
		return err
	}
	if *r.latest.Load() != info {
		r.latest.Store(&info)
	}
	if p == forQueue && info.Lifecycle == record.LifecycleRetiring {
		return r.purgeStands(r.purges.Load())
	}
	return info.takesWork()
}

// takesWork refuses new work on a Repository that is not active.
func (i *RepositoryInfo) takesWork() error {
	if i.Lifecycle == record.LifecycleActive {
		return nil
	}
	return fmt.Errorf("repository %d: %w: it is %s", i.Index, ErrNotActive, i.Lifecycle)
}

// maxHindered bounds how often somebody waits for the registry; others that change
// it all the time must not hold him up for ever.
const maxHindered = 1000

// unhindered runs a mutation or a view until nothing was in its way that needs the
// registry's lock. No lock is held.
func (r *Repository) unhindered(ctx context.Context, run func() error) error {
	for range maxHindered {
		err := run()
		switch {
		case errors.Is(err, errRegistryBusy):
			// This waits for the change, and recovers one that was interrupted.
			err = r.a.registry.View(ctx, func(bindb.Reader) error { return nil })
		case errors.Is(err, errPurgeStands):
			err = r.a.both(ctx, r.info.Index, func(*locked) error { return nil })
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the registry was being changed each of %d times", bindb.ErrBusy, maxHindered)
}

// Session is the right to run several updates with nobody in between.
type Session struct {
	r *Repository
	s *bindb.Session
}

// Exclusive holds the Repository's locks while fn runs, for new work. The error
// is as for Update.
func (r *Repository) Exclusive(ctx context.Context, fn func(*Session) error) error {
	return r.unhindered(ctx, func() error {
		return r.root.Exclusive(ctx, func(s *bindb.Session) error {
			if err := r.admit(forWork); err != nil {
				return err
			}
			return fn(&Session{r, s})
		})
	})
}

// Update commits what fn wrote.
func (s *Session) Update(ctx context.Context, fn func(*Tx) error) error {
	return s.s.Update(ctx, func(tx *bindb.Tx) error { return s.r.run(tx, fn) })
}

// View reads inside the session.
func (s *Session) View(fn func(*View) error) error {
	return s.s.View(func(rd bindb.Reader) error { return fn(&View{Reader: rd, repo: s.r}) })
}

// View is the read access to one Repository, valid inside the function that got
// it.
type View struct {
	bindb.Reader
	repo  *Repository
	table *leaseTable // nil until a reader of the queue needs it
}

// Tx is a View that can also change the Repository: its methods are the verbs.
// A Tx reads its own writes.
type Tx struct {
	View
	tx     *bindb.Tx
	now    record.Seconds
	lease  leaseTx
	broken error // of a verb that failed after its first write
}

// run applies one admitted mutation.
func (r *Repository) run(btx *bindb.Tx, fn func(*Tx) error) error {
	tx := &Tx{View: View{Reader: btx, repo: r}, tx: btx, now: r.a.opt.now()}
	if err := fn(tx); err != nil {
		return err
	}
	if tx.broken != nil {
		return tx.broken
	}
	tx.lease.merge()
	return nil
}

// writes is deferred by a verb before its first write, with the error that the
// verb returns.
func (tx *Tx) writes(err *error) {
	if *err != nil && tx.broken == nil {
		tx.broken = *err
	}
}

// beginsWork is called by a verb that begins something new: it refuses that while
// the Repository is only to be drained.
func (tx *Tx) beginsWork() error { return tx.repo.latest.Load().takesWork() }

// Now is the instant, in whole seconds, at which this transaction takes place.
func (tx *Tx) Now() record.Seconds { return tx.now }

func (r *Repository) leasePath() string {
	return filepath.Join(r.a.opt.runtime(), "leases", strconv.FormatUint(uint64(r.info.Index), 10))
}

// Prepare registers work outside of the records that must be durable before the
// first of them is written, such as a Git ref. It runs once, when all verbs have
// succeeded; if it fails, nothing is written.
func (tx *Tx) Prepare(fn func() error) { tx.tx.Prepare(fn) }
