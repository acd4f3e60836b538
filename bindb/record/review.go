package record

// Review is what one Actor said about a Patchset (Binary DB v0, section 5.6).
//
//bindb:record file=review.bin root=authority family=workflow kind=record size=40 name=ServerReviewRecord const=SERVER_REVIEW_RECORD_SIZE
type Review struct {
	Meta               ReviewMeta `bin:"review_meta"`                                              // action and whether it blocks
	Ordinal            uint8      `bin:"review_ordinal"`                                           // 0..63, unique in the Patchset
	PatchOrdinal       uint8      `bin:"patch_ordinal"`                                            // copy of the Patchset's ordinal
	ChangeOrdinal      uint8      `bin:"change_ordinal"`                                           // copy of the Change's ordinal
	Actor              Ref        `bin:"actor_index_plus1" target:"actor.bin"`                     // required; the reviewer, or the team that a request goes to
	Patchset           uint32     `bin:"patchset_index" target:"patchset.bin"`                     // owner
	PreviousInTask     Ref        `bin:"previous_task_review_index_plus1" target:"review.bin"`     // Review of the Task that was recorded before this one
	PreviousInPatchset Ref        `bin:"previous_patchset_review_index_plus1" target:"review.bin"` // Review of the Patchset with the next smaller ordinal
	PayloadOffset      uint64     `bin:"payload_offset" target:"review_payload.bin"`               // comment or note
	PayloadLen         uint16     `bin:"payload_len"`                                              // zero without a text
	_                  uint16     `bin:"reserved0"`                                                // zero
	CreatedAt          Seconds    `bin:"created_at_s"`                                             // zero only when unknown
}

// ReviewMeta is the metadata byte of a Review: a base action with modifiers, of
// which eleven sets are valid, and independent of them whether it blocks
// (section 7.6).
//
//bindb:bits base=0..2:ReviewBase blocking=3 task_lane=4 code_review_summary=5 defer=6 tombstoned=7
type ReviewMeta uint8

// ReviewBase is the base action of a Review (section 7.6).
//
//bindb:enum
type ReviewBase uint8

const (
	ReviewBaseRequest        ReviewBase = 0 // request
	ReviewBaseComment        ReviewBase = 1 // comment
	ReviewBaseApprove        ReviewBase = 2 // approve
	ReviewBaseRequestChanges ReviewBase = 3 // request_changes
	ReviewBaseDismiss        ReviewBase = 4 // dismiss
)

// ReviewAction is a valid set of base action and modifiers. Its value is the
// metadata byte of a Review that neither blocks nor is tombstoned (section 7.6).
//
//bindb:enum
type ReviewAction uint8

const (
	ReviewActionRequest            ReviewAction = 0x00 // request: asks a team for a review
	ReviewActionComment            ReviewAction = 0x01 // comment
	ReviewActionTaskComment        ReviewAction = 0x11 // task_comment: a comment in the lane of the Task
	ReviewActionCodeReviewSummary  ReviewAction = 0x21 // code_review_summary: a comment that sums a code review up
	ReviewActionDefer              ReviewAction = 0x41 // defer: no decision by this Actor
	ReviewActionTaskDefer          ReviewAction = 0x51 // task_defer: defer in the lane of the Task
	ReviewActionApprove            ReviewAction = 0x02 // approve
	ReviewActionTaskApprove        ReviewAction = 0x12 // task_approve: approve in the lane of the Task
	ReviewActionRequestChanges     ReviewAction = 0x03 // request_changes
	ReviewActionTaskRequestChanges ReviewAction = 0x13 // task_request_changes: request_changes in the lane of the Task
	ReviewActionDismiss            ReviewAction = 0x04 // dismiss
)

const reviewActionMask = 0x77

// Action is the base action with its modifiers. The error is a *FieldError for a
// set that the format does not know (R01).
func (m ReviewMeta) Action() (ReviewAction, error) {
	a := ReviewAction(m & reviewActionMask)
	if !a.Valid() {
		return 0, fieldError("R01", "review_meta", uint8(m), "one of the eleven sets of base action and modifiers")
	}
	return a, nil
}

// SetAction replaces base action and modifiers and keeps the other bits.
func (m *ReviewMeta) SetAction(a ReviewAction) {
	*m = *m&^reviewActionMask | ReviewMeta(a)&reviewActionMask
}

// Base is the base action without modifiers.
func (a ReviewAction) Base() ReviewBase { return ReviewMeta(a).Base() }

// Check verifies the invariants that the record alone can show, R01 among them.
func (r *Review) Check() error {
	if _, err := r.Meta.Action(); err != nil {
		return err
	}
	switch {
	case r.Actor == 0:
		return fieldError("R02", "actor_index_plus1", r.Actor, "an Actor")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	}
	return checkOrdinals("review_ordinal", r.Ordinal, r.PatchOrdinal, r.ChangeOrdinal)
}
