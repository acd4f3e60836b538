package gitrepo_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

func TestMain(m *testing.M) {
	gitrepotest.Isolate()
	os.Exit(m.Run())
}

// open opens dir and closes it with the test.
func open(t testing.TB, dir string) *gitrepo.Repo {
	t.Helper()
	r, err := gitrepo.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// must returns v and fails the test on an error.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// formats runs a test for each object format.
func formats(t *testing.T, test func(t *testing.T, options ...gitrepotest.Option)) {
	t.Run("sha1", func(t *testing.T) { t.Parallel(); test(t) })
	t.Run("sha256", func(t *testing.T) { t.Parallel(); test(t, gitrepotest.SHA256()) })
}

func TestOpenWhereInTheRepository(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		g := gitrepotest.New(t, options...)
		g.Commit(map[string]string{"a/b/c.txt": "c"}, "first")
		format := g.Git("rev-parse", "--show-object-format")
		for _, dir := range []string{g.Dir, g.Path("a/b")} {
			r := open(t, dir)
			if r.Top() != g.Dir || r.CommonDir() != g.Path(".git") || r.Bare() || r.Shallow() || r.ObjectFormat() != format {
				t.Errorf("Open(%s): top %q, common %q, bare %v, shallow %v, format %q", dir, r.Top(), r.CommonDir(), r.Bare(), r.Shallow(), r.ObjectFormat())
			}
		}
		linked := filepath.Join(filepath.Dir(g.Dir), "linked")
		g.Git("worktree", "add", "-q", linked)
		r := open(t, filepath.Join(linked, "a"))
		if r.Top() != linked || r.CommonDir() != g.Path(".git") {
			t.Errorf("linked: top %q, common %q", r.Top(), r.CommonDir())
		}
		bare := g.Clone("--bare")
		r = open(t, bare.Dir)
		if r.Top() != "" || r.CommonDir() != bare.Dir || !r.Bare() || r.ObjectFormat() != format {
			t.Errorf("bare: top %q, common %q, bare %v", r.Top(), r.CommonDir(), r.Bare())
		}
	})
}

func TestOpenUnusualPath(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	dir := filepath.Join(filepath.Dir(g.Dir), "new\nline \"quoted\" \xff ü")
	if err := os.Rename(g.Dir, dir); err != nil {
		t.Skip("the file system does not take such a name: ", err)
	}
	g = gitrepotest.At(t, dir)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "x"}, "first"))
	r := open(t, dir)
	if r.Top() != dir || r.CommonDir() != filepath.Join(dir, ".git") {
		t.Fatalf("top %q, common %q", r.Top(), r.CommonDir())
	}
	ctx := context.Background()
	list := must[[]gitrepo.Worktree](t)(r.Worktrees(ctx))
	if len(list) != 1 || list[0].Path != dir {
		t.Errorf("work trees %+v", list)
	}
	if !must[bool](t)(r.WorktreeClean(ctx, dir, commit)) {
		t.Error("not clean")
	}
	linked := dir + "\n2"
	if err := r.AddWorktree(ctx, linked, commit); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveWorktree(ctx, linked); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, err := gitrepo.Open(ctx, t.TempDir())
	wantErr(t, err, gitrepo.ErrNotRepository)
	_, err = gitrepo.Open(ctx, filepath.Join(t.TempDir(), "missing"))
	wantErr(t, err, os.ErrNotExist)
	g := gitrepotest.New(t)
	_, err = gitrepo.Open(ctx, g.Path(".git"))
	wantErr(t, err, gitrepo.ErrNotRepository)
	g.Write("file", "x")
	_, err = gitrepo.Open(ctx, g.Path("file"))
	wantErr(t, err, gitrepo.ErrNotRepository)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = gitrepo.Open(cancelled, g.Dir)
	wantErr(t, err, context.Canceled)
}

func TestOpenBrokenRepositorySaysWhy(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	g.Git("config", "core.repositoryFormatVersion", "99")
	_, err := gitrepo.Open(context.Background(), g.Dir)
	var ce *gitrepo.CommandError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "99") {
		t.Fatalf("error %v, want git's own reason", err)
	}
}

