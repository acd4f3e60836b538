package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/workitem/sqlite"
)

// with makes a database file by SQL.
func with(t *testing.T, path, script string) {
	t.Helper()
	c, err := driver.OpenConn(path, driver.OpenReadWrite, driver.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(c, script, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		script string // on a store that was made, or on nothing if bare
		bare   bool
		want   error
	}{
		{name: "a newer schema", script: "PRAGMA user_version = 99", want: sqlite.ErrNewerSchema},
		{name: "another migration", script: "UPDATE migrations SET checksum = x'00'", want: sqlite.ErrChangedSchema},
		{name: "a missing migration", script: "DELETE FROM migrations", want: sqlite.ErrChangedSchema},
		{name: "another database", script: "CREATE TABLE t (a)", bare: true, want: sqlite.ErrForeign},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "work.db")
			if !c.bare {
				s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			with(t, path, c.script)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sqlite.Open(context.Background(), sqlite.Options{Path: path}); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(before) != string(after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenRefusesSymbolicLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "elsewhere.db")
	with(t, target, "CREATE TABLE t (a)")
	link := filepath.Join(dir, "work.db")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(context.Background(), sqlite.Options{Path: link}); !errors.Is(err, sqlite.ErrUnsuitable) {
		t.Fatalf("got %v", err)
	}
	if _, err := sqlite.Open(context.Background(), sqlite.Options{Path: dir}); !errors.Is(err, sqlite.ErrUnsuitable) {
		t.Fatalf("a directory: %v", err)
	}
}

func TestOpenRefusesWhatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "work.db")
	if err := os.WriteFile(path, []byte("this is a text and not a database at all, but long enough to be read as one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(context.Background(), sqlite.Options{Path: path}); !errors.Is(err, sqlite.ErrForeign) {
		t.Fatalf("got %v", err)
	}
}

func TestADamagedFileIsRefusedAsOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "work.db")
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(b); i++ { // behind the header
		b[i] = 0xff
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(context.Background(), sqlite.Options{Path: path}); !errors.Is(err, sqlite.ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}

func TestOnlyTheOwnerMayRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "work.db")
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + ".lock"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has the mode %o", name, mode)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
