package workitem

// The inputs and answers of every verb. One declaration serves REST, MCP, the
// command line and the Go client: `path` and `query` name the places of a member
// in a REST call, every other member of an input is a member of the JSON body.

// SubmitInput is one submission: the request as it was received, byte for byte,
// since its canonical form is what the digests cover.
type SubmitInput struct {
	Request []byte `json:"request"`
	// MaxAttempts is 1..100; nil is 3.
	MaxAttempts *int `json:"max_attempts,omitempty" query:"max_attempts" doc:"Attempts before the job becomes a dead letter, 1 to 100 (default 3)"`
	// BackoffBase is in seconds, 0..86400; nil is what the server is set to.
	BackoffBase *float64 `json:"backoff_base_s,omitempty" query:"backoff_base_s" doc:"Seconds before the first retry, doubled for each further one, 0 to 86400"`
	// IdempotencyKey is the key of the Idempotency-Key header. If it is not empty
	// it must be the key of the request.
	IdempotencyKey string `json:"-" header:"Idempotency-Key"`
	// Trace is the W3C trace context of the submitter, or empty.
	Trace string `json:"-" header:"Traceparent"`
}

// Handle answers a submission.
type Handle struct {
	ContractVersion string `json:"contract_version"`
	JobID           string `json:"job_id"`
	WorkItemID      string `json:"work_item_id"`
	RequestID       string `json:"request_id"`
	State           string `json:"state"`
	InputDigest     string `json:"input_digest"`
	Deduplicated    bool   `json:"deduplicated"`
}

// JobInput names one job by either form of its identifier.
type JobInput struct {
	JobID string `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
}

// GetInput reads a job, at once or when it has ended.
type GetInput struct {
	JobID string   `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Wait  *float64 `json:"wait_s,omitempty" query:"wait_s" doc:"Seconds to wait for what until names, 0 to 60"`
	Until string   `json:"until,omitempty" query:"until" doc:"terminal: wait until the job has ended" enum:"terminal"`
}

// Target is a place where a job may run: local, or an entry of an inventory.
type Target struct {
	Kind             string   `json:"kind"`
	Alias            *string  `json:"alias"`
	CapabilityLabels []string `json:"capability_labels"`
}

// Consent is what the submitter has agreed to.
type Consent struct {
	AllowPush               bool    `json:"allow_push"`
	AllowDestructiveCleanup bool    `json:"allow_destructive_cleanup"`
	RiskAcknowledged        bool    `json:"risk_acknowledged"`
	RiskMarker              *string `json:"risk_marker"`
}

// Lease is the lease of a job as its view shows it: also one that has run out and
// was not given to anybody else yet. Times are seconds since the Unix epoch.
type Lease struct {
	Owner        string   `json:"owner"`
	Epoch        int64    `json:"epoch"`
	FencingToken int64    `json:"fencing_token"`
	Attempt      int      `json:"attempt"`
	HeartbeatAt  *float64 `json:"heartbeat_at"`
	ExpiresAt    *float64 `json:"expires_at"`
}

