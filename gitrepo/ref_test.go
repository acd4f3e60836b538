package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

func TestHead(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		r := open(t, g.Dir)
		if h := must[gitrepo.Head](t)(r.Head(ctx)); h != (gitrepo.Head{Branch: "main"}) {
			t.Errorf("unborn: %+v", h)
		}
		if s := must[gitrepo.Status](t)(r.Status(ctx)); s.Dirty {
			t.Errorf("unborn: %+v", s)
		}
		commit := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "first"))
		if h := must[gitrepo.Head](t)(r.Head(ctx)); h != (gitrepo.Head{Branch: "main", Commit: commit}) {
			t.Errorf("on main: %+v", h)
		}
		g.Git("checkout", "-q", "-b", "feature/ü")
		if h := must[gitrepo.Head](t)(r.Head(ctx)); h != (gitrepo.Head{Branch: "feature/ü", Commit: commit}) {
			t.Errorf("on a branch: %+v", h)
		}
		g.Git("checkout", "-q", "--detach")
		if h := must[gitrepo.Head](t)(r.Head(ctx)); h != (gitrepo.Head{Commit: commit}) {
			t.Errorf("detached: %+v", h)
		}
		bare := g.Clone("--bare")
		if h := must[gitrepo.Head](t)(open(t, bare.Dir).Head(ctx)); h.Commit != commit {
			t.Errorf("bare: %+v", h)
		}
	})
}

func TestRefIsExact(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "first"))
	other := gitrepo.OID(g.Commit(map[string]string{"f": "2"}, "second"))
	r := open(t, g.Dir)
	absent := func(name string) {
		t.Helper()
		if id, ok, err := r.Ref(ctx, name); err != nil || ok || id != "" {
			t.Errorf("%s: %s, %v, %v, want nothing", name, id, ok, err)
		}
	}
	present := func(name string, want gitrepo.OID) {
		t.Helper()
		if id, ok, err := r.Ref(ctx, name); err != nil || !ok || id != want {
			t.Errorf("%s: %s, %v, %v, want %s", name, id, ok, err, want)
		}
	}
	present("refs/heads/main", other)
	absent("refs/heads/none")
	absent("refs/heads")
	// Names that Git would find on the way to another ref.
	for i, form := range []string{"refs/refs/heads/x%d", "refs/tags/refs/heads/x%d", "refs/heads/refs/heads/x%d", "refs/remotes/refs/heads/x%d", "refs/remotes/refs/heads/x%d/HEAD"} {
		g.Git("update-ref", fmt.Sprintf(form, i), string(commit))
		name := fmt.Sprintf("refs/heads/x%d", i)
		absent(name)
		g.Git("update-ref", name, string(other))
		present(name, other)
	}
	absent("refs/heads/name-g" + string(commit[:10]))
	g.Git("update-ref", "refs/heads/name-g"+string(commit[:10]), string(other))
	present("refs/heads/name-g"+string(commit[:10]), other)

	g.Git("tag", "-a", "v1", "-m", "tag")
	present("refs/tags/v1", gitrepo.OID(g.Git("rev-parse", "v1")))
	g.Git("pack-refs", "--all")
	present("refs/heads/main", other)
	g.Git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	present("refs/heads/alias", other)
	g.Git("symbolic-ref", "refs/heads/dangling", "refs/heads/none")
	absent("refs/heads/dangling")

	g.Write(".git/refs/writ/broken", "garbage\n")
	_, _, err := r.Ref(ctx, "refs/writ/broken")
	wantErr(t, err, gitrepo.ErrBrokenRef)
	g.Write(".git/refs/writ/gone", strings.Repeat("1", 40)+"\n")
	_, _, err = r.Ref(ctx, "refs/writ/gone")
	wantErr(t, err, gitrepo.ErrBrokenRef)

	for _, name := range []string{"main", "HEAD", "refs/heads/a b", "refs/heads/a\n", "refs/heads/a..b", "refs/heads/a:b", "refs/heads/a^{}", "refs/", "refs/heads/a@{1}", "refs//a", "refs/heads/.a", ""} {
		_, _, err := r.Ref(ctx, name)
		wantErr(t, err, gitrepo.ErrBadRefName)
	}
}

