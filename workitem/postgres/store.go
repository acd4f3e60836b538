package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-authority/writ/workitem"
)

// Options say where a store is and how it is watched.
type Options struct {
	// URL of the database, or a string of keyword=value pairs, as PostgreSQL's own
	// programs take it. The parameter schema names the schema of the tables (default
	// writ), which is made if it is missing; pool_max_conns bounds the connections.
	URL string
	// Clock is the time; nil is the database's.
	Clock Clock
	// Batch is told of every durable transaction: how many updates it had, how
	// long they ran and how long the commit took. It must not block. May be nil.
	Batch func(size int, run, commit time.Duration)
	// Log is told of lost connections and of other processes that interfere. May be
	// nil.
	Log *slog.Logger
	// AllowUnsafe takes a server that does not sync what it commits. For tests.
	AllowUnsafe bool
}

// Store is a workitem.Store in a PostgreSQL database. Its methods may be called
// concurrently, and other processes may have stores on the same database.
type Store struct {
	pool    *pgxpool.Pool // of views and writers
	aside   *pgxpool.Pool // of what these wait for
	clock   clock
	batch   func(int, time.Duration, time.Duration)
	log     *slog.Logger
	tenants tenants
	numbers numbers
	wakes   *wakes
	held    held

	ctx     context.Context // ends when Close gives up
	cancel  context.CancelFunc
	lanes   [lanes]*lane
	done    sync.WaitGroup // writers and what tells others
	hearing sync.WaitGroup
	gate    sync.RWMutex // of closed and aboard
	closed  atomic.Bool
	aboard  sync.WaitGroup // updates under way

	trouble atomic.Pointer[workitem.Error] // of the last transaction, or of what listens
	failed  chan struct{}                  // has a token after there was trouble
}

// Open opens the store of a database and brings its schema up to date; other
// processes may do so at the same time. It refuses servers before version 15
// (ErrTooOld), servers that do not sync (ErrUnsafe), replicas and databases without
// UTF-8 (ErrUnsuitable), schemas with tables of something else (ErrForeign) or of a
// newer version (ErrNewerSchema). A server that is starting up is waited for, and if
// ctx has a deadline, one that can't be reached is tried again until then.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	cfg, schema, err := configure(o.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{batch: o.Batch, log: o.Log, failed: make(chan struct{}, 1)}
	if s.batch == nil {
		s.batch = func(int, time.Duration, time.Duration) {}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.clock.source = o.Clock
	if err := prepare(ctx, cfg, schema, o.AllowUnsafe); err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, unreachable(err)
	}
	aside := cfg.Copy()
	aside.MaxConns, aside.MinConns = 2, 0
	if s.aside, err = pgxpool.NewWithConfig(ctx, aside); err != nil {
		s.pool.Close()
		return nil, unreachable(err)
	}
	s.tenants.pool = s.aside
	s.numbers.pool = s.aside
	if err := s.begin(ctx); err != nil {
		s.pool.Close()
		s.aside.Close()
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	process := rand.Text()
	s.wakes = newWakes(schema, process)
	s.start(process)
	s.done.Go(s.tell)
	s.hearing.Go(func() { s.listen(cfg.ConnConfig) })
	s.hearing.Go(s.mend)
	return s, nil
}

// forgotten is how long a process may be gone before the names of its writers go, in
// microseconds.
const forgotten = 24 * 60 * 60 * 1000000

// begin reads what is kept in memory.
func (s *Store) begin(ctx context.Context) error {
	if err := s.tenants.read(ctx); err != nil {
		return unreachable(err)
	}
	var epoch int64
	if err := s.aside.QueryRow(ctx, "SELECT "+selectEpoch).Scan(&epoch); err != nil {
		return unreachable(err)
	}
	if err := checkEpoch(epoch); err != nil {
		return err
	}
	var latest int64
	if err := s.aside.QueryRow(ctx, "SELECT coalesce(max(at), 0) FROM writers").Scan(&latest); err != nil {
		return unreachable(err)
	}
	s.clock.at(latest)
	if _, err := s.aside.Exec(ctx, "DELETE FROM writers WHERE at < $1", latest-forgotten); err != nil {
		return unreachable(err)
	}
	return nil
}

// Health is nil, or why the last transaction could not be written or the server can't
// be reached.
func (s *Store) Health() error {
	if e := s.trouble.Load(); e != nil {
		return e
	}
	return nil
}

