package gitrepo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

func sprint(v any) string { return fmt.Sprintf("%+v", v) }

// unusual are file names that trip line-based or quoting code, and names around '/' in order.
var unusual = []string{
	"a", "a.b", "a-b", "a0", "a b", "ab/c", "ab.c", "ab-c", "ab0", "x/y/z", "x/y.z", "x.y", "x-",
	"new\nline", "tab\there", "quote\"d", "back\\slash", " lead", "trail ", "-dash", "--end", ":colon", "*star?",
	"ü/ö", "\xff\xfe raw", "HEAD", "\x01control", "e\u0301", "Ω/\xc3",
}

func addLinkAndModes(t *testing.T, g *gitrepotest.Repo) {
	t.Helper()
	if err := os.Symlink("a", g.Path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("ab", g.Path("dirlink")); err != nil {
		t.Fatal(err)
	}
	g.Write("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(g.Path("run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// addSubmodule puts a submodule at sub and returns the commit it records.
func addSubmodule(t *testing.T, g *gitrepotest.Repo, options ...gitrepotest.Option) (source *gitrepotest.Repo, commit string) {
	t.Helper()
	source = gitrepotest.New(t, options...)
	commit = source.Commit(map[string]string{"inside": "x"}, "inside")
	g.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source.Dir, "sub")
	return source, commit
}

// slowManifest computes a manifest in another way: one git process an object, sorted here.
func slowManifest(g *gitrepotest.Repo, treeish string) gitrepo.Manifest {
	var m gitrepo.Manifest
	var lines []string
	for _, entry := range strings.Split(strings.TrimSuffix(g.Git("ls-tree", "-r", "-z", "--full-tree", treeish), "\x00"), "\x00") {
		if entry == "" {
			continue
		}
		head, path, _ := strings.Cut(entry, "\t")
		f := strings.Fields(head)
		lines = append(lines, path+"\x00"+f[0]+" "+f[2]+"\t"+path+"\n")
		m.Files++
		if f[1] == "commit" {
			m.Submodules++
			continue
		}
		var size uint64
		fmt.Sscan(g.Git("cat-file", "-s", f[2]), &size)
		m.Bytes += size
	}
	sort.Strings(lines)
	h := sha256.New()
	for _, l := range lines {
		h.Write([]byte(l[strings.IndexByte(l, 0)+1:]))
	}
	h.Sum(m.Hash[:0])
	return m
}

func TestManifest(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		for i, name := range unusual {
			g.Write(name, strings.Repeat("x", i))
		}
		addLinkAndModes(t, g)
		addSubmodule(t, g, options...)
		commit := g.Commit(nil, "everything")
		r := open(t, g.Path("ab"))
		got := must[gitrepo.Manifest](t)(r.Manifest(ctx, gitrepo.OID(commit)))
		if want := slowManifest(g, commit); got != want {
			t.Errorf("manifest %+v, want %+v", got, want)
		}
		if got.Submodules != 1 {
			t.Errorf("%d submodules", got.Submodules)
		}
		tree := gitrepo.OID(g.Git("rev-parse", commit+"^{tree}"))
		if byTree := must[gitrepo.Manifest](t)(r.Manifest(ctx, tree)); byTree != got {
			t.Error("the tree and its commit have different manifests")
		}
		empty := must[gitrepo.OID](t)(r.EmptyTree(ctx))
		if m := must[gitrepo.Manifest](t)(r.Manifest(ctx, empty)); m.Files != 0 || m.Bytes != 0 || m.Hash != sha256.Sum256(nil) {
			t.Errorf("empty tree: %+v", m)
		}
		_, err := r.Manifest(ctx, gitrepo.OID(strings.Repeat("1", len(commit))))
		wantErr(t, err, gitrepo.ErrNoObject)
	})
}

// TestManifestGolden pins the bytes: mode SP id TAB path LF.
func TestManifestGolden(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	commit := gitrepo.OID(g.Commit(map[string]string{"a": "hello\n", "a.b": "", "a-b": "", "d/e": "hello\n"}, "first"))
	const hello, none = "ce013625030ba8dba906f756967f9e9ca394464a", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
	want := sha256.Sum256([]byte("100644 " + hello + "\ta\n100644 " + none + "\ta-b\n100644 " + none + "\ta.b\n100644 " + hello + "\td/e\n"))
	m := must[gitrepo.Manifest](t)(open(t, g.Dir).Manifest(context.Background(), commit))
	if m.Hash != want || m.Files != 4 || m.Bytes != 12 {
		t.Errorf("manifest %+v", m)
	}
}