func TestUpdateRefs(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		a := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "a"))
		b := gitrepo.OID(g.Commit(map[string]string{"f": "2"}, "b"))
		r := open(t, g.Dir)
		update := func(updates ...gitrepo.RefUpdate) error { return r.UpdateRefs(ctx, "writ:\n test", updates...) }
		value := func(name string) gitrepo.OID {
			t.Helper()
			id, _, err := r.Ref(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		moved := func(err error, name string, want, have gitrepo.OID) {
			t.Helper()
			var m *gitrepo.RefMovedError
			if !errors.As(err, &m) || !errors.Is(err, gitrepo.ErrRefMoved) || m.Name != name || m.Want != want || m.Have != have {
				t.Errorf("error %#v, want that %s is %q instead of %q", err, name, have, want)
			}
		}
		const x, y = "refs/writ/i/s/4/0", "refs/writ/i/s/4/1"
		if err := update(gitrepo.RefUpdate{Name: x, New: a}); err != nil {
			t.Fatal(err)
		}
		moved(update(gitrepo.RefUpdate{Name: x, New: b}), x, "", a)
		moved(update(gitrepo.RefUpdate{Name: x, New: a, Old: b}), x, b, a)
		moved(update(gitrepo.RefUpdate{Name: y, New: a, Old: b}), y, b, "")
		// All or none.
		moved(update(gitrepo.RefUpdate{Name: y, New: a}, gitrepo.RefUpdate{Name: x, New: b}), x, "", a)
		if value(y) != "" {
			t.Error("half of a transaction took effect")
		}
		if err := update(gitrepo.RefUpdate{Name: y, New: a}, gitrepo.RefUpdate{Name: x, New: b, Old: a}, gitrepo.RefUpdate{Name: "refs/heads/new", New: a}); err != nil {
			t.Fatal(err)
		}
		if value(x) != b || value(y) != a || value("refs/heads/new") != a {
			t.Error("a transaction did not take effect")
		}
		for _, old := range []gitrepo.OID{gitrepo.AnyOID, b} {
			if err := update(gitrepo.RefUpdate{Name: x, New: b, Old: old}); err != nil {
				t.Errorf("old %s: %v", old, err)
			}
		}
		if err := update(gitrepo.RefUpdate{Name: "refs/writ/any", New: b, Old: gitrepo.AnyOID}); err != nil {
			t.Error(err)
		}
		moved(update(gitrepo.RefUpdate{Name: x, Old: a}), x, a, b)
		if err := update(gitrepo.RefUpdate{Name: x, Old: b}, gitrepo.RefUpdate{Name: y, Old: gitrepo.AnyOID}); err != nil {
			t.Fatal(err)
		}
		if value(x) != "" || value(y) != "" {
			t.Error("deleted refs are there")
		}
		if err := update(gitrepo.RefUpdate{Name: "refs/heads/main", New: a, Old: b}); err != nil {
			t.Fatal(err)
		}
		if log := g.Git("reflog", "show", "--format=%gs", "-1", "main"); log != "writ: test" {
			t.Errorf("reflog %q", log)
		}
		if err := r.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: "refs/heads/main", New: b, Old: a}); err != nil {
			t.Errorf("without a message: %v", err)
		}

		for _, bad := range []gitrepo.RefUpdate{
			{Name: "main", New: a}, {Name: "refs/heads/a\x00b", New: a}, {Name: "refs/heads/x.lock", New: a}, {Name: "refs/writ/x", New: "HEAD"},
			{Name: "refs/writ/x", New: a, Old: "HEAD"}, {Name: "refs/writ/x"}, {Name: "refs/heads/main/below", New: a},
			{Name: "refs/writ/x", New: gitrepo.OID(strings.Repeat("1", len(a)))},
		} {
			if err := update(bad); err == nil || errors.Is(err, gitrepo.ErrRefMoved) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if err := update(); err != nil {
			t.Error(err)
		}
	})
}

func TestOneCreatorWins(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	var ids []gitrepo.OID
	for i := range 8 {
		ids = append(ids, gitrepo.OID(g.Commit(map[string]string{"f": fmt.Sprint(i)}, "c")))
	}
	r := open(t, g.Dir)
	var won atomic.Int32
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			err := r.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: "refs/writ/one", New: id})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, gitrepo.ErrRefMoved) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d creators won", won.Load())
	}
}

