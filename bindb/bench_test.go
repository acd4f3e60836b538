package bindb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// ownedConfig names a root on the real file system that the benchmark owns.
func ownedConfig(b *testing.B) bindb.Config {
	cfg := diskConfig(b)
	cfg.Own = true
	return cfg
}

// repoJob is a queued Job of a Snapshot.
func repoJob(snapshot uint32) record.WorkerJob {
	return record.WorkerJob{
		Kind: record.JobKindRepoCI, State: record.JobStateQueued, MaxAttempts: 3, Snapshot: record.RefTo(snapshot),
		AvailableAt: 10, CreatedAt: 10, UpdatedAt: 10,
	}
}

// fillJobs appends n Jobs of Snapshot 0.
func fillJobs(b *testing.B, r *bindb.Root, n int) {
	b.Helper()
	for n > 0 {
		k := min(n, 50_000)
		update(b, r, func(w *writer) {
			for range k {
				appendTo(w, bindb.WorkerJobs, repoJob(0))
			}
		})
		n -= k
	}
}

// BenchmarkUpdate enqueues one Job durably: one record, appended. Beside the time
// it reports the syncs that an operation takes, the operations a second, and how
// long half of the callers and all but the slowest hundredth waited.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			cfg := ownedConfig(b)
			create(b, cfg)
			r := open(b, cfg)
			update(b, r, func(w *writer) {
				seed(w)
				w.snapshot(0)
			})
			ctx := context.Background()
			before := r.Stats()
			took := make([][]time.Duration, callers)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						begin := time.Now()
						err := r.Update(ctx, func(tx *bindb.Tx) error {
							_, err := bindb.WorkerJobs.Append(tx, repoJob(0))
							return err
						})
						if err != nil {
							b.Error(err)
							return
						}
						took[i] = append(took[i], time.Since(begin))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(took...)
			slices.Sort(all)
			now := r.Stats()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(now.Syncs-before.Syncs)/float64(b.N), "syncs/op")
			b.ReportMetric(float64(now.Mutations-before.Mutations)/float64(now.Batches-before.Batches), "ops/batch")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
			closeRoot(b, r)
		})
	}
}

// BenchmarkGet reads one Job of a million by its index, each time in a View, or
// from one Reader.
func BenchmarkGet(b *testing.B) {
	const n = 1_000_000
	cfg := ownedConfig(b)
	create(b, cfg)
	r := open(b, cfg)
	update(b, r, func(w *writer) {
		seed(w)
		w.snapshot(0)
	})
	fillJobs(b, r, n)
	ctx := context.Background()
	b.Run("view", func(b *testing.B) {
		b.ReportAllocs()
		i := uint32(0)
		for b.Loop() {
			i = (i*1664525 + 1013904223)
			err := r.View(ctx, func(rd bindb.Reader) error {
				_, err := bindb.WorkerJobs.Get(rd, i%n)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reader", func(b *testing.B) {
		b.ReportAllocs()
		rd, err := r.Reader()
		if err != nil {
			b.Fatal(err)
		}
		i := uint32(0)
		for b.Loop() {
			i = (i*1664525 + 1013904223)
			if _, err := bindb.WorkerJobs.Get(rd, i%n); err != nil {
				b.Fatal(err)
			}
		}
	})
	closeRoot(b, r)
}

// BenchmarkOpen opens an owned root of a million Jobs and 100,000 Patchsets with
// everything that belongs to them, after a clean stop and without one. The files
// are in the page cache.
func BenchmarkOpen(b *testing.B) {
	cfg := ownedConfig(b)
	create(b, cfg)
	r := open(b, cfg)
	fill(b, r, 100_000)
	fillJobs(b, r, 900_000)
	closeRoot(b, r)
	for _, clean := range []bool{true, false} {
		b.Run(fmt.Sprintf("clean=%t", clean), func(b *testing.B) {
			for b.Loop() {
				if !clean {
					b.StopTimer()
					if err := os.RemoveAll(filepath.Join(cfg.Runtime, "mark")); err != nil {
						b.Fatal(err)
					}
					runtime.GC()
					b.StartTimer()
				}
				r := open(b, cfg)
				b.StopTimer()
				closeRoot(b, r)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkOpenClean opens and closes a root after a clean stop. The cost must
// not depend on what is in it.
func BenchmarkOpenClean(b *testing.B) {
	for _, n := range []int{100, 50_000} {
		b.Run(fmt.Sprintf("patchsets=%d", n), func(b *testing.B) {
			cfg := diskConfig(b)
			create(b, cfg)
			r := open(b, cfg)
			fill(b, r, n)
			closeRoot(b, r)
			for b.Loop() {
				closeRoot(b, open(b, cfg))
			}
		})
	}
}

// BenchmarkCheck validates everything.
func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{100, 50_000} {
		b.Run(fmt.Sprintf("patchsets=%d", n), func(b *testing.B) {
			cfg := diskConfig(b)
			create(b, cfg)
			r := open(b, cfg)
			fill(b, r, n)
			for b.Loop() {
				if findings, err := r.Check(context.Background()); err != nil || len(findings) > 0 {
					b.Fatal(findings, err)
				}
			}
			b.ReportAllocs()
			closeRoot(b, r)
		})
	}
}

// BenchmarkView reads one record under the locks.
func BenchmarkView(b *testing.B) {
	cfg := diskConfig(b)
	create(b, cfg)
	r := open(b, cfg)
	update(b, r, seed)
	for b.Loop() {
		err := r.View(context.Background(), func(rd bindb.Reader) error {
			_, err := bindb.Lines.Get(rd, 0)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	closeRoot(b, r)
}
