package bindb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

func reindex(t testing.TB, r *bindb.Root) {
	t.Helper()
	if err := r.Reindex(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// states is what Indexes says about each file.
func states(t testing.TB, r *bindb.Root) map[string]bindb.IndexInfo {
	t.Helper()
	list, err := r.Indexes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bindb.IndexInfo{}
	for _, x := range list {
		all[x.File] = x
	}
	return all
}

// rowsIn reads an index file by the layout of its record alone: the numbers of
// its fields, row by row.
func rowsIn(t testing.TB, cfg bindb.Config, file string) [][]uint64 {
	t.Helper()
	raw, err := vfs.ReadFile(cfg.FS, filepath.Join(cfg.Dir, file), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l, ok := record.ByFile(file)
	if !ok || len(raw) < 4 || !bytes.Equal(raw[:4], []byte{1, 0, 0, 0}) || (len(raw)-4)%l.Size != 0 {
		t.Fatalf("%s: %d bytes, beginning % x", file, len(raw), raw[:min(4, len(raw))])
	}
	var rows [][]uint64
	for b := range slices.Chunk(raw[4:], l.Size) {
		var row []uint64
		for _, f := range l.Fields {
			var number [8]byte
			copy(number[:], b[f.Offset:f.Offset+f.Width])
			row = append(row, binary.LittleEndian.Uint64(number[:]))
		}
		rows = append(rows, row)
	}
	return rows
}

// The rows are in the order that section 11 asks for, and are those of the right
// records.
func TestReindexWritesFormat(t *testing.T) {
	t.Parallel()
	_, cfg := soundRoot(t)
	r := open(t, cfg)
	update(t, r, func(w *writer) {
		job := record.WorkerJob{Kind: record.JobKindPatchsetCI, State: record.JobStateQueued, MaxAttempts: 1, Patchset: 2, CreatedAt: 1, UpdatedAt: 1}
		for _, at := range []record.Seconds{0x0200, 0x0101, 0x0101, 0x01000000} {
			job.AvailableAt = at
			appendTo(w, bindb.WorkerJobs, job)
		}
		job.Meta.SetTombstoned(true)
		appendTo(w, bindb.WorkerJobs, job)
		// Two Snapshots with one hash; bytes compare in another order than numbers.
		for _, hash := range []uint64{0x0100, 0x0001, 0x0001} {
			i := w.snapshot(0)
			change(w, bindb.Snapshots, i, func(s *record.Snapshot) {
				s.Hash48 = hash
				s.Parent = record.RefTo(0)
			})
		}
		// The cached parent is the first edge too, and gives one row.
		for ordinal, parent := range []uint32{0, 1} {
			appendTo(w, bindb.SnapshotParentEdges, record.SnapshotParentEdge{Child: 4, Parent: parent, Ordinal: uint16(ordinal)})
		}
	})
	expect(t, r, "")
	reindex(t, r)
	for file, want := range map[string][][]uint64{
		// Jobs 0 and 1 have ended, 2 to 5 are queued, 6 is tombstoned.
		"worker_ready.idx": {{0x0101, 4}, {0x0101, 5}, {0x0200, 3}, {0x01000000, 6}},
		"worker_state.idx": {{1, 0, 0, 3}, {1, 0, 0, 4}, {1, 0, 0, 5}, {1, 0, 0, 6}, {3, 0, 0, 1}, {3, 0, 0, 2}},
		// Snapshots 0 to 3 have the hashes 1 to 4, 4 to 6 the ones above.
		"snapshot_id.idx":           {{0x0100, 5}, {1, 1}, {1, 6}, {1, 7}, {2, 2}, {3, 3}, {4, 4}},
		"snapshot_parent_child.idx": {{0, 5}, {0, 6}, {0, 7}, {1, 5}},
		"line_name.idx":             {{record.FNV1a64([]byte("main")), 0}},
		"blob_id.idx":               nil,
		"tree_id.idx":               nil,
	} {
		got := rowsIn(t, cfg, file)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s has the rows %v, want %v", file, got, want)
		}
	}
	// Names that hash to whatever: sorted by the bytes of the hash.
	if rows := rowsIn(t, cfg, "actor_lookup.idx"); len(rows) != 2 || !slices.IsSortedFunc(rows, func(a, b []uint64) int {
		return bytes.Compare(le(a[0], 8), le(b[0], 8))
	}) {
		t.Errorf("actor_lookup.idx has the rows %v", rows)
	}
	if rows := rowsIn(t, cfg, "manifest_hash.idx"); len(rows) != 7 {
		t.Errorf("manifest_hash.idx has %d rows", len(rows))
	}
	for _, file := range record.IndexFiles(record.RootAuthority) {
		if s := states(t, r)[file]; s.State != bindb.IndexCurrent {
			t.Errorf("%s is %s", file, s.State)
		}
	}
	closeRoot(t, r)
	r = open(t, cfg)
	expect(t, r, "")
	closeRoot(t, r)
}

func TestReindexRegistry(t *testing.T) {
	t.Parallel()
	sim := vfs.NewSim()
	cfg := bindb.Config{FS: sim, Dir: "/registry", Kind: record.RootRegistry, Label: "registry", Runtime: "/runtime", Identity: [32]byte{3}}
	err := bindb.CreateWith(context.Background(), cfg, write(func(w *writer) {
		for i, name := range append(record.ReservedRepositories[:], "a", "b", "c", "d") {
			off, n := w.text(bindb.RepositoryPayload, &record.RepositoryPayload{Name: name})
			rec := record.Repository{Lifecycle: record.LifecycleActive, PayloadLen: uint32(n), PayloadOffset: off, CreatedAt: 1, UpdatedAt: 1}
			switch i {
			case 4, 6:
				rec.Namespace = record.Namespace{'Z', 'A'}
				if i == 4 {
					rec.Lifecycle = record.LifecyclePurged
				}
			case 5:
				rec.Namespace = record.Namespace{'A', 'Z'}
			case 7:
				rec.Namespace = record.Namespace{'Q'}
				rec.Meta.SetTombstoned(true)
			}
			appendTo(w, bindb.Repositories, rec)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, cfg)
	reindex(t, r)
	az, za := uint64('A')|'Z'<<8, uint64('Z')|'A'<<8
	want := fmt.Sprint([][]uint64{{az, 0, 6}, {za, 0, 5}, {za, 0, 7}})
	if got := rowsIn(t, cfg, "repository_namespace.idx"); fmt.Sprint(got) != want {
		t.Errorf("the rows are %v, want %v", got, want)
	}
	closeRoot(t, r)
}

// An index is never trusted: whatever stands in its place, the root is sound,
// lookups find the truth, and the next Reindex puts it right.
func TestIndexesAreAdvisory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(b []byte) []byte
		want bindb.IndexState
	}{
		"a row less":       {func(b []byte) []byte { return b[:len(b)-12] }, bindb.IndexStale},
		"a wrong target":   {func(b []byte) []byte { b[len(b)-4]++; return b }, bindb.IndexStale},
		"rows exchanged":   {func(b []byte) []byte { copy(b[4:], append(slices.Clone(b[16:28]), b[4:16]...)); return b }, bindb.IndexStale},
		"a row twice":      {func(b []byte) []byte { return append(b, b[len(b)-12:]...) }, bindb.IndexStale},
		"a part of a row":  {func(b []byte) []byte { return b[:len(b)-5] }, bindb.IndexStale},
		"another header":   {func(b []byte) []byte { b[0] = 9; return b }, bindb.IndexStale},
		"nothing":          {func([]byte) []byte { return nil }, bindb.IndexStale},
		"only a header":    {func(b []byte) []byte { return b[:4] }, bindb.IndexBehind},
		"as it should be":  {func(b []byte) []byte { return b }, bindb.IndexCurrent},
		"something longer": {func(b []byte) []byte { return make([]byte, 5000) }, bindb.IndexStale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := simConfig(t)
			create(t, cfg)
			r := open(t, cfg)
			update(t, r, func(w *writer) {
				for i := range 100 {
					w.line(fmt.Sprint("line ", i))
				}
			})
			reindex(t, r)
			closeRoot(t, r)
			d := disk{t, sim, cfg}
			d.write("line_name.idx", c.harm(d.read("line_name.idx")))
			r = open(t, cfg)
			expect(t, r, "")
			if s := states(t, r)["line_name.idx"]; s.State != c.want || s.Rows != 100 {
				t.Errorf("the index is %+v, want %s", s, c.want)
			}
			find := func() {
				t.Helper()
				for _, i := range []uint32{0, 37, 99} {
					var got []uint32
					err := r.View(context.Background(), func(rd bindb.Reader) error {
						return bindb.LinesByName(rd, fmt.Sprint("line ", i), func(i uint32) (bool, error) { got = append(got, i); return true, nil })
					})
					if err != nil || !slices.Equal(got, []uint32{i}) {
						t.Errorf("found %v, %v, want %d", got, err, i)
					}
				}
			}
			find()
			reindex(t, r)
			find()
			if s := states(t, r)["line_name.idx"]; s.State != bindb.IndexCurrent {
				t.Errorf("after Reindex the index is %s", s.State)
			}
			closeRoot(t, r)
		})
	}
}

// Records that came after an index make it no wrong one.
func TestIndexBehind(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	if s := states(t, r)["line_name.idx"]; s.State != bindb.IndexMissing {
		t.Errorf("in a new root the index is %s", s.State)
	}
	update(t, r, func(w *writer) {
		for i := range 100 {
			w.line(fmt.Sprint("line ", i))
		}
	})
	reindex(t, r)
	update(t, r, func(w *writer) { w.line("one more") })
	all := states(t, r)
	if s := all["line_name.idx"]; s.State != bindb.IndexBehind || s.Rows != 101 {
		t.Errorf("the index is %+v", s)
	}
	if s := all["patchset_line.idx"]; s.State != bindb.IndexCurrent {
		t.Errorf("the index of the runtime folder is %+v", s)
	}
	closeRoot(t, r)
}

// A power cut leaves each index as it was or as it should be.
func TestCrashInReindex(t *testing.T) {
	t.Parallel()
	sim, cfg := soundRoot(t)
	settle(t, sim)
	d := disk{t, sim, cfg}
	d.write("worker_state.idx", []byte("old"))
	want := dump(t, cfg)
	sim.Capture()
	begin := sim.OpCount()
	r := open(t, cfg)
	reindex(t, r)
	done := sim.OpCount()
	fresh := d.read("worker_state.idx")
	closeRoot(t, r)
	seen := map[uint64]bool{}
	p := policy(t)
	p.Recent = 12
	for cut := begin; cut <= sim.OpCount(); cut++ {
		for state := range sim.CrashStates(cut, p) {
			if seen[state.Fingerprint()] && cut != done {
				continue
			}
			seen[state.Fingerprint()] = true
			again := cfg
			again.FS = state
			got := disk{t, state, again}.read("worker_state.idx")
			if string(got) != "old" && !bytes.Equal(got, fresh) || cut >= done && string(got) == "old" {
				t.Fatalf("%s: the index is % x", state.Origin(), got)
			}
			r := open(t, again)
			if dump(t, again) != want {
				t.Fatalf("%s: the records changed", state.Origin())
			}
			expect(t, r, "")
			closeRoot(t, r)
		}
	}
}

// A failing disk is reported, and the root stays in service.
func TestFaultInReindex(t *testing.T) {
	t.Parallel()
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			r := open(t, cfg)
			sim.Fail(func(op vfs.Op) error {
				if op.Kind == kind {
					return os.ErrInvalid
				}
				return nil
			})
			if err := r.Reindex(context.Background()); err == nil {
				t.Error("the fault was not noticed")
			}
			sim.Fail(nil)
			reindex(t, r)
			update(t, r, func(w *writer) { w.line("next") })
			expect(t, r, "")
			closeRoot(t, r)
		})
	}
}
