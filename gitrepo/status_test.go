package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		odd := "odd \"n\"\n\xff"
		source, _ := addSubmodule(t, g, options...)
		g.Commit(map[string]string{"f": "1", "staged": "1", "gone": "1", odd: "1", "renamed from": "the same\n", ".gitignore": "ignored\n"}, "first")
		g.Write("ignored", "x")
		r := open(t, g.Path("sub/.."))
		if s := must[gitrepo.Status](t)(r.Status(ctx)); s.Dirty || len(s.Entries) != 0 || s.More != 0 || s.Operation != "" {
			t.Fatalf("clean: %+v", s)
		}
		// The same content written again is no change.
		g.Write("f", "1")
		if s := must[gitrepo.Status](t)(r.Status(ctx)); s.Dirty {
			t.Fatalf("touched: %+v", s)
		}
		g.Write("f", "2")
		g.Write("staged", "2")
		g.Git("add", "staged")
		g.Write(odd, "2")
		g.Git("mv", "renamed from", "renamed to")
		if err := os.Remove(g.Path("gone")); err != nil {
			t.Fatal(err)
		}
		g.Write("new dir/a", "x")
		g.Write("new\nfile", "x")
		source.Commit(map[string]string{"inside": "y"}, "next")
		gitrepotest.At(t, g.Path("sub")).Git("pull", "-q", source.Dir, "main")
		s := must[gitrepo.Status](t)(r.Status(ctx))
		got := map[string]string{}
		for _, e := range s.Entries {
			got[e.Path] = string(e.Staged) + string(e.Unstaged)
			if e.Submodule {
				got[e.Path] += "S"
			}
			if e.Untracked() != (e.Staged == '?') || e.Unmerged {
				t.Errorf("entry %+v", e)
			}
		}
		want := map[string]string{"f": ".M", "staged": "M.", odd: ".M", "renamed from": "D.", "renamed to": "A.",
			"gone": ".D", "new dir/": "??", "new\nfile": "??", "sub": ".MS"}
		if !s.Dirty || sprint(got) != sprint(want) {
			t.Errorf("status %q, want %q", got, want)
		}
	})
}

func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	for i := range 57 {
		g.Write(fmt.Sprint("f", i), "x")
	}
	s := must[gitrepo.Status](t)(open(t, g.Dir).Status(context.Background()))
	if !s.Dirty || len(s.Entries) != 20 || s.More != 37 {
		t.Errorf("%d entries and %d more", len(s.Entries), s.More)
	}
}

func TestStatusOperation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	g.Commit(map[string]string{"f": "1\n"}, "base")
	g.Git("checkout", "-q", "-b", "side")
	side := g.Commit(map[string]string{"f": "2\n"}, "side")
	patch := g.Git("format-patch", "--stdout", "-1")
	g.Git("checkout", "-q", "main")
	main := g.Commit(map[string]string{"f": "3\n"}, "main")
	r := open(t, g.Dir)
	step := func(want string, args ...string) {
		t.Helper()
		if out, err := g.Try(args...); err == nil {
			t.Fatalf("git %v succeeded: %s", args, out)
		}
		s := must[gitrepo.Status](t)(r.Status(ctx))
		if s.Operation != want || !s.Dirty || !s.Entries[0].Unmerged {
			t.Errorf("git %v: %+v", args, s)
		}
		_, err := r.WorktreeCommit(ctx, gitrepo.OID(main), "m")
		wantErr(t, err, gitrepo.ErrUnmerged)
		if ok, err := r.WorktreeClean(ctx, g.Dir, gitrepo.OID(main)); ok || err != nil {
			t.Errorf("git %v: clean %v, %v", args, ok, err)
		}
	}
	step("merge", "merge", "side")
	g.Git("merge", "--abort")
	step("cherry-pick", "cherry-pick", side)
	g.Git("cherry-pick", "--abort")
	step("rebase", "rebase", "side")
	g.Git("rebase", "--abort")
	step("revert", "revert", "--no-edit", g.Git("rev-parse", side+"~0"))
	g.Git("revert", "--abort")
	g.Write("patch", patch+"\n")
	step("am", "am", "-q", "-3", g.Path("patch"))
	g.Git("am", "--abort")
	g.Git("bisect", "start")
	if s := must[gitrepo.Status](t)(r.Status(ctx)); s.Operation != "bisect" {
		t.Errorf("bisect: %+v", s)
	}
	g.Git("bisect", "reset")
	if s := must[gitrepo.Status](t)(r.Status(ctx)); s.Operation != "" {
		t.Errorf("at the end: %+v", s)
	}
}

