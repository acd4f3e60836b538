package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// bench is a worker beside an authority, in a bubble where time passes only when
// everybody waits.
type bench struct {
	*authority
	journal
	cfg  Config
	stop chan struct{}
}

// inBubble runs a test that makes no processes. The clock of worker and authority
// is the one of the bubble.
func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		clock := func() time.Duration { return time.Since(begun) }
		b := &bench{authority: newAuthority(clock), stop: make(chan struct{})}
		b.cfg = Config{Kind: "repository.build", Worker: "w", Once: true, Stop: b.stop, Events: b.note, clock: clock}
		test(t, b)
	})
}

// handle sets the function that works on jobs.
func (b *bench) handle(f func(context.Context, *Job) Result) { b.cfg.Handler = HandlerFunc(f) }

// run runs the worker to its end.
func (b *bench) run(t *testing.T) {
	t.Helper()
	if err := Run(t.Context(), b.authority, b.cfg); err != nil {
		t.Fatal(err)
	}
}

func TestRunCommitsWhatTheHandlerSays(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		want   workitem.CommitInput
		status string
	}{
		{"success", Succeed("artifact:1"), workitem.CommitInput{Outcome: "succeeded", ResultRef: optional("artifact:1")}, workitem.Committed},
		{"success without a reference", Succeed(""), workitem.CommitInput{Outcome: "succeeded"}, workitem.Committed},
		{"failure", Fail("a", "log:1"), workitem.CommitInput{Outcome: "failed", FailureClass: optional("a"), ErrorRef: optional("log:1"), Retryable: new(true)}, workitem.RetryScheduled},
		{"refusal", Refuse("b", ""), workitem.CommitInput{Outcome: "failed", RefusalCode: optional("b"), Retryable: new(false)}, workitem.Committed},
		{"nothing", Result{}, workitem.CommitInput{Outcome: "failed", FailureClass: optional("internal_error"), ErrorRef: optional("writ-worker:no-outcome"), Retryable: new(true)}, workitem.RetryScheduled},
		{"what is refused", Succeed("malformed"), workitem.CommitInput{Outcome: "failed", FailureClass: optional(EnvironmentFailure), ErrorRef: optional(refusedResult), Retryable: new(true)}, workitem.RetryScheduled},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				j := b.submit(1)
				b.handle(func(context.Context, *Job) Result { return c.result })
				b.run(t)
				got := b.look(j).commit
				if got == nil {
					t.Fatalf("nothing was committed: %v", b.events)
				}
				for _, m := range []struct {
					name      string
					got, want *string
				}{{"result", got.ResultRef, c.want.ResultRef}, {"error", got.ErrorRef, c.want.ErrorRef},
					{"class", got.FailureClass, c.want.FailureClass}, {"code", got.RefusalCode, c.want.RefusalCode}} {
					if text(m.got) != text(m.want) {
						t.Errorf("%s is %s, want %s", m.name, text(m.got), text(m.want))
					}
				}
				if got.Outcome != c.want.Outcome || (got.Retryable == nil) != (c.want.Retryable == nil) || got.Retryable != nil && *got.Retryable != *c.want.Retryable {
					t.Errorf("committed %+v, want %+v", got, c.want)
				}
				if s := b.of(Settled); len(s) != 1 || s[0].Status != c.status || s[0].JobID != j.id || s[0].Attempt != 1 {
					t.Errorf("told %+v, want one settled as %s", s, c.status)
				}
			})
		})
	}
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func TestRunDefers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		b.handle(func(context.Context, *Job) Result { return Defer(1500*time.Millisecond, "busy") })
		b.run(t)
		got := b.look(j)
		if got.deferred == nil || *got.deferred.Delay != 1.5 || got.deferred.Reason != "busy" || got.attempt != 0 {
			t.Errorf("deferred as %+v, attempt %d", got.deferred, got.attempt)
		}
	})
}

func TestLeaseIsRenewedAtEveryThird(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		b.cfg.Lease = 30 * time.Second
		b.handle(func(ctx context.Context, _ *Job) Result {
			select {
			case <-ctx.Done():
				t.Errorf("the lease was lost: %v", context.Cause(ctx))
			case <-time.After(95 * time.Second):
			}
			return Succeed("")
		})
		b.run(t)
		// One before the work begins, then one every ten seconds.
		if n := b.count("heartbeat"); n != 10 {
			t.Errorf("%d heartbeats in 95 s, want 10", n)
		}
		if b.look(j).state != "succeeded" {
			t.Errorf("the job is %s", b.look(j).state)
		}
	})
}

