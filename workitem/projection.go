package workitem

import (
	"crypto/sha256"
	"strconv"
)

// seal computes both digests of the projection (section 5.7), in the memory of b.
func (r *Request) seal(b []byte) []byte {
	b = r.appendProjection(b[:0], r.Source)
	r.Digest = sha256.Sum256(b)
	if r.Source == "" {
		r.Loose = r.Digest
		return b
	}
	b = r.appendProjection(b[:0], "")
	r.Loose = sha256.Sum256(b)
	return b
}

// appendProjection writes the canonical projection: all of its 37 members, in the
// order of their names.
func (r *Request) appendProjection(b []byte, source string) []byte {
	b = appendStrings(append(b, `{"anti_affinity":`...), r.AntiAffinity)
	b = appendString(append(b, `,"base_ref":`...), r.BaseRef)
	b = appendString(append(b, `,"base_sha":`...), r.BaseSHA)
	b = appendNullable(append(b, `,"candidate_id":`...), r.CandidateID)
	b = appendString(append(b, `,"concurrency_key":`...), r.ConcurrencyKey)
	b = appendNullable(append(b, `,"config_digest":`...), r.ConfigDigest)
	b = strconv.AppendBool(append(b, `,"consent":{"allow_destructive_cleanup":`...), r.Consent.AllowDestructiveCleanup)
	b = strconv.AppendBool(append(b, `,"allow_push":`...), r.Consent.AllowPush)
	b = strconv.AppendBool(append(b, `,"risk_acknowledged":`...), r.Consent.RiskAcknowledged)
	b = appendPointer(append(b, `,"risk_marker":`...), r.Consent.RiskMarker)
	b = append(b, `},"contract_version":"1"`...)
	b = appendNullable(append(b, `,"correlation_id":`...), r.CorrelationID)
	b = strconv.AppendInt(append(b, `,"cpu_weight":`...), int64(r.CPUWeight), 10)
	b = appendStrings(append(b, `,"dependencies":`...), r.Dependencies)
	b = appendWatermark(append(b, `,"disk_high_watermark_mib":`...), r.DiskHigh)
	b = appendWatermark(append(b, `,"disk_low_watermark_mib":`...), r.DiskLow)
	b = strconv.AppendInt(append(b, `,"disk_mib":`...), int64(r.DiskMiB), 10)
	b = appendString(append(b, `,"fairness_group":`...), r.FairnessGroup)
	b = appendNullable(append(b, `,"generation_id":`...), r.GenerationID)
	b = appendStrings(append(b, `,"host_labels":`...), r.HostLabels)
	b = appendString(append(b, `,"idempotency_key":`...), r.IdempotencyKey)
	b = appendNullable(append(b, `,"input_digest":`...), source)
	b = appendNullable(append(b, `,"lane_id":`...), r.LaneID)
	b = strconv.AppendInt(append(b, `,"memory_mib":`...), int64(r.MemoryMiB), 10)
	b = appendString(append(b, `,"operation":`...), r.Kind.Operation())
	b = appendString(append(b, `,"owner_id":`...), r.OwnerID)
	b = appendTarget(append(b, `,"preferred_target":`...), &r.Preferred)
	b = strconv.AppendInt(append(b, `,"priority":`...), int64(r.Priority), 10)
	b = strconv.AppendInt(append(b, `,"process_slots":`...), int64(r.ProcessSlots), 10)
	b = appendNullable(append(b, `,"queue_deadline":`...), r.QueueDeadline)
	b = appendString(append(b, `,"repository_id":`...), r.RepositoryID)
	b = appendString(append(b, `,"request_id":`...), r.RequestID)
	b = appendTarget(append(b, `,"required_target":`...), r.Required)
	b = appendString(append(b, `,"resource_class":`...), r.ResourceClass)
	b = appendNullable(append(b, `,"retry_class":`...), r.RetryClass)
	b = appendString(append(b, `,"session_id":`...), r.SessionID)
	b = appendNullable(append(b, `,"target_alias":`...), r.TargetAlias)
	b = appendString(append(b, `,"target_kind":`...), r.TargetKind)
	b = appendString(append(b, `,"tenant_id":`...), r.TenantID)
	b = appendStrings(append(b, `,"validation_stages":`...), r.Stages)
	return append(b, '}')
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

func appendPointer(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return appendString(b, *s)
}

func appendWatermark(b []byte, n *int64) []byte {
	if n == nil {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, *n, 10)
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func appendTarget(b []byte, t *Target) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	b = appendPointer(append(b, `{"alias":`...), t.Alias)
	b = appendStrings(append(b, `,"capability_labels":`...), t.CapabilityLabels)
	b = appendString(append(b, `,"kind":`...), t.Kind)
	return append(b, '}')
}