func TestWritRefsGetNoReflog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "a"))
	r := open(t, g.Dir)
	for i, setting := range []string{"always", "true", "false", "ALWAYS"} {
		g.Git("config", "core.logAllRefUpdates", setting)
		ours, branch := fmt.Sprintf("refs/writ/x%d", i), fmt.Sprintf("refs/heads/b%d", i)
		if err := r.UpdateRefs(ctx, "m", gitrepo.RefUpdate{Name: ours, New: commit}); err != nil {
			t.Fatal(err)
		}
		if err := r.UpdateRefs(ctx, "m", gitrepo.RefUpdate{Name: ours + "y", New: commit}, gitrepo.RefUpdate{Name: branch, New: commit}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(g.Path(".git/logs/refs/writ")); err == nil {
			t.Errorf("%s: a ref of Writ's has a reflog", setting)
		}
		_, err := os.Stat(g.Path(".git/logs/" + branch))
		if logged := err == nil; logged != (setting != "false") {
			t.Errorf("%s: branch logged: %v", setting, logged)
		}
	}
}

func TestUpstreamAndDefaultBranch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	r := open(t, g.Dir)
	if b, ok, err := r.DefaultBranch(ctx); ok || err != nil {
		t.Errorf("unborn: %q, %v, %v", b, ok, err)
	}
	g.Commit(map[string]string{"f": "1"}, "a")
	g.Git("branch", "-M", "trunk")
	clone := g.Clone()
	c := open(t, clone.Dir)
	for branch, want := range map[string]string{"trunk": "refs/remotes/origin/trunk", "none": ""} {
		if ref, ok, err := c.Upstream(ctx, branch); err != nil || ref != want || ok != (want != "") {
			t.Errorf("%s: upstream %q, %v, %v", branch, ref, ok, err)
		}
	}
	clone.Git("checkout", "-q", "-b", "feature/x", "--track", "trunk")
	if ref, ok, err := c.Upstream(ctx, "feature/x"); err != nil || !ok || ref != "refs/heads/trunk" {
		t.Errorf("local upstream %q, %v, %v", ref, ok, err)
	}
	if b, ok, err := c.DefaultBranch(ctx); err != nil || !ok || b != "trunk" {
		t.Errorf("the remote's: %q, %v, %v", b, ok, err)
	}
	clone.Git("update-ref", "-d", "refs/remotes/origin/trunk")
	if ref, ok, err := c.Upstream(ctx, "trunk"); err != nil || ok {
		t.Errorf("an upstream that is gone: %q, %v, %v", ref, ok, err)
	}
	if b, ok, err := r.DefaultBranch(ctx); err != nil || ok {
		t.Errorf("no known name: %q, %v, %v", b, ok, err)
	}
	g.Git("config", "init.defaultBranch", "trunk")
	if b, ok, err := r.DefaultBranch(ctx); err != nil || !ok || b != "trunk" {
		t.Errorf("configured: %q, %v, %v", b, ok, err)
	}
	g.Git("branch", "master")
	if b, _, _ := r.DefaultBranch(ctx); b != "master" {
		t.Errorf("master: %q", b)
	}
	g.Git("branch", "main")
	if b, _, _ := r.DefaultBranch(ctx); b != "main" {
		t.Errorf("main: %q", b)
	}
}

func TestPersist(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	a := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "a"))
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprint("many/", i)] = fmt.Sprint(i)
	}
	many := gitrepo.OID(g.Commit(files, "more than are synced one by one"))
	few := gitrepo.OID(g.Commit(map[string]string{"f": "2"}, "few"))
	r := open(t, g.Dir)
	for _, packed := range []bool{false, true} {
		if packed {
			g.Git("repack", "-adq")
		}
		if err := errors.Join(r.Persist(ctx, few, many), r.Persist(ctx, few, a), r.Persist(ctx, few), r.Persist(ctx, a, a)); err != nil {
			t.Errorf("packed %v: %v", packed, err)
		}
	}
	wantErr(t, r.Persist(ctx, gitrepo.OID(strings.Repeat("1", 40))), gitrepo.ErrNoObject)
}
