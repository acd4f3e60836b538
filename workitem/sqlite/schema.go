package sqlite

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Errors of opening a store. Each comes wrapped with the path.
var (
	// ErrLocked is returned when another process has the store open.
	ErrLocked = errors.New("is in use by another process")
	// ErrCorrupt is returned for a file that SQLite finds damaged as it is opened.
	ErrCorrupt = errors.New("is damaged")
	// ErrForeign is returned for a file that is not a store of work items.
	ErrForeign = errors.New("is not a store of work items")
	// ErrNewerSchema is returned, and nothing touched, when a newer version has
	// written the file.
	ErrNewerSchema = errors.New("was written by a newer version")
	// ErrChangedSchema is returned when a migration that the file has had is not
	// the one of this version.
	ErrChangedSchema = errors.New("has a schema that no version has made")
	// ErrUnwritable is returned when the file can't be written, most often because
	// its disk is full.
	ErrUnwritable = errors.New("can't be written: is there room on the disk, and is it writable?")
	// ErrUnsuitable is returned for a path on which no store can be kept safely.
	ErrUnsuitable = errors.New("is no place for a store")
)

// applicationID marks the file as ours, in the header of SQLite's format: "Writ".
const applicationID = 0x57726974

// migration is one step of the schema. Its text is never changed once a release
// has it: the file keeps the checksum.
type migration struct {
	name string
	sql  string
}

func (m *migration) checksum() []byte {
	sum := sha256.Sum256([]byte(m.sql))
	return sum[:]
}

// migrations are applied in order, forward only.
//
// items has what changes in the life of a job, records what never does. Indexes
// end in (created, id), the order of listings; one without a filter walks all
// statuses. claimable_at is 0 while a row may
// be claimed, the instant from which on it may be, or null: so the claim index has
// no row that lies in the way. due is the deadline or the largest integer, and
// consent_until the instant at which the gate closes.
var migrations = []migration{{
	name: "work items",
	sql: `
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tenants (
	tenant INTEGER PRIMARY KEY,
	name   TEXT NOT NULL UNIQUE
);

CREATE TABLE items (
	item             INTEGER PRIMARY KEY,
	id               BLOB    NOT NULL,
	tenant           INTEGER NOT NULL,
	kind             INTEGER NOT NULL,
	status           INTEGER NOT NULL,
	created          INTEGER NOT NULL,
	updated          INTEGER NOT NULL,
	completed        INTEGER NOT NULL,
	repository       TEXT    NOT NULL,
	owner            TEXT    NOT NULL,
	fairness         TEXT    NOT NULL,
	class            TEXT    NOT NULL,
	bucket           INTEGER NOT NULL,
	priority         INTEGER NOT NULL,
	due              INTEGER NOT NULL,
	depends_on       BLOB,
	dep_count        INTEGER NOT NULL,
	dep_state        INTEGER NOT NULL DEFAULT 0,
	attempt          INTEGER NOT NULL,
	max_attempts     INTEGER NOT NULL,
	backoff          INTEGER NOT NULL,
	next_retry       INTEGER NOT NULL,
	claimable_at     INTEGER,
	lease_owner      TEXT,
	lease_principal  TEXT,
	lease_epoch      INTEGER NOT NULL,
	fencing_token    INTEGER NOT NULL,
	lease_expires    INTEGER NOT NULL,
	heartbeat        INTEGER NOT NULL,
	last_lease_owner TEXT,
	checkpoint       TEXT,
	result_ref       TEXT,
	error_ref        TEXT,
	cancel_reason    TEXT,
	defer_count      INTEGER NOT NULL,
	consent_required INTEGER NOT NULL,
	consent_granted  INTEGER NOT NULL,
	consent_expires  INTEGER NOT NULL,
	consent_until    INTEGER NOT NULL
);
CREATE UNIQUE INDEX items_id ON items (id);
CREATE INDEX items_status ON items (tenant, status, created, id);
CREATE INDEX items_kind ON items (tenant, kind, created, id);
CREATE INDEX items_repository ON items (tenant, repository, created, id);
CREATE INDEX items_owner ON items (tenant, owner, created, id);
CREATE INDEX items_claim ON items (tenant, kind, bucket, fairness, class, priority DESC, due, created, id, consent_until)
	WHERE claimable_at = 0;
CREATE INDEX items_due ON items (tenant, kind, due) WHERE claimable_at = 0 AND due < 9223372036854775807;
CREATE INDEX items_wake ON items (tenant, kind, claimable_at) WHERE claimable_at > 0;
CREATE INDEX items_unverified ON items (tenant, created, id) WHERE dep_state = 0 AND status = 1;
CREATE INDEX items_faulty ON items (tenant) WHERE dep_state = 2;

CREATE TABLE records (
	item        INTEGER PRIMARY KEY,
	digest      BLOB NOT NULL,
	loose       BLOB NOT NULL,
	key         BLOB NOT NULL,
	correlation TEXT NOT NULL,
	request     TEXT NOT NULL,
	lane        TEXT,
	candidate   TEXT,
	generation  TEXT,
	trace       TEXT,
	metadata    TEXT NOT NULL
);

CREATE TABLE labels (
	tenant  INTEGER NOT NULL,
	label   INTEGER NOT NULL,
	value   TEXT    NOT NULL,
	created INTEGER NOT NULL,
	id      BLOB    NOT NULL,
	item    INTEGER NOT NULL,
	PRIMARY KEY (tenant, label, value, created, id)
) WITHOUT ROWID;

CREATE TABLE edges (
	parent BLOB NOT NULL,
	child  BLOB NOT NULL,
	PRIMARY KEY (parent, child)
) WITHOUT ROWID;

CREATE TABLE history (
	item        INTEGER NOT NULL,
	seq         INTEGER NOT NULL,
	at          INTEGER NOT NULL,
	event       TEXT    NOT NULL,
	from_status INTEGER NOT NULL,
	to_status   INTEGER NOT NULL,
	epoch       INTEGER NOT NULL,
	subject     TEXT,
	detail      TEXT,
	PRIMARY KEY (item, seq)
) WITHOUT ROWID;

CREATE TABLE counts (
	tenant INTEGER NOT NULL,
	kind   INTEGER NOT NULL,
	status INTEGER NOT NULL,
	items  INTEGER NOT NULL,
	PRIMARY KEY (tenant, kind, status)
) WITHOUT ROWID;

CREATE TABLE turns (
	tenant   INTEGER NOT NULL,
	kind     INTEGER NOT NULL,
	bucket   INTEGER NOT NULL,
	fairness TEXT    NOT NULL,
	more     INTEGER NOT NULL,
	PRIMARY KEY (tenant, kind, bucket)
) WITHOUT ROWID;

CREATE TABLE claims (
	tenant   INTEGER NOT NULL,
	subject  TEXT    NOT NULL,
	request  TEXT    NOT NULL,
	id       BLOB    NOT NULL,
	epoch    INTEGER NOT NULL,
	worker   TEXT    NOT NULL,
	kind     INTEGER NOT NULL,
	class    TEXT    NOT NULL,
	fairness TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	PRIMARY KEY (tenant, subject, request)
) WITHOUT ROWID;
CREATE INDEX claims_at ON claims (at);

CREATE TABLE tombstones (
	id     BLOB PRIMARY KEY,
	tenant INTEGER NOT NULL,
	kind   INTEGER NOT NULL,
	status INTEGER NOT NULL,
	owner  TEXT    NOT NULL,
	digest BLOB    NOT NULL,
	loose  BLOB    NOT NULL,
	pruned INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tokens (
	id      TEXT PRIMARY KEY,
	name    TEXT    NOT NULL,
	hash    BLOB    NOT NULL,
	subject TEXT    NOT NULL,
	tenant  TEXT    NOT NULL,
	owner   TEXT    NOT NULL,
	scopes  INTEGER NOT NULL,
	created INTEGER NOT NULL,
	revoked INTEGER NOT NULL
) WITHOUT ROWID;
`,
}}

