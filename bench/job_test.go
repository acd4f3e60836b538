package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// clients are the numbers of concurrent callers that the job benchmarks have.
var clients = []int{1, 8, 32, 128}

// quota is max_tenant_in_flight in all measurements.
const quota = 4096

var principal = workitem.Principal{Subject: "bench", Tenant: Tenant, Owner: Person, Scopes: workitem.ScopeAdmin}

// jobs is an authority in this process, and how many durable transactions its store
// has had: each has at most one sync, which several may share.
type jobs struct {
	*workitem.Caller
	authority *workitem.Authority
	path      string
	syncs     atomic.Int64
	next      atomic.Int64 // submission
	done      atomic.Int64 // jobs that have ended
}

func openJobs(tb testing.TB, path string) *jobs {
	tb.Helper()
	j := openJobsIn(tb, func(batch func(int, time.Duration, time.Duration)) (workitem.Store, error) {
		return sqlite.Open(ctx, sqlite.Options{Path: path, Batch: batch})
	})
	j.path = path
	return j
}

// openJobsIn makes an authority over a store, which tells batch of its transactions.
func openJobsIn(tb testing.TB, open func(batch func(int, time.Duration, time.Duration)) (workitem.Store, error)) *jobs {
	tb.Helper()
	j := &jobs{}
	store, err := open(func(int, time.Duration, time.Duration) { j.syncs.Add(1) })
	if err != nil {
		tb.Fatal(err)
	}
	j.authority, err = workitem.New(store, workitem.Config{Quota: quota})
	if err != nil {
		tb.Fatal(err)
	}
	j.Caller = j.authority.As(principal)
	return j
}

func (j *jobs) close(tb testing.TB) {
	if err := j.authority.Close(); err != nil {
		tb.Error(err)
	}
}

// submit submits the next job of a fixture.
func (j *jobs) submit(f Fixture) error {
	_, err := j.Submit(ctx, &workitem.SubmitInput{Request: f.Request(int(j.next.Add(1)), "", "", "")})
	return err
}

// each runs op n times on 128 goroutines.
func each(n int, op func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, 128)
	for w := range errs {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = op(i); errs[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pair claims a job and commits it.
func (j *jobs) pair(worker string) error {
	a, err := j.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: Kind, Worker: worker})
	if err != nil {
		return err
	}
	if !a.Claimed {
		return fmt.Errorf("nothing was claimed: %s", a.Reason)
	}
	ref := "artifact:build/" + worker
	s, err := j.Commit(ctx, &workitem.CommitInput{JobID: a.Claim.JobID, Claim: a.Claim.Fence(), Outcome: "succeeded", ResultRef: &ref})
	if err != nil {
		return err
	}
	if s.Status != workitem.Committed {
		return fmt.Errorf("a commit was answered with %s", s.Status)
	}
	j.done.Add(1)
	return nil
}

const writSettings = "SQLite, WAL, each batch synced before it is answered; digests, history and listing indexes on"

// describe prints what the jobs of a benchmark are, and how many bytes each takes.
func describe(b *testing.B, f Fixture) {
	b.Helper()
	text, err := f.Describe()
	if err != nil {
		b.Fatal(err)
	}
	r, err := workitem.ParseRequest(f.Request(12345, "", "", ""), false)
	if err != nil {
		b.Fatal(err)
	}
	metadata, err := workitem.EncodeRecord(r.Record())
	if err != nil {
		b.Fatal(err)
	}
	const n = 10_000
	j := openJobs(b, filepath.Join(b.TempDir(), "work.db"))
	if err := each(n, func(int) error { return j.submit(f) }); err != nil {
		b.Fatal(err)
	}
	j.close(b)
	info, err := os.Stat(j.path)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "\n%s: %s, stored metadata %d bytes, stored row with its indexes and history %d bytes, max_tenant_in_flight %d\n",
		b.Name(), text, len(metadata), info.Size()/n, quota)
}

func writSubmit(b *testing.B, dir string) *contestant {
	j := openJobs(b, filepath.Join(dir, "work.db"))
	b.Cleanup(func() { j.close(b) })
	return &contestant{
		name: "writ", durability: writSettings,
		op:    func(int, int) error { return j.submit(Fixture{}) },
		syncs: func() float64 { return float64(j.syncs.Load()) },
	}
}

func writPairs(b *testing.B, dir string) *contestant {
	j := openJobs(b, filepath.Join(dir, "work.db"))
	b.Cleanup(func() { j.close(b) })
	return &contestant{
		name: "writ", durability: writSettings,
		op:     func(caller, _ int) error { return j.pair(fmt.Sprintf("worker-%03d", caller)) },
		syncs:  func() float64 { return float64(j.syncs.Load()) },
		before: func() { j.fill(b) },
	}
}

// fill submits what is missing of a backlog.
func (j *jobs) fill(tb testing.TB) {
	tb.Helper()
	missing := 2*backlog - (j.next.Load() - j.done.Load())
	if err := each(int(missing), func(int) error { return j.submit(Fixture{}) }); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkJobSubmit submits one job at a time, durable when it returns.
func BenchmarkJobSubmit(b *testing.B) {
	describe(b, Fixture{})
	for _, n := range clients {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			contest(b, n, peers(b, writSubmit, riverSubmit, asynqSubmit, natsSubmit))
		})
	}
}

// BenchmarkJobPairs claims a job and commits it as succeeded, each step durable.
// Jobs wait in numbers all the time.
func BenchmarkJobPairs(b *testing.B) {
	describe(b, Fixture{})
	for _, n := range clients {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			contest(b, n, peers(b, writPairs, riverPairs(n), asynqPairs(n), natsPairs))
		})
	}
}
