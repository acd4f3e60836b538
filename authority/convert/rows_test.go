package convert_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/authority/convert"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// records decodes a family of Repository 5 in the target.
func records[T any, P record.Codec[T]](t testing.TB, fsys vfs.FS) []T {
	t.Helper()
	var rec T
	l := P(&rec).Layout()
	b := read(t, fsys, generation("/data")+"/repositories/5/"+l.File)[bindb.HeaderSize:]
	var list []T
	for ; len(b) > 0; b = b[l.Size:] {
		if err := P(&rec).Decode(b[:l.Size]); err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

// TestTheTenProjections converts each of the ten tuples and what each of them
// becomes with the message of another one.
func TestTheTenProjections(t *testing.T) {
	t.Parallel()
	checks := func(suites []string, message string) []any {
		list := []any{map[string]any{"name": "ci_rollout_phase", "status": "soft_fail", "message": message}}
		for _, s := range slices.Backward(suites) {
			list = append(list, map[string]any{"name": "ci_patchset_suite_" + s, "status": "pass"})
		}
		return list
	}
	tuples := record.Tuples()
	if len(tuples) != 10 {
		t.Fatalf("%d tuples", len(tuples))
	}
	for i, tuple := range tuples {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			r := newRows(t)
			r.set("policy_decisions[0].checks", checks(tuple.Catalog, tuple.Message))
			sim, _, err := r.convert(nil)
			if err != nil {
				t.Fatal(err)
			}
			rows := records[record.PolicyCheck](t, sim)[1:] // behind the one of decision 0
			if len(rows) != 1+len(tuple.Catalog) {
				t.Fatalf("%d rows", len(rows))
			}
			if p := rows[0]; p != (record.PolicyCheck{Kind: record.CheckKindCIRolloutPhase, Status: record.CheckStatusSoftFail}) {
				t.Errorf("phase %+v", p)
			}
			for j, row := range rows[1:] {
				at := len(tuple.Catalog) - j // counted from 1, in the order of the source
				suite := tuple.Catalog[at-1]
				blocking, informing := slices.Contains(tuple.Blocking, suite), slices.Contains(tuple.Informational, suite)
				if int(row.Subject) != at || row.Detail.Blocking() != blocking || row.Detail.Informational() != informing || blocking == informing {
					t.Errorf("%s is %+v", suite, row)
				}
			}
			for k, other := range tuples {
				if slices.Equal(other.Catalog, tuple.Catalog) {
					continue
				}
				r := newRows(t)
				r.set("policy_decisions[0].checks", checks(tuple.Catalog, other.Message))
				if _, _, err := r.convert(nil); err == nil || !strings.Contains(err.Error(), "none of the ten known projections") {
					t.Errorf("with the message of %d: error %v", k+1, err)
				}
				break
			}
		})
	}
}

