package workitem

import (
	"errors"
	"strconv"
	"strings"
)

// maxMetadata is the largest metadata object in bytes (section 20).
const maxMetadata = 512 << 10

// recordMembers is how many members a record has.
const recordMembers = 37

// recordMember is the member of the metadata that holds the record.
const recordMember = "repository_work_item"

// Record is the extension record of a job (section 7.2) in plain form. It is
// written once, when the job is admitted.
type Record struct {
	Facts
	ID     ID     // zero if the stored one was redacted: then the row's id is the job's
	Scope  Digest // of the tenant's name
	Digest Digest // immutable digest
	// Dependencies are the parents as submitted, sorted. Where a retry was adopted,
	// the row has the present ones.
	Dependencies []ID
}

// EncodeRecord writes the whole metadata object of a job: a record, in the member
// order of the reference, with every identifier in opaque form (section 7.4). The
// sanitiser has nothing to take out of such an object; that it would is an
// internal_error, since a row must say what was submitted.
func EncodeRecord(r *Record) ([]byte, error) {
	b := make([]byte, 0, 2560)
	b = append(b, `{"`+recordMember+`":{"contract_version":"1","job_id":`...)
	b = appendID(b, r.ID, jobPrefix)
	b = appendHidden(append(b, `,"request_id":`...), r.RequestID)
	b = appendDigest(append(b, `,"idempotency_scope_digest":`...), r.Scope)
	b = appendDigest(append(b, `,"immutable_input_digest":`...), r.Digest)
	b = appendNullable(append(b, `,"source_input_digest":`...), r.Source)
	b = appendString(append(b, `,"operation":`...), r.Kind.Operation())
	b = appendHidden(append(b, `,"repository_id":`...), r.RepositoryID)
	b = appendHidden(append(b, `,"base_ref":`...), r.BaseRef)
	b = appendString(append(b, `,"base_sha":`...), r.BaseSHA)
	b = appendHidden(append(b, `,"owner_id":`...), r.OwnerID)
	b = appendHidden(append(b, `,"session_id":`...), r.SessionID)
	b = appendHidden(append(b, `,"resource_class":`...), r.ResourceClass)
	b = appendHidden(append(b, `,"concurrency_key":`...), r.ConcurrencyKey)
	b = appendHidden(append(b, `,"fairness_group":`...), r.FairnessGroup)
	b = strconv.AppendInt(append(b, `,"priority":`...), int64(r.Priority), 10)
	b = strconv.AppendInt(append(b, `,"cpu_weight":`...), int64(r.CPUWeight), 10)
	b = strconv.AppendInt(append(b, `,"memory_mib":`...), int64(r.MemoryMiB), 10)
	b = strconv.AppendInt(append(b, `,"disk_mib":`...), int64(r.DiskMiB), 10)
	b = strconv.AppendInt(append(b, `,"process_slots":`...), int64(r.ProcessSlots), 10)
	b = appendHiddenList(append(b, `,"host_labels":`...), r.HostLabels)
	b = appendHiddenTarget(append(b, `,"preferred_target":`...), &r.Preferred)
	b = appendHiddenTarget(append(b, `,"required_target":`...), r.Required)
	b = appendHiddenList(append(b, `,"anti_affinity":`...), r.AntiAffinity)
	b = appendNullable(append(b, `,"queue_deadline":`...), r.QueueDeadline)
	b = appendWatermark(append(b, `,"disk_low_watermark_mib":`...), r.DiskLow)
	b = appendWatermark(append(b, `,"disk_high_watermark_mib":`...), r.DiskHigh)
	b = appendString(append(b, `,"target_kind":`...), r.TargetKind)
	b = appendHidden(append(b, `,"target_alias":`...), r.TargetAlias)
	b = appendHidden(append(b, `,"lane_id":`...), r.LaneID)
	b = appendHidden(append(b, `,"candidate_id":`...), r.CandidateID)
	b = appendHidden(append(b, `,"generation_id":`...), r.GenerationID)
	b = appendHidden(append(b, `,"retry_class":`...), r.RetryClass)
	b = appendNullable(append(b, `,"config_digest":`...), r.ConfigDigest)
	b = appendHiddenList(append(b, `,"validation_stages":`...), r.Stages)
	b = append(b, `,"dependencies":[`...)
	for i, id := range r.Dependencies {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendID(b, id, itemPrefix)
	}
	b = strconv.AppendBool(append(b, `],"consent":{"allow_push":`...), r.Consent.AllowPush)
	b = strconv.AppendBool(append(b, `,"allow_destructive_cleanup":`...), r.Consent.AllowDestructiveCleanup)
	b = strconv.AppendBool(append(b, `,"risk_acknowledged":`...), r.Consent.RiskAcknowledged)
	b = append(b, `,"risk_marker":`...)
	if r.Consent.RiskMarker != nil {
		b = appendHidden(b, *r.Consent.RiskMarker)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, "}}}"...)
	if len(b) > maxMetadata {
		return nil, &Error{Code: PayloadTooLarge, Message: "the stored form of the request would be over 524288 bytes"}
	}
	if !sanitized(string(b)) {
		return nil, &Error{Code: Internal, Message: "the record of the request can't be stored as it is"}
	}
	return b, nil
}

