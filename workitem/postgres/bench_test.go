package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
)

func open(tb testing.TB, cfg workitem.Config) *workitem.Caller {
	tb.Helper()
	s, err := postgres.Open(context.Background(), postgres.Options{URL: pgtest.Shared(tb, pgtest.Options{Durable: true}).Database(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	a, err := workitem.New(s, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
	})
	return a.As(workitem.Principal{Subject: "worker-1", Tenant: "tenant-a", Owner: "actor-a", Scopes: workitem.ScopeAdmin})
}

// request is a submission of about 512 bytes.
func request(n int) []byte {
	return fmt.Appendf(nil, `{"contract_version":"1","request_id":"req-%08d","idempotency_key":"idem-%08d","operation":"build","repository":{"repository_id":"repo-a"},"base_ref":"refs/heads/main","base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","owner_id":"actor-a","session_id":"session-a","tenant_id":"tenant-a","priority":5,"resources":{"resource_class":"light-check","concurrency_key":"light-check","cpu_weight":2,"memory_mib":512,"disk_mib":1024},"validation_policy":{"stages":["unit","lint"]},"config_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}`, n, n)
}

// eachOf runs fn for 0..n-1 on as many goroutines as asked for.
func eachOf(b *testing.B, callers, n int, fn func(i int)) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				fn(i)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "ops/s")
}

func BenchmarkSubmit(b *testing.B) {
	for _, callers := range []int{1, 32, 128} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			c := open(b, workitem.Config{Quota: 4096})
			eachOf(b, callers, b.N, func(i int) {
				if _, err := c.Submit(context.Background(), &workitem.SubmitInput{Request: request(i)}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

func BenchmarkClaimCommit(b *testing.B) {
	for _, callers := range []int{1, 32, 128} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			c := open(b, workitem.Config{Quota: 4096})
			eachOf(b, 128, b.N, func(i int) {
				if _, err := c.Submit(context.Background(), &workitem.SubmitInput{Request: request(i)}); err != nil {
					b.Error(err)
				}
			})
			b.ResetTimer()
			eachOf(b, callers, b.N, func(i int) {
				answer, err := c.ClaimNext(context.Background(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w"})
				if err != nil || !answer.Claimed {
					b.Error(err, answer)
					return
				}
				if _, err := c.Commit(context.Background(), &workitem.CommitInput{
					JobID: answer.Claim.JobID, Claim: answer.Claim.Fence(), Outcome: "succeeded",
				}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}