// fakeGit puts a git command on the PATH that prints a version and fails otherwise.
func fakeGit(t *testing.T, version string) {
	dir := t.TempDir()
	script := "#!/bin/sh\nfor a; do [ \"$a\" = version ] && { echo '" + version + "'; exit 0; }; done\nexit 129\n"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestOpenOldGit(t *testing.T) {
	g := gitrepotest.New(t)
	for _, version := range []string{"git version 2.37.9", "git version 1.8.3.1", "git version 2.37.GIT", "something else"} {
		t.Run(version, func(t *testing.T) {
			fakeGit(t, version)
			_, err := gitrepo.Open(context.Background(), g.Dir)
			wantErr(t, err, gitrepo.ErrOldGit)
			if !strings.Contains(err.Error(), strings.TrimPrefix(version, "git version ")) {
				t.Errorf("%v does not name the version found", err)
			}
		})
	}
}

func TestOpenNoGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := gitrepo.Open(context.Background(), ".")
	wantErr(t, err, gitrepo.ErrNoGit)
}

// TestEnvironmentOfAHook opens a repository with the variables set that git sets for its hooks.
func TestEnvironmentOfAHook(t *testing.T) {
	ctx := context.Background()
	other := gitrepotest.New(t)
	other.Commit(map[string]string{"other": "x"}, "other")
	g := gitrepotest.New(t)
	commit := g.Commit(map[string]string{"mine": "x"}, "mine")
	for name, value := range map[string]string{
		"GIT_DIR": other.Path(".git"), "GIT_WORK_TREE": other.Dir, "GIT_INDEX_FILE": other.Path(".git/index"),
		"GIT_OBJECT_DIRECTORY": other.Path(".git/objects"), "GIT_COMMON_DIR": other.Path(".git"),
		"GIT_NAMESPACE": "ns", "GIT_PREFIX": "x/", "GIT_QUARANTINE_PATH": "/nowhere", "GIT_TRACE": "1",
		"GIT_LITERAL_PATHSPECS": "1", "GIT_EXTERNAL_DIFF": "false", "LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8",
	} {
		t.Setenv(name, value)
	}
	r := open(t, g.Dir)
	if r.Top() != g.Dir {
		t.Fatalf("top %q, want %q", r.Top(), g.Dir)
	}
	if h := must[gitrepo.Head](t)(r.Head(ctx)); string(h.Commit) != commit {
		t.Errorf("head %v, want %s", h, commit)
	}
	if s := must[gitrepo.Status](t)(r.Status(ctx)); s.Dirty {
		t.Errorf("status %+v", s)
	}
	if err := r.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: "refs/writ/x", New: gitrepo.OID(commit)}); err != nil {
		t.Error(err)
	}
}

// hostile is configuration that changes what Git prints or does.
func hostile(t *testing.T, g *gitrepotest.Repo) (marker string) {
	marker = filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho ran >>'"+marker+"'\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := g.Path(".git/hooks")
	for _, hook := range []string{"pre-commit", "commit-msg", "post-checkout", "post-index-change", "reference-transaction", "post-commit", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman"} {
		if err := os.MkdirAll(hooks, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(hooks, hook)); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"color.ui": "always", "color.status": "always", "color.diff": "always", "core.quotePath": "true", "core.pager": program,
		"diff.renames": "copies", "diff.external": program, "diff.noprefix": "true", "diff.relative": "true",
		"diff.ignoreSubmodules": "all", "diff.orderFile": "/dev/null", "diff.algorithm": "patience",
		"status.renames": "copies", "status.short": "true", "status.branch": "true", "status.showStash": "true",
		"status.showUntrackedFiles": "no", "status.relativePaths": "false",
		"log.showSignature": "true", "log.date": "relative", "log.decorate": "full", "log.follow": "true", "log.mailmap": "true",
		"format.pretty": "oneline", "i18n.logOutputEncoding": "UTF-16", "i18n.commitEncoding": "ISO-8859-1",
		"core.fsmonitor": program, "core.hooksPath": hooks, "core.abbrev": "4", "core.untrackedCache": "true",
		"core.splitIndex": "true", "core.safecrlf": "true", "commit.gpgSign": "true", "gpg.program": program,
		"merge.conflictStyle": "diff3", "merge.renames": "false", "merge.directoryRenames": "true", "submodule.recurse": "true",
		"rebase.autoStash": "true", "gc.auto": "1", "core.logAllRefUpdates": "always", "core.editor": program,
		"pager.status": "true", "tar.umask": "user", "index.version": "4", "feature.manyFiles": "true", "core.askPass": program,
		"interactive.diffFilter": program, "core.fsync": "none",
	} {
		g.Git("config", key, value)
	}
	return marker
}

