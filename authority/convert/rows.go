package convert

// The documents of legacy rows (section 19.3). Names are those of the tables and
// objects of the server that wrote them. A row has its identity, its owners, and
// what the record keeps; an optional member is a copy or a projection, which must
// agree with the rest if it is there. docs/conversion.md lists them all.

// document is one Repository: repositories/<index>.json.
type document struct {
	RepoID          string           `row:"repo_id"` // the row of operational.json that it belongs to
	Tasks           []taskRow        `row:"tasks"`
	Changes         []changeRow      `row:"changes"`
	Patchsets       []patchsetRow    `row:"patchsets"`
	Attestations    []attestationRow `row:"attestations"`
	Reviews         []reviewRow      `row:"reviews"`
	PolicyDecisions []decisionRow    `row:"policy_decisions"`
	Waivers         []waiverRow      `row:"waivers"`
	Lands           []landRow        `row:"lands"`
}

type taskRow struct {
	TaskID   string  `row:"task_id"`
	RepoName *string `row:"repo_name,optional"`
	RepoID   *string `row:"repo_id,optional"`
	Seq      uint32  `row:"task_seq"`
	Title    string  `row:"title"`
	Intent   string  `row:"intent"`
	Planning string  `row:"planning_state"`
	Status   string  `row:"status"`

	PlanID       *string `row:"plan_id,optional"`
	Revision     *string `row:"origin_plan_revision_id,optional"`
	PlanItem     *string `row:"plan_item_ref,optional"`
	PlanSection  *string `row:"plan_section_ref,optional"`
	PlanDrift    *string `row:"plan_drift_state,optional"`
	PlanLinkedAt moment  `row:"plan_linked_at,optional"`

	CreatedAt moment `row:"created_at"`
	UpdatedAt moment `row:"updated_at"`
	ClosedAt  moment `row:"closed_at,optional"`
}

type changeRow struct {
	ChangeID  string  `row:"change_id"`
	ChangeRef *string `row:"change_ref,optional"`
	RepoName  *string `row:"repo_name,optional"`
	RepoID    *string `row:"repo_id,optional"`
	TaskID    string  `row:"task_id"`
	Title     string  `row:"title"`
	Status    string  `row:"status"`

	BaseLine     string  `row:"base_line"`
	ForkSnapshot *string `row:"fork_snapshot_id,optional"`
	ForkedFrom   *string `row:"forked_from_line,optional"`
	TargetLine   *string `row:"target_line,optional"`

	Current    uint32  `row:"current_patchset_number"`
	Selected   *uint32 `row:"selected_patchset_number"`
	SelectedID *string `row:"selected_patchset_id,optional"`

	CreatedAt  moment `row:"created_at"`
	UpdatedAt  moment `row:"updated_at"`
	LandedAt   moment `row:"landed_at,optional"`
	ArchivedAt moment `row:"archived_at,optional"`
}

type patchsetRow struct {
	PatchsetID string  `row:"patchset_id"`
	RepoName   *string `row:"repo_name,optional"`
	RepoID     *string `row:"repo_id,optional"`
	ChangeID   *string `row:"change_id,optional"`
	ChangeRef  *string `row:"change_ref,optional"`
	Number     uint32  `row:"patchset_number"`

	Base     string `row:"base_snapshot_id"`
	Revision string `row:"revision_snapshot_id"`

	Summary     string       `row:"summary"`
	AuthorMode  string       `row:"author_mode"`
	Publish     string       `row:"publish_state"`
	Withdrawn   bool         `row:"withdrawn,optional"`
	Invalidated bool         `row:"invalidated,optional"`
	Evaluation  string       `row:"evaluation_state"`
	DiffStats   *diffStatRow `row:"diff_stats,optional"`

	CIRunSeq      *uint32 `row:"ci_run_seq,optional"`
	CICompletedAt *uint64 `row:"ci_completed_at_s,optional"` // Unix seconds, as the name says
	CI            *ciRow  `row:"ci,optional"`

	CreatedAt moment `row:"created_at"`
}

