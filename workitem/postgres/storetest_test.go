package postgres_test

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/storetest"
)

var linear = flag.Duration("linear", time.Second, "how long TestLinear lets 64 workers call the authority")

// databases are the stores of a test: each directory has a database of its own.
type databases struct {
	server *pgtest.Server
	mu     sync.Mutex
	urls   map[string]string
}

func over(t *testing.T) storetest.Open {
	d := &databases{server: pgtest.Shared(t, pgtest.Options{}), urls: map[string]string{}}
	return storetest.OverSaved(func(ctx context.Context, dir string, clock *storetest.Reading) (workitem.Store, error) {
		o := postgres.Options{URL: d.url(t, dir), AllowUnsafe: true}
		if clock != nil {
			o.Clock = reading{clock}
		}
		return postgres.Open(ctx, o)
	}, d.save)
}

func (d *databases) url(t *testing.T, dir string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	url, ok := d.urls[dir]
	if !ok {
		url = d.server.Database(t)
		d.urls[dir] = url
	}
	return url
}

// save copies a database.
func (d *databases) save(t *testing.T, dir string) (restore func()) {
	saved := d.server.Database(t)
	d.copy(t, d.url(t, dir), saved)
	return func() { d.copy(t, saved, d.url(t, dir)) }
}

func (d *databases) copy(t *testing.T, from, to string) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), d.server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }() // it has done what it should
	for _, text := range []string{"DROP DATABASE " + database(t, to) + " WITH (FORCE)", "CREATE DATABASE " + database(t, to) + " TEMPLATE " + database(t, from)} {
		if _, err := admin.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func database(t *testing.T, url string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return pgx.Identifier{cfg.Database}.Sanitize()
}

// reading is a test's clock as that of a database, which a person may set.
type reading struct{ *storetest.Reading }

func (r reading) Now() workitem.Instant {
	return workitem.InstantOf(r.Wall().Add(r.Elapsed()))
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	storetest.Run(t, over(t))
}

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Model(t, over(t))
}

func TestLinear(t *testing.T) {
	t.Parallel()
	storetest.Linear(t, over(t), *linear)
}
