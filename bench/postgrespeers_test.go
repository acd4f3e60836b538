package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/writ-authority/writ/internal/pgtest"
)

// The peers on PostgreSQL have a database each on the server that Writ has its own
// on, with a connection for each worker.

// postgresSettings are those of the server of all contestants.
const postgresSettings = "max_wal_size=4GB"

// postgresServer starts the server of a benchmark, or skips it where there is no
// PostgreSQL.
func postgresServer(b *testing.B) *pgtest.Server {
	return pgtest.Shared(b, pgtest.Options{Durable: true, Settings: postgresSettings})
}

// loopSchema is what a queue in a table needs at least: an order, a state, and a
// fence for whoever claimed the row.
const loopSchema = `
CREATE TABLE jobs (
	id         bigserial PRIMARY KEY,
	state      smallint NOT NULL DEFAULT 0,
	priority   smallint NOT NULL,
	fence      bigint NOT NULL DEFAULT 0,
	worker     text,
	claimed_at timestamptz,
	ended_at   timestamptz,
	body       bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX jobs_ready ON jobs (priority DESC, id) WHERE state = 0`

func openPool(b *testing.B, url string, connections int) *pgxpool.Pool {
	b.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func loopInsert(pool *pgxpool.Pool, n int) error {
	_, err := pool.Exec(ctx, "INSERT INTO jobs (priority, body) VALUES ($1, $2)", 10, Fixture{}.Request(n, "", "", ""))
	return err
}

func openLoop(b *testing.B, url string, connections int) *pgxpool.Pool {
	b.Helper()
	pool := openPool(b, url, connections)
	if _, err := pool.Exec(ctx, loopSchema); err != nil {
		b.Fatal(err)
	}
	return pool
}

func loopSubmit(server *pgtest.Server, callers int) func(*testing.B, string) *contestant {
	return func(b *testing.B, _ string) *contestant {
		pool := openLoop(b, server.Database(b), callers)
		var next atomic.Int64
		return &contestant{
			name: "loop", durability: "one INSERT a job, each committed by itself",
			op: func(int, int) error { return loopInsert(pool, int(next.Add(1))) },
		}
	}
}

// A loopClaim takes one row.
type loopClaim func(pool *pgxpool.Pool, worker string) (id, fence int64, body []byte, err error)

// claimByTransaction is the queue that everybody writes first: a transaction that
// selects one row which nobody else holds, and marks it.
func claimByTransaction(pool *pgxpool.Pool, worker string) (id, fence int64, body []byte, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT id, fence + 1, body FROM jobs WHERE state = 0 ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED").
			Scan(&id, &fence, &body)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE jobs SET state = 1, fence = $2, worker = $3, claimed_at = now() WHERE id = $1", id, fence, worker)
		return err
	})
	return id, fence, body, err
}

// claimByStatement does the same in one statement and so in one round trip.
func claimByStatement(pool *pgxpool.Pool, worker string) (id, fence int64, body []byte, err error) {
	err = pool.QueryRow(ctx, `UPDATE jobs SET state = 1, fence = fence + 1, worker = $1, claimed_at = now()
		WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, fence, body`, worker).Scan(&id, &fence, &body)
	return id, fence, body, err
}

// loopPairs claims one row in one transaction and ends it in another.
func loopPairs(server *pgtest.Server, workers int, name, how string, claim loopClaim) func(*testing.B, string) *contestant {
	return func(b *testing.B, _ string) *contestant {
		pool := openLoop(b, server.Database(b), workers)
		var next, done atomic.Int64
		return &contestant{
			name: name, durability: how,
			op: func(caller, _ int) error {
				id, fence, _, err := claim(pool, fmt.Sprintf("worker-%03d", caller))
				if err != nil {
					return err
				}
				tag, err := pool.Exec(ctx, "UPDATE jobs SET state = 2, ended_at = now() WHERE id = $1 AND fence = $2", id, fence)
				if err != nil {
					return err
				}
				if tag.RowsAffected() != 1 {
					return fmt.Errorf("job %d was lost", id)
				}
				done.Add(1)
				return nil
			},
			before: func() {
				missing := 2*backlog - (next.Load() - done.Load())
				if err := each(int(missing), func(int) error { return loopInsert(pool, int(next.Add(1))) }); err != nil {
					b.Fatal(err)
				}
			},
		}
	}
}

