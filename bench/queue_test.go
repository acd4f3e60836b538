package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

var ctx = context.Background()

// owner opens an authority that this process owns, with snapshots Snapshots.
func owner(b *testing.B, dir string, snapshots int) (*authority.Authority, *authority.Repository) {
	b.Helper()
	a, err := authority.Create(ctx, authority.Options{Dir: dir, Own: true, Lease: time.Hour}, "bench", authority.DefaultFlags)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Close() })
	r, err := a.Repository(ctx, authority.FirstRepository)
	if err != nil {
		b.Fatal(err)
	}
	batches(b, r, snapshots, func(tx *authority.Tx, i int) error {
		line, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		_, err = tx.AddSnapshot(authoritytest.Snapshot(uint64(i), line))
		return err
	})
	return a, r
}

// batches calls fn n times in mutations of 4,096 calls.
func batches(b *testing.B, r *authority.Repository, n int, fn func(tx *authority.Tx, i int) error) {
	b.Helper()
	const size = 4096
	for from := 0; from < n; from += size {
		if err := r.Update(ctx, func(tx *authority.Tx) error {
			for i := from; i < min(from+size, n); i++ {
				if err := fn(tx, i); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// syncs counts what a repository's root has asked the disk for.
func syncs(r *authority.Repository) func() float64 {
	return func() float64 { return float64(r.Root().Stats().Syncs) }
}

const snapshotCount = 200_000

// BenchmarkEnqueue queues one repo.ci Job over a Snapshot of its own at a time.
func BenchmarkEnqueue(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			dir := b.TempDir()
			_, r := owner(b, dir+"/writ", snapshotCount)
			var next atomic.Uint32
			writ := &contestant{
				name: "writ", durability: "append intent synced, then the record synced",
				op: func(int, int) error {
					s := next.Add(1) % snapshotCount
					_, _, err := r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(s)})
					return err
				},
				syncs: syncs(r),
			}
			list := []*contestant{writ, boltUpdate(b, dir), sqliteInsert(b, dir), pebbleSet(b, dir), rawAppend(b, dir)}
			if callers > 1 {
				list = append(list, boltBatch(b, b.TempDir(), callers))
			}
			contest(b, callers, list)
		})
	}
}

// BenchmarkEnqueueCI queues and selects one patchset.ci Job of another Patchset at
// a time: two records that commit one after the other.
func BenchmarkEnqueueCI(b *testing.B) {
	dir := b.TempDir()
	_, r := owner(b, dir+"/writ", 1+record.MaxOrdinals)
	const total = 300_000
	publish(b, r, total)
	var next atomic.Uint32
	contest(b, 32, []*contestant{{
		name: "writ", durability: "journal, job, patchset and change synced in this order",
		op: func(int, int) error {
			p := next.Add(1) - 1
			if p >= total {
				return fmt.Errorf("all %d patchsets have a job", total)
			}
			_, _, err := r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindPatchsetCI, Patchset: record.RefTo(p)})
			return err
		},
		syncs: syncs(r),
	}})
}

// publish makes n Patchsets, 64 in a Change and 64 Changes in a Task, of Snapshots
// 1 to 64 upon Snapshot 0.
func publish(b *testing.B, r *authority.Repository, n int) {
	b.Helper()
	var task, change uint32
	batches(b, r, n, func(tx *authority.Tx, i int) (err error) {
		if i%(record.MaxOrdinals*record.MaxOrdinals) == 0 {
			if task, err = tx.OpenTask("Task", "Intent"); err != nil {
				return err
			}
		}
		if i%record.MaxOrdinals == 0 {
			if change, err = tx.OpenChange(task, "Change", 0, 0); err != nil {
				return err
			}
		}
		_, err = tx.Publish(authority.PatchsetSpec{Change: change, Base: 0, Revision: 1 + uint32(i%record.MaxOrdinals), Summary: "Summary"})
		return err
	})
}

