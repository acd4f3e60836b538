package store

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// copyStore copies the files of a store as they are.
func copyStore(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "cells.db")
	for _, suffix := range []string{"", "-wal"} {
		from, err := os.Open(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(to + suffix)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(file, from)
		if err := errors.Join(err, from.Close(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A copy of one moment, such as one that is made after a crash, is as good as the
// original. One that is not sound is refused, however often it is tried.
func TestCopiesAreInspected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cells.db")
	s := small(t, path)
	_, _, beside := commits(t, s, "a", 30, 20)
	settled(t, s)
	good, bad := copyStore(t, path), copyStore(t, path)

	// The deadline has passed: it is for another process.
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	c, err := Open(ended, Options{Path: good, tableSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	have(t, c, beside)
	sound(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	file, err := sqlite.OpenConn(bad, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(file, "DELETE FROM requests WHERE head = 7", nil)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	// Closing it has removed the log.
	if err := os.WriteFile(bad+"-wal", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(t.Context(), Options{Path: bad, tableSize: 100}); !errors.Is(err, ErrCopied) {
			t.Fatalf("%v, expected %v", err, ErrCopied)
		}
	}
	alone := copyStore(t, path)
	if err := os.Remove(alone + "-wal"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(t.Context(), Options{Path: alone}); !errors.Is(err, ErrNoLog) {
			t.Fatalf("%v, expected %v", err, ErrNoLog)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Open(stopped, Options{Path: copyStore(t, path)}); err == nil {
		t.Error("a copy was opened although the caller has given up")
	}
}
