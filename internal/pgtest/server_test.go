package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/internal/pgtest"
)

// run connects, runs a statement and returns its only value.
func run(t *testing.T, url, sql string) (value string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, errors.Join(err, conn.Close(ctx))
}

func mustRun(t *testing.T, url, sql string) string {
	t.Helper()
	value, err := run(t, url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// create makes a table.
func create(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "CREATE TABLE t (x text)")
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t, pgtest.Options{})
	if other := pgtest.Shared(t, pgtest.Options{}); other != s {
		t.Error("the same options have two servers")
	}
	a, b := s.Database(t), s.Database(t)
	create(t, a)
	if got := mustRun(t, b, "SELECT count(*)::text FROM pg_tables WHERE tablename = 't'"); got != "0" {
		t.Error("another database has the same table")
	}
	var url string
	t.Run("inner", func(t *testing.T) {
		url = s.Database(t)
		// A connection does not keep it.
		if _, err := pgx.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	})
	if got, err := run(t, url, "SELECT current_database()"); err == nil {
		t.Errorf("the database %s has outlived its test", got)
	}
}

// What was committed is there after the server was stopped or killed.
func TestStopAndKill(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{Durable: true})
	url := s.Database(t)
	if got := mustRun(t, url, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
	create(t, url)
	mustRun(t, url, "INSERT INTO t VALUES ('first') RETURNING x")
	s.Stop(t)
	if _, err := run(t, url, "SELECT 'x'"); err == nil {
		t.Error("a stopped server answers")
	}
	s.Restart(t)
	mustRun(t, url, "INSERT INTO t VALUES ('second') RETURNING x")
	s.Kill(t)
	if _, err := run(t, url, "SELECT 'x'"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if got := mustRun(t, url, "SELECT string_agg(x, ' ' ORDER BY x) FROM t"); got != "first second" {
		t.Errorf("the table has %q, expected both rows", got)
	}
	if !strings.Contains(s.Log(), "automatic recovery in progress") {
		t.Errorf("after a kill the log has no recovery:\n%s", s.Log())
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Options{Password: "s3cret"})
	url := s.Database(t)
	if got := mustRun(t, url, "SELECT current_user::text"); got != "writ" {
		t.Errorf("connected as %s", got)
	}
	if _, err := run(t, strings.Replace(url, "s3cret", "other", 1), "SELECT 'x'"); err == nil {
		t.Error("a wrong password is taken")
	}
}

// TestServersEndWithTheProcess kills a process that has a server: neither the server
// nor its directory is left.
func TestServersEndWithTheProcess(t *testing.T) {
	t.Parallel()
	const mark = "directory of the server: "
	if os.Getenv("WRIT_PGTEST_CHILD") == "1" {
		s := pgtest.Start(t, pgtest.Options{})
		conn, err := pgx.Connect(t.Context(), s.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString(mark + conn.Config().Host + "\n")
		select {} // until it is killed
	}
	pgtest.Shared(t, pgtest.Options{}) // skips without PostgreSQL
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersEndWithTheProcess$", "-test.timeout=5m")
	child.Env = append(os.Environ(), "WRIT_PGTEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	dir := ""
	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		if _, after, ok := strings.Cut(lines.Text(), mark); ok {
			dir = after
		}
	}
	if dir == "" {
		t.Fatal("the process has not started a server")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is still there", dir)
		}
		// The directory is removed last, after the server has ended.
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}
