package bindb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// soundRoot is a closed root in which most families have records: two Tasks with
// everything a gate leaves, the second one not landed.
func soundRoot(t *testing.T) (*vfs.Sim, bindb.Config) {
	t.Helper()
	sim, cfg := simConfig(t)
	create(t, cfg)
	r := open(t, cfg)
	update(t, r, seed)
	update(t, r, func(w *writer) {
		team := w.actor("reviewers")
		change(w, bindb.Actors, team, func(a *record.Actor) { a.Meta.SetKind(record.ActorKindTeam) })
	})
	var task uint32
	for _, step := range story(&task) {
		update(t, r, step)
	}
	second := story(&task)
	for _, step := range second[:len(second)-1] {
		update(t, r, step)
	}
	update(t, r, func(w *writer) { w.review(1, 1, record.ReviewActionRequest) })
	closeRoot(t, r)
	return sim, cfg
}

// le is an integer in n little-endian bytes.
func le(v uint64, n int) []byte { return binary.LittleEndian.AppendUint64(nil, v)[:n] }

// fieldOf finds a field of a record on disk.
func fieldOf(t testing.TB, file, field string, index int) (off int64, width int) {
	t.Helper()
	l, ok := record.ByFile(file)
	if !ok {
		t.Fatalf("no family %s", file)
	}
	for _, f := range l.Fields {
		if f.Name == field {
			return int64(bindb.HeaderSize + index*l.Size + f.Offset), f.Width
		}
	}
	t.Fatalf("%s has no field %s", file, field)
	return 0, 0
}

