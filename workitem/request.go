package workitem

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
)

// maxRequest is the largest request in bytes (section 20).
const maxRequest = 256 << 10

// The most entries of arrays (section 3.6).
const (
	maxDependencies = 1024
	maxEntries      = 256
)

// none is the array without entries; views show it as [], not null.
var none = []string{}

// Facts are what a submission asks for and its job keeps unchanged. Empty strings
// stand for null where the member may be null; arrays are never nil. The strings of
// labels and stages are sorted.
type Facts struct {
	Kind           Kind
	RequestID      string
	RepositoryID   string
	BaseRef        string
	BaseSHA        string
	OwnerID        string
	SessionID      string
	ResourceClass  string
	ConcurrencyKey string
	FairnessGroup  string
	Priority       int // 0..10000
	CPUWeight      int
	MemoryMiB      int
	DiskMiB        int
	ProcessSlots   int
	HostLabels     []string
	Preferred      Target
	Required       *Target
	AntiAffinity   []string
	QueueDeadline  string // canonical spelling
	DiskLow        *int64 // watermarks in MiB
	DiskHigh       *int64
	TargetKind     string
	TargetAlias    string
	LaneID         string
	CandidateID    string
	GenerationID   string
	RetryClass     string
	ConfigDigest   string
	Stages         []string
	Consent        Consent
	Source         string // source digest
}

// Request is one valid submission.
type Request struct {
	Facts
	TenantID       string
	IdempotencyKey string
	CorrelationID  string
	Dependencies   []string // as they were given, sorted, each once
	Parents        []ID     // the same jobs, sorted, each once
	Deadline       Instant  // of QueueDeadline, 0 if there is none

	// Digest is the immutable digest (section 4.3). Loose is the same without the
	// source digest: requests that are spelt differently and mean the same share it.
	Digest, Loose Digest
}

// Bucket is the admission priority, 0..3 (section 7.3).
func (r *Request) Bucket() int { return min(3, r.Priority) }

// ID is the id of the job that the request stands for.
func (r *Request) ID() ID { return NewID(r.TenantID, r.IdempotencyKey) }

// Record is what the job stores of the request.
func (r *Request) Record() *Record {
	return &Record{
		Facts: r.Facts, ID: r.ID(), Scope: scopeDigest(r.TenantID),
		Digest: r.Digest, Dependencies: r.Parents,
	}
}

// ParseRequest reads a submission: one JSON object in the frozen form of version 1
// (section 5). Strict adds the rules that the submitter's own model has (section
// 5.6). An error is an *Error that names the first member at fault.
func ParseRequest(raw []byte, strict bool) (*Request, error) {
	if len(raw) > maxRequest {
		return nil, &Error{Code: PayloadTooLarge, Message: "the request must be at most 262144 bytes"}
	}
	doc, fault := parseJSON(raw)
	if fault != nil {
		return nil, fault
	}
	defer doc.release()
	if doc.values[0].kind != jsonObject {
		return nil, invalid("", "the request must be a JSON object")
	}
	rd := reader{doc: doc}
	req := rd.request(strict)
	if rd.err != nil {
		return nil, rd.err
	}
	return req, nil
}

