package record

// Link is how a record refers to content: by its particle in a record that was
// read, as a node in one that is being built.
type Link interface{ Particle | Node }

// Record is one of the records of the suite. Its methods are its only declaration:
// encoding, decoding, errors and listings follow from them.
type Record[L Link] interface {
	// Schema is the name, such as cell/head/1.
	Schema() string
	// fields visits the fields in the order of the wire.
	fields(f form[L])
}

// A form visits the fields of a record. Names are those of the wire.
type form[L Link] interface {
	uint(name string, v *uint64)
	uints(name string, v *[]uint64)
	ref(name string, l *L)
	refs(name string, l *[]L)
	optional(name string, o *Optional[L])
	text(name string, s *string)
	nonce(name string, n *Nonce[L])
	variant(name string, d *domain, v *uint8)
	trigger(name string, t *Trigger[L])
	entries(name string, e *[]Entry[L])
	metrics(name string, m *[]Metric[L])
}

// Optional is a reference that may be absent.
type Optional[L Link] struct {
	Present bool
	Link    L
}

// Some is a reference that is present.
func Some[L Link](l L) Optional[L] { return Optional[L]{true, l} }

// Nonce are 32 bytes: Bytes, or those of the particle of a node that is not known
// yet if Of is present. A nonce that was read has Bytes.
type Nonce[L Link] struct {
	Bytes [32]byte
	Of    Optional[L]
}

// Metric is the limit of a resource.
type Metric[L Link] struct {
	Metric L
	Limit  uint64
}

// Trigger is what a continuation waits for: the scheduler, or the result of an
// operation if there is one.
type Trigger[L Link] struct {
	Operation Optional[L]
}

// operationResult is the schema of the only variant with a field.
const operationResult = "cell/trigger/operation-result/1"

// MapEntry is a key with its value.
type MapEntry[L Link] struct{ Key, Value L }

// Map are entries with distinct keys, ascending by the bytes of their keys.
type Map[L Link] []MapEntry[L]

// Artifact names bytes and their media type.
type Artifact[L Link] struct {
	Content    L
	Codec      L
	ByteLength uint64
	MediaType  string
}

// Schema implements Record.
func (*Artifact[L]) Schema() string { return "cell/artifact/1" }

func (r *Artifact[L]) fields(f form[L]) {
	f.ref("content", &r.Content)
	f.ref("codec", &r.Codec)
	f.uint("byte_length", &r.ByteLength)
	f.text("media_type", &r.MediaType)
}

// Head is the newest commit of a cell.
type Head[L Link] struct {
	Index  uint64
	Commit L
}

// Schema implements Record.
func (*Head[L]) Schema() string { return "cell/head/1" }

func (r *Head[L]) fields(f form[L]) {
	f.uint("index", &r.Index)
	f.ref("commit", &r.Commit)
}

// Definition is what a cell runs, and within which limits.
type Definition[L Link] struct {
	Revision          uint64
	Runtime           L
	Code              L
	StateSchema       L
	Entries           []Entry[L]
	RequiredArtifacts []L
	Policy            L
	Resources         L
	CheckpointSchema  Optional[L]
	Presentation      Optional[L]
	Extensions        []L
}

// Schema implements Record.
func (*Definition[L]) Schema() string { return "cell/definition/1" }

func (r *Definition[L]) fields(f form[L]) {
	f.uint("revision", &r.Revision)
	f.ref("runtime", &r.Runtime)
	f.ref("code", &r.Code)
	f.ref("state_schema", &r.StateSchema)
	f.entries("entries", &r.Entries)
	f.refs("required_artifacts", &r.RequiredArtifacts)
	f.ref("policy", &r.Policy)
	f.ref("resources", &r.Resources)
	f.optional("checkpoint_schema", &r.CheckpointSchema)
	f.optional("presentation", &r.Presentation)
	f.refs("extensions", &r.Extensions)
}

// Entry is a way into a cell. It lies inside its definition.
type Entry[L Link] struct {
	Name         string
	InputSchema  L
	OutputSchema L
	Behavior     Behavior
}

