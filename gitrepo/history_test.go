package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

func TestResolveCommit(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		first := g.Commit(map[string]string{"f": "1"}, "first")
		second := g.Commit(map[string]string{"f": "2"}, "second")
		g.Git("tag", "-a", "v1", "-m", "tag", first)
		g.Git("tag", "-a", "v1again", "-m", "tag of a tag", "v1")
		g.Git("branch", "feature/ü")
		r := open(t, g.Dir)
		for rev, want := range map[string]string{
			"HEAD": second, "main": second, "refs/heads/main": second, "HEAD~1": first, "main^": first, "v1": first,
			"v1again": first, "@": second, first: first, first[:12]: first, "feature/ü": second, "HEAD@{0}": second,
			"HEAD^{/fir}": first,
		} {
			if got, err := r.ResolveCommit(ctx, rev); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v, want %s", rev, got, err, want)
			}
		}
		for _, rev := range []string{
			"", "none", "-main", "--all", "main..HEAD", "^main", "HEAD~9", "HEAD:f", "HEAD^{tree}", "main@{upstream}", "main@{99}",
			":/first", "HEAD\n", "a\x00b", strings.Repeat("1", len(first)), first + " commit 5", "a b", "@{-5}",
		} {
			got, err := r.ResolveCommit(ctx, rev)
			if !errors.Is(err, gitrepo.ErrUnknownRevision) || !strings.Contains(err.Error(), fmt.Sprintf("%q", rev)) {
				t.Errorf("%q: %s, %v", rev, got, err)
			}
		}
		if got := must[gitrepo.OID](t)(r.ResolveCommit(ctx, "main")); string(got) != second {
			t.Errorf("after unknown names: %s", got)
		}
	})
}

func TestResolveAmbiguous(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	g.Generate(1, 400) // enough that four digits are shared by two commits
	seen := map[string]bool{}
	for _, id := range strings.Fields(g.Git("rev-list", "main")) {
		if seen[id[:4]] {
			_, err := open(t, g.Dir).ResolveCommit(context.Background(), id[:4])
			wantErr(t, err, gitrepo.ErrUnknownRevision)
			wantErr(t, err, gitrepo.ErrAmbiguous)
			return
		}
		seen[id[:4]] = true
	}
	t.Fatal("no two commits share four digits; generate more")
}

func TestCommit(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		first := g.Commit(map[string]string{"f": "1"}, "Subject ü\nsecond line\n\nBody one.\n\nBody two.\n\n")
		g.Git("checkout", "-q", "-b", "side")
		side := g.Commit(nil, "side")
		g.Git("checkout", "-q", "main")
		g.Git("merge", "-q", "--no-ff", "-m", "merge", "side")
		r := open(t, g.Dir)
		c := must[*gitrepo.Commit](t)(r.Commit(ctx, gitrepo.OID(first)))
		if string(c.ID) != first || string(c.Tree) != g.Git("rev-parse", first+"^{tree}") || len(c.Parents) != 0 ||
			c.AuthorName != "Test User" || c.AuthorEmail != "test@example.com" || c.AuthorTime.Unix() != 1700000001 ||
			!c.CommitTime.Equal(c.AuthorTime) || c.Subject != "Subject ü second line" || c.Body != "Body one.\n\nBody two." {
			t.Errorf("commit %+v", c)
		}
		merge := must[*gitrepo.Commit](t)(r.Commit(ctx, gitrepo.OID(g.Git("rev-parse", "HEAD"))))
		if len(merge.Parents) != 2 || string(merge.Parents[0]) != first || string(merge.Parents[1]) != side {
			t.Errorf("parents %v", merge.Parents)
		}
		_, err := r.Commit(ctx, c.Tree)
		wantErr(t, err, gitrepo.ErrBadObject)
		_, err = r.Commit(ctx, gitrepo.OID(strings.Repeat("1", len(first))))
		wantErr(t, err, gitrepo.ErrNoObject)
	})
}

