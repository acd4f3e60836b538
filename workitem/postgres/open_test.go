package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
)

// run runs statements on a database, as another program would.
func run(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range statements {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ask runs a query that has one text.
func ask(t *testing.T, url, query string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.QueryRow(t.Context(), query).Scan(&answer), conn.Close(t.Context())); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// everything is what a database has: every table and column, and the migrations if it
// has had any.
func everything(t *testing.T, url string) string {
	t.Helper()
	found := ask(t, url, `SELECT coalesce(string_agg(concat_ws('.', table_schema, table_name, column_name, data_type), ' ' ORDER BY 1), '')
		FROM (SELECT * FROM information_schema.columns WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
			ORDER BY table_schema, table_name, ordinal_position) c`)
	if strings.Contains(found, "writ.migrations.sum") {
		found += ask(t, url, "SELECT string_agg(number || name || sum, ' ' ORDER BY number) FROM writ.migrations")
	}
	return found
}

// with gives a URL one more parameter.
func with(t *testing.T, text, name, value string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func try(t *testing.T, url string) (*postgres.Store, error) {
	t.Helper()
	return postgres.Open(t.Context(), postgres.Options{URL: url, AllowUnsafe: true})
}

func mustOpen(t *testing.T, url string) *postgres.Store {
	t.Helper()
	s, err := try(t, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// addToken writes the smallest thing there is.
func addToken(ctx context.Context, s workitem.Store, id string) error {
	return s.Update(ctx, func(tx workitem.Tx) error { return tx.AddToken(&workitem.Token{ID: id, Tenant: "t"}) })
}

func tokens(ctx context.Context, s workitem.Store) (ids []string, err error) {
	err = s.View(ctx, func(r workitem.Reader) error {
		list, err := r.Tokens("")
		ids = nil
		for _, k := range list {
			ids = append(ids, k.ID)
		}
		return err
	})
	return ids, err
}

// Several servers that start at the same time on an empty database make one schema,
// and all of them work on it.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	const servers = 4
	var group sync.WaitGroup
	for n := range servers {
		group.Go(func() {
			s, err := try(t, url)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(addToken(t.Context(), s, fmt.Sprint(n)), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	ids, err := tokens(t.Context(), mustOpen(t, url))
	if err != nil || len(ids) != servers {
		t.Errorf("%d servers have left the tokens %q, error %v", servers, ids, err)
	}
	if got := ask(t, url, "SELECT count(*)::text FROM writ.migrations"); got != "1" {
		t.Errorf("the schema has had %s migrations", got)
	}
}

// Two stores in two schemas of one database know nothing of each other, and one that
// is opened again has what it had.
func TestSchemas(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	other := with(t, url, "schema", `Team "A"`)
	for _, c := range []struct{ url, id string }{{url, "first"}, {other, "second"}} {
		s, err := try(t, c.url)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(addToken(t.Context(), s, c.id), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ url, id string }{{url, "first"}, {other, "second"}} {
		if ids, err := tokens(t.Context(), mustOpen(t, c.url)); err != nil || len(ids) != 1 || ids[0] != c.id {
			t.Errorf("the schema with %s has %q, error %v", c.id, ids, err)
		}
	}
}

// What is not a store of this version is refused, and stays as it was.
func TestRefusedSchemas(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t, pgtest.Options{})
	for name, c := range map[string]struct {
		before []string // on an empty database
		after  []string // on a store
		want   error
		text   string
	}{
		"tables of something else": {
			before: []string{"CREATE SCHEMA writ", "CREATE TABLE writ.t (a int)"}, want: postgres.ErrForeign, text: "?schema=",
		},
		"migrations of something else": {
			before: []string{"CREATE SCHEMA writ", "CREATE TABLE writ.migrations (version text)"}, want: postgres.ErrForeign,
		},
		"a newer version": {
			after: []string{"INSERT INTO writ.migrations (number, name, sum) VALUES (2, 'later', 'abc')"}, want: postgres.ErrNewerSchema,
			text: "it has migration 2, this version knows 1",
		},
		"a changed migration": {
			after: []string{"UPDATE writ.migrations SET sum = 'abc' WHERE number = 1"}, want: postgres.ErrChangedSchema, text: "number 1",
		},
		"a missing migration": {
			after: []string{"UPDATE writ.migrations SET number = 2"}, want: postgres.ErrChangedSchema, text: "migration 1 is missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server.Database(t)
			run(t, url, c.before...)
			if len(c.after) > 0 {
				s, err := try(t, url)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				run(t, url, c.after...)
			}
			before := everything(t, url)
			s, err := try(t, url)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it was opened"), s.Close()))
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("refused with %v, expected %v with %q", err, c.want, c.text)
			}
			if after := everything(t, url); after != before {
				t.Errorf("the database was\n%s\nand is now\n%s", before, after)
			}
		})
	}
}

// An empty schema that somebody has made for the store is taken.
func TestEmptySchema(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	run(t, url, "CREATE SCHEMA writ")
	if err := addToken(t.Context(), mustOpen(t, url), "x"); err != nil {
		t.Error(err)
	}
}

func TestUnsafeServer(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{}).Database(t)
	_, err := postgres.Open(t.Context(), postgres.Options{URL: url})
	if !errors.Is(err, postgres.ErrUnsafe) || !strings.Contains(err.Error(), "fsync is off") {
		t.Errorf("a server without fsync: %v", err)
	}
	url = pgtest.Shared(t, pgtest.Options{Settings: "full_page_writes=off", Durable: true}).Database(t)
	_, err = postgres.Open(t.Context(), postgres.Options{URL: url})
	if !errors.Is(err, postgres.ErrUnsafe) || !strings.Contains(err.Error(), "full_page_writes is off") {
		t.Errorf("a server without full_page_writes: %v", err)
	}
}

// A commit waits for the disk, whatever server, role and URL say.
func TestSynchronousCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t, pgtest.Options{Durable: true, Settings: "synchronous_commit=off"}).Database(t)
	run(t, url, "CREATE SCHEMA writ", `CREATE FUNCTION public.commits() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN NEW.name := current_setting('synchronous_commit'); RETURN NEW; END $$`)
	for at, want := range map[string]string{"off": "on", "local": "on", "remote_apply": "remote_apply"} {
		s, err := postgres.Open(t.Context(), postgres.Options{URL: with(t, url, "synchronous_commit", at)})
		if err != nil {
			t.Fatal(err)
		}
		run(t, url, "CREATE OR REPLACE TRIGGER commits BEFORE INSERT ON writ.tokens FOR EACH ROW EXECUTE FUNCTION public.commits()")
		if err := errors.Join(addToken(t.Context(), s, at), s.Close()); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, url, "SELECT name FROM writ.tokens WHERE id = '"+at+"'"); got != want {
			t.Errorf("with %s in the URL a commit has synchronous_commit = %s, expected %s", at, got, want)
		}
	}
}

func TestUnsuitableDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t, pgtest.Options{})
	url := server.Database(t)
	name := database(t, url)
	run(t, server.URL("postgres"), "DROP DATABASE "+name, "CREATE DATABASE "+name+" ENCODING 'LATIN1' TEMPLATE template0")
	_, err := try(t, url)
	if !errors.Is(err, postgres.ErrUnsuitable) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("a database without UTF-8: %v", err)
	}
}