// Request facts that the view and the result of a job share.
type (
	// View is a job as its tenant sees it. Every member is always there; one that
	// is not set is null.
	View struct {
		ContractVersion string   `json:"contract_version"`
		JobID           string   `json:"job_id"`
		WorkItemID      string   `json:"work_item_id"`
		RequestID       string   `json:"request_id"`
		Operation       string   `json:"operation"`
		Kind            string   `json:"kind"`
		State           string   `json:"state"`
		RepositoryID    string   `json:"repository_id"`
		TenantID        string   `json:"tenant_id"`
		OwnerID         string   `json:"owner_id"`
		SessionID       string   `json:"session_id"`
		BaseRef         string   `json:"base_ref"`
		BaseSHA         string   `json:"base_sha"`
		TargetKind      string   `json:"target_kind"`
		TargetAlias     *string  `json:"target_alias"`
		LaneID          *string  `json:"lane_id"`
		CandidateID     *string  `json:"candidate_id"`
		GenerationID    *string  `json:"generation_id"`
		Dependencies    []string `json:"dependencies"`
		InputDigest     string   `json:"input_digest"`
		ConfigDigest    *string  `json:"config_digest"`
		CorrelationID   *string  `json:"correlation_id"`
		ResourceClass   string   `json:"resource_class"`
		ConcurrencyKey  string   `json:"concurrency_key"`
		FairnessGroup   string   `json:"fairness_group"`
		Priority        int      `json:"priority"`
		CPUWeight       int      `json:"cpu_weight"`
		MemoryMiB       int      `json:"memory_mib"`
		DiskMiB         int      `json:"disk_mib"`
		ProcessSlots    int      `json:"process_slots"`
		HostLabels      []string `json:"host_labels"`
		PreferredTarget Target   `json:"preferred_target"`
		RequiredTarget  *Target  `json:"required_target"`
		AntiAffinity    []string `json:"anti_affinity"`
		QueueDeadline   *string  `json:"queue_deadline"`
		DiskLow         *int64   `json:"disk_low_watermark_mib"`
		DiskHigh        *int64   `json:"disk_high_watermark_mib"`
		Consent         Consent  `json:"consent"`
		Attempt         int      `json:"attempt"`
		MaxAttempts     int      `json:"max_attempts"`
		Checkpoint      *string  `json:"checkpoint"`
		RetryClass      *string  `json:"retry_class"`
		ResultRef       *string  `json:"result_ref"`
		ErrorRef        *string  `json:"error_ref"`
		Lease           *Lease   `json:"lease"`
		CreatedAt       string   `json:"created_at" format:"date-time"`
		UpdatedAt       string   `json:"updated_at" format:"date-time"`
		CompletedAt     *string  `json:"completed_at" format:"date-time"`
	}

	// Result is how a job ended.
	Result struct {
		ContractVersion string   `json:"contract_version"`
		JobID           string   `json:"job_id"`
		WorkItemID      string   `json:"work_item_id"`
		RequestID       string   `json:"request_id"`
		Operation       string   `json:"operation"`
		State           string   `json:"state"`
		RepositoryID    string   `json:"repository_id"`
		TenantID        string   `json:"tenant_id"`
		TargetKind      string   `json:"target_kind"`
		TargetAlias     *string  `json:"target_alias"`
		LaneID          *string  `json:"lane_id"`
		CandidateID     *string  `json:"candidate_id"`
		GenerationID    *string  `json:"generation_id"`
		InputDigest     string   `json:"input_digest"`
		ConfigDigest    *string  `json:"config_digest"`
		ResourceClass   string   `json:"resource_class"`
		ConcurrencyKey  string   `json:"concurrency_key"`
		FairnessGroup   string   `json:"fairness_group"`
		Priority        int      `json:"priority"`
		CPUWeight       int      `json:"cpu_weight"`
		MemoryMiB       int      `json:"memory_mib"`
		DiskMiB         int      `json:"disk_mib"`
		ProcessSlots    int      `json:"process_slots"`
		HostLabels      []string `json:"host_labels"`
		PreferredTarget Target   `json:"preferred_target"`
		RequiredTarget  *Target  `json:"required_target"`
		AntiAffinity    []string `json:"anti_affinity"`
		QueueDeadline   *string  `json:"queue_deadline"`
		DiskLow         *int64   `json:"disk_low_watermark_mib"`
		DiskHigh        *int64   `json:"disk_high_watermark_mib"`
		Consent         Consent  `json:"consent"`
		Attempt         int      `json:"attempt"`
		Checkpoint      *string  `json:"checkpoint"`
		RetryClass      *string  `json:"retry_class"`
		ResultRef       *string  `json:"result_ref"`
		ErrorRef        *string  `json:"error_ref"`
		FailureClass    *string  `json:"failure_class"`
		RefusalCode     *string  `json:"refusal_code"`
	}
)

// Claim is what a worker receives and presents again with everything it does to
// the job. It says which lease is meant; it is not a credential.
type Claim struct {
	WorkItemID     string   `json:"work_item_id"`
	JobID          string   `json:"job_id"`
	Kind           string   `json:"kind"`
	Tenant         string   `json:"tenant"`
	PayloadRef     string   `json:"payload_ref"`
	DependsOn      []string `json:"depends_on"`
	LeaseOwner     string   `json:"lease_owner"`
	LeaseEpoch     int64    `json:"lease_epoch"`
	FenceToken     int64    `json:"fence_token"`
	FencingToken   int64    `json:"fencing_token"`
	Attempt        int      `json:"attempt"`
	MaxAttempts    int      `json:"max_attempts"`
	LeaseExpiresAt float64  `json:"lease_expires_at"`
}

