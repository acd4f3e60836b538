package bindb

import (
	"fmt"

	"github.com/writ-authority/writ/bindb/record"
)

// Reader reads committed records, or, inside Update, those plus the writes of
// the running mutation. A Reader is valid only inside the View or Update
// function that got it, and is not safe for concurrent use; the Readers of an
// owned root are both, apart from those inside Update.
type Reader interface {
	// size is the length in bytes of a file as this reader sees it.
	size(f *family) (int64, error)
	// count is the number of records of a file.
	count(f *family) (uint32, error)
	// record returns the bytes of record i, which are not to be changed, or nil
	// when there is no such record.
	record(f *family, i uint32) ([]byte, error)
	// readAt fills p from the given offset of a file.
	readAt(f *family, p []byte, off int64) error
	// base reads the state without the running mutation.
	base() Reader
	root() *Root
}

// Table is the typed access to one fixed-record file.
type Table[T any, P record.Codec[T]] struct{ f *family }

func table[T any, P record.Codec[T]](file string) Table[T, P] {
	return Table[T, P]{mustFamily(file)}
}

// File is the name of the table's file.
func (t Table[T, P]) File() string { return t.f.file }

// Count is the number of records.
func (t Table[T, P]) Count(r Reader) (uint32, error) {
	return r.count(t.f)
}

// Get reads and decodes record index. The error is ErrNoRecord when there is
// no such record, and a *RecordError when its bytes are malformed.
func (t Table[T, P]) Get(r Reader, index uint32) (T, error) {
	var rec T
	b, err := r.record(t.f, index)
	if err != nil {
		return rec, err
	}
	if b == nil {
		return rec, t.noRecord(r, index)
	}
	if err := P(&rec).Decode(b); err != nil {
		return rec, &RecordError{t.f.file, index, err}
	}
	return rec, nil
}

func (t Table[T, P]) noRecord(r Reader, index uint32) error {
	n, err := r.count(t.f)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s record %d: %w (it has %d records)", t.f.file, index, ErrNoRecord, n)
}

// Scan calls fn for the records from..to-1 in physical order, reading them in
// large pieces. The record that fn gets is reused.
func (t Table[T, P]) Scan(r Reader, from, to uint32, fn func(index uint32, rec *T) error) error {
	n, err := t.Count(r)
	if err != nil {
		return err
	}
	var rec T
	return eachRecord(r, t.f, from, min(to, n), func(i uint32, raw []byte) error {
		if err := P(&rec).Decode(raw); err != nil {
			return &RecordError{t.f.file, i, err}
		}
		return fn(i, &rec)
	})
}

// All calls fn for every record as Scan does, tombstones included.
func (t Table[T, P]) All(r Reader, fn func(index uint32, rec *T) error) error {
	n, err := t.Count(r)
	if err != nil {
		return err
	}
	return t.Scan(r, 0, n, fn)
}

// Append adds rec and returns its index. The record must satisfy the
// invariants that it can show by itself.
func (t Table[T, P]) Append(tx *Tx, rec T) (uint32, error) {
	n, err := t.Count(tx)
	if err != nil {
		return 0, err
	}
	if n >= MaxTargets {
		return 0, fmt.Errorf("%s: %w: it holds %d records", t.f.file, ErrCapacity, n)
	}
	p := P(&rec)
	if err := t.check(p); err != nil {
		return 0, err
	}
	b, err := tx.extend(t.f, t.f.size)
	if err != nil {
		return 0, err
	}
	p.Encode(b)
	return n, nil
}

// Put replaces record index as a whole.
func (t Table[T, P]) Put(tx *Tx, index uint32, rec T) error {
	n, err := t.Count(tx)
	if err != nil {
		return err
	}
	if index >= n {
		return t.noRecord(tx, index)
	}
	p := P(&rec)
	if err := t.check(p); err != nil {
		return err
	}
	b := make([]byte, t.f.size)
	p.Encode(b)
	return tx.replace(t.f, t.f.offset(index), b)
}

// check refuses a record that violates what it can show by itself.
func (t Table[T, P]) check(p P) error {
	if c, ok := any(p).(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return fmt.Errorf("%s: %w: %w", t.f.file, ErrInvalid, err)
		}
	}
	return nil
}

// Payload is the access to one payload file.
type Payload struct{ f *family }

// File is the name of the payload file.
func (p Payload) File() string { return p.f.file }

// Append adds b and returns the absolute offset at which it lies.
func (p Payload) Append(tx *Tx, b []byte) (uint64, error) {
	off, err := tx.size(p.f)
	if err != nil {
		return 0, err
	}
	to, err := tx.extend(p.f, len(b))
	if err != nil {
		return 0, err
	}
	copy(to, b)
	return uint64(off), nil
}