// TestReviewActions converts each of the eleven spellings, blocking or not.
func TestReviewActions(t *testing.T) {
	t.Parallel()
	want := map[string]uint8{
		"request": 0x00, "comment": 0x01, "task_comment": 0x11, "code_review_summary": 0x21, "approve": 0x02, "task_approve": 0x12,
		"request_changes": 0x03, "task_request_changes": 0x13, "defer": 0x41, "task_defer": 0x51, "dismiss": 0x04,
	}
	r := newRows(t)
	var list []any
	var metas []uint8
	for name, meta := range want {
		for _, blocking := range []bool{false, true} {
			row := map[string]any{
				"review_id": fmt.Sprintf("R-%02d", len(list)+1), "patchset_id": "RT-0002/C-01/P-02", "action": name, "blocking": blocking,
				"reviewer": "ann",
			}
			if name == "request" {
				row["requested_groups"] = []any{"ann"}
			}
			if blocking {
				meta |= 0x08
			}
			list, metas = append(list, row), append(metas, meta)
		}
	}
	r.set("reviews", list)
	sim, _, err := r.convert(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, rec := range records[record.Review](t, sim) {
		if uint8(rec.Meta) != metas[i] || rec.CreatedAt != 0 || int(rec.Ordinal) != i {
			t.Errorf("review %d: %+v, want meta %#02x", i, rec, metas[i])
		}
	}
	// One Actor a kind, without times, since the source has none.
	actors := records[record.Actor](t, sim)
	if len(actors) != 2 || actors[0].Meta.Kind() == actors[1].Meta.Kind() || actors[0].KeyHash != actors[1].KeyHash ||
		actors[0].CreatedAt|actors[0].LastSeenAt|actors[1].CreatedAt|actors[1].LastSeenAt != 0 {
		t.Errorf("actors %+v", actors)
	}
}

// TestAcceptedVariants converts rows that differ from the usual in one place.
func TestAcceptedVariants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path  string
		value any
		check func(t *testing.T, fsys vfs.FS)
	}{
		{"tasks[0].task_id", "T-0002", nil}, // as Writ writes it
		{"tasks[1].closed_at", nil, func(t *testing.T, fsys vfs.FS) {
			if task := records[record.Task](t, fsys)[0]; !task.Meta.Completed() || task.ClosedAt != 0 {
				t.Errorf("task %+v", task)
			}
		}},
		{"changes[0].status", "draft", func(t *testing.T, fsys vfs.FS) {
			if c := records[record.Change](t, fsys)[2]; c.Meta.Lifecycle() != record.ChangeLifecycleDraft || !c.Meta.HasPatchsets() {
				t.Errorf("change %+v", c)
			}
		}},
		{"changes[1].status", "abandoned", func(t *testing.T, fsys vfs.FS) {
			if c := records[record.Change](t, fsys)[0]; c.Meta.Lifecycle() != record.ChangeLifecycleLanded || c.State != 0 {
				t.Errorf("change %+v", c)
			}
		}},
		{"changes[1].status", "landed", nil},
		{"changes[1].current_patchset_number", 1, nil},
		{"patchsets[0].diff_stats", nil, nil},
		{"patchsets[0].diff_stats.paths", nil, nil},
		{"patchsets[0].evaluation_state", "pending", func(t *testing.T, fsys vfs.FS) {
			if p := records[record.Patchset](t, fsys)[2]; !p.Meta.EvaluationPending() {
				t.Errorf("patchset %+v", p)
			}
		}},
		{"patchsets[1].author_mode", "codex", func(t *testing.T, fsys vfs.FS) {
			if p := records[record.Patchset](t, fsys)[1]; p.Meta.AuthorMode() != record.AuthorModeCodex {
				t.Errorf("patchset %+v", p)
			}
		}},
		{"lands[0].updated_at", "2026-02-01T00:03:00.999Z", nil}, // the fraction is dropped
		{"/repositories[4].policy.class_overrides", nil, nil},
		{"/repositories[4].policy.defaults", nil, nil},
		{"/repositories[5].lifecycle", "retiring", nil},
		{"/jobs[0].result", nil, nil},
		{"/jobs[0].state", "queued", nil}, // no later run has succeeded
	} {
		t.Run(strings.ReplaceAll(fmt.Sprintf("%s=%.20v", c.path, c.value), "/", "_"), func(t *testing.T) {
			t.Parallel()
			r := newRows(t)
			r.set(c.path, c.value)
			if c.path == "/jobs[0].state" {
				r.set("/jobs[0].result", nil)
			}
			sim, _, err := r.convert(nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.check != nil {
				c.check(t, sim)
			}
			if c.path == "/jobs[0].state" {
				if j := records[record.WorkerJob](t, sim)[0]; j.Outcome != record.JobOutcomeSkipped {
					t.Errorf("job %+v", j)
				}
			}
		})
	}
}