// request reads the members of the whole document.
func (r *reader) request(strict bool) *Request {
	var (
		requestID, id, key, operation, repository, repositoryID, baseRef, baseSHA     int32
		owner, session, tenant, tenantAlias, fairness, dependencies, dependsOn        int32
		priority, resources, class, concurrency, target, policy, consent              int32
		lane, candidate, generation, config, input, correlation, retryClass, repairOf int32
	)
	for c := r.doc.values[0].first; c != 0; c = r.doc.values[c].next {
		switch name := r.doc.values[c].name; name {
		case "contract_version":
			r.version("contract_version", c)
		case "request_id":
			requestID = c
		case "id":
			id = c
		case "idempotency_key":
			key = c
		case "operation":
			operation = c
		case "repository":
			repository = c
		case "repository_id":
			repositoryID = c
		case "base_ref":
			baseRef = c
		case "base_sha":
			baseSHA = c
		case "owner_id":
			owner = c
		case "session_id":
			session = c
		case "tenant_id":
			tenant = c
		case "tenant":
			tenantAlias = c
		case "fairness_group":
			fairness = c
		case "dependencies":
			dependencies = c
		case "depends_on":
			dependsOn = c
		case "priority":
			priority = c
		case "resources":
			resources = c
		case "resource_class":
			class = c
		case "concurrency_key":
			concurrency = c
		case "target":
			target = c
		case "validation_policy":
			policy = c
		case "consent":
			consent = c
		case "lane_id":
			lane = c
		case "candidate_id":
			candidate = c
		case "generation_id":
			generation = c
		case "config_digest":
			config = c
		case "input_digest":
			input = c
		case "correlation_id":
			correlation = c
		case "retry_class":
			retryClass = c
		case "repair_intent_digest":
			repairOf = c
		default:
			r.unknown("", name)
		}
	}
	if r.err != nil {
		return nil
	}

	req := &Request{}
	req.Kind = r.operation(operation)
	req.RequestID = r.required("request_id", requestID, id)
	req.IdempotencyKey = r.required("idempotency_key", key, 0)
	req.TenantID = r.required("tenant_id", tenant, tenantAlias)
	req.OwnerID = r.required("owner_id", owner, 0)
	req.SessionID = r.required("session_id", session, 0)
	req.BaseRef = r.required("base_ref", baseRef, 0)
	req.BaseSHA = r.hex("base_sha", baseSHA, 40)
	req.RepositoryID = r.required("repository_id", r.repository(repository), repositoryID)
	req.LaneID = r.nullable("lane_id", lane)
	req.CandidateID = r.nullable("candidate_id", candidate)
	req.GenerationID = r.nullable("generation_id", generation)
	req.CorrelationID = r.nullable("correlation_id", correlation)
	req.RetryClass = r.nullable("retry_class", retryClass)
	req.ConfigDigest = r.hex("config_digest", config, 64)
	r.hex("repair_intent_digest", repairOf, 64)

	req.ResourceClass = r.firstSet("resource_class", class, 0)
	req.ConcurrencyKey = r.firstSet("concurrency_key", concurrency, 0)
	req.FairnessGroup = r.firstSet("fairness_group", fairness, 0)
	r.resources(resources, req)
	req.Priority = r.integer("priority", priority, 0, 10_000, req.Priority)

	// Of the target of the job itself only kind and alias count.
	own := r.target("target", target)
	req.TargetKind = own.Kind
	if own.Alias != nil {
		req.TargetAlias = *own.Alias
	}
	differential := r.policy(policy, req)
	req.Consent = r.consent(consent, req.Kind)
	r.dependencies(dependencies, dependsOn, req)

	declared := input != 0 && r.doc.values[input].kind != jsonNull
	req.Source = r.hex("input_digest", input, 64)
	if strict {
		r.frozen(req, policy, differential)
	}
	if r.err != nil {
		return nil
	}
	if !declared {
		r.doc.out = r.doc.appendCanonical(r.doc.out[:0], 0)
		req.Source = Digest(sha256.Sum256(r.doc.out)).String()
	}
	r.doc.out = req.seal(r.doc.out[:0])
	return req
}

func (r *reader) operation(at int32) Kind {
	if at == 0 {
		r.refuse("operation", "is required")
		return 0
	}
	if v := &r.doc.values[at]; v.kind == jsonString {
		for i := range registry {
			if registry[i].Operation == v.text {
				return Kind(i + 1)
			}
		}
	}
	r.refuse("operation", "is not a registered operation")
	return 0
}

// repository checks the object and gives the place of its repository_id. The other
// members say where a checkout is: they are hashed with the rest of the request,
// and not kept.
func (r *reader) repository(at int32) int32 {
	id := int32(0)
	for c := r.members("repository", at); c != 0; c = r.doc.values[c].next {
		v := &r.doc.values[c]
		switch name := v.name; name {
		case "contract_version":
			r.version("repository.contract_version", c)
		case "repository_id":
			id = c
		case "canonical_path", "origin":
			if v.kind != jsonString && v.kind != jsonNull {
				r.refuse("repository."+name, "must be a string or null")
			}
		case "configured_roots":
			r.strings("repository.configured_roots", c, maxEntries, false)
		default:
			r.unknown("repository", name)
		}
	}
	return id
}