// TestRecursiveListingIsSortedByBytes proves what Manifest relies on: Git's order of a tree's
// entries, directories as if they ended in '/', is the byte order of the full paths.
func TestRecursiveListingIsSortedByBytes(t *testing.T) {
	t.Parallel()
	g := gitrepotest.New(t)
	// Each directory name with neighbours on both sides of '/' (0x2f), and nested once more.
	for _, top := range []string{"a", "b"} {
		for _, suffix := range []string{"", "\x01", " ", "!", "-", ".", "0", "_", "z", "\x7f", "\xff"} {
			g.Write("f"+top+suffix, "x")
			g.Write("d"+top+"/"+"f"+suffix+"x", "x")
			g.Write("d"+top+"x"+suffix+"/f", "x")
			if suffix != "" {
				g.Write("d"+top+suffix, "x")
			}
		}
	}
	g.Commit(nil, "names")
	paths := strings.Split(strings.TrimSuffix(g.Git("ls-tree", "-r", "-z", "--name-only", "HEAD"), "\x00"), "\x00")
	if !sort.StringsAreSorted(paths) || len(paths) < 60 {
		t.Errorf("%d paths, not sorted by bytes: %q", len(paths), paths)
	}
}

func TestManifestRefusesDisorder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	blob := g.Feed("x", "hash-object", "-w", "--stdin")
	raw := hexBytes(t, blob)
	r := open(t, g.Dir)
	for name, tree := range map[string]string{
		"out of order": "100644 b\x00" + raw + "100644 a\x00" + raw,
		"twice":        "100644 a\x00" + raw + "100644 a\x00" + raw,
	} {
		id := gitrepo.OID(g.Feed(tree, "hash-object", "-t", "tree", "-w", "--stdin", "--literally"))
		if _, err := r.Manifest(ctx, id); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			wantErr(t, err, gitrepo.ErrBadObject)
		}
	}
	missing := gitrepo.OID(g.Feed("100644 a\x00"+strings.Repeat("\x11", 20), "hash-object", "-t", "tree", "-w", "--stdin"))
	if _, err := r.Manifest(ctx, missing); err == nil {
		t.Error("a tree with a missing blob has a manifest")
	}
}

func hexBytes(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	for i := 0; i < len(s); i += 2 {
		var c byte
		if _, err := fmt.Sscanf(s[i:i+2], "%02x", &c); err != nil {
			t.Fatal(err)
		}
		b.WriteByte(c)
	}
	return b.String()
}

func TestReplacementsAndGraftsDoNotCount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := gitrepotest.New(t)
	one := g.Commit(map[string]string{"f": "one"}, "one")
	two := g.Commit(map[string]string{"f": "two"}, "two")
	want := must[gitrepo.Manifest](t)(open(t, g.Dir).Manifest(ctx, gitrepo.OID(two)))
	g.Git("replace", two, one)
	g.Write(".git/info/grafts", two+"\n")
	r := open(t, g.Dir)
	if got := must[gitrepo.Manifest](t)(r.Manifest(ctx, gitrepo.OID(two))); got != want {
		t.Error("a replacement changed the manifest")
	}
	if c := must[*gitrepo.Commit](t)(r.Commit(ctx, gitrepo.OID(two))); c.Subject != "two" {
		t.Errorf("a replacement changed the commit: %q", c.Subject)
	}
	if ok := must[bool](t)(r.IsAncestor(ctx, gitrepo.OID(one), gitrepo.OID(two))); !ok {
		t.Error("a graft changed the history")
	}
}

func TestListTopAndReadFile(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		files := map[string]string{}
		for i, name := range unusual {
			files[name] = fmt.Sprintf("content %d\x00\n", i)
		}
		g.Write("empty", "")
		addLinkAndModes(t, g)
		addSubmodule(t, g, options...)
		commit := gitrepo.OID(g.Commit(files, "everything"))
		r := open(t, g.Dir)

		var names []string
		modes := map[string]string{}
		for _, e := range must[[]gitrepo.TreeEntry](t)(r.ListTop(ctx, commit)) {
			names = append(names, e.Name)
			modes[e.Name] = e.Mode
			if want := g.Git("rev-parse", string(commit)+":"+e.Name); string(e.ID) != want {
				t.Errorf("%q: id %s, want %s", e.Name, e.ID, want)
			}
		}
		if want := strings.TrimSuffix(g.Git("ls-tree", "-z", "--name-only", string(commit)), "\x00"); strings.Join(names, "\x00") != want {
			t.Errorf("names %q, want %q", names, want)
		}
		for name, mode := range map[string]string{"ab": "040000", "a": "100644", "run.sh": "100755", "link": "120000", "sub": "160000"} {
			if modes[name] != mode {
				t.Errorf("%s has mode %s, want %s", name, modes[name], mode)
			}
		}

		files["empty"], files["run.sh"] = "", "#!/bin/sh\n"
		for name, want := range files {
			data, ok, err := r.ReadFile(ctx, commit, name, 100)
			if err != nil || !ok || string(data) != want {
				t.Errorf("ReadFile(%q) = %q, %v, %v", name, data, ok, err)
			}
		}
		for _, name := range []string{"", "none", "ab/none", "a/b", "link/x", "dirlink/c", "sub/inside", "ab/", "/a", "./a", "ab//c", "../a"} {
			if data, ok, err := r.ReadFile(ctx, commit, name, 100); ok || err != nil {
				t.Errorf("ReadFile(%q) = %q, %v, %v, want nothing", name, data, ok, err)
			}
		}
		for _, name := range []string{"ab", "link", "dirlink", "sub"} {
			_, _, err := r.ReadFile(ctx, commit, name, 100)
			wantErr(t, err, gitrepo.ErrNotRegular)
		}
		_, _, err := r.ReadFile(ctx, commit, "run.sh", 9)
		wantErr(t, err, gitrepo.ErrTooLarge)
		if _, ok, err := r.ReadFile(ctx, commit, "run.sh", 10); !ok || err != nil {
			t.Errorf("after a refused read: %v, %v", ok, err)
		}
		_, err = r.ListTop(ctx, gitrepo.OID(strings.Repeat("1", len(commit))))
		wantErr(t, err, gitrepo.ErrNoObject)
	})
}

