package workitem

import (
	"context"
	"time"
)

// Submit admits a request, or answers with the job that it has made before
// (section 10.1). A job that was pruned still answers, with the state in which it
// ended.
func (c *Caller) Submit(ctx context.Context, in *SubmitInput) (*Handle, error) {
	if err := c.need(ScopeWrite); err != nil {
		return nil, err
	}
	if len(in.Request) > maxRequestBytes {
		return nil, &Error{Code: PayloadTooLarge, Message: "the request must be at most 262144 bytes"}
	}
	req, err := ParseRequest(in.Request, c.a.cfg.Strict)
	if err != nil {
		return nil, err
	}
	if in.IdempotencyKey != "" && in.IdempotencyKey != req.IdempotencyKey {
		return nil, invalid("Idempotency-Key", "must be the idempotency_key of the request")
	}
	attempts := defaultAttempts
	if in.MaxAttempts != nil {
		attempts = *in.MaxAttempts
	}
	if attempts < 1 || attempts > maxAttempts {
		return nil, invalid("max_attempts", "must be 1 to 100")
	}
	backoff, err := seconds("backoff_base_s", in.BackoffBase, *c.a.cfg.RetryBase, maxBackoff, false)
	if err != nil {
		return nil, err
	}
	if req.TenantID != c.p.Tenant {
		return nil, &Error{Code: UnauthorizedTarget, Field: "tenant_id", Message: "must be the tenant of the credential"}
	}
	if req.OwnerID != c.p.Owner && !c.p.Scopes.Has(ScopeOnBehalf) {
		return nil, &Error{Code: UnauthorizedTarget, Field: "owner_id", Message: "must be the owner of the credential, which lacks the scope jobs:on-behalf"}
	}
	s, err := c.a.submission(req, in.Trace)
	if err != nil {
		return nil, err
	}
	var handle *Handle
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		var err error
		handle, err = c.admit(tx, h, s, attempts, backoff)
		return err
	})
	if err != nil {
		return nil, err
	}
	return handle, nil
}

// submission is a request with everything that can be made of it before the
// transaction.
type submission struct {
	req    *Request
	id     ID
	stored Stored
	// granted and expires override the consent of a new grant.
	copied           bool
	granted, expires Instant
}

func (a *Authority) submission(req *Request, trace string) (*submission, error) {
	metadata, err := EncodeRecord(req.Record())
	if err != nil {
		return nil, err
	}
	s := &submission{
		req: req,
		id:  req.ID(),
		stored: Stored{
			Metadata:       metadata,
			Digest:         req.Digest,
			Loose:          req.Loose,
			IdempotencyKey: ScopedKey(req.TenantID, req.IdempotencyKey),
			CorrelationID:  req.CorrelationID,
			RequestID:      req.RequestID,
			LaneID:         req.LaneID,
			CandidateID:    req.CandidateID,
			GenerationID:   req.GenerationID,
			Trace:          trace,
		},
	}
	if s.stored.CorrelationID == "" {
		s.stored.CorrelationID = req.RequestID
	}
	return s, nil
}

// admit is a submission inside its transaction.
func (c *Caller) admit(tx Tx, h *happening, s *submission, attempts int, backoff time.Duration) (*Handle, error) {
	it, err := tx.Item(s.id)
	if err != nil {
		return nil, err
	}
	if it != nil {
		return same(tx, h, it, s)
	}
	stone, err := tx.Tombstone(s.id)
	if err != nil {
		return nil, err
	}
	if stone != nil {
		return samePruned(h, stone, s)
	}

	pending, whole, err := pendingParents(tx, s.req.TenantID, s.req.Parents)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, &Error{Code: DependencyUnavailable, Field: "dependencies", Message: "names a job that is not there"}
	}

	epoch, err := tx.Epoch()
	if err != nil {
		return nil, err
	}
	now := tx.Now()
	it = &Item{
		ID: s.id, Tenant: s.req.TenantID, Kind: s.req.Kind, Status: Ready,
		CreatedAt: now, UpdatedAt: now,
		Repository: s.req.RepositoryID, Owner: s.req.OwnerID,
		FairnessGroup: s.req.FairnessGroup, ResourceClass: s.req.ResourceClass,
		Priority: s.req.Priority, Deadline: s.req.Deadline,
		DependsOn: s.req.Parents, DepCount: pending, DepState: DepVerified,
		MaxAttempts: attempts, Backoff: backoff,
		LeaseEpoch: epoch * EpochStep, FencingToken: epoch * EpochStep,
		CorrelationID: s.stored.CorrelationID,
	}
	if pending > 0 {
		it.Status = Submitted
	}
	if s.req.Gated() {
		it.ConsentRequired, it.ConsentGrantedAt = true, now
		if ttl := c.a.cfg.ConsentTTL; ttl > 0 {
			it.ConsentExpiresAt = now.Add(ttl)
		}
		if s.copied {
			it.ConsentGrantedAt, it.ConsentExpiresAt = s.granted, s.expires
		}
	}
	err = tx.Insert(it, &s.stored, Event{At: now, Name: "submit", To: it.Status, Subject: c.p.Subject})
	if err != nil {
		return nil, err
	}
	for _, parent := range it.DependsOn {
		if _, err := tx.Link(parent, it.ID); err != nil {
			return nil, err
		}
	}
	h.note(it, 0, now)
	h.counts[SubmittedNew]++
	return handle(s, it.Status, false), nil
}

func handle(s *submission, status Status, duplicate bool) *Handle {
	return &Handle{
		ContractVersion: "1", JobID: s.id.JobID(), WorkItemID: s.id.WorkItemID(),
		RequestID: s.req.RequestID, State: status.State(),
		InputDigest: s.req.Digest.String(), Deduplicated: duplicate,
	}
}

// same is the check that a row was made by the same input.
func same(r Reader, h *happening, it *Item, s *submission) (*Handle, error) {
	stored, err := r.Stored(it)
	if err != nil {
		return nil, err
	}
	if it.Tenant == s.req.TenantID && it.Kind == s.req.Kind && stored.Digest == s.req.Digest {
		h.counts[SubmittedDuplicate]++
		return handle(s, it.Status, true), nil
	}
	return nil, conflict(h, it.Kind, stored.Loose, s)
}

func samePruned(h *happening, t *Tombstone, s *submission) (*Handle, error) {
	if t.Tenant == s.req.TenantID && t.Kind == s.req.Kind && t.Digest == s.req.Digest {
		h.counts[SubmittedDuplicate]++
		return handle(s, t.Status, true), nil
	}
	return nil, conflict(h, t.Kind, t.Loose, s)
}

func conflict(h *happening, kind Kind, loose Digest, s *submission) *Error {
	h.counts[SubmittedConflict]++
	e := &Error{
		Code: DuplicateRequest, Field: "idempotency_key", Differs: "projection",
		Message: "was used before for another input",
	}
	switch {
	case kind != s.req.Kind:
		e.Differs = "operation"
	case loose == s.req.Loose:
		e.Differs = "source_only"
		e.Message = "was used before for a request that says the same in other words: send the same JSON again, or an input_digest of your own"
	}
	return e
}