// Fence is the part of a Claim that a worker must send back. Whole claims are
// taken too: JobID and Tenant are compared if they are there.
type Fence struct {
	WorkItemID   string `json:"work_item_id"`
	LeaseOwner   string `json:"lease_owner"`
	LeaseEpoch   int64  `json:"lease_epoch"`
	FencingToken int64  `json:"fencing_token"`
	JobID        string `json:"job_id,omitempty"`
	Tenant       string `json:"tenant,omitempty"`
}

// Fence is the part of the claim that goes back to the server.
func (c *Claim) Fence() Fence {
	return Fence{WorkItemID: c.WorkItemID, LeaseOwner: c.LeaseOwner, LeaseEpoch: c.LeaseEpoch,
		FencingToken: c.FencingToken, JobID: c.JobID, Tenant: c.Tenant}
}

// ClaimInput claims one job.
type ClaimInput struct {
	JobID  string `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Worker string `json:"worker" doc:"Who works, at most 256 bytes; the lease names it"`
	// LeaseTTL is in seconds, above 0 and at most 86400; nil is 3600.
	LeaseTTL *float64 `json:"lease_ttl_s,omitempty" doc:"Seconds until the lease runs out, at most 86400 (default 3600)"`
	// ClaimRequestID makes a repeated claim answer with the same lease.
	ClaimRequestID string `json:"claim_request_id,omitempty" doc:"At most 128 bytes; a claim repeated with it gets the same lease"`
}

// ClaimNextInput claims the next job of one kind.
type ClaimNextInput struct {
	Kind           string   `json:"kind" doc:"One registered kind, for instance repository.build"`
	Worker         string   `json:"worker" doc:"Who works, at most 256 bytes; the lease names it"`
	LeaseTTL       *float64 `json:"lease_ttl_s,omitempty" doc:"Seconds until the lease runs out, at most 86400 (default 3600)"`
	ResourceClass  string   `json:"resource_class,omitempty" doc:"Only jobs of this resource class"`
	FairnessGroup  string   `json:"fairness_group,omitempty" doc:"Only jobs of this fairness group, in strict order"`
	Wait           *float64 `json:"wait_s,omitempty" doc:"Seconds to wait for a job, 0 to 60"`
	ClaimRequestID string   `json:"claim_request_id,omitempty" doc:"At most 128 bytes; a claim repeated with it gets the same lease"`
}

// Reasons of a claim that was answered. Each but Claimed says why there is none.
const (
	ReasonClaimed        = "claimed"
	ReasonEmpty          = "empty" // claim-next only
	ReasonSubmitted      = "submitted"
	ReasonLeased         = "leased"
	ReasonBackoff        = "backoff"
	ReasonDeadlinePassed = "deadline_passed"
	ReasonConsentDenied  = "consent_denied"
	ReasonTerminal       = "terminal"
	ReasonExhausted      = "exhausted"
	ReasonTenantQuota    = "tenant_quota"
	ReasonFaulty         = "faulty" // its row or its dependencies are damaged
)

// ClaimAnswer is a claim, or why there is none. Job is the view of the claimed
// job, in answers to claim-next.
type ClaimAnswer struct {
	Claimed bool   `json:"claimed"`
	Reason  string `json:"reason"`
	Claim   *Claim `json:"claim"`
	Job     *View  `json:"job,omitempty"`
	// Trace is the W3C trace context of the submission, or empty.
	Trace string `json:"-" header:"Traceparent"`
}

// CurrentClaimInput asks for the tuple of a live lease that the caller holds.
type CurrentClaimInput struct {
	JobID  string `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Worker string `json:"worker" query:"worker" doc:"The worker that the lease names"`
}