// Schema implements Record.
func (*Entry[L]) Schema() string { return "cell/entry/1" }

func (r *Entry[L]) fields(f form[L]) {
	f.text("name", &r.Name)
	f.ref("input_schema", &r.InputSchema)
	f.ref("output_schema", &r.OutputSchema)
	f.variant("behavior", behaviors, (*uint8)(&r.Behavior))
}

// ResourceContract are the limits of a definition.
type ResourceContract[L Link] struct {
	Limits         []Metric[L]
	YieldInterval  uint64
	OverflowPolicy Overflow
}

// Schema implements Record.
func (*ResourceContract[L]) Schema() string { return "cell/resource-contract/1" }

func (r *ResourceContract[L]) fields(f form[L]) {
	f.metrics("limits", &r.Limits)
	f.uint("yield_interval", &r.YieldInterval)
	f.variant("overflow_policy", overflows, (*uint8)(&r.OverflowPolicy))
}

// Profile are the rules of a runtime.
type Profile[L Link] struct {
	Kind              ProfileKind
	IdentityRule      L
	AuthorizationRule L
	OrderingRule      L
	EvidenceRule      L
	FinalityRule      L
	AvailabilityRule  L
	RetentionRule     L
	Extensions        []L
}

// Schema implements Record.
func (*Profile[L]) Schema() string { return "cell/profile/1" }

func (r *Profile[L]) fields(f form[L]) {
	f.variant("kind", profileKinds, (*uint8)(&r.Kind))
	f.ref("identity_rule", &r.IdentityRule)
	f.ref("authorization_rule", &r.AuthorizationRule)
	f.ref("ordering_rule", &r.OrderingRule)
	f.ref("evidence_rule", &r.EvidenceRule)
	f.ref("finality_rule", &r.FinalityRule)
	f.ref("availability_rule", &r.AvailabilityRule)
	f.ref("retention_rule", &r.RetentionRule)
	f.refs("extensions", &r.Extensions)
}

// Birth is the first record of a cell, whose particle is the cell's name.
type Birth[L Link] struct {
	Revision        uint64
	Nonce           Nonce[L]
	Authority       L
	Definition      L
	Profile         L
	InitialSnapshot L
	Parent          Optional[L]
}

// Schema implements Record.
func (*Birth[L]) Schema() string { return "cell/birth/1" }

func (r *Birth[L]) fields(f form[L]) {
	f.uint("revision", &r.Revision)
	f.nonce("nonce", &r.Nonce)
	f.ref("authority", &r.Authority)
	f.ref("definition", &r.Definition)
	f.ref("profile", &r.Profile)
	f.ref("initial_snapshot", &r.InitialSnapshot)
	f.optional("parent", &r.Parent)
}

// Snapshot is a cell between two commits.
type Snapshot[L Link] struct {
	Definition       L
	ApplicationState L
	Lifecycle        Lifecycle
	AuthorityPolicy  L
	Profile          L
	Epoch            uint64
	Inbox            L // map from event to inbox entry
	Continuations    L // map from continuation to itself
	Outbox           L // map from operation id to outbox entry
	Subscriptions    L // map, empty
	Management       L // map, empty
}

// Schema implements Record.
func (*Snapshot[L]) Schema() string { return "cell/snapshot/1" }

func (r *Snapshot[L]) fields(f form[L]) {
	f.ref("definition", &r.Definition)
	f.ref("application_state", &r.ApplicationState)
	f.variant("lifecycle", lifecycles, (*uint8)(&r.Lifecycle))
	f.ref("authority_policy", &r.AuthorityPolicy)
	f.ref("profile", &r.Profile)
	f.uint("epoch", &r.Epoch)
	f.ref("inbox", &r.Inbox)
	f.ref("continuations", &r.Continuations)
	f.ref("outbox", &r.Outbox)
	f.ref("subscriptions", &r.Subscriptions)
	f.ref("management", &r.Management)
}

