package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// Config says what is claimed and who works on it.
type Config struct {
	// Kind is the one registered kind that is claimed, for instance
	// repository.build.
	Kind string
	// Handler works on the jobs.
	Handler Handler
	// Worker names this worker in leases; "" is the name of the host and the id of
	// the process. At most 256 bytes.
	Worker string
	// Lease is how long a lease lasts without renewal; 0 is 60 s, at most 24 h. It
	// is counted in milliseconds.
	Lease time.Duration
	// Wait is how long a claim waits for a job; 0 is 30 s, negative does not wait,
	// at most 60 s.
	Wait time.Duration
	// Parallel is how many jobs are worked on at the same time; 0 is 1.
	Parallel int
	// Max ends the run after so many jobs; 0 is no limit.
	Max int
	// Once ends the run after one job, or when a claim has found none.
	Once bool
	// ResourceClass and FairnessGroup, if not empty, restrict what is claimed.
	ResourceClass, FairnessGroup string
	// Stop, if not nil, ends claiming when it is closed; what is being worked on
	// goes on.
	Stop <-chan struct{}
	// Events, if not nil, is told what happens. It is called from several goroutines
	// and must not wait.
	Events func(Event)

	// clock is steadyClock except in tests.
	clock func() time.Duration
}

// The bounds and defaults of a Config.
const (
	defaultLease = 60 * time.Second
	maxLease     = 24 * time.Hour
	defaultWait  = 30 * time.Second
	maxWait      = 60 * time.Second
	maxParallel  = 4096
)

func (c Config) complete() (Config, error) {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Wait == 0 {
		c.Wait = defaultWait
	}
	c.Wait = max(c.Wait, 0)
	if c.Parallel == 0 {
		c.Parallel = 1
	}
	if c.Once {
		c.Max = 1
	}
	if c.Worker == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "worker"
		}
		c.Worker = fmt.Sprintf("%.200s:%d", host, os.Getpid())
	}
	if c.Events == nil {
		c.Events = func(Event) {}
	}
	if c.clock == nil {
		c.clock = steadyClock
	}
	switch {
	case c.Kind == "":
		return c, fmt.Errorf("%w: there is no kind of job to claim", ErrConfig)
	case c.Handler == nil:
		return c, fmt.Errorf("%w: there is no handler", ErrConfig)
	case c.Lease < time.Millisecond || c.Lease > maxLease:
		return c, fmt.Errorf("%w: a lease lasts 1ms to %v, not %v", ErrConfig, maxLease, c.Lease)
	case c.Wait > maxWait:
		return c, fmt.Errorf("%w: a claim waits up to %v, not %v", ErrConfig, maxWait, c.Wait)
	case c.Parallel < 0 || c.Parallel > maxParallel:
		return c, fmt.Errorf("%w: 1 to %d jobs can be worked on at the same time, not %d", ErrConfig, maxParallel, c.Parallel)
	case c.Max < 0:
		return c, fmt.Errorf("%w: the number of jobs is %d", ErrConfig, c.Max)
	}
	c.Lease = c.Lease.Truncate(time.Millisecond)
	return c, nil
}

