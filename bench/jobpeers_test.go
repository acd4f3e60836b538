package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // River's database/sql driver
)

// A peer's jobs carry the request body of the fixture as their payload, and nothing
// of what Writ keeps beside it: no digests, no history, no dependencies, no listing.

var withPeers = flag.Bool("peers", true, "measure the peers of the job benchmarks too; -peers=false is for profiles")

// peers makes every contestant of a job benchmark that this machine has: Writ's, and
// those it is compared with.
func peers(b *testing.B, make ...func(*testing.B, string) *contestant) []*contestant {
	b.Helper()
	var list []*contestant
	for i, m := range make {
		if i > 0 && !*withPeers {
			break
		}
		if c := m(b, b.TempDir()); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// gate lets the handlers of a peer's own workers through while it is that peer's
// turn, so that they stand still while others are measured.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the gate is open
	shut chan struct{} // closed when the benchmark is over
}

func newGate() *gate { return &gate{open: make(chan struct{}), shut: make(chan struct{})} }

// end lets everybody go, with an error.
func (g *gate) end() { close(g.shut) }

func (g *gate) raise() {
	g.mu.Lock()
	close(g.open)
	g.mu.Unlock()
}

func (g *gate) lower() {
	g.mu.Lock()
	g.open = make(chan struct{})
	g.mu.Unlock()
}

// pass waits until the gate is open.
func (g *gate) pass() error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-g.shut:
		return errors.New("the benchmark is over")
	}
}

// finished counts what a peer's workers have ended. A caller's operation is over
// with the next one.
type finished chan struct{}

func (f finished) drain() {
	for {
		select {
		case <-f:
		default:
			return
		}
	}
}

func (f finished) next() error {
	select {
	case <-f:
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("no job has ended for 10 s")
	}
}

// backlog is how many jobs wait at least for the workers of a peer when its turn
// begins: more than any of them can do in that time.
const backlog = 30_000

// River on SQLite.

type riverArgs struct {
	Body json.RawMessage `json:"body"`
}

func (riverArgs) Kind() string { return "build" }

func quietLogger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func openRiver(b *testing.B, dir string, config *river.Config) (*sql.DB, *river.Client[*sql.Tx]) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "river.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	driver := riversqlite.New(db)
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
	return db, client
}

const riverSettings = "modernc SQLite, WAL, synchronous=FULL, one connection"

func riverSubmit(b *testing.B, dir string) *contestant {
	_, client := openRiver(b, dir, &river.Config{})
	var next atomic.Int64
	return &contestant{
		name: "river", durability: riverSettings + "; Insert",
		op: func(int, int) error {
			_, err := client.Insert(ctx, riverArgs{Fixture{}.Request(int(next.Add(1)), "", "", "")}, nil)
			return err
		},
	}
}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	gate *gate
}

func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return w.gate.pass() }

// riverPairs has River work its jobs as its users do: a client fetches up to as many
// as there are workers, and the batch completer writes down behind them that they
// have ended. A job counts when River reports it as completed, which follows the
// commit; a worker does not wait for that.
func riverPairs(workers int) func(*testing.B, string) *contestant {
	return func(b *testing.B, dir string) *contestant {
		w := &riverWorker{gate: newGate()}
		all := river.NewWorkers()
		river.AddWorker(all, w)
		db, client := openRiver(b, dir, &river.Config{
			Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
			Workers:       all,
			FetchCooldown: river.FetchCooldownMin, FetchPollInterval: river.FetchPollIntervalMin,
			JobTimeout: -1,
		})
		var next atomic.Int64
		fill := func() {
			var waiting int
			if err := db.QueryRow("SELECT count(*) FROM river_job WHERE state = 'available'").Scan(&waiting); err != nil {
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
		events, stop := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * backlog, Kinds: []river.EventKind{river.EventKindJobCompleted}})
		b.Cleanup(stop)
		if err := client.Start(ctx); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			end, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_ = client.StopAndCancel(end)
		})
		b.Cleanup(w.gate.end)
		return &contestant{
			name: "river",
			durability: fmt.Sprintf("%s; fetched by a client with MaxWorkers %d, FetchCooldown %s, completed by its batch completer",
				riverSettings, workers, river.FetchCooldownMin),
			op: func(int, int) error {
				select {
				case <-events:
					return nil
				case <-time.After(10 * time.Second):
					return errors.New("no job has ended for 10 s")
				}
			},
			before: func() {
				fill()
				for len(events) > 0 {
					<-events
				}
				w.gate.raise()
			},
			after: w.gate.lower,
		}
	}
}

// asynq on Redis.

