package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

var rows = flag.Int("rows", 1_000_000, "jobs in the store of BenchmarkJobList and BenchmarkJobBacklog")

// Of the rows of fill, every twentieth has a parent and one in a hundred has another
// operation, every other owner is the same; held are leased, in tenants of their own
// since the quota of one is smaller.
const (
	parents = 1000
	ended   = 2000
	held    = 10_000
	holders = 4
)

// fill makes a store of -rows jobs through the authority and closes it.
func fill(b *testing.B, path string) {
	b.Helper()
	j := openJobs(b, path)
	defer j.close(b)
	f := Fixture{Spread: true}
	ids := make([]string, parents)
	submit := func(c *workitem.Caller, body []byte) (string, error) {
		h, err := c.Submit(ctx, &workitem.SubmitInput{Request: body})
		if err != nil {
			return "", err
		}
		return h.JobID, nil
	}
	try := func(n int, op func(i int) error) {
		b.Helper()
		if err := each(n, op); err != nil {
			b.Fatal(err)
		}
	}
	try(parents, func(i int) (err error) {
		ids[i], err = submit(j.Caller, f.Request(i, "", "", ""))
		return err
	})
	extra := make([]string, ended)
	try(*rows, func(i int) error {
		operation, owner, parent := "", "", ""
		if i%100 == 3 {
			operation = "merge"
		}
		if i%100 == 7 {
			owner = "agent-99"
		}
		if i%20 == 1 {
			parent = ids[i%parents]
		}
		id, err := submit(j.Caller, f.Request(parents+i, operation, owner, parent))
		if n := i / 500; i%500 == 0 && n < ended {
			extra[n] = id
		}
		return err
	})
	try(ended, func(i int) error {
		if extra[i] == "" {
			return nil
		}
		_, err := j.Cancel(ctx, &workitem.CancelInput{JobID: extra[i]})
		return err
	})
	for t := range holders {
		p := principal
		p.Tenant = fmt.Sprintf("holder-%d", t)
		c := j.authority.As(p)
		f := Fixture{Tenant: p.Tenant}
		ttl := 86400.0
		try(held/holders, func(i int) error {
			if _, err := submit(c, f.Request(i, "", "", "")); err != nil {
				return err
			}
			a, err := c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: Kind, Worker: "w", LeaseTTL: &ttl})
			if err == nil && !a.Claimed {
				err = fmt.Errorf("nothing was claimed: %s", a.Reason)
			}
			return err
		})
	}
}

