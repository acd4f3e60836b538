package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// migration is one step of the schema.
type migration struct{ name, sql string }

func (m *migration) sum() string {
	h := sha256.Sum256([]byte(m.sql))
	return hex.EncodeToString(h[:])
}

// schemaLock is the advisory lock under which the schema changes; "Writ".
const schemaLock = 0x57726974

// oldest is the first server version that will do, as server_version_num has it.
const oldest = 150000

// Codes of PostgreSQL that mean something here.
const (
	divisionByZero       = "22012"
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
	readOnly             = "25006"
	cannotConnectNow     = "57P03"
)

func sqlError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// prepare checks the server and brings the schema up to date, on a connection of its
// own.
func prepare(ctx context.Context, cfg *pgxpool.Config, schema string, unsafe bool) error {
	conn, err := connect(ctx, cfg.ConnConfig)
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = conn.Close(ctx) }() // whatever was decided is committed
	if err := checkServer(ctx, conn, unsafe); err != nil {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	if err := migrate(ctx, tx, schema); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// connect connects to a server, which may be starting up. If ctx has a deadline, a
// server that can't be reached is tried again until then.
func connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	limit := ctx
	_, patient := ctx.Deadline()
	if !patient {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, connectWithin)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		conn, err := pgx.ConnectConfig(ctx, cfg.Copy())
		starting := isCode(err, cannotConnectNow)
		if err == nil || !starting && (!patient || sqlError(err) != nil) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-limit.Done():
			return nil, err
		}
	}
}

// checkServer refuses servers and databases that can't keep the promises of a store.
func checkServer(ctx context.Context, conn *pgx.Conn, unsafe bool) error {
	setting := func(name string) (value string, err error) {
		err = conn.QueryRow(ctx, "SELECT coalesce(current_setting($1, true), '')", name).Scan(&value)
		return value, err
	}
	version, err := setting("server_version_num")
	if err != nil {
		return unreachable(err)
	}
	if n, err := strconv.Atoi(version); err != nil || n < oldest {
		text, err := setting("server_version")
		return errors.Join(fmt.Errorf("%w: this is %s", ErrTooOld, text), err)
	}
	for _, c := range []struct {
		name, bad string // the setting, and what it must not be
		why       error
		what      string
	}{
		{"fsync", "off", ErrUnsafe, "its setting fsync is off; turn it on"},
		{"full_page_writes", "off", ErrUnsafe, "its setting full_page_writes is off; turn it on"},
		{"in_hot_standby", "on", ErrUnsuitable, "it is a replica, which can't be written; name the primary server"},
	} {
		value, err := setting(c.name)
		if err != nil {
			return unreachable(err)
		}
		if value == c.bad && !(unsafe && c.why == ErrUnsafe) {
			return fmt.Errorf("%w: %s", c.why, c.what)
		}
	}
	encoding, err := setting("server_encoding")
	if err != nil {
		return unreachable(err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w: its encoding is %s; make one with ENCODING 'UTF8'", ErrUnsuitable, encoding)
	}
	return nil
}

// migrate brings the schema up to date. Whoever comes first does it, the others
// wait.
func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	// How long that takes is for ctx to say.
	for _, text := range []string{"SET LOCAL lock_timeout = 0", "SET LOCAL statement_timeout = 0"} {
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
		return err
	}
	var tables int
	var ours bool
	err := tx.QueryRow(ctx, `SELECT count(*), coalesce(bool_or(tablename = 'migrations'), false) FROM pg_tables WHERE schemaname = $1`,
		schema).Scan(&tables, &ours)
	if err != nil {
		return err
	}
	if !ours {
		if tables > 0 {
			return fmt.Errorf("%w: %q has tables of something else; ?schema=NAME in the URL names another", ErrForeign, schema)
		}
		if err := create(ctx, tx, schema); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, "SELECT number, sum FROM migrations ORDER BY number")
	if err != nil {
		return fmt.Errorf("%w: its table of migrations is another: %w", ErrForeign, err)
	}
	had := 0
	err = each(rows, func(r pgx.Rows) error {
		var number int
		var sum string
		if err := r.Scan(&number, &sum); err != nil {
			return err
		}
		switch had++; {
		case number != had:
			return fmt.Errorf("%w: migration %d is missing", ErrChangedSchema, had)
		case number > len(migrations):
			return fmt.Errorf("%w: it has migration %d, this version knows %d", ErrNewerSchema, number, len(migrations))
		case sum != migrations[number-1].sum():
			return fmt.Errorf("%w: number %d", ErrChangedSchema, number)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := had; i < len(migrations); i++ {
		m := &migrations[i]
		if _, err := tx.Exec(ctx, m.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migration %d (%s): %w", i+1, m.name, err)
		}
		if _, err := tx.Exec(ctx, "INSERT INTO migrations (number, name, sum) VALUES ($1, $2, $3)", i+1, m.name, m.sum()); err != nil {
			return err
		}
	}
	return nil
}

// create makes the schema, if it is missing, and the table of its migrations.
func create(ctx context.Context, tx pgx.Tx, schema string) error {
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return fmt.Errorf("the schema %q: %w", schema, err)
		}
	}
	_, err := tx.Exec(ctx, "CREATE TABLE migrations (number integer PRIMARY KEY, name text NOT NULL, sum text NOT NULL)")
	return err
}