// Event is what happens to a cell.
type Event[L Link] struct {
	Origin    L
	Nonce     Nonce[L]
	Cell      L
	Entry     string
	Payload   L
	Context   Optional[L]
	Causation []L
	Time      Optional[L]
	Deadline  Optional[L]
	Authority L
}

// Schema implements Record.
func (*Event[L]) Schema() string { return "cell/event/1" }

func (r *Event[L]) fields(f form[L]) {
	f.ref("origin", &r.Origin)
	f.nonce("nonce", &r.Nonce)
	f.ref("cell", &r.Cell)
	f.text("entry", &r.Entry)
	f.ref("payload", &r.Payload)
	f.optional("context", &r.Context)
	f.refs("causation", &r.Causation)
	f.optional("time", &r.Time)
	f.optional("deadline", &r.Deadline)
	f.ref("authority", &r.Authority)
}

// RequestID names a request: one origin says one nonce once.
type RequestID[L Link] struct {
	Origin L
	Nonce  Nonce[L]
}

// Schema implements Record.
func (*RequestID[L]) Schema() string { return "cell/request-id/1" }

func (r *RequestID[L]) fields(f form[L]) {
	f.ref("origin", &r.Origin)
	f.nonce("nonce", &r.Nonce)
}

// SystemNonce makes the nonce of an event that a cell gives itself.
type SystemNonce[L Link] struct {
	Cell       L
	BaseCommit L
	Kind       string
}

// Schema implements Record.
func (*SystemNonce[L]) Schema() string { return "cell/system-nonce/1" }

func (r *SystemNonce[L]) fields(f form[L]) {
	f.ref("cell", &r.Cell)
	f.ref("base_commit", &r.BaseCommit)
	f.text("kind", &r.Kind)
}

// Commit leads from one snapshot of a cell to the next.
type Commit[L Link] struct {
	Cell       L
	Index      uint64
	Previous   L
	Before     L
	After      L
	Events     []L
	Operations []L
	Authority  L
	Epoch      uint64
	Evidence   []L
}

// Schema implements Record.
func (*Commit[L]) Schema() string { return "cell/commit/1" }

func (r *Commit[L]) fields(f form[L]) {
	f.ref("cell", &r.Cell)
	f.uint("index", &r.Index)
	f.ref("previous", &r.Previous)
	f.ref("before", &r.Before)
	f.ref("after", &r.After)
	f.refs("events", &r.Events)
	f.refs("operations", &r.Operations)
	f.ref("authority", &r.Authority)
	f.uint("epoch", &r.Epoch)
	f.refs("evidence", &r.Evidence)
}

// LocalPolicy is what a cell may do and use.
type LocalPolicy[L Link] struct {
	Owner       L
	StepLimit   uint64 // steps an input
	AllowedActs []uint64
}

// Schema implements Record.
func (*LocalPolicy[L]) Schema() string { return "cell/local-policy/1" }

func (r *LocalPolicy[L]) fields(f form[L]) {
	f.ref("owner", &r.Owner)
	f.uint("step_limit", &r.StepLimit)
	f.uints("allowed_acts", &r.AllowedActs)
}

// LocalAuthorization is the decision to allow an act.
type LocalAuthorization[L Link] struct {
	Cell            L
	OperationRecord L
	Policy          L
	Epoch           uint64
}

// Schema implements Record.
func (*LocalAuthorization[L]) Schema() string { return "cell/local-authorization/1" }

func (r *LocalAuthorization[L]) fields(f form[L]) {
	f.ref("cell", &r.Cell)
	f.ref("operation_record", &r.OperationRecord)
	f.ref("policy", &r.Policy)
	f.uint("epoch", &r.Epoch)
}

// LocalDenial is the decision to refuse an act.
type LocalDenial[L Link] struct {
	Cell            L
	OperationRecord L
	Policy          L
	Epoch           uint64
	Reason          L
}

// Schema implements Record.
func (*LocalDenial[L]) Schema() string { return "cell/local-denial/1" }

