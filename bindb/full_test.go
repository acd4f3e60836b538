package bindb_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

var (
	blobs           = bindb.TableOf[record.Blob]("blob.bin")
	objectPacks     = bindb.TableOf[record.ObjectPack]("object_pack.bin")
	objectMembers   = bindb.TableOf[record.ObjectPackMember]("object_pack_member.bin")
	treePacks       = bindb.TableOf[record.TreePack]("tree_pack.bin")
	trees           = bindb.TableOf[record.Tree]("tree.bin")
	treeEntryRanges = bindb.TableOf[record.TreeEntryRange]("tree_entry_range.bin")
	treeEntries     = bindb.TableOf[record.TreeEntry]("tree_entry.bin")
	treeNames       = bindb.PayloadOf("tree_name_payload.bin")
)

// content appends two Blobs in a pack, and two Trees in a pack: the root holds a
// file and the other Tree, which holds two files.
func (w *writer) content() {
	for i := range 2 {
		b := record.Blob{SizeBytes: 10, PackMember: record.RefTo(uint32(i)), CreatedAt: 9, SHA256: sha256.Sum256([]byte{byte(i)})}
		b.Meta.SetHasPackMember(true)
		appendTo(w, blobs, b)
		m := record.ObjectPackMember{Blob: uint32(i)}
		m.Meta.SetCompression(record.CompressionZstd)
		if i == 1 {
			m.DeltaDepth, m.BaseBlob = 1, record.RefTo(0)
		}
		appendTo(w, objectMembers, m)
	}
	op := record.ObjectPack{Format: record.PackFormatZstd, HashHigh16: 0x0102, HashLow32: 0x03040506, MemberCount: 2, TotalBytes: 20, CreatedAt: 9}
	op.Meta.SetReady(true)
	appendTo(w, objectPacks, op)
	tp := record.TreePack{Format: record.PackFormatZstd, HashHigh16: 0x0908, HashLow32: 0x07060504, TreeCount: 2, TotalBytes: 20, CreatedAt: 9}
	tp.Meta.SetReady(true)
	appendTo(w, treePacks, tp)
	entry := func(name string, kind record.EntryKind, target uint32) {
		off, n := w.text(treeNames, &record.TreeNamePayload{Name: name})
		e := record.TreeEntry{NameLen: uint8(n), NameOffset: off, Target: target}
		e.Meta.SetKind(kind)
		if kind == record.EntryKindBlob {
			e.Mode = 0o100644
		}
		appendTo(w, treeEntries, e)
	}
	appendTo(w, trees, record.Tree{EntryCount: 2, Hash80: [10]byte{1}})
	appendTo(w, treeEntryRanges, record.TreeEntryRange{FirstEntry: 0})
	entry("README", record.EntryKindBlob, 0)
	entry("src", record.EntryKindTree, 1)
	appendTo(w, trees, record.Tree{PackEntry: 1, EntryCount: 2, Hash80: [10]byte{2}})
	appendTo(w, treeEntryRanges, record.TreeEntryRange{FirstEntry: 2})
	entry("a.go", record.EntryKindBlob, 0)
	entry("b.go", record.EntryKindBlob, 1)
}

// fullRoot is a closed root in which every family has records.
func fullRoot(t testing.TB) (*vfs.Sim, bindb.Config) {
	t.Helper()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	var task uint32
	for _, step := range story(&task) {
		update(t, r, step)
	}
	update(t, r, func(w *writer) {
		w.content()
		w.plan(2, func(int, *record.PlanRevision) {})
		change(w, bindb.Tasks, task, func(x *record.Task) {
			x.OriginPlanRevision, x.PlanItem, x.PlanLinkedAt = record.RefTo(1), record.RefTo(1), 10
		})
		s := w.snapshot(0)
		change(w, bindb.Snapshots, s, func(x *record.Snapshot) {
			x.Meta.SetHasRootLocator(true)
			x.RootTreePack, x.RootEntry = record.RefTo(0), 0
			x.Meta.SetParentEdgesAuthority(true)
			x.Parent = record.RefTo(0)
		})
		for ordinal, parent := range []uint32{0, 1} {
			appendTo(w, bindb.SnapshotParentEdges, record.SnapshotParentEdge{Child: s, Parent: parent, Ordinal: uint16(ordinal)})
		}
		change(w, bindb.Lines, 0, func(l *record.Line) { l.Head = record.RefTo(s) })
	})
	for _, file := range record.Files(cfg.Kind) {
		if info, err := sim.Lstat(cfg.Dir + "/" + file); err != nil || info.Size <= bindb.HeaderSize {
			t.Fatalf("%s is empty: %v", file, err)
		}
	}
	expect(t, r, "")
	closeRoot(t, r)
	return sim, cfg
}

