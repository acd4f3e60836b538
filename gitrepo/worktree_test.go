package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

// tempDir is a temporary directory with symbolic links resolved, as Git reports it.
func tempDir(t *testing.T) string {
	return must[string](t)(filepath.EvalSymlinks(t.TempDir()))
}

func TestWorktrees(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		r := open(t, g.Dir)
		if list := must[[]gitrepo.Worktree](t)(r.Worktrees(ctx)); len(list) != 1 || list[0] != (gitrepo.Worktree{Path: g.Dir, Branch: "refs/heads/main"}) {
			t.Errorf("unborn: %+v", list)
		}
		commit := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "a"))
		dir := tempDir(t)
		odd := filepath.Join(dir, "odd\nname")
		g.Git("worktree", "add", "-q", "-b", "side", odd)
		g.Git("worktree", "add", "-q", "--detach", filepath.Join(dir, "detached"))
		g.Git("worktree", "lock", "--reason", "why\nnot", filepath.Join(dir, "detached"))
		g.Git("worktree", "add", "-q", "-b", "gone", filepath.Join(dir, "gone"))
		if err := os.RemoveAll(filepath.Join(dir, "gone")); err != nil {
			t.Fatal(err)
		}
		want := []gitrepo.Worktree{
			{Path: g.Dir, Head: commit, Branch: "refs/heads/main"},
			{Path: filepath.Join(dir, "detached"), Head: commit, Locked: true},
			{Path: filepath.Join(dir, "gone"), Head: commit, Branch: "refs/heads/gone", Prunable: true},
			{Path: odd, Head: commit, Branch: "refs/heads/side"},
		}
		for _, from := range []string{g.Dir, odd} {
			list := must[[]gitrepo.Worktree](t)(open(t, from).Worktrees(ctx))
			slices.SortFunc(list[1:], func(a, b gitrepo.Worktree) int { return strings.Compare(a.Path, b.Path) })
			if !slices.Equal(list, want) {
				t.Errorf("from %q: %+v, want %+v", from, list, want)
			}
		}
	})
}

func TestCheckedOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	g.Commit(map[string]string{"f": "1\n"}, "base")
	dir := tempDir(t)
	side := filepath.Join(dir, "side")
	g.Git("worktree", "add", "-q", "-b", "side", side)
	s := gitrepotest.At(t, side)
	s.Commit(map[string]string{"f": "2\n"}, "side")
	s.Git("branch", "stacked", "HEAD")
	s.Commit(map[string]string{"g": "2\n"}, "side again")
	g.Commit(map[string]string{"f": "3\n"}, "main")
	g.Git("branch", "free")
	r := open(t, g.Dir)
	check := func(branch string, want ...string) {
		t.Helper()
		for _, from := range []string{g.Dir, side} {
			if got := must[[]string](t)(open(t, from).CheckedOut(ctx, branch)); !slices.Equal(got, want) {
				t.Errorf("%s is checked out at %q, want %q", branch, got, want)
			}
		}
	}
	check("main", g.Dir)
	check("side", side)
	check("free")
	check("none")
	if _, err := s.Try("rebase", "--update-refs", "main"); err == nil {
		t.Fatal("the rebase does not stop")
	}
	check("side", side)
	check("stacked", side)
	check("free")
	s.Git("rebase", "--abort")
	if _, err := s.Try("rebase", "--apply", "main"); err == nil {
		t.Fatal("the rebase does not stop")
	}
	check("side", side)
	s.Git("rebase", "--abort")
	s.Git("bisect", "start", "HEAD", "HEAD~2")
	check("side", side)
	s.Git("bisect", "reset")
	if _, err := g.Try("rebase", "side"); err == nil {
		t.Fatal("the rebase does not stop")
	}
	check("main", g.Dir)
	g.Git("rebase", "--abort")
	if err := os.RemoveAll(side); err != nil {
		t.Fatal(err)
	}
	if got := must[[]string](t)(r.CheckedOut(ctx, "side")); len(got) != 0 {
		t.Errorf("side is checked out at %q, which is gone", got)
	}
	_, err := r.CheckedOut(ctx, "a..b")
	wantErr(t, err, gitrepo.ErrBadRefName)
}

