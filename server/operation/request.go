package operation

// JobRequest is the frozen v1 development request as a submitter sends it (section
// 5). It documents the body of job_submit and helps clients in Go to write one;
// the authority reads the bytes as they came, since digests cover them.
type JobRequest struct {
	ContractVersion    string            `json:"contract_version,omitempty" enum:"1" doc:"The version of the contract (default 1)"`
	RequestID          string            `json:"request_id,omitempty" doc:"Identifies this request; required, under this name or as id"`
	ID                 string            `json:"id,omitempty" doc:"Another name of request_id"`
	IdempotencyKey     string            `json:"idempotency_key" doc:"With the tenant it makes the job's identity"`
	Operation          string            `json:"operation" enum:"lane.allocate,lane.check,repository,validation,build,merge,release,candidate.submit,generation.certify,branch.land,workspace.validate,workspace.bump,workspace.push,repair"`
	Repository         *Repository       `json:"repository,omitempty"`
	RepositoryID       string            `json:"repository_id,omitempty" doc:"Instead of repository.repository_id"`
	BaseRef            string            `json:"base_ref" doc:"A Git ref name"`
	BaseSHA            string            `json:"base_sha" pattern:"^[0-9a-f]{40}$" doc:"The commit of base_ref"`
	OwnerID            string            `json:"owner_id" doc:"On whose behalf; it must be the caller's owner unless it holds jobs:on-behalf"`
	SessionID          string            `json:"session_id"`
	TenantID           string            `json:"tenant_id,omitempty" doc:"Must be the caller's; required, under this name or as tenant"`
	Tenant             string            `json:"tenant,omitempty" doc:"Another name of tenant_id"`
	FairnessGroup      string            `json:"fairness_group,omitempty" doc:"Default: resources.fairness_group, then default"`
	Dependencies       []string          `json:"dependencies,omitempty" maxItems:"1024" doc:"Jobs that must succeed first, by either form of their identifier"`
	DependsOn          []string          `json:"depends_on,omitempty" maxItems:"1024" doc:"Another name of dependencies"`
	Priority           *int              `json:"priority,omitempty" minimum:"0" maximum:"10000" doc:"Larger is more urgent. Default: resources.priority, then 0"`
	Resources          *Resources        `json:"resources,omitempty"`
	ResourceClass      string            `json:"resource_class,omitempty" doc:"If resources has none"`
	ConcurrencyKey     string            `json:"concurrency_key,omitempty" doc:"If resources has none"`
	Target             *TargetPolicy     `json:"target,omitempty"`
	ValidationPolicy   *ValidationPolicy `json:"validation_policy,omitempty"`
	Consent            *ConsentRecord    `json:"consent,omitempty"`
	LaneID             *string           `json:"lane_id,omitempty" nullable:"true"`
	CandidateID        *string           `json:"candidate_id,omitempty" nullable:"true"`
	GenerationID       *string           `json:"generation_id,omitempty" nullable:"true"`
	ConfigDigest       *string           `json:"config_digest,omitempty" nullable:"true" pattern:"^([0-9a-f]{64})?$" doc:"SHA-256 in lower hexadecimal"`
	InputDigest        *string           `json:"input_digest,omitempty" nullable:"true" pattern:"^([0-9a-f]{64})?$" doc:"What stands for the input when requests are compared (default: the digest of the whole request)"`
	CorrelationID      *string           `json:"correlation_id,omitempty" nullable:"true" doc:"Default: request_id"`
	RetryClass         *string           `json:"retry_class,omitempty" nullable:"true"`
	RepairIntentDigest *string           `json:"repair_intent_digest,omitempty" nullable:"true" pattern:"^([0-9a-f]{64})?$"`
}

