package main_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/storetest"
)

var (
	postgresKills   = flag.Int("postgreskills", 6, "how many servers TestKillPostgres ends with SIGKILL in a storm of jobs")
	postgresCrashes = flag.Int("postgrescrashes", 2, "how often TestKillPostgres ends PostgreSQL itself with SIGKILL")
)

// TestKillPostgres is TestKillJobs with two servers on one PostgreSQL, and kills that
// too: its main process, after which the others end, and the next start recovers. A
// call that was not answered goes to the other server.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t, pgtest.Options{Durable: true})
	at := db.Database(t)
	servers := []*served{newServed(t, "--jobs-db", at), newServed(t, "--jobs-db", at)}
	for _, v := range servers {
		v.failing = true
		v.start(t)
	}
	s := newJobStorm(servers[0].client, servers[1].client)
	rng := rand.New(rand.NewPCG(20, 27))
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for i := range 12 {
		workers.Go(func() { s.work(ctx, i) })
	}
	kills := make([]bool, *postgresKills+*postgresCrashes) // true: of PostgreSQL
	for i := range *postgresCrashes {
		kills[i] = true
	}
	rng.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	for i, ofPostgres := range kills {
		<-time.After(time.Duration(20+rng.IntN(120)) * time.Millisecond) // as good as any moment
		if ofPostgres {
			db.Kill(t)
			db.Restart(t)
			continue
		}
		v := servers[i%len(servers)]
		v.kill(t)
		v.start(t)
	}
	stop()
	workers.Wait()
	for _, err := range s.wrong {
		t.Error(err)
	}
	for _, v := range servers {
		v.kill(t) // it may still be at calls that nobody waits for
	}
	for _, v := range servers {
		v.start(t)
	}
	s.compare(t)
	for _, v := range servers {
		v.stop(t)
	}
}

// TestServersAreLinear checks the history of 64 workers at four server processes on one
// PostgreSQL.
func TestServersAreLinear(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t, pgtest.Options{Durable: true}).Database(t)
	storetest.Linear(t, func(t *testing.T, cfg workitem.Config, _ *storetest.Clock) *storetest.Bundle {
		if cfg.Quota != 4096 || *cfg.RetryFloor != 0 {
			t.Fatalf("the servers have other settings than %+v", cfg)
		}
		servers := make([]*served, 4)
		for i := range servers {
			servers[i] = newServed(t, "--jobs-db", db, "--retry-floor-s", "0")
			servers[i].start(t)
			t.Cleanup(func() { servers[i].stop(t) })
		}
		store, err := postgres.Open(t.Context(), postgres.Options{URL: db})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		asked := 0
		return &storetest.Bundle{
			Jobs: func(p workitem.Principal) operation.Jobs {
				asked++
				token := strings.Join([]string{"dev", p.Tenant, p.Owner, url.QueryEscape(strings.Join(p.Scopes.Names(), ","))}, ":")
				return servers[asked%len(servers)].as(t, token)
			},
			Store: func() workitem.Store { return store },
		}
	}, 2*time.Second)
}