func TestCommitEncodings(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	g.Commit(map[string]string{"f": "1"}, "first")
	tree := g.Git("rev-parse", "HEAD^{tree}")
	write := func(encoding, author, message string) gitrepo.OID {
		if encoding != "" {
			encoding = "encoding " + encoding + "\n"
		}
		return gitrepo.OID(g.Feed("tree "+tree+"\nauthor "+author+" <a@x> 1700000000 +0530\ncommitter C <c@x> 1700000060 -0800\n"+
			encoding+"gpgsig -----BEGIN\n \n more\n -----END\n\n"+message, "hash-object", "-t", "commit", "-w", "--stdin", "--literally"))
	}
	r := open(t, g.Dir)
	for name, c := range map[string]struct {
		id                    gitrepo.OID
		author, subject, body string
	}{
		"utf-8":       {write("", "Zoë", "Grüße\n\nüber\n"), "Zoë", "Grüße", "über"},
		"declared":    {write("UTF-8", "Zoë", "Grüße"), "Zoë", "Grüße", ""},
		"latin-1":     {write("ISO-8859-1", "Zo\xeb", "Gr\xfc\xdfe\n\n\xfcber\n"), "Zoë", "Grüße", "über"},
		"shift-jis":   {write("SHIFT-JIS", "\x93\xfa\x96{", "\x83e\x83X\x83g"), "日本", "テスト", ""},
		"undeclared":  {write("", "Zo\xeb", "Gr\xfc\xdfe"), "Zo\uFFFD", "Gr\uFFFDe", ""},
		"unknown":     {write("martian", "Zo\xeb", "Gr\xfc\xdfe"), "Zo\uFFFD", "Gr\uFFFDe", ""},
		"no message":  {write("", "A", ""), "A", "", ""},
		"blank lines": {write("", "A", "\n \n\nSubject  \r\nmore\n \n\n  Body\n\n"), "A", "Subject more", "  Body"},
	} {
		got, err := r.Commit(ctx, c.id)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.AuthorName != c.author || got.Subject != c.subject || got.Body != c.body || got.AuthorEmail != "a@x" {
			t.Errorf("%s: author %q, subject %q, body %q", name, got.AuthorName, got.Subject, got.Body)
		}
		if s := got.AuthorTime.Format(time.RFC3339); s != "2023-11-15T03:43:20+05:30" {
			t.Errorf("%s: author time %s", name, s)
		}
		if s := got.CommitTime.Format(time.RFC3339); s != "2023-11-14T14:14:20-08:00" {
			t.Errorf("%s: commit time %s", name, s)
		}
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	g.Generate(3, 700) // more than two batches of object reads
	r := open(t, g.Dir)
	all := strings.Fields(g.Git("rev-list", "--reverse", "main"))
	head := gitrepo.OID(all[len(all)-1])
	for _, c := range []struct {
		base  int // -1: none
		limit int
		want  []string
		more  bool
	}{
		{-1, 1000, all, false}, {-1, 700, all, false}, {-1, 699, all[:699], true}, {-1, 1, all[:1], true},
		{9, 1000, all[10:], false}, {9, 5, all[10:15], true}, {698, 5, all[699:], false}, {699, 5, nil, false},
	} {
		var base gitrepo.OID
		if c.base >= 0 {
			base = gitrepo.OID(all[c.base])
		}
		commits, more, err := r.Range(ctx, base, head, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range commits {
			got = append(got, string(c.ID))
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") || more != c.more {
			t.Errorf("base %d, limit %d: %d commits, more %v; want %d, %v", c.base, c.limit, len(got), more, len(c.want), c.more)
		}
	}
	if commits, _, err := r.Range(ctx, "", head, 1); err != nil || commits[0].Subject != "Change 0" {
		t.Errorf("first commit %+v, %v", commits, err)
	}
	_, _, err := r.Range(ctx, gitrepo.OID(strings.Repeat("1", 40)), head, 5)
	wantErr(t, err, gitrepo.ErrNoObject)
	if _, _, err := r.Range(ctx, "", head, 0); err == nil {
		t.Error("limit 0 is taken")
	}
}

func TestRangeOrderWithMerges(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	base := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "base"))
	g.Git("checkout", "-q", "-b", "side")
	g.Commit(nil, "side 1")
	g.Git("checkout", "-q", "main")
	g.Commit(nil, "main 1")
	g.Git("checkout", "-q", "side")
	g.Commit(nil, "side 2")
	g.Git("merge", "-q", "--no-ff", "-m", "merge", "main")
	commits, _, err := open(t, g.Dir).Range(context.Background(), base, gitrepo.OID(g.Git("rev-parse", "HEAD")), 10)
	if err != nil || len(commits) != 4 {
		t.Fatalf("%d commits, %v", len(commits), err)
	}
	seen := map[gitrepo.OID]bool{base: true}
	for _, c := range commits {
		for _, p := range c.Parents {
			if !seen[p] {
				t.Errorf("%q comes before its parent", c.Subject)
			}
		}
		seen[c.ID] = true
	}
}