// TestFindingsInContentAndPlans breaks one field at a time of the families that
// only other programs write.
func TestFindingsInContentAndPlans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file  string
		index int
		field string
		value uint64
		want  string
	}{
		{"task.bin", 0, "plan_item_index_plus1", 0, "T01 task.bin 0 plan_item_index_plus1"},
		{"task.bin", 0, "plan_item_index_plus1", 9, "T01 task.bin 0 plan_item_index_plus1"},
		{"task.bin", 0, "origin_plan_revision_index_plus1", 9, "T01 task.bin 0 origin_plan_revision_index_plus1"},
		{"plan.bin", 0, "latest_revision_index_plus1", 1, "L01 plan.bin 0 latest_revision_index_plus1"},
		{"plan.bin", 0, "latest_revision_index_plus1", 9, "L01 plan.bin 0 latest_revision_index_plus1"},
		{"plan.bin", 0, "latest_revision_index_plus1", 0, "L01 plan.bin 0 latest_revision_index_plus1"},
		{"plan.bin", 0, "published_plan_index_plus1", 9, "L01 plan.bin 0 published_plan_index_plus1"},
		{"plan.bin", 0, "published_latest_revision_index_plus1", 9, "L01 plan.bin 0 published_latest_revision_index_plus1"},
		{"plan.bin", 0, "payload_offset", 1 << 40, "F04 plan.bin 0 payload_offset"},
		{"plan_revision.bin", 0, "plan_index", 1, "L01 plan_revision.bin 0 plan_index"},
		{"plan_revision.bin", 0, "previous_revision_index_plus1", 2, "L01 plan_revision.bin 0 revision_number"},
		{"plan_revision.bin", 1, "revision_number", 3, "L01 plan_revision.bin 1 revision_number"},
		{"plan_revision.bin", 1, "previous_revision_index_plus1", 0, "L01 plan_revision.bin 1 revision_number"},
		{"plan_revision.bin", 1, "previous_revision_index_plus1", 9, "L01 plan_revision.bin 1 previous_revision_index_plus1"},
		{"plan_revision.bin", 1, "published_revision_index_plus1", 9, "L01 plan_revision.bin 1 published_revision_index_plus1"},
		{"plan_revision.bin", 1, "item_start_index", 2, "L02 plan_revision.bin 1 item_start_index"},
		{"plan_revision.bin", 1, "item_start_index", 0, "L02 plan_revision.bin 1 item_start_index"},
		{"plan_revision.bin", 1, "item_count", 2, "L02 plan_revision.bin 1 item_start_index"},
		{"plan_revision.bin", 1, "root_tree_pack_index_plus1", 9, "L02 plan_revision.bin 1 root_tree_pack_index_plus1"},
		{"plan_item.bin", 1, "payload_offset", 4, "F05 plan_item.bin 1 payload_offset"},
		{"plan_item.bin", 1, "payload_len", 7, "F07 plan_item.bin 1 payload_offset"},
		{"snapshot.bin", 2, "parent_snapshot_index_plus1", 2, "S01 snapshot.bin 2 parent_snapshot_index_plus1"},
		{"snapshot.bin", 2, "root_tree_pack_index_plus1", 2, "S01 snapshot.bin 2 root_tree_pack_index_plus1"},
		{"snapshot.bin", 2, "root_tree_pack_index_plus1", 0, "S01 snapshot.bin 2 root_tree_pack_index_plus1"},
		{"snapshot.bin", 2, "snapshot_hash48", 1 << 48, "S01 snapshot.bin 2 snapshot_hash48"},
		{"snapshot_parent_edge.bin", 0, "child_snapshot_index", 9, "S01 snapshot_parent_edge.bin 0 child_snapshot_index"},
		{"snapshot_parent_edge.bin", 0, "parent_snapshot_index", 9, "S01 snapshot_parent_edge.bin 0 parent_snapshot_index"},
		{"snapshot_parent_edge.bin", 0, "parent_snapshot_index", 2, "S01 snapshot_parent_edge.bin 0 parent_snapshot_index"},
		{"snapshot_parent_edge.bin", 0, "parent_snapshot_index", 1, "S01 snapshot.bin 2 parent_snapshot_index_plus1"},
		{"snapshot_parent_edge.bin", 1, "parent_ordinal", 2, "S01 snapshot_parent_edge.bin 1 parent_ordinal"},
		{"snapshot_parent_edge.bin", 1, "parent_ordinal", 1024, "S01 snapshot_parent_edge.bin 1 parent_ordinal"},
		{"snapshot_parent_edge.bin", 1, "flags", 1, "F06 snapshot_parent_edge.bin 1 flags"},
		{"blob.bin", 1, "blob_meta", 0, "S01 blob.bin 1 pack_member_index_plus1"},
		{"blob.bin", 1, "pack_member_index_plus1", 9, "S01 blob.bin 1 pack_member_index_plus1"},
		{"blob.bin", 1, "hash_kind", 1, "F06 blob.bin 1 hash_kind"},
		{"object_pack.bin", 0, "pack_format_kind", 0, "F06 object_pack.bin 0 pack_format_kind"},
		{"object_pack.bin", 0, "member_count", 3, "S01 object_pack.bin 0 first_member_index"},
		{"object_pack.bin", 0, "first_member_index", 1, "S01 object_pack.bin 0 first_member_index"},
		{"object_pack_member.bin", 1, "member_meta", 0, "F06 object_pack_member.bin 1 member_meta.compression"},
		{"object_pack_member.bin", 1, "pack_index", 1, "S01 object_pack_member.bin 1 pack_index"},
		{"object_pack_member.bin", 1, "blob_index", 2, "S01 object_pack_member.bin 1 blob_index"},
		{"object_pack_member.bin", 1, "base_blob_index_plus1", 3, "S01 object_pack_member.bin 1 base_blob_index_plus1"},
		{"tree_pack.bin", 0, "tree_count", 3, "S01 tree_pack.bin 0 first_tree_index"},
		{"tree_pack.bin", 0, "pack_meta", 8, "F06 tree_pack.bin 0 pack_meta"},
		{"tree.bin", 0, "entry_count", 1, "S01 tree_entry_range.bin 1 first_entry_index"},
		{"tree.bin", 1, "entry_count", 3, "S01 tree_entry_range.bin 1 first_entry_index"},
		{"tree.bin", 1, "reserved0", 1, "F06 tree.bin 1 reserved0"},
		{"tree_entry_range.bin", 1, "first_entry_index", 1, "S01 tree_entry_range.bin 1 first_entry_index"},
		{"tree_entry.bin", 0, "target_index", 2, "S01 tree_entry.bin 0 target_index"},
		{"tree_entry.bin", 1, "target_index", 2, "S01 tree_entry.bin 1 target_index"},
		{"tree_entry.bin", 1, "mode_bits", 1, "S01 tree_entry.bin 1 mode_bits"},
		{"tree_entry.bin", 1, "entry_meta", 2, "F06 tree_entry.bin 1 entry_meta.kind"},
		{"tree_entry.bin", 3, "name_offset", 13, "S01 tree_entry.bin 3 name_offset"},
		{"tree_entry.bin", 3, "name_len", 0, "S01 tree_entry.bin 3 name_len"},
		{"tree_entry.bin", 3, "name_len", 99, "F04 tree_entry.bin 3 name_offset"},
		{"line.bin", 0, "line_name_len", 0, "S01 line.bin 0 line_name_len"},
		{"line.bin", 0, "archived_at_s", 7, "S01 line.bin 0 archived_at_s"},
	} {
		t.Run(fmt.Sprintf("%s %d %s=%d", c.file, c.index, c.field, c.value), func(t *testing.T) {
			t.Parallel()
			_, cfg := fullRoot(t)
			off, width := fieldOf(t, c.file, c.field, c.index)
			patch(t, cfg, c.file, off, le(c.value, width))
			cfg.Runtime = "/elsewhere" // no mark, no checksums: the rules alone
			if _, err := bindb.Open(context.Background(), cfg); !errors.Is(err, bindb.ErrCorrupt) {
				t.Fatalf("the open gives %v", err)
			}
			in, err := bindb.Inspect(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			mustFind(t, in.Findings, c.want)
		})
	}
}

