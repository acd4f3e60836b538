package authority_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// jobCall is one call about a Job, and what the clock showed before it. The clock
// does not stand still meanwhile, so that a call took place at any instant between.
type jobCall struct {
	verb  string
	job   uint32
	token authority.LeaseToken
	from  record.Seconds
}

// jobAnswer is the result, and what the clock showed after it.
type jobAnswer struct {
	err   error // ErrState, ErrLeaseHeld, ErrLeaseLost or nil
	lease authority.Lease
	state record.JobState // after LoseLease
	avail record.Seconds
	to    record.Seconds
}

// jobRegister is what one Job is, seen from outside.
type jobRegister struct {
	state     record.JobState
	attempts  uint16
	available record.Seconds
	token     authority.LeaseToken
	expires   record.Seconds
}

const linearAttempts = 3

// step says whether the answer is one that the register may give, and what it is
// then.
func (r jobRegister) step(c jobCall, a jobAnswer) (bool, jobRegister) {
	running := r.state == record.JobStateRunning
	mayLive, mayExpire := running && c.from < r.expires, running && a.to >= r.expires
	switch {
	case c.verb == "claim" && a.err == nil:
		l := a.lease
		ok := r.state == record.JobStateQueued && r.available <= l.Heartbeat && l.Attempt == r.attempts+1 && r.attempts < linearAttempts
		return ok, jobRegister{record.JobStateRunning, l.Attempt, r.available, l.Token, l.ExpiresAt}
	case c.verb == "claim" && errors.Is(a.err, authority.ErrLeaseHeld):
		return mayLive, r
	case c.verb == "claim": // ErrState
		return mayExpire || r.state.Terminal() || r.state == record.JobStateQueued && c.from < r.available, r
	case c.verb == "lose" && errors.Is(a.err, authority.ErrLeaseHeld):
		return mayLive, r
	case c.verb == "lose" && running:
		want := record.JobStateQueued
		if r.attempts >= linearAttempts {
			want = record.JobStateFailed
		}
		return mayExpire && a.state == want, jobRegister{state: a.state, attempts: r.attempts, available: a.avail}
	case c.verb == "lose":
		return a.state == r.state, r
	}
	holds := running && r.token == c.token
	if errors.Is(a.err, authority.ErrLeaseLost) {
		return !holds || mayExpire, r
	}
	if !holds || !mayLive {
		return false, r
	}
	switch c.verb {
	case "heartbeat":
		r.expires = a.lease.ExpiresAt
	case "complete":
		r.state, r.token = record.JobStateSucceeded, authority.LeaseToken{}
	}
	return true, r
}

var jobModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[uint32][]porcupine.Operation{}
		for _, o := range history {
			job := o.Input.(jobCall).job
			parts[job] = append(parts[job], o)
		}
		var list [][]porcupine.Operation
		for _, p := range parts {
			list = append(list, p)
		}
		return list
	},
	Init: func() any {
		return jobRegister{state: record.JobStateQueued, available: record.Seconds(authoritytest.Start.Unix())}
	},
	Step:              func(state, in, out any) (bool, any) { return state.(jobRegister).step(in.(jobCall), out.(jobAnswer)) },
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// TestLinearisable lets workers claim, keep, end and take away Jobs at once while
// the clock goes on, by one owner or by two processes, with restarts in between.
// There must be an order of the calls, within the times that each took, in which
// every answer is right.
func TestLinearisable(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint("own=", own, "/", seed), func(t *testing.T) {
				t.Parallel()
				history := linearHistory(t, own, seed)
				seen := map[string]int{}
				var again porcupine.Operation
				for _, o := range history {
					c, a := o.Input.(jobCall), o.Output.(jobAnswer)
					seen[fmt.Sprint(c.verb, ": ", errors.Unwrap(a.err))]++
					if c.verb == "claim" && a.err == nil {
						again = o
						if a.lease.Attempt > 1 {
							seen["taken over"]++
						}
					}
				}
				for _, want := range []string{
					"claim: <nil>", "claim: " + authority.ErrLeaseHeld.Error(), "claim: " + authority.ErrState.Error(), "taken over",
					"heartbeat: <nil>", "heartbeat: " + authority.ErrLeaseLost.Error(), "lose: <nil>", "lose: " + authority.ErrLeaseHeld.Error(),
					"complete: <nil>", "complete: " + authority.ErrLeaseLost.Error(),
				} {
					if seen[want] == 0 {
						t.Errorf("it never happened that %q", want)
					}
				}
				result, info := porcupine.CheckOperationsVerbose(jobModel, history, time.Minute)
				if result != porcupine.Ok {
					t.Errorf("the history of %d calls is %s: %v", len(history), result, info)
				}
				// A Job that was given out twice at once would be noticed.
				if porcupine.CheckOperations(jobModel, append(history, again)) {
					t.Error("a claim that succeeds twice passes")
				}
			})
		}
	}
}