func TestMergeBaseAndIsAncestor(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		base := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "base"))
		g.Git("checkout", "-q", "-b", "side")
		side := gitrepo.OID(g.Commit(nil, "side"))
		g.Git("checkout", "-q", "main")
		main := gitrepo.OID(g.Commit(nil, "main"))
		g.Git("checkout", "-q", "--orphan", "island")
		island := gitrepo.OID(g.Commit(nil, "island"))
		r := open(t, g.Dir)
		none := gitrepo.OID(strings.Repeat("1", len(base)))
		for _, c := range []struct {
			a, b, want gitrepo.OID
		}{{main, side, base}, {side, main, base}, {base, side, base}, {main, main, main}, {main, island, ""}} {
			got, ok, err := r.MergeBase(ctx, c.a, c.b)
			if err != nil || got != c.want || ok != (c.want != "") {
				t.Errorf("merge base %s, %v, %v, want %s", got, ok, err, c.want)
			}
		}
		for _, c := range []struct {
			a, b gitrepo.OID
			want bool
		}{{base, side, true}, {side, base, false}, {side, side, true}, {main, side, false}, {island, main, false}} {
			if got, err := r.IsAncestor(ctx, c.a, c.b); err != nil || got != c.want {
				t.Errorf("is ancestor %v, %v, want %v", got, err, c.want)
			}
		}
		for _, other := range []gitrepo.OID{main, none} {
			_, _, err := r.MergeBase(ctx, none, other)
			wantErr(t, err, gitrepo.ErrNoObject)
			_, err = r.IsAncestor(ctx, none, other)
			wantErr(t, err, gitrepo.ErrNoObject)
		}
	})
}

func TestShallow(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		for i := range 5 {
			g.Commit(map[string]string{"f": fmt.Sprint(i)}, fmt.Sprintf("base %d", i))
		}
		base := gitrepo.OID(g.Git("rev-parse", "HEAD"))
		g.Git("checkout", "-q", "-b", "feature")
		for i := range 3 {
			g.Commit(map[string]string{"new": fmt.Sprint(i)}, fmt.Sprintf("feature %d", i))
		}
		feature := gitrepo.OID(g.Git("rev-parse", "HEAD"))
		g.Git("checkout", "-q", "main")
		main := gitrepo.OID(g.Commit(map[string]string{"m": "x"}, "main moves"))

		// Cut inside the feature: its history ends before it meets main's.
		c := g.Clone("--depth=2", "--no-single-branch")
		r := open(t, c.Dir)
		if !r.Shallow() {
			t.Fatal("not shallow")
		}
		_, _, err := r.MergeBase(ctx, main, feature)
		wantErr(t, err, gitrepo.ErrShallow)
		_, err = r.IsAncestor(ctx, main, feature)
		wantErr(t, err, gitrepo.ErrShallow)
		_, err = r.MergeTree(ctx, main, feature)
		wantErr(t, err, gitrepo.ErrShallow)
		_, _, err = r.Range(ctx, main, feature, 10)
		wantErr(t, err, gitrepo.ErrShallow)
		_, _, err = r.Range(ctx, "", main, 1)
		wantErr(t, err, gitrepo.ErrShallow)
		_, err = r.ResolveCommit(ctx, "HEAD~3")
		wantErr(t, err, gitrepo.ErrUnknownRevision)
		if !strings.Contains(err.Error(), "shallow") {
			t.Errorf("%v does not say that the clone is shallow", err)
		}
		if m := must[gitrepo.Manifest](t)(r.Manifest(ctx, main)); m.Files != 2 {
			t.Errorf("manifest %+v", m)
		}
		if ok := must[bool](t)(r.IsAncestor(ctx, base, main)); !ok {
			t.Error("a certain yes was not given")
		}

		// Cut below the merge base: every answer is certain, and once whole, all is as usual.
		check := func(name string) {
			if mb, ok, err := r.MergeBase(ctx, main, feature); err != nil || !ok || mb != base {
				t.Errorf("%s: merge base %s, %v, %v", name, mb, ok, err)
			}
			if ok, err := r.IsAncestor(ctx, feature, main); err != nil || ok {
				t.Errorf("%s: is ancestor %v, %v", name, ok, err)
			}
			if cs, more, err := r.Range(ctx, base, feature, 10); err != nil || len(cs) != 3 || more {
				t.Errorf("%s: range %d, %v, %v", name, len(cs), more, err)
			}
			if m, err := r.MergeTree(ctx, main, feature); err != nil || !m.Clean {
				t.Errorf("%s: merge %+v, %v", name, m, err)
			}
		}
		c.Git("fetch", "-q", "--depth=5")
		if !r.Shallow() {
			t.Fatal("not shallow any more")
		}
		check("deeper")
		c.Git("fetch", "-q", "--unshallow")
		if r.Shallow() {
			t.Fatal("still shallow")
		}
		check("whole")
	})
}

