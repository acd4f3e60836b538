package cell_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/celltest"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

// BenchmarkInput is an input without acts from Submit to Complete, three commits, on a
// store in memory: one cell, and 64 of them at once.
func BenchmarkInput(b *testing.B) {
	for _, cells := range []int{1, 64} {
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			store := celltest.NewMemory()
			e := cell.New(store, cell.Options{})
			list := make([]record.Particle, cells)
			for i := range list {
				birth := cell.Birth{Source: []byte("~mem + event"), StepLimit: 1_000_000}
				binary.LittleEndian.PutUint64(birth.Nonce[:], uint64(i))
				var err error
				if list[i], _, err = e.Create(b.Context(), birth); err != nil {
					b.Fatal(err)
				}
				input(b, e, list[i], 0, uint64(i))
			}
			before, _ := store.Len()
			b.ReportAllocs()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for i, c := range list {
				wg.Go(func() {
					for k := uint64(1); next.Add(1) <= int64(b.N); k++ {
						input(b, e, c, k, uint64(i))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			items, _ := store.Len()
			b.ReportMetric(float64(items-before)/float64(b.N), "items/op")
		})
	}
}

// input sends an input to a cell and runs it.
func input(b *testing.B, e *cell.Engine, c record.Particle, k, i uint64) {
	in := cell.Input{Noun: nox.Atom(7)}
	binary.LittleEndian.PutUint64(in.Nonce[:], k)
	binary.LittleEndian.PutUint64(in.Nonce[8:], i)
	ctx := context.Background()
	if _, err := e.Submit(ctx, c, in); err != nil {
		b.Error(err)
		return
	}
	if p, err := e.Tick(ctx, c); err != nil || p.Kind != cell.Complete {
		b.Error(p.Kind, err)
	}
}
