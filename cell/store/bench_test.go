package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
)

// feed makes writes of about 130 items as fast as they are asked for: the items' names
// are random, not hashes, so that what is measured is the store and not the hashing.
type feed struct {
	random *rand.Rand
	cell   record.Particle
	head   *cell.Head
	index  uint64
}

func newFeed(n uint64) *feed { return &feed{random: rand.New(rand.NewPCG(n, 1))} }

func (f *feed) particle() (p record.Particle) {
	for i := 0; i < len(p); i += 8 {
		v := f.random.Uint64() >> 1 // an element of the field
		for b := range 8 {
			p[i+b] = byte(v >> (8 * b))
		}
	}
	return p
}

// next is the next commit: 100 pairs of one another, 25 atoms and 5 short texts.
func (f *feed) next() *cell.Write {
	w := &cell.Write{Trusted: true, Request: f.particle(), Expected: f.head}
	for range 25 {
		w.Items = append(w.Items, record.Item{Particle: f.particle(), Kind: record.KindAtom, Bytes: make([]byte, 8)})
	}
	for range 5 {
		p := f.particle()
		w.Items = append(w.Items, record.Item{Particle: p, Kind: record.KindBlob, Bytes: fmt.Appendf(nil, "some text %v", p)})
	}
	for range 100 {
		n := len(w.Items)
		left, right := w.Items[n-1].Particle, w.Items[f.random.IntN(n)].Particle
		b := make([]byte, 64)
		copy(b, left[:])
		copy(b[32:], right[:])
		w.Items = append(w.Items, record.Item{Particle: f.particle(), Kind: record.KindPair, Bytes: b})
	}
	w.Next = cell.Head{Index: f.index, Commit: w.Items[len(w.Items)-1].Particle}
	if f.index == 0 {
		f.cell = w.Next.Commit
	}
	w.Cell = f.cell
	w.Claims = []cell.Claim{{Request: w.Request, Event: w.Items[30].Particle}}
	f.head = &w.Next
	f.index++
	return w
}

func openBench(b *testing.B, path string) *store.Store {
	b.Helper()
	st, err := store.Open(b.Context(), store.Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	return st
}

// BenchmarkWrite is commits of 130 items by callers that wait for one another's sync
// only, each with a cell of its own.
func BenchmarkWrite(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			st := openBench(b, filepath.Join(b.TempDir(), "cells.db"))
			var next atomic.Int64
			var wg sync.WaitGroup
			before := processor(b)
			b.ResetTimer()
			for n := range callers {
				wg.Go(func() {
					f := newFeed(uint64(n))
					for int(next.Add(1)) <= b.N {
						if _, err := st.Write(context.Background(), f.next()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64((processor(b)-before).Microseconds())/float64(b.N), "cpu-us/commit")
		})
	}
}

// processor is the time that this process has had a processor for.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkSync is what the disk takes to make 28 KB durable, about the size of one
// commit in the log: no single commit can be faster.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, 28<<10)
	for b.Loop() {
		if _, err := f.Write(data); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen and BenchmarkContent use one store of 10,000 cells and about 5 million
// particles.
var large struct {
	once sync.Once
	path string
	some []record.Particle
	err  error
}

const (
	largeCells   = 10_000
	largeCommits = 38_500
)

// largeStore makes the store, which takes some seconds, once.
func largeStore(b *testing.B) string {
	b.Helper()
	large.once.Do(func() { large.err = makeLarge() })
	if large.err != nil {
		b.Fatal(large.err)
	}
	return large.path
}

func makeLarge() error {
	dir, err := os.MkdirTemp("", "writ-bench-store-")
	if err != nil {
		return err
	}
	large.path = filepath.Join(dir, "cells.db")
	ctx := context.Background()
	st, err := store.Open(ctx, store.Options{Path: large.path})
	if err != nil {
		return err
	}
	start := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	const writers = 128
	for n := range writers {
		wg.Go(func() {
			feeds := make([]*feed, 0, largeCells/writers+1)
			for c := n; c < largeCells; c += writers {
				feeds = append(feeds, newFeed(uint64(c)))
			}
			for i := n; i < largeCommits; i += writers {
				w := feeds[i/writers%len(feeds)].next()
				_, err := st.Write(ctx, w)
				mu.Lock()
				if err != nil {
					failed = err
				}
				if i%50 == 0 {
					large.some = append(large.some, w.Items[i%len(w.Items)].Particle)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed == nil {
		fmt.Printf("made %d commits in %v\n", largeCommits, time.Since(start).Round(time.Millisecond))
	}
	if err := st.Close(); failed == nil {
		failed = err
	}
	return failed
}

func TestMain(m *testing.M) {
	status := m.Run()
	if large.path != "" {
		if err := os.RemoveAll(filepath.Dir(large.path)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

func BenchmarkOpen(b *testing.B) {
	path := largeStore(b)
	for b.Loop() {
		st, err := store.Open(b.Context(), store.Options{Path: path})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := st.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkFind is point reads of random content, of which nothing is in the cache of the
// store. The names are not hashes, so the reads end with the comparison, and that is
// their answer.
func BenchmarkFind(b *testing.B) {
	st := openBench(b, largeStore(b))
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		p := large.some[random.IntN(len(large.some))]
		if _, _, err := st.Content(b.Context(), p); cell.Code(err) != "corrupt" {
			b.Fatal(err)
		}
	}
}
