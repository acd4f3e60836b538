package sqlitefile

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Format is what a file holds. Its first migration makes a table meta with a column
// name, which is the key, and an integer value.
type Format struct {
	Name       string // as in "is not a store of cells"
	ID         int32  // in the header of SQLite's format
	PageSize   int    // of a new file; 0 is 4096
	Migrations []Migration
}

// Migration is one step of a schema. Steps are applied in order, forward only, and
// the text of one is never changed once a release has it: the file keeps its
// checksum.
type Migration struct{ Name, SQL string }

func (m *Migration) checksum() []byte {
	sum := sha256.Sum256([]byte(m.SQL))
	return sum[:]
}

// check says which version of the schema a file has. A file of a newer one, and a
// file that is something else, is refused; nothing is written.
func (f *Format) check(c *sqlite.Conn) (version int64, err error) {
	version, err = integer(c, "PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	id, err := integer(c, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	tables, err := integer(c, "SELECT count(*) FROM sqlite_schema")
	switch {
	case err != nil:
		return 0, err
	case tables > 0 && id != int64(f.ID):
		return 0, f.foreign()
	case version > int64(len(f.Migrations)):
		return 0, fmt.Errorf("%w: its schema is %d, this version knows %d", ErrNewerSchema, version, len(f.Migrations))
	}
	if tables == 0 && f.PageSize > 0 {
		// It counts once the first page is written.
		return 0, sqlitex.ExecuteTransient(c, fmt.Sprintf("PRAGMA page_size = %d", f.PageSize), nil)
	}
	for n := int64(1); n <= version; n++ {
		if err := f.checkMigration(c, n); err != nil {
			return 0, err
		}
	}
	return version, nil
}

func (f *Format) foreign() error { return fmt.Errorf("%w: it is not %s", ErrForeign, f.Name) }

// migrate brings a file that was checked to the schema of this version.
func (f *Format) migrate(c *sqlite.Conn, version int64) error {
	for n := version + 1; n <= int64(len(f.Migrations)); n++ {
		if err := f.apply(c, n); err != nil {
			return fmt.Errorf("migration %d (%s): %w", n, f.Migrations[n-1].Name, err)
		}
	}
	return nil
}

func (f *Format) checkMigration(c *sqlite.Conn, n int64) error {
	found := false
	err := sqlitex.ExecuteTransient(c, "SELECT checksum FROM migrations WHERE number = ?", &sqlitex.ExecOptions{
		Args: []any{n},
		ResultFunc: func(s *sqlite.Stmt) error {
			sum := make([]byte, s.ColumnLen(0))
			s.ColumnBytes(0, sum)
			found = bytes.Equal(sum, f.Migrations[n-1].checksum())
			return nil
		},
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: migration %d differs", ErrChangedSchema, n)
	}
	return err
}

func (f *Format) apply(c *sqlite.Conn, n int64) (err error) {
	defer sqlitex.Save(c)(&err)
	if n == 1 {
		err = sqlitex.ExecuteScript(c, fmt.Sprintf(`PRAGMA application_id = %d;
			CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum BLOB NOT NULL);`, f.ID), nil)
		if err != nil {
			return err
		}
	}
	m := &f.Migrations[n-1]
	if err := sqlitex.ExecuteScript(c, m.SQL, nil); err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(c, "INSERT INTO migrations (number, name, checksum) VALUES (?, ?, ?)", &sqlitex.ExecOptions{
		Args: []any{n, m.Name, m.checksum()},
	})
	if err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(c, fmt.Sprintf("PRAGMA user_version = %d", n), nil)
}

// integer runs a statement that has one integer as its result.
func integer(c *sqlite.Conn, query string) (v int64, err error) {
	err = sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { v = s.ColumnInt64(0); return nil },
	})
	return v, err
}