// TestFindings breaks one field of a sound root at a time.
func TestFindings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file  string
		index int
		field string
		value uint64
		want  string // check, file, record and field of the finding that must be among the others
	}{
		{"task.bin", 0, "remote_meta", 0x80, "F06 task.bin 0 remote_meta"},
		{"task.bin", 0, "payload_len", 2, "F07 task.bin 0 payload_len"},
		{"task.bin", 0, "payload_offset", 1 << 60, "F04 task.bin 0 payload_offset"},
		{"task.bin", 1, "payload_offset", 4, "F05 task.bin 1 payload_offset"},
		{"task.bin", 0, "payload_offset", 5, "F07 task.bin 0 payload_offset"},
		{"task.bin", 0, "plan_item_index_plus1", 1, "T01 task.bin 0 plan_item_index_plus1"},
		{"task.bin", 0, "task_meta", 0xc0, "T02 task.bin 0 task_meta"},
		{"change.bin", 1, "task_index", 9, "T03 change.bin 1 task_index"},
		{"change.bin", 1, "task_index", 0xffffffff, "T03 change.bin 1 task_index"},
		{"change.bin", 1, "base_line_index_plus1", 9, "T03 change.bin 1 base_line_index_plus1"},
		{"change.bin", 1, "fork_snapshot_index_plus1", 99, "T03 change.bin 1 fork_snapshot_index_plus1"},
		{"change.bin", 1, "archived_at_s", 99, "T04 change.bin 1 archived_at_s"},
		{"change.bin", 1, "selected_patchset_index_plus1", 1, "T05 change.bin 1 selected_patchset_index_plus1"},
		{"change.bin", 1, "selected_patchset_index_plus1", 7, "T05 change.bin 1 selected_patchset_index_plus1"},
		{"change.bin", 1, "change_meta", 0, "T05 change.bin 1 change_meta.has_patchsets"},
		{"change.bin", 1, "change_meta", 0x06, "T06 change.bin 1 change_meta.lifecycle"},
		{"change.bin", 1, "change_ordinal", 1, "C02 task_change_index.bin 1 next_change_ordinal"},
		{"change.bin", 1, "change_ordinal", 64, "C03 change.bin 1 change_ordinal"},
		{"patchset.bin", 1, "change_index", 7, "P01 patchset.bin 1 change_index"},
		{"patchset.bin", 1, "change_ordinal", 7, "P01 patchset.bin 1 change_ordinal"},
		{"patchset.bin", 1, "base_snapshot_index", 77, "P02 patchset.bin 1 base_snapshot_index"},
		{"patchset.bin", 1, "revision_snapshot_index", 0xffffffff, "P02 patchset.bin 1 revision_snapshot_index"},
		{"patchset.bin", 1, "summary_len", 0xffff, "P03 patchset.bin 1 summary_offset"},
		{"patchset.bin", 1, "summary_offset", 4, "F05 patchset.bin 1 summary_offset"},
		{"patchset.bin", 1, "ci_completed_at_s", 0, "P04 patchset.bin 1 ci_selected_suite_count"},
		{"patchset.bin", 1, "ci_suite_result_count", 9, "P05 patchset.bin 1 ci_suite_result_count"},
		{"patchset.bin", 1, "ci_worker_job_index_plus1", 1, "P06 patchset.bin 1 ci_worker_job_index_plus1"},
		{"patchset.bin", 1, "ci_worker_job_index_plus1", 9, "P06 patchset.bin 1 ci_worker_job_index_plus1"},
		{"patchset.bin", 1, "created_at_s", 0, "P08 patchset.bin 1 created_at_s"},
		{"patchset.bin", 1, "previous_task_patchset_index_plus1", 1, "C02 patchset.bin 1 "},
		{"patchset.bin", 1, "previous_change_patchset_index_plus1", 9, "C02 patchset.bin 1 previous_change_patchset_index_plus1"},
		{"patchset.bin", 1, "patchset_meta", 1, "T05 change.bin 1 selected_patchset_index_plus1"},
		{"attest.bin", 1, "patchset_index", 9, "A01 attest.bin 1 patchset_index"},
		{"attest.bin", 1, "patch_ordinal", 9, "A01 attest.bin 1 patch_ordinal"},
		{"attest.bin", 1, "attest_ordinal", 9, "C02 task_attest_index.bin 1 next_attest_ordinal"},
		{"actor.bin", 0, "actor_meta", 0, "U01 actor.bin 0 actor_meta"},
		{"actor.bin", 0, "actor_meta", 0x0e, "F06 actor.bin 0 actor_meta.kind"},
		{"actor.bin", 0, "actor_key_hash", 9, "U02 actor.bin 0 actor_key_hash"},
		{"actor.bin", 0, "last_seen_at_s", 1, "U03 actor.bin 0 last_seen_at_s"},
		{"actor.bin", 0, "actor_meta", 0x90, "R02 review.bin 0 actor_index_plus1"},
		{"review.bin", 1, "review_meta", 0x05, "F06 review.bin 1 review_meta.base"},
		{"review.bin", 1, "review_meta", 0x31, "R01 review.bin 1 review_meta"},
		{"review.bin", 1, "review_meta", 0x00, "R03 review.bin 1 actor_index_plus1"},
		{"review.bin", 1, "patchset_index", 5, "R02 review.bin 1 patchset_index"},
		{"review.bin", 1, "actor_index_plus1", 5, "R02 review.bin 1 actor_index_plus1"},
		{"review.bin", 1, "actor_index_plus1", 0, "R02 review.bin 1 actor_index_plus1"},
		{"policy.bin", 1, "patchset_index", 9, "K01 policy.bin 1 patchset_index"},
		{"policy.bin", 1, "change_ordinal", 9, "K01 policy.bin 1 change_ordinal"},
		{"policy.bin", 1, "policy_meta", 5, "F06 policy.bin 1 policy_meta.decision"},
		{"policy.bin", 1, "policy_meta", 0, "P07 patchset.bin 1 patchset_meta.evaluation_pending"},
		{"policy.bin", 1, "policy_meta", 0x81, "P07 patchset.bin 1 patchset_meta.evaluation_pending"},
		{"policy.bin", 1, "first_check_index_plus1", 5, "K02 policy.bin 1 first_check_index_plus1"},
		{"policy.bin", 1, "check_count", 99, "K02 policy.bin 1 first_check_index_plus1"},
		{"policy.bin", 0, "check_count", 4, "K02 policy.bin 1 first_check_index_plus1"},
		{"policy_check.bin", 0, "check_kind", 3, "K03 policy_check.bin 1 check_kind"},
		{"policy_check.bin", 0, "check_kind", 10, "F06 policy_check.bin 0 check_kind"},
		{"policy_check.bin", 2, "check_kind", 4, "K03 policy.bin 0 check_count"},
		{"policy_check.bin", 3, "subject_ordinal", 2, "K03 policy.bin 0 check_count"},
		{"policy_check.bin", 3, "detail_flags", 3, "K03 policy_check.bin 3 detail_flags"},
		{"waiver.bin", 1, "patchset_index", 9, "W01 waiver.bin 1 patchset_index"},
		{"waiver.bin", 1, "rule_code", 0, "W01 waiver.bin 1 rule_code"},
		{"waiver.bin", 1, "expires_at_s", 3, "W01 waiver.bin 1 expires_at_s"},
		{"land.bin", 0, "change_index", 9, "N01 land.bin 0 change_index"},
		{"land.bin", 0, "patchset_index", 1, "N01 land.bin 0 patchset_index"},
		{"land.bin", 0, "landed_snapshot_index_plus1", 99, "N01 land.bin 0 landed_snapshot_index_plus1"},
		{"land.bin", 0, "target_line_index_plus1", 99, "N01 land.bin 0 target_line_index_plus1"},
		{"land.bin", 0, "land_meta", 0x92, "T06 change.bin 0 change_meta.lifecycle"},
		{"land.bin", 0, "failure_kind", 1, "N01 land.bin 0 failure_kind"},
		{"snapshot_link.bin", 1, "task_index", 99, "F06 snapshot_link.bin 1 task_index"},
		{"snapshot_link.bin", 1, "link_meta", 0, "F07 snapshot_link.bin 1 link_meta"},
		{"line.bin", 0, "head_snapshot_index_plus1", 99, "S01 line.bin 0 head_snapshot_index_plus1"},
		{"line.bin", 0, "line_name_offset", 2, "F04 line.bin 0 line_name_offset"},
		{"line.bin", 0, "line_meta", 2, "T03 change.bin 0 base_line_index_plus1"},
		{"snapshot.bin", 1, "line_index_plus1", 99, "S01 snapshot.bin 1 line_index_plus1"},
		{"snapshot.bin", 1, "parent_snapshot_index_plus1", 2, "S01 snapshot.bin 1 parent_snapshot_index_plus1"},
		{"snapshot.bin", 1, "parent_snapshot_index_plus1", 99, "S01 snapshot.bin 1 parent_snapshot_index_plus1"},
		{"snapshot.bin", 1, "snapshot_meta", 0x84, "P02 patchset.bin 0 revision_snapshot_index"},
		{"snapshot.bin", 1, "snapshot_meta", 0, "S01 snapshot.bin 1 snapshot_meta"},
		{"worker_job.bin", 1, "job_kind", 1, "F06 worker_job.bin 1 job_kind"},
		{"worker_job.bin", 1, "job_kind", 11, "J01 worker_job.bin 1 patchset_index_plus1"},
		{"worker_job.bin", 1, "patchset_index_plus1", 99, "J02 worker_job.bin 1 patchset_index_plus1"},
		{"worker_job.bin", 1, "outcome_kind", 0, "J03 worker_job.bin 1 outcome_kind"},
		{"worker_job.bin", 1, "max_attempts", 0, "J04 worker_job.bin 1 max_attempts"},
		{"worker_job.bin", 1, "updated_at_s", 1, "J05 worker_job.bin 1 updated_at_s"},
		{"worker_job.bin", 1, "job_meta", 0x80, "P06 patchset.bin 1 ci_worker_job_index_plus1"},
		{"task_change_index.bin", 1, "latest_change_index_plus1", 1, "C02 task_change_index.bin 1 latest_change_index_plus1"},
		{"task_change_index.bin", 1, "latest_change_index_plus1", 9, "C02 task_change_index.bin 1 latest_change_index_plus1"},
		{"task_patchset_index.bin", 1, "patchset_count", 2, "C02 task_patchset_index.bin 1 patchset_count"},
		{"patchset_review_index.bin", 0, "next_review_ordinal", 2, "C02 patchset_review_index.bin 0 next_review_ordinal"},
		{"patchset_review_index.bin", 0, "next_review_ordinal", 65, "C03 patchset_review_index.bin 0 next_review_ordinal"},
		{"patchset_waiver_index.bin", 0, "reserved0", 1, "F06 patchset_waiver_index.bin 0 reserved0"},
	} {
		t.Run(fmt.Sprintf("%s %d %s=%d", c.file, c.index, c.field, c.value), func(t *testing.T) {
			t.Parallel()
			_, cfg := soundRoot(t)
			off, width := fieldOf(t, c.file, c.field, c.index)
			r := open(t, cfg)
			patch(t, cfg, c.file, off, le(c.value, width))
			expect(t, r, c.want)
			closeRoot(t, r)
			// Without a mark the open refuses the root, with the same words.
			cfg.Runtime = "/elsewhere"
			_, err := bindb.Open(context.Background(), cfg)
			if !errors.Is(err, bindb.ErrCorrupt) {
				t.Errorf("the open gives %v", err)
			}
		})
	}
}

