package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// call is one call about a job. From is the authority's time before it.
type call struct {
	verb    string // submit, claim, heartbeat, commit or cancel
	key     string
	worker  string
	epoch   int64
	outcome string
	from    workitem.Instant
}

// answer is what came back. To is the authority's time afterwards.
type answer struct {
	unknown bool   // the caller gave up: it may have happened, now or later
	said    string // deduplicated, a reason, a status, or the code of a refusal
	state   string // of the handle
	epoch   int64
	expires workitem.Instant
	to      workitem.Instant
}

// register is what one job is, seen from outside. A lease that was granted to
// somebody who gave up waiting ends somewhere between low and high.
type register struct {
	status    workitem.Status // 0: there is no such job
	worker    string
	epoch     int64
	low, high workitem.Instant
}

const (
	linearTTL     = 50 * time.Millisecond
	linearWorkers = 64
	// slack is how far the two readings of the clock in a call may be off.
	slack = workitem.Instant(1000)
)

func (r register) held() bool {
	return r.status == workitem.Leased || r.status == workitem.Running
}

func (r register) free(status workitem.Status, epochs int64) register {
	return register{status: status, epoch: r.epoch + epochs}
}

// step gives what the register may be after an answer; nothing if it may not have
// been given.
func (r register) step(c call, a answer) []register {
	if a.unknown {
		return append(r.happen(c), r)
	}
	mayLive := r.held() && c.from < r.high
	mayExpire := r.held() && a.to >= r.low
	mine := r.held() && r.worker == c.worker && r.epoch == c.epoch
	missing := r.status == 0
	only := func(ok bool, next register) []register {
		if !ok {
			return nil
		}
		return []register{next}
	}
	switch c.verb {
	case "submit":
		if a.said == "new" {
			return only(missing && a.state == "ready", register{status: workitem.Ready})
		}
		return only(!missing && a.state == r.status.State(), r)
	case "claim":
		if a.said != workitem.ReasonClaimed {
			return only(missing && a.said == string(workitem.NotFound) || mayLive && a.said == workitem.ReasonLeased ||
				r.status.Terminal() && a.said == workitem.ReasonTerminal, r)
		}
		at := a.expires.Add(-linearTTL)
		next := register{workitem.Leased, c.worker, r.epoch + 1, a.expires, a.expires}
		if r.held() {
			next.epoch++
			return only(at >= r.low && a.epoch == next.epoch, next)
		}
		return only(r.status == workitem.Ready && a.epoch == next.epoch, next)
	case "heartbeat":
		if a.said == "" {
			return only(mine && a.expires.Add(-linearTTL) <= r.high, register{workitem.Running, r.worker, r.epoch, a.expires, a.expires})
		}
		return only(a.said == string(workitem.StaleFence) && (!mine || mayExpire), r)
	case "commit":
		switch a.said {
		case workitem.Committed:
			return only(mine && c.outcome == "succeeded", r.free(workitem.Succeeded, 0))
		case workitem.RetryScheduled:
			return only(mine && c.outcome == "failed", r.free(workitem.Ready, 1))
		case workitem.Noop:
			return only(r.status.Terminal(), r)
		}
		return only(a.said == string(workitem.StaleFence) && !mine && !r.status.Terminal(), r)
	case "cancel":
		switch a.said {
		case "changed":
			return only(!missing && !r.status.Terminal(), r.free(workitem.StatusCancelled, 1))
		case "unchanged":
			return only(r.status == workitem.StatusCancelled, r)
		case string(workitem.NotFound):
			return only(missing, r)
		}
		return only(a.said == string(workitem.InvalidState) && r.status == workitem.Succeeded, r)
	}
	return nil
}

// happen gives what the register may be once a call has happened whose answer
// nobody has heard.
func (r register) happen(c call) []register {
	mine := r.held() && r.worker == c.worker && r.epoch == c.epoch
	granted := register{workitem.Leased, c.worker, r.epoch + 1, c.from.Add(linearTTL) - slack, math.MaxInt64}
	switch {
	case c.verb == "submit" && r.status == 0:
		return []register{{status: workitem.Ready}}
	case c.verb == "claim" && r.status == workitem.Ready:
		return []register{granted}
	case c.verb == "claim" && r.held():
		granted.epoch++
		granted.low = max(granted.low, r.low.Add(linearTTL))
		return []register{granted}
	case c.verb == "heartbeat" && mine:
		return []register{{workitem.Running, r.worker, r.epoch, granted.low, math.MaxInt64}}
	case c.verb == "commit" && mine && c.outcome == "succeeded":
		return []register{r.free(workitem.Succeeded, 0)}
	case c.verb == "commit" && mine:
		return []register{r.free(workitem.Ready, 1)}
	case c.verb == "cancel" && r.status != 0 && !r.status.Terminal():
		return []register{r.free(workitem.StatusCancelled, 1)}
	}
	return nil
}

var linearModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		jobs := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(call).key
			jobs[key] = append(jobs[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range jobs {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{register{}} },
	Step: func(state, input, output any) []any {
		var next []any
		for _, r := range state.(register).step(input.(call), output.(answer)) {
			next = append(next, r)
		}
		return next
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
}

// linearRun is 64 workers with leases of 50 ms on a few jobs at a time.
type linearRun struct {
	start time.Time
	base  workitem.Instant // the authority's time at start

	mu      sync.Mutex
	history []porcupine.Operation
	counts  map[string]int // by verb and answer
	errs    []error
}

// missing lists the kinds of answers that a run must have, and has not had yet. On a
// slow machine it goes on until it has.
func (run *linearRun) missing() []string {
	run.mu.Lock()
	defer run.mu.Unlock()
	var kinds []string
	for _, kind := range []string{"submit old", "claim claimed", "claim leased", "claim unknown", "heartbeat",
		"heartbeat stale_fence_duplicate_effect", "commit committed", "commit retry_scheduled", "commit noop",
		"commit stale_fence_duplicate_effect", "cancel changed"} {
		if run.counts[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Linear checks that what concurrent callers see is what one caller after the other
// could have seen. Workers die with their leases, come back late, and give up
// waiting for answers. The clock is the real one. Every worker asks for the authority
// by itself, and so may have one of several processes.
func Linear(t *testing.T, open Open, length time.Duration) {
	cfg := workitem.Config{Quota: 4096, RetryFloor: ptr(time.Duration(0))}
	t.Logf("max_tenant_in_flight %d, %d workers, leases of %v", cfg.Quota, linearWorkers, linearTTL)
	b := open(t, cfg, nil)
	run := &linearRun{counts: map[string]int{}}
	run.synchronise(t, b.Store())
	jobs := make([]operation.Jobs, linearWorkers)
	for i := range jobs {
		jobs[i] = b.Jobs(agent)
	}
	together(linearWorkers, func(i int) {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		for time.Since(run.start) < length || time.Since(run.start) < 20*length && len(run.missing()) > 0 {
			run.shift(t.Context(), jobs[i], i, rng)
		}
	})
	for _, err := range run.errs {
		t.Error(describe(err))
	}
	for i := range run.history {
		if run.history[i].Output.(answer).unknown {
			run.history[i].Return = math.MaxInt64
		}
	}
	t.Logf("%d calls: %v", len(run.history), run.counts)
	for _, kind := range run.missing() {
		t.Errorf("the run has no %q", kind)
	}
	model := linearModel.ToModel()
	for _, part := range linearModel.Partition(run.history) {
		result := porcupine.CheckOperationsTimeout(model, part, time.Minute)
		if result == porcupine.Ok {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		t.Errorf("the history of a job is not linearisable: %v", result)
		for _, op := range part {
			t.Logf("%12v %12v %+v: %+v", time.Duration(op.Call), time.Duration(op.Return), op.Input, op.Output)
		}
		return
	}
}

// synchronise reads the authority's clock, which may be that of another process: as
// often as it takes to be surer of the time of a reading than slack.
func (run *linearRun) synchronise(t *testing.T, store workitem.Store) {
	t.Helper()
	const tries = 1000
	best := time.Hour
	for n := 0; best > time.Duration(slack)*time.Microsecond/2; n++ {
		if n == tries {
			t.Fatalf("reading the clock takes %v", best)
		}
		before := time.Now()
		err := store.View(t.Context(), func(r workitem.Reader) error {
			base, now := r.Now(), time.Now()
			if took := now.Sub(before); took < best {
				best, run.start, run.base = took, now, base
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (run *linearRun) now() workitem.Instant { return run.base.Add(time.Since(run.start)) }

// do makes one call and writes it down.
func (run *linearRun) do(client int, c call, fn func() (answer, error)) answer {
	begun := time.Since(run.start)
	c.from = run.now() - slack
	a, err := fn()
	a.to = run.now() + slack
	var e *workitem.Error
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		a.unknown = true
	case errors.As(err, &e):
		a.said = string(e.Code)
		fallthrough
	default:
		if err != nil && (e == nil || e.Code == workitem.Internal || e.Code == workitem.AuthorityUnavailable || e.Code == workitem.InvalidRequest) {
			run.mu.Lock()
			run.errs = append(run.errs, fmt.Errorf("%s: %w", c.verb, err))
			run.mu.Unlock()
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	kind := a.said
	if a.unknown {
		kind = "unknown"
	}
	run.counts[strings.TrimSpace(c.verb+" "+kind)]++
	run.history = append(run.history, porcupine.Operation{ClientId: client, Input: c, Call: begun.Nanoseconds(), Output: a, Return: time.Since(run.start).Nanoseconds()})
	return a
}

// shift is what one worker does with one job.
func (run *linearRun) shift(parent context.Context, jobs operation.Jobs, client int, rng *rand.Rand) {
	// The window of keys moves on, since most jobs end.
	key := fmt.Sprint("linear-", int(time.Since(run.start)/(25*time.Millisecond))+rng.IntN(24))
	id := workitem.NewID(tenant, key).JobID()
	worker := fmt.Sprint("w", client)
	patience := func() (context.Context, context.CancelFunc) {
		if rng.IntN(25) > 0 {
			return context.WithCancel(parent)
		}
		return context.WithTimeout(parent, time.Duration(rng.IntN(2000))*time.Microsecond)
	}
	if rng.IntN(3) == 0 {
		run.do(client, call{verb: "submit", key: key}, func() (answer, error) {
			ctx, cancel := patience()
			defer cancel()
			h, err := jobs.Submit(ctx, &workitem.SubmitInput{Request: newRequest(key).json(), MaxAttempts: ptr(100), BackoffBase: ptr(0.0)})
			if err != nil {
				return answer{}, err
			}
			a := answer{said: "new", state: h.State}
			if h.Deduplicated {
				a.said = "old"
			}
			return a, nil
		})
	}
	if rng.IntN(100) == 0 {
		run.do(client, call{verb: "cancel", key: key}, func() (answer, error) {
			ctx, cancel := patience()
			defer cancel()
			c, err := jobs.Cancel(ctx, &workitem.CancelInput{JobID: id})
			if err != nil {
				return answer{}, err
			}
			if c.Changed {
				return answer{said: "changed"}, nil
			}
			return answer{said: "unchanged"}, nil
		})
	}
	var claim *workitem.Claim
	run.do(client, call{verb: "claim", key: key, worker: worker}, func() (answer, error) {
		ctx, cancel := patience()
		defer cancel()
		a, err := jobs.Claim(ctx, &workitem.ClaimInput{JobID: id, Worker: worker, LeaseTTL: ptr(linearTTL.Seconds())})
		if err != nil {
			return answer{}, err
		}
		if claim = a.Claim; claim == nil {
			return answer{said: a.Reason}, nil
		}
		return answer{said: a.Reason, epoch: claim.LeaseEpoch, expires: seconds(claim.LeaseExpiresAt)}, nil
	})
	if claim == nil {
		pause(parent, time.Duration(rng.IntN(4000))*time.Microsecond)
		return
	}
	c := call{key: key, worker: worker, epoch: claim.LeaseEpoch}
	renew := func() answer {
		c.verb = "heartbeat"
		return run.do(client, c, func() (answer, error) {
			ctx, cancel := patience()
			defer cancel()
			r, err := jobs.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: id, Claim: claim.Fence(), LeaseTTL: ptr(linearTTL.Seconds())})
			if err != nil {
				return answer{}, err
			}
			return answer{expires: seconds(r.LeaseExpiresAt)}, nil
		})
	}
	for range rng.IntN(4) {
		pause(parent, time.Duration(rng.IntN(30))*time.Millisecond)
		if a := renew(); a.said != "" && rng.IntN(2) == 0 {
			return
		}
	}
	switch rng.IntN(4) {
	case 0: // killed: the lease runs out
		return
	case 1: // stopped for longer than the lease
		pause(parent, linearTTL+time.Duration(rng.IntN(60))*time.Millisecond)
		if rng.IntN(2) == 0 {
			renew()
		}
	}
	c.verb, c.outcome = "commit", []string{"succeeded", "failed", "failed", "failed"}[rng.IntN(4)]
	for range 1 + rng.IntN(2) { // some commit twice
		run.do(client, c, func() (answer, error) {
			ctx, cancel := patience()
			defer cancel()
			s, err := jobs.Commit(ctx, &workitem.CommitInput{JobID: id, Claim: claim.Fence(), Outcome: c.outcome})
			if err != nil {
				return answer{}, err
			}
			return answer{said: s.Status}, nil
		})
	}
}

// pause is the work of a worker.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
