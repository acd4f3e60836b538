package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
)

const writPostgres = "PostgreSQL, each batch committed before it is answered; digests, history and listing indexes on"

func openPostgres(tb testing.TB, url string) *jobs {
	tb.Helper()
	return openJobsIn(tb, func(batch func(int, time.Duration, time.Duration)) (workitem.Store, error) {
		return postgres.Open(ctx, postgres.Options{URL: url, Batch: batch})
	})
}

func writPostgresPairs(server *pgtest.Server) func(*testing.B, string) *contestant {
	return func(b *testing.B, _ string) *contestant {
		j := openPostgres(b, server.Database(b))
		b.Cleanup(func() { j.close(b) })
		return &contestant{
			name: "writ", durability: writPostgres,
			op:     func(caller, _ int) error { return j.pair(fmt.Sprintf("worker-%03d", caller)) },
			syncs:  func() float64 { return float64(j.syncs.Load()) },
			before: func() { j.fill(b) },
		}
	}
}

// BenchmarkPostgresPairs claims a job and commits it as succeeded, each step durable,
// against queues on the same PostgreSQL server.
func BenchmarkPostgresPairs(b *testing.B) {
	server := postgresServer(b)
	for _, n := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			contest(b, n, peers(b, writPostgresPairs(server),
				loopPairs(server, n, "loop", "one row: BEGIN, SELECT … FOR UPDATE SKIP LOCKED LIMIT 1, UPDATE, COMMIT; then one UPDATE", claimByTransaction),
				loopPairs(server, n, "loop-statement", "one row: one UPDATE of that SELECT; then one UPDATE", claimByStatement),
				riverPGPairs(server, n, true), riverPGPairs(server, n, false)))
		})
	}
}

// BenchmarkPostgresSubmit submits one job at a time, durable when it returns.
func BenchmarkPostgresSubmit(b *testing.B) {
	server := postgresServer(b)
	for _, n := range []int{1, 8, 32, 128} {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			writ := func(b *testing.B, _ string) *contestant {
				j := openPostgres(b, server.Database(b))
				b.Cleanup(func() { j.close(b) })
				return &contestant{
					name: "writ", durability: writPostgres,
					op:    func(int, int) error { return j.submit(Fixture{}) },
					syncs: func() float64 { return float64(j.syncs.Load()) },
				}
			}
			contest(b, n, peers(b, writ, loopSubmit(server, n), riverPGSubmit(server, n)))
		})
	}
}

// BenchmarkPostgresServers lets 32 workers call one server process over REST, or two on
// the same database.
func BenchmarkPostgresServers(b *testing.B) {
	const workers = 32
	url := postgresServer(b).Database(b)
	j := openPostgres(b, url)
	b.Cleanup(func() { j.close(b) })
	servers := []*served{serve(b, b.TempDir(), "--jobs-db", url), serve(b, b.TempDir(), "--jobs-db", url)}
	arrangement := func(name string, servers []*served) *contestant {
		wires := make([]*wire, workers)
		for i := range wires {
			var err error
			if wires[i], err = servers[i%len(servers)].dial(); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = wires[i].conn.Close() })
		}
		return &contestant{
			name: name, durability: "writ serve, HTTP/1.1 on loopback, development tokens; " + writPostgres + "; cpu/op is the load generator's",
			op: func(caller, _ int) error {
				some, err := wires[caller].pair()
				if err == nil && !some {
					err = errors.New("nothing was claimed")
				}
				j.done.Add(1)
				return err
			},
			before: func() { j.fill(b) },
		}
	}
	contest(b, workers, []*contestant{arrangement("two-servers", servers), arrangement("one-server", servers[:1])})
}

// postgresVariable has the database of a process of BenchmarkPostgresProcesses.
const postgresVariable = "WRIT_BENCH_POSTGRES"

// An order is what such a process is asked for on its input, and a yield what it
// answers with on its output.
type (
	order struct {
		Workers int
		Length  time.Duration
	}
	yield struct {
		Took []time.Duration // of each pair
		Err  string
	}
)