// expect fails the test unless the wanted finding is among those of a full
// check; none means that the root must be sound.
func expect(t testing.TB, r *bindb.Root, want string) {
	t.Helper()
	findings, err := r.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if want == "" {
		if len(findings) > 0 {
			t.Errorf("findings: %v", findings)
		}
		return
	}
	for _, f := range findings {
		place := f.Check + " " + f.File
		if f.HasIndex {
			place += fmt.Sprintf(" %d %s", f.Index, f.Field)
		}
		if place == want {
			if f.Message == "" || !strings.Contains(f.String(), f.Check) {
				t.Errorf("the finding says nothing: %v", f)
			}
			return
		}
	}
	t.Errorf("no finding %s among %v", want, findings)
}

// Rules that no single field can break.
func TestFindingsOfSeveralRecords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn   func(w *writer)
		want string
	}{
		"a second Actor with the same identity": {func(w *writer) {
			i := w.actor("ada")
			change(w, bindb.Actors, i, func(*record.Actor) {})
		}, "U04 actor.bin 2 "},
		"a tombstoned Actor may be equal": {func(w *writer) {
			i := w.actor("ada")
			change(w, bindb.Actors, i, func(a *record.Actor) { a.Meta.SetTombstoned(true) })
		}, ""},
		"an owner without chain rows": {func(w *writer) {
			off, n := w.text(bindb.TaskPayload, &record.TaskPayload{Title: "t", Intent: "i"})
			appendTo(w, bindb.Tasks, record.Task{PayloadOffset: off, PayloadLen: uint16(n), CreatedAt: 1, UpdatedAt: 1})
		}, "C01 task_land_index.bin"},
		"trailing check rows": {func(w *writer) {
			appendTo(w, bindb.PolicyChecks, record.PolicyCheck{})
		}, ""},
		"an orphaned check row": {func(w *writer) {
			appendTo(w, bindb.PolicyChecks, record.PolicyCheck{})
			w.decide(0, record.DecisionKindPass, someChecks(1)...)
		}, "K02 policy.bin 2 first_check_index_plus1"},
		"a decision without checks": {func(w *writer) { w.decide(0, record.DecisionKindPass) }, ""},
		"trailing payload bytes": {func(w *writer) {
			_, err := bindb.ReviewPayload.Append(w.tx, []byte("\xff\xff"))
			w.keep(err)
		}, ""},
		"a job that nobody selected": {func(w *writer) {
			appendTo(w, bindb.WorkerJobs, record.WorkerJob{
				Kind: record.JobKindPatchsetCI, State: record.JobStateQueued, MaxAttempts: 1, Patchset: 1,
				AvailableAt: 1, CreatedAt: 1, UpdatedAt: 1,
			})
		}, ""},
		"ordinals out of physical order": {func(w *writer) {
			// Task 0 has Change 0 with ordinal 0; ordinals 5 and then 3 follow.
			for _, o := range []struct {
				ordinal  uint8
				previous record.Ref
			}{{5, record.RefTo(3)}, {3, record.RefTo(0)}} {
				off, n := w.text(bindb.ChangePayload, &record.ChangePayload{Title: "c"})
				appendTo(w, bindb.Changes, record.Change{
					PayloadOffset: off, PayloadLen: uint16(n), Task: 0, BaseLine: 1, Ordinal: o.ordinal,
					PreviousInTask: o.previous, CreatedAt: 1, UpdatedAt: 1,
				})
				appendTo(w, bindb.ChangePatchsets, record.OrdinalChain{})
				appendTo(w, bindb.ChangeLands, record.OrdinalChain{})
				appendTo(w, bindb.ChangeSnapshots, record.InventoryChain{})
			}
			change(w, bindb.TaskChanges, 0, func(row *record.OrdinalChain) { *row = record.OrdinalChain{Latest: 3, Count: 3, Next: 6} })
		}, ""},
		"the same ordinal twice": {func(w *writer) {
			off, n := w.text(bindb.ChangePayload, &record.ChangePayload{Title: "c"})
			appendTo(w, bindb.Changes, record.Change{
				PayloadOffset: off, PayloadLen: uint16(n), Task: 0, BaseLine: 1, PreviousInTask: 1, CreatedAt: 1, UpdatedAt: 1,
			})
			appendTo(w, bindb.ChangePatchsets, record.OrdinalChain{})
			appendTo(w, bindb.ChangeLands, record.OrdinalChain{})
			appendTo(w, bindb.ChangeSnapshots, record.InventoryChain{})
		}, "C03 change.bin 2 "},
		"a Plan": {func(w *writer) { w.plan(3, func(int, *record.PlanRevision) {}) }, ""},
		"a Plan revision with a wrong number": {func(w *writer) {
			w.plan(3, func(i int, r *record.PlanRevision) {
				if i == 2 {
					r.Number = 4
				}
			})
		}, "L01 plan_revision.bin 2 revision_number"},
		"a Plan with a branch": {func(w *writer) {
			w.plan(3, func(i int, r *record.PlanRevision) {
				if i == 2 {
					r.Number, r.Previous = 2, 1
				}
			})
		}, "L01 plan.bin 0 latest_revision_index_plus1"},
		"Plan items outside of the file": {func(w *writer) {
			w.plan(2, func(i int, r *record.PlanRevision) { r.ItemCount = 2 })
		}, "L02 plan_revision.bin 1 item_start_index"},
		"Plan items of two revisions": {func(w *writer) {
			w.plan(2, func(i int, r *record.PlanRevision) { r.ItemStart = 0 })
		}, "L02 plan_revision.bin 1 item_start_index"},
		"Snapshots that descend from each other": {func(w *writer) {
			change(w, bindb.Snapshots, 0, func(s *record.Snapshot) { s.Parent = record.RefTo(2) })
			change(w, bindb.Snapshots, 2, func(s *record.Snapshot) { s.Parent = record.RefTo(0) })
		}, "S01 snapshot.bin 0 parent_snapshot_index_plus1"},
		"a Snapshot with a later parent": {func(w *writer) {
			change(w, bindb.Snapshots, 0, func(s *record.Snapshot) { s.Parent = record.RefTo(2) })
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, cfg := soundRoot(t)
			r := open(t, cfg)
			expect(t, r, "")
			update(t, r, c.fn)
			expect(t, r, c.want)
			closeRoot(t, r)
		})
	}
}

