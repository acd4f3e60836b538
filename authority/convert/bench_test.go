package convert_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/internal/vfs"
)

// BenchmarkU32Time compares a conversion with the plain copy and sync of the same
// files. "widen" freezes, widens and compares, so that the source is read twice and
// the target is durable; "convert" also validates every record, builds the derived
// indexes and publishes. WRIT_BENCH_PATCHSETS sets the size of the source.
func BenchmarkU32Time(b *testing.B) {
	patchsets := 20_000
	if n, err := strconv.Atoi(os.Getenv("WRIT_BENCH_PATCHSETS")); err == nil {
		patchsets = n
	}
	dir := b.TempDir()
	authoritytest.Bulk(b, filepath.Join(dir, "data"), patchsets)
	source := filepath.Join(dir, "source")
	predecessor(b, vfs.OS, generation(filepath.Join(dir, "data")), source)
	size := int64(0)
	err := filepath.WalkDir(source, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	target := filepath.Join(dir, "target")
	run := func(name string, fn func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if err := fn(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.RemoveAll(target); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	run("copy", func() error { return copyTree(source, target) })
	ctx := context.Background()
	run("widen", func() error {
		return convert.WidenU32Time(ctx, vfs.OS, source, below(b, vfs.OS, target))
	})
	run("convert", func() error {
		_, err := convert.Convert(ctx, convert.Options{From: convert.FromU32Time, Source: source}, authority.Options{Dir: target})
		return err
	})
}

// copyTree copies files one after another as cp does and syncs each.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		r, err := os.Open(path)
		if err != nil {
			return err
		}
		w, err := os.Create(filepath.Join(to, rel))
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
		if err := w.Sync(); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return r.Close()
	})
}
