package authority_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// empty builds a generation with the four reserved Repositories and one more.
func empty(g *authority.Generation) error {
	names := append(slices.Clone(record.ReservedRepositories[:]), "new")
	for i := range names {
		if err := bindb.Create(g.Repository(uint32(i))); err != nil {
			return err
		}
	}
	return bindb.CreateWith(context.Background(), g.Registry(), func(tx *bindb.Tx) error {
		for _, name := range names {
			b, err := (&record.RepositoryPayload{Name: name}).Encode()
			if err != nil {
				return err
			}
			off, err := bindb.RepositoryPayload.Append(tx, b)
			if err != nil {
				return err
			}
			_, err = bindb.Repositories.Append(tx, record.Repository{
				Lifecycle: record.LifecycleActive, PayloadLen: uint32(len(b)), PayloadOffset: off, CreatedAt: 1, UpdatedAt: 1,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := entries(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestPublishInAFreshDirectory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := authority.Options{Dir: filepath.Join(t.TempDir(), "a", "data")}
	done, err := authority.Publish(ctx, o, authority.Publication{Epoch: 6}, empty)
	if err != nil {
		t.Fatal(err)
	}
	if done.Generation != 1 || done.Epoch != 7 || len(done.Installation) != 32 || done.Old != "" {
		t.Errorf("published %+v", done)
	}
	a, err := authority.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Installation() != done.Installation || a.Epoch() != 7 {
		t.Errorf("opened %s, epoch %d", a.Installation(), a.Epoch())
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := authority.Publish(ctx, o, authority.Publication{}, empty); !errors.Is(err, authority.ErrExists) {
		t.Errorf("once more: %v", err)
	}
}

// Whoever has the old generation open must not read or write it any more, with
// its files kept or removed.
func TestReplacedAuthorityRefusesEverything(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	for _, keep := range []bool{true, false} {
		b := authoritytest.Setup(t)
		b.Publish()
		ctx := context.Background()
		old, repo := b.Authority, b.Repo
		second := b.Second()
		done, err := authority.Publish(ctx, b.Options, authority.Publication{Replace: true, KeepOld: keep}, empty)
		if err != nil {
			t.Fatal(err)
		}
		if done.Installation != old.Installation() || done.Generation != 2 || done.Epoch != old.Epoch()+1 {
			t.Errorf("published %+v", done)
		}
		wantEntries(t, filepath.Join(b.Options.Dir, "generations"), "2")
		if keep {
			wantEntries(t, filepath.Join(b.Options.Dir, "retired"), "1")
			if done.Old != filepath.Join(b.Options.Dir, "retired", "1") {
				t.Errorf("the old generation is said to be in %q", done.Old)
			}
		} else {
			wantEntries(t, filepath.Join(b.Options.Dir, "retired"))
			wantEntries(t, filepath.Join(b.Options.Dir, "runtime"), "generation-2")
		}
		for what, err := range map[string]error{
			"update":       repo.Update(ctx, func(tx *authority.Tx) error { _, err := tx.OpenTask("Lost", "Never"); return err }),
			"view":         repo.View(ctx, func(*authority.View) error { return nil }),
			"session":      repo.Exclusive(ctx, func(*authority.Session) error { return nil }),
			"second":       second.Update(ctx, func(*authority.Tx) error { return nil }),
			"second view":  second.View(ctx, func(*authority.View) error { return nil }),
			"registry":     func() error { _, err := old.Repositories(ctx); return err }(),
			"registration": func() error { _, _, err := old.AddRepository(ctx, "x", record.Namespace{}, 0); return err }(),
			"repository":   func() error { _, err := old.Repository(ctx, 0); return err }(),
			"backup":       func() error { _, err := old.Backup(ctx, filepath.Join(t.TempDir(), "b"), nil); return err }(),
		} {
			if !errors.Is(err, authority.ErrGeneration) || !strings.Contains(err.Error(), "open it again") {
				t.Errorf("keep %v, %s: %v, want ErrGeneration", keep, what, err)
			}
		}
		b.Reopen()
		b.View(func(v *authority.View) error {
			if n, err := bindb.Tasks.Count(v); err != nil || n != 0 {
				t.Errorf("%d tasks in the new generation, %v", n, err)
			}
			return nil
		})
		b.Publish()
	}
}

// A generation that does not satisfy the format, and one whose building failed,
// change nothing and leave nothing.
func TestPublishRefusesAnUnsoundGeneration(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	authoritytest.Shared(t)
	b := authoritytest.Setup(t)
	b.Publish()
	before := tree(t, filepath.Join(b.Options.Dir, "generations"))
	for _, c := range []struct {
		name  string
		build func(*authority.Generation) error
		want  error
	}{
		{"fails", func(g *authority.Generation) error { return errors.Join(empty(g), errStop) }, errStop},
		{"lacks a repository", func(g *authority.Generation) error {
			return errors.Join(empty(g), os.RemoveAll(g.Repository(2).Dir))
		}, bindb.ErrCorrupt},
		{"has a repository without a record", func(g *authority.Generation) error {
			return errors.Join(empty(g), bindb.Create(g.Repository(5)), bindb.Create(g.Repository(6)))
		}, bindb.ErrCorrupt},
		{"has a torn record", func(g *authority.Generation) error {
			return errors.Join(empty(g), os.WriteFile(filepath.Join(g.Repository(4).Dir, "task.bin"), []byte{1, 0, 0, 0, 9}, 0o600))
		}, bindb.ErrCorrupt},
		{"is of another layout", func(g *authority.Generation) error {
			return errors.Join(empty(g), os.WriteFile(filepath.Join(g.Repository(3).Dir, "task.bin"), []byte{2, 0, 0, 0}, 0o600))
		}, bindb.ErrLayout},
	} {
		_, err := authority.Publish(context.Background(), b.Options, authority.Publication{Replace: true}, c.build)
		if !errors.Is(err, c.want) {
			t.Errorf("a generation that %s: %v, want %v", c.name, err, c.want)
		}
		if tree(t, filepath.Join(b.Options.Dir, "generations")) != before {
			t.Errorf("a generation that %s: something was changed", c.name)
		}
		wantEntries(t, filepath.Join(b.Options.Dir, "retired"))
	}
	b.Publish() // the authority that was open goes on
}

func TestPublishWaitsForNobody(t *testing.T) {
	t.Parallel()
	authoritytest.Shared(t)
	b := authoritytest.Setup(t)
	o := b.Options
	o.LockWait = 30 * time.Millisecond
	err := b.Repo.View(context.Background(), func(*authority.View) error {
		_, err := authority.Publish(context.Background(), o, authority.Publication{Replace: true}, empty)
		return err
	})
	if !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("a switch under a reader: %v, want ErrBusy", err)
	}
	b.Publish()
}

// What an interrupted switch leaves at each of its steps is tidied up by the next.
func TestPublishTidiesUp(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	b.Publish()
	if err := b.Authority.Close(); err != nil {
		t.Fatal(err)
	}
	dir := b.Options.Dir
	copyTo := func(name string) {
		t.Helper()
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(dir, "generations", "1"))); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyTo("generations/7")
	write("generations/7/unpublished") // not published
	copyTo("retired/6.discarded")      // half removed
	write("generations/8/nothing")     // not even begun
	write("generations/1/unpublished") // published, but maybe not durably
	write("runtime/generation-6/mark")
	publish := func() authority.Published {
		t.Helper()
		done, err := authority.Publish(context.Background(), b.Options, authority.Publication{Replace: true, KeepOld: true}, empty)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if done := publish(); done.Generation != 2 {
		t.Errorf("published %+v", done)
	}
	wantEntries(t, filepath.Join(dir, "generations"), "2")
	wantEntries(t, filepath.Join(dir, "retired"), "1")
	// A generation that was replaced, but whose publisher was killed before it
	// was out of the way.
	if err := os.Rename(filepath.Join(dir, "retired", "1"), filepath.Join(dir, "generations", "1")); err != nil {
		t.Fatal(err)
	}
	if done := publish(); done.Generation != 3 {
		t.Errorf("published %+v", done)
	}
	wantEntries(t, filepath.Join(dir, "generations"), "3")
	wantEntries(t, filepath.Join(dir, "retired"), "1", "2")
	// An active.json that is older than what is there is no reason to remove it.
	if err := os.CopyFS(filepath.Join(dir, "generations", "9"), os.DirFS(filepath.Join(dir, "retired", "1"))); err != nil {
		t.Fatal(err)
	}
	_, err := authority.Publish(context.Background(), b.Options, authority.Publication{Replace: true}, empty)
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "generation 9") {
		t.Errorf("a newer generation: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "generations", "9")); err != nil {
		t.Fatal(err)
	}
	if b.Authority, err = authority.Open(context.Background(), b.Options); err != nil {
		t.Fatal(err)
	}
	if b.Repo, err = b.Authority.Repository(context.Background(), 4); err != nil {
		t.Fatal(err)
	}
}

// The same active.json written once more is no other generation.
func TestRewrittenActiveFile(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	path := filepath.Join(b.Options.Dir, "active.json")
	for range 2 {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		b.Publish()
	}
}

// Who owns an authority can't be replaced, and backs it up all the same.
func TestOwnerIsNotReplaced(t *testing.T) {
	t.Parallel()
	b := authoritytest.Setup(t)
	p := b.Publish()
	if err := b.Authority.Close(); err != nil {
		t.Fatal(err)
	}
	b.Options.Own = true
	var err error
	if b.Authority, err = authority.Open(context.Background(), b.Options); err != nil {
		t.Fatal(err)
	}
	if b.Repo, err = b.Authority.Repository(context.Background(), 4); err != nil {
		t.Fatal(err)
	}
	other := b.Options
	other.LockWait = 20 * time.Millisecond
	if _, err := authority.Publish(context.Background(), other, authority.Publication{Replace: true}, empty); !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("publish: %v, want ErrBusy", err)
	}
	if _, err := authority.Compact(context.Background(), other, authority.CompactOptions{}); !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("compact: %v, want ErrBusy", err)
	}
	dst, _ := backup(t, b.Authority)
	if _, err := authority.Restore(context.Background(), other, dst, authority.Restoration{Replace: true}); !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("restore: %v, want ErrBusy", err)
	}
	wantEntries(t, filepath.Join(b.Options.Dir, "generations"), "1")
	b.Next(p)
	// A Repository that nobody has opened yet is in the backup too.
	if _, _, err := b.Authority.AddRepository(context.Background(), "other", record.Namespace{}, 0); err != nil {
		t.Fatal(err)
	}
	if _, m := backup(t, b.Authority); m.Repositories != 6 {
		t.Errorf("%d repositories in the backup", m.Repositories)
	}
}