// Run claims jobs and has them worked on until Config.Stop is closed, Max is
// reached, ctx ends or the authority refuses to be asked; one that does not answer
// is asked again. It returns when the last job has been settled.
//
// When ctx ends, the contexts of all handlers end, and the jobs that they do not
// finish are given back. Errors are ErrConfig, that of a claim which is no
// *workitem.Error or one that asking again does not change, or the cause of ctx.
func Run(ctx context.Context, jobs operation.Jobs, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	w := &worker{jobs: jobs, cfg: cfg}
	claims, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with claims
		select {
		case <-cfg.Stop:
			stop()
		case <-claims.Done():
		}
	}()
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, cfg.Parallel)
	for taken := 0; cfg.Max == 0 || taken < cfg.Max; taken++ {
		select {
		case slots <- struct{}{}:
		case <-claims.Done():
		}
		answer, err := w.claim(claims)
		if claims.Err() != nil && answer == nil {
			w.tell(Event{Kind: Stopping})
			working.Wait()
			return context.Cause(ctx)
		}
		if err != nil || answer == nil {
			return err
		}
		working.Go(func() { // Run waits for it
			w.work(ctx, answer)
			<-slots
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

type worker struct {
	jobs operation.Jobs
	cfg  Config
}

func (w *worker) tell(e Event) {
	e.Time = time.Now()
	w.cfg.Events(e)
}

const (
	// claimSlack is how much longer than asked for a claim may take to be answered.
	claimSlack = 30 * time.Second
	// idlePause is the least time between two claims that find nothing: a claim does
	// not wait when the quota of the tenant is used up.
	idlePause = time.Second
	// maxClaimPause bounds the wait after a claim that was not answered.
	maxClaimPause = 15 * time.Second
)

// claim gives the next job; nil if ctx ended, or with Once if there is none.
func (w *worker) claim(ctx context.Context) (*workitem.ClaimAnswer, error) {
	lease, wait := w.cfg.Lease.Seconds(), w.cfg.Wait.Seconds()
	in := workitem.ClaimNextInput{Kind: w.cfg.Kind, Worker: w.cfg.Worker, LeaseTTL: &lease, Wait: &wait,
		ResourceClass: w.cfg.ResourceClass, FairnessGroup: w.cfg.FairnessGroup, ClaimRequestID: rand.Text()}
	idle, unavailable := false, false
	pause := firstPause
	for ctx.Err() == nil {
		asked := w.cfg.clock()
		call, cancel := context.WithTimeout(ctx, w.cfg.Wait+claimSlack)
		answer, err := w.jobs.ClaimNext(call, &in)
		cancel()
		switch {
		case err == nil && answer.Claimed:
			if answer.Claim == nil || answer.Job == nil {
				return nil, errors.New("the authority has granted a lease and not said of which job")
			}
			return answer, nil
		case ctx.Err() != nil:
			return nil, nil
		case err == nil:
			unavailable, pause = false, firstPause
			in.ClaimRequestID = rand.Text()
			if !idle {
				idle = true
				w.tell(Event{Kind: Idle})
			}
			if w.cfg.Once {
				return nil, nil
			}
			if quick := idlePause - (w.cfg.clock() - asked); quick > 0 {
				rest(ctx, quick)
			}
			continue
		case codeOf(err) == workitem.ClaimMismatch, codeOf(err) == workitem.InvalidState:
			// A lease was granted under this id and has ended meanwhile.
			in.ClaimRequestID = rand.Text()
		case !isTransient(err), codeOf(err) == "" && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		case !unavailable:
			unavailable = true
			w.tell(Event{Kind: Unavailable, Err: err})
		}
		rest(ctx, pause)
		pause = min(2*pause, maxClaimPause)
	}
	return nil, nil
}

// work has one claimed job worked on and settles it.
func (w *worker) work(ctx context.Context, answer *workitem.ClaimAnswer) {
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	l := newLease(w.jobs, answer.Claim, w.cfg.Lease, w.cfg.clock, end)
	tell := func(e Event) {
		e.JobID, e.Attempt, e.FencingToken = answer.Claim.JobID, answer.Claim.Attempt, answer.Claim.FencingToken
		w.tell(e)
	}
	// How long the claim had waited is not known here, so the lease is measured
	// from a first renewal.
	if err := l.insist(working, l.heartbeat); err != nil && ctx.Err() == nil {
		tell(Event{Kind: Lost, Err: err})
		return
	}
	tell(Event{Kind: Claimed})
	begun := w.cfg.clock()
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() { l.keep(keeping) }) // work waits for it
	result := Defer(0, "")
	if ctx.Err() == nil {
		result = w.cfg.Handler.Handle(working, &Job{View: answer.Job, Claim: answer.Claim, Trace: answer.Trace, held: l, tell: tell})
	}
	stop()
	keeper.Wait()
	if ctx.Err() != nil && result.Outcome != Succeeded {
		result = Defer(0, "the worker was stopped")
	}
	settled, err := l.settle(context.WithoutCancel(ctx), &result)
	e := Event{Kind: Settled, Result: result, Elapsed: w.cfg.clock() - begun}
	if e.Err = err; err != nil {
		e.Kind = Lost
	} else {
		e.Status = settled.Status
	}
	tell(e)
}
