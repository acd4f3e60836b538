package bindb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// unit is how many bytes the last record or payload of a file has.
func unit(t testing.TB, d disk, file string) int64 {
	t.Helper()
	if l, ok := record.ByFile(file); ok {
		return int64(l.Size)
	}
	// The greatest range that any record names ends with the file.
	for _, l := range record.Layouts() {
		for _, f := range l.Fields {
			if f.Target != file {
				continue
			}
			at := lastLocator(t, d, l, f.Name)
			return d.size(file) - at
		}
	}
	t.Fatalf("no record refers to %s", file)
	return 0
}

// lastLocator is the greatest offset in a field of all records of a family.
func lastLocator(t testing.TB, d disk, l *record.Layout, field string) int64 {
	t.Helper()
	last := uint64(0)
	raw := d.read(l.File)
	for i := range (len(raw) - bindb.HeaderSize) / l.Size {
		off, _ := fieldOf(t, l.File, field, i)
		n := uint64(0)
		for j, b := range raw[off : off+8] {
			n |= uint64(b) << (8 * j)
		}
		last = max(last, n)
	}
	return int64(last)
}

// wholeRecordsMayGo are the families whose last record nothing else accounts for:
// no other record of the root refers to it, and no count includes it. Without a
// clean stop that remembers the length, the root is a valid earlier one.
var wholeRecordsMayGo = map[string]bool{"snapshot_parent_edge.bin": true, "object_pack.bin": true}

// TestEveryTruncation cuts the last record or payload of every file at every
// length. A clean stop remembers how long the file was; without one, the rules
// find what is missing.
func TestEveryTruncation(t *testing.T) {
	t.Parallel()
	for _, file := range record.Files(record.RootAuthority) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			sim, cfg := fullRoot(t)
			d := disk{t, sim, cfg}
			size, last := d.size(file), unit(t, d, file)
			content := d.read(file)
			_, fixed := record.ByFile(file)
			running := open(t, cfg)
			for cut := int64(1); cut <= last; cut++ {
				d.rewrite(file, content[:size-cut])
				if findings, err := running.Check(ctx); !owned && (err != nil || len(findings) == 0) {
					t.Errorf("%d bytes less, behind the back of an open root: %v, %v", cut, findings, err)
				}
				again := cfg
				again.FS = sim.Fork()
				_, err := bindb.Open(ctx, again)
				if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("%s has %d bytes; %d were there", file, size-cut, size)) {
					t.Errorf("%d bytes less, after a clean stop: %v", cut, err)
				}
				again.FS, again.Runtime = sim.Fork(), "/elsewhere"
				r, err := bindb.Open(ctx, again)
				switch {
				case err == nil && cut == last && wholeRecordsMayGo[file]:
					closeRoot(t, r)
				case !errors.Is(err, bindb.ErrCorrupt):
					t.Errorf("%d bytes less, by the rules: %v", cut, err)
				case fixed && cut < last && !strings.Contains(err.Error(), file+": "):
					t.Errorf("%d bytes less, by the rules: %v does not name the file", cut, err)
				}
			}
			d.rewrite(file, content)
			expect(t, running, "")
			closeRoot(t, running)
		})
	}
}

// trailingZeros are the files in which a record of zeros is valid where nothing
// refers to it, so that no rule can tell it from one that somebody has written.
var trailingZeros = map[string]bool{"policy_check.bin": true, "blob.bin": true, "snapshot.bin": true}

