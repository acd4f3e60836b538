package bindb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// wasteful makes a root of every family that has a payload, with payload bytes that
// nothing refers to before, between and behind the others, payloads out of order,
// an empty one, names that two entries share, and rows at the end that belong to
// nobody.
func wasteful(t testing.TB, cfg bindb.Config) {
	t.Helper()
	create(t, cfg)
	r := open(t, cfg)
	garbage := func(w *writer) {
		for _, p := range record.PayloadFiles() {
			if p.Root == cfg.Kind {
				_, err := bindb.PayloadOf(p.File).Append(w.tx, []byte("garbage in "+p.File))
				w.keep(err)
			}
		}
	}
	update(t, r, garbage)
	update(t, r, seed)
	var task uint32
	for range 2 {
		for _, step := range story(&task) {
			update(t, r, step)
			update(t, r, garbage)
		}
	}
	update(t, r, func(w *writer) {
		// In the opposite order, and behind what was written later.
		for i := range uint32(2) {
			off, n := w.text(bindb.TaskPayload, &record.TaskPayload{Title: fmt.Sprint("retitled ", i), Intent: "for another reason"})
			change(w, bindb.Tasks, 1-i, func(r *record.Task) { r.PayloadOffset, r.PayloadLen = off, uint16(n) })
		}
		w.plan(3, func(int, *record.PlanRevision) {})
		empty := w.review(0, 0, record.ReviewActionApprove)
		off, err := bindb.ReviewPayload.Append(w.tx, nil)
		w.keep(err)
		change(w, bindb.Reviews, empty, func(r *record.Review) { r.PayloadOffset, r.PayloadLen = off, 0 })
	})
	update(t, r, garbage)
	update(t, r, func(w *writer) {
		off, n := w.text(planItemPayload, &record.PlanItemPayload{Ref: "r", Text: "of no revision"})
		appendTo(w, bindb.PlanItems, record.PlanItem{PayloadOffset: off, PayloadLen: uint16(n)})
		for _, c := range someChecks(2) {
			appendTo(w, bindb.PolicyChecks, c)
		}
	})
	closeRoot(t, r)

	// Two Trees of one entry each, with the same name, and one with another.
	names := []byte("\x01\x00\x00\x00unusedsameunusedother")
	patch(t, cfg, "tree_name_payload.bin", 0, names)
	at := func(name string) uint64 { return uint64(strings.Index(string(names), name)) }
	encode := func(rec interface {
		Encode([]byte)
		Layout() *record.Layout
	}) []byte {
		b := make([]byte, rec.Layout().Size)
		rec.Encode(b)
		return b
	}
	blob := record.Blob{CreatedAt: 1}
	patch(t, cfg, "blob.bin", bindb.HeaderSize, encode(&blob))
	var trees, ranges, entries []byte
	for i, name := range []string{"other", "same", "same"} {
		trees = append(trees, encode(&record.Tree{EntryCount: 1, Hash80: [10]byte{byte(i)}})...)
		ranges = binary.LittleEndian.AppendUint32(ranges, uint32(i))
		entries = append(entries, encode(&record.TreeEntry{NameLen: uint8(len(name)), Mode: 0o644, NameOffset: at(name)})...)
	}
	patch(t, cfg, "tree.bin", bindb.HeaderSize, trees)
	patch(t, cfg, "tree_entry_range.bin", bindb.HeaderSize, ranges)
	patch(t, cfg, "tree_entry.bin", bindb.HeaderSize, entries)
}