// Repository names the repository. Only its id is stored.
type Repository struct {
	ContractVersion string   `json:"contract_version,omitempty" enum:"1"`
	RepositoryID    string   `json:"repository_id,omitempty"`
	CanonicalPath   *string  `json:"canonical_path,omitempty" nullable:"true" doc:"Taken into the digest, never stored"`
	ConfiguredRoots []string `json:"configured_roots,omitempty" doc:"Taken into the digest, never stored"`
	Origin          *string  `json:"origin,omitempty" nullable:"true" doc:"Taken into the digest, never stored"`
}

// Resources is what a job asks of the place where it runs (section 5.2).
type Resources struct {
	ContractVersion string        `json:"contract_version,omitempty" enum:"1"`
	ResourceClass   string        `json:"resource_class,omitempty" doc:"Default: light-check"`
	ConcurrencyKey  string        `json:"concurrency_key,omitempty" doc:"Default: light-check"`
	CPUWeight       *int          `json:"cpu_weight,omitempty" minimum:"1" maximum:"1000" doc:"Default: 1"`
	MemoryMiB       *int          `json:"memory_mib,omitempty" minimum:"1" maximum:"1048576" doc:"Default: 256"`
	DiskMiB         *int          `json:"disk_mib,omitempty" minimum:"1" maximum:"10485760" doc:"Default: 256"`
	ProcessSlots    *int          `json:"process_slots,omitempty" minimum:"1" maximum:"256" doc:"Default: 1"`
	HostLabels      []string      `json:"host_labels,omitempty" maxItems:"256"`
	AntiAffinity    []string      `json:"anti_affinity,omitempty" maxItems:"256"`
	PreferredTarget *TargetPolicy `json:"preferred_target,omitempty"`
	RequiredTarget  *TargetPolicy `json:"required_target,omitempty"`
	Priority        *int          `json:"priority,omitempty" minimum:"0" maximum:"10000"`
	FairnessGroup   string        `json:"fairness_group,omitempty"`
	QueueDeadline   *string       `json:"queue_deadline,omitempty" nullable:"true" format:"date-time" doc:"Not claimable after"`
	DiskLow         *int64        `json:"disk_low_watermark_mib,omitempty" nullable:"true" minimum:"0"`
	DiskHigh        *int64        `json:"disk_high_watermark_mib,omitempty" nullable:"true" minimum:"0"`
}

// TargetPolicy is a place where a job may run (section 5.3).
type TargetPolicy struct {
	ContractVersion  string   `json:"contract_version,omitempty" enum:"1"`
	Kind             string   `json:"kind,omitempty" enum:"local,inventory_alias,remote" doc:"Default: local"`
	Alias            *string  `json:"alias,omitempty" nullable:"true" doc:"An entry of the inventory, with inventory_alias only"`
	TargetAlias      *string  `json:"target_alias,omitempty" nullable:"true" doc:"Another name of alias"`
	CapabilityLabels []string `json:"capability_labels,omitempty" maxItems:"256"`
}

// ValidationPolicy says how a job's change is validated (section 5.4).
type ValidationPolicy struct {
	ContractVersion string   `json:"contract_version,omitempty" enum:"1"`
	Stages          []string `json:"stages,omitempty" maxItems:"256"`
	Differential    *bool    `json:"differential,omitempty"`
	ChangedPaths    []string `json:"changed_paths,omitempty" maxItems:"256"`
	Blocking        *bool    `json:"blocking,omitempty"`
}

// ConsentRecord is what the submitter agrees to (section 5.5).
type ConsentRecord struct {
	ContractVersion         string  `json:"contract_version,omitempty" enum:"1"`
	AllowPush               bool    `json:"allow_push,omitempty" doc:"Required to be true for release and workspace.push"`
	AllowDestructiveCleanup bool    `json:"allow_destructive_cleanup,omitempty"`
	RiskAcknowledged        bool    `json:"risk_acknowledged,omitempty" doc:"Required to be true with either permission"`
	RiskMarker              *string `json:"risk_marker,omitempty" nullable:"true" doc:"What was acknowledged"`
}
