package bindb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// flip changes one bit of a file.
func flip(t testing.TB, cfg bindb.Config, file string, off int64, bit uint) {
	t.Helper()
	f, err := cfg.FS.OpenFile(cfg.Dir+"/"+file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// manyLines makes a closed root whose line.bin has several pages.
func manyLines(t testing.TB) (*vfs.Sim, bindb.Config) {
	t.Helper()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, func(w *writer) {
		for i := range 300 {
			w.line(fmt.Sprint("line ", i))
		}
	})
	closeRoot(t, r)
	return sim, cfg
}

// A bit that flips in a time is plausible in every rule of the format.
func TestFlippedBitIsFoundBySums(t *testing.T) {
	t.Parallel()
	_, cfg := manyLines(t)
	ctx := context.Background()
	off, _ := fieldOf(t, "line.bin", "created_at_s", 150)
	flip(t, cfg, "line.bin", off, 3)
	r := open(t, cfg) // trusts the clean stop
	before := dump(t, cfg)
	// Line 150 lies in page 1 with Lines 102 to 204.
	expect(t, r, "SUM line.bin 102 ")
	err := r.Update(ctx, write(func(w *writer) {
		w.line("a new one")
		change(w, bindb.Lines, 200, func(l *record.Line) { l.UpdatedAt++ })
	}))
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "line.bin record 102: page 1 (records 102..204, bytes 4096..8191)") {
		t.Errorf("a record beside the flipped bit was replaced: %v", err)
	}
	if dump(t, cfg) != before {
		t.Error("the refused batch has left something")
	}
	if owned { // the file is loaded as a whole or not at all
		closeRoot(t, r)
		return
	}
	// Other pages are not concerned.
	update(t, r, func(w *writer) {
		w.line("a new one")
		change(w, bindb.Lines, 20, func(l *record.Line) { l.UpdatedAt++ })
	})
	closeRoot(t, r)
	// The sums go on to say so, whoever asks.
	r = open(t, cfg)
	expect(t, r, "SUM line.bin 102 ")
	flip(t, cfg, "line.bin", off, 3)
	expect(t, r, "")
	closeRoot(t, r)
}

func TestFlippedPayloadIsFoundBySums(t *testing.T) {
	t.Parallel()
	_, cfg := manyLines(t)
	flip(t, cfg, "line_name_payload.bin", 4, 0)
	r := open(t, cfg)
	expect(t, r, "SUM line_name_payload.bin")
	closeRoot(t, r)
}

// Without a sidecar nothing is missing but the detection, and the next full
// validation brings that back.
func TestSumsAreDisposable(t *testing.T) {
	t.Parallel()
	const sums = "/runtime/sums/4"
	for name, harm := range map[string]func(sim *vfs.Sim) error{
		"lost": func(sim *vfs.Sim) error { return sim.Remove(sums) },
		"cut": func(sim *vfs.Sim) error {
			return resize(sim, sums, func(n int64) int64 { return n - 1 })
		},
		"longer": func(sim *vfs.Sim) error {
			return resize(sim, sums, func(n int64) int64 { return n + 1 })
		},
		"empty": func(sim *vfs.Sim) error {
			return resize(sim, sums, func(int64) int64 { return 0 })
		},
		"damaged": func(sim *vfs.Sim) error {
			f, err := sim.OpenFile(sums, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{0xff, 0xff, 0xff}, 300)
			return errors.Join(err, f.Close())
		},
		"a directory": func(sim *vfs.Sim) error {
			return errors.Join(sim.Remove(sums), sim.Mkdir(sums, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := manyLines(t)
			if err := harm(sim); err != nil {
				t.Fatal(err)
			}
			r := open(t, cfg)
			if r.SumsKnown() {
				t.Fatal("the checksums were believed")
			}
			if name == "a directory" {
				if err := sim.Remove(sums); err != nil {
					t.Fatal(err)
				}
			}
			update(t, r, func(w *writer) { change(w, bindb.Lines, 200, func(l *record.Line) { l.UpdatedAt++ }) })
			closeRoot(t, r)
			r = open(t, cfg)
			if r.SumsKnown() {
				t.Fatal("checksums of unvalidated records were made")
			}
			expect(t, r, "")
			closeRoot(t, r)
			r = open(t, cfg)
			if !r.SumsKnown() {
				t.Error("after a full validation there are no checksums")
			}
			off, _ := fieldOf(t, "line.bin", "created_at_s", 299)
			flip(t, cfg, "line.bin", off, 0)
			expect(t, r, "SUM line.bin 204 ")
			closeRoot(t, r)
		})
	}
}

// Two processes that commit in turn, and stop and start as they like, never
// take a sound page for a damaged one.
func TestSumsFollowEveryBatch(t *testing.T) {
	t.Parallel()
	shared(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 5))
			_, _, cfgs := processes(t)
			roots := []*bindb.Root{open(t, cfgs[0]), open(t, cfgs[1])}
			known := 0
			for round := range 120 {
				who := rnd.IntN(2)
				if seed%2 == 0 && round > 20 {
					who = 0
				}
				r := roots[who]
				switch rnd.IntN(6) {
				case 0:
					closeRoot(t, r)
					r = open(t, cfgs[who])
					roots[who] = r
				case 1:
					err := r.Update(context.Background(), func(tx *bindb.Tx) error {
						return errors.Join(write(func(w *writer) { w.line("gone") })(tx), errors.New("no"))
					})
					if err == nil {
						t.Fatal("a failed mutation was committed")
					}
				default:
					update(t, r, func(w *writer) {
						n := w.count(bindb.Lines.Count(w.tx))
						for range rnd.IntN(60) {
							w.line(strings.Repeat("x", rnd.IntN(300)+1))
						}
						for range rnd.IntN(9) {
							if n > 0 {
								change(w, bindb.Lines, rnd.Uint32N(n), func(l *record.Line) { l.UpdatedAt++ })
							}
						}
					})
				}
				if r.SumsKnown() {
					known++
				}
				if rnd.IntN(4) == 0 {
					expect(t, r, "")
				}
			}
			if known == 0 {
				t.Error("the checksums were never known, so that nothing was tested")
			}
			for _, r := range roots {
				closeRoot(t, r)
			}
			r := open(t, cfgs[0])
			expect(t, r, "")
			closeRoot(t, r)
		})
	}
}