// HeartbeatInput renews a lease: it then runs out LeaseTTL seconds from now, also
// if that is sooner than before.
type HeartbeatInput struct {
	JobID    string   `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Claim    Fence    `json:"claim"`
	LeaseTTL *float64 `json:"lease_ttl_s,omitempty" doc:"Seconds until the lease runs out, at most 86400 (default 3600)"`
}

// Renewal answers a heartbeat. A refused one is an *Error.
type Renewal struct {
	Renewed        bool    `json:"renewed"`
	LeaseExpiresAt float64 `json:"lease_expires_at"`
}

// CheckpointInput records how far a job has come, and renews the lease.
type CheckpointInput struct {
	JobID      string   `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Claim      Fence    `json:"claim"`
	Checkpoint string   `json:"checkpoint" doc:"checkpoint: and 1 to 240 of a-z 0-9 _ . : -"`
	LeaseTTL   *float64 `json:"lease_ttl_s,omitempty" doc:"Seconds until the lease runs out, at most 86400 (default 3600)"`
}

// Checkpointed answers a checkpoint. A refused one is an *Error.
type Checkpointed struct {
	Applied        bool    `json:"applied"`
	LeaseExpiresAt float64 `json:"lease_expires_at"`
}

// CommitInput ends an attempt.
type CommitInput struct {
	JobID        string  `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Claim        Fence   `json:"claim"`
	Outcome      string  `json:"outcome" enum:"succeeded,failed,cancelled"`
	ResultRef    *string `json:"result_ref,omitempty" doc:"Where the result is, at most 2048 bytes"`
	ErrorRef     *string `json:"error_ref,omitempty" doc:"Where the error is, at most 2048 bytes"`
	FailureClass *string `json:"failure_class,omitempty" doc:"Why it failed; not together with refusal_code"`
	RefusalCode  *string `json:"refusal_code,omitempty" doc:"Why it was refused; not together with failure_class"`
	// Retryable is true unless it says otherwise.
	Retryable *bool `json:"retryable,omitempty" doc:"Whether a failure may be tried again (default true)"`
}

// Outcomes of a commit that was accepted, and of a defer.
const (
	Committed      = "committed"
	RetryScheduled = "retry_scheduled"
	DeadLettered   = "dead_letter"
	Noop           = "noop"
	Deferred       = "deferred"
)

// Settled answers a commit or a defer. A fenced or missing one is an *Error.
type Settled struct {
	Status string `json:"status"`
}

// DeferInput gives a lease back without using the attempt up.
type DeferInput struct {
	JobID       string   `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Claim       Fence    `json:"claim"`
	NextRetryAt *string  `json:"next_retry_at,omitempty" format:"date-time" doc:"Not claimable before"`
	Delay       *float64 `json:"delay_s,omitempty" doc:"Not claimable for this many seconds"`
	Reason      string   `json:"reason,omitempty" doc:"At most 512 bytes"`
}

// CancelInput cancels a job. Mode is force (the default) or if_idle, which refuses
// while a lease is live.
type CancelInput struct {
	JobID  string `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Reason string `json:"reason,omitempty" doc:"At most 512 bytes"`
	Mode   string `json:"mode,omitempty" enum:"force,if_idle" doc:"force (default) takes the job from its holder; if_idle refuses while a lease is live"`
}

// Cancelled answers a cancellation.
type Cancelled struct {
	Cancelled bool `json:"cancelled"`
	Changed   bool `json:"changed"`
	Job       View `json:"job"`
}

// RetryInput makes a new job of one that failed, was cancelled or is a dead
// letter. Adopt gives the old job's children to the new one.
type RetryInput struct {
	JobID string `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Adopt bool   `json:"adopt,omitempty" doc:"Children that wait for the old job wait for the new one"`
}

// RetryHandle answers a retry.
type RetryHandle struct {
	Handle
	RetryOf string `json:"retry_of"`
	Adopted int    `json:"adopted"`
}