var (
	planPayload         = bindb.PayloadOf("plan_payload.bin")
	planRevisionPayload = bindb.PayloadOf("plan_revision_payload.bin")
	planItemPayload     = bindb.PayloadOf("plan_item_payload.bin")
)

// plan appends a Plan with n revisions of one item each.
func (w *writer) plan(n int, fn func(i int, r *record.PlanRevision)) {
	for i := range n {
		off, size := w.text(planItemPayload, &record.PlanItemPayload{Ref: "r", Text: "do it"})
		appendTo(w, bindb.PlanItems, record.PlanItem{PayloadOffset: off, PayloadLen: uint16(size)})
		off, size = w.text(planRevisionPayload, &record.PlanRevisionPayload{TitleSnapshot: "plan"})
		r := record.PlanRevision{
			PayloadOffset: off, PayloadLen: uint16(size), Number: uint16(i + 1), ItemStart: uint32(i), ItemCount: 1,
			Previous: record.Ref(i), CreatedAt: 1,
		}
		fn(i, &r)
		appendTo(w, bindb.PlanRevisions, r)
	}
	off, size := w.text(planPayload, &record.PlanPayload{Title: "plan"})
	appendTo(w, bindb.Plans, record.Plan{PayloadOffset: off, PayloadLen: uint16(size), LatestRevision: record.Ref(n), CreatedAt: 1, UpdatedAt: 1})
}

