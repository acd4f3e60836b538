package workitem

import (
	"context"
	"fmt"
	"time"
)

// refusedWorker is a refusal of something that a lease's holder does.
func refusedWorker(code Code, outcome, message string) *Error {
	return &Error{Code: code, Outcome: outcome, Message: message}
}

// checkClaim refuses a claim that is another job's or tenant's, before the fence
// is looked at (section 10.4).
func checkClaim(f *Fence, it *Item) error {
	mismatch := func(field string) error {
		return &Error{Code: ClaimMismatch, Field: field, Message: "is not that of this job"}
	}
	if id, err := ParseID(f.WorkItemID); err != nil || id != it.ID {
		return mismatch("claim.work_item_id")
	}
	if f.JobID != "" {
		if id, err := ParseID(f.JobID); err != nil || id != it.ID {
			return mismatch("claim.job_id")
		}
	}
	if f.Tenant != "" && f.Tenant != it.Tenant {
		return mismatch("claim.tenant")
	}
	return nil
}

// newest says that the fence is the one that was handed out last, and the caller
// the one who got it.
func (c *Caller) newest(f *Fence, it *Item) bool {
	return it.Status.Held() && it.LeaseOwner == f.LeaseOwner && it.LeasePrincipal == c.p.Subject &&
		it.LeaseEpoch == f.LeaseEpoch && it.FencingToken == f.FencingToken
}

// fenced says who has made a lease worthless, for whoever may see the job.
func fenced(f *Fence, it *Item, now Instant) *Error {
	message := "the lease is not the newest one of this job"
	switch {
	case it.Status.Terminal():
		message = "the job has ended as " + it.Status.State()
	case it.LeaseEpoch/EpochStep != f.LeaseEpoch/EpochStep:
		message = "the lease is of another authority epoch, as after a restore: claim the job again"
	case it.Status.Held() && (it.LeaseEpoch != f.LeaseEpoch || it.LeaseOwner != f.LeaseOwner):
		message = fmt.Sprintf("the lease was superseded: %q holds the job with epoch %d", it.LeaseOwner, it.LeaseEpoch)
	case it.Status.Held() && it.LeaseExpiresAt < now:
		message = "the lease has run out"
	case it.Status == Ready:
		message = fmt.Sprintf("the lease has ended: the job is ready again, with epoch %d", it.LeaseEpoch)
	}
	return refusedWorker(StaleFence, "fenced", message)
}

// holder finds the item of a worker's mutation and checks that the claim is its.
func (c *Caller) holder(tx Tx, id ID, f *Fence) (*Item, error) {
	it, err := tx.Item(id)
	if err != nil {
		return nil, err
	}
	if !c.sees(it) {
		e := notFound()
		e.Outcome = "missing"
		return nil, e
	}
	return it, checkClaim(f, it)
}

// Heartbeat renews a lease: it runs out a full length from now (section 10.4). A
// lease that has run out or was superseded, and one whose consent has ended, is
// not renewed.
func (c *Caller) Heartbeat(ctx context.Context, in *HeartbeatInput) (*Renewal, error) {
	until, err := c.renew(ctx, in.JobID, &in.Claim, in.LeaseTTL, "")
	if err != nil {
		return nil, withAnswer(err, func(e *Error, no *bool) { e.Renewed = no })
	}
	return &Renewal{Renewed: true, LeaseExpiresAt: until.Seconds()}, nil
}

// Checkpoint records how far a job has come and renews the lease: both or neither
// (section 10.5).
func (c *Caller) Checkpoint(ctx context.Context, in *CheckpointInput) (*Checkpointed, error) {
	if err := CheckCheckpoint(in.Checkpoint); err != nil {
		return nil, err
	}
	until, err := c.renew(ctx, in.JobID, &in.Claim, in.LeaseTTL, in.Checkpoint)
	if err != nil {
		return nil, withAnswer(err, func(e *Error, no *bool) { e.Applied = no })
	}
	return &Checkpointed{Applied: true, LeaseExpiresAt: until.Seconds()}, nil
}

// withAnswer adds the operation's own answer to a refused mutation of a worker.
func withAnswer(err error, set func(*Error, *bool)) error {
	if e, ok := err.(*Error); ok && e.Outcome != "" {
		set(e, new(bool))
	}
	return err
}

func (c *Caller) renew(ctx context.Context, job string, f *Fence, lease *float64, checkpoint string) (Instant, error) {
	if err := c.need(ScopeWork); err != nil {
		return 0, err
	}
	id, err := ParseID(job)
	if err != nil {
		return 0, err
	}
	ttl, err := leaseTTL(lease)
	if err != nil {
		return 0, err
	}
	var until Instant
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		it, err := c.holder(tx, id, f)
		if err != nil {
			return err
		}
		until, err = c.extend(tx, h, it, f, ttl, checkpoint)
		return err
	})
	return until, err
}

func (c *Caller) extend(tx Tx, h *happening, it *Item, f *Fence, ttl time.Duration, checkpoint string) (Instant, error) {
	now := tx.Now()
	if s := it.consent(now); s != ConsentNotRequired && s != ConsentActive {
		h.counts[ClaimConsent]++
		return 0, refusedWorker(ConsentDenied, ReasonConsentDenied, "the consent to this job is "+s)
	}
	if !c.newest(f, it) || it.LeaseExpiresAt < now {
		h.counts[FencedRefusal]++
		return 0, fenced(f, it, now)
	}
	from := it.Status
	it.Status = Running
	it.HeartbeatAt = now
	it.LeaseExpiresAt = now.Add(ttl)
	var ev Event
	if from != Running {
		ev = Event{Name: "start", Subject: c.p.Subject}
	}
	if checkpoint != "" {
		it.Checkpoint = checkpoint
	}
	h.counts[LeaseRenewed]++
	return it.LeaseExpiresAt, h.save(tx, it, from, ev)
}
