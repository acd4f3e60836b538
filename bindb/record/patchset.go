package record

// Patchset is one immutable version of a Change: a base and a revision Snapshot
// with a summary, and the compact evidence of its CI run (Binary DB v0, section
// 5.3).
//
//bindb:record file=patchset.bin root=authority family=workflow kind=record size=65 name=ServerPatchsetRecord const=SERVER_PATCHSET_RECORD_SIZE
type Patchset struct {
	Meta               PatchsetMeta `bin:"patchset_meta"`                                              // flags, author mode and publish state
	Ordinal            uint8        `bin:"patch_ordinal"`                                              // 0..63, unique in the Change
	ChangeOrdinal      uint8        `bin:"change_ordinal"`                                             // copy of the owner's ordinal
	_                  uint8        `bin:"reserved0"`                                                  // zero
	Change             uint32       `bin:"change_index" target:"change.bin"`                           // owner
	PreviousInTask     Ref          `bin:"previous_task_patchset_index_plus1" target:"patchset.bin"`   // Patchset of the Task that was recorded before this one
	PreviousInChange   Ref          `bin:"previous_change_patchset_index_plus1" target:"patchset.bin"` // Patchset of the Change with the next smaller ordinal
	BaseSnapshot       uint32       `bin:"base_snapshot_index" target:"snapshot.bin"`                  // state that the revision is compared with
	RevisionSnapshot   uint32       `bin:"revision_snapshot_index" target:"snapshot.bin"`              // state that is proposed
	CreatedAt          Seconds      `bin:"created_at_s"`                                               // required
	CICompletedAt      Seconds      `bin:"ci_completed_at_s"`                                          // zero until the run is complete
	CIRunSeq           uint32       `bin:"ci_run_seq"`                                                 // runs started so far; zero means never run
	CISelectedSuites   uint16       `bin:"ci_selected_suite_count"`                                    // suites that the run selected
	CISuiteResults     uint16       `bin:"ci_suite_result_count"`                                      // suites with a result, at most those selected
	CIBlockingFailures uint16       `bin:"ci_blocking_failure_count"`                                  // blocking suites that failed, at most the results
	CIStatus           CIStatusBits `bin:"ci_status_bits"`                                             // outcome as a whole, of the tests and of the lint
	SummaryOffset      uint64       `bin:"summary_offset" target:"patchset_summary_payload.bin"`       // human description of this Patchset
	SummaryLen         uint16       `bin:"summary_len"`                                                // at least 1
	CIJob              Ref          `bin:"ci_worker_job_index_plus1" target:"worker_job.bin"`          // selected patchset.ci Job, if a Job backs the CI state
}

// PatchsetMeta is the metadata byte of a Patchset (section 7.3). A clear
// evaluation_pending means that the latest decision is current and not pending.
//
//bindb:bits withdrawn=0 invalidated=1 author_mode=2..4:AuthorMode publish_state=5..6:PublishState evaluation_pending=7
type PatchsetMeta uint8

// AuthorMode says who wrote a Patchset (section 7.3). Native writers use the
// first four.
//
//bindb:enum
type AuthorMode uint8

const (
	AuthorModeHumanOnly          AuthorMode = 0 // human_only
	AuthorModeHumanWithAIAssist  AuthorMode = 1 // human_with_ai_assist
	AuthorModeAIWithHumanReview  AuthorMode = 2 // ai_with_human_review
	AuthorModeAIOnlyExperimental AuthorMode = 3 // ai_only_experimental
	AuthorModeAgent              AuthorMode = 4 // agent: read only, from older servers
	AuthorModeCodex              AuthorMode = 5 // codex: read only, from older servers
	AuthorModeXHigh              AuthorMode = 6 // xhigh: read only, from older servers
)

// PublishState says whether a Patchset still stands (section 7.3).
//
//bindb:enum
type PublishState uint8

const (
	PublishStatePublished  PublishState = 0 // published
	PublishStateSuperseded PublishState = 2 // superseded
)

// CIStatusBits holds three CI statuses (section 5.3).
//
//bindb:bits overall=0..1:CIStatus tests=2..3:CIStatus lint=4..5:CIStatus
type CIStatusBits uint8

// CIStatus is one outcome of a CI run (section 8.4).
//
//bindb:enum
type CIStatus uint8

const (
	CIStatusNone  CIStatus = 0 // none
	CIStatusPass  CIStatus = 1 // pass
	CIStatusFail  CIStatus = 2 // fail
	CIStatusError CIStatus = 3 // error
)

// Check verifies the invariants that the record alone can show: the summary
// locator and the three states of the compact CI evidence (P04, P05).
func (r *Patchset) Check() error {
	switch {
	case r.SummaryLen < 1:
		return fieldError("P03", "summary_len", r.SummaryLen, "at least 1")
	case r.SummaryOffset < HeaderSize:
		return fieldError("P03", "summary_offset", r.SummaryOffset, "at least 4")
	case r.CreatedAt == 0:
		return fieldError("P08", "created_at_s", r.CreatedAt, "a time")
	}
	if err := checkOrdinal("patch_ordinal", r.Ordinal); err != nil {
		return err
	}
	if err := checkOrdinal("change_ordinal", r.ChangeOrdinal); err != nil {
		return err
	}
	if r.CICompletedAt != 0 {
		switch {
		case r.CIRunSeq == 0:
			return fieldError("P04", "ci_run_seq", r.CIRunSeq, "at least 1 for a completed run")
		case r.CIStatus.Overall() == CIStatusNone:
			return fieldError("P04", "ci_status_bits", uint8(r.CIStatus), "an overall status for a completed run")
		case r.CISuiteResults > r.CISelectedSuites:
			return fieldError("P05", "ci_suite_result_count", r.CISuiteResults, "at most ci_selected_suite_count")
		case r.CIBlockingFailures > r.CISuiteResults:
			return fieldError("P05", "ci_blocking_failure_count", r.CIBlockingFailures, "at most ci_suite_result_count")
		}
		return nil
	}
	const want = "zero without a completed run"
	switch {
	case r.CISelectedSuites != 0:
		return fieldError("P04", "ci_selected_suite_count", r.CISelectedSuites, want)
	case r.CISuiteResults != 0:
		return fieldError("P04", "ci_suite_result_count", r.CISuiteResults, want)
	case r.CIBlockingFailures != 0:
		return fieldError("P04", "ci_blocking_failure_count", r.CIBlockingFailures, want)
	case r.CIStatus != 0:
		return fieldError("P04", "ci_status_bits", uint8(r.CIStatus), want)
	}
	return nil
}
