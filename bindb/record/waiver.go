package record

// Waiver sets one requirement aside for a Patchset, with a reason (Binary DB v0,
// section 5.8).
//
//bindb:record file=waiver.bin root=authority family=workflow kind=record size=44 name=WaiverRecord const=WAIVER_RECORD_SIZE
type Waiver struct {
	Meta               WaiverMeta `bin:"waiver_meta"`                                              // whether it was revoked
	Ordinal            uint8      `bin:"waiver_ordinal"`                                           // 0..63, unique in the Task
	PatchOrdinal       uint8      `bin:"patch_ordinal"`                                            // copy of the Patchset's ordinal
	ChangeOrdinal      uint8      `bin:"change_ordinal"`                                           // copy of the Change's ordinal
	Patchset           uint32     `bin:"patchset_index" target:"patchset.bin"`                     // owner
	PreviousInTask     Ref        `bin:"previous_task_waiver_index_plus1" target:"waiver.bin"`     // Waiver of the Task with the next smaller ordinal
	PreviousInPatchset Ref        `bin:"previous_patchset_waiver_index_plus1" target:"waiver.bin"` // Waiver of the Patchset that was recorded before this one
	PayloadOffset      uint64     `bin:"payload_offset" target:"waiver_payload.bin"`               // reason
	PayloadLen         uint16     `bin:"payload_len"`                                              // at least 1
	Rule               RuleCode   `bin:"rule_code"`                                                // requirement that is set aside
	CreatedAt          Seconds    `bin:"created_at_s"`                                             // required
	ExpiresAt          Seconds    `bin:"expires_at_s"`                                             // zero when it never expires
}

// WaiverMeta is the metadata byte of a Waiver (section 7.8).
//
//bindb:bits revoked=0 tombstoned=7
type WaiverMeta uint8

// RuleCode names the requirement that a Waiver sets aside: the check kind plus
// one (section 8.7). Stored codes without a name are accepted and have no
// effect; zero is corrupt.
//
//bindb:enum open
type RuleCode uint16

const (
	RuleCodeRequireAttestation  RuleCode = 1  // require_attestation
	RuleCodeAIProvenance        RuleCode = 2  // ai_provenance
	RuleCodeCodeReviewSummary   RuleCode = 3  // code_review_summary
	RuleCodeTests               RuleCode = 4  // tests: cannot be waived
	RuleCodeLint                RuleCode = 5  // lint
	RuleCodeSecurityScan        RuleCode = 6  // security_scan
	RuleCodeLicenseScan         RuleCode = 7  // license_scan
	RuleCodeRequiredHumanReview RuleCode = 8  // required_human_review
	RuleCodeCIRolloutPhase      RuleCode = 9  // ci_rollout_phase: cannot be waived
	RuleCodeCIPatchsetSuite     RuleCode = 10 // ci_patchset_suite: cannot be waived
)

// Rule is the code under which a Waiver names the check kind.
func (k CheckKind) Rule() RuleCode { return RuleCode(k) + 1 }

// CheckKind is the kind that the rule waives, and false for a code without a
// meaning.
func (c RuleCode) CheckKind() (CheckKind, bool) {
	if !c.Valid() {
		return 0, false
	}
	return CheckKind(c - 1), true
}

// Waivable says whether a writer may waive the rule. Tests and CI suites are
// evidence that nobody can stand in for.
func (c RuleCode) Waivable() bool {
	switch c {
	case RuleCodeTests, RuleCodeCIRolloutPhase, RuleCodeCIPatchsetSuite:
		return false
	}
	return c.Valid()
}

// ActiveAt says whether the Waiver has effect at time t: neither revoked nor
// tombstoned nor expired. It no longer has at the exact second of its expiry.
func (r *Waiver) ActiveAt(t Seconds) bool {
	return !r.Meta.Revoked() && !r.Meta.Tombstoned() && (r.ExpiresAt == 0 || t < r.ExpiresAt)
}

// Check verifies the invariants that the record alone can show, those of W01.
func (r *Waiver) Check() error {
	switch {
	case r.PayloadLen < 1:
		return fieldError("W01", "payload_len", r.PayloadLen, "at least 1")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.Rule == 0:
		return fieldError("W01", "rule_code", uint16(r.Rule), "a rule")
	case r.CreatedAt == 0:
		return fieldError("W01", "created_at_s", r.CreatedAt, "a time")
	case r.ExpiresAt != 0 && r.ExpiresAt <= r.CreatedAt:
		return fieldError("W01", "expires_at_s", r.ExpiresAt, "zero or a time after created_at_s")
	}
	return checkOrdinals("waiver_ordinal", r.Ordinal, r.PatchOrdinal, r.ChangeOrdinal)
}
