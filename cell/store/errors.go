package store

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/internal/sqlitefile"
)

// Errors of opening a store. Each comes wrapped with the path.
var (
	// ErrLocked is returned when another process has the store open.
	ErrLocked = sqlitefile.ErrLocked

	// ErrCorrupt is returned for a file that SQLite finds damaged as it is opened.
	ErrCorrupt = sqlitefile.ErrCorrupt

	// ErrForeign is returned for a file that is not a store of cells.
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

	// ErrCopied is returned for a copy that was made while a process had the store
	// open, and that has not all of it as it was at one moment.
	ErrCopied = errors.New("was copied while it was in use")

	// ErrNoLog is returned for such a copy if the log, the file -wal, was not copied
	// with it: what was written last is in the log only.
	ErrNoLog = errors.New("was copied while it was in use, and without its log, the file -wal beside it")
)

// failed is the error of an operation that SQLite refuses: cell.ErrCorrupt for a file
// that is damaged, cell.ErrStore for everything else but an interrupted call.
func failed(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cell.ErrCorrupt), errors.Is(err, cell.ErrStore), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultInterrupt:
		if ctx.Err() != nil {
			return ctx.Err()
		}
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return fmt.Errorf("%w: %s: %w", cell.ErrCorrupt, what, err)
	}
	return fmt.Errorf("%w: %s: %w", cell.ErrStore, what, err)
}
