package sqlitefile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

const base = "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"

// format is a file for tests, with a number of migrations.
func format(migrations int) *sqlitefile.Format {
	all := []sqlitefile.Migration{{Name: "first", SQL: base}, {Name: "second", SQL: "CREATE TABLE later (a);"}}
	return &sqlitefile.Format{Name: "a file of tests", ID: 0x54657374, Migrations: all[:migrations]}
}

func mustOpen(t *testing.T, path string, f *sqlitefile.Format) *sqlitefile.File {
	t.Helper()
	file, err := sqlitefile.Open(t.Context(), path, f)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func mustClose(t *testing.T, f *sqlitefile.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// run makes changes that only another program would.
func run(t *testing.T, path, script string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(c, script, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	mustClose(t, mustOpen(t, path, format(1)))
	f := mustOpen(t, path, format(2))
	if err := sqlitex.ExecuteTransient(f.Conn, "INSERT INTO later VALUES (1)", nil); err != nil {
		t.Error(err)
	}
	mustClose(t, f)
	if _, err := sqlitefile.Open(t.Context(), path, format(1)); !errors.Is(err, sqlitefile.ErrNewerSchema) {
		t.Errorf("an older version: %v", err)
	}
	changed := format(2)
	changed.Migrations[1].SQL += " "
	if _, err := sqlitefile.Open(t.Context(), path, changed); !errors.Is(err, sqlitefile.ErrChangedSchema) {
		t.Errorf("a changed migration: %v", err)
	}
	other := format(2)
	other.ID++
	_, err := sqlitefile.Open(t.Context(), path, other)
	if !errors.Is(err, sqlitefile.ErrForeign) || !strings.Contains(err.Error(), "a file of tests") || !strings.Contains(err.Error(), path) {
		t.Errorf("another kind of file: %v", err)
	}
}

// The size of pages is chosen when a file is made, and stays.
func TestPageSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, size := range []int{16384, 8192} {
		kind := format(1)
		kind.PageSize = size
		f := mustOpen(t, path, kind)
		got := 0
		err := sqlitex.ExecuteTransient(f.Conn, "PRAGMA page_size", &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error { got = s.ColumnInt(0); return nil },
		})
		if err != nil || got != 16384 {
			t.Errorf("pages of %d bytes, expected 16384, error %v", got, err)
		}
		mustClose(t, f)
	}
}

// A migration that fails leaves nothing behind.
func TestFailedMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	broken := format(2)
	broken.Migrations[1].SQL = "CREATE TABLE later (a); CREATE TABLE later (a);"
	if _, err := sqlitefile.Open(t.Context(), path, broken); err == nil || !strings.Contains(err.Error(), "migration 2 (second)") {
		t.Fatalf("a broken migration: %v", err)
	}
	mustClose(t, mustOpen(t, path, format(2)))
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"a database of something else": {
			func(t *testing.T, path string) { run(t, path, "CREATE TABLE t (a)") }, sqlitefile.ErrForeign,
		},
		"a text": {
			func(t *testing.T, path string) {
				if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
					t.Fatal(err)
				}
			}, sqlitefile.ErrForeign,
		},
		"a directory": {
			func(t *testing.T, path string) {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}, sqlitefile.ErrUnsuitable,
		},
		"a symbolic link": {
			func(t *testing.T, path string) {
				if err := os.Symlink("elsewhere.db", path); err != nil {
					t.Fatal(err)
				}
			}, sqlitefile.ErrUnsuitable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.db")
			c.make(t, path)
			if _, err := sqlitefile.Open(t.Context(), path, format(1)); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestOneOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	f := mustOpen(t, path, format(1))
	if _, err := sqlitefile.Open(t.Context(), path, format(1)); !errors.Is(err, sqlitefile.ErrLocked) {
		t.Fatalf("a second owner: %v", err)
	}
	// With a deadline it waits for the first one.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlitefile.Open(ctx, path, format(1)); !errors.Is(err, sqlitefile.ErrLocked) {
		t.Fatalf("a second owner that gives up: %v", err)
	}
	mustClose(t, f)
	mustClose(t, mustOpen(t, path, format(1)))
}

// What is committed is in the log until that is copied, and then it starts anew unless
// somebody reads from it.
func TestLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	f := mustOpen(t, path, format(1))
	defer mustClose(t, f)
	r, err := f.Connect(false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	do := func(c *sqlite.Conn, text string) error { return sqlitex.ExecuteTransient(c, text, nil) }
	if err := do(r, "INSERT INTO meta VALUES ('r', 1)"); err == nil {
		t.Error("a connection for reading has written")
	}
	if err := errors.Join(do(f.Conn, "INSERT INTO meta VALUES ('a', 1)"), f.Sync(), sqlitefile.Passive(f.Conn)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(r, "BEGIN"), do(r, "SELECT * FROM meta"), do(f.Conn, "INSERT INTO meta VALUES ('b', 1)")); err != nil {
		t.Fatal(err)
	}
	if sqlitefile.Restart(f.Conn) {
		t.Error("the log starts anew under a reader")
	}
	if err := do(r, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if !sqlitefile.Restart(f.Conn) {
		t.Error("the log does not start anew without readers")
	}
}

// TestSealed opens files that nobody may change, and leaves them and their directory as
// they are.
func TestSealed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a ?b#%41")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.db")
	mustClose(t, mustOpen(t, path, format(1)))
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	c, version, err := sqlitefile.Sealed(path, format(2))
	if err != nil || version != 1 {
		t.Fatal(version, err)
	}
	if err := sqlitefile.Integrity(t.Context(), c); err != nil {
		t.Error(err)
	}
	if err := sqlitex.ExecuteTransient(c, "DELETE FROM meta", nil); sqlite.ErrCode(err).ToPrimary() != sqlite.ResultReadOnly {
		t.Errorf("a sealed file is written: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sqlitefile.Integrity(gone, c); !errors.Is(err, context.Canceled) {
		t.Errorf("a check that nobody waits for ends with %v", err)
	}
	if err := errors.Join(c.Close(), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Error("the file has changed", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}

	refused := func(path string, f *sqlitefile.Format, want error) {
		t.Helper()
		if _, _, err := sqlitefile.Sealed(path, f); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, expected %v", err, want)
		}
	}
	newer := filepath.Join(dir, "newer.db")
	mustClose(t, mustOpen(t, newer, format(2)))
	refused(newer, format(1), sqlitefile.ErrNewerSchema)
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(empty, format(1), sqlitefile.ErrForeign)
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("text", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(text, format(1), sqlitefile.ErrForeign)
	refused(filepath.Join(dir, "missing.db"), format(1), sqlitefile.ErrUnwritable)
	open := mustOpen(t, path, format(1))
	refused(path, format(1), sqlitefile.ErrUnsuitable)
	mustClose(t, open)
}