// redisServer starts a Redis of this benchmark's own, and answers with nil if there
// is none on this machine.
func redisServer(b *testing.B, dir string) asynq.RedisConnOpt {
	b.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		fmt.Fprintf(os.Stderr, "\n%s: asynq is left out, since redis-server is not installed\n", b.Name())
		return nil
	}
	socket, err := os.MkdirTemp("", "redis") // a short path, as sockets need it
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(socket) })
	socket = filepath.Join(socket, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	opt := asynq.RedisClientOpt{Network: "unix", Addr: socket, PoolSize: 256}
	for range 500 {
		client := asynq.NewClient(opt)
		err = client.Ping()
		_ = client.Close()
		if err == nil {
			return opt
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("redis-server does not answer: %v", err)
	return nil
}

const asynqSettings = "Redis, appendonly yes, appendfsync always, unix socket"

func asynqTask(n int) *asynq.Task {
	return asynq.NewTask("build", Fixture{}.Request(n, "", "", ""), asynq.TaskID(fmt.Sprintf("ci/payments-api/%010d", n)), asynq.Timeout(time.Hour))
}

func asynqSubmit(b *testing.B, dir string) *contestant {
	opt := redisServer(b, dir)
	if opt == nil {
		return nil
	}
	client := asynq.NewClient(opt)
	b.Cleanup(func() { _ = client.Close() })
	var next atomic.Int64
	return &contestant{
		name: "asynq", durability: asynqSettings + "; Enqueue with a TaskID",
		op: func(int, int) error {
			_, err := client.Enqueue(asynqTask(int(next.Add(1))))
			return err
		},
	}
}

// asynqPairs has an asynq server work its tasks. A task counts when its handler is
// called; at most as many as there are workers are not marked as done by then.
func asynqPairs(workers int) func(*testing.B, string) *contestant {
	return func(b *testing.B, dir string) *contestant {
		opt := redisServer(b, dir)
		if opt == nil {
			return nil
		}
		client := asynq.NewClient(opt)
		b.Cleanup(func() { _ = client.Close() })
		inspector := asynq.NewInspector(opt)
		b.Cleanup(func() { _ = inspector.Close() })
		var next atomic.Int64
		fill := func(waiting int) {
			var wg sync.WaitGroup
			var missing atomic.Int64
			missing.Store(int64(backlog - waiting))
			for range 64 {
				wg.Go(func() {
					for missing.Add(-1) >= 0 {
						if _, err := client.Enqueue(asynqTask(int(next.Add(1)))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
		fill(0)
		g := newGate()
		done := make(finished, 2*backlog)
		srv := asynq.NewServer(opt, asynq.Config{Concurrency: workers, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second})
		if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if err := g.pass(); err != nil {
				return err
			}
			done <- struct{}{}
			return nil
		})); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(srv.Shutdown)
		b.Cleanup(g.end)
		return &contestant{
			name: "asynq", durability: fmt.Sprintf("%s; server with Concurrency %d, which deletes what is done", asynqSettings, workers),
			op: func(int, int) error { return done.next() },
			before: func() {
				info, err := inspector.GetQueueInfo("default")
				if err != nil {
					b.Fatal(err)
				}
				fill(info.Pending)
				done.drain()
				g.raise()
			},
			after: g.lower,
		}
	}
}

// NATS JetStream.

func openStream(b *testing.B, dir string) (jetstream.JetStream, jetstream.Stream) {
	b.Helper()
	srv, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: dir, SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	srv.Start()
	b.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(10 * time.Second) {
		b.Fatal("the NATS server is not ready after 10 s")
	}
	conn, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		b.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "jobs", Subjects: []string{"jobs.>"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	})
	if err != nil {
		b.Fatal(err)
	}
	return js, stream
}

const natsSettings = "embedded server, file storage, SyncAlways, in-process connection"

func natsPublish(js jetstream.JetStream, n int) error {
	_, err := js.Publish(ctx, "jobs.build", Fixture{}.Request(n, "", "", ""), jetstream.WithMsgID(fmt.Sprintf("ci/payments-api/%010d", n)))
	return err
}

func natsSubmit(b *testing.B, dir string) *contestant {
	js, _ := openStream(b, dir)
	var next atomic.Int64
	return &contestant{
		name: "nats", durability: natsSettings + "; Publish with a message id",
		op: func(int, int) error { return natsPublish(js, int(next.Add(1))) },
	}
}

// natsPairs has each worker fetch one message and acknowledge it, and wait for the
// server's answer to that.
func natsPairs(b *testing.B, dir string) *contestant {
	js, stream := openStream(b, dir)
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxAckPending: 4096,
	})
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	return &contestant{
		name: "nats", durability: natsSettings + "; Next and DoubleAck, whose state is written behind",
		op: func(int, int) error {
			m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
			if err != nil {
				return err
			}
			return m.DoubleAck(ctx)
		},
		before: func() {
			info, err := stream.Info(ctx)
			if err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			var missing atomic.Int64
			missing.Store(backlog - int64(info.State.Msgs))
			for range 64 {
				wg.Go(func() {
					for missing.Add(-1) >= 0 {
						if err := natsPublish(js, int(next.Add(1))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		},
	}
}
