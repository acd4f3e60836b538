package bench

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
)

// BenchmarkConvert compares the conversion of a u32-time-v0 installation, from
// freezing the source to publishing the target, with cp of the same files and a
// sync of each copy, in pairs.
func BenchmarkConvert(b *testing.B) {
	dir := b.TempDir()
	authoritytest.Bulk(b, filepath.Join(dir, "data"), 50_000)
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	predecessor(b, filepath.Join(dir, "data", "generations", "1"), source)
	clear := func() {
		b.Helper()
		if err := os.RemoveAll(target); err != nil {
			b.Fatal(err)
		}
	}
	var ratios, copies, conversions []float64
	for range rounds {
		began := time.Now()
		command(b, "cp", "-r", source, target)
		command(b, "sync", filesBelow(b, target)...)
		copied := time.Since(began)
		clear()
		began = time.Now()
		_, err := convert.Convert(ctx, convert.Options{From: convert.FromU32Time, Source: source}, authority.Options{Dir: target})
		if err != nil {
			b.Fatal(err)
		}
		converted := time.Since(began)
		clear()
		ratios = append(ratios, float64(copied)/float64(converted))
		copies, conversions = append(copies, copied.Seconds()*1000), append(conversions, converted.Seconds()*1000)
	}
	for _, v := range [][]float64{ratios, copies, conversions} {
		slices.Sort(v)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(copies[rounds/2], "cp+sync-ms")
	b.ReportMetric(conversions[rounds/2], "convert-ms")
	b.ReportMetric(ratios[rounds/2], "speed/cp")
}

func command(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func filesBelow(b *testing.B, dir string) (list []string) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return list
}

// predecessor writes a generation with times of four bytes.
func predecessor(b *testing.B, generation, dir string) {
	b.Helper()
	for _, path := range filesBelow(b, generation) {
		rel, err := filepath.Rel(generation, path)
		if err != nil {
			b.Fatal(err)
		}
		if filepath.Ext(path) != ".bin" {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		if l, ok := record.ByFile(filepath.Base(path)); ok {
			out := slices.Clone(raw[:bindb.HeaderSize])
			for r := range slices.Chunk(raw[bindb.HeaderSize:], l.Size) {
				for _, f := range l.Fields {
					width := f.Width
					if f.Time {
						width = 4
					}
					out = append(out, r[f.Offset:f.Offset+width]...)
				}
			}
			raw = out
		}
		to := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(to, raw, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}