func TestCommitTree(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		a := gitrepo.OID(g.Commit(map[string]string{"f": "1"}, "a"))
		b := gitrepo.OID(g.Commit(map[string]string{"f": "2"}, "b"))
		tree := gitrepo.OID(g.Git("rev-parse", "HEAD^{tree}"))
		r := open(t, g.Dir)
		id := must[gitrepo.OID](t)(r.CommitTree(ctx, gitrepo.CommitSpec{Tree: tree, Parents: []gitrepo.OID{b, a}, Message: "-x Ü\n\n# body"}))
		c := must[*gitrepo.Commit](t)(r.Commit(ctx, id))
		if c.Tree != tree || len(c.Parents) != 2 || c.Parents[0] != b || c.Parents[1] != a || c.Subject != "-x Ü" || c.Body != "# body" || c.AuthorName != "Test User" {
			t.Errorf("commit %+v", c)
		}
		for _, message := range []string{"", " \n\t"} {
			_, err := r.CommitTree(ctx, gitrepo.CommitSpec{Tree: tree, Message: message})
			wantErr(t, err, gitrepo.ErrEmptyMessage)
		}
		for _, message := range []string{"a\x00b", "\xff"} {
			if _, err := r.CommitTree(ctx, gitrepo.CommitSpec{Tree: tree, Message: message}); err == nil {
				t.Errorf("message %q is taken", message)
			}
		}
		_, err := r.CommitTree(ctx, gitrepo.CommitSpec{Tree: gitrepo.OID(strings.Repeat("1", len(a))), Message: "m"})
		wantErr(t, err, gitrepo.ErrNoObject)
	})
}

func TestMergeTree(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		odd := "odd \"name\"\n\xff"
		g.Commit(map[string]string{"f": "1\n2\n3\n4\n5\n", odd: "1\n", "both": "1\n"}, "base")
		g.Git("checkout", "-q", "-b", "clean")
		clean := gitrepo.OID(g.Commit(map[string]string{"f": "1\n2\n3\n4\nfive\n", "only": "x"}, "clean"))
		g.Git("checkout", "-q", "-b", "conflict", "main")
		conflict := gitrepo.OID(g.Commit(map[string]string{odd: "2\n", "both": "2\n"}, "conflict"))
		g.Git("checkout", "-q", "main")
		main := gitrepo.OID(g.Commit(map[string]string{"f": "one\n2\n3\n4\n5\n", odd: "3\n", "both": "3\n"}, "main"))
		g.Git("checkout", "-q", "--orphan", "island")
		island := gitrepo.OID(g.Commit(nil, "island"))
		g.Git("checkout", "-q", "main")
		r := open(t, g.Dir)

		m := must[gitrepo.MergeResult](t)(r.MergeTree(ctx, main, clean))
		if !m.Clean || len(m.Conflicts) != 0 {
			t.Errorf("merge %+v", m)
		}
		if data, ok, err := r.ReadFile(ctx, m.Tree, "f", 100); err != nil || !ok || string(data) != "one\n2\n3\n4\nfive\n" {
			t.Errorf("merged file %q, %v, %v", data, ok, err)
		}
		g.Git("merge", "-q", "-m", "merge", "clean")
		if tree := g.Git("rev-parse", "HEAD^{tree}"); string(m.Tree) != tree {
			t.Errorf("merged tree %s, git merge makes %s", m.Tree, tree)
		}
		m = must[gitrepo.MergeResult](t)(r.MergeTree(ctx, main, conflict))
		if m.Clean || len(m.Conflicts) != 2 || m.Conflicts[0] != "both" || m.Conflicts[1] != odd {
			t.Errorf("merge %+v", m)
		}
		_, err := r.MergeTree(ctx, main, island)
		wantErr(t, err, gitrepo.ErrUnrelated)
		_, err = r.MergeTree(ctx, main, gitrepo.OID(strings.Repeat("1", len(main))))
		wantErr(t, err, gitrepo.ErrNoObject)
	})
}