func (r *LocalDenial[L]) fields(f form[L]) {
	f.ref("cell", &r.Cell)
	f.ref("operation_record", &r.OperationRecord)
	f.ref("policy", &r.Policy)
	f.uint("epoch", &r.Epoch)
	f.ref("reason", &r.Reason)
}

// LocalResources are the steps of an input: charged and reserved by the cell, used
// by its machine at the checkpoint, and the limit.
type LocalResources[L Link] struct {
	Charged        uint64
	Reserved       uint64
	CheckpointUsed uint64
	Limit          uint64
}

// Schema implements Record.
func (*LocalResources[L]) Schema() string { return "cell/local-resources/1" }

func (r *LocalResources[L]) fields(f form[L]) {
	f.uint("charged", &r.Charged)
	f.uint("reserved", &r.Reserved)
	f.uint("checkpoint_used", &r.CheckpointUsed)
	f.uint("limit", &r.Limit)
}

// InboxEntry is what became of an event.
type InboxEntry[L Link] struct {
	Event      L
	Status     InboxStatus
	Invocation Optional[L]
	LastIndex  uint64
}

// Schema implements Record.
func (*InboxEntry[L]) Schema() string { return "cell/inbox-entry/1" }

func (r *InboxEntry[L]) fields(f form[L]) {
	f.ref("event", &r.Event)
	f.variant("status", inboxStatuses, (*uint8)(&r.Status))
	f.optional("invocation", &r.Invocation)
	f.uint("last_index", &r.LastIndex)
}

// OutboxEntry is how far an operation has come.
type OutboxEntry[L Link] struct {
	Operation  L // the record
	Stage      Stage
	Attempts   []L // records
	Outcome    Optional[L]
	ConsumedBy Optional[L] // an event
}

// Schema implements Record.
func (*OutboxEntry[L]) Schema() string { return "cell/outbox-entry/1" }

func (r *OutboxEntry[L]) fields(f form[L]) {
	f.ref("operation", &r.Operation)
	f.variant("stage", stages, (*uint8)(&r.Stage))
	f.refs("attempts", &r.Attempts)
	f.optional("outcome", &r.Outcome)
	f.optional("consumed_by", &r.ConsumedBy)
}

// Continuation is a suspended computation.
type Continuation[L Link] struct {
	Definition       L
	Runtime          L
	CheckpointSchema L
	Checkpoint       L
	Trigger          Trigger[L]
	BaseHead         L
	Invocation       L // an event
	Context          Optional[L]
	ResourcesUsed    L
}

// Schema implements Record.
func (*Continuation[L]) Schema() string { return "cell/continuation/1" }

func (r *Continuation[L]) fields(f form[L]) {
	f.ref("definition", &r.Definition)
	f.ref("runtime", &r.Runtime)
	f.ref("checkpoint_schema", &r.CheckpointSchema)
	f.ref("checkpoint", &r.Checkpoint)
	f.trigger("trigger", &r.Trigger)
	f.ref("base_head", &r.BaseHead)
	f.ref("invocation", &r.Invocation)
	f.optional("context", &r.Context)
	f.ref("resources_used", &r.ResourcesUsed)
}

// OperationID names an operation.
type OperationID[L Link] struct {
	Cell       L
	BaseCommit L
	Invocation L
	Ordinal    uint64
}

// Schema implements Record.
func (*OperationID[L]) Schema() string { return "cell/operation-id/1" }

func (r *OperationID[L]) fields(f form[L]) {
	f.ref("cell", &r.Cell)
	f.ref("base_commit", &r.BaseCommit)
	f.ref("invocation", &r.Invocation)
	f.uint("ordinal", &r.Ordinal)
}

// Operation is an act that a program waits for.
type Operation[L Link] struct {
	ID           L
	Invocation   L
	Target       Target
	Act          L
	Arguments    L
	Policy       L
	ResultSchema L
	Deadline     Optional[L]
	Retry        Retry
	Finality     L
	Checkpoint   Optional[L]
}

// Schema implements Record.
func (*Operation[L]) Schema() string { return "cell/operation/1" }