// TestSubmoduleWorktree opens a submodule, for which git lists its Git directory as work tree.
func TestSubmoduleWorktree(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	_, commit := addSubmodule(t, g)
	r := open(t, g.Path("sub"))
	if r.Top() != g.Path("sub") || r.CommonDir() != g.Path(".git/modules/sub") {
		t.Errorf("top %q, common %q", r.Top(), r.CommonDir())
	}
	if got := must[[]string](t)(r.CheckedOut(ctx, "main")); !slices.Equal(got, []string{g.Path("sub")}) {
		t.Errorf("checked out at %q", got)
	}
	if !must[bool](t)(r.WorktreeClean(ctx, g.Path("sub"), gitrepo.OID(commit))) {
		t.Error("not clean")
	}
}

func TestWorktreeClean(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	addSubmodule(t, g)
	first := gitrepo.OID(g.Commit(map[string]string{"f": "1", "g": "1"}, "first"))
	second := gitrepo.OID(g.Commit(map[string]string{"f": "2"}, "second"))
	r := open(t, g.Dir)
	check := func(what string, want bool) {
		t.Helper()
		if got := must[bool](t)(r.WorktreeClean(ctx, g.Dir, second)); got != want {
			t.Errorf("%s: clean %v", what, got)
		}
	}
	check("fresh", true)
	if must[bool](t)(r.WorktreeClean(ctx, g.Dir, first)) {
		t.Error("the second commit's files are clean as the first's")
	}
	g.Write("f", "2")
	check("touched", true)
	g.Write("untracked", "x")
	g.Write("sub/untracked", "x")
	check("untracked", true)
	g.Write("f", "3")
	check("changed", false)
	g.Git("add", "f")
	check("staged", false)
	g.Write("f", "2")
	check("staged and changed back", false)
	g.Git("reset", "-q")
	check("reset", true)
	if err := os.Remove(g.Path("g")); err != nil {
		t.Fatal(err)
	}
	check("removed", false)
	g.Write("g", "1")
	if err := os.Chmod(g.Path("g"), 0o755); err != nil {
		t.Fatal(err)
	}
	check("executable", false)
	if err := os.Chmod(g.Path("g"), 0o644); err != nil {
		t.Fatal(err)
	}
	gitrepotest.At(t, g.Path("sub")).Git("-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "new")
	check("submodule at another commit", false)

	for _, path := range []string{g.Path("sub"), g.Path(".git"), t.TempDir(), filepath.Join(t.TempDir(), "none"), gitrepotest.New(t).Dir, g.Path("f")} {
		_, err := r.WorktreeClean(ctx, path, second)
		wantErr(t, err, gitrepo.ErrNotWorktree)
		wantErr(t, r.UpdateWorktree(ctx, path, first, second), gitrepo.ErrNotWorktree)
	}
	inside := g.Path("inside")
	if err := os.Mkdir(inside, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := r.WorktreeClean(ctx, inside, second)
	wantErr(t, err, gitrepo.ErrNotWorktree)
}

func TestUpdateWorktree(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		odd := "odd \"n\"\n\xff"
		from := gitrepo.OID(g.Commit(map[string]string{"change": "1", "gone": "1", "keep": "1", "d/f": "1", odd: "1"}, "from"))
		g.Git("checkout", "-q", "-b", "next")
		for _, name := range []string{"gone", "d/f"} {
			if err := os.Remove(g.Path(name)); err != nil {
				t.Fatal(err)
			}
		}
		addLinkAndModes(t, g)
		to := gitrepo.OID(g.Commit(map[string]string{"change": "2", "added": "2", odd: "2", ".gitignore": "ignored\n", "ignored/not": "x"}, "to"))
		g.Git("add", "-f", "ignored/not")
		to = gitrepo.OID(g.Commit(nil, "to"))
		g.Git("checkout", "-q", "main")
		r := open(t, g.Dir)

		blocked := func(name string) {
			t.Helper()
			before := userState(t, g)
			content := g.Read(name)
			wantErr(t, r.UpdateWorktree(ctx, g.Dir, from, to), gitrepo.ErrWouldOverwrite)
			g.Git("update-index", "-q", "--refresh", "--", "keep")
			if userState(t, g) != before || g.Read(name) != content || g.Read(odd) != "1" {
				t.Errorf("%s: a refused update touched something", name)
			}
		}
		g.Write("added", "mine")
		blocked("added")
		g.Git("add", "added")
		blocked("added")
		g.Git("rm", "-q", "-f", "added")
		g.Write("ignored/not", "mine")
		blocked("ignored/not")
		if err := os.RemoveAll(g.Path("ignored")); err != nil {
			t.Fatal(err)
		}

		g.Write("change", "1")   // touched only
		g.Write("keep", "local") // not in the way
		g.Write("untracked", "mine")
		// As when landing: the ref moves first.
		if err := r.UpdateRefs(ctx, "land", gitrepo.RefUpdate{Name: "refs/heads/main", New: to, Old: from}); err != nil {
			t.Fatal(err)
		}
		if err := r.UpdateWorktree(ctx, g.Dir, from, to); err != nil {
			t.Fatal(err)
		}
		if g.Read("change") != "2" || g.Read("added") != "2" || g.Read(odd) != "2" || g.Read("keep") != "local" || g.Read("untracked") != "mine" {
			t.Error("files are not as they should be")
		}
		if _, err := os.Lstat(g.Path("d")); !errors.Is(err, os.ErrNotExist) {
			t.Error("a removed directory is there")
		}
		if target, err := os.Readlink(g.Path("link")); err != nil || target != "a" {
			t.Errorf("link %q, %v", target, err)
		}
		g.Write("keep", "1")
		if !must[bool](t)(r.WorktreeClean(ctx, g.Dir, to)) {
			t.Errorf("not clean after the update:\n%s", g.Git("status"))
		}
	})
}