// TestPathsOfADifference turns a directory into a file.
func TestPathsOfADifference(t *testing.T) {
	t.Parallel()
	r := newRows(t)
	r.set("patchsets[0].revision_snapshot_id", "SNP-000000000007")
	r.set("patchsets[0].diff_stats", map[string]any{
		"files_added": 1, "files_deleted": 1, "files_modified": 0, "files_changed": 2,
		"paths": map[string]any{"added": []any{"sub"}, "deleted": []any{"sub/old.txt"}, "modified": []any{}},
	})
	if _, _, err := r.convert(nil); err != nil {
		t.Error(err)
	}
	// The same Snapshot differs from itself in nothing.
	r.set("patchsets[0].revision_snapshot_id", "SNP-000000000001")
	r.set("patchsets[0].diff_stats", map[string]any{"files_added": 0, "files_deleted": 0, "files_modified": 0, "files_changed": 0})
	if _, _, err := r.convert(nil); err != nil {
		t.Error(err)
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	t.Run("canceled-tasks", func(t *testing.T) {
		t.Parallel()
		r := newRows(t)
		r.set("tasks[2].status", "canceled")
		sim, rep, err := r.convert(func(o *convert.Options) { o.Gates = []convert.Gate{convert.GateCanceledTasks} })
		if err != nil {
			t.Fatal(err)
		}
		if task := records[record.Task](t, sim)[2]; !task.Meta.Canceled() {
			t.Errorf("task %+v", task)
		}
		if want := []convert.GateUse{{Gate: "canceled-tasks", Repository: 5, Identity: "T-0003"}}; !slices.Equal(rep.Gates, want) {
			t.Errorf("gates %+v", rep.Gates)
		}
	})
	// The Tasks 1 and 2 become 1981 and 1982, so that their Patchsets are those of
	// the list.
	late := func(t *testing.T) *rows {
		r := newRows(t)
		r.renumber(map[string]string{"RT-0001": "RT-1981", "RT-0002": "RT-1982", "RT-0003": "RT-1983"})
		for i, seq := range []int{1982, 1981, 1983} {
			r.set(fmt.Sprintf("tasks[%d].task_seq", i), seq)
		}
		return r
	}
	t.Run("renumbered-tasks", func(t *testing.T) {
		t.Parallel()
		r := late(t)
		if _, _, err := r.convert(nil); err == nil || !strings.Contains(err.Error(), "tasks[1].task_seq is 1981, want 1: there is a gap, and T-1981 would become T-0001 (the gate renumbered-tasks allows it)") {
			t.Errorf("error %v", err)
		}
		sim, rep, err := r.convert(func(o *convert.Options) { o.Gates = []convert.Gate{convert.GateRenumberedTasks} })
		if err != nil {
			t.Fatal(err)
		}
		var used []string
		for _, g := range rep.Gates {
			used = append(used, g.Gate+" "+g.Identity)
		}
		if want := []string{"renumbered-tasks T-1981", "renumbered-tasks T-1982", "renumbered-tasks T-1983"}; !slices.Equal(used, want) {
			t.Errorf("gates %q, want %q", used, want)
		}
		same, _, err := newRows(t).convert(nil)
		if err != nil {
			t.Fatal(err)
		}
		if dumpAll(t, sim, generation("/data")) != dumpAll(t, same, generation("/data")) {
			t.Error("the records differ from those without a gap")
		}
	})
	t.Run("zero-diff-stats", func(t *testing.T) {
		t.Parallel()
		both := func(o *convert.Options) {
			o.Gates = []convert.Gate{convert.GateRenumberedTasks, convert.GateZeroDiffStats}
		}
		zero := map[string]any{"files_added": 0, "files_deleted": 0, "files_modified": 0, "files_changed": 0}
		r := late(t)
		r.set("patchsets[0].diff_stats", zero) // RT-1982/C-01/P-02
		_, rep, err := r.convert(both)
		if err != nil {
			t.Fatal(err)
		}
		if want := (convert.GateUse{Gate: "zero-diff-stats", Repository: 5, Identity: "T-1982/C-01/P-02"}); !slices.Contains(rep.Gates, want) {
			t.Errorf("gates %+v", rep.Gates)
		}
		const says = "patchsets[0].diff_stats is all zero, but 4 files differ (the gate zero-diff-stats allows it for this Patchset)"
		if _, _, err := r.convert(func(o *convert.Options) { o.Gates = []convert.Gate{convert.GateRenumberedTasks} }); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
		// The gate is for these four Patchsets and for zeros only.
		r.set("patchsets[0].diff_stats", map[string]any{"files_added": 0, "files_deleted": 0, "files_modified": 1, "files_changed": 1})
		if _, _, err := r.convert(both); err == nil || !strings.Contains(err.Error(), "but the Trees give 1, 1, 2, 4") {
			t.Errorf("error %v", err)
		}
		r = late(t)
		r.set("patchsets[2].diff_stats", zero) // RT-1981/C-01/P-01
		if _, _, err := r.convert(both); err == nil || !strings.Contains(err.Error(), "patchsets[2].diff_stats has 0 added") {
			t.Errorf("error %v", err)
		}
	})
}

func TestSalvage(t *testing.T) {
	t.Parallel()
	salvage := func(o *convert.Options) { o.Salvage = true }
	r := newRows(t)
	r.set("patchsets[1].revision_snapshot_id", "SNP-00000000000F") // RT-0002/C-01/P-01
	r.set("lands[3]", map[string]any{"submission_id": "L-01", "patchset_id": "RT-0002/C-01/P-02", "target_line": "main", "mode": "direct", "status": "blocked"})
	sim, rep, err := r.convert(salvage)
	if err != nil {
		t.Fatal(err)
	}
	var omitted []string
	for _, o := range rep.Omitted {
		omitted = append(omitted, o.Identity)
	}
	want := []string{
		"T-0002/C-01", "T-0002/C-01/P-02", "T-0002/C-01/P-01", "T-0002/C-01/L-01",
		"T-0002/C-01/P-02/K-02", "T-0002/C-01/P-02/K-01",
		"T-0002/C-01/P-02/R-05", "T-0002/C-01/P-02/R-02", "T-0002/C-01/P-01/R-01", "T-0002/C-01/P-01/R-03", "T-0002/C-01/P-01/R-04",
		"w2", "one", "two", "job 40", "job 90",
	}
	if !slices.Equal(omitted, want) {
		t.Errorf("omitted %q\nwant %q", omitted, want)
	}
	changes := records[record.Change](t, sim)
	if len(changes) != 9 || changes[2].Ordinal != 1 { // the other Change of its Task keeps its number
		t.Errorf("changes %+v", changes)
	}
	if p, j := records[record.Patchset](t, sim), records[record.WorkerJob](t, sim); len(p) != 1 || len(j) != 7 {
		t.Errorf("%d patchsets, %d jobs", len(p), len(j))
	}
	// Nothing else is left out: not for a lost base, and not for a tombstone.
	for path, value := range map[string]string{
		"patchsets[1].base_snapshot_id":     "SNP-00000000000F",
		"patchsets[1].revision_snapshot_id": "SNP-000000000004",
		"lands[0].landed_snapshot_id":       "SNP-00000000000F",
	} {
		r := newRows(t)
		r.set(path, value)
		if _, _, err := r.convert(salvage); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	r = newRows(t)
	r.set("patchsets[1].revision_snapshot_id", "SNP-00000000000F")
	r.set("patchsets[1].patchset_id", "RT-0002/C-09/P-01")
	r.set("patchsets[1].change_id", nil)
	if _, _, err := r.convert(salvage); err == nil || !strings.Contains(err.Error(), "patchsets[1].patchset_id is T-0002/C-09/P-01, whose Change no row of changes has") {
		t.Errorf("error %v", err)
	}
	sound, rep, err := newRows(t).convert(salvage)
	if err != nil || len(rep.Omitted) != 0 || len(records[record.Patchset](t, sound)) != 3 {
		t.Errorf("a sound source: %v, omitted %+v", err, rep.Omitted)
	}
}

func TestRepositoryOrder(t *testing.T) {
	t.Parallel()
	const schema = "ait.server.postgres_to_binary_v0.repository_order.v1"
	reserved := []any{"r-core", "r-server", "r-python", "r-node"}
	order := func(schema string, ids ...any) map[string]any {
		return map[string]any{"schema": schema, "repo_ids": append(slices.Clone(reserved), ids...)}
	}
	for _, c := range []struct {
		name string
		doc  any
		says string
	}{
		{"complete", order(schema, "b-widgets", "a-gadgets"), ""},
		{"other schema", order("other", "b-widgets", "a-gadgets"), "order.json has the schema \"other\""},
		{"missing", order(schema, "b-widgets"), "repositories[5].repo_id is \"a-gadgets\", which order.json does not order"},
		{"twice", order(schema, "b-widgets", "b-widgets"), "order.json repo_ids[5] is \"b-widgets\", which repo_ids[4] is too"},
		{"unknown", order(schema, "b-widgets", "c"), "order.json repo_ids[5] is \"c\", which no row"},
		{"reserved elsewhere", map[string]any{"schema": schema, "repo_ids": []any{"r-server", "r-core", "r-python", "r-node", "b-widgets", "a-gadgets"}}, "whose name ait-core has the fixed index 0"},
		{"unknown member", map[string]any{"schema": schema, "repo_ids": reserved, "more": 1}, "order.json: more is unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRows(t)
			r.docs["repositories/4.json"], r.docs["repositories/5.json"] = r.docs["repositories/5.json"], r.docs["repositories/4.json"]
			r.content["repositories/4"] = r.content["repositories/5"]
			delete(r.content, "repositories/5")
			r.docs["../order.json"] = c.doc
			sim, rep, err := r.convert(func(o *convert.Options) { o.Order = "/order.json" })
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if rep.Repositories[4].Name != "widgets" || rep.Repositories[5].Name != "gadgets ☂" {
				t.Errorf("repositories %+v", rep.Repositories)
			}
			if tasks := records[record.Task](t, sim); len(tasks) != 1 {
				t.Errorf("%d tasks of repository 5", len(tasks))
			}
		})
	}
}

// TestDryRunOfRows keeps nothing that a conversion could be confused by.
func TestDryRunOfRows(t *testing.T) {
	t.Parallel()
	sim, rep, err := newRows(t).convert(func(o *convert.Options) { o.DryRun = true })
	if err != nil {
		t.Fatal(err)
	}
	if !rep.DryRun || rep.Target != "" || rep.Generation != 0 || len(rep.Repositories) != 6 {
		t.Errorf("report %+v", rep)
	}
	if list, err := sim.ReadDir("/data/generations"); err != nil || len(list) != 0 {
		t.Errorf("left in generations: %v, %v", list, err)
	}
	if there, err := vfs.Exists(sim, "/data/active.json"); err != nil || there {
		t.Errorf("active.json is there: %v, %v", there, err)
	}
}

// TestOrderOfRowsDoesNotMatter shuffles every array whose rows have numbers of
// their own. The result is the same in every byte.
func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("testdata", "rows.golden"))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		r := newRows(t)
		for path, arrays := range map[string][]string{
			"repositories/5.json": {"tasks", "changes", "patchsets", "attestations", "reviews", "policy_decisions", "waivers", "lands"},
			"operational.json":    {"repositories", "jobs"},
		} {
			doc := r.docs[path].(map[string]any)
			for _, name := range arrays {
				doc[name] = rapid.Permutation(doc[name].([]any)).Draw(rt, name)
			}
		}
		sim, _, err := r.convert(nil)
		if err != nil {
			rt.Fatal(err)
		}
		if dumpAll(t, sim, generation("/data")) != string(want) {
			rt.Error("the records differ from testdata/rows.golden")
		}
	})
}

