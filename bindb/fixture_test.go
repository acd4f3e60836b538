package bindb_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/internal/vfs"
)

// diskConfig names a root that does not exist yet, on the real file system.
func diskConfig(t testing.TB) bindb.Config {
	t.Helper()
	return configBelow(nil, t.TempDir())
}

// simConfig names a root that does not exist yet, on a simulated disk.
func simConfig(t testing.TB) (*vfs.Sim, bindb.Config) {
	t.Helper()
	sim := vfs.NewSim()
	return sim, configBelow(sim, "/")
}

func configBelow(fsys vfs.FS, dir string) bindb.Config {
	cfg := bindb.Config{
		FS: fsys, Dir: filepath.Join(dir, "4"), Kind: record.RootAuthority, Label: "4",
		Runtime: filepath.Join(dir, "runtime"), Identity: [32]byte{1}, Own: owned,
	}
	if owned {
		cfg.LockWait = 2 * time.Second // nobody gives an owned root back soon
	}
	return cfg
}

// create makes an empty root whose own directory entry is durable.
func create(t testing.TB, cfg bindb.Config) {
	t.Helper()
	if err := bindb.Create(cfg); err != nil {
		t.Fatal(err)
	}
	fsys := cfg.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	if err := fsys.SyncDir(filepath.Dir(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, cfg bindb.Config) *bindb.Root {
	t.Helper()
	r, err := bindb.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closeRoot(t testing.TB, r *bindb.Root) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func update(t testing.TB, r *bindb.Root, fn func(w *writer)) {
	t.Helper()
	if err := r.Update(context.Background(), write(fn)); err != nil {
		t.Fatal(err)
	}
}

// writer builds records that satisfy every check: owners get their chain rows,
// members join their chains. The first error sticks.
type writer struct {
	tx  *bindb.Tx
	err error
}

// write makes a mutation of fn.
func write(fn func(w *writer)) func(*bindb.Tx) error {
	return func(tx *bindb.Tx) error {
		w := &writer{tx: tx}
		fn(w)
		return w.err
	}
}

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func appendTo[T any, P record.Codec[T]](w *writer, t bindb.Table[T, P], rec T) uint32 {
	if w.err != nil {
		return 0
	}
	i, err := t.Append(w.tx, rec)
	w.keep(err)
	return i
}

func change[T any, P record.Codec[T]](w *writer, t bindb.Table[T, P], i uint32, fn func(*T)) {
	if w.err != nil {
		return
	}
	rec, err := t.Get(w.tx, i)
	if err != nil {
		w.keep(err)
		return
	}
	fn(&rec)
	w.keep(t.Put(w.tx, i, rec))
}

func get[T any, P record.Codec[T]](w *writer, t bindb.Table[T, P], i uint32) T {
	rec, err := t.Get(w.tx, i)
	w.keep(err)
	return rec
}

func (w *writer) text(p bindb.Payload, text record.Payload) (off uint64, n int) {
	b, err := text.Encode()
	w.keep(err)
	if w.err != nil {
		return 0, 0
	}
	off, err = p.Append(w.tx, b)
	w.keep(err)
	return off, len(b)
}

type (
	ordinalRows   = bindb.Table[record.OrdinalChain, *record.OrdinalChain]
	inventoryRows = bindb.Table[record.InventoryChain, *record.InventoryChain]
)

// ordinal gives out the next ordinal of an owner to a member.
func (w *writer) ordinal(rows ordinalRows, owner, member uint32) (ordinal uint8, previous record.Ref) {
	change(w, rows, owner, func(row *record.OrdinalChain) {
		ordinal, previous = row.Next, row.Latest
		row.Latest, row.Count, row.Next = record.RefTo(member), row.Count+1, row.Next+1
	})
	return ordinal, previous
}

func (w *writer) inventory(rows inventoryRows, owner, member uint32) (previous record.Ref) {
	change(w, rows, owner, func(row *record.InventoryChain) {
		previous = row.Latest
		row.Latest, row.Count = record.RefTo(member), row.Count+1
	})
	return previous
}

func (w *writer) count(n uint32, err error) uint32 {
	w.keep(err)
	return n
}

func (w *writer) line(name string) uint32 {
	off, n := w.text(bindb.LineNamePayload, &record.LineNamePayload{Name: name})
	return appendTo(w, bindb.Lines, record.Line{NameOffset: off, NameLen: uint16(n), CreatedAt: 10, UpdatedAt: 10})
}

func (w *writer) snapshot(line uint32) uint32 {
	i := w.count(bindb.Snapshots.Count(w.tx))
	sum := sha256.Sum256(fmt.Append(nil, "snapshot ", i))
	s := record.Snapshot{Hash48: uint64(i) + 1, Line: record.RefTo(line), ManifestHash: sum, CreatedAt: 10}
	message := record.SnapshotPayload{Message: fmt.Sprintf("state %d", i)}
	off, n := w.text(bindb.SnapshotPayload, &message)
	s.PayloadOffset, s.PayloadLen = off, uint16(n)
	message.SetMeta(&s.Meta)
	return appendTo(w, bindb.Snapshots, s)
}

func (w *writer) task(title string) uint32 {
	off, n := w.text(bindb.TaskPayload, &record.TaskPayload{Title: title, Intent: "so that it is done"})
	i := appendTo(w, bindb.Tasks, record.Task{PayloadOffset: off, PayloadLen: uint16(n), CreatedAt: 10, UpdatedAt: 10, FetchedAt: 10})
	for _, rows := range []ordinalRows{bindb.TaskChanges, bindb.TaskAttests, bindb.TaskWaivers, bindb.TaskSnapshots} {
		appendTo(w, rows, record.OrdinalChain{})
	}
	for _, rows := range []inventoryRows{bindb.TaskPatchsets, bindb.TaskReviews, bindb.TaskPolicies, bindb.TaskLands} {
		appendTo(w, rows, record.InventoryChain{})
	}
	return i
}

func (w *writer) change(task, line uint32, title string) uint32 {
	off, n := w.text(bindb.ChangePayload, &record.ChangePayload{Title: title})
	i := w.count(bindb.Changes.Count(w.tx))
	c := record.Change{PayloadOffset: off, PayloadLen: uint16(n), Task: task, BaseLine: record.RefTo(line), CreatedAt: 10, UpdatedAt: 10, FetchedAt: 10}
	c.Ordinal, c.PreviousInTask = w.ordinal(bindb.TaskChanges, task, i)
	appendTo(w, bindb.Changes, c)
	appendTo(w, bindb.ChangePatchsets, record.OrdinalChain{})
	appendTo(w, bindb.ChangeLands, record.OrdinalChain{})
	appendTo(w, bindb.ChangeSnapshots, record.InventoryChain{})
	return i
}

func (w *writer) patchset(changeIndex, base, revision uint32) uint32 {
	off, n := w.text(bindb.PatchsetSummary, &record.PatchsetSummary{Text: fmt.Sprintf("from %d to %d", base, revision)})
	i := w.count(bindb.Patchsets.Count(w.tx))
	owner := get(w, bindb.Changes, changeIndex)
	p := record.Patchset{
		ChangeOrdinal: owner.Ordinal, Change: changeIndex, BaseSnapshot: base, RevisionSnapshot: revision,
		CreatedAt: 10, SummaryOffset: off, SummaryLen: uint16(n),
	}
	p.Meta.SetEvaluationPending(true)
	p.Ordinal, p.PreviousInChange = w.ordinal(bindb.ChangePatchsets, changeIndex, i)
	p.PreviousInTask = w.inventory(bindb.TaskPatchsets, owner.Task, i)
	appendTo(w, bindb.Patchsets, p)
	appendTo(w, bindb.PatchsetReviews, record.OrdinalChain{})
	appendTo(w, bindb.PatchsetPolicies, record.OrdinalChain{})
	appendTo(w, bindb.PatchsetAttests, record.InventoryChain{})
	appendTo(w, bindb.PatchsetWaivers, record.InventoryChain{})
	change(w, bindb.Changes, changeIndex, func(c *record.Change) {
		c.Meta.SetLifecycle(record.ChangeLifecycleActive)
		c.Meta.SetHasPatchsets(true)
		c.SelectedPatchset = record.RefTo(i)
		c.UpdatedAt++
	})
	return i
}

func (w *writer) owners(patchset uint32) (record.Patchset, record.Change) {
	p := get(w, bindb.Patchsets, patchset)
	return p, get(w, bindb.Changes, p.Change)
}

func (w *writer) actor(name string) uint32 {
	text := record.ActorPayload{UserName: name, Email: name + "@example.com"}
	off, n := w.text(bindb.ActorPayload, &text)
	a := record.Actor{PayloadOffset: off, PayloadLen: uint16(n), KeyHash: record.FNV1a64([]byte(name)), CreatedAt: 10, LastSeenAt: 10}
	text.SetMeta(&a.Meta)
	return appendTo(w, bindb.Actors, a)
}

func (w *writer) review(patchset, actor uint32, action record.ReviewAction) uint32 {
	off, n := w.text(bindb.ReviewPayload, &record.ReviewPayload{Text: "looked at it"})
	i := w.count(bindb.Reviews.Count(w.tx))
	p, c := w.owners(patchset)
	r := record.Review{
		PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Actor: record.RefTo(actor), Patchset: patchset,
		PayloadOffset: off, PayloadLen: uint16(n), CreatedAt: 10,
	}
	r.Meta.SetAction(action)
	r.Ordinal, r.PreviousInPatchset = w.ordinal(bindb.PatchsetReviews, patchset, i)
	r.PreviousInTask = w.inventory(bindb.TaskReviews, c.Task, i)
	appendTo(w, bindb.Reviews, r)
	change(w, bindb.Actors, actor, func(a *record.Actor) { a.LastSeenAt++ })
	return i
}

func (w *writer) attest(patchset uint32) uint32 {
	i := w.count(bindb.Attestations.Count(w.tx))
	p, c := w.owners(patchset)
	a := record.Attestation{PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Patchset: patchset, CreatedAt: 10}
	a.Ordinal, a.PreviousInTask = w.ordinal(bindb.TaskAttests, c.Task, i)
	a.PreviousInPatchset = w.inventory(bindb.PatchsetAttests, patchset, i)
	return appendTo(w, bindb.Attestations, a)
}

// decide appends a decision with the given checks and makes it current.
func (w *writer) decide(patchset uint32, kind record.DecisionKind, checks ...record.PolicyCheck) uint32 {
	first := w.count(bindb.PolicyChecks.Count(w.tx))
	for _, c := range checks {
		appendTo(w, bindb.PolicyChecks, c)
	}
	i := w.count(bindb.PolicyDecisions.Count(w.tx))
	p, c := w.owners(patchset)
	d := record.PolicyDecision{PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Patchset: patchset, CheckCount: uint16(len(checks)), CreatedAt: 10}
	if len(checks) > 0 {
		d.FirstCheck = record.RefTo(first)
	}
	d.Meta.SetDecision(kind)
	d.Ordinal, d.PreviousInPatchset = w.ordinal(bindb.PatchsetPolicies, patchset, i)
	d.PreviousInTask = w.inventory(bindb.TaskPolicies, c.Task, i)
	appendTo(w, bindb.PolicyDecisions, d)
	change(w, bindb.Patchsets, patchset, func(p *record.Patchset) { p.Meta.SetEvaluationPending(kind == record.DecisionKindPending) })
	return i
}

// someChecks are rows of the usual shape: requirements, the rollout phase, suites.
func someChecks(suites int) []record.PolicyCheck {
	rows := []record.PolicyCheck{
		{Kind: record.CheckKindRequireAttestation, Status: record.CheckStatusNotRequired},
		{Kind: record.CheckKindTests, Status: record.CheckStatusPass},
		{Kind: record.CheckKindCIRolloutPhase, Status: record.CheckStatusPass},
	}
	for i := range suites {
		row := record.PolicyCheck{Kind: record.CheckKindCIPatchsetSuite, Status: record.CheckStatusPass, Subject: uint16(i + 1)}
		row.Detail.SetBlocking(true)
		rows = append(rows, row)
	}
	return rows
}

func (w *writer) waiver(patchset uint32) uint32 {
	off, n := w.text(bindb.WaiverPayload, &record.WaiverPayload{Reason: "because"})
	i := w.count(bindb.Waivers.Count(w.tx))
	p, c := w.owners(patchset)
	v := record.Waiver{
		PatchOrdinal: p.Ordinal, ChangeOrdinal: p.ChangeOrdinal, Patchset: patchset,
		PayloadOffset: off, PayloadLen: uint16(n), Rule: record.RuleCodeLint, CreatedAt: 10,
	}
	v.Ordinal, v.PreviousInTask = w.ordinal(bindb.TaskWaivers, c.Task, i)
	v.PreviousInPatchset = w.inventory(bindb.PatchsetWaivers, patchset, i)
	return appendTo(w, bindb.Waivers, v)
}

// land lands a Patchset on a Line.
func (w *writer) land(patchset, line uint32) uint32 {
	i := w.count(bindb.Lands.Count(w.tx))
	p, c := w.owners(patchset)
	l := record.Land{
		ChangeOrdinal: p.ChangeOrdinal, Change: p.Change, Patchset: patchset, Landed: record.RefTo(p.RevisionSnapshot),
		SubmittedAt: 10, UpdatedAt: 10, TargetLine: record.RefTo(line),
	}
	l.Meta.SetStatus(record.LandStatusSucceeded)
	l.Meta.SetHasLandedSnapshot(true)
	l.Ordinal, l.PreviousInChange = w.ordinal(bindb.ChangeLands, p.Change, i)
	l.PreviousInTask = w.inventory(bindb.TaskLands, c.Task, i)
	appendTo(w, bindb.Lands, l)
	change(w, bindb.Lines, line, func(x *record.Line) { x.Head, x.UpdatedAt = l.Landed, x.UpdatedAt+1 })
	change(w, bindb.Changes, p.Change, func(x *record.Change) { x.Meta.SetLifecycle(record.ChangeLifecycleLanded) })
	return i
}

func (w *writer) link(task, snapshot uint32) uint32 {
	text := record.SnapshotLinkPayload{LineName: "main"}
	off, n := w.text(bindb.SnapshotLinkPayload, &text)
	i := w.count(bindb.SnapshotLinks.Count(w.tx))
	l := record.SnapshotLink{PayloadOffset: off, PayloadLen: uint16(n), Task: task, Snapshot: snapshot, CreatedAt: 10}
	text.SetMeta(&l.Meta)
	l.Ordinal, l.PreviousInTask = w.ordinal(bindb.TaskSnapshots, task, i)
	return appendTo(w, bindb.SnapshotLinks, l)
}

// enqueue appends a Job for a Patchset and selects it.
func (w *writer) enqueue(patchset uint32) uint32 {
	j := appendTo(w, bindb.WorkerJobs, record.WorkerJob{
		Kind: record.JobKindPatchsetCI, State: record.JobStateQueued, MaxAttempts: 3, Patchset: record.RefTo(patchset),
		AvailableAt: 10, CreatedAt: 10, UpdatedAt: 10,
	})
	change(w, bindb.Patchsets, patchset, func(p *record.Patchset) {
		p.CIJob = record.RefTo(j)
		p.CIRunSeq++
		p.CICompletedAt, p.CISelectedSuites, p.CISuiteResults, p.CIBlockingFailures, p.CIStatus = 0, 0, 0, 0, 0
		p.Meta.SetEvaluationPending(true)
	})
	return j
}

// complete stores evidence and ends the Job.
func (w *writer) complete(job uint32) {
	j := get(w, bindb.WorkerJobs, job)
	p, _ := j.Patchset.Index()
	change(w, bindb.Patchsets, p, func(p *record.Patchset) {
		p.CICompletedAt, p.CISelectedSuites, p.CISuiteResults = 20, 2, 2
		p.CIStatus.SetOverall(record.CIStatusPass)
		p.CIStatus.SetTests(record.CIStatusPass)
	})
	change(w, bindb.WorkerJobs, job, func(j *record.WorkerJob) {
		j.State, j.Outcome, j.Attempts, j.UpdatedAt = record.JobStateSucceeded, record.JobOutcomeCompleted, 1, 20
	})
}

// story is one batch a step of what a gate does for one Change, the Line 0 and
// Actor 0 being there.
func story(task *uint32) []func(w *writer) {
	var ch, ps, job uint32
	return []func(w *writer){
		func(w *writer) {
			*task = w.task("a task")
			ch = w.change(*task, 0, "a change")
		},
		func(w *writer) {
			base, revision := w.snapshot(0), w.snapshot(0)
			ps = w.patchset(ch, base, revision)
			w.link(*task, revision)
		},
		func(w *writer) { job = w.enqueue(ps) },
		func(w *writer) { w.complete(job) },
		func(w *writer) {
			w.review(ps, 0, record.ReviewActionApprove)
			w.attest(ps)
			w.waiver(ps)
		},
		func(w *writer) { w.decide(ps, record.DecisionKindPass, someChecks(2)...) },
		func(w *writer) { w.land(ps, 0) },
	}
}

// seed makes Line 0 and Actor 0.
func seed(w *writer) {
	w.line("main")
	w.actor("ada")
}

// fill commits n Patchsets with everything that belongs to them, four to a
// Change, some Changes to a Task.
func fill(t testing.TB, r *bindb.Root, n int) {
	t.Helper()
	update(t, r, seed)
	var task, ch, base uint32
	for done := 0; done < n; {
		update(t, r, func(w *writer) {
			for range min(500, n-done) {
				if done%16 == 0 {
					task = w.task(fmt.Sprintf("task %d", done))
				}
				if done%4 == 0 {
					ch = w.change(task, 0, fmt.Sprintf("change %d", done))
					base = w.snapshot(0)
				}
				ps := w.patchset(ch, base, w.snapshot(0))
				w.complete(w.enqueue(ps))
				w.review(ps, 0, record.ReviewActionApprove)
				w.decide(ps, record.DecisionKindPass, someChecks(3)...)
				if done%8 == 0 {
					w.attest(ps)
				}
				done++
			}
		})
	}
}

// dump returns the bytes of every .bin file of a root, as a sum for each one.
func dump(t testing.TB, cfg bindb.Config) string {
	t.Helper()
	fsys := cfg.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	var b strings.Builder
	for _, file := range record.Files(cfg.Kind) {
		raw, err := vfs.ReadFile(fsys, filepath.Join(cfg.Dir, file), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > bindb.HeaderSize {
			sum := sha256.Sum256(raw)
			fmt.Fprintf(&b, "%s %d %s\n", file, len(raw), hex.EncodeToString(sum[:6]))
		}
	}
	return b.String()
}

// patch changes bytes of a file behind the back of any open root.
func patch(t testing.TB, cfg bindb.Config, file string, off int64, b []byte) {
	t.Helper()
	fsys := cfg.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	f, err := fsys.OpenFile(filepath.Join(cfg.Dir, file), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