func TestAddAndRemoveWorktree(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		addSubmodule(t, g, options...)
		addLinkAndModes(t, g)
		files := map[string]string{"crlf": "a\r\n", "lf": "a\n", ".gitattributes": "t text\n", "t": "a\n"}
		for _, name := range unusual {
			files[name] = name
		}
		commit := gitrepo.OID(g.Commit(files, "first"))
		g.Commit(map[string]string{"later": "x"}, "second")
		g.Git("config", "core.autocrlf", "true")
		g.Git("config", "core.eol", "crlf")
		r := open(t, g.Dir)
		path := filepath.Join(tempDir(t), "deep/er/w")
		if err := r.AddWorktree(ctx, path, commit); err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			if data, err := os.ReadFile(filepath.Join(path, name)); err != nil || string(data) != want {
				t.Errorf("%q: %q, %v", name, data, err)
			}
		}
		w := open(t, path)
		if h := must[gitrepo.Head](t)(w.Head(ctx)); h != (gitrepo.Head{Commit: commit}) {
			t.Errorf("head %+v", h)
		}
		if s := must[gitrepo.Status](t)(w.Status(ctx)); s.Dirty {
			t.Errorf("status %+v", s)
		}
		if _, err := os.Lstat(filepath.Join(path, "later")); err == nil {
			t.Error("a later file is there")
		}
		if err := os.WriteFile(filepath.Join(path, "f"), []byte("changed"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := r.RemoveWorktree(ctx, path); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Error("the directory is there")
		}
		if err := r.RemoveWorktree(ctx, path); err != nil {
			t.Errorf("a second time: %v", err)
		}
		if list := must[[]gitrepo.Worktree](t)(r.Worktrees(ctx)); len(list) != 1 {
			t.Errorf("work trees %+v", list)
		}
		wantErr(t, r.AddWorktree(ctx, path, gitrepo.OID(strings.Repeat("1", len(commit)))), gitrepo.ErrNoObject)
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Error("a failed call left its directory")
		}
	})
}