// BenchmarkCycle claims, renews and completes Jobs, each step durable.
func BenchmarkCycle(b *testing.B) {
	const workers = 32
	b.Run("repo.ci", func(b *testing.B) {
		a, r := owner(b, b.TempDir(), 1)
		const total = 150_000
		batches(b, r, total, func(tx *authority.Tx, _ int) error {
			_, _, err := tx.Enqueue(authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(0)})
			return err
		})
		contest(b, workers, []*contestant{cycle(a, r, authority.JobResult{Outcome: record.JobOutcomeCompleted})})
	})
	b.Run("patchset.ci", func(b *testing.B) {
		a, r := owner(b, b.TempDir(), 1+record.MaxOrdinals)
		const total = 100_000
		publish(b, r, total)
		batches(b, r, total, func(tx *authority.Tx, i int) error {
			_, _, err := tx.Enqueue(authority.JobSpec{Kind: record.JobKindPatchsetCI, Patchset: record.RefTo(uint32(i))})
			return err
		})
		ev := authoritytest.Passed
		contest(b, workers, []*contestant{cycle(a, r, authority.JobResult{Outcome: record.JobOutcomeCompleted, Evidence: &ev})})
	})
}

func cycle(a *authority.Authority, r *authority.Repository, result authority.JobResult) *contestant {
	return &contestant{
		name: "writ", durability: "lease, journal and records of each of the three steps synced",
		op: func(int, int) error {
			c, ok, err := a.ClaimNext(ctx, authority.ClaimFilter{Request: request()})
			if err != nil || !ok {
				return fmt.Errorf("claim: %v %w", ok, err)
			}
			l, err := r.HeartbeatJob(ctx, c.Lease)
			if err != nil {
				return err
			}
			_, err = r.CompleteJob(ctx, l, result)
			return err
		},
		syncs: syncs(r),
	}
}

func request() (id authority.RequestID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// BenchmarkClaimBacklog compares a claim among 1,000 queued Jobs with one among
// 1,000,000 queued and 10,000,000 finished ones.
func BenchmarkClaimBacklog(b *testing.B) {
	sa, sr := owner(b, b.TempDir(), 1)
	la, lr := owner(b, b.TempDir(), 1)
	fill := func(r *authority.Repository, n int, outcome record.JobOutcome) {
		batches(b, r, n, func(tx *authority.Tx, _ int) error {
			_, _, err := tx.Enqueue(authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(0), Outcome: outcome})
			return err
		})
	}
	fill(lr, 10_000_000, record.JobOutcomeSkipped)
	fill(lr, 1_000_000, record.JobOutcomeNone)
	fill(sr, 1_000, record.JobOutcomeNone)
	runtime.GC()
	// once claims a Job, alone timed, and then ends it and queues another one.
	once := func(a *authority.Authority, r *authority.Repository) time.Duration {
		began := time.Now()
		c, ok, err := a.ClaimNext(ctx, authority.ClaimFilter{Request: request()})
		took := time.Since(began)
		if err != nil || !ok {
			b.Fatalf("claim: %v %v", ok, err)
		}
		if _, err := r.CompleteJob(ctx, c.Lease, authority.JobResult{Outcome: record.JobOutcomeCompleted}); err != nil {
			b.Fatal(err)
		}
		if _, _, err := r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(0)}); err != nil {
			b.Fatal(err)
		}
		return took
	}
	const claims = 2000
	var few, many []time.Duration
	for range claims {
		few = append(few, once(sa, sr))
		many = append(many, once(la, lr))
	}
	slices.Sort(few)
	slices.Sort(many)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(few[claims/2].Microseconds()), "1000-p50-us")
	b.ReportMetric(float64(many[claims/2].Microseconds()), "11000000-p50-us")
	b.ReportMetric(float64(many[claims/2])/float64(few[claims/2]), "p50-ratio")
	b.ReportMetric(float64(many[claims*99/100])/float64(few[claims*99/100]), "p99-ratio")
}

