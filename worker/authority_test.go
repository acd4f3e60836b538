package worker_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/worker"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// openAuthority makes an authority with an empty store, and a caller who may do
// everything.
func openAuthority(tb testing.TB) operation.Jobs {
	tb.Helper()
	store, err := sqlite.Open(tb.Context(), sqlite.Options{Path: filepath.Join(tb.TempDir(), "work.db")})
	if err != nil {
		tb.Fatal(err)
	}
	none := time.Duration(0)
	a, err := workitem.New(store, workitem.Config{RetryBase: &none, RetryFloor: &none})
	if err != nil {
		tb.Fatal(errors.Join(err, store.Close()))
	}
	tb.Cleanup(func() {
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
	})
	return a.As(workitem.Principal{Subject: "ada", Tenant: "t", Owner: "ada", Scopes: workitem.ScopeAdmin, Local: true})
}

// submit gives the identifier of a new job.
func submit(tb testing.TB, jobs operation.Jobs, key string, parents ...string) string {
	tb.Helper()
	depends := ""
	for i, p := range parents {
		if i > 0 {
			depends += ","
		}
		depends += fmt.Sprintf("%q", p)
	}
	h, err := jobs.Submit(tb.Context(), &workitem.SubmitInput{Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Request: fmt.Appendf(nil, `{"request_id":"r-%[1]s","idempotency_key":"k-%[1]s","operation":"build","repository_id":"shop","base_ref":"main",
			"base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","owner_id":"ada","session_id":"s","tenant_id":"t","dependencies":[%[2]s]}`, key, depends)})
	if err != nil {
		tb.Fatal(err)
	}
	return h.JobID
}

// A chain of jobs and others beside it, worked on by several workers: each is done
// once, and none before its parent.
func TestWorkersShareJobs(t *testing.T) {
	t.Parallel()
	jobs := openAuthority(t)
	var ids []string
	for n := range 12 {
		var parents []string
		if n%3 != 0 {
			parents = []string{ids[n-1]}
		}
		ids = append(ids, submit(t, jobs, fmt.Sprint(n), parents...))
	}
	var mu sync.Mutex
	var order []string
	stop := make(chan struct{})
	var working sync.WaitGroup
	for n := range 3 {
		working.Go(func() {
			err := worker.Run(t.Context(), jobs, worker.Config{Kind: "repository.build", Worker: fmt.Sprint("w", n), Parallel: 2, Stop: stop,
				Handler: worker.HandlerFunc(func(_ context.Context, job *worker.Job) worker.Result {
					mu.Lock()
					defer mu.Unlock()
					if order = append(order, job.View.JobID); len(order) == len(ids) {
						close(stop)
					}
					return worker.Succeed("artifact:" + job.View.RequestID)
				})})
			if err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	if len(order) != len(ids) {
		t.Fatalf("%d attempts for %d jobs", len(order), len(ids))
	}
	for n, id := range ids {
		view, err := jobs.Get(t.Context(), &workitem.GetInput{JobID: id})
		if err != nil {
			t.Fatal(err)
		}
		if view.State != "succeeded" || view.Attempt != 1 || *view.ResultRef != fmt.Sprint("artifact:r-", n) {
			t.Errorf("job %d is %s after %d attempts", n, view.State, view.Attempt)
		}
		if n%3 != 0 && slices.Index(order, ids[n-1]) > slices.Index(order, id) {
			t.Errorf("job %d was done before its parent", n)
		}
	}
}

// cut is an authority whose renewals do not get through once it is cut.
type cut struct {
	operation.Jobs
	off atomic.Bool
}

func (c *cut) Heartbeat(ctx context.Context, in *workitem.HeartbeatInput) (*workitem.Renewal, error) {
	if c.off.Load() {
		return nil, &workitem.Error{Code: workitem.AuthorityUnavailable, Message: "cut off"}
	}
	return c.Jobs.Heartbeat(ctx, in)
}

// A worker that is cut off loses its job to another one, which goes on from the
// checkpoint; by then the first one has ended, and it commits nothing.
func TestJobOfALostWorkerIsTakenOver(t *testing.T) {
	t.Parallel()
	jobs := openAuthority(t)
	id := submit(t, jobs, "1")
	first := &cut{Jobs: jobs}
	var ended atomic.Bool
	var lost atomic.Int32
	var working sync.WaitGroup
	started := make(chan struct{})
	working.Go(func() {
		err := worker.Run(t.Context(), first, worker.Config{Kind: "repository.build", Worker: "first", Once: true, Lease: time.Second,
			Events: func(e worker.Event) {
				if e.Kind == worker.Lost {
					lost.Add(1)
				}
			},
			Handler: worker.HandlerFunc(func(ctx context.Context, job *worker.Job) worker.Result {
				if err := job.Checkpoint(ctx, "half"); err != nil {
					t.Error(err)
				}
				first.off.Store(true)
				close(started)
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), worker.ErrLeaseLost) {
					t.Errorf("ended by %v", context.Cause(ctx))
				}
				ended.Store(true)
				return worker.Succeed("artifact:first")
			})})
		if err != nil {
			t.Error(err)
		}
	})
	<-started
	err := worker.Run(t.Context(), jobs, worker.Config{Kind: "repository.build", Worker: "second", Max: 1,
		Handler: worker.HandlerFunc(func(_ context.Context, job *worker.Job) worker.Result {
			if !ended.Load() {
				t.Error("both work on the job")
			}
			if job.Claim.Attempt != 2 || job.View.Checkpoint == nil || *job.View.Checkpoint != "checkpoint:half" {
				t.Errorf("attempt %d, view %+v", job.Claim.Attempt, job.View)
			}
			return worker.Succeed("artifact:second")
		})})
	if err != nil {
		t.Fatal(err)
	}
	working.Wait()
	result, err := jobs.Result(t.Context(), &workitem.JobInput{JobID: id})
	if err != nil {
		t.Fatal(err)
	}
	if *result.ResultRef != "artifact:second" || lost.Load() != 1 {
		t.Errorf("the result is %s, lost was told %d times", *result.ResultRef, lost.Load())
	}
}

func TestRetriesAndDefersReachTheAuthority(t *testing.T) {
	t.Parallel()
	jobs := openAuthority(t)
	id := submit(t, jobs, "1")
	var attempts []int
	steps := []worker.Result{worker.Defer(0, "busy"), worker.Fail("capacity_disk_deferred", "log:1"), worker.Refuse("invalid_git_ref", "log:2")}
	err := worker.Run(t.Context(), jobs, worker.Config{Kind: "repository.build", Max: len(steps),
		Handler: worker.HandlerFunc(func(_ context.Context, job *worker.Job) worker.Result {
			attempts = append(attempts, job.Claim.Attempt)
			if job.Trace == "" {
				t.Error("the trace of the submission is missing")
			}
			return steps[len(attempts)-1]
		})})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(attempts, []int{1, 1, 2}) {
		t.Errorf("attempts %v", attempts)
	}
	result, err := jobs.Result(t.Context(), &workitem.JobInput{JobID: id})
	if err != nil {
		t.Fatal(err)
	}
	if result.State != "failed" || *result.RefusalCode != "invalid_git_ref" || *result.ErrorRef != "log:2" {
		t.Errorf("the result is %+v", result)
	}
}
