package authority

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// defaultPurgeStep is how many records one batch of a purge looks at.
const defaultPurgeStep = 1 << 16

// errPurgeStands is the answer to whoever meets records that an interrupted purge
// may have changed.
var errPurgeStands = errors.New("an interrupted purge stands")

// Purge ends a retiring Repository for good: no Patchset refers to a Job any more,
// though its evidence stays, every Job is tombstoned, and the registry says so
// last, which is the commit. What the Repository holds can still be read. Interrupted
// before the commit, it leaves the Repository exactly as it was; whoever opens it
// next sees to that. progress, if it is not nil, is told how many of all records
// have been dealt with; it must not use the authority.
//
// The error is ErrState unless the Repository is retiring and none of its Jobs is
// queued or running. After an error that left the outcome open this process
// refuses the Repository, until the authority has been opened again.
func (a *Authority) Purge(ctx context.Context, index uint32, progress func(done, total int64)) (RepositoryInfo, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	var info RepositoryInfo
	err := a.both(ctx, index, func(l *locked) error {
		info = l.info
		if info.Lifecycle != record.LifecycleRetiring {
			return statef("repository %d is %s; only one that is %s becomes %s", index, info.Lifecycle,
				record.LifecycleRetiring, record.LifecyclePurged)
		}
		if err := l.drained(); err != nil {
			return err
		}
		if err := l.queue.PreservePurge(ctx); err != nil {
			return errors.Join(err, l.queue.DiscardPurge())
		}
		info.Lifecycle = record.LifecyclePurged
		l.repo.purges.Add(1) // odd until it is done or taken back
		defer l.repo.purges.Add(1)
		err := l.clear(ctx, progress)
		if err == nil {
			err = l.put(ctx, &info)
		}
		if err != nil {
			return l.takeBack(ctx, err)
		}
		// The registry has spoken. What cannot be removed now is removed by the
		// next open, and an index that cannot be written is of another time.
		_ = l.queue.DiscardPurge()
		_ = l.queue.Reindex(context.WithoutCancel(ctx), bindb.ReadyIndex, bindb.StateIndex)
		return nil
	})
	if err != nil {
		return RepositoryInfo{}, err
	}
	return info, nil
}

// drained refuses a Repository that still has work.
func (l *locked) drained() error {
	d, err := countActive(l.queue.View)
	if err != nil {
		return err
	}
	if d.Queued > 0 || d.Running > 0 {
		return statef("repository %d still has %d queued and %d running jobs", l.info.Index, d.Queued, d.Running)
	}
	return nil
}

// Drain is what a Repository has to finish before it can be purged.
type Drain struct {
	Queued, Running uint32 // Jobs
}

// Drain counts the Jobs that are queued or running.
func (r *Repository) Drain(ctx context.Context) (Drain, error) {
	return countActive(func(fn func(bindb.Reader) error) error {
		return r.View(ctx, func(v *View) error { return fn(v.Reader) })
	})
}

func countActive(view func(func(bindb.Reader) error) error) (d Drain, err error) {
	err = view(func(r bindb.Reader) error {
		n, err := bindb.CountJobs(r, 0)
		d = Drain{n.Queued, n.Running}
		return err
	})
	return d, err
}

// clear takes the locators from the Patchsets first and then tombstones the Jobs,
// so that no Patchset ever refers to a tombstoned one.
func (l *locked) clear(ctx context.Context, progress func(done, total int64)) error {
	var patchsets, jobs uint32
	err := l.queue.View(func(r bindb.Reader) (err error) {
		if patchsets, err = bindb.Patchsets.Count(r); err == nil {
			jobs, err = bindb.WorkerJobs.Count(r)
		}
		return err
	})
	if err != nil {
		return err
	}
	total := int64(patchsets) + int64(jobs)
	step := l.repo.a.purgeStep
	err = rewrite(ctx, l.queue, bindb.Patchsets, step, patchsets, func(p *record.Patchset) bool {
		had := p.CIJob != 0
		p.CIJob = 0
		return had
	}, func(done uint32) { progress(int64(done), total) })
	if err != nil {
		return err
	}
	now := l.repo.a.opt.now()
	return rewrite(ctx, l.queue, bindb.WorkerJobs, step, jobs, func(j *record.WorkerJob) bool {
		if j.Meta.Tombstoned() {
			return false
		}
		j.Meta.SetTombstoned(true)
		j.UpdatedAt = max(now, j.UpdatedAt)
		return true
	}, func(done uint32) { progress(int64(patchsets)+int64(done), total) })
}

