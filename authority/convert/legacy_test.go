package convert_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// binary is the content of files by name.
type binary map[string][]byte

func (b binary) raw(file string, data []byte) (off uint64) {
	if b[file] == nil {
		b[file] = []byte{1, 0, 0, 0}
	}
	off = uint64(len(b[file]))
	b[file] = append(b[file], data...)
	return off
}

func addTo[T any, P record.Codec[T]](b binary, rec T) uint32 {
	l := P(&rec).Layout()
	buf := make([]byte, l.Size)
	P(&rec).Encode(buf)
	return uint32(b.raw(l.File, buf)-bindb.HeaderSize) / uint32(l.Size)
}

func (b binary) text(t testing.TB, file string, p record.Payload) (uint64, int) {
	t.Helper()
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b.raw(file, data), len(data)
}

func (b binary) line(t testing.TB, name string) uint32 {
	off, n := b.text(t, "line_name_payload.bin", &record.LineNamePayload{Name: name})
	return addTo(b, record.Line{NameOffset: off, NameLen: uint16(n), CreatedAt: 10, UpdatedAt: 10})
}

// name is one entry of a directory: a file with bytes and mode, or a Tree.
type name struct {
	name   string
	mode   uint16
	target uint32
}

// tree appends a Tree. Its entry ordinal counts down from 9, so that records and
// entries of the pack are in different orders.
func (b binary) tree(names ...name) uint32 {
	first := len(b["tree_entry.bin"]) / record.TreeEntrySize
	for _, n := range names {
		e := record.TreeEntry{NameLen: uint8(len(n.name)), Mode: n.mode, Target: n.target, NameOffset: b.raw("tree_name_payload.bin", []byte(n.name))}
		if n.mode == 0 {
			e.Meta.SetKind(record.EntryKindTree)
		}
		addTo(b, e)
	}
	addTo(b, record.TreeEntryRange{FirstEntry: uint32(first)})
	i := uint32(len(b["tree.bin"]) / record.TreeSize)
	return addTo(b, record.Tree{PackEntry: 9 - i, EntryCount: uint32(len(names)), Hash80: [10]byte{byte(i + 1)}})
}

func (b binary) blob(content byte) uint32 {
	return addTo(b, record.Blob{SizeBytes: 1, CreatedAt: 10, SHA256: [32]byte{content}})
}

// snapshot appends a Snapshot; tree -1 is none.
func (b binary) snapshot(hash uint64, tree int, dead bool) uint32 {
	s := record.Snapshot{Hash48: hash, Line: record.RefTo(0), ManifestHash: [32]byte{byte(hash)}, CreatedAt: 10}
	s.Meta.SetTombstoned(dead)
	if tree >= 0 {
		s.Meta.SetHasRootLocator(true)
		s.RootTreePack, s.RootEntry = record.RefTo(0), 9-uint32(tree)
	}
	return addTo(b, s)
}

// widgetContent is the content of repositories/5: Lines main and paint, Snapshots
// 1 to 3 with Trees, 4 tombstoned, 5 twice, 6 without a Tree, and a Plan whose
// second revision has the items oil, twice, twice.
func widgetContent(t testing.TB) binary {
	b := binary{}
	b.line(t, "main")
	b.line(t, "paint")
	b.line(t, "double")
	b.line(t, "double")
	one, two, three, four := b.blob(1), b.blob(2), b.blob(3), b.blob(4)
	again := b.blob(1)
	const file, program = 0o100644, 0o100755
	old := b.tree(name{"old.txt", file, three})
	base := b.tree(name{"a.txt", file, one}, name{"mode.sh", file, two}, name{"same.txt", file, one}, name{"sub", 0, old})
	second := b.tree(name{"a.txt", file, four}, name{"mode.sh", file, two}, name{"same.txt", file, again}, name{"sub", 0, old})
	fresh := b.tree(name{"new.txt", file, three})
	third := b.tree(name{"a.txt", file, four}, name{"mode.sh", program, two}, name{"same.txt", file, again}, name{"sub", 0, fresh})
	turned := b.tree(name{"a.txt", file, one}, name{"mode.sh", file, two}, name{"same.txt", file, one}, name{"sub", file, one})
	pack := record.TreePack{Format: record.PackFormatZstd, TreeCount: 6, CreatedAt: 10}
	pack.Meta.SetReady(true)
	pack.Meta.SetSparsePhysicalOrdinals(true)
	addTo(b, pack)
	b.snapshot(1, int(base), false)
	b.snapshot(2, int(second), false)
	b.snapshot(3, int(third), false)
	b.snapshot(4, -1, true)
	b.snapshot(5, -1, false)
	b.snapshot(5, -1, false)
	b.snapshot(6, -1, false)
	b.snapshot(7, int(turned), false)
	var items []uint32
	for _, ref := range []string{"oil", "oil", "twice", "twice"} {
		off, n := b.text(t, "plan_item_payload.bin", &record.PlanItemPayload{Ref: ref, Text: "Do it"})
		item := record.PlanItem{PayloadOffset: off, PayloadLen: uint16(n), LineNumber: 3}
		item.Meta.SetHasRef(true)
		items = append(items, addTo(b, item))
	}
	for i := range uint16(2) {
		off, n := b.text(t, "plan_revision_payload.bin", &record.PlanRevisionPayload{TitleSnapshot: "Upkeep"})
		rev := record.PlanRevision{
			PayloadOffset: off, PayloadLen: uint16(n), Number: i + 1, ItemCount: 1 + 2*i, ItemStart: items[i], CreatedAt: 10,
		}
		if i == 1 {
			rev.Previous = record.RefTo(0)
		}
		addTo(b, rev)
	}
	off, n := b.text(t, "plan_payload.bin", &record.PlanPayload{Title: "Upkeep"})
	addTo(b, record.Plan{PayloadOffset: off, PayloadLen: uint16(n), LatestRevision: record.RefTo(1), CreatedAt: 10, UpdatedAt: 10})
	return b
}