func openRiverPG(b *testing.B, url string, connections int, config *river.Config) (*pgxpool.Pool, *river.Client[pgx.Tx]) {
	b.Helper()
	pool := openPool(b, url, connections)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quietLogger()})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		b.Fatal(err)
	}
	config.Logger = quietLogger()
	client, err := river.NewClient(driver, config)
	if err != nil {
		b.Fatal(err)
	}
	return pool, client
}

func riverPGSubmit(server *pgtest.Server, callers int) func(*testing.B, string) *contestant {
	return func(b *testing.B, _ string) *contestant {
		_, client := openRiverPG(b, server.Database(b), callers, &river.Config{})
		var next atomic.Int64
		return &contestant{
			name: "river", durability: "Insert, each committed by itself",
			op: func(int, int) error {
				_, err := client.Insert(ctx, riverArgs{Fixture{}.Request(int(next.Add(1)), "", "", "")}, nil)
				return err
			},
		}
	}
}

// riverTxWorker completes its job in a transaction of its own, as River has it for
// work whose effects lie in the same database.
type riverTxWorker struct {
	river.WorkerDefaults[riverArgs]
	gate *gate
	pool *pgxpool.Pool
	done finished
}

func (w *riverTxWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	if err := w.gate.pass(); err != nil {
		return err
	}
	if w.pool != nil {
		err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
		if err != nil {
			return err
		}
		w.done <- struct{}{}
	}
	return nil
}

// riverPGPairs has River work its jobs on PostgreSQL. With own, every job is completed
// in a transaction of its own and counts once that is committed; otherwise River's
// batch completer writes down behind the workers that they have ended, and a job
// counts when River reports it, after that commit. Fetching is batched in both.
func riverPGPairs(server *pgtest.Server, workers int, own bool) func(*testing.B, string) *contestant {
	return func(b *testing.B, _ string) *contestant {
		w := &riverTxWorker{gate: newGate(), done: make(finished, 4*backlog)}
		all := river.NewWorkers()
		river.AddWorker(all, w)
		pool, client := openRiverPG(b, server.Database(b), workers+8, &river.Config{
			Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
			Workers:       all,
			FetchCooldown: river.FetchCooldownMin, FetchPollInterval: river.FetchPollIntervalMin,
			JobTimeout: -1,
		})
		var next atomic.Int64
		fill := func() {
			var waiting int
			if err := pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'available'").Scan(&waiting); err != nil {
				b.Fatal(err)
			}
			for waiting < backlog {
				var many []river.InsertManyParams
				for range 1000 {
					many = append(many, river.InsertManyParams{Args: riverArgs{Fixture{}.Request(int(next.Add(1)), "", "", "")}})
				}
				n, err := client.InsertManyFast(ctx, many)
				if err != nil {
					b.Fatal(err)
				}
				waiting += n
			}
		}
		fill()
		c := &contestant{
			name:       "river-tx",
			durability: fmt.Sprintf("MaxWorkers %d, FetchCooldown %s; JobCompleteTx in a transaction of its own", workers, river.FetchCooldownMin),
			op:         func(int, int) error { return w.done.next() },
			before: func() {
				fill()
				w.done.drain()
				w.gate.raise()
			},
			after: w.gate.lower,
		}
		if own {
			w.pool = pool
		} else {
			events, stop := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * backlog, Kinds: []river.EventKind{river.EventKindJobCompleted}})
			b.Cleanup(stop)
			c.name = "river-batch"
			c.durability = fmt.Sprintf("MaxWorkers %d, FetchCooldown %s; its batch completer, the default", workers, river.FetchCooldownMin)
			c.op = func(int, int) error {
				select {
				case <-events:
					return nil
				case <-time.After(10 * time.Second):
					return errors.New("no job has ended for 10 s")
				}
			}
			c.before = func() {
				fill()
				for len(events) > 0 {
					<-events
				}
				w.gate.raise()
			}
		}
		if err := client.Start(ctx); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			end, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_ = client.StopAndCancel(end)
		})
		b.Cleanup(w.gate.end)
		return c
	}
}
