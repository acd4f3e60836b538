package postgres

// migrations make the tables, oldest first. A migration that a database has had
// never changes: its text is hashed into the schema.
//
// items has what never changes about a job, life what does. An update in
// PostgreSQL that changes an indexed column writes into every index of the table; life
// has few, and its primary key is a number given in the order of submission, so that
// the jobs of one time lie together.
//
// claimable_at is 0 while a job may be claimed, the instant from which on it may be, or
// null: so the claim index has no row that lies in the way. A held job whose time has
// run out joins the claim index with the next claim of its tenant; until then it is in
// life_held. due is the deadline or the largest integer, consent_until the instant at
// which the gate closes, events the number of rows in history.
//
// counts has a row for every writer, so that no two wait for each other; their sum is
// the count.
//
// writers has the number of the last transaction that each writer of each process has
// committed: whoever loses the connection while it commits finds out there whether it
// did. The latest instant there is one that no later one may precede.
//
// Instants are microseconds since 1970. Texts compare by their bytes.
var migrations = []migration{{
	name: "work items",
	sql: `
CREATE TABLE tenants (
	tenant bigint PRIMARY KEY,
	name   text COLLATE "C" NOT NULL UNIQUE
);

CREATE SEQUENCE items_item;

CREATE TABLE items (
	item             bigint PRIMARY KEY,
	id               bytea    NOT NULL,
	tenant           bigint   NOT NULL,
	kind             smallint NOT NULL,
	created          bigint   NOT NULL,
	repository       text COLLATE "C" NOT NULL,
	owner            text COLLATE "C" NOT NULL,
	backoff          bigint   NOT NULL,
	consent_required boolean  NOT NULL,
	digest           bytea    NOT NULL,
	loose            bytea    NOT NULL,
	key              bytea    NOT NULL,
	correlation      text COLLATE "C" NOT NULL,
	request          text COLLATE "C" NOT NULL,
	lane             text COLLATE "C",
	candidate        text COLLATE "C",
	generation       text COLLATE "C",
	trace            text COLLATE "C",
	metadata         bytea    NOT NULL
);
CREATE UNIQUE INDEX items_id ON items (id);
CREATE INDEX items_created ON items (tenant, created, id);
CREATE INDEX items_kind ON items (tenant, kind, created, id);
CREATE INDEX items_repository ON items (tenant, repository, created, id);
CREATE INDEX items_owner ON items (tenant, owner, created, id);

CREATE TABLE life (
	item             bigint PRIMARY KEY,
	id               bytea    NOT NULL,
	tenant           bigint   NOT NULL,
	kind             smallint NOT NULL,
	status           smallint NOT NULL,
	created          bigint   NOT NULL,
	updated          bigint   NOT NULL,
	completed        bigint   NOT NULL,
	fairness         text COLLATE "C" NOT NULL,
	class            text COLLATE "C" NOT NULL,
	bucket           smallint NOT NULL,
	priority         integer  NOT NULL,
	due              bigint   NOT NULL,
	depends_on       bytea,
	dep_count        integer  NOT NULL,
	dep_state        smallint NOT NULL,
	attempt          integer  NOT NULL,
	max_attempts     integer  NOT NULL,
	next_retry       bigint   NOT NULL,
	claimable_at     bigint,
	lease_owner      text COLLATE "C",
	lease_principal  text COLLATE "C",
	lease_epoch      bigint   NOT NULL,
	fencing_token    bigint   NOT NULL,
	lease_expires    bigint   NOT NULL,
	heartbeat        bigint   NOT NULL,
	last_lease_owner text COLLATE "C",
	checkpoint       text COLLATE "C",
	result_ref       text COLLATE "C",
	error_ref        text COLLATE "C",
	cancel_reason    text COLLATE "C",
	defer_count      integer  NOT NULL,
	consent_granted  bigint   NOT NULL,
	consent_expires  bigint   NOT NULL,
	consent_until    bigint   NOT NULL,
	events           integer  NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX life_status ON life (tenant, status, created, id);
CREATE INDEX life_claim ON life (tenant, kind, bucket, fairness, class, priority DESC, due, created, id)
	WHERE claimable_at = 0;
CREATE INDEX life_due ON life (tenant, kind, due) WHERE claimable_at = 0 AND due < 9223372036854775807;
CREATE INDEX life_wake ON life (tenant, kind, claimable_at) WHERE claimable_at > 0;
CREATE INDEX life_held ON life (tenant, lease_expires) WHERE status IN (3, 4) AND claimable_at IS NULL;
CREATE INDEX life_unverified ON life (tenant, created, id) WHERE dep_state = 0 AND status = 1;
CREATE INDEX life_faulty ON life (tenant) WHERE dep_state = 2;

CREATE TABLE labels (
	tenant  bigint   NOT NULL,
	label   smallint NOT NULL,
	value   text COLLATE "C" NOT NULL,
	created bigint   NOT NULL,
	id      bytea    NOT NULL,
	item    bigint   NOT NULL,
	PRIMARY KEY (tenant, label, value, created, id)
);

CREATE TABLE edges (
	parent bytea NOT NULL,
	child  bytea NOT NULL,
	PRIMARY KEY (parent, child)
);

CREATE TABLE history (
	item        bigint   NOT NULL,
	seq         integer  NOT NULL,
	at          bigint   NOT NULL,
	event       text COLLATE "C" NOT NULL,
	from_status smallint NOT NULL,
	to_status   smallint NOT NULL,
	epoch       bigint   NOT NULL,
	subject     text COLLATE "C",
	detail      text COLLATE "C",
	PRIMARY KEY (item, seq)
);

CREATE TABLE counts (
	tenant bigint   NOT NULL,
	kind   smallint NOT NULL,
	status smallint NOT NULL,
	slot   smallint NOT NULL,
	items  bigint   NOT NULL,
	PRIMARY KEY (tenant, kind, status, slot)
) WITH (fillfactor = 50);

CREATE TABLE turns (
	tenant   bigint   NOT NULL,
	kind     smallint NOT NULL,
	bucket   smallint NOT NULL,
	fairness text COLLATE "C" NOT NULL,
	more     integer  NOT NULL,
	PRIMARY KEY (tenant, kind, bucket)
) WITH (fillfactor = 50);

CREATE TABLE claims (
	tenant   bigint   NOT NULL,
	subject  text COLLATE "C" NOT NULL,
	request  text COLLATE "C" NOT NULL,
	id       bytea    NOT NULL,
	epoch    bigint   NOT NULL,
	worker   text COLLATE "C" NOT NULL,
	kind     smallint NOT NULL,
	class    text COLLATE "C" NOT NULL,
	fairness text COLLATE "C" NOT NULL,
	at       bigint   NOT NULL,
	PRIMARY KEY (tenant, subject, request)
);
CREATE INDEX claims_at ON claims (at);

CREATE TABLE tombstones (
	id     bytea PRIMARY KEY,
	tenant bigint   NOT NULL,
	kind   smallint NOT NULL,
	status smallint NOT NULL,
	owner  text COLLATE "C" NOT NULL,
	digest bytea    NOT NULL,
	loose  bytea    NOT NULL,
	pruned bigint   NOT NULL
);

CREATE TABLE tokens (
	id      text COLLATE "C" PRIMARY KEY,
	name    text COLLATE "C" NOT NULL,
	hash    bytea    NOT NULL,
	subject text COLLATE "C" NOT NULL,
	tenant  text COLLATE "C" NOT NULL,
	owner   text COLLATE "C" NOT NULL,
	scopes  bigint   NOT NULL,
	created bigint   NOT NULL,
	revoked bigint   NOT NULL
);

CREATE TABLE writers (
	writer text COLLATE "C" PRIMARY KEY,
	token  bigint NOT NULL,
	at     bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE meta (
	name  text COLLATE "C" PRIMARY KEY,
	value bigint NOT NULL
);
INSERT INTO meta (name, value) VALUES ('epoch', 0);
`,
}}
