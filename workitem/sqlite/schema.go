package sqlite

import "github.com/writ-authority/writ/internal/sqlitefile"

// Errors of opening a store. Each comes wrapped with the path.
var (
	// ErrLocked is returned when another process has the store open.
	ErrLocked = sqlitefile.ErrLocked
	// ErrCorrupt is returned for a file that SQLite finds damaged as it is opened.
	ErrCorrupt = sqlitefile.ErrCorrupt
	// ErrForeign is returned for a file that is not a store of work items.
	ErrForeign = sqlitefile.ErrForeign
	// ErrNewerSchema is returned, and nothing touched, when a newer version has
	// written the file.
	ErrNewerSchema = sqlitefile.ErrNewerSchema
	// ErrChangedSchema is returned when a migration that the file has had is not
	// the one of this version.
	ErrChangedSchema = sqlitefile.ErrChangedSchema
	// ErrUnwritable is returned when the file can't be written, most often because
	// its disk is full.
	ErrUnwritable = sqlitefile.ErrUnwritable
	// ErrUnsuitable is returned for a path on which no store can be kept safely.
	ErrUnsuitable = sqlitefile.ErrUnsuitable
)

// format is the file of a store.
//
// items has what changes in the life of a job, records what never does. Indexes
// end in (created, id), the order of listings; one without a filter walks all
// statuses. claimable_at is 0 while a row may
// be claimed, the instant from which on it may be, or null: so the claim index has
// no row that lies in the way. due is the deadline or the largest integer, and
// consent_until the instant at which the gate closes.
var format = sqlitefile.Format{
	Name: "a store of work items",
	ID:   0x57726974, // "Writ"
	Migrations: []sqlitefile.Migration{{
		Name: "work items",
		SQL: `
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
	}},
}
