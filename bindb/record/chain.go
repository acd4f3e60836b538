package record

// OrdinalChain heads the list of an owner's members in the order of their
// ordinals and allocates the next one (Binary DB v0, section 6.3).
//
//bindb:record kind=chain size=8 name=OrdinalChainRow
//bindb:chain file=task_change_index.bin owner=task.bin member=change.bin name=TaskChangeIndexRecord fields=latest_change_index_plus1,change_count,next_change_ordinal,reserved0
//bindb:chain file=task_attest_index.bin owner=task.bin member=attest.bin name=TaskAttestIndexRecord const=TASK_ATTEST_INDEX_RECORD_SIZE fields=latest_attest_index_plus1,attest_count,next_attest_ordinal,reserved0
//bindb:chain file=task_waiver_index.bin owner=task.bin member=waiver.bin name=TaskWaiverIndexRecord const=TASK_WAIVER_INDEX_RECORD_SIZE fields=latest_waiver_index_plus1,waiver_count,next_waiver_ordinal,reserved0
//bindb:chain file=task_snapshot_index.bin owner=task.bin member=snapshot_link.bin name=TaskSnapshotIndexRecord fields=latest_snapshot_link_index_plus1,snapshot_count,next_snapshot_ordinal,reserved0
//bindb:chain file=change_patchset_index.bin owner=change.bin member=patchset.bin name=ChangePatchsetIndexRecord const=CHANGE_PATCHSET_INDEX_RECORD_SIZE fields=latest_patchset_index_plus1,patchset_count,next_patch_ordinal,reserved0
//bindb:chain file=change_land_index.bin owner=change.bin member=land.bin name=ChangeLandIndexRecord const=CHANGE_LAND_INDEX_RECORD_SIZE fields=latest_land_index_plus1,land_count,next_land_ordinal,reserved0
//bindb:chain file=patchset_review_index.bin owner=patchset.bin member=review.bin name=PatchsetReviewIndexRecord const=PATCHSET_REVIEW_INDEX_RECORD_SIZE fields=latest_review_index_plus1,review_count,next_review_ordinal,reserved0
//bindb:chain file=patchset_policy_index.bin owner=patchset.bin member=policy.bin name=PatchsetPolicyIndexRecord const=PATCHSET_POLICY_INDEX_RECORD_SIZE fields=latest_policy_index_plus1,policy_count,next_policy_ordinal,reserved0
type OrdinalChain struct {
	Latest Ref    `bin:"latest_index_plus1"` // member with the greatest ordinal
	Count  uint16 `bin:"count"`              // all members, tombstoned ones included
	Next   uint8  `bin:"next_ordinal"`       // greatest ordinal plus one; 64 when none is left
	_      uint8  `bin:"reserved0"`          // zero
}

// InventoryChain heads the list of an owner's members in the order in which they
// were recorded (Binary DB v0, section 6.4).
//
//bindb:record kind=chain size=8 name=InventoryChainRow
//bindb:chain file=task_patchset_index.bin owner=task.bin member=patchset.bin name=TaskPatchsetIndexRecord const=TASK_PATCHSET_INDEX_RECORD_SIZE fields=latest_patchset_index_plus1,patchset_count,reserved0
//bindb:chain file=task_review_index.bin owner=task.bin member=review.bin name=TaskReviewIndexRecord const=TASK_REVIEW_INDEX_RECORD_SIZE fields=latest_review_index_plus1,review_count,reserved0
//bindb:chain file=task_policy_index.bin owner=task.bin member=policy.bin name=TaskPolicyIndexRecord const=TASK_POLICY_INDEX_RECORD_SIZE fields=latest_policy_index_plus1,policy_count,reserved0
//bindb:chain file=task_land_index.bin owner=task.bin member=land.bin name=TaskLandIndexRecord const=TASK_LAND_INDEX_RECORD_SIZE fields=latest_land_index_plus1,land_count,reserved0
//bindb:chain file=change_snapshot_index.bin owner=change.bin member=snapshot_link.bin name=ChangeSnapshotIndexRecord fields=latest_snapshot_link_index_plus1,snapshot_count,reserved0
//bindb:chain file=patchset_attest_index.bin owner=patchset.bin member=attest.bin name=PatchsetAttestIndexRecord const=PATCHSET_ATTEST_INDEX_RECORD_SIZE fields=latest_attest_index_plus1,attest_count,reserved0
//bindb:chain file=patchset_waiver_index.bin owner=patchset.bin member=waiver.bin name=PatchsetWaiverIndexRecord const=PATCHSET_WAIVER_INDEX_RECORD_SIZE fields=latest_waiver_index_plus1,waiver_count,reserved0
type InventoryChain struct {
	Latest Ref    `bin:"latest_index_plus1"` // member with the greatest index
	Count  uint16 `bin:"count"`              // all members, tombstoned ones included
	_      uint16 `bin:"reserved0"`          // zero
}

// Check verifies that the row is empty as a whole or not at all, and that its
// members fit the ordinals that were allocated (C02, C03).
func (r *OrdinalChain) Check() error {
	switch {
	case (r.Count == 0) != (r.Latest == 0):
		return fieldError("C02", "count", r.Count, "zero exactly when the latest reference is")
	case r.Next > MaxOrdinals:
		return fieldError("C03", "next_ordinal", r.Next, "0..64")
	case (r.Count == 0) != (r.Next == 0):
		return fieldError("C02", "next_ordinal", r.Next, "zero exactly when the count is")
	case r.Count > uint16(r.Next):
		return fieldError("C02", "count", r.Count, "at most next_ordinal")
	}
	return nil
}

// Check verifies that the row is empty as a whole or not at all (C02).
func (r *InventoryChain) Check() error {
	if (r.Count == 0) != (r.Latest == 0) {
		return fieldError("C02", "count", r.Count, "zero exactly when the latest reference is")
	}
	return nil
}