// postgresProcess is a process that has an authority on a database, and pairs done
// when it is asked to.
func postgresProcess(url string) int {
	store, err := postgres.Open(ctx, postgres.Options{URL: url})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	authority, err := workitem.New(store, workitem.Config{Quota: quota})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	j := &jobs{authority: authority, Caller: authority.As(principal)}
	orders, yields := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		took, errs := make([][]time.Duration, o.Workers), make([]error, o.Workers)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range o.Workers {
			wg.Go(func() {
				for at := began; at.Sub(began) < o.Length; {
					if errs[i] = j.pair(fmt.Sprintf("worker-%d-%03d", os.Getpid(), i)); errs[i] != nil {
						return
					}
					now := time.Now()
					took[i] = append(took[i], now.Sub(at))
					at = now
				}
			})
		}
		wg.Wait()
		y := yield{Took: slices.Concat(took...)}
		if err := errors.Join(errs...); err != nil {
			y.Err = err.Error()
		}
		if err := yields.Encode(y); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := authority.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hired is such a process, seen from outside.
type hired struct {
	orders *json.Encoder
	yields *json.Decoder
}

func hire(b *testing.B, url string) *hired {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), postgresVariable+"="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Error(err)
		}
	})
	return &hired{json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
}

// BenchmarkPostgresProcesses divides 32 workers among one, two and four processes on
// one database, each with a store of its own, and no HTTP between.
func BenchmarkPostgresProcesses(b *testing.B) {
	const workers = 32
	url := postgresServer(b).Database(b)
	j := openPostgres(b, url)
	b.Cleanup(func() { j.close(b) })
	all := []*hired{hire(b, url), hire(b, url), hire(b, url), hire(b, url)}
	for b.Loop() { // one contest, however long it takes
	}
	work := func(processes []*hired, length time.Duration) result {
		j.fill(b)
		yields := make([]yield, len(processes))
		errs := make([]error, len(processes))
		began := time.Now()
		var wg sync.WaitGroup
		for i, p := range processes {
			wg.Go(func() {
				errs[i] = p.orders.Encode(order{workers / len(processes), length})
				if errs[i] == nil {
					errs[i] = p.yields.Decode(&yields[i])
				}
			})
		}
		wg.Wait()
		elapsed := time.Since(began)
		var took []time.Duration
		for i, y := range yields {
			if y.Err != "" || errs[i] != nil {
				b.Fatal(y.Err, errs[i])
			}
			took = append(took, y.Took...)
		}
		j.done.Add(int64(len(took)))
		slices.Sort(took)
		return result{rate: float64(len(took)) / elapsed.Seconds(), p50: took[len(took)/2], p99: took[len(took)*99/100]}
	}
	arrangements := [][]*hired{all[:1], all[:2], all}
	rates := make([][]result, len(arrangements))
	for _, processes := range arrangements {
		work(processes, roundTime/4) // to warm up
	}
	for range rounds {
		for i, processes := range arrangements {
			rates[i] = append(rates[i], work(processes, roundTime))
		}
	}
	b.ReportMetric(0, "ns/op")
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s: medians of %d rounds of %s, %d workers altogether\n", b.Name(), rounds, roundTime, workers)
	for i, processes := range arrangements {
		m := median(rates[i])
		var paired []float64
		for round, r := range rates[i] {
			paired = append(paired, r.rate/rates[0][round].rate)
		}
		slices.Sort(paired)
		fmt.Fprintf(&out, "  %d processes  %10.0f/s  p50 %8s  p99 %8s  it/one process %6.2fx\n", len(processes), m.rate,
			m.p50.Round(time.Microsecond), m.p99.Round(time.Microsecond), paired[len(paired)/2])
		b.ReportMetric(m.rate, fmt.Sprintf("pairs/s-%d", len(processes)))
		b.ReportMetric(paired[len(paired)/2], fmt.Sprintf("x-%d", len(processes)))
	}
	fmt.Fprint(os.Stderr, out.String())
}