// A record that crosses the end of a page belongs to both.
func TestSumsOfRecordsAcrossPages(t *testing.T) {
	t.Parallel()
	_, cfg := manyLines(t)
	r := open(t, cfg)
	// Line 102 takes the bytes 4084 to 4123; 204 takes 8164 to 8203.
	update(t, r, func(w *writer) {
		for _, i := range []uint32{101, 102, 103, 204, 299} {
			change(w, bindb.Lines, i, func(l *record.Line) { l.CreatedAt, l.UpdatedAt = 1<<60, 1<<61 })
		}
	})
	if !r.SumsKnown() {
		t.Fatal("the checksums are not known")
	}
	expect(t, r, "")
	closeRoot(t, r)
	r = open(t, cfg)
	if !r.SumsKnown() {
		t.Fatal("the checksums are not known")
	}
	expect(t, r, "")
	closeRoot(t, r)
}

// settle makes what a clean stop has left durable, as the kernel does in time.
func settle(t *testing.T, sim *vfs.Sim) {
	t.Helper()
	for _, dir := range []string{"sums", "mark", "index/4", "journal"} {
		dir = "/runtime/" + dir
		list, err := sim.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if e.Mode.IsDir() {
				continue
			}
			f, err := sim.OpenFile(dir+"/"+e.Name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if err := sim.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever a power cut leaves of a clean stop, the sums of an earlier one are
// not taken for those of the records.
func TestCrashAroundCleanStop(t *testing.T) {
	t.Parallel()
	sim, cfg := manyLines(t)
	settle(t, sim)
	sim.Capture()
	h := &history{}
	h.ack(t, sim, cfg)
	for i := range 2 {
		r := open(t, cfg)
		if !r.SumsKnown() {
			t.Fatal("the checksums are not known")
		}
		update(t, r, func(w *writer) { change(w, bindb.Lines, uint32(i), func(l *record.Line) { l.UpdatedAt++ }) })
		h.ack(t, sim, cfg)
		closeRoot(t, r)
	}
	p := policy(t)
	p.Random = 60
	crashEverywhere(t, sim, cfg, h, p)
}

// An owner verifies what it loads: nobody reads a flipped bit.
func TestOwnerVerifiesWhatItLoads(t *testing.T) {
	t.Parallel()
	_, cfg := manyLines(t)
	off, _ := fieldOf(t, "line.bin", "created_at_s", 150)
	flip(t, cfg, "line.bin", off, 3)
	cfg.Own = true
	r := open(t, cfg)
	ctx := context.Background()
	err := r.View(ctx, func(rd bindb.Reader) error {
		_, err := bindb.Lines.Get(rd, 0)
		return err
	})
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "line.bin record 102: page 1") {
		t.Errorf("a reader gets %v", err)
	}
	err = r.Update(ctx, write(func(w *writer) { w.line("next") }))
	if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "line.bin record 102: page 1") {
		t.Errorf("a mutation gets %v", err)
	}
	expect(t, r, "SUM line.bin 102 ")
	update(t, r, func(w *writer) { w.actor("ada") }) // others are not concerned
	closeRoot(t, r)
	flip(t, cfg, "line.bin", off, 3)
	r = open(t, cfg)
	update(t, r, func(w *writer) {
		w.line("next")
		change(w, bindb.Lines, 150, func(l *record.Line) { l.UpdatedAt++ })
	})
	if !r.SumsKnown() {
		t.Error("the checksums are not known any more")
	}
	expect(t, r, "")
	closeRoot(t, r)
}
