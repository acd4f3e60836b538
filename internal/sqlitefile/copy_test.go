package sqlitefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/internal/sqlitefile"
)

// interrupted is a reader of a copy that calls a function after some part of it.
type interrupted struct {
	bytes.Buffer
	parts int
	at    int
	do    func()
}

func (w *interrupted) Write(p []byte) (int, error) {
	if w.parts++; w.parts == w.at {
		w.do()
	}
	return w.Buffer.Write(p)
}

// ledger has rows of which the newest transaction has changed all: a file that is of two
// moments shows it.
func ledger(t *testing.T, path string, rows int) *sqlitefile.File {
	t.Helper()
	f := mustOpen(t, path, format(2))
	err := sqlitex.ExecuteTransient(f.Conn, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO later SELECT '0 ' || hex(randomblob(500)) FROM n`, &sqlitex.ExecOptions{Args: []any{rows}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// turn changes all rows.
func turn(t *testing.T, f *sqlitefile.File, n int) {
	t.Helper()
	if err := sqlitex.ExecuteTransient(f.Conn, "UPDATE later SET a = ? || ' ' || hex(randomblob(500))", &sqlitex.ExecOptions{Args: []any{n}}); err != nil {
		t.Fatal(err)
	}
}

// turned says which transaction a copy shows, which must be one, and sound.
func turned(t *testing.T, path string, rows int) (n int) {
	t.Helper()
	c, _, err := sqlitefile.Sealed(path, format(2))
	if err != nil {
		t.Fatal(err)
	}
	count, kinds := 0, 0
	err = sqlitex.ExecuteTransient(c, "SELECT count(*), count(DISTINCT substr(a, 1, instr(a, ' '))), min(CAST(a AS INTEGER)) FROM later", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			count, kinds, n = s.ColumnInt(0), s.ColumnInt(1), s.ColumnInt(2)
			return nil
		},
	})
	if err := errors.Join(err, sqlitefile.Integrity(t.Context(), c), c.Close()); err != nil {
		t.Fatal(err)
	}
	if count != rows || kinds != 1 {
		t.Fatalf("the copy has %d rows of %d transactions, expected %d of one", count, kinds, rows)
	}
	return n
}

// TestCopyIsOfOneMoment has transactions come after each part of a copy, with a log that
// the database lacks in whole, in part, or not at all: in the last case the log starts anew
// while it is read.
func TestCopyIsOfOneMoment(t *testing.T) {
	t.Parallel()
	const rows = 400 // the log of a transaction is read in several parts
	again := 0
	for _, copied := range []string{"no", "part", "all"} {
		last := false
		for at := 1; !last; at++ {
			dir := t.TempDir()
			f := ledger(t, filepath.Join(dir, "a.db"), rows)
			checkpoint := func() {
				c, err := f.Connect(true)
				if err := errors.Join(err, sqlitefile.Passive(c), c.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if copied == "part" {
				checkpoint()
			}
			turn(t, f, 1)
			if copied == "all" {
				checkpoint()
			}
			w := &interrupted{at: at, do: func() {
				turn(t, f, 2)
				turn(t, f, 3)
			}}
			settled := false
			if err := f.Copy(t.Context(), w, func() error { settled = true; return f.Sync() }); err != nil || !settled {
				t.Fatal(settled, err)
			}
			last = w.parts < at
			to := filepath.Join(dir, "copy.db")
			if err := sqlitefile.Receive(t.Context(), bytes.NewReader(w.Bytes()), to, nil); err != nil {
				t.Fatal(fmt.Errorf("%s, %d: %w", copied, at, err))
			}
			if n := turned(t, to, rows); n < 1 || last && n != 1 {
				t.Errorf("%s, %d: the copy is of transaction %d", copied, at, n)
			} else if n == 3 && copied == "all" {
				again++
			}
			mustClose(t, f)
		}
	}
	if again == 0 {
		t.Error("no log has started anew in the middle")
	}
}
