package record

// Land is one attempt to land a Patchset on a Line (Binary DB v0, section 5.9).
//
//bindb:record file=land.bin root=authority family=workflow kind=record size=48 name=ServerLandRecord const=SERVER_LAND_RECORD_SIZE
type Land struct {
	Meta             LandMeta    `bin:"land_meta"`                                                  // status and mode
	Ordinal          uint8       `bin:"land_ordinal"`                                               // 0..63, unique in the Change
	ChangeOrdinal    uint8       `bin:"change_ordinal"`                                             // copy of the Change's ordinal
	Failure          LandFailure `bin:"failure_kind"`                                               // why it was blocked or failed
	Change           uint32      `bin:"change_index" target:"change.bin"`                           // owner
	Patchset         uint32      `bin:"patchset_index" target:"patchset.bin"`                       // accepted Patchset of the same Change
	PreviousInTask   Ref         `bin:"previous_task_land_index_plus1" target:"land.bin"`           // Land of the Task that was recorded before this one
	PreviousInChange Ref         `bin:"previous_change_land_index_plus1" target:"land.bin"`         // Land of the Change with the next smaller ordinal
	PreTarget        Ref         `bin:"pre_land_target_snapshot_index_plus1" target:"snapshot.bin"` // head of the target Line before the attempt
	Landed           Ref         `bin:"landed_snapshot_index_plus1" target:"snapshot.bin"`          // set exactly when the attempt succeeded
	SubmittedAt      Seconds     `bin:"submitted_at_s"`                                             // zero only when unknown
	UpdatedAt        Seconds     `bin:"updated_at_s"`                                               // time of the latest change of status
	TargetLine       Ref         `bin:"target_line_index_plus1" target:"line.bin"`                  // required
}

// LandMeta is the metadata byte of a Land (section 7.9). The has bits agree with
// the references.
//
//bindb:bits status=0..2:LandStatus has_pre_target=3 has_landed_snapshot=4 mode=5..6:LandMode tombstoned=7
type LandMeta uint8

// LandStatus is the state of an attempt to land (section 7.9).
//
//bindb:enum
type LandStatus uint8

const (
	LandStatusQueued    LandStatus = 0 // queued
	LandStatusRunning   LandStatus = 1 // running
	LandStatusSucceeded LandStatus = 2 // succeeded
	LandStatusBlocked   LandStatus = 3 // blocked
	LandStatusFailed    LandStatus = 4 // failed
	LandStatusCanceled  LandStatus = 5 // canceled
	LandStatusUpdating  LandStatus = 6 // updating
)

// LandMode says how the revision joins the target Line (section 7.9).
//
//bindb:enum
type LandMode uint8

const (
	LandModeDirect LandMode = 0 // direct
	LandModeMerge  LandMode = 1 // merge
	LandModeFFOnly LandMode = 2 // ff-only
)

// LandFailure says why an attempt was blocked or failed (section 8.8).
//
//bindb:enum
type LandFailure uint8

const (
	LandFailureNone               LandFailure = 0 // none
	LandFailureBaseStale          LandFailure = 1 // BASE_STALE
	LandFailurePolicyBlocked      LandFailure = 2 // POLICY_BLOCKED
	LandFailureReviewBlocked      LandFailure = 3 // REVIEW_BLOCKED
	LandFailureCIBlocked          LandFailure = 4 // CI_BLOCKED
	LandFailureConflict           LandFailure = 5 // CONFLICT
	LandFailureTargetUpdateFailed LandFailure = 6 // TARGET_UPDATE_FAILED
	LandFailureInternalError      LandFailure = 7 // INTERNAL_ERROR
)

// Check verifies the invariants that the record alone can show: flags agree with
// the references, and status with landed Snapshot and failure (N01).
func (r *Land) Check() error {
	status := r.Meta.Status()
	switch {
	case r.Meta.HasPreTarget() != (r.PreTarget != 0):
		return fieldError("N01", "pre_land_target_snapshot_index_plus1", r.PreTarget, "set exactly when has_pre_target is")
	case r.Meta.HasLandedSnapshot() != (r.Landed != 0):
		return fieldError("N01", "landed_snapshot_index_plus1", r.Landed, "set exactly when has_landed_snapshot is")
	case (status == LandStatusSucceeded) != (r.Landed != 0):
		return fieldError("N01", "landed_snapshot_index_plus1", r.Landed, "set exactly when the status is succeeded")
	case r.Failure != LandFailureNone && status != LandStatusBlocked && status != LandStatusFailed:
		return fieldError("N01", "failure_kind", uint8(r.Failure), "none unless the status is blocked or failed")
	case r.TargetLine == 0:
		return fieldError("N01", "target_line_index_plus1", r.TargetLine, "a Line")
	}
	if err := checkOrdinal("land_ordinal", r.Ordinal); err != nil {
		return err
	}
	return checkOrdinal("change_ordinal", r.ChangeOrdinal)
}