// ListInput selects jobs, oldest first.
type ListInput struct {
	Operation     string   `json:"operation,omitempty" query:"operation"`
	Kind          string   `json:"kind,omitempty" query:"kind"`
	State         []string `json:"state,omitempty" query:"state" doc:"Repeatable; dead-letter and dead_letter are the same"`
	RepositoryID  string   `json:"repository_id,omitempty" query:"repository_id"`
	LaneID        string   `json:"lane_id,omitempty" query:"lane_id"`
	CandidateID   string   `json:"candidate_id,omitempty" query:"candidate_id"`
	GenerationID  string   `json:"generation_id,omitempty" query:"generation_id"`
	CorrelationID string   `json:"correlation_id,omitempty" query:"correlation_id"`
	OwnerID       string   `json:"owner_id,omitempty" query:"owner_id"`
	ResourceClass string   `json:"resource_class,omitempty" query:"resource_class"`
	CreatedAfter  string   `json:"created_after,omitempty" query:"created_after" format:"date-time"`
	CreatedBefore string   `json:"created_before,omitempty" query:"created_before" format:"date-time"`
	TenantID      string   `json:"tenant_id,omitempty" query:"tenant_id" doc:"If given, it must be the caller's"`
	Claimable     *bool    `json:"claimable,omitempty" query:"claimable" doc:"Only jobs that could be claimed now, apart from the quota"`
	Blocked       *bool    `json:"blocked,omitempty" query:"blocked" doc:"Only jobs that wait for a parent which has ended without success"`
	Limit         *int     `json:"limit,omitempty" query:"limit" doc:"1 to 1000 (default 100)"`
	Cursor        string   `json:"cursor,omitempty" query:"cursor" doc:"next_cursor of the page before"`
}

// Page is one page of a listing.
type Page struct {
	Items      []View  `json:"items"`
	NextCursor *string `json:"next_cursor"`
	Scanned    int     `json:"scanned"`
	Exhausted  bool    `json:"exhausted"`
	Corrupt    int     `json:"corrupt"`
}

// Related is another job as diagnostics and the graph show it.
type Related struct {
	WorkItemID string `json:"work_item_id"`
	State      string `json:"state"`
}

// Diagnostics says why a job is or is not claimable. WhyNot has the reasons, in
// the order in which a claim meets them; Quota is reported apart. Downstream has at
// most 100 jobs, and DownstreamTruncated says that there are more, of which Graph
// shows some.
type Diagnostics struct {
	JobID               string    `json:"job_id"`
	PrioBucket          int       `json:"prio_bucket"`
	DepCount            int       `json:"dep_count"`
	BlockedBy           []Related `json:"blocked_by"`
	Downstream          []Related `json:"downstream"`
	DownstreamTruncated bool      `json:"downstream_truncated"`
	NextRetryAt         *string   `json:"next_retry_at" format:"date-time"`
	DeadlinePassed      bool      `json:"deadline_passed"`
	LeaseExpired        bool      `json:"lease_expired"`
	ConsentState        string    `json:"consent_state"`
	DeferCount          int       `json:"defer_count"`
	CancelReason        *string   `json:"cancel_reason"`
	Claimable           bool      `json:"claimable"`
	WhyNot              []Why     `json:"why_not"`
	Quota               Quota     `json:"quota"`
	Fault               *string   `json:"fault"`
}