// mustFind fails the test unless the wanted finding is among those given.
func mustFind(t *testing.T, findings []bindb.Finding, want string) {
	t.Helper()
	for _, f := range findings {
		place := f.Check + " " + f.File
		if f.HasIndex {
			place += fmt.Sprintf(" %d %s", f.Index, f.Field)
		}
		if place == want {
			return
		}
	}
	t.Errorf("no finding %s among %v", want, findings)
}

// registryRoot is a closed registry with five Repositories.
func registryRoot(t testing.TB) (*vfs.Sim, bindb.Config) {
	t.Helper()
	sim := vfs.NewSim()
	cfg := bindb.Config{FS: sim, Dir: "/registry", Kind: record.RootRegistry, Label: "registry", Runtime: "/runtime", Identity: [32]byte{3}}
	err := bindb.CreateWith(context.Background(), cfg, write(func(w *writer) {
		for i, name := range append(record.ReservedRepositories[:], "mine") {
			off, n := w.text(bindb.RepositoryPayload, &record.RepositoryPayload{Name: name})
			rec := record.Repository{Lifecycle: record.LifecycleActive, PayloadLen: uint32(n), PayloadOffset: off, CreatedAt: 7, UpdatedAt: 9}
			if i == 4 {
				rec.Namespace = record.Namespace{'M', 'E'}
			}
			appendTo(w, bindb.Repositories, rec)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	return sim, cfg
}

// TestFindingsInRegistryFields breaks one field of a registry at a time.
func TestFindingsInRegistryFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		index int
		field string
		value uint64
		want  string
	}{
		{4, "repository_meta", 1, "G05 repository.bin 4 repository_meta"},
		{1, "repository_meta", 0x80, "G08 repository.bin 1 repository_meta"},
		{4, "lifecycle_kind", 0, "G09 repository.bin 4 lifecycle_kind"},
		{4, "lifecycle_kind", 4, "G09 repository.bin 4 lifecycle_kind"},
		{4, "namespace_ascii", '!', "G10 repository.bin 4 namespace_ascii"},
		{3, "namespace_ascii", 'M' | 'E'<<8, "G11 repository.bin 4 namespace_ascii"},
		{4, "payload_len", 2, "G12 repository.bin 4 payload_len"},
		{4, "payload_len", 5, "G12 repository.bin 4 payload_offset"},
		{4, "payload_offset", 3, "G12 repository.bin 4 payload_offset"},
		{4, "payload_offset", 1 << 50, "G12 repository.bin 4 payload_offset"},
		{0, "payload_offset", 14, "G07 repository.bin 0 payload_offset"},
		{4, "payload_offset", 4, "G13 repository.bin 4 payload_offset"},
		{4, "created_at_s", 0, "G14 repository.bin 4 created_at_s"},
		{4, "updated_at_s", 6, "G14 repository.bin 4 updated_at_s"},
	} {
		t.Run(fmt.Sprintf("%d %s=%d", c.index, c.field, c.value), func(t *testing.T) {
			t.Parallel()
			_, cfg := registryRoot(t)
			off, width := fieldOf(t, "repository.bin", c.field, c.index)
			if c.field == "payload_offset" && (c.value == 14 || c.value == 4) {
				// The lengths have to fit, so that only the place is wrong.
				lenOff, n := fieldOf(t, "repository.bin", "payload_len", c.index)
				patch(t, cfg, "repository.bin", lenOff, le(10+uint64(2*(c.value/14)), n))
			}
			patch(t, cfg, "repository.bin", off, le(c.value, width))
			cfg.Runtime = "/elsewhere"
			in, err := bindb.Inspect(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			mustFind(t, in.Findings, c.want)
		})
	}
}

// The rules about whole files have names of their own in each kind of root.
func TestFindingsAboutFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		registry bool
		harm     func(sim *vfs.Sim, dir string) error
		want     string
	}{
		"a file is missing":        {false, func(sim *vfs.Sim, dir string) error { return sim.Remove(dir + "/task.bin") }, "F01 task.bin"},
		"a layout is unknown":      {false, overwriteStart("task.bin", []byte{2}), "F01 task.bin"},
		"a file is shorter":        {false, cut("task.bin", 3), "F01 task.bin"},
		"a file is undeclared":     {false, func(sim *vfs.Sim, dir string) error { return writeFile(sim, dir+"/x.bin", []byte{1, 0, 0, 0}) }, "F02 x.bin"},
		"a part of a record":       {false, cut("task.bin", 30), "F03 task.bin"},
		"of the registry, missing": {true, func(sim *vfs.Sim, dir string) error { return sim.Remove(dir + "/repository_payload.bin") }, "G02 repository_payload.bin"},
		"of the registry, foreign": {true, func(sim *vfs.Sim, dir string) error { return writeFile(sim, dir+"/worker_job.bin", []byte{1, 0, 0, 0}) }, "G02 worker_job.bin"},
		"of the registry, linked":  {true, func(sim *vfs.Sim, dir string) error { return sim.Link(dir+"/repository.bin", "/other") }, "G02 repository.bin"},
		"of the registry, layout":  {true, overwriteStart("repository_payload.bin", []byte{0}), "G03 repository_payload.bin"},
		"of the registry, a part":  {true, cut("repository.bin", 100), "G04 repository.bin"},
		"of the registry, too few": {true, cut("repository.bin", 4+3*33), "G06 repository.bin"},
		"a journal not understood": {false, func(sim *vfs.Sim, dir string) error {
			return writeFile(sim, dir+"/global.write.journal", []byte("x\n"))
		}, "OPEN "},
		"and the journal is named": {false, func(sim *vfs.Sim, dir string) error {
			return writeFile(sim, dir+"/global.write.journal", []byte("x\n"))
		}, "F02 global.write.journal"},
		"a directory in its place": {false, func(sim *vfs.Sim, dir string) error {
			return errors.Join(sim.Remove(dir+"/land.bin"), sim.Mkdir(dir+"/land.bin", 0o700))
		}, "F01 land.bin"},
		"an index that is a device": {false, func(sim *vfs.Sim, dir string) error { return sim.Symlink("/dev/null", dir+"/worker_ready.idx") }, "F01 worker_ready.idx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make := fullRoot
			if c.registry {
				make = registryRoot
			}
			sim, cfg := make(t)
			if err := c.harm(sim, cfg.Dir); err != nil {
				t.Fatal(err)
			}
			for _, runtime := range []string{cfg.Runtime, "/elsewhere"} {
				cfg.Runtime = runtime
				in, err := bindb.Inspect(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				mustFind(t, in.Findings, c.want)
			}
		})
	}
}

func overwriteStart(file string, b []byte) func(*vfs.Sim, string) error {
	return func(sim *vfs.Sim, dir string) error {
		f, err := sim.OpenFile(dir+"/"+file, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, 0)
		return errors.Join(err, f.Close())
	}
}

func cut(file string, length int64) func(*vfs.Sim, string) error {
	return func(sim *vfs.Sim, dir string) error {
		return resize(sim, dir+"/"+file, func(int64) int64 { return length })
	}
}

// More records than references can name are refused before one is read.
func TestFindingsOfCapacity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind       record.Root
		file, want string
		size       int64
	}{
		{record.RootAuthority, "worker_job.bin", "J07", record.WorkerJobSize},
		{record.RootRegistry, "repository.bin", "G15", record.RepositorySize},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			cfg := diskConfig(t)
			cfg.Kind = c.kind
			create(t, cfg)
			// Sparse, so that it takes no room.
			if err := os.Truncate(cfg.Dir+"/"+c.file, bindb.HeaderSize+c.size*(bindb.MaxTargets+1)); err != nil {
				t.Skipf("the file system has no room for a sparse file: %v", err)
			}
			in, err := bindb.Inspect(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			mustFind(t, in.Findings, c.want+" "+c.file)
			if text := fmt.Sprint(in.Findings); !strings.Contains(text, "4294967295 records") {
				t.Errorf("the findings say %s", text)
			}
		})
	}
}