// content is every record of a root with its payload in place of the offset, one
// line each, by file.
func content(t testing.TB, cfg bindb.Config) map[string][]string {
	t.Helper()
	files := map[string][]byte{}
	for _, file := range record.Files(cfg.Kind) {
		raw, err := vfs.ReadFile(cfg.FS, filepath.Join(cfg.Dir, file), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		files[file] = raw
	}
	all := map[string][]string{}
	for file, raw := range files {
		layout, ok := record.ByFile(file)
		if !ok {
			continue
		}
		all[file] = []string{}
		for i, at := 0, bindb.HeaderSize; at < len(raw); i, at = i+1, at+layout.Size {
			d := record.Dump(layout, i, raw[at:at+layout.Size])
			length := uint64(0)
			for _, f := range d.Fields {
				if strings.HasSuffix(f.Name, "_len") {
					length = f.Value.(uint64)
				}
			}
			for k, f := range layout.Fields {
				if payload := files[f.Target]; payload != nil && strings.HasSuffix(f.Name, "_offset") {
					off := d.Fields[k].Value.(uint64)
					d.Fields[k].Value = string(payload[off : off+length])
				}
			}
			all[file] = append(all[file], d.Text())
		}
	}
	return all
}

func compact(t *testing.T, cfg bindb.Config, dir string) (bindb.Config, bindb.Compacted) {
	t.Helper()
	h, err := bindb.Hold(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := vfs.MkdirAll(cfg.FS, dir, 0o700); err != nil {
		t.Fatal(err)
	}
	read := int64(0)
	done, err := h.Compact(context.Background(), cfg.FS, dir, func(n int64) { read += n })
	if err != nil {
		t.Fatal(err)
	}
	if read != done.After {
		t.Errorf("progress says %d bytes, want %d", read, done.After)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	to := cfg
	to.Dir, to.Runtime, to.Identity = dir, dir+"-runtime", [32]byte{2}
	findings, err := bindb.Verify(context.Background(), to, nil)
	if err != nil || len(findings) > 0 {
		t.Fatalf("the compacted root: %v %v", findings, err)
	}
	return to, done
}

func TestCompactKeepsEverythingThatIsReferredTo(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	wasteful(t, cfg)
	before := content(t, cfg)
	to, done := compact(t, cfg, "/compact/4")
	after := content(t, to)
	if !slices.Contains(before["tree_entry.bin"], after["tree_entry.bin"][1]) || !strings.Contains(after["tree_entry.bin"][1], "name_offset=same") {
		t.Errorf("entries %q", after["tree_entry.bin"])
	}
	dropped := map[string]int{"policy_check.bin": len(someChecks(2)), "plan_item.bin": 1}
	for file, lines := range before {
		if want := lines[:len(lines)-dropped[file]]; !slices.Equal(after[file], want) {
			t.Errorf("%s:\n got %s\nwant %s", file, strings.Join(after[file], "\n     "), strings.Join(want, "\n     "))
		}
	}
	if want := uint32(len(someChecks(2)) + 1); done.DroppedRows != want {
		t.Errorf("%d rows were dropped, want %d", done.DroppedRows, want)
	}
	for _, p := range record.PayloadFiles() {
		if p.Root != cfg.Kind {
			continue
		}
		raw, err := vfs.ReadFile(to.FS, filepath.Join(to.Dir, p.File), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "garbage") || strings.Contains(string(raw), "unused") || strings.Contains(string(raw), "of no revision") {
			t.Errorf("%s still holds %q", p.File, raw)
		}
	}
	if done.After >= done.Before {
		t.Errorf("%d bytes became %d", done.Before, done.After)
	}

	// It opens, works, and a second compaction finds nothing.
	r := open(t, to)
	update(t, r, func(w *writer) { w.line("more") })
	closeRoot(t, r)
	again, second := compact(t, to, "/again/4")
	if second.Before != second.After || second.DroppedRows != 0 || dump(t, again) != dump(t, to) {
		t.Errorf("the second compaction: %+v", second)
	}
}

func TestCompactOfManyRecords(t *testing.T) {
	t.Parallel()
	_, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	fill(t, r, 300)
	// Every third title is written anew, in steps that jump about.
	update(t, r, func(w *writer) {
		n := w.count(bindb.Changes.Count(w.tx))
		for k := range n / 3 {
			off, size := w.text(bindb.ChangePayload, &record.ChangePayload{Title: fmt.Sprintf("again %d", k)})
			change(w, bindb.Changes, k*3*7%n, func(c *record.Change) { c.PayloadOffset, c.PayloadLen = off, uint16(size) })
		}
	})
	closeRoot(t, r)
	before := content(t, cfg)
	to, _ := compact(t, cfg, "/compact/4")
	for file, lines := range content(t, to) {
		if !slices.Equal(lines, before[file]) {
			t.Errorf("%s has changed", file)
		}
	}
}

func TestHoldExcludesEveryone(t *testing.T) {
	t.Parallel()
	shared(t)
	_, cfg := simConfig(t)
	create(t, cfg)
	cfg.LockWait = 10 * time.Millisecond
	r := open(t, cfg)
	err := r.View(context.Background(), func(bindb.Reader) error {
		_, err := bindb.Hold(context.Background(), cfg)
		return err
	})
	if !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("hold under a view: %v, want ErrBusy", err)
	}
	h, err := bindb.Hold(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.View(context.Background(), func(bindb.Reader) error { return nil }); !errors.Is(err, bindb.ErrBusy) {
		t.Errorf("view of a held root: %v, want ErrBusy", err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	update(t, r, func(w *writer) { w.line("main") })
	closeRoot(t, r)
}

// A copy that is made in two passes is the root as it is at the second one.
func TestCopyFollowsWhatHasChanged(t *testing.T) {
	t.Parallel()
	shared(t)
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	long := strings.Repeat("x", 60_000)
	for range 90 { // more than is copied at once
		update(t, r, func(w *writer) { w.task(long) })
	}
	if err := vfs.MkdirAll(sim, "/copy", 0o700); err != nil {
		t.Fatal(err)
	}
	wrote := false
	sums, err := r.Copy(context.Background(), sim, "/copy", func(int64) {
		if wrote {
			return
		}
		wrote = true
		update(t, r, func(w *writer) {
			w.task("meanwhile")
			change(w, bindb.Lines, 0, func(l *record.Line) { l.UpdatedAt = 77 })
		})
	})
	if err != nil || !wrote {
		t.Fatal(err, wrote)
	}
	copied := cfg
	copied.Dir = "/copy"
	if got, want := dump(t, copied), dump(t, cfg); got != want {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
	for _, s := range sums {
		sum, err := bindb.Sum(sim, filepath.Join("/copy", s.Name), s.Size)
		if err != nil || sum != s.SHA256 {
			t.Errorf("%s: %v, or another sum", s.Name, err)
		}
		if _, err := bindb.Sum(sim, filepath.Join("/copy", s.Name), s.Size+1); !errors.Is(err, bindb.ErrCorrupt) {
			t.Errorf("%s of another length: %v", s.Name, err)
		}
	}
	closeRoot(t, r)
}