func TestReplica(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	url := server.Database(t)
	data := ask(t, url, "SHOW data_directory")
	server.Stop(t)
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server.Restart(t)
	if _, err := try(t, url); !errors.Is(err, postgres.ErrUnsuitable) || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a replica: %v", err)
	}
	server.Stop(t) // its databases can't be removed
}

// TestRefusedConnections has the text of what a person sees. None has the password.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	const password = "s3c:r@t/%pw"
	server := pgtest.Start(t, pgtest.Options{Password: password})
	good := server.Database(t)
	dir := ask(t, good, "SHOW unix_socket_directories")
	replace := func(old, by string) string { return strings.Replace(good, old, by, 1) }
	for name, c := range map[string]struct {
		url  string
		want error
		text string
	}{
		"password": {
			replace(url.UserPassword("writ", password).String(), url.UserPassword("writ", "wrong"+password).String()), postgres.ErrUnreachable,
			`no connection to the PostgreSQL server: failed to connect to ` + "`user=writ database=test1`" + `: DIR/.s.PGSQL.5432 (DIR): failed SASL auth: FATAL: password authentication failed for user "writ" (SQLSTATE 28P01)`,
		},
		"database": {
			replace("/test1?", "/other?"), postgres.ErrUnreachable,
			`no connection to the PostgreSQL server: failed to connect to ` + "`user=writ database=other`" + `: DIR/.s.PGSQL.5432 (DIR): server error: FATAL: database "other" does not exist (SQLSTATE 3D000)`,
		},
		"port": {
			replace("5432", "5433"), postgres.ErrUnreachable,
			`no connection to the PostgreSQL server: failed to connect to ` + "`user=writ database=test1`" + `: DIR/.s.PGSQL.5433 (DIR): dial error: dial unix DIR/.s.PGSQL.5433: connect: no such file or directory`,
		},
		"percent": {
			"postgres://writ:" + password + "@localhost/test1", postgres.ErrURL, badURL,
		},
		"port that is none": {
			"postgres://writ:" + url.PathEscape(password) + "@localhost:port/test1", postgres.ErrURL, badURL,
		},
		"pairs":   {"user=writ password='" + password + " database=x", postgres.ErrURL, badURL},
		"another": {"mysql://writ:" + password + "@localhost/x", postgres.ErrURL, badURL},
		"pool": {
			with(t, good, "pool_max_conns", "2"), postgres.ErrURL,
			"not the URL of a PostgreSQL database: pool_max_conns must be at least 5, one for each writer and one for views",
		},
		"schema": {
			with(t, good, "schema", "pg_writ"), postgres.ErrURL,
			`not the URL of a PostgreSQL database: the schema "pg_writ" must have at most 63 bytes and not begin with pg_`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := try(t, c.url)
			if err == nil {
				t.Fatal("it was opened")
			}
			text := strings.ReplaceAll(err.Error(), dir, "DIR")
			if !errors.Is(err, c.want) || text != c.text {
				t.Errorf("refused with\n%s\nexpected\n%s", text, c.text)
			}
			if strings.Contains(text, "c:r") || strings.Contains(text, url.PathEscape(password)) || strings.Contains(text, "wrong") {
				t.Errorf("the password is shown: %s", text)
			}
		})
	}
}