// sanitized says whether the sanitiser leaves every string of a record as it is. No
// string of a record has a quote or an escape. Names of members are fixed, and none
// is one that the sanitiser knows.
func sanitized(record string) bool {
	for {
		_, rest, found := strings.Cut(record, `"`)
		if !found {
			return true
		}
		text, rest, _ := strings.Cut(rest, `"`)
		if !strings.HasPrefix(rest, ":") && Sanitize(text) != text {
			return false
		}
		record = rest
	}
}

// appendHidden writes an identifier in opaque form, or null if it is empty. The form
// needs no JSON escapes.
func appendHidden(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return append(appendOpaque(append(b, '"'), s), '"')
}

func appendHiddenList(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendHidden(b, s)
	}
	return append(b, ']')
}

func appendHiddenTarget(b []byte, t *Target) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"kind":`...), t.Kind)
	b = append(b, `,"alias":`...)
	if t.Alias != nil {
		b = appendHidden(b, *t.Alias)
	} else {
		b = append(b, "null"...)
	}
	b = appendHiddenList(append(b, `,"capability_labels":`...), t.CapabilityLabels)
	return append(b, '}')
}

func appendID(b []byte, id ID, prefix string) []byte {
	if prefix == jobPrefix {
		return appendHidden(b, id.JobID())
	}
	return appendHidden(b, id.WorkItemID())
}

func appendDigest(b []byte, d Digest) []byte { return appendString(b, d.String()) }

// DecodeRecord reads a metadata object. Whatever can't be a record that was written
// by this version or by the reference is an internal_error: a damaged row is never
// given a meaning.
func DecodeRecord(metadata []byte) (*Record, error) {
	doc, refusal := parseJSON(metadata)
	if refusal != nil {
		return nil, corruptRecord(refusal.Error())
	}
	defer doc.release()
	s := stored{doc: doc}
	s.plain.Grow(len(metadata) / 2)
	for c := s.members(0); c != 0; c = doc.values[c].next {
		if doc.values[c].name != recordMember {
			continue
		}
		r := s.record(c)
		if s.fault != "" {
			return nil, corruptRecord(s.fault)
		}
		return r, nil
	}
	return nil, corruptRecord(recordMember + " is missing")
}

func corruptRecord(fault string) *Error {
	return &Error{Code: Internal, Message: "the stored record of the job can't be read", Err: errors.New(fault)}
}

// stored reads members of a stored record. It keeps the first fault.
type stored struct {
	doc   *jsonDoc
	plain strings.Builder // all decoded strings lie in it
	fault string
}

func (s *stored) fail(at int32, fault string) {
	if s.fault == "" {
		s.fault = strings.TrimPrefix(s.doc.path(at)+" "+fault, " ")
	}
}

func (s *stored) members(at int32) int32 {
	if s.doc.values[at].kind != jsonObject {
		s.fail(at, "is no object")
		return 0
	}
	return s.doc.values[at].first
}

func (s *stored) record(at int32) *Record {
	r := &Record{}
	r.HostLabels, r.AntiAffinity, r.Stages = none, none, none
	seen := uint64(0)
	for c := s.members(at); c != 0; c = s.doc.values[c].next {
		member := uint(0)
		switch s.doc.values[c].name {
		case "contract_version":
			member = 1
			if s.text(c) != "1" {
				s.fail(c, "is not 1")
			}
		case "job_id":
			member = 2
			r.ID = s.jobID(c)
		case "request_id":
			member = 3
			r.RequestID = s.required(c)
		case "idempotency_scope_digest":
			member = 4
			r.Scope = s.digest(c)
		case "immutable_input_digest":
			member = 5
			r.Digest = s.digest(c)
		case "source_input_digest":
			member = 6
			r.Source = s.optionalDigest(c)
		case "operation":
			member = 7
			r.Kind = s.operation(c)
		case "repository_id":
			member = 8
			r.RepositoryID = s.required(c)
		case "base_ref":
			member = 9
			r.BaseRef = s.required(c)
		case "base_sha":
			member = 10
			if r.BaseSHA = s.text(c); !isHex(r.BaseSHA, 40) {
				s.fail(c, "is no commit")
			}
		case "owner_id":
			member = 11
			r.OwnerID = s.required(c)
		case "session_id":
			member = 12
			r.SessionID = s.required(c)
		case "resource_class":
			member = 13
			r.ResourceClass = s.required(c)
		case "concurrency_key":
			member = 14
			r.ConcurrencyKey = s.required(c)
		case "fairness_group":
			member = 15
			r.FairnessGroup = s.required(c)
		case "priority":
			member = 16
			r.Priority = s.integer(c, 0, 10_000)
		case "cpu_weight":
			member = 17
			r.CPUWeight = s.integer(c, 1, 1000)
		case "memory_mib":
			member = 18
			r.MemoryMiB = s.integer(c, 1, 1_048_576)
		case "disk_mib":
			member = 19
			r.DiskMiB = s.integer(c, 1, 10_485_760)
		case "process_slots":
			member = 20
			r.ProcessSlots = s.integer(c, 1, 256)
		case "host_labels":
			member = 21
			r.HostLabels = s.list(c)
		case "preferred_target":
			member = 22
			r.Preferred = s.target(c)
		case "required_target":
			member = 23
			if s.doc.values[c].kind != jsonNull {
				t := s.target(c)
				r.Required = &t
			}
		case "anti_affinity":
			member = 24
			r.AntiAffinity = s.list(c)
		case "queue_deadline":
			member = 25
			r.QueueDeadline = s.deadline(c)
		case "disk_low_watermark_mib":
			member = 26
			r.DiskLow = s.watermark(c)
		case "disk_high_watermark_mib":
			member = 27
			r.DiskHigh = s.watermark(c)
		case "target_kind":
			member = 28
			r.TargetKind = s.targetKind(c)
		case "target_alias":
			member = 29
			r.TargetAlias = s.optional(c)
		case "lane_id":
			member = 30
			r.LaneID = s.optional(c)
		case "candidate_id":
			member = 31
			r.CandidateID = s.optional(c)
		case "generation_id":
			member = 32
			r.GenerationID = s.optional(c)
		case "retry_class":
			member = 33
			r.RetryClass = s.optional(c)
		case "config_digest":
			member = 34
			r.ConfigDigest = s.optionalDigest(c)
		case "validation_stages":
			member = 35
			r.Stages = s.list(c)
		case "dependencies":
			member = 36
			r.Dependencies = s.ids(c)
		case "consent":
			member = 37
			r.Consent = s.consent(c)
		}
		seen |= 1 << member
	}
	if all := uint64(1)<<(recordMembers+1) - 2; seen&all != all {
		s.fail(at, "lacks a member")
	}
	return r
}

// text reads a string that is not an opaque one.
func (s *stored) text(at int32) string {
	v := &s.doc.values[at]
	if v.kind != jsonString {
		s.fail(at, "is no string")
	}
	return v.text
}

func (s *stored) required(at int32) string {
	var buf [192]byte
	plain, ok := decodeOpaque(buf[:0], s.text(at))
	if !ok || len(plain) == 0 {
		s.fail(at, "is no opaque string")
	}
	start := s.plain.Len()
	s.plain.Write(plain)
	return s.plain.String()[start:]
}

func (s *stored) optional(at int32) string {
	if s.doc.values[at].kind == jsonNull {
		return ""
	}
	return s.required(at)
}

func (s *stored) list(at int32) []string {
	v := &s.doc.values[at]
	if v.kind != jsonArray {
		s.fail(at, "is no array")
		return none
	}
	if v.count == 0 {
		return none
	}
	list := make([]string, 0, v.count)
	for c := v.first; c != 0; c = s.doc.values[c].next {
		list = append(list, s.required(c))
	}
	return list
}

func (s *stored) ids(at int32) []ID {
	list := s.list(at)
	if len(list) == 0 {
		return nil
	}
	ids := make([]ID, len(list))
	for i, text := range list {
		id, ok := parseID(text)
		if !ok {
			s.fail(at, "has something that is no id")
		}
		ids[i] = id
	}
	return ids
}

// jobID reads the id of the job. Rows from before the encoding may have lost it to
// the sanitiser.
func (s *stored) jobID(at int32) ID {
	text := s.text(at)
	if !strings.HasPrefix(text, opaquePrefix) && strings.Contains(text, "[REDACTED_") {
		return ID{}
	}
	id, ok := parseID(s.required(at))
	if !ok {
		s.fail(at, "is no id")
	}
	return id
}

func (s *stored) digest(at int32) Digest {
	d, err := ParseDigest(s.text(at))
	if err != nil {
		s.fail(at, "is no digest")
	}
	return d
}

func (s *stored) optionalDigest(at int32) string {
	if s.doc.values[at].kind == jsonNull {
		return ""
	}
	text := s.text(at)
	if !isHex(text, 64) {
		s.fail(at, "is no digest")
	}
	return text
}

func (s *stored) operation(at int32) Kind {
	kind, err := ParseOperation(s.text(at))
	if err != nil {
		s.fail(at, "is no registered operation")
	}
	return kind
}

func (s *stored) number(at int32) (int64, bool) {
	v := &s.doc.values[at]
	if v.kind != jsonInteger {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil
}

func (s *stored) integer(at int32, low, high int64) int {
	n, ok := s.number(at)
	if !ok || n < low || n > high {
		s.fail(at, "is no integer of its range")
	}
	return int(n)
}

func (s *stored) watermark(at int32) *int64 {
	if s.doc.values[at].kind == jsonNull {
		return nil
	}
	n, ok := s.number(at)
	if !ok || n < 0 {
		s.fail(at, "is no integer of its range")
	}
	return &n
}

// deadline reads the deadline; the reference has spelt UTC as an offset.
func (s *stored) deadline(at int32) string {
	if s.doc.values[at].kind == jsonNull {
		return ""
	}
	_, canonical, ok := parseInstant(s.text(at))
	if !ok {
		s.fail(at, "is no instant")
	}
	return canonical
}

func (s *stored) targetKind(at int32) string {
	switch s.text(at) {
	case targetLocal:
		return targetLocal
	case targetInventory:
		return targetInventory
	}
	s.fail(at, "is no kind of target")
	return ""
}

func (s *stored) target(at int32) Target {
	t := Target{CapabilityLabels: none}
	seen := 0
	for c := s.members(at); c != 0; c = s.doc.values[c].next {
		seen++
		switch s.doc.values[c].name {
		case "kind":
			t.Kind = s.targetKind(c)
		case "alias":
			if alias := s.optional(c); alias != "" {
				t.Alias = &alias
			}
		case "capability_labels":
			t.CapabilityLabels = s.list(c)
		default:
			seen--
		}
	}
	if seen != 3 || (t.Kind == targetInventory) != (t.Alias != nil) {
		s.fail(at, "is no target")
	}
	return t
}

func (s *stored) consent(at int32) Consent {
	var consent Consent
	seen := 0
	for c := s.members(at); c != 0; c = s.doc.values[c].next {
		seen++
		switch s.doc.values[c].name {
		case "allow_push":
			consent.AllowPush = s.boolean(c)
		case "allow_destructive_cleanup":
			consent.AllowDestructiveCleanup = s.boolean(c)
		case "risk_acknowledged":
			consent.RiskAcknowledged = s.boolean(c)
		case "risk_marker":
			if marker := s.optional(c); marker != "" {
				consent.RiskMarker = &marker
			}
		default:
			seen--
		}
	}
	if seen != 4 {
		s.fail(at, "lacks a member")
	}
	return consent
}

func (s *stored) boolean(at int32) bool {
	switch s.doc.values[at].kind {
	case jsonTrue:
		return true
	case jsonFalse:
	default:
		s.fail(at, "is no boolean")
	}
	return false
}
