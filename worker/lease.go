package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

const (
	// glance bounds how long the keeper of a lease does not look at the clock: the
	// timers of a process do not run while the machine sleeps.
	glance = time.Second
	// firstPause and maxPause are the waits between two calls that were not answered.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// lease is the right to work on one job, as this worker knows it.
type lease struct {
	jobs  operation.Jobs
	jobID string
	fence workitem.Fence
	ttl   time.Duration
	now   func() time.Duration

	// overdue is closed when the lease has run out.
	overdue chan struct{}

	mu    sync.Mutex
	sent  time.Duration // when the newest accepted renewal was sent
	lost  error         // wraps ErrLeaseLost
	onEnd context.CancelCauseFunc
}

func newLease(jobs operation.Jobs, claim *workitem.Claim, ttl time.Duration, now func() time.Duration, onEnd context.CancelCauseFunc) *lease {
	return &lease{jobs: jobs, jobID: claim.JobID, fence: claim.Fence(), ttl: ttl, now: now,
		overdue: make(chan struct{}), sent: now(), onEnd: onEnd}
}

// seconds is the lease's length as the verbs take it.
func (l *lease) seconds() *float64 {
	s := l.ttl.Seconds()
	return &s
}

// left is for how long the lease lasts; 0 or less if it has run out.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent + l.ttl - l.now()
}

// renewed notes a renewal that was sent at the given time.
func (l *lease) renewed(sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.sent = max(l.sent, sent)
	}
}

// lose ends the lease for this worker. The first reason counts.
func (l *lease) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = fmt.Errorf("%w: %w", ErrLeaseLost, why)
		l.onEnd(l.lost)
	}
}

var (
	errRanOut    = errors.New("it ran out before a renewal was answered")
	errNoRenewal = errors.New("no renewal was answered, and it is about to run out")
)

// check returns why the lease is lost, or nil.
func (l *lease) check() error {
	if l.left() <= 0 {
		l.lose(errRanOut)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// heartbeat renews the lease once.
func (l *lease) heartbeat(ctx context.Context) error {
	sent := l.now()
	_, err := l.jobs.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: l.jobID, Claim: l.fence, LeaseTTL: l.seconds()})
	if err == nil {
		l.renewed(sent)
	}
	return err
}

// keep renews the lease at every third of its length until ctx ends. A call that is
// not answered is repeated. When five sixths of the lease have passed without a
// renewal it gives the lease up, so that what works on the job has the last sixth
// to end in.
func (l *lease) keep(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan error, 1)
	calling := false
	defer func() {
		cancel()
		if calling {
			<-answers
		}
	}()
	next := l.ttl * 2 / 3 // of the time that is left
	pause := l.ttl / 30
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		left := l.left()
		switch {
		case left <= 0:
			l.lose(errRanOut)
			close(l.overdue)
			return
		case left <= l.ttl/6:
			l.lose(errNoRenewal)
		case left <= next && !calling && l.check() == nil:
			calling = true
			go func() { // ends with the call, which keep waits for
				call, cancel := context.WithTimeout(ctx, left)
				defer cancel()
				answers <- l.heartbeat(call)
			}()
		}
		wait := min(left, glance)
		for _, mark := range [...]time.Duration{l.ttl / 6, next} {
			if left > mark {
				wait = min(wait, left-mark)
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case err := <-answers:
			calling = false
			switch {
			case err == nil:
				next, pause = l.ttl*2/3, l.ttl/30
			case isLoss(err):
				l.lose(err)
			default:
				next = l.left() - pause
				pause = min(2*pause, l.ttl/12)
			}
		}
	}
}

// insist makes a call until it is answered, for as long as the lease lasts. The
// error is the lease's loss, the call's answer, or that of ctx.
func (l *lease) insist(ctx context.Context, call func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if err := l.check(); err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, min(l.left(), max(l.ttl/3, time.Second)))
		err := call(once)
		cancel()
		switch {
		case err == nil:
			return nil
		case isLoss(err):
			l.lose(err)
			return l.check()
		case !isTransient(err):
			return err
		}
		if !rest(ctx, min(pause, max(l.left(), 0))) {
			return ctx.Err()
		}
	}
}

// rest waits for about d, at least for half of it. It is false if ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d - time.Duration(rand.Int64N(int64(d/2)+1)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
