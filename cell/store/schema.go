package store

import "github.com/writ-authority/writ/internal/sqlitefile"

// pageSize is twice what SQLite would choose: a commit is some 12 KB in one row, and
// each page of the log costs two writes.
const pageSize = 8192

// format is the file of a store. Its number is "WriC".
//
// Each pack has the new content of one write, or a part of it. runs and pages are the
// index of those up to a floor; the packs after that are read when the store is
// opened. Every row of cells, history, requests and claims has a check of what it
// says, and tally their numbers and the sums of their checks, so that a row that was
// changed is noticed when it is read, and one that is gone when the store is verified.
var format = sqlitefile.Format{
	Name:     "a store of cells",
	ID:       0x57726943,
	PageSize: pageSize,
	Migrations: []sqlitefile.Migration{{
		Name: "cells",
		SQL: `
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE packs (
	pack INTEGER PRIMARY KEY,
	data BLOB NOT NULL
);

CREATE TABLE pages (
	page INTEGER PRIMARY KEY,
	data BLOB NOT NULL
);

CREATE TABLE runs (
	run  INTEGER PRIMARY KEY,
	data BLOB NOT NULL
);

CREATE TABLE cells (
	number INTEGER PRIMARY KEY,
	cell   BLOB    NOT NULL UNIQUE,
	head   INTEGER NOT NULL,
	"commit" BLOB  NOT NULL,
	mark   INTEGER NOT NULL
);

CREATE TABLE history (
	cell     INTEGER NOT NULL,
	head     INTEGER NOT NULL,
	"commit" BLOB    NOT NULL,
	mark     INTEGER NOT NULL,
	PRIMARY KEY (cell, head)
) WITHOUT ROWID;

CREATE TABLE requests (
	cell        INTEGER NOT NULL,
	request     BLOB    NOT NULL,
	head        INTEGER NOT NULL,
	"commit"    BLOB    NOT NULL,
	fingerprint BLOB    NOT NULL,
	mark        INTEGER NOT NULL,
	PRIMARY KEY (cell, request)
) WITHOUT ROWID;

CREATE TABLE claims (
	request BLOB PRIMARY KEY,
	event   BLOB    NOT NULL,
	mark    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tally (
	one          INTEGER PRIMARY KEY CHECK (one = 1),
	packs        INTEGER NOT NULL,
	pack_marks   INTEGER NOT NULL,
	items        INTEGER NOT NULL,
	bytes        INTEGER NOT NULL,
	cells        INTEGER NOT NULL,
	cell_marks   INTEGER NOT NULL,
	commits      INTEGER NOT NULL,
	commit_marks INTEGER NOT NULL,
	requests     INTEGER NOT NULL,
	request_marks INTEGER NOT NULL,
	claims       INTEGER NOT NULL,
	claim_marks  INTEGER NOT NULL
);
INSERT INTO tally VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
`,
	}},
}