// resources reads the resource request (section 5.2). What the top level of the
// request says in its own words is in req already: it wins for the fairness group,
// and stands in for a class and a concurrency key that are not there.
func (r *reader) resources(at int32, req *Request) {
	req.CPUWeight, req.MemoryMiB, req.DiskMiB, req.ProcessSlots = 1, 256, 256, 1
	req.HostLabels, req.AntiAffinity = none, none
	var class, concurrency, fairness, preferred, required int32
	for c := r.members("resources", at); c != 0; c = r.doc.values[c].next {
		switch name := r.doc.values[c].name; name {
		case "contract_version":
			r.version("resources.contract_version", c)
		case "resource_class":
			class = c
		case "concurrency_key":
			concurrency = c
		case "cpu_weight":
			req.CPUWeight = r.integer("resources.cpu_weight", c, 1, 1000, 0)
		case "memory_mib":
			req.MemoryMiB = r.integer("resources.memory_mib", c, 1, 1_048_576, 0)
		case "disk_mib":
			req.DiskMiB = r.integer("resources.disk_mib", c, 1, 10_485_760, 0)
		case "process_slots":
			req.ProcessSlots = r.integer("resources.process_slots", c, 1, 256, 0)
		case "host_labels":
			req.HostLabels = r.bag("resources.host_labels", c)
		case "anti_affinity":
			req.AntiAffinity = r.bag("resources.anti_affinity", c)
		case "preferred_target":
			preferred = c
		case "required_target":
			required = c
		case "priority":
			req.Priority = r.integer("resources.priority", c, 0, 10_000, 0)
		case "fairness_group":
			fairness = c
		case "queue_deadline":
			req.Deadline, req.QueueDeadline = r.instant("resources.queue_deadline", c)
		case "disk_low_watermark_mib":
			req.DiskLow = r.watermark("resources.disk_low_watermark_mib", c)
		case "disk_high_watermark_mib":
			req.DiskHigh = r.watermark("resources.disk_high_watermark_mib", c)
		default:
			r.unknown("resources", name)
		}
	}
	if text := r.firstSet("resources.resource_class", class, 0); text != "" {
		req.ResourceClass = text
	}
	if text := r.firstSet("resources.concurrency_key", concurrency, 0); text != "" {
		req.ConcurrencyKey = text
	}
	if text := r.firstSet("resources.fairness_group", fairness, 0); req.FairnessGroup == "" {
		req.FairnessGroup = text
	}
	if req.ResourceClass == "" {
		req.ResourceClass = "light-check"
	}
	if req.ConcurrencyKey == "" {
		req.ConcurrencyKey = "light-check"
	}
	if req.FairnessGroup == "" {
		req.FairnessGroup = "default"
	}
	req.Preferred = r.target("resources.preferred_target", preferred)
	if required != 0 && r.doc.values[required].kind != jsonNull {
		t := r.target("resources.required_target", required)
		req.Required = &t
	}
	if req.DiskLow != nil && req.DiskHigh != nil && *req.DiskLow > *req.DiskHigh {
		r.refuse("resources.disk_low_watermark_mib", "must not be above disk_high_watermark_mib")
	}
}

// policy reads the validation policy, and says whether it asks for a differential
// validation without naming what has changed.
func (r *reader) policy(at int32, req *Request) (unnamed bool) {
	req.Stages = none
	differential, changed := false, 0
	for c := r.members("validation_policy", at); c != 0; c = r.doc.values[c].next {
		switch name := r.doc.values[c].name; name {
		case "contract_version":
			r.version("validation_policy.contract_version", c)
		case "stages":
			req.Stages = slices.Compact(r.bag("validation_policy.stages", c))
		case "differential":
			differential = r.boolean("validation_policy.differential", c)
		case "blocking":
			r.boolean("validation_policy.blocking", c)
		case "changed_paths":
			changed = r.strings("validation_policy.changed_paths", c, maxEntries, false)
		default:
			r.unknown("validation_policy", name)
		}
	}
	return differential && changed == 0
}