// TestHostileConfiguration runs every call in a plain repository and in one with hostile
// configuration and expects the same answers.
func TestHostileConfiguration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	answers := func(bad bool) []any {
		g := gitrepotest.New(t)
		base := gitrepo.OID(g.Commit(map[string]string{"a ü\n.txt": "one\ntwo\nthree\n", "b": strings.Repeat("same\n", 20)}, "first"))
		g.Git("checkout", "-q", "-b", "side")
		side := gitrepo.OID(g.Commit(map[string]string{"a ü\n.txt": "one\ntwo\nTHREE\n"}, "side"))
		g.Git("checkout", "-q", "main")
		if err := os.Rename(g.Path("b"), g.Path("c")); err != nil {
			t.Fatal(err)
		}
		main := gitrepo.OID(g.Commit(map[string]string{"a ü\n.txt": "ONE\ntwo\nthree\n"}, "Betreff ü\n\nText"))
		g.Git("stash", "list")
		marker := ""
		if bad {
			marker = hostile(t, g)
		}
		r := open(t, g.Dir)
		var got []any
		note := func(v any, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("hostile %v: %v", bad, err)
			}
			got = append(got, v)
		}
		h, err := r.Head(ctx)
		note(h, err)
		c, err := r.Commit(ctx, main)
		note([]string{c.Subject, c.Body, c.AuthorName}, err)
		m, err := r.Manifest(ctx, main)
		note(m, err)
		d, err := r.Diff(ctx, base, main)
		note(d, err)
		mt, err := r.MergeTree(ctx, main, side)
		note(mt, err)
		mb, ok, err := r.MergeBase(ctx, main, side)
		note([]any{mb, ok}, err)
		st, err := r.Status(ctx)
		note(st, err)
		g.Write("new\"file", "x\r\n")
		g.Write("b", "back")
		st, err = r.Status(ctx)
		note(st, err)
		w, err := r.WorktreeCommit(ctx, main, "work in progress")
		note(nil, err)
		d, err = r.Diff(ctx, main, w)
		note(d, err)
		note(r.WorktreeClean(ctx, g.Dir, main))
		note(nil, r.UpdateRefs(ctx, "test", gitrepo.RefUpdate{Name: "refs/writ/a", New: w}, gitrepo.RefUpdate{Name: "refs/heads/other", New: main}))
		note(r.CheckedOut(ctx, "side"))
		linked := filepath.Join(t.TempDir(), "linked")
		note(nil, r.AddWorktree(ctx, linked, side))
		note(os.ReadFile(filepath.Join(linked, "a ü\n.txt")))
		note(nil, r.UpdateWorktree(ctx, linked, side, main))
		note(os.ReadFile(filepath.Join(linked, "c")))
		note(nil, r.RemoveWorktree(ctx, linked))
		ct, err := r.CommitTree(ctx, gitrepo.CommitSpec{Tree: mt.Tree, Parents: []gitrepo.OID{main, side}, Message: "Zusammenführung"})
		note(nil, err)
		c, err = r.Commit(ctx, ct)
		note([]any{c.Subject, c.Parents}, err)
		id, ok, err := r.Ref(ctx, "refs/heads/other")
		note([]any{id, ok}, err)
		if marker != "" {
			if _, err := os.Stat(marker); err == nil {
				t.Error("a hook or configured program ran")
			}
			if _, err := os.Stat(g.Path(".git/logs/refs/writ")); err == nil {
				t.Error("a ref of Writ's got a reflog")
			}
			if _, err := os.Stat(g.Path(".git/logs/refs/heads/other")); err != nil {
				t.Error("a branch got no reflog")
			}
		}
		return got
	}
	plain, bad := answers(false), answers(true)
	for i := range plain {
		if sprint(plain[i]) != sprint(bad[i]) {
			t.Errorf("answer %d: plain %s, hostile %s", i, sprint(plain[i]), sprint(bad[i]))
		}
	}
}

func TestConfigAndIdentity(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	r := open(t, g.Dir)
	g.Git("config", "writ.text", "one\ntwo ")
	g.Git("config", "core.fsync", "none")
	for key, want := range map[string]string{"writ.text": "one\ntwo ", "core.fsync": "none", "user.name": "Test User"} {
		if v, ok, err := r.Config(ctx, key); err != nil || !ok || v != want {
			t.Errorf("Config(%s) = %q, %v, %v", key, v, ok, err)
		}
	}
	if v, ok, err := r.Config(ctx, "writ.missing"); err != nil || ok || v != "" {
		t.Errorf("missing key: %q, %v, %v", v, ok, err)
	}
	for _, key := range []string{"nodot", "--list", "a.b\nc", "writ.bad key"} {
		if _, _, err := r.Config(ctx, key); err == nil {
			t.Errorf("Config(%q) has no error", key)
		}
	}
	name, email, err := r.Identity(ctx)
	if name != "Test User" || email != "test@example.com" || err != nil {
		t.Errorf("identity %q %q %v", name, email, err)
	}
	commit := g.Commit(map[string]string{"f": "x"}, "first")
	tree := gitrepo.OID(g.Git("rev-parse", commit+"^{tree}"))
	for _, key := range []string{"user.email", "user.name"} {
		g.Git("config", "--unset", key)
		_, _, err = r.Identity(ctx)
		wantErr(t, err, gitrepo.ErrNoIdentity)
		_, err = r.CommitTree(ctx, gitrepo.CommitSpec{Tree: tree, Message: "m"})
		wantErr(t, err, gitrepo.ErrNoIdentity)
		_, err = r.WorktreeCommit(ctx, "", "m")
		wantErr(t, err, gitrepo.ErrNoIdentity)
	}
}