func TestWorktreeCallsInABareRepository(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "a"))
	r := open(t, g.Clone("--bare").Dir)
	_, err := r.Status(ctx)
	wantErr(t, err, gitrepo.ErrBare)
	_, err = r.WorktreeCommit(ctx, commit, "m")
	wantErr(t, err, gitrepo.ErrBare)
	list := must[[]gitrepo.Worktree](t)(r.Worktrees(ctx))
	if len(list) != 1 || !list[0].Bare {
		t.Errorf("work trees %+v", list)
	}
	if paths := must[[]string](t)(r.CheckedOut(ctx, "main")); len(paths) != 0 {
		t.Errorf("checked out at %q", paths)
	}
	linked := filepath.Join(t.TempDir(), "w")
	if err := r.AddWorktree(ctx, linked, commit); err != nil {
		t.Fatal(err)
	}
	if s := must[gitrepo.Status](t)(open(t, linked).Status(ctx)); s.Dirty {
		t.Errorf("status %+v", s)
	}
	if err := r.RemoveWorktree(ctx, linked); err != nil {
		t.Fatal(err)
	}
}

// userState is what WorktreeCommit must leave alone.
func userState(t *testing.T, g *gitrepotest.Repo) string {
	t.Helper()
	index, err := os.ReadFile(g.Path(".git/index"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	files, err := filepath.Glob(g.Path(".git/*"))
	if err != nil {
		t.Fatal(err)
	}
	refs, _ := g.Try("show-ref", "--head")
	reflog, _ := g.Try("reflog", "--all")
	return fmt.Sprintf("%x %s %s %s", index, files, refs, reflog)
}

func TestWorktreeCommit(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		odd := "odd \"n\"\n\xff"
		source, _ := addSubmodule(t, g, options...)
		parent := gitrepo.OID(g.Commit(map[string]string{"f": "1", "staged": "1", "gone": "1", ".gitignore": "ignored\n", "x/f": "1"}, "first"))
		g.Git("config", "core.splitIndex", "true")
		g.Write("staged", "2")
		g.Git("add", "staged")
		g.Write("staged", "3")
		g.Write("f", "2")
		g.Write(odd, "new")
		g.Write("ignored", "x")
		g.Write("new/dir/f", "x")
		g.Write("intent", "x")
		g.Git("add", "--intent-to-add", "intent")
		addLinkAndModes(t, g)
		if err := os.Remove(g.Path("gone")); err != nil {
			t.Fatal(err)
		}
		next := source.Commit(map[string]string{"inside": "y"}, "next")
		gitrepotest.At(t, g.Path("sub")).Git("pull", "-q", source.Dir, "main")
		before := userState(t, g)
		r := open(t, g.Path("x"))
		id := must[gitrepo.OID](t)(r.WorktreeCommit(ctx, parent, "work in progress"))
		if after := userState(t, g); after != before {
			t.Errorf("the user's repository changed:\n%s\n%s", before, after)
		}
		c := must[*gitrepo.Commit](t)(r.Commit(ctx, id))
		if len(c.Parents) != 1 || c.Parents[0] != parent || c.Subject != "work in progress" {
			t.Errorf("commit %+v", c)
		}
		got := map[string]string{}
		for _, d := range must[[]gitrepo.FileChange](t)(r.Diff(ctx, parent, id)) {
			got[d.Path] = string(d.Status) + d.NewMode
			if d.Path == "sub" && string(d.NewID) != next {
				t.Errorf("submodule at %s, want %s", d.NewID, next)
			}
		}
		want := map[string]string{"staged": "M100644", "f": "M100644", odd: "A100644", "new/dir/f": "A100644", "intent": "A100644",
			"link": "A120000", "dirlink": "A120000", "run.sh": "A100755", "gone": "D000000", "sub": "M160000"}
		if sprint(got) != sprint(want) {
			t.Errorf("changes %q, want %q", got, want)
		}
		if data, _, err := r.ReadFile(ctx, id, "staged", 10); err != nil || string(data) != "3" {
			t.Errorf("staged file %q, %v", data, err)
		}
		// The commit is exactly what committing everything makes.
		g.Commit(nil, "all")
		if tree := g.Git("rev-parse", "HEAD^{tree}"); tree != string(c.Tree) {
			t.Errorf("tree %s, git commit makes %s", c.Tree, tree)
		}
	})
}