// quantile gives a value of a list that it sorts.
func quantile(list []time.Duration, percent int) time.Duration {
	slices.Sort(list)
	return list[len(list)*percent/100]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkJobList reads pages of 100 by each filter that has an index, and then
// opens the same store until it is ready.
func BenchmarkJobList(b *testing.B) {
	path := filepath.Join(b.TempDir(), "work.db")
	fill(b, path)
	b.ReportMetric(0, "ns/op")
	b.Run("restart", func(b *testing.B) {
		var took []time.Duration
		for range rounds {
			runtime.GC()
			began := time.Now()
			store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
			if err != nil {
				b.Fatal(err)
			}
			a, err := workitem.New(store, workitem.Config{Quota: quota})
			if err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
			<-a.Reconciled()
			if err := a.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(quantile(took, 50)), "ready-ms")
		fmt.Fprintf(os.Stderr, "\n%s: %d jobs, %d of them with a parent, %d leases: ready in %s, at worst %s\n",
			b.Name(), *rows, *rows/20, held, quantile(took, 50).Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	})
	j := openJobs(b, path)
	defer j.close(b)
	<-j.authority.Reconciled()
	for _, f := range []struct {
		name string
		in   func(i int) workitem.ListInput
	}{
		{"state", func(int) workitem.ListInput { return workitem.ListInput{State: []string{"cancelled"}} }},
		{"kind", func(int) workitem.ListInput { return workitem.ListInput{Kind: "repository.merge"} }},
		{"repository", func(i int) workitem.ListInput {
			return workitem.ListInput{RepositoryID: fmt.Sprintf("payments-api-%04d", i*7%1000)}
		}},
		{"owner", func(int) workitem.ListInput { return workitem.ListInput{OwnerID: "agent-99"} }},
		{"correlation", func(i int) workitem.ListInput {
			return workitem.ListInput{CorrelationID: fmt.Sprintf("change-%08d", i*7%(*rows/50))}
		}},
		{"lane", func(i int) workitem.ListInput {
			return workitem.ListInput{LaneID: fmt.Sprintf("lane-%04d", 1+i*7%2000)}
		}},
	} {
		b.Run(f.name, func(b *testing.B) {
			var took []time.Duration
			cursor, items := "", 0
			for i := range 500 {
				in := f.in(i)
				in.Cursor = cursor
				began := time.Now()
				page, err := j.List(ctx, &in)
				if err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
				items += len(page.Items)
				// Where the filter has one value, the pages behind the first are read too.
				if cursor = ""; page.NextCursor != nil && (f.name == "state" || f.name == "kind" || f.name == "owner") {
					cursor = *page.NextCursor
				}
			}
			if items == 0 {
				b.Fatal("no page had a job")
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(millis(quantile(took, 50)), "p50-ms")
			b.ReportMetric(millis(quantile(took, 99)), "p99-ms")
		})
	}
}

// BenchmarkJobBacklog compares claim-next among 1,000 ready jobs with that among
// -rows of them, behind as many that have ended, a tenth as many whose deadline has
// passed, and a tenth as many that wait to be tried again.
func BenchmarkJobBacklog(b *testing.B) {
	small := openJobs(b, filepath.Join(b.TempDir(), "work.db"))
	defer small.close(b)
	large := openJobs(b, filepath.Join(b.TempDir(), "work.db"))
	defer large.close(b)
	try := func(n int, op func(i int) error) {
		b.Helper()
		if err := each(n, op); err != nil {
			b.Fatal(err)
		}
	}
	try(*rows, func(int) error { return large.submit(Fixture{}) })
	try(*rows, func(i int) error { return large.pair("w") })
	delay := 86400.0
	try(*rows/10, func(int) error {
		if err := large.submit(Fixture{}); err != nil {
			return err
		}
		a, err := large.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: Kind, Worker: "w"})
		if err != nil {
			return err
		}
		if !a.Claimed {
			return fmt.Errorf("nothing was claimed: %s", a.Reason)
		}
		_, err = large.Defer(ctx, &workitem.DeferInput{JobID: a.Claim.JobID, Claim: a.Claim.Fence(), Delay: &delay})
		return err
	})
	late := Fixture{Run: 1, Deadline: time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}
	try(*rows/10, func(int) error { return large.submit(late) })
	try(*rows, func(int) error { return large.submit(Fixture{}) })
	try(1000, func(int) error { return small.submit(Fixture{}) })
	runtime.GC()
	once := func(j *jobs) time.Duration {
		began := time.Now()
		a, err := j.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: Kind, Worker: "w"})
		took := time.Since(began)
		if err != nil || !a.Claimed {
			b.Fatalf("claim: %v %v", a, err)
		}
		if _, err := j.Commit(ctx, &workitem.CommitInput{JobID: a.Claim.JobID, Claim: a.Claim.Fence(), Outcome: "succeeded"}); err != nil {
			b.Fatal(err)
		}
		if err := j.submit(Fixture{}); err != nil {
			b.Fatal(err)
		}
		return took
	}
	const claims = 2000
	var few, many []time.Duration
	for range claims {
		few = append(few, once(small))
		many = append(many, once(large))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(quantile(few, 50).Microseconds()), "1000-p50-us")
	b.ReportMetric(float64(quantile(many, 50).Microseconds()), "many-p50-us")
	b.ReportMetric(float64(quantile(many, 50))/float64(quantile(few, 50)), "p50-ratio")
	b.ReportMetric(float64(quantile(many, 99))/float64(quantile(few, 99)), "p99-ratio")
}