type diffStatRow struct {
	Added    uint32        `row:"files_added"`
	Deleted  uint32        `row:"files_deleted"`
	Modified uint32        `row:"files_modified"`
	Changed  uint32        `row:"files_changed"`
	Paths    *diffPathsRow `row:"paths,optional"`
}

type diffPathsRow struct {
	Added    []string `row:"added"`
	Deleted  []string `row:"deleted"`
	Modified []string `row:"modified"`
}

type ciRow struct {
	CompletedAt moment  `row:"completed_at"`
	RunSeq      uint32  `row:"run_seq"`
	Selected    uint16  `row:"selected_suite_count"`
	Results     uint16  `row:"suite_result_count"`
	Blocking    uint16  `row:"blocking_failure_count"`
	Overall     *string `row:"overall_status"`
	Tests       *string `row:"tests_status"`
	Lint        *string `row:"lint_status"`
}

type attestationRow struct {
	AttestationID *string `row:"attestation_id,optional"`
	RepoName      *string `row:"repo_name,optional"`
	RepoID        *string `row:"repo_id,optional"`
	TaskID        *string `row:"task_id,optional"`
	ChangeID      *string `row:"change_id,optional"`
	ChangeRef     *string `row:"change_ref,optional"`
	PatchsetID    *string `row:"patchset_id,optional"` // null in a compact row

	Verification string         `row:"verification_state"`
	Revoked      bool           `row:"revoked,optional"`
	Tests        bool           `row:"require_tests_pass"`
	HumanReview  bool           `row:"require_human_review"`
	Lint         bool           `row:"require_lint_pass"`
	CIBacked     bool           `row:"ci_backed"`
	AuthorMode   *string        `row:"author_mode,optional"`
	Evaluation   *evaluationRow `row:"evaluation_summary,optional"`

	AttestedAt moment `row:"attested_at,optional"`
	CreatedAt  moment `row:"created_at,optional"`
}

type evaluationRow struct {
	Tests *string `row:"tests,optional"`
	Lint  *string `row:"lint,optional"`
}

type reviewRow struct {
	ReviewID   string  `row:"review_id"`
	RepoName   *string `row:"repo_name,optional"`
	RepoID     *string `row:"repo_id,optional"`
	TaskID     *string `row:"task_id,optional"`
	ChangeID   *string `row:"change_id,optional"`
	ChangeRef  *string `row:"change_ref,optional"`
	PatchsetID string  `row:"patchset_id"`

	Groups   []string `row:"requested_groups,optional"`
	Reviewer *string  `row:"reviewer,optional"`
	Action   string   `row:"action"`
	Comment  *string  `row:"comment,optional"`
	Note     *string  `row:"note,optional"`
	Blocking bool     `row:"blocking"`

	CreatedAt moment `row:"created_at,optional"`
}

type decisionRow struct {
	DecisionID  string     `row:"policy_decision_id"`
	RepoName    *string    `row:"repo_name,optional"`
	RepoID      *string    `row:"repo_id,optional"`
	PatchsetID  string     `row:"patchset_id"`
	Decision    string     `row:"decision"`
	Checks      []checkRow `row:"checks"`
	PolicyID    *string    `row:"policy_id,optional"`
	Fingerprint *string    `row:"input_fingerprint,optional"`
	EvaluatedAt moment     `row:"evaluated_at"`
}

type checkRow struct {
	Name    string  `row:"name"`
	Label   *string `row:"label,optional"`
	Status  string  `row:"status"`
	Message *string `row:"message,optional"`
	Subject *uint16 `row:"subject_ordinal,optional"`
	Detail  *uint32 `row:"detail_flags,optional"`
}

type waiverRow struct {
	WaiverID   *string `row:"waiver_id,optional"`
	RepoName   *string `row:"repo_name,optional"`
	RepoID     *string `row:"repo_id,optional"`
	TaskID     *string `row:"task_id,optional"`
	ChangeID   *string `row:"change_id,optional"`
	ChangeRef  *string `row:"change_ref,optional"`
	PatchsetID string  `row:"patchset_id"`

	Rule    string `row:"rule_name"`
	Reason  string `row:"reason"`
	Revoked bool   `row:"revoked,optional"`

	CreatedAt moment `row:"created_at"`
	ExpiresAt moment `row:"expires_at,optional"`
}