func (r *Operation[L]) fields(f form[L]) {
	f.ref("id", &r.ID)
	f.ref("invocation", &r.Invocation)
	f.variant("target", targets, (*uint8)(&r.Target))
	f.ref("act", &r.Act)
	f.ref("arguments", &r.Arguments)
	f.ref("policy", &r.Policy)
	f.ref("result_schema", &r.ResultSchema)
	f.optional("deadline", &r.Deadline)
	f.variant("retry", retries, (*uint8)(&r.Retry))
	f.ref("finality", &r.Finality)
	f.optional("checkpoint", &r.Checkpoint)
}

// AttemptID names an attempt.
type AttemptID[L Link] struct {
	Operation L // its id
	Number    uint64
	Epoch     uint64
}

// Schema implements Record.
func (*AttemptID[L]) Schema() string { return "cell/attempt-id/1" }

func (r *AttemptID[L]) fields(f form[L]) {
	f.ref("operation", &r.Operation)
	f.uint("number", &r.Number)
	f.uint("epoch", &r.Epoch)
}

// Attempt is recorded before anything is dispatched.
type Attempt[L Link] struct {
	ID                L
	Operation         L // its id
	Number            uint64
	Epoch             uint64
	AuthorityDecision L
	DispatchTime      Optional[L]
	ExecutorContract  L
}

// Schema implements Record.
func (*Attempt[L]) Schema() string { return "cell/attempt/1" }

func (r *Attempt[L]) fields(f form[L]) {
	f.ref("id", &r.ID)
	f.ref("operation", &r.Operation)
	f.uint("number", &r.Number)
	f.uint("epoch", &r.Epoch)
	f.ref("authority_decision", &r.AuthorityDecision)
	f.optional("dispatch_time", &r.DispatchTime)
	f.ref("executor_contract", &r.ExecutorContract)
}

// Outcome is how an attempt has ended.
type Outcome[L Link] struct {
	Operation   L // its id
	Attempt     L // its id
	Disposition Disposition
	Value       Optional[L]
	Evidence    Optional[L]
	ObservedAt  Optional[L]
}

// Schema implements Record.
func (*Outcome[L]) Schema() string { return "cell/outcome/1" }

func (r *Outcome[L]) fields(f form[L]) {
	f.ref("operation", &r.Operation)
	f.ref("attempt", &r.Attempt)
	f.variant("disposition", dispositions, (*uint8)(&r.Disposition))
	f.optional("value", &r.Value)
	f.optional("evidence", &r.Evidence)
	f.optional("observed_at", &r.ObservedAt)
}

// OutcomeRequest makes the nonce of the event that records an outcome.
type OutcomeRequest[L Link] struct {
	Operation L // its id
	Attempt   L // its id
}

// Schema implements Record.
func (*OutcomeRequest[L]) Schema() string { return "cell/outcome-request/1" }

func (r *OutcomeRequest[L]) fields(f form[L]) {
	f.ref("operation", &r.Operation)
	f.ref("attempt", &r.Attempt)
}

// Act is what a program asks its host for.
type Act[L Link] struct {
	Tag uint64
}

// Schema implements Record.
func (*Act[L]) Schema() string { return "rune/act/1" }

func (r *Act[L]) fields(f form[L]) { f.uint("tag", &r.Tag) }

// records makes an empty record of each schema, in the order of the contract.
func records[L Link]() []Record[L] {
	return []Record[L]{
		new(Artifact[L]), new(Head[L]), new(Definition[L]), new(Entry[L]), new(ResourceContract[L]), new(Profile[L]), new(Birth[L]),
		new(Snapshot[L]), new(Event[L]), new(RequestID[L]), new(SystemNonce[L]), new(Commit[L]), new(LocalPolicy[L]),
		new(LocalAuthorization[L]), new(LocalDenial[L]), new(LocalResources[L]), new(InboxEntry[L]), new(OutboxEntry[L]),
		new(Continuation[L]), new(OperationID[L]), new(Operation[L]), new(AttemptID[L]), new(Attempt[L]), new(Outcome[L]),
		new(OutcomeRequest[L]), new(Act[L]),
	}
}