// rows is a source of rows that a test changes before it is written.
type rows struct {
	t       testing.TB
	docs    map[string]any    // by path
	content map[string]binary // by directory
}

func newRows(t testing.TB) *rows {
	t.Helper()
	r := &rows{t: t, docs: map[string]any{}, content: map[string]binary{"repositories/5": widgetContent(t)}}
	paths := []string{"operational.json"}
	for i := range 6 {
		paths = append(paths, fmt.Sprintf("repositories/%d.json", i))
	}
	for _, path := range paths {
		raw, err := os.ReadFile(filepath.Join("testdata", "rows", path))
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var doc any
		if err := d.Decode(&doc); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r.docs[path] = doc
	}
	return r
}

// gone removes a member.
type gone struct{}

// set changes one value: "tasks[1].status" of repositories/5.json, or of
// operational.json for "/jobs[0].state". A number beyond an array appends.
func (r *rows) set(path string, value any) {
	r.t.Helper()
	doc := "repositories/5.json"
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		doc, path = "operational.json", rest
	}
	steps := strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
	r.docs[doc] = r.put(r.docs[doc], steps, value)
}

func (r *rows) put(v any, steps []string, value any) any {
	r.t.Helper()
	if len(steps) == 0 {
		return value
	}
	switch v := v.(type) {
	case map[string]any:
		if _, ok := value.(gone); ok && len(steps) == 1 {
			delete(v, steps[0])
		} else {
			v[steps[0]] = r.put(v[steps[0]], steps[1:], value)
		}
		return v
	case []any:
		i, err := strconv.Atoi(steps[0])
		if err != nil {
			r.t.Fatalf("step %s: %v", steps[0], err)
		}
		if i == len(v) {
			return append(v, value)
		}
		v[i] = r.put(v[i], steps[1:], value)
		return v
	}
	r.t.Fatalf("step %s leads into %T", steps[0], v)
	return nil
}

// write puts the source on a disk.
func (r *rows) write(fsys vfs.FS, dir string) {
	r.t.Helper()
	if err := vfs.MkdirAll(fsys, filepath.Join(dir, "repositories"), 0o700); err != nil {
		r.t.Fatal(err)
	}
	for path, doc := range r.docs {
		raw, ok := doc.([]byte)
		if !ok {
			var err error
			if raw, err = json.Marshal(doc); err != nil {
				r.t.Fatal(err)
			}
		}
		write(r.t, fsys, filepath.Join(dir, path), raw)
	}
	for below, files := range r.content {
		if err := vfs.MkdirAll(fsys, filepath.Join(dir, below), 0o700); err != nil {
			r.t.Fatal(err)
		}
		for file, b := range files {
			write(r.t, fsys, filepath.Join(dir, below, file), b)
		}
	}
}

// convert writes the source to a new disk and converts it to /data.
func (r *rows) convert(change func(*convert.Options)) (*vfs.Sim, *convert.Report, error) {
	r.t.Helper()
	sim := vfs.NewSim()
	r.write(sim, "/source")
	o := convert.Options{From: convert.FromLegacyRows, Source: "/source", FS: sim}
	if change != nil {
		change(&o)
	}
	rep, err := convert.Convert(context.Background(), o, target(sim))
	return sim, rep, err
}

func target(fsys vfs.FS) authority.Options {
	clock := authoritytest.NewClock()
	return authority.Options{Dir: "/data", FS: fsys, Clock: clock.Now, Random: authoritytest.NewRandom(3)}
}