// fail notes trouble, until something can be written again.
func (s *Store) fail(e *workitem.Error) {
	s.trouble.Store(e)
	select {
	case s.failed <- struct{}{}:
	default:
	}
}

// tryEvery is how often a store in trouble tries to write: whoever is said to be in
// trouble is asked for nothing that would show otherwise.
const tryEvery = time.Second

// mend ends trouble as soon as something can be written. It writes nothing: the oldest
// claim request ids of all are forgotten.
func (s *Store) mend() {
	for {
		select {
		case <-s.failed:
		case <-s.ctx.Done():
			return
		}
		for s.trouble.Load() != nil && !s.closed.Load() {
			select {
			case <-time.After(tryEvery):
			case <-s.ctx.Done():
				return
			}
			err := s.Update(s.ctx, func(tx workitem.Tx) error { return tx.Forget(1) })
			if err == nil {
				s.log.Info("the store can be written again")
			}
		}
	}
}

// Close finishes the updates that wait and closes the connections.
func (s *Store) Close() error {
	s.gate.Lock()
	closed := s.closed.Swap(true)
	s.gate.Unlock()
	if closed {
		return nil
	}
	s.aboard.Wait()
	for _, l := range s.lanes {
		l.close()
	}
	s.wakes.close()
	s.done.Wait()
	s.cancel()
	s.hearing.Wait()
	s.pool.Close()
	s.aside.Close()
	return nil
}

// Connections of a store, unless the URL says otherwise.
const (
	defaultSchema = "writ"
	maxIdentifier = 63 // bytes; PostgreSQL cuts what is longer
	connectWithin = 10 * time.Second
)

// settings are those of every session. Plans are made once and without statistics:
// every statement here names the index that serves it by its shape, and a plan made
// for an empty table would scan a full one.
var settings = map[string]string{
	"synchronous_commit":                  "on",
	"default_transaction_isolation":       "read committed",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_material":                     "off",
	"enable_bitmapscan":                   "off", // an index scan has rows in order, and stops at a limit
	"jit":                                 "off",
	"max_parallel_workers_per_gather":     "0",
	"lock_timeout":                        "2s", // after which a batch goes on without what somebody has locked
	"statement_timeout":                   "60s",
	"idle_in_transaction_session_timeout": "60s",
	"client_encoding":                     "UTF8",
	"timezone":                            "UTC",
}

// configure reads a URL.
func configure(url string) (cfg *pgxpool.Config, schema string, err error) {
	// An error of the parser may show what it can't read, and that may be a password.
	single, err := pgx.ParseConfig(url)
	if err == nil {
		cfg, err = pgxpool.ParseConfig(url)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w; one is postgres://USER:PASSWORD@HOST:5432/DATABASE, where characters like @ and / of the password are written as %%40 and %%2F", ErrURL)
	}
	parameters := cfg.ConnConfig.RuntimeParams
	schema = parameters["schema"]
	delete(parameters, "schema")
	if schema == "" {
		schema = defaultSchema
	}
	if len(schema) > maxIdentifier || strings.HasPrefix(schema, "pg_") {
		return nil, "", fmt.Errorf("%w: the schema %q must have at most %d bytes and not begin with pg_", ErrURL, schema, maxIdentifier)
	}
	parameters["search_path"] = pgx.Identifier{schema}.Sanitize()
	for name, value := range settings {
		if _, ok := parameters[name]; !ok {
			parameters[name] = value
		}
	}
	if parameters["synchronous_commit"] != "remote_apply" { // which promises more
		parameters["synchronous_commit"] = settings["synchronous_commit"]
	}
	if parameters["application_name"] == "" {
		parameters["application_name"] = "writ"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectWithin
	}
	if _, sized := single.RuntimeParams["pool_max_conns"]; !sized {
		cfg.MaxConns = int32(writers + max(8, 2*runtime.NumCPU()))
	}
	if cfg.MaxConns < writers+1 {
		return nil, "", fmt.Errorf("%w: pool_max_conns must be at least %d, one for each writer and one for views", ErrURL, writers+1)
	}
	return cfg, schema, nil
}

// unreachable is an error of connecting.
func unreachable(err error) error { return fmt.Errorf("%w: %w", ErrUnreachable, err) }

// isCode says that err is PostgreSQL's, with one of these codes.
func isCode(err error, codes ...string) bool {
	e := sqlError(err)
	if e == nil {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}
