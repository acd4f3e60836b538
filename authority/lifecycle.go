package authority

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// The verbs of this file replace one record of the registry. Each takes the lock
// of the registry and then that of the Repository, which no other order of locks
// contradicts, so that whoever holds the latter alone knows that the record stands
// still: a mutation compares its purpose with the lifecycle there and then, see
// admit. All of them are durable when they return.

// SetPolicyFlags replaces the default requirements of a Repository that is active
// or retiring. The error is ErrState for a purged one.
func (a *Authority) SetPolicyFlags(ctx context.Context, index uint32, flags record.PolicyFlags) (RepositoryInfo, error) {
	return a.ChangePolicyFlags(ctx, index, func(record.PolicyFlags) (record.PolicyFlags, error) { return flags, nil })
}

// ChangePolicyFlags is SetPolicyFlags for flags that depend on the present ones. An
// error of change is returned and changes nothing.
func (a *Authority) ChangePolicyFlags(ctx context.Context, index uint32, change func(record.PolicyFlags) (record.PolicyFlags, error)) (RepositoryInfo, error) {
	return a.replace(ctx, index, func(_ bindb.Reader, info *RepositoryInfo) (err error) {
		if err := info.changeable(); err != nil {
			return err
		}
		info.PolicyFlags, err = change(info.PolicyFlags)
		return err
	})
}

// SetNamespace replaces the namespace of a Repository that is active or retiring;
// the empty one takes it away. Identities are rendered with the new one from then
// on. The error is ErrConflict when another live Repository has it, ErrState for a
// purged one, and bindb.ErrInvalid for malformed bytes.
func (a *Authority) SetNamespace(ctx context.Context, index uint32, ns record.Namespace) (RepositoryInfo, error) {
	if err := validNamespace(ns); err != nil {
		return RepositoryInfo{}, fmt.Errorf("repository %d: %w", index, err)
	}
	return a.replace(ctx, index, func(r bindb.Reader, info *RepositoryInfo) error {
		if err := info.changeable(); err != nil {
			return err
		}
		if ns != (record.Namespace{}) {
			owner, taken, err := namespaceOwner(r, ns)
			if err != nil {
				return err
			}
			if taken && owner != index {
				return fmt.Errorf("repository %d: %w: namespace %s belongs to repository %d", index, ErrConflict, ns, owner)
			}
		}
		info.Namespace = ns
		return nil
	})
}

// Retire lets a Repository finish the Jobs it has and take no new work: once it
// has returned, every later mutation of every process is refused with
// ErrNotActive, apart from those of UpdateQueue. The error is ErrState unless the
// Repository is active.
func (a *Authority) Retire(ctx context.Context, index uint32) (RepositoryInfo, error) {
	return a.move(ctx, index, record.LifecycleActive, record.LifecycleRetiring)
}

// Reactivate lets a retiring Repository take new work again. The error is
// ErrState unless it is retiring.
func (a *Authority) Reactivate(ctx context.Context, index uint32) (RepositoryInfo, error) {
	return a.move(ctx, index, record.LifecycleRetiring, record.LifecycleActive)
}

func (a *Authority) move(ctx context.Context, index uint32, from, to record.Lifecycle) (RepositoryInfo, error) {
	return a.replace(ctx, index, func(_ bindb.Reader, info *RepositoryInfo) error {
		if info.Lifecycle != from {
			return statef("repository %d is %s; only one that is %s becomes %s", index, info.Lifecycle, from, to)
		}
		info.Lifecycle = to
		return nil
	})
}

// changeable refuses to change what a purge has made final.
func (i *RepositoryInfo) changeable() error {
	if i.Lifecycle == record.LifecyclePurged {
		return statef("repository %d was purged, which is final", i.Index)
	}
	return nil
}

// replace changes the registry record of one Repository.
func (a *Authority) replace(ctx context.Context, index uint32, change func(bindb.Reader, *RepositoryInfo) error) (RepositoryInfo, error) {
	var info RepositoryInfo
	err := a.both(ctx, index, func(l *locked) error {
		info = l.info
		if err := l.registry.View(func(r bindb.Reader) error { return change(r, &info) }); err != nil {
			return err
		}
		if err := l.put(ctx, &info); err != nil {
			return err
		}
		if info.Namespace != l.info.Namespace {
			indexNamespaces(ctx, l.registry)
		}
		return nil
	})
	if err != nil {
		return RepositoryInfo{}, err
	}
	return info, nil
}

// indexNamespaces rewrites the namespace index. Without it lookups read the
// records, so that a failure changes nothing.
func indexNamespaces(ctx context.Context, s *bindb.Session) {
	_ = s.Reindex(context.WithoutCancel(ctx), bindb.NamespaceIndex)
}

// locked is the right to change the registry record of one Repository.
type locked struct {
	repo     *Repository
	registry *bindb.Session
	queue    *bindb.Session
	info     RepositoryInfo // as it stands
}

// both holds the locks of the registry and of one Repository while fn runs. An
// interrupted purge is ended first.
func (a *Authority) both(ctx context.Context, index uint32, fn func(*locked) error) error {
	r, err := a.Repository(ctx, index)
	if err != nil {
		return err
	}
	return a.registry.Exclusive(ctx, func(registry *bindb.Session) error {
		return r.root.Exclusive(ctx, func(queue *bindb.Session) error {
			l := &locked{repo: r, registry: registry, queue: queue}
			err := registry.View(func(rd bindb.Reader) (err error) {
				l.info, err = repositoryInfo(rd, index)
				return err
			})
			if err == nil {
				err = r.usable()
			}
			if err == nil {
				err = l.settlePurge(ctx)
			}
			if err != nil {
				return err
			}
			return fn(l)
		})
	})
}

// put replaces the registry record. Its time is the present one, and never before
// the last one.
func (l *locked) put(ctx context.Context, info *RepositoryInfo) error {
	info.UpdatedAt = max(l.repo.a.opt.now(), l.info.UpdatedAt)
	err := l.registry.Update(ctx, func(tx *bindb.Tx) error {
		return bindb.Repositories.Put(tx, info.Index, info.Repository)
	})
	if err != nil {
		return err
	}
	now := *info
	l.repo.latest.Store(&now)
	return nil
}
