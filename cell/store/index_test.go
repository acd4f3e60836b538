package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/hemera"
)

// small opens a store whose tables are full after a few entries.
func small(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: path, tableSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// blobs are n pieces of content of a name, each of another length.
func blobs(name string, n int) []record.Item {
	items := make([]record.Item, n)
	names, texts := make([]record.Particle, n), make([][]byte, n)
	for i := range texts {
		texts[i] = fmt.Appendf(nil, "%s %d %0*d", name, i, i%50, 0)
	}
	hemera.SumAll(names, texts)
	for i := range items {
		items[i] = record.Item{Particle: names[i], Kind: record.KindBlob, Bytes: texts[i]}
	}
	return items
}

// settled waits until the indexer has nothing to do.
func settled(t testing.TB, s *Store) {
	t.Helper()
	s.tidying.Lock()
	defer s.tidying.Unlock()
	if err := s.tidy(t.Context(), func(fn func(*tx) error) error { return s.update(t.Context(), fn) }); err != nil {
		t.Fatal(err)
	}
}

func sound(t testing.TB, s *Store) {
	t.Helper()
	findings, err := s.Verify(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

func have(t testing.TB, s *Store, items []record.Item) {
	t.Helper()
	for _, it := range items {
		kind, data, err := s.Content(t.Context(), it.Particle)
		if err != nil || kind != it.Kind || string(data) != string(it.Bytes) {
			t.Fatalf("content %v: %v %q, %v", it.Particle, kind, data, err)
		}
	}
}

func TestContentIsFoundInRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cells.db")
	s := small(t, path)
	var all []record.Item
	for n := range 180 {
		items := blobs(fmt.Sprint("batch ", n), 60)
		if n%3 == 0 {
			items = append(items, all[:min(len(all), 20)]...) // again
		}
		if err := s.Put(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		all = append(all, items...)
		if n%50 == 0 { // once more
			if err := s.update(t.Context(), func(x *tx) error { return x.append(appendPacks(nil, items)) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	settled(t, s)
	runs := *s.index.runs.Load()
	tiers := map[int]int{}
	for _, r := range runs {
		tiers[s.index.tier(r)]++
	}
	if len(tiers) < 3 {
		t.Errorf("runs of %d sizes, expected 3: %v", len(tiers), tiers)
	}
	for n, count := range tiers {
		if count >= fanout {
			t.Errorf("%d runs of size %d", count, n)
		}
	}
	s.cache.clear()
	have(t, s, all)
	sound(t, s)
	for _, it := range blobs("absent", 1000) {
		if _, _, err := s.Content(t.Context(), it.Particle); !errors.Is(err, cell.ErrMissing) {
			t.Fatalf("%v, expected %v", err, cell.ErrMissing)
		}
	}
	before := len(runs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = small(t, path)
	if n := len(*s.index.runs.Load()); n != before {
		t.Errorf("%d runs, and %d after opening", before, n)
	}
	have(t, s, all)
	sound(t, s)
}

// Two particles may agree in what the index knows of them.
func TestContentWithTheSameKey(t *testing.T) {
	t.Parallel()
	s := small(t, filepath.Join(t.TempDir(), "cells.db"))
	items := blobs("x", 700)
	// The names are invented; what is compared with them was verified before.
	for i := range items {
		copy(items[i].Particle[:8], items[0].Particle[:8])
	}
	for i := 0; i < len(items); i += 10 {
		err := s.update(t.Context(), func(x *tx) error { return x.append(appendPacks(nil, items[i:i+10])) })
		if err != nil {
			t.Fatal(err)
		}
	}
	settled(t, s)
	if len(*s.index.runs.Load()) == 0 {
		t.Fatal("there are no runs")
	}
	have(t, s, items)
	absent := items[0].Particle
	absent[31] ^= 1
	if _, _, err := s.Content(t.Context(), absent); !errors.Is(err, cell.ErrMissing) {
		t.Errorf("%v, expected %v", err, cell.ErrMissing)
	}
}

// Wherever a run or a merge is cut short, opening the store finds everything.
func TestRunsCutShort(t *testing.T) {
	t.Parallel()
	errCut := errors.New("cut")
	path := filepath.Join(t.TempDir(), "cells.db")
	var all []record.Item
	cut := 0
	for n := range 40 {
		s := small(t, path)
		s.tidying.Lock() // the test does it
		for k := range 3 {
			items := blobs(fmt.Sprint("batch ", n, k), 120)
			// Put would wait for the tables to become fewer.
			err := s.update(t.Context(), func(x *tx) error { return x.append(appendPacks(nil, items)) })
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, items...)
		}
		left := n % 7
		err := s.tidy(t.Context(), func(fn func(*tx) error) error {
			if left--; left < 0 {
				return errCut
			}
			return s.update(t.Context(), fn)
		})
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if err != nil {
			cut++
		}
		s.tidying.Unlock()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if cut == 0 {
		t.Error("nothing was cut short")
	}
	s := small(t, path)
	have(t, s, all)
	settled(t, s)
	have(t, s, all)
	sound(t, s)
	m, _, _, err := readRuns(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	orphans, err := findOrphans(s.conn, m.runs)
	if err != nil || len(orphans) > 0 {
		t.Errorf("pages of the runs %v are left, error %v", orphans, err)
	}
}

func TestDecodersRefuseDamage(t *testing.T) {
	t.Parallel()
	r := &run{number: 7, entries: 300, fences: []key{1, 9}, filter: newFilter(300)}
	good := r.encode()
	if _, err := decodeRun(7, good); err != nil {
		t.Fatal(err)
	}
	page := encodePage(7<<pageBits, []entry{{1, 2}, {3, 4}})
	if err := checkPage(7<<pageBits, page); err != nil {
		t.Fatal(err)
	}
	if err := checkPage(8<<pageBits, page); !errors.Is(err, cell.ErrCorrupt) {
		t.Errorf("a page in another place: %v", err)
	}
	if _, err := decodeRun(8, good); !errors.Is(err, cell.ErrCorrupt) {
		t.Errorf("a run in another place: %v", err)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x10
		if _, err := decodeRun(7, bad); !errors.Is(err, cell.ErrCorrupt) {
			t.Fatalf("run, byte %d: %v", i, err)
		}
		if _, err := decodeRun(7, good[:i]); !errors.Is(err, cell.ErrCorrupt) {
			t.Fatalf("run, %d bytes: %v", i, err)
		}
	}
	for i := range page {
		bad := append([]byte(nil), page...)
		bad[i] ^= 0x10
		if err := checkPage(7<<pageBits, bad); !errors.Is(err, cell.ErrCorrupt) {
			t.Fatalf("page, byte %d: %v", i, err)
		}
		if err := checkPage(7<<pageBits, page[:i]); !errors.Is(err, cell.ErrCorrupt) {
			t.Fatalf("page, %d bytes: %v", i, err)
		}
	}
}

// FuzzPack reads packs that nobody has written.
func FuzzPack(f *testing.F) {
	for _, p := range appendPacks(nil, blobs("x", 20)) {
		f.Add(p.data)
	}
	f.Add(binary.LittleEndian.AppendUint32(make([]byte, 4), packItems))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := readPack(1, data)
		if err != nil {
			if !errors.Is(err, cell.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		for i := range p.items() {
			it, err := p.verified(i)
			if err == nil && it.Check() != nil {
				t.Fatalf("item %d was taken for verified", i)
			}
		}
	})
}

func TestPacksHoldEverything(t *testing.T) {
	t.Parallel()
	items := blobs("x", 3000)
	large := make([]byte, 1<<20)
	items = append(items, record.Item{Particle: hemera.Sum(large), Kind: record.KindBlob, Bytes: large})
	items = append(items, blobs("y", 2)...)
	n := 0
	for _, p := range appendPacks(nil, items) {
		if p.items() > 1 && len(p.data) > packSize+packHead {
			t.Errorf("a pack of %d items has %d bytes", p.items(), len(p.data))
		}
		if err := p.sound(1); err != nil {
			t.Fatal(err)
		}
		for i := range p.items() {
			it, err := p.item(i)
			if err != nil || it.Particle != items[n].Particle || it.Kind != items[n].Kind || string(it.Bytes) != string(items[n].Bytes) {
				t.Fatalf("item %d differs", n)
			}
			n++
		}
	}
	if n != len(items) {
		t.Errorf("%d items of %d", n, len(items))
	}
}

// What is brought by those who can't know what is there is stored once, unless the copy
// that is there is damaged.
func TestPutStoresContentOnce(t *testing.T) {
	t.Parallel()
	s := small(t, filepath.Join(t.TempDir(), "cells.db"))
	items := blobs("x", 300)
	count := func() int64 {
		t.Helper()
		n, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n.Particles
	}
	for range 3 {
		if err := s.Put(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		settled(t, s)
		if n := count(); n != 300 {
			t.Fatalf("%d particles are stored, expected 300", n)
		}
	}
	damage(t, s, items[7])
	if _, _, err := s.Content(t.Context(), items[7].Particle); !errors.Is(err, cell.ErrCorrupt) {
		t.Fatalf("damaged content: %v", err)
	}
	if err := s.Put(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 301 {
		t.Errorf("%d particles are stored, expected one more than 300", n)
	}
	have(t, s, items)
	for n := range 20 {
		if err := s.Put(t.Context(), blobs(fmt.Sprint("more ", n), 100)); err != nil {
			t.Fatal(err)
		}
		settled(t, s)
		s.cache.clear()
		have(t, s, items[7:8])
	}
}

// damage flips a bit of content in the file.
func damage(t *testing.T, s *Store, it record.Item) {
	t.Helper()
	err := s.update(t.Context(), func(x *tx) error {
		at, where, ok, err := s.find(x.conn, it.Particle, false)
		if err != nil || !ok {
			return fmt.Errorf("content is not there: %w", err)
		}
		data := slices.Clone(at.data)
		whole, err := at.item(where.ordinal())
		if err != nil {
			return err
		}
		data[strings.Index(string(data), string(whole.Bytes))] ^= 1
		return x.do("UPDATE packs SET data = ? WHERE pack = ?", func(q *sqlite.Stmt) {
			q.BindBytes(1, data)
			q.BindInt64(2, where.pack())
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.cache.clear()
}

func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part   string
		change string
	}{
		"a missing pack":                   {"index", "DELETE FROM packs WHERE pack = 3"},
		"a pack that was cut":              {"packs", "UPDATE packs SET data = substr(data, 1, length(data) - 1) WHERE pack = 3"},
		"an empty pack":                    {"packs", "UPDATE packs SET data = x'' WHERE pack = 3"},
		"a missing page of the index":      {"index", "DELETE FROM pages WHERE page = (SELECT max(page) FROM pages)"},
		"a page of another run":            {"index", "UPDATE pages SET data = (SELECT data FROM pages ORDER BY page LIMIT 1) WHERE page = (SELECT max(page) FROM pages)"},
		"a damaged run":                    {"index", "UPDATE runs SET data = substr(data, 1, 40)"},
		"a missing run":                    {"index", "DELETE FROM runs WHERE run = (SELECT max(run) FROM runs)"},
		"a missing list of runs":           {"index", "DELETE FROM runs WHERE run = 0"},
		"a damaged list of runs":           {"index", "UPDATE runs SET data = zeroblob(20) WHERE run = 0"},
		"a head of another index":          {"cells", "UPDATE cells SET head = head - 1"},
		"a head of another commit":         {"cells", `UPDATE cells SET "commit" = (SELECT "commit" FROM history LIMIT 1)`},
		"a missing cell":                   {"history", "DELETE FROM cells"},
		"a missing history":                {"history", "DELETE FROM history"},
		"a missing commit":                 {"history", "DELETE FROM history WHERE head = 5"},
		"a missing birth":                  {"history", "DELETE FROM history WHERE head = 0"},
		"a missing last commit":            {"history", "DELETE FROM history WHERE head = 19"},
		"a commit too many":                {"history", `INSERT INTO history SELECT cell, 20, "commit", mark FROM history WHERE head = 19`},
		"another commit":                   {"history", `UPDATE history SET "commit" = zeroblob(32) WHERE head = 5`},
		"another mark of a commit":         {"history", "UPDATE history SET mark = mark + 1 WHERE head = 5"},
		"a missing request":                {"tally", "DELETE FROM requests WHERE head = 5"},
		"another fingerprint":              {"requests", "UPDATE requests SET fingerprint = zeroblob(32) WHERE head = 5"},
		"a request that led to no commit":  {"requests", "DELETE FROM history WHERE head = 5"},
		"a missing claim":                  {"tally", "DELETE FROM claims WHERE request = (SELECT max(request) FROM claims)"},
		"another event":                    {"claims", "UPDATE claims SET event = zeroblob(32)"},
		"another tally":                    {"tally", "UPDATE tally SET bytes = bytes + 1"},
		"a commit whose content is absent": {"history", "DELETE FROM packs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := small(t, filepath.Join(t.TempDir(), "cells.db"))
			commits(t, s, "a", 20, 30)
			settled(t, s)
			sound(t, s)
			if len(*s.index.runs.Load()) == 0 {
				t.Fatal("there is no run")
			}
			if err := s.update(t.Context(), func(x *tx) error { return x.do(c.change, nil) }); err != nil {
				t.Fatal(err)
			}
			s.cache.clear()
			last := uint64(0)
			findings, err := s.Verify(t.Context(), func(done, total uint64) {
				if done > total || done < last {
					t.Errorf("%d of %d after %d", done, total, last)
				}
				last = done
			})
			if err != nil {
				t.Fatal(err)
			}
			if last == 0 {
				t.Error("there was no progress")
			}
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Part == c.part }) {
				t.Errorf("nothing about %s was found: %v", c.part, findings)
			}
		})
	}
}

// A store whose index is damaged opens. It says what is damaged instead of taking
// anything for absent, and making the index anew repairs it.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		healed bool // by opening the store
		lost   bool // for ever
	}{
		"the list of runs":         {"UPDATE runs SET data = zeroblob(20) WHERE run = 0", true, false},
		"no list of runs":          {"DELETE FROM runs WHERE run = 0", true, false},
		"no runs at all":           {"DELETE FROM runs", true, false},
		"the last packs":           {"DELETE FROM packs WHERE pack > (SELECT max(pack) - 2 FROM packs)", false, true},
		"a run":                    {"UPDATE runs SET data = zeroblob(20) WHERE run = (SELECT max(run) FROM runs)", false, false},
		"a missing run":            {"DELETE FROM runs WHERE run = (SELECT max(run) FROM runs)", false, false},
		"the pages":                {"UPDATE pages SET data = zeroblob(100)", false, false},
		"missing pages":            {"DELETE FROM pages", false, false},
		"pages of a run elsewhere": {"UPDATE pages SET data = (SELECT max(data) FROM pages)", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "cells.db")
			s := small(t, path)
			var all []record.Item
			for n := range 30 {
				items := blobs(fmt.Sprint(n), 40)
				if err := s.Put(t.Context(), items); err != nil {
					t.Fatal(err)
				}
				all = append(all, items...)
			}
			settled(t, s)
			if err := s.update(t.Context(), func(x *tx) error { return x.do(c.change, nil) }); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = small(t, path)
			lost := 0
			for _, it := range all {
				_, _, err := s.Content(t.Context(), it.Particle)
				if errors.Is(err, cell.ErrCorrupt) {
					lost++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if c.healed != (lost == 0) {
				t.Errorf("%d of %d items can't be found", lost, len(all))
			}
			if err := s.Reindex(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.lost {
				lost = 0
				for _, it := range all {
					switch _, _, err := s.Content(t.Context(), it.Particle); {
					case errors.Is(err, cell.ErrCorrupt):
						lost++
					case err != nil:
						t.Fatal(err)
					}
				}
				if lost == 0 {
					t.Error("nothing is said to be lost")
				}
				return
			}
			have(t, s, all)
			sound(t, s)
			if _, _, err := s.Content(t.Context(), blobs("absent", 1)[0].Particle); !errors.Is(err, cell.ErrMissing) {
				t.Errorf("%v, expected %v", err, cell.ErrMissing)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = small(t, path)
			have(t, s, all)
			sound(t, s)
		})
	}
}

// A merge that meets damage leaves everything as it was, and what is not damaged goes on.
func TestMergeMeetsDamage(t *testing.T) {
	t.Parallel()
	s := small(t, filepath.Join(t.TempDir(), "cells.db"))
	fill := func(from, to int) (all []record.Item) {
		t.Helper()
		for n := from; n < to; n++ {
			items := blobs(fmt.Sprint(n), 110) // a table
			if err := s.Put(t.Context(), items); err != nil {
				t.Fatal(err)
			}
			all = append(all, items...)
		}
		return all
	}
	fill(0, 5)
	settled(t, s)
	before := len(*s.index.runs.Load())
	err := s.update(t.Context(), func(x *tx) error {
		return x.do("UPDATE pages SET data = zeroblob(100) WHERE page = (SELECT max(page) FROM pages)", nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	later := fill(5, 40)
	tidy := func() error {
		s.tidying.Lock()
		defer s.tidying.Unlock()
		return s.tidy(t.Context(), func(fn func(*tx) error) error { return s.update(t.Context(), fn) })
	}
	for err := tidy(); err != nil; err = tidy() {
		if !errors.Is(err, cell.ErrCorrupt) {
			t.Fatal(err)
		}
	}
	runs := *s.index.runs.Load()
	damaged := 0
	for _, r := range runs {
		if r.damaged {
			damaged++
		}
	}
	if damaged != 1 || len(runs) > before+2*fanout {
		t.Errorf("%d runs, of which %d are damaged", len(runs), damaged)
	}
	lost := 0
	for _, it := range later {
		if _, _, err := s.Content(t.Context(), it.Particle); errors.Is(err, cell.ErrCorrupt) {
			lost++ // its key seemed to be in the damaged page
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if lost > len(later)/10 {
		t.Errorf("%d of %d items can't be found", lost, len(later))
	}
	m, _, _, err := readRuns(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	if orphans, err := findOrphans(s.conn, m.runs); err != nil || len(orphans) > 0 {
		t.Errorf("pages of the runs %v are left, error %v", orphans, err)
	}
	if err := s.Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	have(t, s, later)
	sound(t, s)
}

// Writes don't wait for ever where tables can't become runs.
func TestWritesSayWhyTheyWait(t *testing.T) {
	t.Parallel()
	s := small(t, filepath.Join(t.TempDir(), "cells.db"))
	s.tidying.Lock() // the indexer does nothing
	defer s.tidying.Unlock()
	for n := range maxTables + 1 {
		items := blobs(fmt.Sprint(n), 110)
		if err := s.update(t.Context(), func(x *tx) error { return x.append(appendPacks(nil, items)) }); err != nil {
			t.Fatal(err)
		}
	}
	answer := make(chan error)
	go func() { answer <- s.Put(t.Context(), blobs("more", 1)) }()
	for {
		s.index.tried(errDisk)
		select {
		case err := <-answer:
			if !errors.Is(err, cell.ErrStore) || !errors.Is(err, errDisk) {
				t.Errorf("%v, expected %v and %v", err, cell.ErrStore, errDisk)
			}
			ended, cancel := context.WithCancel(t.Context())
			s.index.tried(nil)
			go cancel()
			if err := s.Put(ended, blobs("more", 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, expected %v", err, context.Canceled)
			}
			return
		default:
			runtime.Gosched()
		}
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	list := func(sizes ...int) (waiting []*update) {
		for _, n := range sizes {
			waiting = append(waiting, &update{size: n})
		}
		return waiting
	}
	for _, c := range []struct {
		waiting []*update
		want    int
	}{
		{nil, 0},
		{list(1), 1},
		{list(maxBatchBytes + 1), 1},
		{list(maxBatchBytes+1, 1), 1},
		{list(1, maxBatchBytes), 1},
		{list(1, maxBatchBytes-1, 0, 1), 3},
		{list(make([]int, maxBatch+5)...), maxBatch},
	} {
		if got := batchOf(c.waiting); got != c.want {
			t.Errorf("%d of %d are taken, expected %d", got, len(c.waiting), c.want)
		}
	}
}

// Whichever bit of a pack is flipped: an item is what was written, or can't be read, and
// where a name or the table has changed the checksum tells.
func TestFlippedPacks(t *testing.T) {
	t.Parallel()
	items := blobs("x", 12)
	good := appendPacks(nil, items)[0].data
	for at := range good {
		for bit := range 8 {
			data := slices.Clone(good)
			data[at] ^= 1 << bit
			p, err := readPack(1, data)
			if err != nil {
				if !errors.Is(err, cell.ErrCorrupt) {
					t.Fatalf("byte %d, bit %d: %v", at, bit, err)
				}
				continue
			}
			table := packHead + len(items)*packEntry
			if changed := p.sound(1) != nil; changed != (at < table) {
				t.Fatalf("byte %d, bit %d: the table of %d bytes has changed: %v", at, bit, table, changed)
			}
			failed := 0
			for i := range min(p.items(), len(items)) {
				it, err := p.verified(i)
				switch {
				case err != nil && !errors.Is(err, cell.ErrCorrupt):
					t.Fatalf("byte %d, bit %d, item %d: %v", at, bit, i, err)
				case err != nil:
					failed++
				case it.Particle != items[i].Particle || it.Kind != items[i].Kind || string(it.Bytes) != string(items[i].Bytes):
					t.Fatalf("byte %d, bit %d: item %d is %v", at, bit, i, it)
				}
			}
			if at >= packHead && failed == 0 {
				t.Fatalf("byte %d, bit %d: every item was read", at, bit)
			}
		}
	}
}

// An index that is made anew when the store is opened is durable then: whoever reads
// does not wait for a write.
func TestReadsDoNotWaitForTheNewIndex(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cells.db")
	s := small(t, path)
	commits(t, s, "a", 400, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join((conn{c}).exec("DELETE FROM runs", nil), c.Close()); err != nil {
		t.Fatal(err)
	}
	s = small(t, path)
	if s.begun.Load() == 0 {
		t.Fatal("nothing was written to make the index")
	}
	done := make(chan error, 1)
	go func() { // it ends with the store at last
		_, err := s.Cells(t.Context(), record.Particle{}, 10)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the cells can't be listed before something is written")
	}
}