func linearHistory(t *testing.T, own bool, seed uint64) (history []porcupine.Operation) {
	const jobs, workers, rounds, calls = 12, 8, 6, 60 // jobs a round
	ctx := context.Background()
	fs, clock := vfs.NewSim(), authoritytest.NewClock()
	opt := authority.Options{Dir: "/data", FS: fs, Clock: clock.Now, Random: authoritytest.NewRandom(byte(seed)), Own: own, Lease: 8 * time.Second, RetryDelay: time.Second}
	a, err := authority.Create(ctx, opt, "linear", 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		t.Fatal(err)
	}
	for range jobs * rounds {
		if _, _, err := r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindContentGC, MaxAttempts: linearAttempts}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var ticks atomic.Int64
	leases := make([]authority.Lease, workers) // what each worker holds, or believes to
	for round := range rounds {
		procs := make([]*authority.Authority, 2)
		if own {
			procs = procs[:1]
		}
		repos := make([]*authority.Repository, len(procs))
		for i := range procs {
			o := opt
			if !own {
				o.FS = fs.Process()
			}
			if procs[i], err = authority.Open(ctx, o); err != nil {
				t.Fatal(err)
			}
			if repos[i], err = procs[i].Repository(ctx, authority.FirstRepository); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for w := range workers {
			rnd := rand.New(rand.NewPCG(seed, uint64(ticks.Load())<<8+uint64(w)))
			r := repos[w%len(repos)]
			wg.Go(func() {
				for range calls {
					c := jobCall{verb: []string{"claim", "claim", "heartbeat", "heartbeat", "complete", "lose"}[rnd.IntN(6)], job: uint32(round*jobs) + rnd.Uint32N(jobs)}
					l := leases[w]
					if c.verb == "heartbeat" || c.verb == "complete" {
						if l.Attempt == 0 {
							continue
						}
						c.job, c.token = l.Job, l.Token
					}
					called := ticks.Add(1)
					c.from = record.Seconds(clock.Now().Unix())
					answer := linearCall(ctx, r, c, l)
					answer.to = record.Seconds(clock.Now().Unix())
					done := ticks.Add(1)
					if answer.err == nil && (c.verb == "claim" || c.verb == "heartbeat") {
						leases[w] = answer.lease
					}
					switch {
					case answer.err == nil, errors.Is(answer.err, authority.ErrState), errors.Is(answer.err, authority.ErrLeaseHeld), errors.Is(answer.err, authority.ErrLeaseLost):
					default:
						t.Errorf("%+v: %v", c, answer.err)
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: w, Input: c, Call: called, Output: answer, Return: done})
					mu.Unlock()
					if rnd.IntN(8) == 0 {
						clock.Advance(time.Second)
					}
				}
			})
		}
		wg.Wait()
		for _, a := range procs {
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return history
}

// linearCall makes one call.
func linearCall(ctx context.Context, r *authority.Repository, c jobCall, l authority.Lease) (a jobAnswer) {
	switch c.verb {
	case "claim":
		a.err = r.Update(ctx, func(tx *authority.Tx) (err error) {
			a.lease, err = tx.Claim(c.job, authority.RequestID{})
			return err
		})
	case "heartbeat":
		a.lease, a.err = r.HeartbeatJob(ctx, l)
	case "complete":
		_, a.err = r.CompleteJob(ctx, l, authority.JobResult{Outcome: record.JobOutcomeCompleted})
	case "lose":
		a.err = r.Update(ctx, func(tx *authority.Tx) error {
			j, err := tx.LoseLease(c.job)
			a.state, a.avail = j.State, j.AvailableAt
			return err
		})
	}
	return a
}
