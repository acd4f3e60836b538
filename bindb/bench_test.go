package bindb_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// BenchmarkUpdate is one durable mutation: a Line with its name, and an Actor
// that is replaced.
func BenchmarkUpdate(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			cfg := diskConfig(b)
			create(b, cfg)
			r := open(b, cfg)
			update(b, r, seed)
			ctx := context.Background()
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan error)
			b.ResetTimer()
			for range goroutines {
				go func() {
					for left.Add(-1) >= 0 {
						err := r.Update(ctx, write(func(w *writer) {
							w.line("feature")
							change(w, bindb.Actors, 0, func(a *record.Actor) { a.LastSeenAt++ })
						}))
						if err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range goroutines {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			closeRoot(b, r)
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
