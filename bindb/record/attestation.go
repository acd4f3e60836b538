package record

// Attestation states what was verified about a Patchset and what it asks for
// beyond the defaults of the Repository (Binary DB v0, section 5.4).
//
//bindb:record file=attest.bin root=authority family=workflow kind=record size=24 name=ServerAttestationRecord const=SERVER_ATTEST_RECORD_SIZE
type Attestation struct {
	Meta               AttestMeta `bin:"attest_meta"`                                              // verification state and requirements
	Ordinal            uint8      `bin:"attest_ordinal"`                                           // 0..63, unique in the Task
	PatchOrdinal       uint8      `bin:"patch_ordinal"`                                            // copy of the Patchset's ordinal
	ChangeOrdinal      uint8      `bin:"change_ordinal"`                                           // copy of the Change's ordinal
	Patchset           uint32     `bin:"patchset_index" target:"patchset.bin"`                     // owner
	PreviousInTask     Ref        `bin:"previous_task_attest_index_plus1" target:"attest.bin"`     // Attestation of the Task with the next smaller ordinal
	PreviousInPatchset Ref        `bin:"previous_patchset_attest_index_plus1" target:"attest.bin"` // Attestation of the Patchset that was recorded before this one
	CreatedAt          Seconds    `bin:"created_at_s"`                                             // zero only when unknown
}

// AttestMeta is the metadata byte of an Attestation (section 7.4).
//
//bindb:bits verification_state=0..1:VerificationState revoked=2 require_tests_pass=3 require_human_review=4 require_lint_pass=5 ci_backed=6 tombstoned=7
type AttestMeta uint8

// VerificationState is what an Attestation found (section 7.4).
//
//bindb:enum
type VerificationState uint8

const (
	VerificationStateUnknown VerificationState = 0 // unknown
	VerificationStatePending VerificationState = 1 // pending
	VerificationStatePass    VerificationState = 2 // pass
	VerificationStateFail    VerificationState = 3 // fail
)

// Check verifies the invariants that the record alone can show.
func (r *Attestation) Check() error {
	return checkOrdinals("attest_ordinal", r.Ordinal, r.PatchOrdinal, r.ChangeOrdinal)
}