// TestDriftOfRows changes documents and content while they are converted.
func TestDriftOfRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path string // the file that changes just before it is opened
		at         int    // for this time
	}{
		{"operational tables before the first pass", "/source/operational.json", 2},
		{"operational tables before the second pass", "/source/operational.json", 3},
		{"document before it is decoded", "/source/repositories/5.json", 2},
		{"document before the second pass", "/source/repositories/0.json", 3},
		{"content", "/source/repositories/5/snapshot.bin", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sim := vfs.NewSim()
			newRows(t).write(sim, "/source")
			d := &drifting{FS: sim, path: c.path, at: c.at, opened: make(chan int, 1), do: func() {
				b := read(t, sim, c.path)
				b[len(b)-1] ^= 0x10
				write(t, sim, c.path, b)
			}}
			d.opened <- 0
			o := convert.Options{From: convert.FromLegacyRows, Source: "/source", FS: d}
			_, err := convert.Convert(t.Context(), o, target(sim))
			if !errors.Is(err, convert.ErrDrift) || !strings.Contains(err.Error(), strings.TrimPrefix(c.path, "/source/")) {
				t.Errorf("error %v, want a drift of %s", err, c.path)
			}
			if there, err := vfs.Exists(sim, "/data/active.json"); err != nil || there {
				t.Errorf("active.json is there: %v, %v", there, err)
			}
		})
	}
}

// TestProgress hears of both passes.
func TestProgress(t *testing.T) {
	t.Parallel()
	var most, of atomic.Int64
	_, rep, err := newRows(t).convert(func(o *convert.Options) {
		o.Progress = func(read, all int64) {
			of.Store(all)
			for m := most.Load(); read > m && !most.CompareAndSwap(m, read); m = most.Load() {
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * rep.Inventory.Bytes; most.Load() != want || of.Load() != want {
		t.Errorf("read %d of %d bytes, want %d", most.Load(), of.Load(), want)
	}
}

// TestFailureToReadRefusesNothing lets content of the target fail to be read back,
// which says nothing about the rows.
func TestFailureToReadRefusesNothing(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"tree_entry.bin", "line.bin", "snapshot.bin", "plan_item.bin", "blob.bin"} {
		sim := vfs.NewSim()
		newRows(t).write(sim, "/source")
		sim.Fail(func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && strings.HasPrefix(op.Path, "/data/") && filepath.Base(op.Path) == file {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		_, err := convert.Convert(t.Context(), convert.Options{From: convert.FromLegacyRows, Source: "/source", FS: sim}, target(sim))
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, convert.ErrSource) {
			t.Errorf("%s: error %v", file, err)
		}
	}
}
