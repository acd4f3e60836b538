package record

// PolicyDecision is one evaluation of the policy for a Patchset (Binary DB v0,
// section 5.7). Decisions are immutable; a new evaluation appends a new one.
//
//bindb:record file=policy.bin root=authority family=workflow kind=record size=32 name=PolicyDecisionRecord const=POLICY_DECISION_RECORD_SIZE
type PolicyDecision struct {
	Meta               PolicyMeta `bin:"policy_meta"`                                              // the decision
	Ordinal            uint8      `bin:"policy_ordinal"`                                           // 0..63, unique in the Patchset
	PatchOrdinal       uint8      `bin:"patch_ordinal"`                                            // copy of the Patchset's ordinal
	ChangeOrdinal      uint8      `bin:"change_ordinal"`                                           // copy of the Change's ordinal
	Patchset           uint32     `bin:"patchset_index" target:"patchset.bin"`                     // owner
	PreviousInTask     Ref        `bin:"previous_task_policy_index_plus1" target:"policy.bin"`     // decision of the Task that was recorded before this one
	PreviousInPatchset Ref        `bin:"previous_patchset_policy_index_plus1" target:"policy.bin"` // decision of the Patchset with the next smaller ordinal
	FirstCheck         Ref        `bin:"first_check_index_plus1" target:"policy_check.bin"`        // first row of its checks, none without checks
	CheckCount         uint16     `bin:"check_count"`                                              // rows that follow one another, in order of evaluation
	_                  uint16     `bin:"reserved0"`                                                // zero
	CreatedAt          Seconds    `bin:"created_at_s"`                                             // time of the evaluation
}

// PolicyCheck is one row of a decision: one requirement and how it stood
// (section 5.7). Labels and messages are not stored.
//
//bindb:record file=policy_check.bin root=authority family=workflow kind=record size=8 name=PolicyCheckRecord const=POLICY_CHECK_RECORD_SIZE
type PolicyCheck struct {
	Kind    CheckKind   `bin:"check_kind"`      // the requirement
	Status  CheckStatus `bin:"check_status"`    // how it stood
	Subject uint16      `bin:"subject_ordinal"` // the rollout phase, or the place of the suite in the catalog counted from 1, else zero
	Detail  CheckDetail `bin:"detail_flags"`    // role of a suite, else zero
}

// PolicyMeta is the metadata byte of a decision (section 7.7).
//
//bindb:bits decision=0..2:DecisionKind tombstoned=7
type PolicyMeta uint8

// DecisionKind is the result of an evaluation (section 8.5).
//
//bindb:enum
type DecisionKind uint8

const (
	DecisionKindPending  DecisionKind = 0 // pending: something is still missing
	DecisionKindPass     DecisionKind = 1 // pass: every requirement is met
	DecisionKindSoftFail DecisionKind = 2 // soft_fail: read only, from older servers
	DecisionKindHardFail DecisionKind = 3 // hard_fail: a requirement failed
	DecisionKindWaived   DecisionKind = 4 // waived: met, with the help of a Waiver
)

// CheckKind names a requirement (section 8.6).
//
//bindb:enum
type CheckKind uint8

const (
	CheckKindRequireAttestation  CheckKind = 0 // require_attestation
	CheckKindAIProvenance        CheckKind = 1 // ai_provenance
	CheckKindCodeReviewSummary   CheckKind = 2 // code_review_summary
	CheckKindTests               CheckKind = 3 // tests
	CheckKindLint                CheckKind = 4 // lint
	CheckKindSecurityScan        CheckKind = 5 // security_scan
	CheckKindLicenseScan         CheckKind = 6 // license_scan
	CheckKindRequiredHumanReview CheckKind = 7 // required_human_review
	CheckKindCIRolloutPhase      CheckKind = 8 // ci_rollout_phase: subject is the phase
	CheckKindCIPatchsetSuite     CheckKind = 9 // ci_patchset_suite: subject is the place of the suite in the catalog
)

// CheckStatus says how a requirement stood (section 8.6).
//
//bindb:enum
type CheckStatus uint8

const (
	CheckStatusAbsent       CheckStatus = 0 // absent
	CheckStatusNotRequired  CheckStatus = 1 // not_required
	CheckStatusPending      CheckStatus = 2 // pending
	CheckStatusPass         CheckStatus = 3 // pass
	CheckStatusHardFail     CheckStatus = 4 // hard_fail
	CheckStatusSoftFail     CheckStatus = 5 // soft_fail
	CheckStatusWaived       CheckStatus = 6 // waived
	CheckStatusOptionalFail CheckStatus = 7 // optional_fail
)

// CheckDetail says whether a suite blocks or informs; exactly one of the two for
// a ci_patchset_suite, none for every other kind (section 8.6).
//
//bindb:bits blocking=0 informational=1
type CheckDetail uint32

// Check verifies the invariants that the record alone can show, the first part
// of K02 among them.
func (r *PolicyDecision) Check() error {
	if (r.FirstCheck == 0) != (r.CheckCount == 0) {
		return fieldError("K02", "check_count", r.CheckCount, "zero exactly when first_check_index_plus1 is")
	}
	return checkOrdinals("policy_ordinal", r.Ordinal, r.PatchOrdinal, r.ChangeOrdinal)
}

// Check verifies that subject and detail suit the kind (K03).
func (r *PolicyCheck) Check() error {
	switch r.Kind {
	case CheckKindCIPatchsetSuite:
		if r.Subject == 0 {
			return fieldError("K03", "subject_ordinal", r.Subject, "a place in the catalog, counted from 1")
		}
		if r.Detail.Blocking() == r.Detail.Informational() {
			return fieldError("K03", "detail_flags", uint32(r.Detail), "exactly one of blocking (1) and informational (2)")
		}
		return nil
	case CheckKindCIRolloutPhase:
	default:
		if r.Subject != 0 {
			return fieldError("K03", "subject_ordinal", r.Subject, "zero for "+r.Kind.String())
		}
	}
	if r.Detail != 0 {
		return fieldError("K03", "detail_flags", uint32(r.Detail), "zero for "+r.Kind.String())
	}
	return nil
}
