package authority

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// ClaimFilter says which Jobs a worker takes.
type ClaimFilter struct {
	// Kinds are the kinds that it can run; none means all.
	Kinds []record.JobKind
	// Repositories are the indexes that it works for; none means all.
	Repositories []uint32
	// Request names the claim. The same request gets the same lease again, of
	// whatever Job, while that lease is live.
	Request RequestID
}

// Claimed is a Job that was handed out.
type Claimed struct {
	Repository *Repository
	Job        Job
	Lease      Lease
}

// candidate is the first ready Job of a Repository.
type candidate struct {
	r         *Repository
	available record.Seconds
	job       uint32
}

func (c candidate) compare(o candidate) int {
	return cmp.Or(cmp.Compare(c.available, o.available), cmp.Compare(c.r.info.Index, o.r.info.Index), cmp.Compare(c.job, o.job))
}

// ClaimNext claims the first ready Job of all active and retiring Repositories in
// the order of (available at, Repository, Job) that the filter lets pass (section
// 15). It looks at no Job that is not ready, gives back what dead holders have left
// before it chooses, and takes the next one when somebody else is faster. It
// reports false when there is nothing to claim.
func (a *Authority) ClaimNext(ctx context.Context, f ClaimFilter) (Claimed, bool, error) {
	repos, err := a.working(ctx, f.Repositories)
	if err != nil {
		return Claimed{}, false, err
	}
	if f.Request != (RequestID{}) {
		done, err := a.requests.enter(ctx, f.Request)
		if err != nil {
			return Claimed{}, false, err
		}
		defer done()
		for _, r := range repos {
			if c, ok, err := r.claimOf(ctx, f.Request); err != nil || ok {
				return c, ok, err
			}
		}
	}
	for {
		first, next, err := a.heads(ctx, repos, f.Kinds)
		if err != nil || first == nil {
			return Claimed{}, false, err
		}
		c, ok, err := first.claimUpTo(ctx, f, next)
		if errors.Is(err, ErrNotActive) {
			// It was purged meanwhile.
			repos = slices.DeleteFunc(repos, func(r *Repository) bool { return r == first.r })
			continue
		}
		if err != nil || ok {
			return c, ok, err
		}
	}
}