func TestCancelKillsTheChild(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "x"}, "first"))
	// A filter that never ends stands for any command that takes long.
	started := filepath.Join(t.TempDir(), "started")
	if err := exec.Command("mkfifo", started).Run(); err != nil {
		t.Fatal(err)
	}
	g.Git("config", "filter.slow.clean", "echo $$ >'"+started+"'; exec sleep 600")
	g.Write(".gitattributes", "slow filter=slow\n")
	g.Write("slow", "x")
	r := open(t, g.Dir)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := r.WorktreeCommit(ctx, commit, "m")
		done <- err
	}()
	pid := must[[]byte](t)(os.ReadFile(started)) // waits until the filter runs
	cancel()
	wantErr(t, <-done, context.Canceled)
	// The filter dies with the group. Nobody waits for its end, and its zombie may stay
	// with whoever adopts it.
	alive := func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); alive(); {
		select {
		case <-end:
			t.Fatal("the child's child still runs")
		case <-tick.C:
		}
	}
	var err error
	if _, err := os.Stat(g.Path(".git/index.lock")); err == nil {
		t.Error("the index lock was left behind")
	}
	_, err = r.Commit(ctx, commit)
	wantErr(t, err, context.Canceled)
	if _, err := r.Commit(context.Background(), commit); err != nil {
		t.Errorf("after a cancelled call: %v", err)
	}
}

func TestCommandError(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "x"}, "first"))
	r := open(t, g.Dir)
	err := r.AddWorktree(context.Background(), g.Dir, commit)
	var ce *gitrepo.CommandError
	if !errors.As(err, &ce) || ce.ExitCode != 128 || ce.Args[0] != "worktree" || !strings.Contains(ce.Stderr, "already exists") {
		t.Fatalf("error %#v", err)
	}
	if want := "git worktree failed with exit status 128: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("message %q", err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "x"}, "first"))
	r := open(t, g.Dir)
	must[*gitrepo.Commit](t)(r.Commit(ctx, commit))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Commit(ctx, commit)
	wantErr(t, err, gitrepo.ErrClosed)
}

func TestMalformedIDsNeverReachGit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	good := gitrepo.OID(g.Commit(map[string]string{"f": "x"}, "first"))
	r := open(t, g.Dir)
	for _, bad := range []gitrepo.OID{"HEAD", "--help", gitrepo.OID(strings.ToUpper(string(good))), good + "\n", good[:39], "", good + good[:24]} {
		for name, call := range map[string]func() error{
			"Commit":         func() error { _, err := r.Commit(ctx, bad); return err },
			"Range":          func() error { _, _, err := r.Range(ctx, good, bad, 1); return err },
			"MergeBase":      func() error { _, _, err := r.MergeBase(ctx, good, bad); return err },
			"IsAncestor":     func() error { _, err := r.IsAncestor(ctx, bad, good); return err },
			"Manifest":       func() error { _, err := r.Manifest(ctx, bad); return err },
			"Diff":           func() error { _, err := r.Diff(ctx, bad, good); return err },
			"ReadFile":       func() error { _, _, err := r.ReadFile(ctx, bad, "f", 1); return err },
			"ListTop":        func() error { _, err := r.ListTop(ctx, bad); return err },
			"MergeTree":      func() error { _, err := r.MergeTree(ctx, bad, good); return err },
			"CommitTree":     func() error { _, err := r.CommitTree(ctx, gitrepo.CommitSpec{Tree: bad, Message: "m"}); return err },
			"WorktreeClean":  func() error { _, err := r.WorktreeClean(ctx, g.Dir, bad); return err },
			"UpdateWorktree": func() error { return r.UpdateWorktree(ctx, g.Dir, good, bad) },
			"AddWorktree":    func() error { return r.AddWorktree(ctx, g.Path("w"), bad) },
			"Persist":        func() error { return r.Persist(ctx, good, bad) },
		} {
			if err := call(); !errors.Is(err, gitrepo.ErrBadOID) {
				t.Errorf("%s(%q): %v", name, bad, err)
			}
		}
	}
}