func TestEmptyTreeCanBeNamed(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		r := open(t, g.Dir)
		id := must[gitrepo.OID](t)(r.EmptyTree(ctx))
		if want := g.Git("hash-object", "-t", "tree", "/dev/null"); string(id) != want {
			t.Fatalf("empty tree %s, want %s", id, want)
		}
		if _, err := os.Stat(g.Path(".git/objects/" + string(id[:2]) + "/" + string(id[2:]))); err != nil {
			t.Errorf("the object was not written: %v", err)
		}
		if err := r.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: "refs/writ/empty", New: id}); err != nil {
			t.Fatal(err)
		}
		g.Git("fsck", "--strict")
		if entries := must[[]gitrepo.TreeEntry](t)(r.ListTop(ctx, id)); len(entries) != 0 {
			t.Errorf("entries %v", entries)
		}
	})
}

func TestDiff(t *testing.T) {
	t.Parallel()
	formats(t, func(t *testing.T, options ...gitrepotest.Option) {
		ctx := context.Background()
		g := gitrepotest.New(t, options...)
		first := map[string]string{"keep": "k", "change": "1", "gone": "g", "kind": "k", "mode": "m", "dir": "was a file", "old name": "the same content\n"}
		for _, name := range unusual {
			first[name] = "1"
		}
		source, _ := addSubmodule(t, g, options...)
		a := gitrepo.OID(g.Commit(first, "first"))
		for _, name := range unusual {
			g.Write(name, "2")
		}
		for _, name := range []string{"gone", "kind", "dir"} {
			if err := os.Remove(g.Path(name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("keep", g.Path("kind")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(g.Path("mode"), 0o755); err != nil {
			t.Fatal(err)
		}
		g.Git("mv", "old name", "new name")
		next := source.Commit(map[string]string{"inside": "y"}, "next")
		gitrepotest.At(t, g.Path("sub")).Git("pull", "-q", source.Dir, "main")
		b := gitrepo.OID(g.Commit(map[string]string{"change": "2", "dir/file": "d", "added": "a"}, "second"))
		r := open(t, g.Dir)
		changes := must[[]gitrepo.FileChange](t)(r.Diff(ctx, a, b))
		got := map[string]gitrepo.FileChange{}
		for i, c := range changes {
			got[c.Path] = c
			if i > 0 && changes[i-1].Path >= c.Path {
				t.Errorf("%q comes after %q", c.Path, changes[i-1].Path)
			}
		}
		for path, want := range map[string]string{
			"change": "M100644100644", "gone": "D100644000000", "kind": "T100644120000", "mode": "M100644100755",
			"dir": "D100644000000", "dir/file": "A000000100644", "added": "A000000100644",
			"old name": "D100644000000", "new name": "A000000100644", "sub": "M160000160000",
		} {
			c := got[path]
			if s := string(c.Status) + c.OldMode + c.NewMode; s != want {
				t.Errorf("%s: %s, want %s", path, s, want)
			}
		}
		for _, name := range unusual {
			if got[name].Status != 'M' {
				t.Errorf("%q is missing", name)
			}
		}
		if len(got) != 10+len(unusual) {
			t.Errorf("%d changes", len(got))
		}
		if string(got["sub"].NewID) != next {
			t.Errorf("submodule at %s, want %s", got["sub"].NewID, next)
		}
		if same := must[[]gitrepo.FileChange](t)(r.Diff(ctx, a, a)); len(same) != 0 {
			t.Errorf("a commit differs from itself: %v", same)
		}
		empty := must[gitrepo.OID](t)(r.EmptyTree(ctx))
		m := must[gitrepo.Manifest](t)(r.Manifest(ctx, b))
		if all := must[[]gitrepo.FileChange](t)(r.Diff(ctx, empty, b)); len(all) != int(m.Files) {
			t.Errorf("%d additions to the empty tree, want %d", len(all), m.Files)
		}
		_, err := r.Diff(ctx, a, gitrepo.OID(strings.Repeat("1", len(a))))
		wantErr(t, err, gitrepo.ErrNoObject)
	})
}
