package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
)

func sqlError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// poolSized says that a URL bounds the pool itself.
func poolSized(url string) bool { return strings.Contains(url, "pool_max_conns") }

// prepare checks the server and brings the schema up to date, on a connection of its
// own.
func prepare(ctx context.Context, cfg *pgxpool.Config, schema string, unsafe bool) error {
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig.Copy())
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

// checkServer refuses servers that can't keep the promises of a store.
func checkServer(ctx context.Context, conn *pgx.Conn, unsafe bool) error {
	setting := func(name string) (value string, err error) {
		// YugabyteDB and CockroachDB have most of these, but not all.
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
	if unsafe {
		return nil
	}
	for _, name := range []string{"fsync", "full_page_writes"} {
		value, err := setting(name)
		if err != nil {
			return unreachable(err)
		}
		if value == "off" {
			return fmt.Errorf("%w: its setting %s is off; turn it on", ErrUnsafe, name)
		}
	}
	return nil
}

// migrate brings the schema up to date. Whoever comes first does it, the others
// wait.
func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
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