func TestCancelledJobEndsItsHandlerAndCommitsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		b.handle(func(ctx context.Context, _ *Job) Result {
			b.cancel(j)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, ErrLeaseLost) || !errors.Is(cause, workitem.ErrStaleFence) {
				t.Errorf("the cause is %v", cause)
			}
			return Succeed("")
		})
		b.run(t)
		if b.count("commit")+b.count("defer") != 0 {
			t.Errorf("called %v", b.seen())
		}
		if lost := b.of(Lost); len(lost) != 1 || !errors.Is(lost[0].Err, ErrLeaseLost) {
			t.Errorf("told %+v", b.events)
		}
	})
}

func TestUnansweredRenewalsEndTheHandlerBeforeTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(1)
		b.cfg.Lease = 60 * time.Second
		b.handle(func(ctx context.Context, job *Job) Result {
			begun := time.Now()
			b.interrupt(func(string) error { return unreachable })
			<-ctx.Done()
			if got := time.Since(begun); got != 50*time.Second {
				t.Errorf("the context ended after %v, want five sixths of the lease", got)
			}
			<-job.held.overdue
			if got := time.Since(begun); got != 60*time.Second {
				t.Errorf("overdue after %v, want the lease", got)
			}
			b.interrupt(nil) // too late
			return Succeed("")
		})
		b.run(t)
		if b.count("commit") != 0 || len(b.of(Lost)) != 1 {
			t.Errorf("called %v", b.seen())
		}
		if n := b.count("heartbeat"); n < 4 || n > 12 {
			t.Errorf("%d heartbeats: want it tried several times, and not in a tight loop", n)
		}
	})
}

func TestHangingRenewalDoesNotHideTheEndOfTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(1)
		b.cfg.Lease = 60 * time.Second
		hang := make(chan struct{})
		var first atomic.Bool
		b.before = func(verb string) error {
			if verb == "heartbeat" && first.Swap(true) {
				<-hang
				return unreachable
			}
			return nil
		}
		b.handle(func(ctx context.Context, job *Job) Result {
			begun := time.Now()
			<-ctx.Done()
			<-job.held.overdue
			if got := time.Since(begun); got != 60*time.Second {
				t.Errorf("overdue after %v, want the lease", got)
			}
			close(hang)
			return Succeed("")
		})
		b.run(t)
		if b.count("commit") != 0 {
			t.Errorf("called %v", b.seen())
		}
	})
}

func TestRenewalAfterAnOutageKeepsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		b.cfg.Lease = 60 * time.Second
		b.handle(func(ctx context.Context, _ *Job) Result {
			b.interrupt(func(string) error { return unreachable })
			time.Sleep(45 * time.Second)
			b.interrupt(nil)
			select {
			case <-ctx.Done():
				t.Errorf("lost: %v", context.Cause(ctx))
			case <-time.After(100 * time.Second):
			}
			return Succeed("")
		})
		b.run(t)
		if b.look(j).state != "succeeded" {
			t.Errorf("the job is %s", b.look(j).state)
		}
	})
}

// A process that was stopped finds the time gone when it goes on: its timers ran
// late, and the steady clock did not.
func TestTimeThatPassedUnnoticedEndsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(1)
		var slept atomic.Int64
		clock := b.cfg.clock
		b.cfg.clock = func() time.Duration { return clock() + time.Duration(slept.Load()) }
		b.handle(func(ctx context.Context, job *Job) Result {
			slept.Store(int64(2 * time.Hour))
			if err := job.Checkpoint(ctx, "x"); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("checkpoint: %v", err)
			}
			<-ctx.Done()
			<-job.held.overdue
			return Succeed("")
		})
		b.run(t)
		if got := b.seen(); !slices.Equal(got, []string{"claim", "heartbeat"}) {
			t.Errorf("called %v, want nothing after the time had passed", got)
		}
	})
}