// check says which version of the schema a file has. A file of a newer one, and a
// file that is something else, is refused; nothing is written.
func check(c *sqlite.Conn, steps []migration) (version int64, err error) {
	version, err = pragma(c, "user_version")
	if err != nil {
		return 0, err
	}
	id, err := pragma(c, "application_id")
	if err != nil {
		return 0, err
	}
	tables := int64(0)
	err = sqlitex.ExecuteTransient(c, "SELECT count(*) FROM sqlite_schema", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { tables = s.ColumnInt64(0); return nil },
	})
	switch {
	case err != nil:
		return 0, err
	case tables > 0 && id != applicationID:
		return 0, ErrForeign
	case version > int64(len(steps)):
		return 0, fmt.Errorf("%w: its schema is %d, this version knows %d", ErrNewerSchema, version, len(steps))
	}
	for n := int64(1); n <= version; n++ {
		if err := checkMigration(c, n, &steps[n-1]); err != nil {
			return 0, err
		}
	}
	return version, nil
}

// migrate brings a file that was checked to the schema of this version.
func migrate(c *sqlite.Conn, version int64, steps []migration) error {
	for n := version + 1; n <= int64(len(steps)); n++ {
		if err := applyMigration(c, n, &steps[n-1]); err != nil {
			return fmt.Errorf("migration %d (%s): %w", n, steps[n-1].name, err)
		}
	}
	return nil
}

func checkMigration(c *sqlite.Conn, n int64, m *migration) error {
	found := false
	err := sqlitex.ExecuteTransient(c, "SELECT checksum FROM migrations WHERE number = ?", &sqlitex.ExecOptions{
		Args: []any{n},
		ResultFunc: func(s *sqlite.Stmt) error {
			sum := make([]byte, s.ColumnLen(0))
			s.ColumnBytes(0, sum)
			found = bytes.Equal(sum, m.checksum())
			return nil
		},
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: migration %d differs", ErrChangedSchema, n)
	}
	return err
}

func applyMigration(c *sqlite.Conn, n int64, m *migration) (err error) {
	defer sqlitex.Save(c)(&err)
	if n == 1 {
		err = sqlitex.ExecuteScript(c, fmt.Sprintf(`PRAGMA application_id = %d;
			CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum BLOB NOT NULL);`, applicationID), nil)
		if err != nil {
			return err
		}
	}
	if err := sqlitex.ExecuteScript(c, m.sql, nil); err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(c, "INSERT INTO migrations (number, name, checksum) VALUES (?, ?, ?)", &sqlitex.ExecOptions{
		Args: []any{n, m.name, m.checksum()},
	})
	if err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(c, fmt.Sprintf("PRAGMA user_version = %d", n), nil)
}

// pragma reads an integer setting.
func pragma(c *sqlite.Conn, name string) (v int64, err error) {
	err = sqlitex.ExecuteTransient(c, "PRAGMA "+name, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { v = s.ColumnInt64(0); return nil },
	})
	return v, err
}
