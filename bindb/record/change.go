package record

// Change is one line of work on a Task that is reviewed and landed as a whole
// (Binary DB v0, section 5.2).
//
//bindb:record file=change.bin root=authority family=workflow kind=record size=68 name=RemoteChangeRecord const=REMOTE_CHANGE_RECORD_SIZE
type Change struct {
	Meta             ChangeMeta  `bin:"change_meta"`                                         // lifecycle and progress
	RemoteMeta       RemoteMeta  `bin:"remote_meta"`                                         // deleted Changes are skipped by every reader
	PayloadLen       uint16      `bin:"payload_len"`                                         // at least 1
	Ordinal          uint8       `bin:"change_ordinal"`                                      // 0..63, unique in the Task
	State            ChangeState `bin:"change_state"`                                        // how an archived Change ended
	_                uint16      `bin:"reserved1"`                                           // zero
	PayloadOffset    uint64      `bin:"payload_offset" target:"change_payload.bin"`          // title
	Task             uint32      `bin:"task_index" target:"task.bin"`                        // owner
	PreviousInTask   Ref         `bin:"previous_change_index_plus1" target:"change.bin"`     // Change of the Task with the next smaller ordinal
	SelectedPatchset Ref         `bin:"selected_patchset_index_plus1" target:"patchset.bin"` // Patchset under review, of this Change
	ForkSnapshot     Ref         `bin:"fork_snapshot_index_plus1" target:"snapshot.bin"`     // Snapshot that the work started from, if known
	CreatedAt        Seconds     `bin:"created_at_s"`                                        // required
	UpdatedAt        Seconds     `bin:"updated_at_s"`                                        // required
	FetchedAt        Seconds     `bin:"fetched_at_s"`                                        // creation time on a server
	BaseLine         Ref         `bin:"base_line_index_plus1" target:"line.bin"`             // required; Line that the Change is meant for
	ArchivedAt       Seconds     `bin:"archived_at_s"`                                       // set only when archived
}

// ChangeMeta is the metadata byte of a Change (section 7.2).
//
//bindb:bits lifecycle=0..1:ChangeLifecycle has_patchsets=2 review_pending=3 validation_pending=4 ready_to_land=5 blocked=6 superseded=7
type ChangeMeta uint8

// ChangeState refines the archived lifecycle (section 7.2).
//
//bindb:bits canceled=0
type ChangeState uint8

// ChangeLifecycle is the stage of a Change (section 7.2).
//
//bindb:enum
type ChangeLifecycle uint8

const (
	ChangeLifecycleDraft    ChangeLifecycle = 0 // draft: has no Patchset yet
	ChangeLifecycleActive   ChangeLifecycle = 1 // active: under review
	ChangeLifecycleLanded   ChangeLifecycle = 2 // landed: a Land succeeded
	ChangeLifecycleArchived ChangeLifecycle = 3 // archived: put aside, superseded or canceled
)

// Check verifies the invariants that the record alone can show, T04 among them.
func (r *Change) Check() error {
	archived := r.Meta.Lifecycle() == ChangeLifecycleArchived
	switch {
	case r.PayloadLen < 1:
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 1")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.ArchivedAt != 0 && !archived:
		return fieldError("T04", "archived_at_s", r.ArchivedAt, "zero unless archived")
	case r.Meta.Superseded() && !archived:
		return fieldError("T04", "change_meta", uint8(r.Meta), "superseded only when archived")
	case r.State.Canceled() && !archived:
		return fieldError("T04", "change_state", uint8(r.State), "canceled only when archived")
	case r.SelectedPatchset != 0 && !r.Meta.HasPatchsets():
		return fieldError("T05", "selected_patchset_index_plus1", r.SelectedPatchset, "zero without has_patchsets")
	case r.BaseLine == 0:
		return fieldError("T03", "base_line_index_plus1", r.BaseLine, "a Line")
	case r.CreatedAt == 0:
		return fieldError("T04", "created_at_s", r.CreatedAt, "a time")
	case r.UpdatedAt == 0:
		return fieldError("T04", "updated_at_s", r.UpdatedAt, "a time")
	}
	return checkOrdinal("change_ordinal", r.Ordinal)
}
