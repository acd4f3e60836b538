package workitem

import (
	"crypto/sha256"
	"slices"
	"strconv"
)

// RetryRequest is the submission that a retry of a job makes (section 10.9). It has
// no dependencies, declares the old immutable digest as its source, and its
// idempotency key says which attempt of which job it is, so that repeated calls
// converge on one new job. attempt is the number of that next attempt.
func RetryRequest(old *Record, oldItem *Item, attempt int) (*Request, error) {
	job := oldItem.ID.JobID()
	key := "retry:" + job + ":" + strconv.Itoa(attempt)
	req := &Request{
		Facts:          old.Facts,
		TenantID:       oldItem.Tenant,
		IdempotencyKey: key,
		CorrelationID:  job,
		Dependencies:   none,
	}
	req.RequestID = key + ":request"
	req.Source = old.Digest.String()
	if req.RetryClass == "" {
		req.RetryClass = "manual"
	}
	if req.QueueDeadline != "" {
		deadline, canonical, ok := parseInstant(req.QueueDeadline)
		if !ok {
			return nil, corruptRecord("queue_deadline is no instant")
		}
		req.Deadline, req.QueueDeadline = sooner(deadline), canonical
	}
	req.seal(make([]byte, 0, 2048))
	return req, nil
}

// sooner keeps an instant at the epoch that was given, such as a deadline, from
// being none. No job is that old.
func sooner(at Instant) Instant {
	if at == 0 {
		return -1
	}
	return at
}

// RepairIdentity names the repair of a job for a set of findings: whoever asks for
// the same repair gets the same job (section 10.9). Digest is the request's
// repair_intent_digest.
type RepairIdentity struct {
	Digest         Digest
	RepairID       string
	IdempotencyKey string
	RequestID      string
}

// NewRepairIdentity derives the identity from the job and its findings, each once.
func NewRepairIdentity(source ID, classifications []string) RepairIdentity {
	findings := slices.Clone(classifications)
	slices.Sort(findings)
	findings = slices.Compact(findings)
	b := appendStrings([]byte(`{"classifications":`), findings)
	b = append(b, `,"contract":"repository-repair:v1","source_job_id":`...)
	b = append(appendString(b, source.JobID()), '}')
	digest := Digest(sha256.Sum256(b))
	id := "repair:" + digest.String()
	return RepairIdentity{Digest: digest, RepairID: id, IdempotencyKey: id, RequestID: "repair:" + id + ":request"}
}
