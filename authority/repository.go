package authority

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// Repository is one open Repository authority. It is safe for concurrent use.
type Repository struct {
	a    *Authority
	info RepositoryInfo
	root *bindb.Root

	// batch belongs to whoever runs a mutation; those take turns.
	batch *leaseBatch
}

// Repository opens the Repository with the given index. The error is
// bindb.ErrNotFound when the registry has none, and ErrNotActive when it is
// purged.
func (a *Authority) Repository(ctx context.Context, index uint32) (*Repository, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.repos[index]; r != nil {
		return r, nil
	}
	var info RepositoryInfo
	err := a.registry.View(ctx, func(r bindb.Reader) error {
		rec, err := bindb.Repositories.Get(r, index)
		if err != nil {
			return err
		}
		name, err := repositoryName(r, index, &rec)
		info = RepositoryInfo{index, name, rec}
		return err
	})
	if err != nil {
		return nil, err
	}
	if info.Meta.Tombstoned() || info.Lifecycle == record.LifecyclePurged {
		return nil, fmt.Errorf("repository %d: %w: it was purged", index, ErrNotActive)
	}
	cfg := a.opt.config(a.active, record.RootAuthority, strconv.FormatUint(uint64(index), 10))
	root, err := bindb.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r := &Repository{a: a, info: info, root: root}
	a.repos[index] = r
	return r, nil
}

// Info is the Repository's registry entry at the time it was opened.
func (r *Repository) Info() RepositoryInfo { return r.info }

// Root is the Binary DB root, for checks and dumps.
func (r *Repository) Root() *bindb.Root { return r.root }

// View reads the committed state. fn must be short: it holds the Repository's
// locks, shared.
func (r *Repository) View(ctx context.Context, fn func(*View) error) error {
	return r.root.View(ctx, func(rd bindb.Reader) error {
		return fn(&View{Reader: rd, repo: r})
	})
}

// Update runs fn and makes what its verbs wrote durable before it returns. An
// error from fn changes nothing. A verb that fails half-way fails the Update even
// if fn makes nothing of it. fn must not call Update or View of the same
// Repository and may run more than once.
func (r *Repository) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := r.takesWork(); err != nil {
		return err
	}
	return r.root.Update(ctx, func(tx *bindb.Tx) error { return r.run(tx, fn) })
}

// takesWork refuses new work on a Repository that is not active.
func (r *Repository) takesWork() error {
	if r.info.Lifecycle != record.LifecycleActive {
		return fmt.Errorf("repository %d: %w: it is %s", r.info.Index, ErrNotActive, r.info.Lifecycle)
	}
	return nil
}

// Session is the right to run several updates with nobody in between.
type Session struct {
	r *Repository
	s *bindb.Session
}

// Exclusive holds the Repository's locks while fn runs.
func (r *Repository) Exclusive(ctx context.Context, fn func(*Session) error) error {
	if err := r.takesWork(); err != nil {
		return err
	}
	return r.root.Exclusive(ctx, func(s *bindb.Session) error { return fn(&Session{r, s}) })
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
	repo *Repository
}

// Tx is a View that can also change the Repository: its methods are the verbs.
// A Tx reads its own writes.
type Tx struct {
	View
	tx     *bindb.Tx
	now    record.Seconds
	lease  *leaseTx // nil until a verb of the queue needs it
	broken error    // of a verb that failed after its first write
}

// run applies one mutation.
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

// Now is the instant, in whole seconds, at which this transaction takes place.
func (tx *Tx) Now() record.Seconds { return tx.now }

func (r *Repository) leasePath() string {
	return filepath.Join(r.a.opt.runtime(), "leases", strconv.FormatUint(uint64(r.info.Index), 10))
}

// Prepare registers work outside of the records that must be durable before the
// first of them is written, such as a Git ref. It runs once, when all verbs have
// succeeded; if it fails, nothing is written.
func (tx *Tx) Prepare(fn func() error) { tx.tx.Prepare(fn) }
