package bindb_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// TestEveryBitFlip flips each bit of each file of a root in which every family has
// records, after a clean stop. A check names the file and the page, and an owner
// refuses to load it, so that nobody is given another answer.
func TestEveryBitFlip(t *testing.T) {
	t.Parallel()
	if owned {
		t.Skip("both ways to open a root are in this test")
	}
	var flips, byRules atomic.Int64
	t.Cleanup(func() {
		if !t.Failed() {
			t.Logf("%d flips, %d of them break a rule of the format too", flips.Load(), byRules.Load())
		}
	})
	for _, file := range record.Files(record.RootAuthority) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			sim, cfg := fullRoot(t)
			shared := open(t, cfg)
			if !shared.SumsKnown() {
				t.Fatal("the checksums are not known")
			}
			f, err := sim.OpenFile(cfg.Dir+"/"+file, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			size, err := f.Size()
			if err != nil {
				t.Fatal(err)
			}
			step := 1
			if testing.Short() {
				step = 7
			}
			var b [1]byte
			for at := int64(bindb.HeaderSize); at < size; at++ {
				if _, err := f.ReadAt(b[:], at); err != nil {
					t.Fatal(err)
				}
				good := b[0]
				for bit := int(at) % step; bit < 8; bit += step {
					b[0] = good ^ 1<<bit
					if _, err := f.WriteAt(b[:], at); err != nil {
						t.Fatal(err)
					}
					findings, err := shared.Check(ctx)
					if err != nil {
						t.Fatalf("bit %d of byte %d: %v", bit, at, err)
					}
					if !slices.ContainsFunc(findings, func(x bindb.Finding) bool { return x.Check == "SUM" && x.File == file }) {
						t.Fatalf("bit %d of byte %d was not found: %v", bit, at, findings)
					}
					flips.Add(1)
					if len(findings) > 1 {
						byRules.Add(1)
					}
				}
				// The flip that came last stays for the owner.
				if at%8 == 0 || at == size-1 {
					ownerRefuses(t, sim, cfg, file)
				}
				b[0] = good
				if _, err := f.WriteAt(b[:], at); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, shared, "")
			// The header is looked at by whoever opens the file.
			for at := range int64(bindb.HeaderSize) {
				for bit := range uint(8) {
					flip(t, cfg, file, at, bit)
					in, err := bindb.Inspect(ctx, cfg)
					if err != nil || len(in.Findings) == 0 || in.Findings[0].File != file {
						t.Fatalf("bit %d of byte %d of the header: %v, %v", bit, at, in.Findings, err)
					}
					flip(t, cfg, file, at, bit)
					flips.Add(1)
					byRules.Add(1)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			closeRoot(t, shared)
		})
	}
}

// ownerRefuses opens the root as an owner, who must not answer from the file.
func ownerRefuses(t *testing.T, sim *vfs.Sim, cfg bindb.Config, file string) {
	t.Helper()
	ctx := context.Background()
	cfg.Own, cfg.FS = true, sim.Fork() // the other root has its locks
	r, err := bindb.Open(ctx, cfg)
	if err == nil {
		err = r.View(ctx, func(rd bindb.Reader) error { return bindb.ReadAll(rd, file) })
		closeRoot(t, r)
	}
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), file) {
		t.Fatalf("an owner gets %v", err)
	}
}