// working opens the Repositories whose queues are served. only, if it is not
// empty, are the indexes of those that are asked for.
func (a *Authority) working(ctx context.Context, only []uint32) ([]*Repository, error) {
	var list []uint32
	err := a.registry.View(ctx, func(r bindb.Reader) error {
		list = list[:0]
		return bindb.Repositories.All(r, func(i uint32, rec *record.Repository) error {
			serves := rec.Lifecycle == record.LifecycleActive || rec.Lifecycle == record.LifecycleRetiring
			if serves && !rec.Meta.Tombstoned() && (len(only) == 0 || slices.Contains(only, i)) {
				list = append(list, i)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	repos := make([]*Repository, len(list))
	for i, index := range list {
		if repos[i], err = a.Repository(ctx, index); err != nil {
			return nil, err
		}
	}
	return repos, nil
}

// heads returns the first candidate of all Repositories and the first one of the
// others, if there are any.
func (a *Authority) heads(ctx context.Context, repos []*Repository, kinds []record.JobKind) (first, next *candidate, err error) {
	for _, r := range repos {
		c, ok, err := r.head(ctx, kinds)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case !ok:
		case first == nil || c.compare(*first) < 0:
			first, next = &c, first
		case next == nil || c.compare(*next) < 0:
			next = &c
		}
	}
	return first, next, nil
}

// head returns the first Job of a Repository that can be claimed.
func (r *Repository) head(ctx context.Context, kinds []record.JobKind) (c candidate, ok bool, err error) {
	if _, err := r.expire(ctx); err != nil {
		return candidate{}, false, err
	}
	now := r.a.opt.now()
	err = r.View(ctx, func(v *View) error {
		ok = false
		return bindb.ReadyJobsOf(v, kinds, func(at record.Seconds, job uint32) (bool, error) {
			if at > now {
				return false, nil
			}
			j, err := v.Job(job)
			if err == nil {
				err = v.claimable(&j, now)
			}
			if unclaimable(err) {
				return true, nil
			}
			c, ok = candidate{r, at, job}, err == nil
			return false, err
		})
	})
	return c, ok, err
}

// unclaimable reports whether a claim failed for what the Job is, not for the
// state of the authority.
func unclaimable(err error) bool {
	return errors.Is(err, ErrState) || errors.Is(err, ErrLeaseHeld) || errors.Is(err, bindb.ErrNotFound)
}

// claimUpTo claims the first ready Job of the candidate's Repository, unless it
// comes after limit, which is of another Repository: the choice is made again then.
func (c *candidate) claimUpTo(ctx context.Context, f ClaimFilter, limit *candidate) (got Claimed, ok bool, err error) {
	err = c.r.UpdateQueue(ctx, func(tx *Tx) error {
		ok = false
		return bindb.ReadyJobsOf(tx, f.Kinds, func(at record.Seconds, job uint32) (bool, error) {
			if at > tx.now || limit != nil && (candidate{c.r, at, job}).compare(*limit) > 0 {
				return false, nil
			}
			l, err := tx.Claim(job, f.Request)
			switch {
			case unclaimable(err):
				return true, nil
			case err != nil:
				return false, err
			}
			got.Repository, got.Lease, ok = c.r, l, true
			got.Job, err = tx.Job(job)
			return false, err
		})
	})
	return got, ok && err == nil, err
}

// claimOf returns the live lease that a claim request has got.
func (r *Repository) claimOf(ctx context.Context, request RequestID) (c Claimed, ok bool, err error) {
	err = r.View(ctx, func(v *View) error {
		ok = false
		t, err := v.leases()
		if err != nil {
			return err
		}
		for _, e := range t.requested(request) {
			j, err := v.Job(e.Job)
			if errors.Is(err, bindb.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if liveFor(&e, j.Index, &j.WorkerJob, r.a.active.Epoch, r.a.opt.now()) {
				c, ok = Claimed{r, j, leaseOf(&e)}, true
				return nil
			}
		}
		return nil
	})
	return c, ok, err
}

// requestGate lets claims with one request id through one after another, so that
// a repetition finds the lease of the first one.
type requestGate struct {
	mu   sync.Mutex
	busy map[RequestID]chan struct{}
}

func (g *requestGate) enter(ctx context.Context, id RequestID) (leave func(), err error) {
	for {
		g.mu.Lock()
		other, busy := g.busy[id]
		if !busy {
			own := make(chan struct{})
			if g.busy == nil {
				g.busy = map[RequestID]chan struct{}{}
			}
			g.busy[id] = own
			g.mu.Unlock()
			return func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				delete(g.busy, id)
				close(own)
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ExpireLeases gives back the running Jobs of all active and retiring Repositories
// whose holders are gone (section 14.6), and returns how many there were. It looks
// at running Jobs only.
func (a *Authority) ExpireLeases(ctx context.Context) (int, error) {
	repos, err := a.working(ctx, nil)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, r := range repos {
		n, err := r.expire(ctx)
		total += n
		if err != nil && !errors.Is(err, ErrNotActive) {
			return total, err
		}
	}
	return total, nil
}

// expire gives back the running Jobs of one Repository that nobody holds.
func (r *Repository) expire(ctx context.Context) (int, error) {
	lost, err := r.lost(ctx)
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	total := 0
	for part := range slices.Chunk(lost, 64) {
		n := 0
		err := r.UpdateQueue(ctx, func(tx *Tx) error {
			n = 0
			for _, job := range part {
				j, err := tx.LoseLease(job)
				switch {
				case errors.Is(err, ErrLeaseHeld) || errors.Is(err, bindb.ErrNotFound):
				case err != nil:
					return err
				case j.Error == record.JobErrorLeaseExpired:
					n++
				}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// lost lists the running Jobs without a live lease.
func (r *Repository) lost(ctx context.Context) (list []uint32, err error) {
	now := r.a.opt.now()
	err = r.View(ctx, func(v *View) error {
		list = nil
		t, err := v.leases()
		if err != nil {
			return err
		}
		if n, err := bindb.CountJobs(v, now); err != nil || t.quiet(n.Running, now) {
			return err
		}
		return bindb.RunningJobs(v, func(job uint32) (bool, error) {
			j, err := v.Job(job)
			if err != nil {
				return false, err
			}
			_, live, err := v.LeaseOf(&j, now)
			if !live {
				list = append(list, job)
			}
			return true, err
		})
	})
	return list, err
}
