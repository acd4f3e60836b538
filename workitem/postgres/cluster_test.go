package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/storetest"
)

// cluster is several stores on one database, with an authority each, as several server
// processes have them: they share nothing but the database.
type cluster struct {
	server      *pgtest.Server
	url         string
	stores      []*postgres.Store
	authorities []*workitem.Authority
	asked       atomic.Int64
	shut        sync.Once
}

func openCluster(t *testing.T, stores int, cfg workitem.Config) *cluster {
	t.Helper()
	server := pgtest.Shared(t, pgtest.Options{})
	c := &cluster{server: server, url: server.Database(t)}
	t.Cleanup(func() { c.close(t) })
	for range stores {
		s, err := postgres.Open(t.Context(), postgres.Options{URL: c.url, AllowUnsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		a, err := workitem.New(s, cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.stores, c.authorities = append(c.stores, s), append(c.authorities, a)
	}
	return c
}

func (c *cluster) close(t *testing.T) {
	c.shut.Do(func() {
		for _, a := range c.authorities {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

var clusterAgent = workitem.Principal{Subject: "agent", Tenant: "tenant-a", Owner: "actor-a", Scopes: workitem.ScopeAdmin}

// any is the authority in one process, in turn.
func (c *cluster) any() *workitem.Caller { return c.at(int(c.asked.Add(1))) }

func (c *cluster) at(i int) *workitem.Caller {
	return c.authorities[i%len(c.authorities)].As(clusterAgent)
}

// submit submits a job and gives its id.
func (c *cluster) submit(t *testing.T, key, group string, parents ...string) string {
	t.Helper()
	list := "[]"
	if len(parents) > 0 {
		list = fmt.Sprintf("[%q", parents[0])
		for _, p := range parents[1:] {
			list += fmt.Sprintf(",%q", p)
		}
		list += "]"
	}
	h, err := c.any().Submit(t.Context(), &workitem.SubmitInput{Request: fmt.Appendf(nil, `{"request_id":"request %[1]s","idempotency_key":%[1]q,
		"operation":"build","repository_id":"r","base_ref":"main","base_sha":"%040[2]d","owner_id":"actor-a","session_id":"s","tenant_id":"tenant-a",
		"fairness_group":%[3]q,"dependencies":%[4]s}`, key, 1, group, list)})
	if err != nil {
		t.Fatal(err)
	}
	return h.JobID
}

func (c *cluster) claim(ctx context.Context, i int, wait float64) (*workitem.ClaimAnswer, error) {
	return c.at(i).ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: fmt.Sprint("w", i), Wait: &wait})
}

func (c *cluster) commit(ctx context.Context, i int, claim *workitem.Claim) error {
	s, err := c.at(i).Commit(ctx, &workitem.CommitInput{JobID: claim.JobID, Claim: claim.Fence(), Outcome: "succeeded"})
	if err == nil && s.Status != workitem.Committed {
		err = fmt.Errorf("the commit of %s is answered with %s", claim.JobID, s.Status)
	}
	return err
}

// everybody runs fn side by side.
func everybody(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// deadlocks closes the cluster and asks the database how many it had.
func (c *cluster) deadlocks(t *testing.T) (n int) {
	t.Helper()
	c.close(t)
	admin, err := pgx.Connect(t.Context(), c.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }() // it has told what it should
	at, err := pgx.ParseConfig(c.url)
	if err != nil {
		t.Fatal(err)
	}
	// A session counts when it ends, which takes it a moment after it was told to.
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for sessions := 1; sessions > 0; {
		if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = $1", at.Database).Scan(&sessions); err != nil {
			t.Fatal(err)
		}
		<-again.C
	}
	if err := admin.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = $1", at.Database).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestClusterLinear has the workers of one history at four stores.
func TestClusterLinear(t *testing.T) {
	t.Parallel()
	storetest.Linear(t, func(t *testing.T, cfg workitem.Config, _ *storetest.Clock) *storetest.Bundle {
		c := openCluster(t, 4, cfg)
		return &storetest.Bundle{
			Jobs: func(p workitem.Principal) operation.Jobs {
				return c.authorities[int(c.asked.Add(1))%len(c.authorities)].As(p)
			},
			Store: func() workitem.Store { return c.stores[0] },
		}
	}, *linear)
}

// TestClusterDiamonds commits graphs in which every job has several parents and every
// parent several children, from 32 workers at four stores at once. Transactions
// lock the same jobs in all combinations, and none may fail or wait for another in a circle.
func TestClusterDiamonds(t *testing.T) {
	t.Parallel()
	const stores, layers, width = 4, 6, 24
	c := openCluster(t, stores, workitem.Config{Quota: 4096})
	var above []string
	var jobs int64
	for layer := range layers {
		ids := make([]string, width)
		everybody(width, func(i int) {
			var parents []string
			for _, step := range []int{0, 1, 5, 11} {
				if layer > 0 {
					parents = append(parents, above[(i*7+step)%width])
				}
			}
			ids[i] = c.submit(t, fmt.Sprintf("diamond-%d-%d", layer, i), "g", parents...)
		})
		above = ids
		jobs += width
	}
	var done atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	everybody(32, func(i int) {
		for done.Load() < jobs {
			a, err := c.claim(ctx, i, 0.1)
			if err == nil && !a.Claimed {
				continue
			}
			if err == nil {
				err = c.commit(ctx, i, a.Claim)
			}
			if err != nil {
				t.Error(err)
				stop()
				return
			}
			done.Add(1)
		}
	})
	stats, err := c.any().Stats(t.Context(), &workitem.NoInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(stats.Kinds) != 1 || stats.Kinds[0].States["succeeded"] != int(jobs) || stats.Faults != 0 {
		t.Errorf("of %d jobs there are %+v", jobs, stats)
	}
	r, err := c.any().Reconcile(t.Context(), &workitem.ReconcileInput{})
	if err != nil || r.Repaired != 0 || r.Faults != 0 {
		t.Errorf("reconcile gives %+v, %v", r, err)
	}
	if n := c.deadlocks(t); n != 0 {
		t.Errorf("the database had to end %d deadlocks", n)
	}
}

// TestClusterQuota has 128 workers at four stores claim for a tenant that may hold 64
// leases (decision W12).
func TestClusterQuota(t *testing.T) {
	t.Parallel()
	const workers, quota, jobs = 128, 64, 600
	c := openCluster(t, 4, workitem.Config{Quota: quota})
	everybody(8, func(i int) {
		for n := i; n < jobs; n += 8 {
			c.submit(t, fmt.Sprint("quota-", n), "g")
		}
	})
	claims := make([]*workitem.Claim, workers)
	everybody(workers, func(i int) {
		a, err := c.claim(t.Context(), i, 0)
		switch {
		case err != nil:
			t.Error(err)
		case a.Claimed:
			claims[i] = a.Claim
		case a.Reason != workitem.ReasonTenantQuota:
			t.Errorf("a worker is answered with %s", a.Reason)
		}
	})
	held := slices.DeleteFunc(slices.Clone(claims), func(c *workitem.Claim) bool { return c == nil })
	if len(held) != quota {
		t.Fatalf("%d leases were granted, expected %d", len(held), quota)
	}
	// Whoever ends a job makes room for exactly one; nobody ever sees more leases.
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for i := range 4 {
		watching.Go(func() {
			for ctx.Err() == nil {
				err := c.stores[i].View(ctx, func(r workitem.Reader) error {
					n, err := r.Leases(clusterAgent.Tenant)
					if n > quota {
						t.Errorf("there are %d leases", n)
					}
					return err
				})
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	var ended, granted atomic.Int64
	granted.Store(quota)
	everybody(workers, func(i int) {
		claim := claims[i]
		for ended.Load() < jobs-quota {
			if claim == nil {
				a, err := c.claim(t.Context(), i, 0.05)
				if err != nil {
					t.Error(err)
					return
				}
				if !a.Claimed {
					continue
				}
				claim = a.Claim
				granted.Add(1)
			}
			if err := c.commit(t.Context(), i, claim); err != nil {
				t.Error(err)
				return
			}
			ended.Add(1)
			claim = nil
		}
		claims[i] = claim
	})
	stop()
	watching.Wait()
	stats, err := c.any().Stats(t.Context(), &workitem.NoInput{})
	if err != nil {
		t.Fatal(err)
	}
	if want := int(granted.Load() - ended.Load()); stats.LiveLeases != want {
		t.Errorf("%d leases live, expected %d", stats.LiveLeases, want)
	}
}

// TestClusterFairness has the groups of a tenant take turns, whichever store a claim
// goes to.
func TestClusterFairness(t *testing.T) {
	t.Parallel()
	const groups, each, wave = 4, 40, 8
	c := openCluster(t, 3, workitem.Config{Quota: 4096})
	for g := range groups {
		// One group's jobs are all older than those of the next one.
		for n := range each {
			c.submit(t, fmt.Sprintf("fair-%d-%d", g, n), fmt.Sprint("group-", g))
		}
	}
	total := map[string]int{}
	var mu sync.Mutex
	for grants := wave; grants <= groups*each; grants += wave {
		everybody(wave, func(i int) {
			a, err := c.claim(t.Context(), i, 0)
			if err != nil || !a.Claimed {
				t.Errorf("%+v, %v", a, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			total[a.Job.FairnessGroup]++
		})
		for g := range groups {
			if n := total[fmt.Sprint("group-", g)]; n != grants/groups {
				t.Fatalf("after %d grants the groups had %v", grants, total)
			}
		}
	}
}

// TestClusterWakes has a worker wait at one store for a job that is submitted at
// another one, and for its end.
func TestClusterWakes(t *testing.T) {
	t.Parallel()
	c := openCluster(t, 2, workitem.Config{})
	const rounds = 9
	var took []time.Duration
	for n := range rounds {
		waiting := make(chan *workitem.ClaimAnswer)
		go func() {
			a, err := c.claim(t.Context(), 0, 30)
			if err != nil {
				t.Error(err)
			}
			waiting <- a
		}()
		began := time.Now()
		_, err := c.at(1).Submit(t.Context(), &workitem.SubmitInput{Request: request(n)})
		if err != nil {
			t.Fatal(err)
		}
		a := <-waiting
		took = append(took, time.Since(began))
		if a == nil || !a.Claimed {
			t.Fatalf("the claim is answered with %+v", a)
		}
		if err := c.commit(t.Context(), 1, a.Claim); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	if middle := took[rounds/2]; middle > 500*time.Millisecond {
		t.Errorf("a worker waits for %v until it hears of a job", middle)
	}
}

// TestClusterLostConnections ends the sessions of all stores again and again while
// jobs are submitted, claimed and committed. Whoever is not answered repeats the call.
func TestClusterLostConnections(t *testing.T) {
	t.Parallel()
	const workers, cuts = 8, 25
	c := openCluster(t, 2, workitem.Config{Quota: 4096})
	admin, err := pgx.Connect(t.Context(), c.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }() // it has done what it should
	at, err := pgx.ParseConfig(c.url)
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var jobs, unanswered atomic.Int64
	insist := func(what string, call func(*workitem.Caller) error) bool {
		for range 1000 {
			err := call(c.any())
			if err == nil {
				return true
			}
			if !errors.Is(err, workitem.ErrAuthorityUnavailable) {
				t.Errorf("%s: %v", what, err)
				return false
			}
			unanswered.Add(1)
		}
		t.Errorf("%s: the store does not come back", what)
		return false
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				if !insist("submit", func(j *workitem.Caller) error {
					_, err := j.Submit(t.Context(), &workitem.SubmitInput{Request: request(n*workers + i)})
					return err
				}) {
					return
				}
				jobs.Add(1)
				var a *workitem.ClaimAnswer
				if !insist("claim", func(j *workitem.Caller) (err error) {
					a, err = j.ClaimNext(t.Context(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: fmt.Sprint("w", i), ClaimRequestID: fmt.Sprintf("%d.%d", i, n)})
					return err
				}) {
					return
				}
				if !a.Claimed {
					t.Errorf("there are as many jobs as workers, and a claim is answered with %s", a.Reason)
					return
				}
				tries := 0
				if !insist("commit", func(j *workitem.Caller) error {
					tries++
					s, err := j.Commit(t.Context(), &workitem.CommitInput{JobID: a.Claim.JobID, Claim: a.Claim.Fence(), Outcome: "succeeded"})
					if err == nil && s.Status != workitem.Committed && tries == 1 {
						t.Errorf("a first commit is answered with %s", s.Status)
					}
					return err
				}) {
					return
				}
			}
		})
	}
	for range cuts {
		before := jobs.Load()
		// The next cut waits until jobs go on, as they must.
		again := time.NewTicker(time.Millisecond)
		for deadline := time.Now().Add(time.Minute); jobs.Load() < before+5 && !t.Failed(); <-again.C {
			if time.Now().After(deadline) {
				t.Error("the stores do not go on")
			}
		}
		again.Stop()
		if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", at.Database); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	wg.Wait()
	stats, err := c.any().Stats(t.Context(), &workitem.NoInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(stats.Kinds) != 1 || stats.Kinds[0].States["succeeded"] != int(jobs.Load()) {
		t.Errorf("%d jobs were done, the store has %+v", jobs.Load(), stats)
	}
	t.Logf("%d jobs, %d calls without an answer", jobs.Load(), unanswered.Load())
}