func TestClosure(t *testing.T) {
	t.Parallel()
	file := func(name string, content string) func(*vfs.Sim) error {
		return func(sim *vfs.Sim) error { return writeFile(sim, "/4/"+name, []byte(content)) }
	}
	for name, c := range map[string]struct {
		fn   func(sim *vfs.Sim) error
		want string // nothing: the root opens
	}{
		"missing":              {func(sim *vfs.Sim) error { return sim.Remove("/4/review.bin") }, "review.bin: is missing"},
		"undeclared":           {file("notes.bin", "\x01\x00\x00\x00"), "notes.bin: is not declared"},
		"undeclared index":     {file("notes.idx", "\x01\x00\x00\x00"), "notes.idx: is not declared"},
		"undeclared text":      {file("README", "hello"), "README: is not declared"},
		"of the other root":    {file("repository.bin", "\x01\x00\x00\x00"), "repository.bin: is not declared"},
		"forbidden":            {file("job.bin", "\x01\x00\x00\x00"), "job.bin: is a name that the format forbids"},
		"forbidden head":       {file("task_head.bin", "\x01\x00\x00\x00"), "task_head.bin: is a name that the format forbids"},
		"index":                {file("worker_ready.idx", "\x01\x00\x00\x00"), ""},
		"temporary":            {file(".worker_job.bin.rewrite", "half"), ""},
		"similar to temporary": {file(".worker_job.bin.rewrite.1", "half"), ".worker_job.bin.rewrite.1: is not declared"},
		"purge journal":        {file(".repository-purge.journal.json", "{}"), "purge that was not finished"},
		"update journal that is a directory": {func(sim *vfs.Sim) error { return sim.Mkdir("/4/.worker_job.bin.update-journal", 0o700) },
			".worker_job.bin.update-journal: is no regular file"},
		"linked append intent": {func(sim *vfs.Sim) error {
			return errors.Join(writeFile(sim, "/4/.worker_job.bin.append-intent", nil), sim.Link("/4/.worker_job.bin.append-intent", "/other"))
		}, ".worker_job.bin.append-intent: has 2 hard links"},
		"hard link": {func(sim *vfs.Sim) error { return sim.Link("/4/task.bin", "/task.bin") },
			"task.bin: has 2 hard links"},
		"symbolic link": {func(sim *vfs.Sim) error {
			return errors.Join(sim.Rename("/4/task.bin", "/task.bin"), sim.Symlink("/task.bin", "/4/task.bin"))
		}, "task.bin: is no regular file"},
		"directory": {func(sim *vfs.Sim) error {
			return errors.Join(sim.Remove("/4/task.bin"), sim.Mkdir("/4/task.bin", 0o700))
		}, "task.bin: is no regular file"},
		"lock directory that is a file": {func(sim *vfs.Sim) error {
			return errors.Join(sim.RemoveAll("/4/.locks"), writeFile(sim, "/4/.locks", nil))
		}, ".locks: is no real directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, cfg := soundRoot(t)
			if err := c.fn(sim); err != nil {
				t.Fatal(err)
			}
			before := sim.OpCount()
			r, err := bindb.Open(context.Background(), cfg)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				closeRoot(t, r)
				return
			}
			if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if ops := sim.Ops()[before:]; len(ops) > 0 {
				t.Errorf("a refused root was touched: %v", ops)
			}
		})
	}
}

