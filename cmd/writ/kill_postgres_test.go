package main_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/writ-authority/writ/internal/pgtest"
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
	url := db.Database(t)
	servers := []*served{newServed(t, "--jobs-db", url), newServed(t, "--jobs-db", url)}
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
