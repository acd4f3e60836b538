package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/internal/backup"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

var admin = workitem.Principal{Subject: "s", Tenant: "t", Owner: "o", Scopes: workitem.ScopeAdmin}

// jobs runs fn on the work items of a data directory.
func jobs(t *testing.T, data string, fn func(*sqlite.Store, *workitem.Caller)) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(data, "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	a, err := workitem.New(s, workitem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	fn(s, a.As(admin))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func jobID(n int) string { return workitem.NewID("t", fmt.Sprint("key-", n)).JobID() }

func submit(t *testing.T, c *workitem.Caller, n int) {
	t.Helper()
	request := fmt.Appendf(nil, `{"request_id":"r-%[1]d","idempotency_key":"key-%[1]d","operation":"build","repository_id":"r","base_ref":"main",`+
		`"base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","owner_id":"o","session_id":"s","tenant_id":"t"}`, n)
	if _, err := c.Submit(t.Context(), &workitem.SubmitInput{Request: request}); err != nil {
		t.Fatal(err)
	}
}

func claim(t *testing.T, c *workitem.Caller, n int) *workitem.Claim {
	t.Helper()
	a, err := c.Claim(t.Context(), &workitem.ClaimInput{JobID: jobID(n), Worker: "w"})
	if err != nil || !a.Claimed {
		t.Fatal(a, err)
	}
	return a.Claim
}

// blob is content of a cell.
func blob(n int) record.Item {
	text := fmt.Appendf(nil, "content %d", n)
	return record.Item{Particle: hemera.Sum(text), Kind: record.KindBlob, Bytes: text}
}

// cells runs fn on the cells of a data directory.
func cells(t *testing.T, data string, fn func(*store.Store)) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(data, "cells.db")})
	if err != nil {
		t.Fatal(err)
	}
	fn(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// extend adds a commit to the cell of blob 0.
func extend(t *testing.T, s *store.Store, n int) {
	t.Helper()
	w := &cell.Write{Cell: blob(0).Particle, Request: blob(n).Particle, Next: cell.Head{Index: uint64(n), Commit: blob(n).Particle}, Items: []record.Item{blob(n)}}
	if n > 0 {
		w.Expected = &cell.Head{Index: uint64(n - 1), Commit: blob(n - 1).Particle}
	}
	if _, err := s.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// source is a data directory whose jobs nobody else has open.
func source(t *testing.T, data string) backup.Source {
	return backup.Source{Data: data, Version: "v", Patience: time.Second, Jobs: func(ctx context.Context, read func(io.Reader) error) error {
		var copied bytes.Buffer
		var err error
		jobs(t, data, func(s *sqlite.Store, _ *workitem.Caller) { err = s.Copy(ctx, &copied) })
		if err != nil {
			return err
		}
		return read(&copied)
	}}
}

// whole makes a data directory with jobs, cells and an authority.
func whole(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	jobs(t, data, func(_ *sqlite.Store, c *workitem.Caller) {
		for n := range 3 {
			submit(t, c, n)
		}
	})
	cells(t, data, func(s *store.Store) {
		for n := range 5 {
			extend(t, s, n)
		}
	})
	au, err := authority.Create(t.Context(), authority.Options{Dir: data}, "shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := au.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func mustCreate(t *testing.T, data string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), source(t, data), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// alone wants nothing in a directory but these names.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, e := range entries {
		has = append(has, e.Name())
	}
	if !slices.Equal(has, names) {
		t.Errorf("%s has %q, expected %q", dir, has, names)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	data := whole(t)
	var held *workitem.Claim
	jobs(t, data, func(_ *sqlite.Store, c *workitem.Caller) { held = claim(t, c, 0) })
	dir := filepath.Join(t.TempDir(), "backup")
	made, err := backup.Create(t.Context(), source(t, data), dir)
	if err != nil {
		t.Fatal(err)
	}
	if *made.Jobs != (backup.Jobs{Schema: 1, Jobs: 3}) || made.Cells == nil || made.Authority.Epoch != 1 || made.Version != "v" {
		t.Errorf("the backup is of %+v %+v %+v", made.Jobs, made.Cells, made.Authority)
	}
	alone(t, filepath.Dir(dir), "backup")
	alone(t, dir, "authority", "cells.db", "manifest.json", "work.db")

	// What goes on afterwards is lost by a restore.
	var later *workitem.Claim
	jobs(t, data, func(_ *sqlite.Store, c *workitem.Caller) {
		later = claim(t, c, 1)
		submit(t, c, 3)
	})
	cells(t, data, func(s *store.Store) { extend(t, s, 5) })

	verified, err := backup.Verify(t.Context(), dir, nil)
	if err != nil || verified.Digest != made.Digest {
		t.Fatal(err)
	}
	for _, there := range []bool{false, true} { // an empty directory may be there
		fresh := filepath.Join(t.TempDir(), "new", "data")
		if there {
			if err := os.MkdirAll(fresh, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r, err := backup.Restore(t.Context(), dir, fresh, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.JobsEpoch != 1 || r.AuthorityEpoch != 2 {
			t.Errorf("the epochs are %d and %d", r.JobsEpoch, r.AuthorityEpoch)
		}
		alone(t, filepath.Dir(fresh), "data")
		jobs(t, fresh, func(_ *sqlite.Store, c *workitem.Caller) {
			if _, err := c.Get(t.Context(), &workitem.GetInput{JobID: jobID(3)}); !errors.Is(err, workitem.ErrNotFound) {
				t.Errorf("a job from after the backup: %v", err)
			}
			for n, old := range []*workitem.Claim{held, later} {
				in := &workitem.CommitInput{JobID: old.JobID, Claim: old.Fence(), Outcome: "succeeded"}
				if _, err := c.Commit(t.Context(), in); !errors.Is(err, workitem.ErrStaleFence) {
					t.Errorf("a lease from before commits: %v", err)
				}
				again := claim(t, c, n)
				if again.LeaseEpoch <= old.LeaseEpoch || again.FencingToken <= old.FencingToken {
					t.Errorf("the fence %d follows %d", again.LeaseEpoch, old.LeaseEpoch)
				}
			}
		})
		cells(t, fresh, func(s *store.Store) {
			extend(t, s, 5)
			findings, err := s.Verify(t.Context(), nil)
			if err != nil || len(findings) > 0 {
				t.Error(findings, err)
			}
		})
		au, err := authority.Open(t.Context(), authority.Options{Dir: fresh})
		if err != nil {
			t.Fatal(err)
		}
		findings, err := au.Check(t.Context())
		if err := errors.Join(err, au.Close()); err != nil || len(findings) > 0 {
			t.Error(findings, err)
		}
		// A backup of what was restored has the raised epochs.
		m, err := backup.Create(t.Context(), source(t, fresh), filepath.Join(t.TempDir(), "again"))
		if err != nil || m.Jobs.Epoch != 1 || m.Authority.Epoch != 2 {
			t.Error(m, err)
		}
	}
}

func TestPartsThatAreNotThere(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	at := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), source(t, data), at); !errors.Is(err, backup.ErrNothing) {
		t.Errorf("a backup of nothing: %v", err)
	}
	if _, err := backup.Create(t.Context(), source(t, filepath.Join(data, "missing")), at); !errors.Is(err, backup.ErrNothing) {
		t.Errorf("a backup of no directory: %v", err)
	}
	alone(t, data)
	alone(t, filepath.Dir(at))
	jobs(t, data, func(_ *sqlite.Store, c *workitem.Caller) { submit(t, c, 0) })
	m, err := backup.Create(t.Context(), source(t, data), at)
	if err != nil || m.Cells != nil || m.Authority != nil {
		t.Fatal(m, err)
	}
	fresh := filepath.Join(t.TempDir(), "data")
	if _, err := backup.Restore(t.Context(), at, fresh, nil); err != nil {
		t.Fatal(err)
	}
	alone(t, fresh, "work.db", "work.db.lock")

	// What a server with a database has left of its jobs is no part.
	cells(t, data, func(s *store.Store) { extend(t, s, 0) })
	s := source(t, data)
	s.Jobs = func(context.Context, func(io.Reader) error) error { return backup.ErrElsewhere }
	at = filepath.Join(t.TempDir(), "backup")
	if m, err := backup.Create(t.Context(), s, at); err != nil || m.Jobs != nil || m.Cells == nil {
		t.Fatal(m, err)
	}
	alone(t, at, "cells.db", "manifest.json")
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	data := whole(t)
	dir := mustCreate(t, data)
	s := source(t, data)
	if _, err := backup.Create(t.Context(), s, dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a backup where one is: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{filepath.Join(data, "b"), filepath.Join(data, "generations", "b"), filepath.Join(link, "b")} {
		if _, err := backup.Create(t.Context(), s, at); !errors.Is(err, backup.ErrInside) {
			t.Errorf("a backup in the data directory: %v", err)
		}
	}
	if _, err := backup.Create(t.Context(), s, filepath.Join(t.TempDir(), "no", "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup in a directory that is not there: %v", err)
	}
}

func TestFailedBackupLeavesNothing(t *testing.T) {
	t.Parallel()
	data := whole(t)
	at := filepath.Join(t.TempDir(), "backup")
	broken := errors.New("the server has gone")
	s := source(t, data)
	get := s.Jobs
	s.Jobs = func(ctx context.Context, read func(io.Reader) error) error {
		return get(ctx, func(r io.Reader) error {
			return read(io.MultiReader(io.LimitReader(r, 5000), failing{broken}))
		})
	}
	if _, err := backup.Create(t.Context(), s, at); !errors.Is(err, broken) {
		t.Errorf("a copy that breaks off: %v", err)
	}
	alone(t, filepath.Dir(at))

	// Given up while the cells are copied, and while the authority is.
	for _, after := range []int64{200_000, 400_000} {
		ctx, cancel := context.WithCancel(t.Context())
		s := source(t, data)
		s.Progress = func(done, total int64) {
			if done > after || total < after {
				cancel()
			}
		}
		if _, err := backup.Create(ctx, s, at); !errors.Is(err, context.Canceled) {
			t.Errorf("a backup that is given up: %v", err)
		}
		alone(t, filepath.Dir(at))
		cancel()
	}

	// Damage of the original.
	jobs(t, data, func(s *sqlite.Store, _ *workitem.Caller) {
		err := s.Update(t.Context(), func(tx workitem.Tx) error {
			id, err := workitem.ParseID(jobID(0))
			if err != nil {
				return err
			}
			it, err := tx.Item(id)
			if err == nil {
				it.Status = 77
				err = tx.Save(it, workitem.Ready, workitem.Event{})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if _, err := backup.Create(t.Context(), source(t, data), at); !errors.Is(err, sqlite.ErrCorrupt) {
		t.Errorf("a backup of damaged jobs: %v", err)
	}
	alone(t, filepath.Dir(at))
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// altered makes a copy of a backup with one change.
func altered(t *testing.T, dir string, change func(dir string) error) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "altered")
	if err := errors.Join(os.CopyFS(to, os.DirFS(dir)), change(to)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestVerifyFindsFlippedBytes(t *testing.T) {
	t.Parallel()
	dir := altered(t, mustCreate(t, whole(t)), func(string) error { return nil })
	if _, err := backup.Verify(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	tried, small := 0, 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "manifest.json" {
			return err
		}
		good, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Some bytes of each file, the first and the last among them; of the many that
		// have nothing but a header one byte of every eighth.
		places := []int{0, len(good) / 3, len(good) / 2, len(good) - 1}
		if len(good) < 100 {
			if small++; small%8 > 0 {
				return nil
			}
			places = []int{small % len(good)}
		}
		for _, at := range places {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (tried % 8)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				return err
			}
			if _, err := backup.Verify(t.Context(), dir, nil); !errors.Is(err, backup.ErrDamaged) {
				t.Errorf("another byte %d of %s: %v", at, d.Name(), err)
			}
			tried++
		}
		return os.WriteFile(path, good, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if tried < 40 {
		t.Errorf("only %d bytes were flipped", tried)
	}
	if _, err := backup.Verify(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyReadsTheWholeManifest flips every byte of it, and many of the database.
func TestVerifyReadsTheWholeManifest(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	jobs(t, data, func(_ *sqlite.Store, c *workitem.Caller) { submit(t, c, 0) })
	dir := mustCreate(t, data)
	for name, step := range map[string]int{"manifest.json": 1, "work.db": 97} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(good); at += step {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (at % 8)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Verify(t.Context(), dir, nil); !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNewer) {
				t.Errorf("another byte %d of %s: %v", at, name, err)
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := backup.Verify(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	dir := mustCreate(t, whole(t))
	for _, tc := range []struct {
		name   string
		change func(dir string) error
		want   error
		says   string
	}{
		{"no manifest", func(dir string) error { return os.Remove(filepath.Join(dir, "manifest.json")) }, backup.ErrNoBackup, "manifest.json"},
		{"a newer one", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"schema":"writ.data-backup.v2"}`), 0o600)
		}, backup.ErrNewer, "v2"},
		{"a file less", func(dir string) error { return os.Remove(filepath.Join(dir, "cells.db")) }, backup.ErrDamaged, "cells.db is missing"},
		{"a file more", func(dir string) error { return os.WriteFile(filepath.Join(dir, "work.db-wal"), nil, 0o600) }, backup.ErrDamaged, "work.db-wal is not listed"},
		{"a shorter file", func(dir string) error { return os.Truncate(filepath.Join(dir, "work.db"), 8192) }, backup.ErrDamaged, "work.db is not what"},
		{"a longer file", func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "cells.db"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.Write([]byte{0})
			return errors.Join(err, f.Close())
		}, backup.ErrDamaged, "cells.db is not what"},
	} {
		bad := altered(t, dir, tc.change)
		if _, err := backup.Verify(t.Context(), bad, nil); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
		fresh := filepath.Join(t.TempDir(), "data")
		if _, err := backup.Restore(t.Context(), bad, fresh, nil); !errors.Is(err, tc.want) {
			t.Errorf("%s is restored: %v", tc.name, err)
		}
		alone(t, filepath.Dir(fresh))
	}
	if _, err := backup.Verify(t.Context(), filepath.Join(dir, "nothing"), nil); !errors.Is(err, backup.ErrNoBackup) {
		t.Errorf("no directory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup.Verify(ctx, dir, nil); !errors.Is(err, context.Canceled) || errors.Is(err, backup.ErrDamaged) {
		t.Errorf("given up: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	data := whole(t)
	dir := mustCreate(t, data)
	if _, err := backup.Restore(t.Context(), dir, data, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a restore over data: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), dir, file, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a restore over a file: %v", err)
	}
	alone(t, filepath.Dir(file), "file")

	// Something is put there while the restore is under way; and it is given up.
	fresh := filepath.Join(t.TempDir(), "data")
	put := false
	_, err := backup.Restore(t.Context(), dir, fresh, func(done, total int64) {
		if !put && done > total/2 {
			put = true
			if err := os.MkdirAll(filepath.Join(fresh, "other"), 0o700); err != nil {
				t.Error(err)
			}
		}
	})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("a restore into a directory that has got something: %v", err)
	}
	alone(t, filepath.Dir(fresh), "data")
	alone(t, fresh, "other")

	fresh = filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = backup.Restore(ctx, dir, fresh, func(done, total int64) {
		if done > total*3/4 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a restore that is given up: %v", err)
	}
	alone(t, filepath.Dir(fresh))
}

// TestCellsInUse has a backup wait for whoever has the cells open, in vain.
func TestCellsInUse(t *testing.T) {
	t.Parallel()
	data := whole(t)
	at := filepath.Join(t.TempDir(), "backup")
	s := source(t, data)
	s.Patience = time.Millisecond
	cells(t, data, func(*store.Store) {
		if _, err := backup.Create(t.Context(), s, at); !errors.Is(err, store.ErrLocked) {
			t.Errorf("a backup of cells that somebody has open: %v", err)
		}
	})
	alone(t, filepath.Dir(at))
}

// TestCellsAfterACrash copies cells whose last process was killed.
func TestCellsAfterACrash(t *testing.T) {
	t.Parallel()
	data := whole(t)
	crashed := filepath.Join(t.TempDir(), "data")
	cells(t, data, func(s *store.Store) {
		extend(t, s, 5)
		// What a crash leaves, except that it is a copy: which is what opening it says.
		if err := os.CopyFS(crashed, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
	})
	dir := mustCreate(t, crashed)
	fresh := filepath.Join(t.TempDir(), "data")
	if _, err := backup.Restore(t.Context(), dir, fresh, nil); err != nil {
		t.Fatal(err)
	}
	cells(t, fresh, func(s *store.Store) { extend(t, s, 6) })

	// Without the log nobody knows what it had.
	torn := altered(t, crashed, func(string) error { return nil })
	cells(t, data, func(*store.Store) {
		if err := errors.Join(os.RemoveAll(torn), os.CopyFS(torn, os.DirFS(data)), os.Remove(filepath.Join(torn, "cells.db-wal"))); err != nil {
			t.Fatal(err)
		}
	})
	at := filepath.Join(t.TempDir(), "backup")
	if _, err := backup.Create(t.Context(), source(t, torn), at); !errors.Is(err, store.ErrNoLog) {
		t.Errorf("a backup of cells without their log: %v", err)
	}
	alone(t, filepath.Dir(at))
}