func (r *reader) dependencies(at, alias int32, req *Request) {
	field := "dependencies"
	req.Dependencies = none
	count := r.strings(field, at, maxDependencies, true)
	if other := r.strings("depends_on", alias, maxDependencies, true); count == 0 {
		at, count, field = alias, other, "depends_on"
	}
	if count == 0 || r.err != nil {
		return
	}
	req.Dependencies = make([]string, 0, count)
	req.Parents = make([]ID, 0, count)
	for c := r.doc.values[at].first; c != 0; c = r.doc.values[c].next {
		v := &r.doc.values[c]
		parent, ok := parseID(v.text)
		if !ok {
			r.refuse(element(field, int(v.index)), "must be rmjob: or workitem:repository_manager: and a UUID with hyphens")
			return
		}
		req.Dependencies = append(req.Dependencies, v.text)
		req.Parents = append(req.Parents, parent)
	}
	slices.Sort(req.Dependencies)
	req.Dependencies = slices.Compact(req.Dependencies)
	slices.SortFunc(req.Parents, ID.Compare)
	req.Parents = slices.Compact(req.Parents)
}

// frozen has the rules of the submitter's own model. The model's order of
// validation stages is not part of them: a request has its stages as a set.
func (r *reader) frozen(req *Request, policy int32, unnamed bool) {
	switch {
	case req.RequestID == req.IdempotencyKey:
		r.refuse("request_id", "must not be the idempotency key")
	case req.Kind == kindLaneAllocate && req.GenerationID != "":
		r.refuse("generation_id", "must not be set for this operation")
	case req.Kind == kindCandidateSubmit && req.LaneID == "":
		r.refuse("lane_id", "must be set for this operation")
	case (req.Kind == kindGenerationCertify || req.Kind == kindBranchLand) && req.GenerationID == "":
		r.refuse("generation_id", "must be set for this operation")
	case req.BaseRef == "HEAD" || isHex(strings.ToLower(req.BaseRef), 40) || !legalRef(req.BaseRef):
		r.refuse("base_ref", "must be the name of a Git reference, neither HEAD nor a commit")
	case unnamed:
		r.refuse("validation_policy.differential", "needs changed_paths")
	}
	for c := r.members("validation_policy", policy); c != 0; c = r.doc.values[c].next {
		if v := &r.doc.values[c]; v.name == "stages" && int(v.count) != len(req.Stages) {
			r.refuse("validation_policy.stages", "must name each stage once")
		}
	}
}