// Why is one reason that keeps a job from being claimed, and what ends it.
type Why struct {
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// Quota is how many leases of the tenant are live, and how many may be.
type Quota struct {
	LiveLeases int  `json:"live_leases"`
	Limit      int  `json:"limit"`
	Reached    bool `json:"reached"`
}

// Transition is one change of a job's status. Only Event, At, From, To and Epoch
// are always set.
type Transition struct {
	Seq     int    `json:"seq"`
	At      string `json:"at" format:"date-time"`
	Event   string `json:"event"`
	From    string `json:"from"`
	To      string `json:"to"`
	Epoch   int64  `json:"epoch"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// History is what happened to a job, oldest first.
type History struct {
	JobID string       `json:"job_id"`
	Items []Transition `json:"items"`
}

// ConsentInput changes the consent of a gated job. Action is revoke, restore or
// expire_at.
type ConsentInput struct {
	JobID     string  `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Action    string  `json:"action" enum:"revoke,restore,expire_at"`
	ExpiresAt *string `json:"expires_at,omitempty" format:"date-time" doc:"With expire_at: when the consent lapses"`
}

// ConsentState is the gate of a job.
type ConsentState struct {
	JobID     string  `json:"job_id"`
	Required  bool    `json:"consent_required"`
	State     string  `json:"consent_state" enum:"not_required,absent,active,lapsed"`
	Scope     string  `json:"consent_scope"`
	Subject   string  `json:"consent_subject"`
	Basis     string  `json:"consent_basis"`
	GrantedAt *string `json:"consent_granted_at" format:"date-time"`
	ExpiresAt *string `json:"consent_expires_at" format:"date-time"`
}

// ReconcileInput sets the size of a page of the pass, 1..1000.
type ReconcileInput struct {
	Limit *int `json:"limit,omitempty" doc:"Rows a page, 1 to 1000 (default 100); the pass always reaches the end"`
}

// Reconciled answers a reconciliation.
type Reconciled struct {
	Repaired int `json:"repaired"`
	Scanned  int `json:"scanned"`
	Faults   int `json:"faults"`
}

// KindEntry is one row of the registry of kinds.
type KindEntry struct {
	Operation string `json:"operation"`
	Kind      string `json:"kind"`
}

// Kinds is the registry of kinds.
type Kinds struct {
	Items []KindEntry `json:"items"`
}

// Stats are the counts of one tenant. Ages are seconds.
type Stats struct {
	Kinds          []KindStats `json:"kinds"`
	LiveLeases     int         `json:"live_leases"`
	Quota          int         `json:"quota"`
	Claimable      int         `json:"claimable"`
	OldestReadyAge *float64    `json:"oldest_ready_age_s"`
	Faults         int         `json:"faults"`
}

// KindStats are the counts of one kind, by state.
type KindStats struct {
	Kind      string         `json:"kind"`
	States    map[string]int `json:"states"`
	Claimable int            `json:"claimable"`
}

// GraphInput asks for what a job depends on and what depends on it.
type GraphInput struct {
	JobID string `json:"job_id" path:"id" doc:"rmjob:UUID or workitem:repository_manager:UUID"`
	Limit *int   `json:"limit,omitempty" query:"limit" doc:"Jobs at most, 1 to 1000 (default 200)"`
}

// Graph is the part of the dependency graph around one job. An edge's Parent must
// succeed before its Child is released.
type Graph struct {
	JobID     string      `json:"job_id"`
	Nodes     []GraphNode `json:"nodes"`
	Edges     []GraphEdge `json:"edges"`
	Truncated bool        `json:"truncated"`
}

// GraphNode is one job of a Graph.
type GraphNode struct {
	WorkItemID string `json:"work_item_id"`
	Operation  string `json:"operation"`
	State      string `json:"state"`
	RequestID  string `json:"request_id"`
}

// GraphEdge is one dependency of a Graph.
type GraphEdge struct {
	Parent string `json:"parent"`
	Child  string `json:"child"`
}

// PruneInput drops terminal jobs that ended longer ago than OlderThan seconds.
type PruneInput struct {
	OlderThan float64 `json:"older_than_s" doc:"Seconds since the job ended"`
	DryRun    bool    `json:"dry_run,omitempty" doc:"Only count"`
}

// Pruned answers a prune. Kept are old enough, but have children that have not
// ended.
type Pruned struct {
	Pruned int `json:"pruned"`
	Kept   int `json:"kept"`
}

// EpochRaised answers RaiseEpoch: the authority epoch before and after.
type EpochRaised struct {
	Previous int64 `json:"previous_epoch"`
	Epoch    int64 `json:"epoch"`
}

// TokenInput makes a token. An empty Tenant is the caller's.
type TokenInput struct {
	Name    string   `json:"name" doc:"What the token is for"`
	Subject string   `json:"subject" doc:"Who presents it"`
	Tenant  string   `json:"tenant,omitempty"`
	Owner   string   `json:"owner,omitempty" doc:"On whose behalf it submits (default: the subject)"`
	Scopes  []string `json:"scopes" doc:"jobs:read, jobs:write, jobs:work, jobs:tenant, jobs:on-behalf, jobs:admin"`
}

// NewToken has the secret of a token. It is shown once and stored only hashed.
type NewToken struct {
	Token string `json:"token"`
	TokenEntry
}

// TokenEntry is a token without its secret.
type TokenEntry struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Subject   string   `json:"subject"`
	Tenant    string   `json:"tenant"`
	Owner     string   `json:"owner"`
	Scopes    []string `json:"scopes"`
	CreatedAt string   `json:"created_at" format:"date-time"`
	RevokedAt *string  `json:"revoked_at" format:"date-time"`
}

// TokenList has the tokens that the caller may see.
type TokenList struct {
	Items []TokenEntry `json:"items"`
}

// RevokeInput revokes a token for good.
type RevokeInput struct {
	ID string `json:"id" path:"id" doc:"The id of the token"`
}

// NoInput is the input of verbs that take none.
type NoInput struct{}