// Read returns the bytes of the locator (offset, length).
func (p Payload) Read(r Reader, offset uint64, length int) ([]byte, error) {
	size, err := r.size(p.f)
	if err != nil {
		return nil, err
	}
	if offset < HeaderSize || offset > uint64(size) || uint64(length) > uint64(size)-offset {
		return nil, corruptf("%s: range %d+%d lies outside of its %d bytes", p.f.file, offset, length, size)
	}
	b := make([]byte, length)
	if err := r.readAt(p.f, b, int64(offset)); err != nil {
		return nil, err
	}
	return b, nil
}

// The tables of the registry root.
var (
	Repositories      = table[record.Repository]("repository.bin")
	RepositoryPayload = Payload{mustFamily("repository_payload.bin")}
)

// The tables of a repository root.
var (
	Tasks           = table[record.Task]("task.bin")
	Changes         = table[record.Change]("change.bin")
	Patchsets       = table[record.Patchset]("patchset.bin")
	Attestations    = table[record.Attestation]("attest.bin")
	Actors          = table[record.Actor]("actor.bin")
	Reviews         = table[record.Review]("review.bin")
	PolicyDecisions = table[record.PolicyDecision]("policy.bin")
	PolicyChecks    = table[record.PolicyCheck]("policy_check.bin")
	Waivers         = table[record.Waiver]("waiver.bin")
	Lands           = table[record.Land]("land.bin")
	SnapshotLinks   = table[record.SnapshotLink]("snapshot_link.bin")
	Plans           = table[record.Plan]("plan.bin")
	PlanRevisions   = table[record.PlanRevision]("plan_revision.bin")
	PlanItems       = table[record.PlanItem]("plan_item.bin")
	Lines           = table[record.Line]("line.bin")
	Snapshots       = table[record.Snapshot]("snapshot.bin")

	// SnapshotParentEdges name the parents of Snapshots, those of one child by
	// ordinal.
	SnapshotParentEdges = table[record.SnapshotParentEdge]("snapshot_parent_edge.bin")

	WorkerJobs = table[record.WorkerJob]("worker_job.bin")

	TaskPayload         = Payload{mustFamily("task_payload.bin")}
	ChangePayload       = Payload{mustFamily("change_payload.bin")}
	PatchsetSummary     = Payload{mustFamily("patchset_summary_payload.bin")}
	ActorPayload        = Payload{mustFamily("actor_payload.bin")}
	ReviewPayload       = Payload{mustFamily("review_payload.bin")}
	WaiverPayload       = Payload{mustFamily("waiver_payload.bin")}
	SnapshotLinkPayload = Payload{mustFamily("snapshot_link_payload.bin")}
	PlanPayload         = Payload{mustFamily("plan_payload.bin")}
	PlanRevisionPayload = Payload{mustFamily("plan_revision_payload.bin")}
	PlanItemPayload     = Payload{mustFamily("plan_item_payload.bin")}
	LineNamePayload     = Payload{mustFamily("line_name_payload.bin")}
	SnapshotPayload     = Payload{mustFamily("snapshot_payload.bin")}
)

// The chain rows of a repository root (section 6): row i belongs to owner i.
var (
	TaskChanges      = table[record.OrdinalChain]("task_change_index.bin")
	TaskPatchsets    = table[record.InventoryChain]("task_patchset_index.bin")
	TaskAttests      = table[record.OrdinalChain]("task_attest_index.bin")
	TaskReviews      = table[record.InventoryChain]("task_review_index.bin")
	TaskPolicies     = table[record.InventoryChain]("task_policy_index.bin")
	TaskWaivers      = table[record.OrdinalChain]("task_waiver_index.bin")
	TaskLands        = table[record.InventoryChain]("task_land_index.bin")
	TaskSnapshots    = table[record.OrdinalChain]("task_snapshot_index.bin")
	ChangePatchsets  = table[record.OrdinalChain]("change_patchset_index.bin")
	ChangeLands      = table[record.OrdinalChain]("change_land_index.bin")
	ChangeSnapshots  = table[record.InventoryChain]("change_snapshot_index.bin")
	PatchsetAttests  = table[record.InventoryChain]("patchset_attest_index.bin")
	PatchsetReviews  = table[record.OrdinalChain]("patchset_review_index.bin")
	PatchsetPolicies = table[record.OrdinalChain]("patchset_policy_index.bin")
	PatchsetWaivers  = table[record.InventoryChain]("patchset_waiver_index.bin")
)
