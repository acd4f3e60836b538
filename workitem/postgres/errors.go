package postgres

import (
	"errors"

	"github.com/writ-authority/writ/workitem"
)

// Errors of opening a store. None of them shows the password of the URL.
var (
	// ErrURL is returned for a URL that does not name a database.
	ErrURL = errors.New("not the URL of a PostgreSQL database")
	// ErrUnreachable is returned when the server can't be reached or refuses the
	// connection.
	ErrUnreachable = errors.New("no connection to the PostgreSQL server")
	// ErrTooOld is returned for a server older than version 15.
	ErrTooOld = errors.New("PostgreSQL 15 or later is needed")
	// ErrUnsafe is returned for a server that acknowledges what a crash can take
	// back.
	ErrUnsafe = errors.New("the PostgreSQL server may lose what it has acknowledged")
	// ErrUnsuitable is returned for a database that can't hold a store: a replica, or
	// one whose texts are not UTF-8.
	ErrUnsuitable = errors.New("the database can't hold work items")
	// ErrForeign is returned for a schema that has tables of something else.
	ErrForeign = errors.New("the schema is not a store of work items")
	// ErrNewerSchema is returned, and nothing touched, when a newer version has
	// written the schema.
	ErrNewerSchema = errors.New("the schema was written by a newer version")
	// ErrChangedSchema is returned when a migration that the database has had is not
	// the one of this version.
	ErrChangedSchema = errors.New("a migration of the schema is not the one of this version")
)

// unavailable is the refusal of a store that can't be written or read.
func unavailable(message string, cause error) *workitem.Error {
	return &workitem.Error{Code: workitem.AuthorityUnavailable, Message: message, Err: cause}
}