func TestWorktreeCommitWithoutAParent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	r := open(t, g.Dir)
	id := must[gitrepo.OID](t)(r.WorktreeCommit(ctx, "", "nothing"))
	empty := must[gitrepo.OID](t)(r.EmptyTree(ctx))
	if c := must[*gitrepo.Commit](t)(r.Commit(ctx, id)); len(c.Parents) != 0 || c.Tree != empty {
		t.Errorf("commit %+v", c)
	}
	g.Write("f", "x")
	id = must[gitrepo.OID](t)(r.WorktreeCommit(ctx, "", "first"))
	if m := must[gitrepo.Manifest](t)(r.Manifest(ctx, id)); m.Files != 1 {
		t.Errorf("manifest %+v", m)
	}
	if h := must[gitrepo.Head](t)(r.Head(ctx)); h.Commit != "" {
		t.Errorf("head %+v", h)
	}
}

// TestWorktreeCommitSeesRacyChanges changes a file within the clock tick of the index, to the
// same size, so that only the index's own time tells Git to look at the content.
func TestWorktreeCommitSeesRacyChanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	parent := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "first"))
	r := open(t, g.Dir)
	for i := range 20 {
		g.Write("f", fmt.Sprint(i%10))
		g.Git("add", "f")
		g.Write("f", fmt.Sprint((i+1)%10))
		id := must[gitrepo.OID](t)(r.WorktreeCommit(ctx, parent, "m"))
		if data, _, err := r.ReadFile(ctx, id, "f", 10); err != nil || string(data) != fmt.Sprint((i+1)%10) {
			t.Fatalf("round %d: %q, %v", i, data, err)
		}
	}
}

func TestWorktreeCommitSparse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	parent := gitrepo.OID(g.Commit(map[string]string{"in/f": "1", "out/f": "1"}, "first"))
	g.Git("sparse-checkout", "set", "in")
	g.Write("in/f", "2")
	r := open(t, g.Dir)
	id := must[gitrepo.OID](t)(r.WorktreeCommit(ctx, parent, "m"))
	if d := must[[]gitrepo.FileChange](t)(r.Diff(ctx, parent, id)); len(d) != 1 || d[0].Path != "in/f" {
		t.Errorf("changes %+v", d)
	}
	g.Write("in/f", "1")
	if ok := must[bool](t)(r.WorktreeClean(ctx, g.Dir, parent)); !ok {
		t.Error("a sparse work tree is not clean")
	}
	linked := filepath.Join(t.TempDir(), "w")
	if err := r.AddWorktree(ctx, linked, parent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(linked, "out/f")); err != nil {
		t.Errorf("the new work tree is sparse: %v", err)
	}
}