// BenchmarkRead reads one Worker Job by index while four writers commit, from
// memory and a warm cache.
func BenchmarkRead(b *testing.B) {
	const total = 100_000
	dir := b.TempDir()
	_, r := owner(b, dir+"/writ", 1)
	batches(b, r, total, func(tx *authority.Tx, _ int) error {
		_, _, err := tx.Enqueue(authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(0)})
		return err
	})
	db := openBolt(b, dir)
	var t ticket
	if err := db.Update(func(tx *bolt.Tx) error {
		for range total {
			if err := tx.Bucket(bucket).Put(t.key(), make([]byte, recordSize)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	write := func(op func() error) {
		for {
			select {
			case <-stop:
				return
			default:
				if err := op(); err != nil {
					b.Error(err)
					return
				}
			}
		}
	}
	for range 2 {
		writers.Go(func() {
			write(func() error {
				_, _, err := r.EnqueueJob(ctx, authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(0)})
				return err
			})
		})
		writers.Go(func() {
			write(func() error {
				key := t.key()
				return db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, make([]byte, recordSize)) })
			})
		})
	}
	const perOp = 1000 // one clock reading for so many reads
	var sink byte
	contest(b, 1, []*contestant{
		{name: "writ", durability: "View and Get of 1,000 jobs, one View each", op: func(_, n int) error {
			for i := range perOp {
				if err := r.Root().View(ctx, func(rd bindb.Reader) error {
					j, err := bindb.WorkerJobs.Get(rd, uint32((n*7919+i*104729)%total))
					sink += byte(j.CreatedAt)
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "bbolt-View", durability: "View and Get of 1,000 values, one View each", op: func(_, n int) error {
			key := make([]byte, 8)
			for i := range perOp {
				k := uint64((n*7919+i*104729)%total) + 1
				for j := range key {
					key[j] = byte(k >> (56 - 8*j))
				}
				if err := db.View(func(tx *bolt.Tx) error {
					v := tx.Bucket(bucket).Get(key)
					if len(v) != recordSize {
						return fmt.Errorf("no value for %x", key)
					}
					sink += v[0]
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		}},
	})
	close(stop)
	writers.Wait()
}

// BenchmarkOpen opens 1,000,000 Jobs and 100,000 Patchsets: after a clean stop, and
// with the mark of it removed, so that everything is validated. The cache is warm.
func BenchmarkOpen(b *testing.B) {
	for _, own := range []bool{true, false} {
		b.Run(fmt.Sprintf("own=%v", own), func(b *testing.B) { open(b, own) })
	}
}

func open(b *testing.B, own bool) {
	dir := b.TempDir()
	authoritytest.Bulk(b, dir, 100_000)
	opt := authority.Options{Dir: dir, Own: own}
	with := func(fn func(r *authority.Repository)) {
		a, err := authority.Open(ctx, opt)
		if err != nil {
			b.Fatal(err)
		}
		r, err := a.Repository(ctx, authority.FirstRepository)
		if err != nil {
			b.Fatal(err)
		}
		fn(r)
		if err := a.Close(); err != nil {
			b.Fatal(err)
		}
	}
	with(func(r *authority.Repository) {
		batches(b, r, 900_000, func(tx *authority.Tx, _ int) error {
			_, _, err := tx.Enqueue(authority.JobSpec{Kind: record.JobKindRepoCI, Snapshot: record.RefTo(0)})
			return err
		})
	})
	var clean, full []time.Duration
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range rounds {
		began := time.Now()
		with(func(r *authority.Repository) { clean = append(clean, time.Since(began)) })
		if err := os.RemoveAll(dir + "/runtime/mark"); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		with(func(r *authority.Repository) {
			full = append(full, time.Since(began))
			if len(full) == rounds {
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
		})
	}
	slices.Sort(clean)
	slices.Sort(full)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(clean[rounds/2].Microseconds())/1000, "clean-ms")
	b.ReportMetric(float64(full[rounds/2].Microseconds())/1000, "full-ms")
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(size(b, dir)), "heap/file")
}

func size(b *testing.B, dir string) (n int64) {
	b.Helper()
	root := dir + "/generations/1/repositories/4"
	list, err := os.ReadDir(root)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}
