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

// forgetful is a store that takes writes without keeping them, so that it costs nothing
// and nobody can read what was written.
type forgetful struct {
	cell.Store
	keep  bool
	items atomic.Int64
	reads atomic.Int64
	perms atomic.Int64 // that the atoms and pairs among the items have taken
}

func (f *forgetful) Write(ctx context.Context, w *cell.Write) (cell.Head, error) {
	if f.keep {
		return f.Store.Write(ctx, w)
	}
	f.items.Add(int64(len(w.Items)))
	for _, it := range w.Items {
		switch it.Kind {
		case record.KindAtom:
			f.perms.Add(2)
		case record.KindPair:
			f.perms.Add(1)
		}
	}
	return w.Next, nil
}

func (f *forgetful) Content(ctx context.Context, p record.Particle) (record.Kind, []byte, error) {
	f.reads.Add(1)
	return f.Store.Content(ctx, p)
}

func (f *forgetful) Head(ctx context.Context, c record.Particle) (cell.Head, error) {
	f.reads.Add(1)
	return f.Store.Head(ctx, c)
}

func (f *forgetful) Request(ctx context.Context, c, request record.Particle) (cell.Head, bool, error) {
	f.reads.Add(1)
	return f.Store.Request(ctx, c, request)
}

// TestSteadyStateReadsNothing has a cell go on without its history being there.
func TestSteadyStateReadsNothing(t *testing.T) {
	t.Parallel()
	store := &forgetful{Store: celltest.NewMemory(), keep: true}
	e := cell.New(store, cell.Options{Ward: cell.LocalWard{}})
	c := create(t, e, "~mem + event", "0", 1000)
	store.keep = false
	store.reads.Store(0)
	for i := range 20 {
		submit(t, e, c, i, "1")
		if p := tick(t, e, c, cell.Complete); p.State.Value() != uint64(i+1) {
			t.Fatalf("state %v after %d inputs", p.State, i+1)
		}
	}
	if n := store.reads.Load(); n != 0 {
		t.Errorf("%d reads", n)
	}
	if perInput := store.items.Load() / 20; perInput > 420 {
		t.Errorf("%d items are written for an input", perInput)
	}
}

// BenchmarkInput is an input without acts from Submit to Complete, three commits, on a
// store that does nothing: one cell, and 64 of them at once.
func BenchmarkInput(b *testing.B) {
	for _, cells := range []int{1, 64} {
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			store := &forgetful{Store: celltest.NewMemory(), keep: true}
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
			store.keep = false
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
			b.ReportMetric(float64(store.items.Load())/float64(b.N), "items/op")
			b.ReportMetric(float64(store.perms.Load())/float64(b.N), "permutations/op")
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