// legalRef says whether Git takes the name for a reference.
func legalRef(name string) bool {
	if name == "@" || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.ContainsAny(name, " ~^:?*[\\\x7f") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// reader reads members of a document. It keeps the first refusal; what is read
// after one is of no use.
type reader struct {
	doc *jsonDoc
	err *Error
}

func (r *reader) refuse(field, message string) {
	if r.err == nil {
		r.err = invalid(field, message)
	}
}

// unknown refuses a member that an object does not have.
func (r *reader) unknown(object, name string) {
	if object != "" {
		object += "."
	}
	r.refuse(object+showName(name), "is not a member of the request")
}

func element(field string, index int) string { return field + "[" + strconv.Itoa(index) + "]" }

// members gives the first member of an object, 0 if there is none or the object is
// absent or null.
func (r *reader) members(field string, at int32) int32 {
	if at == 0 || r.doc.values[at].kind == jsonNull {
		return 0
	}
	if r.doc.values[at].kind != jsonObject {
		r.refuse(field, "must be an object or null")
	}
	if r.err != nil {
		return 0
	}
	return r.doc.values[at].first
}

func (r *reader) version(field string, at int32) {
	if v := &r.doc.values[at]; v.kind != jsonString || v.text != "1" {
		r.refuse(field, `must be "1"`)
	}
}

// firstSet reads a member and its other name: the first that is neither null nor
// empty, or nothing.
func (r *reader) firstSet(field string, at, alias int32) string {
	text := r.set(field, at)
	if other := r.set(field, alias); text == "" {
		return other
	}
	return text
}

// set reads an opaque string, or nothing if it is absent, null or empty.
func (r *reader) set(field string, at int32) string {
	if at == 0 {
		return ""
	}
	v := &r.doc.values[at]
	if v.kind == jsonNull || v.kind == jsonString && v.text == "" {
		return ""
	}
	return r.opaque(field, v)
}

func (r *reader) opaque(field string, v *jsonValue) string {
	if v.kind != jsonString {
		r.refuse(field, "must be a string")
		return ""
	}
	if fault := opaqueFault(v.text, maxOpaque); fault != "" {
		r.refuse(field, fault)
		return ""
	}
	return v.text
}

func (r *reader) required(field string, at, alias int32) string {
	text := r.firstSet(field, at, alias)
	if text == "" {
		r.refuse(field, "is required and must not be empty")
	}
	return text
}

// nullable reads an opaque string that may be null.
func (r *reader) nullable(field string, at int32) string {
	if at == 0 || r.doc.values[at].kind == jsonNull {
		return ""
	}
	return r.opaque(field, &r.doc.values[at])
}

// hex reads n lower-case hex digits. Those of a digest may be null or empty.
func (r *reader) hex(field string, at int32, n int) string {
	v := jsonValue{}
	if at != 0 {
		v = r.doc.values[at]
	}
	empty := v.kind == jsonNull || v.kind == jsonString && v.text == ""
	switch {
	case empty && n == 64:
		return ""
	case v.kind == jsonString && isHex(v.text, n):
		return v.text
	case n == 64:
		r.refuse(field, "must be 64 characters of 0-9 and a-f, or null")
	default:
		r.refuse(field, "must be 40 characters of 0-9 and a-f")
	}
	return ""
}

func (r *reader) boolean(field string, at int32) bool {
	switch r.doc.values[at].kind {
	case jsonTrue:
		return true
	case jsonFalse:
	default:
		r.refuse(field, "must be true or false")
	}
	return false
}

// integer reads an integer of low..high, or gives what it is without one.
func (r *reader) integer(field string, at int32, low, high, absent int) int {
	if at == 0 {
		return absent
	}
	v := &r.doc.values[at]
	if v.kind == jsonInteger {
		n, err := strconv.ParseInt(v.text, 10, 32)
		if err == nil && int(n) >= low && int(n) <= high {
			return int(n)
		}
	}
	r.refuse(field, "must be an integer of "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	return 0
}

func (r *reader) watermark(field string, at int32) *int64 {
	v := &r.doc.values[at]
	if v.kind == jsonNull {
		return nil
	}
	if v.kind == jsonInteger {
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil && n >= 0 {
			return &n
		}
	}
	r.refuse(field, "must be an integer that is not negative, or null")
	return nil
}

func (r *reader) instant(field string, at int32) (Instant, string) {
	v := &r.doc.values[at]
	if v.kind == jsonNull {
		return 0, ""
	}
	if v.kind == jsonString {
		if instant, canonical, ok := parseInstant(v.text); ok {
			return sooner(instant), canonical
		}
	}
	r.refuse(field, "must be an RFC 3339 date and time with an offset, or null")
	return 0, ""
}

// strings checks an array of strings and counts them. Absence and null are the
// empty array.
func (r *reader) strings(field string, at int32, most int, opaque bool) int {
	if at == 0 || r.doc.values[at].kind == jsonNull {
		return 0
	}
	v := &r.doc.values[at]
	if v.kind != jsonArray {
		r.refuse(field, "must be an array of strings")
		return 0
	}
	if int(v.count) > most {
		r.refuse(field, "must have at most "+strconv.Itoa(most)+" entries")
		return 0
	}
	for c := v.first; c != 0; c = r.doc.values[c].next {
		e := &r.doc.values[c]
		if e.kind != jsonString {
			r.refuse(element(field, int(e.index)), "must be a string")
			return 0
		}
		if !opaque {
			continue
		}
		if fault := opaqueFault(e.text, maxOpaque); fault != "" {
			r.refuse(element(field, int(e.index)), fault)
			return 0
		}
	}
	return int(v.count)
}

// bag reads an array of opaque strings and sorts it.
func (r *reader) bag(field string, at int32) []string {
	count := r.strings(field, at, maxEntries, true)
	if count == 0 {
		return none
	}
	bag := make([]string, 0, count)
	for c := r.doc.values[at].first; c != 0; c = r.doc.values[c].next {
		bag = append(bag, r.doc.values[c].text)
	}
	slices.Sort(bag)
	return bag
}
