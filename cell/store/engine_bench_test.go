package store_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
)

// BenchmarkInput is an input without acts from Submit to Complete, three commits, all of
// them durable: one cell, and 64 of them at once.
func BenchmarkInput(b *testing.B) {
	for _, cells := range []int{1, 64} {
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			e := cell.New(openBench(b, filepath.Join(b.TempDir(), "cells.db")), cell.Options{})
			ctx := context.Background()
			input := func(c record.Particle, k, i uint64) {
				in := cell.Input{Noun: nox.Atom(7)}
				binary.LittleEndian.PutUint64(in.Nonce[:], k)
				binary.LittleEndian.PutUint64(in.Nonce[8:], i)
				if _, err := e.Submit(ctx, c, in); err != nil {
					b.Error(err)
				} else if p, err := e.Tick(ctx, c); err != nil || p.Kind != cell.Complete {
					b.Error(p.Kind, err)
				}
			}
			list := make([]record.Particle, cells)
			for i := range list {
				birth := cell.Birth{Source: []byte("~mem + event"), StepLimit: 1_000_000}
				binary.LittleEndian.PutUint64(birth.Nonce[:], uint64(i))
				var err error
				if list[i], _, err = e.Create(ctx, birth); err != nil {
					b.Fatal(err)
				}
				input(list[i], 0, uint64(i))
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for i, c := range list {
				wg.Go(func() {
					for k := uint64(1); next.Add(1) <= int64(b.N); k++ {
						input(c, k, uint64(i))
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "inputs/s")
		})
	}
}
