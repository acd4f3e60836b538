package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// contestant is one store that does the same durable work as the others.
type contestant struct {
	name       string
	durability string // its settings, for the report
	// op does one unit of work, durable when it returns. caller is below the
	// number of concurrent callers, n counts the calls of that caller.
	op func(caller, n int) error
	// syncs is how many syncs it has asked the disk for so far; nil: unknown.
	syncs func() float64
	// before and after a turn, which they are not part of: before fills up what the
	// turn consumes. Either may be nil.
	before, after func()
}

// result is what a contestant did in one round.
type result struct {
	rate     float64 // operations a second
	p50, p99 time.Duration
	syncs    float64       // an operation; negative: unknown
	cpu      time.Duration // of this process, an operation
}

const (
	rounds    = 5
	roundTime = time.Second
)

// contest lets the contestants take turns, so that a slow moment of the machine
// meets all of them, and reports the medians. The first one is Writ; every other
// one is reported as the ratio of Writ's rate to its own.
func contest(b *testing.B, callers int, list []*contestant) map[string]result {
	b.Helper()
	for b.Loop() { // one contest, however long it takes
	}
	all := map[string][]result{}
	counts := map[string][]int{}
	for _, c := range list {
		counts[c.name] = make([]int, callers)
		turn(b, c, callers, counts[c.name], roundTime/4) // to warm up
	}
	for range rounds {
		for _, c := range list {
			all[c.name] = append(all[c.name], turn(b, c, callers, counts[c.name], roundTime))
		}
	}
	b.ReportMetric(0, "ns/op")
	med := map[string]result{}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s: medians of %d rounds of %s\n", b.Name(), rounds, roundTime)
	for _, c := range list {
		m := median(all[c.name])
		med[c.name] = m
		syncs := "       –"
		if m.syncs >= 0 {
			syncs = fmt.Sprintf("%8.3f", m.syncs)
		}
		ratio := ""
		if c != list[0] {
			var paired []float64
			for i, r := range all[c.name] {
				paired = append(paired, all[list[0].name][i].rate/r.rate)
			}
			slices.Sort(paired)
			ratio = fmt.Sprintf("%6.2fx", paired[len(paired)/2])
			b.ReportMetric(paired[len(paired)/2], "x-"+c.name)
		}
		fmt.Fprintf(&out, "  %-16s %10.0f/s  p50 %8s  p99 %8s  syncs/op %s  cpu/op %8s  writ/it %7s  %s\n", c.name, m.rate,
			m.p50.Round(time.Microsecond/10), m.p99.Round(time.Microsecond), syncs, m.cpu.Round(time.Microsecond/10), ratio, c.durability)
	}
	w := med[list[0].name]
	b.ReportMetric(w.rate, "ops/s")
	b.ReportMetric(float64(w.p99.Microseconds())/1000, "p99-ms")
	fmt.Fprint(os.Stderr, out.String())
	return med
}

// turn lets the callers of one contestant work for d.
func turn(b *testing.B, c *contestant, callers int, counts []int, d time.Duration) result {
	b.Helper()
	if c.before != nil {
		c.before()
	}
	if c.after != nil {
		defer c.after()
	}
	before := 0.0
	if c.syncs != nil {
		before = c.syncs()
	}
	took := make([][]time.Duration, callers)
	used := cpuTime()
	errs := make([]error, callers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for at := time.Now(); at.Sub(began) < d; {
				if errs[i] = c.op(i, counts[i]); errs[i] != nil {
					return
				}
				counts[i]++
				now := time.Now()
				took[i] = append(took[i], now.Sub(at))
				at = now
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	used = cpuTime() - used
	for _, err := range errs {
		if err != nil {
			b.Fatalf("%s: %v", c.name, err)
		}
	}
	every := slices.Concat(took...)
	slices.Sort(every)
	r := result{rate: float64(len(every)) / elapsed.Seconds(), syncs: -1, cpu: used / time.Duration(len(every))}
	r.p50, r.p99 = every[len(every)/2], every[len(every)*99/100]
	if c.syncs != nil {
		r.syncs = (c.syncs() - before) / float64(len(every))
	}
	return r
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// median takes each figure by itself.
func median(list []result) result {
	pick := func(f func(result) float64) float64 {
		var v []float64
		for _, r := range list {
			v = append(v, f(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return result{
		rate:  pick(func(r result) float64 { return r.rate }),
		p50:   time.Duration(pick(func(r result) float64 { return float64(r.p50) })),
		p99:   time.Duration(pick(func(r result) float64 { return float64(r.p99) })),
		syncs: pick(func(r result) float64 { return r.syncs }),
		cpu:   time.Duration(pick(func(r result) float64 { return float64(r.cpu) })),
	}
}