func writeFile(sim *vfs.Sim, name string, content []byte) error {
	if err := vfs.WriteFileAtomic(sim, "/staged", content, 0o600); err != nil {
		return err
	}
	return sim.Rename("/staged", name)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("another layout", func(t *testing.T) {
		t.Parallel()
		_, cfg := soundRoot(t)
		patch(t, cfg, "task.bin", 0, []byte{2})
		cfg.Runtime = "/elsewhere"
		_, err := bindb.Open(ctx, cfg)
		if err == nil || !strings.Contains(err.Error(), "task.bin") || !errors.Is(err, bindb.ErrLayout) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a part of a record", func(t *testing.T) {
		t.Parallel()
		sim, cfg := soundRoot(t)
		if err := resize(sim, "/4/task.bin", func(n int64) int64 { return n + 7 }); err != nil {
			t.Fatal(err)
		}
		_, err := bindb.Open(ctx, cfg)
		if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "task.bin") || !strings.Contains(err.Error(), "F03") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		t.Parallel()
		sim, cfg := soundRoot(t)
		cfg.Runtime = "/elsewhere"
		if err := resize(sim, "/4/task.bin", func(int64) int64 { return 0 }); err != nil {
			t.Fatal(err)
		}
		_, err := bindb.Open(ctx, cfg)
		if !errors.Is(err, bindb.ErrCorrupt) || !strings.Contains(err.Error(), "task.bin") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("more findings than anybody reads", func(t *testing.T) {
		t.Parallel()
		_, cfg := simConfig(t)
		create(t, cfg)
		r := open(t, cfg)
		update(t, r, func(w *writer) {
			for range 1500 {
				w.actor("the same")
			}
		})
		findings, err := r.Check(ctx)
		if err != nil || len(findings) != 1000 {
			t.Errorf("%d findings, %v", len(findings), err)
		}
		closeRoot(t, r)
	})
}

func TestRegistryFindings(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		names []string
		fn    func(i int, r *record.Repository)
		want  string
	}{
		"sound":                   {append(record.ReservedRepositories[:], "mine"), nil, ""},
		"too few":                 {record.ReservedRepositories[:3], nil, "G06 repository.bin"},
		"another name":            {[]string{"ait-core", "ait-server", "ait-node", "ait-python"}, nil, "G07 repository.bin 2 payload_offset"},
		"reserved and tombstoned": {record.ReservedRepositories[:], func(i int, r *record.Repository) { r.Meta.SetTombstoned(i == 1) }, "G08 repository.bin 1 repository_meta"},
		"a namespace twice": {append(record.ReservedRepositories[:], "a", "b"), func(i int, r *record.Repository) {
			if i > 3 {
				r.Namespace = record.Namespace{'R'}
			}
		}, "G11 repository.bin 5 namespace_ascii"},
		"a namespace of a purged one": {append(record.ReservedRepositories[:], "a", "b"), func(i int, r *record.Repository) {
			if i > 3 {
				r.Namespace = record.Namespace{'R'}
			}
			if i == 4 {
				r.Lifecycle = record.LifecyclePurged
			}
		}, ""},
		"a name twice": {append(record.ReservedRepositories[:], "a", "a"), nil, ""},
		"shared ranges": {append(record.ReservedRepositories[:], "ait-core"), func(i int, r *record.Repository) {
			if i == 4 {
				r.PayloadOffset = bindb.HeaderSize // that of Repository 0
			}
		}, "G13 repository.bin 4 payload_offset"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := vfs.NewSim()
			cfg := bindb.Config{FS: sim, Dir: "/registry", Kind: record.RootRegistry, Label: "registry", Runtime: "/runtime", Identity: [32]byte{3}}
			err := bindb.CreateWith(ctx, cfg, write(func(w *writer) {
				for i, name := range c.names {
					off, n := w.text(bindb.RepositoryPayload, &record.RepositoryPayload{Name: name})
					rec := record.Repository{
						Lifecycle: record.LifecycleActive, PayloadLen: uint32(n), PayloadOffset: off, CreatedAt: 1, UpdatedAt: 1,
					}
					if c.fn != nil {
						c.fn(i, &rec)
					}
					appendTo(w, bindb.Repositories, rec)
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
			r := open(t, cfg)
			expect(t, r, c.want)
			closeRoot(t, r)
		})
	}
}

// The parts of a check run side by side, but what they find comes in one order.
func TestFindingsComeInOneOrder(t *testing.T) {
	t.Parallel()
	_, cfg := soundRoot(t)
	r := open(t, cfg)
	for _, c := range []struct {
		file, field string
		index       int
	}{
		{"policy.bin", "policy_meta", 1}, {"worker_job.bin", "job_kind", 1}, {"line.bin", "line_meta", 0},
		{"task.bin", "task_meta", 0}, {"snapshot.bin", "snapshot_meta", 1}, {"review.bin", "review_meta", 1},
		{"task_change_index.bin", "latest_change_index_plus1", 1}, {"land.bin", "land_meta", 0},
	} {
		off, width := fieldOf(t, c.file, c.field, c.index)
		patch(t, cfg, c.file, off, bytes.Repeat([]byte{0xff}, width))
	}
	var first []string
	for range 20 {
		findings, err := r.Check(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, f := range findings {
			if n := len(list); n == 0 || list[n-1] != f.File {
				list = append(list, f.File)
			}
		}
		if first == nil {
			first = list
		}
		if !slices.Equal(list, first) {
			t.Fatalf("the findings come in the order\n%v, and before in\n%v", list, first)
		}
	}
	at := -1
	for _, file := range []string{"line.bin", "snapshot.bin", "worker_job.bin", "task.bin", "review.bin", "policy.bin", "task_change_index.bin"} {
		i := slices.Index(first, file)
		if i <= at {
			t.Errorf("%s is not in its place in %v", file, first)
		}
		at = i
	}
	closeRoot(t, r)
}