// dumpAll writes every file of a generation as text: records with their bytes and
// their fields, payloads as quoted text.
func dumpAll(t testing.TB, fsys vfs.FS, generation string) string {
	t.Helper()
	all := bins(t, fsys, generation)
	var paths []string
	for path := range all {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var out strings.Builder
	for _, path := range paths {
		b := all[path][bindb.HeaderSize:]
		if len(b) == 0 {
			continue
		}
		fmt.Fprintf(&out, "== %s\n", path)
		l, ok := record.ByFile(filepath.Base(path))
		if !ok {
			fmt.Fprintf(&out, "%q\n", b)
			continue
		}
		for i := 0; len(b) > 0; i++ {
			fmt.Fprintf(&out, "%s\n%s\n", hex.EncodeToString(b[:l.Size]), record.Dump(l, i, b[:l.Size]).Text())
			b = b[l.Size:]
		}
	}
	return out.String()
}

// TestRowsBecomeTheseBytes compares every record of every family with a golden
// file, in which each was checked against the rows once.
func TestRowsBecomeTheseBytes(t *testing.T) {
	t.Parallel()
	sim, rep, err := newRows(t).convert(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := dumpAll(t, sim, generation("/data"))
	path := filepath.Join("testdata", "rows.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(gotLines), len(wantLines)) {
			if gotLines[i] != wantLines[i] {
				t.Fatalf("line %d:\n got %s\nwant %s\nrun go test -update if that is intended", i+1, gotLines[i], wantLines[i])
			}
		}
		t.Fatalf("%d lines, want %d", len(gotLines), len(wantLines))
	}
	if len(rep.Gates) != 0 || len(rep.Omitted) != 0 || rep.Target != "/data" || rep.Generation != 1 || len(rep.Installation) != 32 {
		t.Errorf("report %+v", rep)
	}
	if want := []string{"repository 5: T-0001/C-01 was active and is landed, since T-0001/C-01/L-02 has succeeded"}; !slices.Equal(rep.Warnings, want) {
		t.Errorf("warnings %q, want %q", rep.Warnings, want)
	}
}

// TestConvertedRowsRead opens the new authority and asks for what the rows said.
func TestConvertedRowsRead(t *testing.T) {
	t.Parallel()
	sim, _, err := newRows(t).convert(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	a, err := authority.Open(ctx, target(sim))
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.Repositories(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var repos []string
	for _, r := range list {
		repos = append(repos, fmt.Sprintf("%s %q %s %#02x", r.Name, r.Namespace, r.Lifecycle, uint8(r.PolicyFlags)))
	}
	want := []string{
		`ait-core "" active 0x03`, `ait-server "" purged 0x83`, `ait-python "" retiring 0x83`, `ait-node "" active 0x83`,
		`gadgets ☂ "SE" active 0x83`, `widgets "" active 0xd6`,
	}
	if !slices.Equal(repos, want) {
		t.Errorf("repositories\n%s\nwant\n%s", strings.Join(repos, "\n"), strings.Join(want, "\n"))
	}
	r, err := a.Repository(ctx, 5)
	if err != nil {
		t.Fatal(err)
	}
	err = r.View(ctx, func(v *authority.View) error {
		p, err := v.Patchset(2)
		if err != nil {
			return err
		}
		if p.ID.String() != "T-0002/C-01/P-02" {
			t.Errorf("patchset 2 is %s", p.ID)
		}
		d, err := v.Decision(&p)
		if err != nil {
			return err
		}
		if d.ID.String() != "T-0002/C-01/P-02/K-02" || d.Kind() != record.DecisionKindHardFail {
			t.Errorf("decision %s is %s", d.ID, d.Kind())
		}
		at, err := v.Attestation(&p)
		if err != nil {
			return err
		}
		if at == nil || at.Meta.VerificationState() != record.VerificationStatePass || !at.Meta.CIBacked() {
			t.Errorf("attestation %+v", at)
		}
		reviews, err := v.Reviews(&p)
		if err != nil {
			return err
		}
		var said []string
		for _, rv := range reviews {
			said = append(said, fmt.Sprintf("%s %s %s %q", rv.ID, rv.Action(), rv.Actor, rv.Text))
		}
		want := []string{`T-0002/C-01/P-02/R-02 request painters "Please look."`, `T-0002/C-01/P-02/R-05 task_request_changes Ann <ann@example.org> "Not so blue."`}
		if !slices.Equal(said, want) {
			t.Errorf("reviews %q, want %q", said, want)
		}
		job, err := v.SelectedJob(&p)
		if err != nil {
			return err
		}
		if job == nil || job.Index != 8 || job.Outcome != record.JobOutcomeCompleted {
			t.Errorf("job %+v", job)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// renumber replaces the beginnings of identities in every row of repository 5 and
// in the Jobs.
func (r *rows) renumber(names map[string]string) {
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			if task, rest, ok := strings.Cut(v, "/"); ok && names[task] != "" {
				return names[task] + "/" + rest
			}
			if names[v] != "" {
				return names[v]
			}
		}
		return v
	}
	for _, path := range []string{"repositories/5.json", "operational.json"} {
		r.docs[path] = walk(r.docs[path])
	}
}

// reaches says whether a path leads to a value of repository 5.
func (r *rows) reaches(path string) bool {
	v := r.docs["repositories/5.json"]
	for _, step := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[step]
			if !ok {
				return false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(x) {
				return false
			}
			v = x[i]
		default:
			return false
		}
	}
	return true
}