// TestEveryTail appends zeros and garbage of every length to every file, and
// overwrites the last record or payload with them.
func TestEveryTail(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	garbage := make([]byte, 1<<12)
	for i := range garbage {
		garbage[i] = byte(rnd.Uint32())
	}
	for _, file := range record.Files(record.RootAuthority) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			sim, cfg := fullRoot(t)
			d := disk{t, sim, cfg}
			size, last := d.size(file), unit(t, d, file)
			content := d.read(file)
			_, fixed := record.ByFile(file)
			for name, fill := range map[string][]byte{"zeros": make([]byte, len(garbage)), "garbage": garbage} {
				for n := int64(1); n <= last; n++ {
					d.write(file, append(content[:size:size], fill[:n]...))
					for _, runtime := range []string{cfg.Runtime, "/elsewhere"} {
						again := cfg
						again.FS, again.Runtime = sim.Fork(), runtime
						r, err := bindb.Open(ctx, again)
						switch {
						case err == nil && !fixed:
							// Trailing bytes of a payload file belong to nobody.
							expect(t, r, "")
							closeRoot(t, r)
						case err == nil && n == last && (trailingZeros[file] && name == "zeros" || accepts(file, fill[:n])):
							closeRoot(t, r)
						case !fixed || !errors.Is(err, bindb.ErrCorrupt) || n < last && !strings.Contains(err.Error(), file):
							t.Errorf("%d bytes of %s behind %s: %v", n, name, file, err)
						}
					}
				}
				if bytes.Equal(content[size-last:], fill[:last]) {
					continue
				}
				d.write(file, append(content[:size-last:size-last], fill[:last]...))
				again := cfg
				again.FS = sim.Fork()
				in, err := bindb.Inspect(ctx, again)
				if err != nil {
					t.Fatal(err)
				}
				if text := fmt.Sprint(in.Findings); !strings.Contains(text, file) {
					t.Errorf("%s in place of the last record or payload: %s", name, text)
				}
			}
		})
	}
}

// accepts reports whether the bytes happen to be a record that may stand alone.
func accepts(file string, b []byte) bool {
	var e record.SnapshotParentEdge
	return file == "snapshot_parent_edge.bin" && e.Decode(b) == nil && e.Check() == nil
}

// TestTornBatches tears a batch that appends to most files: each of its files is
// cut, zeroed or filled with garbage from every length on, while the journal of
// the batch stands. The batch is taken back as a whole, or kept if all is there.
func TestTornBatches(t *testing.T) {
	t.Parallel()
	if owned {
		t.Skip("the journal is the same")
	}
	ctx := context.Background()
	sim, cfg := fullRoot(t)
	settle(t, sim)
	before := dump(t, cfg)
	old := sizes(t, disk{t, sim, cfg})
	proc := sim.Process()
	dying := cfg
	dying.FS = proc
	r := open(t, dying)
	// It dies when everything is written and nothing has been settled.
	sim.Fail(serially(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Path == "/runtime/journal/4" && op.Len == 1 {
			proc.Crash()
		}
		return nil
	}))
	_ = r.Update(ctx, write(func(w *writer) {
		w.line("next")
		w.actor("grace")
		var task uint32
		for _, step := range story(&task) {
			step(w)
		}
	}))
	sim.Fail(nil)
	whole := disk{t, sim, cfg}
	after := dump(t, cfg)
	if after == before {
		t.Fatal("the batch was not written")
	}
	// With every file whole, the batch stays.
	kept := cfg
	kept.FS = sim.Fork()
	r = open(t, kept)
	if dump(t, kept) != after {
		t.Error("the whole batch was taken back")
	}
	expect(t, r, "")
	closeRoot(t, r)
	for _, file := range record.Files(record.RootAuthority) {
		content := whole.read(file)
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(5, uint64(len(file))))
			step := int64(1)
			if testing.Short() {
				step = 5
			}
			for at := old[file]; at < int64(len(content)); at += step {
				garbage := bytes.Clone(content)
				for i := range garbage[at:] {
					garbage[int(at)+i] ^= byte(rnd.Uint32()) | 1
				}
				zeros := append(content[:at:at], make([]byte, len(content)-int(at))...)
				for name, torn := range map[string][]byte{"cut": content[:at], "zeros": zeros, "garbage": garbage} {
					want := before
					if bytes.Equal(torn, content) {
						want = after // the bytes were zeros
					}
					again := cfg
					fork := sim.Fork()
					again.FS = fork
					disk{t, fork, again}.rewrite(file, torn)
					r, err := bindb.Open(ctx, again)
					if err != nil {
						t.Fatalf("%s from byte %d on: %v", name, at, err)
					}
					if dump(t, again) != want {
						t.Fatalf("%s from byte %d on: the root is neither as before nor as after the batch", name, at)
					}
					if at%16 == 0 {
						expect(t, r, "")
					}
					closeRoot(t, r)
				}
			}
		})
	}
}

func sizes(t testing.TB, d disk) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, file := range record.Files(d.cfg.Kind) {
		all[file] = d.size(file)
	}
	return all
}