// rewrite replaces those of the first count records that change reports, in
// batches that look at step records each.
func rewrite[T any, P record.Codec[T]](ctx context.Context, s *bindb.Session, t bindb.Table[T, P], step, count uint32,
	change func(*T) bool, progress func(done uint32)) error {
	for from := uint32(0); from < count; {
		to := from + min(step, count-from)
		var at []uint32
		var recs []T
		err := s.View(func(r bindb.Reader) error {
			return t.Scan(r, from, to, func(i uint32, rec *T) error {
				if next := *rec; change(&next) {
					at, recs = append(at, i), append(recs, next)
				}
				return nil
			})
		})
		if err == nil && len(at) > 0 {
			err = s.Update(ctx, func(tx *bindb.Tx) error {
				for k, i := range at {
					if err := t.Put(tx, i, recs[k]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		from = to
		progress(from)
	}
	return nil
}

// takeBack restores the Repository after a purge that was not committed. Where
// that is not known, or cannot be done, the before-images stay for the recovery
// by the next open, and this process shows nothing in between.
func (l *locked) takeBack(ctx context.Context, cause error) error {
	ctx = context.WithoutCancel(ctx)
	back := errPurgeStands
	if !l.registryFailed() {
		if back = l.queue.RestorePurge(ctx); back == nil {
			back = l.queue.DiscardPurge()
		}
	}
	if back == nil {
		return cause
	}
	l.repo.broken.Store(&cause)
	if back != errPurgeStands {
		cause = errors.Join(cause, back)
	}
	return l.repo.refused(cause)
}

// registryFailed reports whether a sync of the registry has failed, so that only
// its recovery can tell whether the purge was committed.
func (l *locked) registryFailed() bool {
	return errors.Is(l.registry.Writable(), bindb.ErrReadOnly)
}

// refused says that a purge was interrupted in this process.
func (r *Repository) refused(cause error) error {
	return fmt.Errorf("repository %d: %w: its purge was interrupted; open the authority again to recover it: %w",
		r.info.Index, bindb.ErrReadOnly, cause)
}

// usable refuses a Repository in which a purge of this process was interrupted.
func (r *Repository) usable() error {
	if cause := r.broken.Load(); cause != nil {
		return r.refused(*cause)
	}
	return nil
}

// purgeStands refuses the records that a purge may have changed and not finished.
// Unless the authority is owned, a lock of the Repository is held, so that only a
// process that died can have left one. The owner's readers hold none; before says
// how many purges had begun and ended before they began to read.
func (r *Repository) purgeStands(before uint64) error {
	if r.a.opt.Own {
		if now := r.purges.Load(); now != before || now%2 == 1 {
			return errPurgeStands
		}
		return nil
	}
	stands, err := bindb.PurgeStands(r.a.authorityConfig(r.info.Index))
	if err == nil && stands {
		err = errPurgeStands
	}
	return err
}

// settlePurge ends an interrupted purge under both locks. An active Repository
// cannot have been under one.
func (l *locked) settlePurge(ctx context.Context) error {
	cfg := l.repo.a.authorityConfig(l.info.Index)
	if left, err := bindb.PurgeLeft(cfg); err != nil || !left {
		return err
	}
	stands, err := bindb.PurgeStands(cfg)
	if err != nil {
		return err
	}
	if !stands {
		return l.queue.DiscardPurge()
	}
	switch l.info.Lifecycle {
	case record.LifecycleActive:
		return purgeOfActive(l.info.Index)
	case record.LifecycleRetiring:
		if err := l.queue.RestorePurge(ctx); err != nil {
			return err
		}
	}
	return l.queue.DiscardPurge()
}

func purgeOfActive(index uint32) error {
	return fmt.Errorf("%w: repository %d is active, but a purge of it stands", bindb.ErrCorrupt, index)
}

// recoverPurge ends an interrupted purge of a Repository that is not open. One
// that is under way elsewhere is waited for.
func (a *Authority) recoverPurge(ctx context.Context, index uint32) error {
	cfg := a.authorityConfig(index)
	return a.registry.Exclusive(ctx, func(s *bindb.Session) error {
		if left, err := bindb.PurgeLeft(cfg); err != nil || !left {
			return err
		}
		var info RepositoryInfo
		err := s.View(func(r bindb.Reader) (err error) {
			info, err = repositoryInfo(r, index)
			return err
		})
		if err != nil {
			return err
		}
		if info.Lifecycle == record.LifecycleActive {
			if stands, err := bindb.PurgeStands(cfg); err != nil {
				return err
			} else if stands {
				return purgeOfActive(index)
			}
		}
		return bindb.RecoverPurge(ctx, cfg, info.Lifecycle != record.LifecyclePurged)
	})
}

// settlePurges ends what interrupted purges have left in any Repository, for
// those who are about to read the roots as they are.
func (a *Authority) settlePurges(ctx context.Context) error {
	list, err := a.Repositories(ctx)
	if err != nil {
		return err
	}
	for _, info := range withDirectory(list) {
		left, err := bindb.PurgeLeft(a.authorityConfig(info.Index))
		if err == nil && left {
			err = a.both(ctx, info.Index, func(*locked) error { return nil })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openRoot opens the root of a Repository, after what is left of a purge has been
// dealt with. Another process may begin one in between.
func (a *Authority) openRoot(ctx context.Context, index uint32) (*bindb.Root, error) {
	const tries = 3
	cfg := a.authorityConfig(index)
	for try := 1; ; try++ {
		left, err := bindb.PurgeLeft(cfg)
		if err != nil {
			return nil, err
		}
		if left {
			if err := a.recoverPurge(ctx, index); err != nil {
				return nil, err
			}
		}
		root, err := bindb.Open(ctx, cfg)
		if err == nil || try == tries {
			return root, err
		}
		if left, lerr := bindb.PurgeLeft(cfg); !left {
			return nil, errors.Join(err, lerr)
		}
	}
}

// Check validates the whole Repository, and what a purge promises where there was
// one. The violations and the error are as for bindb.Root.Check.
func (r *Repository) Check(ctx context.Context) ([]bindb.Finding, error) {
	findings, err := r.root.Check(ctx)
	if err != nil || len(findings) > 0 || r.Info().Lifecycle != record.LifecyclePurged {
		return findings, err
	}
	err = r.root.View(ctx, func(rd bindb.Reader) (err error) {
		findings, err = bindb.CheckPurged(rd, maxPurgeFindings)
		return err
	})
	return findings, err
}

// maxPurgeFindings bounds what Check reports of one purge.
const maxPurgeFindings = 1000

// checkPurged refuses a purged Repository that a purge has not left like this.
func checkPurged(ctx context.Context, root *bindb.Root) error {
	return root.View(ctx, func(r bindb.Reader) error {
		findings, err := bindb.CheckPurged(r, 1)
		if err == nil && len(findings) > 0 {
			err = fmt.Errorf("%w: %s", bindb.ErrCorrupt, findings[0])
		}
		return err
	})
}
