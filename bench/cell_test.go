package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/nox"
)

var (
	cellCommits   = flag.Int("commits", 20_000, "commits that CellReplay makes again")
	cellCount     = flag.Int("cells", 10_000, "cells of CellOpen")
	cellParticles = flag.Int64("particles", 5_000_000, "pieces of content of CellOpen")
)

// cellStore opens a store of cells, which the end of the benchmark closes.
func cellStore(b *testing.B, path string) *store.Store {
	b.Helper()
	s, err := store.Open(b.Context(), store.Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// counter makes the cell number i, which adds up what it is sent.
func counter(ctx context.Context, e *cell.Engine, i int) (cell.Particle, error) {
	birth := cell.Birth{Source: []byte("~mem + event"), StepLimit: 1_000_000}
	binary.LittleEndian.PutUint64(birth.Nonce[:], uint64(i))
	c, _, err := e.Create(ctx, birth)
	return c, err
}

// input sends input n to a cell and runs it: three commits, each of which is durable
// before the next one begins.
func input(ctx context.Context, e *cell.Engine, c cell.Particle, caller, n int) error {
	in := cell.Input{Noun: nox.Atom(uint64(n) % 1000)}
	binary.LittleEndian.PutUint64(in.Nonce[:], uint64(n)+1)
	binary.LittleEndian.PutUint64(in.Nonce[8:], uint64(caller))
	if _, err := e.Submit(ctx, c, in); err != nil {
		return err
	}
	p, err := e.Tick(ctx, c)
	if err == nil && p.Kind != cell.Complete {
		err = fmt.Errorf("the input is %v", p.Kind)
	}
	return err
}

// BenchmarkCellInput runs inputs of a small program, one cell a caller. What it is
// compared with appends three times 8 KiB to a file of its own and syncs it: the
// least that three durable commits can cost on this disk.
func BenchmarkCellInput(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("cells=%d", callers), func(b *testing.B) {
			s := cellStore(b, filepath.Join(b.TempDir(), "cells.db"))
			defer s.Close()
			e := cell.New(s, cell.Options{Ward: cell.LocalWard{}})
			cells := make([]cell.Particle, callers)
			files := make([]*os.File, callers)
			for i := range cells {
				var err error
				if cells[i], err = counter(b.Context(), e, i); err != nil {
					b.Fatal(err)
				}
				if files[i], err = os.Create(filepath.Join(b.TempDir(), fmt.Sprint(i))); err != nil {
					b.Fatal(err)
				}
				defer files[i].Close()
			}
			page := make([]byte, 8<<10)
			contest(b, callers, []*contestant{
				{name: "writ", durability: "each commit synced before it is answered", op: func(caller, n int) error {
					return input(context.Background(), e, cells[caller], caller, n)
				}},
				{name: "disk", durability: "append 8 KiB, fdatasync, three times", op: func(caller, _ int) error {
					for range 3 {
						if _, err := files[caller].Write(page); err != nil {
							return err
						}
						if err := unix.Fdatasync(int(files[caller].Fd())); err != nil {
							return err
						}
					}
					return nil
				}},
			})
		})
	}
}

// BenchmarkCellReplay makes a history of one cell, and then makes it again from its
// birth.
func BenchmarkCellReplay(b *testing.B) {
	for b.Loop() { // once, however long it takes
	}
	s := cellStore(b, filepath.Join(b.TempDir(), "cells.db"))
	defer s.Close()
	e := cell.New(s, cell.Options{})
	c, err := counter(b.Context(), e, 0)
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	for n := range *cellCommits / 3 {
		if err := input(b.Context(), e, c, 0, n); err != nil {
			b.Fatal(err)
		}
	}
	made := time.Since(begun)
	begun = time.Now()
	r, err := cell.New(s, cell.Options{}).Replay(b.Context(), c, nil)
	again := time.Since(begun)
	if err != nil || r.Finding != nil {
		b.Fatalf("%+v, %v", r, err)
	}
	n := float64(r.Commits)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/made.Seconds(), "made/s")
	b.ReportMetric(n/again.Seconds(), "replayed/s")
	b.ReportMetric(made.Seconds()/again.Seconds(), "times-as-fast")
}

// BenchmarkCellOpen fills a store with cells and content, and opens it again.
func BenchmarkCellOpen(b *testing.B) {
	for b.Loop() {
	}
	path := filepath.Join(b.TempDir(), "cells.db")
	cells := make([]cell.Particle, *cellCount)
	begun := time.Now()
	func() {
		s := cellStore(b, path)
		defer s.Close()
		e := cell.New(s, cell.Options{})
		side := func(n int, fn func(i int) error) {
			var wg sync.WaitGroup
			var next atomic.Int64
			for range 128 {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
						if err := fn(int(i)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
		side(len(cells), func(i int) (err error) {
			cells[i], err = counter(b.Context(), e, i)
			return err
		})
		for round := 0; !b.Failed(); round++ {
			stats, err := s.Stats(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if stats.Particles >= *cellParticles {
				b.ReportMetric(float64(stats.Particles), "particles")
				break
			}
			side(min(len(cells), int(*cellParticles-stats.Particles)/300+1), func(i int) error {
				return input(b.Context(), e, cells[i], i, round)
			})
		}
	}()
	b.ReportMetric(time.Since(begun).Seconds(), "fill-s")
	begun = time.Now()
	s := cellStore(b, path)
	defer s.Close()
	if _, err := s.Head(b.Context(), cells[0]); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "open-ms")

	// What an idle cell takes that is kept in memory between two inputs.
	n := min(len(cells), 2000)
	inspect := func(e *cell.Engine) {
		for _, c := range cells[:n] {
			if _, err := e.Inspect(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	}
	inspect(cell.New(s, cell.Options{Cells: 1})) // fills the cache of the store, which is bounded
	e := cell.New(s, cell.Options{Cells: n})
	before := heap()
	inspect(e)
	b.ReportMetric(float64(heap()-before)/float64(n), "B/idle-cell")
	if _, err := s.Head(b.Context(), cell.Particle{}); !errors.Is(err, cell.ErrMissing) {
		b.Fatal(err)
	}
	runtime.KeepAlive(e)
}

// heap is what is live on the heap.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
