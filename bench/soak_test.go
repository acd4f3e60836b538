package bench

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 0, "how long TestSoak loads the server; 0 leaves it out")

// TestSoak loads the built binary: half of the connections submit, half claim and
// commit, and one reads. After a fifth of the time, which is for warming up, the
// resident size must grow by less than 1 % a minute, in runs of five minutes or more;
// shorter ones only report it. Once all connections are gone and nothing waits, the
// descriptors and goroutines are within 5 of the start.
func TestSoak(t *testing.T) {
	switch {
	case *soak == 0:
		t.Skip("-soak says how long")
	case runtime.GOOS != "linux":
		t.Skip("it reads /proc")
	}
	const connections, bound, most = 16, 5, 2000 // jobs that wait at most
	s := serve(t, t.TempDir())
	before, err := s.usage()
	if err != nil {
		t.Fatal(err)
	}
	var next, ended, reads atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	errs := make([]error, 2*connections+1)
	worker := func(i int, op func(w *wire) error) {
		load.Go(func() {
			w, err := s.dial()
			if err != nil {
				errs[i] = err
				return
			}
			defer w.conn.Close()
			for {
				select {
				case <-stop:
					return
				default:
					if errs[i] = op(w); errs[i] != nil {
						return
					}
				}
			}
		})
	}
	for i := range connections {
		pair := func(w *wire) error {
			some, err := w.pair()
			if some {
				ended.Add(1)
			}
			return err
		}
		worker(i, func(w *wire) error {
			if next.Load()-ended.Load() > most {
				return pair(w)
			}
			return w.submit(int(next.Add(1)))
		})
		worker(connections+i, pair)
	}
	worker(2*connections, func(w *wire) error {
		reads.Add(1)
		status, answer, err := w.call("GET", "/v1/jobs?state=ready&limit=100", nil)
		if err == nil && status != 200 {
			err = fmt.Errorf("a listing was answered with %d: %s", status, answer)
		}
		return err
	})

	sample := max(time.Second, *soak/60)
	began := time.Now()
	var at, size []float64 // minutes and bytes, since the end of the warm-up
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for time.Since(began) < *soak {
		<-tick.C
		u, err := s.usage()
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > *soak/5 {
			at, size = append(at, time.Since(began).Minutes()), append(size, float64(u.resident))
		}
	}
	close(stop)
	load.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	// What is left is worked off.
	w, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	for some := true; some; {
		if some, err = w.pair(); err != nil {
			t.Fatal(err)
		}
		if some {
			ended.Add(1)
		}
	}
	_ = w.conn.Close()
	after, err := s.settled(before, bound, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	growth := slope(at, size) / mean(size) * 100
	fmt.Fprintf(os.Stderr, "soak of %s: %d submitted, %d ended, %d pages read; resident size %+.2f %% a minute\n  before: %s\n  after:  %s\n",
		*soak, next.Load(), ended.Load(), reads.Load(), growth, before, after)
	if growth >= 1 && *soak >= 5*time.Minute {
		t.Errorf("the resident size grows by %.2f %% a minute, expected less than 1", growth)
	}
	if after.descriptors > before.descriptors+bound {
		t.Errorf("%d descriptors are open, there were %d at the start", after.descriptors, before.descriptors)
	}
	if after.goroutines > before.goroutines+bound {
		t.Errorf("%d goroutines run, there were %d at the start", after.goroutines, before.goroutines)
	}
	if ended.Load() != next.Load() {
		t.Errorf("%d jobs have ended of %d", ended.Load(), next.Load())
	}
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// slope is that of the line of least squares.
func slope(x, y []float64) float64 {
	mx, my := mean(x), mean(y)
	var above, below float64
	for i := range x {
		above += (x[i] - mx) * (y[i] - my)
		below += (x[i] - mx) * (x[i] - mx)
	}
	return above / below
}
