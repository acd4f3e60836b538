package authority_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// BenchmarkGate measures what one run of the gate writes: the authority is opened,
// a patchset published, its job queued and claimed, the evidence recorded and the
// decision made, in the three commits that a run needs, and the authority closed.
// The cost must not grow with the history.
func BenchmarkGate(b *testing.B) {
	ctx := context.Background()
	for _, history := range []int{100, 50_000} {
		b.Run(fmt.Sprint("patchsets=", history), func(b *testing.B) {
			dir := b.TempDir()
			authoritytest.Bulk(b, dir, history)
			opt := authority.Options{Dir: dir}
			number := uint64(1) << 40
			for b.Loop() {
				a, err := authority.Open(ctx, opt)
				if err != nil {
					b.Fatal(err)
				}
				r, err := a.Repository(ctx, authority.FirstRepository)
				if err != nil {
					b.Fatal(err)
				}
				if err := gateOnce(ctx, r, number); err != nil {
					b.Fatal(err)
				}
				number++
				if err := a.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerbs measures the same commits with the authority open.
func BenchmarkVerbs(b *testing.B) {
	ctx := context.Background()
	for _, history := range []int{100, 50_000} {
		b.Run(fmt.Sprint("patchsets=", history), func(b *testing.B) {
			dir := b.TempDir()
			authoritytest.Bulk(b, dir, history)
			a, err := authority.Open(ctx, authority.Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			r, err := a.Repository(ctx, authority.FirstRepository)
			if err != nil {
				b.Fatal(err)
			}
			number := uint64(1) << 40
			for b.Loop() {
				if err := gateOnce(ctx, r, number); err != nil {
					b.Fatal(err)
				}
				number++
			}
			if err := a.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func gateOnce(ctx context.Context, r *authority.Repository, number uint64) error {
	var p uint32
	var lease authority.Lease
	err := r.Update(ctx, func(tx *authority.Tx) error {
		main, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		base, err := tx.AddSnapshot(authoritytest.Snapshot(number, main))
		if err != nil {
			return err
		}
		task, err := tx.OpenTask("Title", "Intent")
		if err != nil {
			return err
		}
		change, err := tx.OpenChange(task, "Title", main, record.RefTo(base))
		if err != nil {
			return err
		}
		if _, _, err := tx.FindPatchset(base, base); err != nil {
			return err
		}
		p, err = tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: base, Summary: "Summary"})
		return err
	})
	if err != nil {
		return err
	}
	err = r.Update(ctx, func(tx *authority.Tx) error {
		job, _, err := tx.EnqueueCI(p)
		if err != nil {
			return err
		}
		lease, err = tx.Claim(job, authority.RequestID{1})
		return err
	})
	if err != nil {
		return err
	}
	return r.Update(ctx, func(tx *authority.Tx) error {
		if _, err := tx.CompleteCI(lease, authoritytest.Passed); err != nil {
			return err
		}
		_, _, err := tx.Decide(p, authority.PolicyInput{Flags: authority.DefaultFlags})
		return err
	})
}

func BenchmarkEvaluate(b *testing.B) {
	f := facts(ran(record.CIStatusPass, record.CIStatusPass, record.CIStatusPass, 3, 0),
		reviewed(1, record.ReviewActionApprove), reviewed(2, record.ReviewActionComment), waived(record.RuleCodeLint))
	in := authority.PolicyInput{Flags: authority.DefaultFlags, Suites: make([]authority.SuiteRow, 3)}
	for b.Loop() {
		authority.Evaluate(in, f)
	}
}

// queueBench is an owned authority on the disk of the benchmarks with Snapshots to
// queue Jobs for.
type queueBench struct {
	a *authority.Authority
	r *authority.Repository
}

func newQueueBench(b *testing.B) *queueBench {
	b.Helper()
	ctx := context.Background()
	o := authority.Options{Dir: b.TempDir(), Own: true}
	a, err := authority.Create(ctx, o, "widgets", authority.DefaultFlags)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := a.Close(); err != nil {
			b.Error(err)
		}
	})
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		b.Fatal(err)
	}
	return &queueBench{a, r}
}

// snapshots records n Snapshots.
func (q *queueBench) snapshots(b *testing.B, n int) {
	b.Helper()
	for from := 0; from < n; from += 1000 {
		err := q.r.Update(context.Background(), func(tx *authority.Tx) error {
			main, err := tx.EnsureLine(authority.MainLine)
			for i := from; err == nil && i < min(n, from+1000); i++ {
				_, err = tx.AddSnapshot(authoritytest.Snapshot(uint64(i), main))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// jobs writes records of Jobs without going through the queue.
func (q *queueBench) jobs(b *testing.B, n int, rec record.WorkerJob) {
	b.Helper()
	for from := 0; from < n; from += 100_000 {
		err := q.r.Root().Update(context.Background(), func(tx *bindb.Tx) error {
			for range min(n-from, 100_000) {
				if _, err := bindb.WorkerJobs.Append(tx, rec); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// atOnce runs do b.N times from that many goroutines and reports the rate.
func atOnce(b *testing.B, workers int, do func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per_s")
}

// BenchmarkEnqueue measures the durable enqueue of repo.ci Jobs over distinct
// Snapshots.
func BenchmarkEnqueue(b *testing.B) {
	ctx := context.Background()
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			q := newQueueBench(b)
			q.snapshots(b, b.N)
			atOnce(b, callers, func(i int) error {
				_, _, err := q.r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(uint32(i))})
				return err
			})
		})
	}
}

// BenchmarkCycle measures a worker's claim, heartbeat and completion, all durable.
func BenchmarkCycle(b *testing.B) {
	ctx := context.Background()
	cycle := func(q *queueBench, result authority.JobResult) func(int) error {
		return func(i int) error {
			c, ok, err := q.a.ClaimNext(ctx, authority.ClaimFilter{Request: requestOf(i)})
			if err != nil || !ok {
				return errors.Join(err, fmt.Errorf("claim %d: %t", i, ok))
			}
			l, err := q.r.HeartbeatJob(ctx, c.Lease)
			if err != nil {
				return err
			}
			_, err = q.r.CompleteJob(ctx, l, result)
			return err
		}
	}
	b.Run("repo.ci", func(b *testing.B) {
		q := newQueueBench(b)
		q.snapshots(b, b.N)
		fill(b, b.N, func(i int) error {
			_, _, err := q.r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(uint32(i))})
			return err
		})
		atOnce(b, 32, cycle(q, authority.JobResult{Outcome: record.JobOutcomeCompleted}))
	})
	b.Run("patchset.ci", func(b *testing.B) {
		q := newQueueBench(b)
		fill(b, b.N, func(i int) error { return publishCI(ctx, q.r, uint64(i)) })
		atOnce(b, 32, cycle(q, authority.JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &authoritytest.Passed}))
	})
}

// fill runs do for 0..n-1 from many goroutines.
func fill(b *testing.B, n int, do func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func requestOf(i int) (r authority.RequestID) {
	r[0] = 1
	binary.LittleEndian.PutUint64(r[8:], uint64(i))
	return r
}

// publishCI publishes a Patchset of a Task of its own and queues its CI.
func publishCI(ctx context.Context, r *authority.Repository, number uint64) error {
	return r.Update(ctx, func(tx *authority.Tx) error {
		main, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		base, err := tx.AddSnapshot(authoritytest.Snapshot(number, main))
		if err != nil {
			return err
		}
		task, err := tx.OpenTask("Title", "Intent")
		if err != nil {
			return err
		}
		change, err := tx.OpenChange(task, "Title", main, record.RefTo(base))
		if err != nil {
			return err
		}
		p, err := tx.Publish(authority.PatchsetSpec{Change: change, Base: base, Revision: base, Summary: "Summary"})
		if err != nil {
			return err
		}
		_, _, err = tx.EnqueueCI(p)
		return err
	})
}

// BenchmarkClaimBehind measures one claim with many Jobs in the queue and in the
// history. It must not grow with either.
func BenchmarkClaimBehind(b *testing.B) {
	ctx := context.Background()
	for _, n := range []struct{ queued, ended int }{{1000, 1000}, {1_000_000, 10_000_000}} {
		b.Run(fmt.Sprintf("queued=%d/ended=%d", n.queued, n.ended), func(b *testing.B) {
			q := newQueueBench(b)
			now := record.Seconds(time.Now().Unix())
			rec := record.WorkerJob{
				Kind: record.JobKindReconcileRepo, State: record.JobStateSucceeded, Outcome: record.JobOutcomeCompleted,
				MaxAttempts: 3, AvailableAt: now, CreatedAt: now, UpdatedAt: now,
			}
			q.jobs(b, n.ended, rec)
			rec.State, rec.Outcome = record.JobStateQueued, record.JobOutcomeNone
			q.jobs(b, n.queued, rec)
			if err := q.r.View(ctx, func(v *authority.View) error { // builds the order
				_, err := v.QueueStats(now)
				return err
			}); err != nil {
				b.Fatal(err)
			}
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				begun := time.Now()
				c, ok, err := q.a.ClaimNext(ctx, authority.ClaimFilter{})
				took = append(took, time.Since(begun))
				if err != nil || !ok {
					b.Fatal(ok, err)
				}
				b.StopTimer()
				if _, err := q.r.CompleteJob(ctx, c.Lease, authority.JobResult{Outcome: record.JobOutcomeCompleted}); err != nil {
					b.Fatal(err)
				}
				if _, _, err := q.r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindReconcileRepo, AvailableAt: now}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50_ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99_ns")
		})
	}
}