type landRow struct {
	SubmissionID string  `row:"submission_id"`
	RepoName     *string `row:"repo_name,optional"`
	RepoID       *string `row:"repo_id,optional"`
	Seq          *uint32 `row:"land_seq,optional"`
	ChangeID     *string `row:"change_id,optional"`
	ChangeRef    *string `row:"change_ref,optional"`
	PatchsetID   string  `row:"patchset_id"`

	TargetLine string  `row:"target_line"`
	Mode       string  `row:"mode"`
	Status     string  `row:"status"`
	Failure    *string `row:"failure_kind,optional"`
	Result     *string `row:"result,optional"`
	PreTarget  *string `row:"pre_land_target_snapshot_id,optional"`
	Landed     *string `row:"landed_snapshot_id,optional"`
	LineAction *string `row:"line_action,optional"`

	CreatedAt moment `row:"created_at,optional"`
	UpdatedAt moment `row:"updated_at,optional"`
}

// operational is the document of the tables that belong to no Repository:
// operational.json (section 19.4).
type operational struct {
	Repositories []repositoryRow `row:"repositories"`
	Jobs         []jobRow        `row:"jobs"`
}

type repositoryRow struct {
	RepoID      string    `row:"repo_id"`
	RepoName    string    `row:"repo_name"`
	Namespace   *string   `row:"namespace"`
	DefaultLine string    `row:"default_line"`
	Lifecycle   string    `row:"lifecycle"`
	Policy      policyRow `row:"policy"`
	CreatedAt   moment    `row:"created_at"`
	UpdatedAt   moment    `row:"updated_at"`
}

type policyRow struct {
	PolicyID  string             `row:"policy_id"`
	Version   *uint32            `row:"version,optional"`
	Defaults  *policyDefaultsRow `row:"defaults,optional"`
	Overrides *[]overrideRow     `row:"class_overrides,optional"`
}

type policyDefaultsRow struct {
	Attestation   *bool `row:"require_attestation,optional"`
	Tests         *bool `row:"require_tests,optional"`
	Lint          *bool `row:"require_lint,optional"`
	SecurityScan  *bool `row:"require_security_scan,optional"`
	LicenseScan   *bool `row:"require_license_scan,optional"`
	AIProvenance  *bool `row:"require_ai_provenance,optional"`
	ReviewSummary *bool `row:"require_code_review_summary,optional"`
}

type overrideRow struct {
	When overrideWhenRow `row:"when"`
	Set  overrideSetRow  `row:"set"`
}

type overrideWhenRow struct {
	ContentClass string `row:"content_class"`
}

// overrideSetRow has exactly what relaxed checks for documentation turn off.
type overrideSetRow struct {
	Tests        bool `row:"require_tests"`
	Lint         bool `row:"require_lint"`
	SecurityScan bool `row:"require_security_scan"`
	LicenseScan  bool `row:"require_license_scan"`
}

type jobRow struct {
	JobID      uint64  `row:"job_id"`
	RepoID     string  `row:"repo_id"`
	Type       string  `row:"job_type"`
	State      string  `row:"state"`
	Attempts   uint16  `row:"attempt_count"`
	Max        uint16  `row:"max_attempts"`
	PatchsetID *string `row:"patchset_id,optional"`
	SnapshotID *string `row:"snapshot_id,optional"`

	Result *jobResultRow `row:"result,optional"`
	Error  *string       `row:"error,optional"`

	Request  opaque `row:"request,optional"`
	Context  opaque `row:"runner_context,optional"`
	Payload  opaque `row:"payload,optional"`
	LockedBy opaque `row:"locked_by,optional"`

	AvailableAt moment `row:"available_at"`
	LockedAt    moment `row:"locked_at,optional"`
	CreatedAt   moment `row:"created_at"`
	UpdatedAt   moment `row:"updated_at"`
}

type jobResultRow struct {
	Status string  `row:"status"`
	Reason *string `row:"reason,optional"`
}

// repositoryOrder is the document that fixes the indexes of Repositories.
type repositoryOrder struct {
	Schema  string   `row:"schema"`
	RepoIDs []string `row:"repo_ids"`
}