const badURL = "not the URL of a PostgreSQL database; one is postgres://USER:PASSWORD@HOST:5432/DATABASE, where characters like @ and / of the password are written as %40 and %2F"

// A store goes on after its server was stopped or killed and started again, and keeps
// what it has acknowledged.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	s := mustOpen(t, server.Database(t))
	want := []string{}
	add := func(id string) {
		t.Helper()
		if err := addToken(t.Context(), s, id); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	check := func(when string) {
		t.Helper()
		if got, err := tokens(t.Context(), s); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s there are %q, expected %q, error %v", when, got, want, err)
		}
	}
	add("a")
	check("before")
	server.Stop(t)
	gone, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if ids, err := tokens(gone, s); err == nil {
		t.Errorf("without a server there are %q", ids)
	}
	// A view that has begun while the server is away is answered once it is back.
	done := make(chan error, 1)
	go func() {
		_, err := tokens(t.Context(), s)
		done <- err
	}()
	server.Restart(t)
	if err := <-done; err != nil {
		t.Errorf("a view during the restart: %v", err)
	}
	check("after a stop")
	add("b")
	check("after a write")
	server.Kill(t)
	server.Restart(t)
	check("after a kill")
	add("c")
	check("at the end")
}

// With a deadline an open waits for a server that is not there yet.
func TestOpenWaits(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	url := server.Database(t)
	server.Stop(t)
	if _, err := try(t, url); !errors.Is(err, postgres.ErrUnreachable) {
		t.Errorf("without a server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		s, err := postgres.Open(ctx, postgres.Options{URL: url, AllowUnsafe: true})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	server.Restart(t)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// A closed store refuses views, and a view whose caller has gone is not run.
func TestViewsThatAreRefused(t *testing.T) {
	t.Parallel()
	s, err := try(t, pgtest.Shared(t, pgtest.Options{}).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = s.View(ctx, func(workitem.Reader) error {
		t.Error("the view runs")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled view: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = tokens(t.Context(), s)
	var refusal *workitem.Error
	if !errors.As(err, &refusal) || refusal.Code != workitem.AuthorityUnavailable {
		t.Errorf("a view of a closed store: %v", err)
	}
	// Now can't say so, but the view does.
	err = s.View(t.Context(), func(r workitem.Reader) error {
		r.Now()
		return nil
	})
	if !errors.As(err, &refusal) || refusal.Code != workitem.AuthorityUnavailable {
		t.Errorf("a view of a closed store that asks for the time: %v", err)
	}
}