func TestCommitIsRepeatedWhileTheLeaseLasts(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		down := time.Now().Add(40 * time.Second)
		b.before = func(verb string) error {
			if verb == "commit" && time.Now().Before(down) {
				return unreachable
			}
			return nil
		}
		b.handle(func(context.Context, *Job) Result { return Succeed("r") })
		b.run(t)
		if b.look(j).state != "succeeded" || b.count("commit") < 5 || b.count("commit") > 20 {
			t.Errorf("%s after %d commits", b.look(j).state, b.count("commit"))
		}
	})
}

func TestCommitIsGivenUpWithTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.submit(1)
		b.before = func(verb string) error {
			if verb == "commit" {
				return unreachable
			}
			return nil
		}
		begun := time.Now()
		b.handle(func(context.Context, *Job) Result { return Succeed("r") })
		b.run(t)
		if took := time.Since(begun); took != defaultLease || len(b.of(Lost)) != 1 {
			t.Errorf("gave up after %v with %+v", took, b.events)
		}
	})
}

func TestCommitIsNotRepeatedAfterAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		kind   EventKind
		status string
	}{
		// The first call had its effect; its answer was lost.
		{"terminal", Succeed("r"), Settled, workitem.Noop},
		{"will be tried again", Fail("a", ""), Lost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.submit(1)
				var lose sync.Once
				b.after = func(verb string) (err error) {
					if verb == "commit" {
						lose.Do(func() { err = unreachable })
					}
					return err
				}
				b.handle(func(context.Context, *Job) Result { return c.result })
				b.run(t)
				if n := b.count("commit"); n != 2 {
					t.Errorf("%d commits, want 2", n)
				}
				e := b.of(c.kind)
				if len(e) != 1 || e[0].Status != c.status {
					t.Fatalf("told %+v", b.events)
				}
				if c.kind == Lost && !strings.Contains(e[0].Err.Error(), "may have been taken") {
					t.Errorf("told %v", e[0].Err)
				}
			})
		})
	}
}

func TestLostAnswerOfAClaimFindsItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		first, second := b.submit(1), b.submit(2)
		var lose sync.Once
		b.after = func(verb string) (err error) {
			if verb == "claim" {
				lose.Do(func() { err = unreachable })
			}
			return err
		}
		b.handle(func(_ context.Context, job *Job) Result { return Succeed(job.View.JobID) })
		b.run(t)
		if got := b.look(first); got.attempt != 1 || got.state != "succeeded" {
			t.Errorf("first job: attempt %d, %s", got.attempt, got.state)
		}
		if got := b.look(second); got.attempt != 0 {
			t.Errorf("the second job was claimed too")
		}
		if len(b.of(Unavailable)) != 1 {
			t.Errorf("told %+v", b.events)
		}
	})
}

func TestStopLetsRunningJobsFinish(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		first := b.submit(1)
		b.cfg.Once = false
		b.handle(func(ctx context.Context, _ *Job) Result {
			close(b.stop)
			b.submit(2)
			time.Sleep(10 * time.Minute)
			return Succeed("")
		})
		b.run(t)
		if b.look(first).state != "succeeded" || b.count("claim") != 1 || len(b.of(Stopping)) != 1 {
			t.Errorf("%s, called %v", b.look(first).state, b.seen())
		}
	})
}

func TestStopEndsAWaitingClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.cfg.Once = false
		b.handle(func(context.Context, *Job) Result { return Succeed("") })
		time.AfterFunc(7*time.Second, func() { close(b.stop) })
		begun := time.Now()
		b.run(t)
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("stopped after %v", took)
		}
	})
}

func TestEndOfTheContextGivesJobsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		gone, kept := b.submit(1), b.submit(2)
		b.cfg.Once, b.cfg.Parallel = false, 2
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var working sync.WaitGroup
		working.Add(2)
		b.handle(func(ctx context.Context, job *Job) Result {
			working.Done()
			working.Wait()
			cancel(enough)
			<-ctx.Done()
			if job.View.JobID == kept.id {
				return Succeed("") // it was finished nevertheless
			}
			return Fail("a", "")
		})
		if err := Run(ctx, b.authority, b.cfg); !errors.Is(err, enough) {
			t.Errorf("Run gave %v", err)
		}
		if got := b.look(gone); got.state != "deferred" || got.attempt != 0 || *got.deferred.Delay != 0 {
			t.Errorf("the unfinished job is %s, attempt %d", got.state, got.attempt)
		}
		if b.look(kept).state != "succeeded" {
			t.Errorf("the finished job is %s", b.look(kept).state)
		}
	})
}