func TestRemoveDamagedWorktrees(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"d/f": "1"}, "first"))
	r := open(t, g.Dir)
	dir := tempDir(t)
	users := filepath.Join(dir, "users")
	g.Git("worktree", "add", "-q", "-b", "users", users)
	if err := os.RemoveAll(users); err != nil { // the user's own entry, on a drive not mounted now
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(path string) error{
		"directory gone":    os.RemoveAll,
		"parent gone":       func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		".git file gone":    func(path string) error { return os.Remove(filepath.Join(path, ".git")) },
		".git file garbage": func(path string) error { return os.WriteFile(filepath.Join(path, ".git"), []byte("x"), 0o666) },
		"read-only":         func(path string) error { return os.Chmod(filepath.Join(path, "d"), 0o555) },
		"unreadable":        func(path string) error { return os.Chmod(filepath.Join(path, "d"), 0) },
		"locked":            func(path string) error { _, err := g.Try("worktree", "lock", path); return err },
		"locked and gone": func(path string) error {
			_, err := g.Try("worktree", "lock", path)
			return errors.Join(err, os.RemoveAll(path))
		},
		"link to elsewhere": func(path string) error { return errors.Join(os.RemoveAll(path), os.Symlink(dir, path)) },
		"a file":            func(path string) error { return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o666)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"), "w")
			if err := r.AddWorktree(ctx, path, commit); err != nil {
				t.Fatal(err)
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			if err := r.RemoveWorktree(ctx, path); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Error("it is there")
			}
			list := must[[]gitrepo.Worktree](t)(r.Worktrees(ctx))
			if len(list) != 2 || list[1].Path != users {
				t.Errorf("work trees %+v", list)
			}
			if _, err := os.Stat(outside); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, path := range []string{g.Dir, g.Path(".git"), dir, outside} {
		wantErr(t, r.RemoveWorktree(ctx, path), gitrepo.ErrNotWorktree)
	}
	if g.Read("d/f") != "1" {
		t.Error("the main work tree is damaged")
	}
}

func TestManyWorktreesAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "first"))
	dir := tempDir(t)
	r := open(t, g.Dir)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			path := filepath.Join(dir, fmt.Sprint(i), "w") // the same base name for all
			for range 6 {
				if err := r.AddWorktree(ctx, path, commit); err != nil {
					t.Error(err)
					return
				}
				if data, err := os.ReadFile(filepath.Join(path, "f")); err != nil || string(data) != "1" {
					t.Errorf("%q, %v", data, err)
				}
				if paths, err := r.CheckedOut(ctx, "main"); err != nil || !slices.Equal(paths, []string{g.Dir}) {
					t.Errorf("main is checked out at %q, %v", paths, err)
				}
				if err := r.RemoveWorktree(ctx, path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if list := must[[]gitrepo.Worktree](t)(r.Worktrees(ctx)); len(list) != 1 {
		t.Errorf("work trees %+v", list)
	}
	if left, err := os.ReadDir(g.Path(".git/worktrees")); err == nil && len(left) != 0 {
		t.Errorf("records left: %v", left)
	}
}

// TestAddWorktreeCancelled ends a checkout in the middle and expects nothing to be left.
func TestAddWorktreeCancelled(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	g.Write(".gitattributes", "slow filter=slow\n")
	commit := gitrepo.OID(g.Commit(map[string]string{"slow": "x"}, "first"))
	started := filepath.Join(t.TempDir(), "started")
	if err := exec.Command("mkfifo", started).Run(); err != nil {
		t.Fatal(err)
	}
	g.Git("config", "filter.slow.smudge", "echo >'"+started+"'; exec sleep 600")
	g.Git("config", "filter.slow.required", "true")
	r := open(t, g.Dir)
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(tempDir(t), "w")
	done := make(chan error, 1)
	go func() { done <- r.AddWorktree(ctx, path, commit) }()
	must[[]byte](t)(os.ReadFile(started))
	cancel()
	wantErr(t, <-done, context.Canceled)
	if err := r.RemoveWorktree(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory is there")
	}
	if list := must[[]gitrepo.Worktree](t)(r.Worktrees(context.Background())); len(list) != 1 {
		t.Errorf("work trees %+v", list)
	}
}
