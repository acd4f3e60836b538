package gitrepo_test

import (
	"context"
	"testing"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

// BenchmarkGenerated measures what one gate asks of a repository with 10,000 files and 5,000
// commits. The goals for one gate are in the gate's own benchmark; Manifest alone has 60 ms.
func BenchmarkGenerated(b *testing.B) {
	ctx := context.Background()
	g := gitrepotest.New(b)
	g.Generate(10_000, 5_000)
	r := open(b, g.Dir)
	head := must[gitrepo.OID](b)(r.ResolveCommit(ctx, "HEAD"))
	base := must[gitrepo.OID](b)(r.ResolveCommit(ctx, "HEAD~20"))
	old := must[gitrepo.OID](b)(r.ResolveCommit(ctx, "HEAD~4000"))
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Open", func() error {
			r, err := gitrepo.Open(ctx, g.Dir)
			if err == nil {
				err = r.Close()
			}
			return err
		}},
		{"Head", func() error { _, err := r.Head(ctx); return err }},
		{"ResolveCommit", func() error { _, err := r.ResolveCommit(ctx, "main"); return err }},
		{"Ref", func() error { _, _, err := r.Ref(ctx, "refs/heads/main"); return err }},
		{"RefMissing", func() error { _, _, err := r.Ref(ctx, "refs/heads/none"); return err }},
		{"Commit", func() error { _, err := r.Commit(ctx, head); return err }},
		{"ReadFile", func() error { _, _, err := r.ReadFile(ctx, head, "dir05/sub05/file05250.txt", 1<<20); return err }},
		{"Manifest", func() error { _, err := r.Manifest(ctx, head); return err }},
		{"Diff20Commits", func() error { _, err := r.Diff(ctx, base, head); return err }},
		{"Diff4000Commits", func() error { _, err := r.Diff(ctx, old, head); return err }},
		{"Range20Commits", func() error { _, _, err := r.Range(ctx, base, head, 100); return err }},
		{"RangeWholeHistory", func() error { _, _, err := r.Range(ctx, "", head, 5_000); return err }},
		{"MergeBase", func() error { _, _, err := r.MergeBase(ctx, base, head); return err }},
		{"MergeTree", func() error { _, err := r.MergeTree(ctx, base, head); return err }},
		{"Status", func() error { _, err := r.Status(ctx); return err }},
		{"WorktreeClean", func() error { _, err := r.WorktreeClean(ctx, g.Dir, head); return err }},
		{"Persist20Commits", func() error { return r.Persist(ctx, head, base) }},
		{"PersistEverything", func() error { return r.Persist(ctx, head) }},
		{"UpdateRefs", func() error {
			return r.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: "refs/writ/b/s/4/0", New: head, Old: gitrepo.AnyOID})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