func TestParallelAndMax(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for n := range 10 {
			b.submit(n)
		}
		b.cfg.Once, b.cfg.Parallel, b.cfg.Max = false, 3, 7
		var now, most atomic.Int32
		b.handle(func(context.Context, *Job) Result {
			n := now.Add(1)
			defer now.Add(-1)
			for {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			time.Sleep(time.Minute)
			return Succeed("")
		})
		begun := time.Now()
		b.run(t)
		if b.count("commit") != 7 || most.Load() != 3 {
			t.Errorf("%d jobs, at most %d at the same time; want 7 and 3", b.count("commit"), most.Load())
		}
		if took := time.Since(begun); took != 3*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestOnceEndsWhenThereIsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.handle(func(context.Context, *Job) Result { return Succeed("") })
		begun := time.Now()
		b.run(t)
		if took := time.Since(begun); took != defaultWait || b.count("claim") != 1 {
			t.Errorf("took %v and %d claims", took, b.count("claim"))
		}
	})
}

func TestClaimsThatAreAnsweredAtOnceAreSpaced(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.quota = true
		b.cfg.Once = false
		b.handle(func(context.Context, *Job) Result { return Succeed("") })
		time.AfterFunc(time.Minute, func() { close(b.stop) })
		b.run(t)
		if n := b.count("claim"); n < 30 || n > 125 {
			t.Errorf("%d claims in a minute", n)
		}
		if len(b.of(Idle)) != 1 {
			t.Errorf("told %d times that it waits", len(b.of(Idle)))
		}
	})
}

func TestRefusedClaimEndsTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.before = func(string) error {
			return &workitem.Error{Code: workitem.ForbiddenScope, Message: "the scope jobs:work is needed"}
		}
		b.handle(func(context.Context, *Job) Result { return Succeed("") })
		if err := Run(t.Context(), b.authority, b.cfg); codeOf(err) != workitem.ForbiddenScope || b.count("claim") != 1 {
			t.Errorf("%v after %d claims", err, b.count("claim"))
		}
	})
}

func TestEndedClaimRequestGetsANewId(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		var once sync.Once
		b.before = func(verb string) (err error) {
			once.Do(func() { err = &workitem.Error{Code: workitem.InvalidState} })
			return err
		}
		b.handle(func(context.Context, *Job) Result { return Succeed("") })
		b.run(t)
		if b.look(j).state != "succeeded" || b.count("claim") != 2 {
			t.Errorf("%s after %d claims", b.look(j).state, b.count("claim"))
		}
	})
}

func TestCheckpointsAreRecordedAndRenew(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		j := b.submit(1)
		b.handle(func(ctx context.Context, job *Job) Result {
			time.Sleep(15 * time.Second)
			if err := job.Checkpoint(ctx, "compiled"); err != nil {
				t.Error(err)
			}
			if left := job.held.left(); left != defaultLease {
				t.Errorf("%v left after a checkpoint", left)
			}
			if err := job.Checkpoint(ctx, "checkpoint:tested"); err != nil {
				t.Error(err)
			}
			return Succeed("")
		})
		b.run(t)
		if got := text(b.look(j).checkpoint); got != "checkpoint:tested" {
			t.Errorf("the checkpoint is %s", got)
		}
		if told := b.of(Checkpointed); len(told) != 2 || told[0].Checkpoint != "checkpoint:compiled" {
			t.Errorf("told %+v", told)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	h := HandlerFunc(func(context.Context, *Job) Result { return Succeed("") })
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Handler: h}, "no kind"},
		{Config{Kind: "repository.build"}, "no handler"},
		{Config{Kind: "k", Handler: h, Lease: 25 * time.Hour}, "24h0m0s, not 25h"},
		{Config{Kind: "k", Handler: h, Lease: time.Microsecond}, "1ms to"},
		{Config{Kind: "k", Handler: h, Wait: 61 * time.Second}, "up to 1m0s, not 1m1s"},
		{Config{Kind: "k", Handler: h, Parallel: -1}, "not -1"},
		{Config{Kind: "k", Handler: h, Max: -2}, "is -2"},
	} {
		if err := Run(t.Context(), nil, c.cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want one with %q", err, c.want)
		}
	}
}
