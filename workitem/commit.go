package workitem

import "context"

// Commit ends an attempt (section 10.6). A job that has ended already is left
// alone and answered with noop. The newest lease counts also when its time has
// run out, as long as nobody else got the job; one that was superseded is fenced.
func (c *Caller) Commit(ctx context.Context, in *CommitInput) (*Settled, error) {
	if err := c.need(ScopeWork); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	end, err := ending(in)
	if err != nil {
		return nil, err
	}
	var status string
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		it, err := c.holder(tx, id, &in.Claim)
		if err != nil {
			return err
		}
		if it.Status.Terminal() {
			h.counts[CommitNoop]++
			status = Noop
			return nil
		}
		if !c.newest(&in.Claim, it) {
			h.counts[FencedRefusal]++
			return fenced(&in.Claim, it, tx.Now())
		}
		status, err = c.settle(tx, h, it, end)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Settled{Status: status}, nil
}

// end is how an attempt ends.
type end struct {
	status    Status // Succeeded, Failed or StatusCancelled
	result    string
	failure   string
	retryable bool
}

func ending(in *CommitInput) (*end, error) {
	e := &end{retryable: in.Retryable == nil || *in.Retryable}
	switch in.Outcome {
	case "succeeded":
		e.status = Succeeded
		for _, f := range []struct {
			name  string
			value *string
		}{{"error_ref", in.ErrorRef}, {"failure_class", in.FailureClass}, {"refusal_code", in.RefusalCode}} {
			if f.value != nil && *f.value != "" {
				return nil, invalid(f.name, "must not be given with the outcome succeeded")
			}
		}
	case "failed":
		e.status = Failed
	case "cancelled":
		e.status = StatusCancelled
	default:
		return nil, invalid("outcome", "must be succeeded, failed or cancelled")
	}
	var err error
	if e.result, err = checkReference("result_ref", in.ResultRef); err != nil {
		return nil, err
	}
	if _, err = checkReference("error_ref", in.ErrorRef); err != nil {
		return nil, err
	}
	e.failure, err = FailureRef(in.FailureClass, in.RefusalCode, in.ErrorRef)
	return e, err
}

// checkReference reads where a result or an error lies; empty is none.
func checkReference(field string, v *string) (string, error) {
	if v == nil || *v == "" {
		return "", nil
	}
	return *v, CheckOpaque(field, *v, maxRefBytes)
}

// settle ends the attempt of a holder whose fence was checked.
func (c *Caller) settle(tx Tx, h *happening, it *Item, e *end) (string, error) {
	now := tx.Now()
	from := it.Status
	ev := Event{Name: "commit", Subject: c.p.Subject}
	it.ResultRef, it.ErrorRef = e.result, e.failure
	release(it)
	status := Committed
	switch {
	case e.status != Failed:
		it.Status = e.status
		if e.status == Succeeded {
			h.counts[CommitSucceeded]++
		} else {
			h.counts[CommitCancelled]++
		}
	case !e.retryable:
		it.Status = Failed
		h.counts[CommitFailed]++
	case it.Attempt < it.MaxAttempts:
		it.Status = Ready
		it.NextRetryAt = now.Add(RetryDelay(it.Backoff, *c.a.cfg.RetryFloor, it.Attempt))
		it.LeaseEpoch++
		it.FencingToken++
		status = RetryScheduled
		h.counts[CommitRetry]++
	default:
		it.Status = DeadLetter
		status = DeadLettered
		h.counts[CommitDeadLetter]++
	}
	if it.Status.Terminal() {
		it.CompletedAt = now
	}
	if err := h.save(tx, it, from, ev); err != nil {
		return "", err
	}
	if it.Status == Succeeded {
		return status, releaseChildren(tx, h, it)
	}
	return status, nil
}

// releaseChildren counts a success for every child, in the transaction of the
// success (section 11.3).
func releaseChildren(tx Tx, h *happening, parent *Item) error {
	children, err := tx.Children(parent.ID)
	if err != nil {
		return err
	}
	for _, id := range children {
		it, err := tx.Item(id)
		if err != nil {
			return err
		}
		if it == nil || it.Tenant != parent.Tenant || it.Status != Submitted {
			continue
		}
		if it.DepState != DepVerified || it.DepCount == 0 {
			// The count of such a row proves nothing: it is made anew.
			if _, _, err := repair(tx, h, it); err != nil {
				return err
			}
			continue
		}
		it.DepCount--
		var ev Event
		if it.DepCount == 0 {
			it.Status = Ready
			ev.Name = "release"
		}
		if err := h.save(tx, it, Submitted, ev); err != nil {
			return err
		}
	}
	return nil
}

// Defer gives a lease back without using the attempt up (section 10.7).
func (c *Caller) Defer(ctx context.Context, in *DeferInput) (*Settled, error) {
	if err := c.need(ScopeWork); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	if (in.NextRetryAt == nil) == (in.Delay == nil) {
		return nil, invalid("delay_s", "must be given, or next_retry_at, not both")
	}
	var at Instant
	if in.NextRetryAt != nil {
		if at, _, err = ParseInstant(*in.NextRetryAt); err != nil {
			return nil, invalid("next_retry_at", "must be an RFC 3339 instant with an offset")
		}
	}
	delay, err := seconds("delay_s", in.Delay, 0, maxBackoff, false)
	if err != nil {
		return nil, err
	}
	reason, err := reasonText(in.Reason)
	if err != nil {
		return nil, err
	}
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		it, err := c.holder(tx, id, &in.Claim)
		if err != nil {
			return err
		}
		now := tx.Now()
		if !c.newest(&in.Claim, it) || it.LeaseExpiresAt < now {
			h.counts[FencedRefusal]++
			return fenced(&in.Claim, it, now)
		}
		next := now.Add(delay)
		if in.NextRetryAt != nil {
			if next = at; next < now {
				return invalid("next_retry_at", "must not lie in the past")
			}
		}
		from := it.Status
		giveBack(it)
		it.NextRetryAt = next
		h.counts[JobDeferred]++
		return h.save(tx, it, from, Event{Name: "defer", Subject: c.p.Subject, Detail: reason})
	})
	if err != nil {
		return nil, err
	}
	return &Settled{Status: Deferred}, nil
}

// reasonText reads a free text of a caller.
func reasonText(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if err := CheckOpaque("reason", s, maxReasonBytes); err != nil {
		return "", err
	}
	return Sanitize(s), nil
}

// Cancel ends a job for good, whatever its holder does (section 10.8). With
// if_idle it refuses while a lease is live.
func (c *Caller) Cancel(ctx context.Context, in *CancelInput) (*Cancelled, error) {
	if err := c.need(ScopeWrite); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	if in.Mode != "" && in.Mode != "force" && in.Mode != "if_idle" {
		return nil, invalid("mode", "must be force or if_idle")
	}
	reason, err := reasonText(in.Reason)
	if err != nil {
		return nil, err
	}
	answer := &Cancelled{Cancelled: true}
	var row rowHalves
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		it, err := c.find(tx, id)
		if err != nil {
			return err
		}
		answer.Changed = false
		switch {
		case it.Status == StatusCancelled:
			return row.read(tx, it)
		case it.Status.Terminal():
			return &Error{Code: InvalidState, Message: "the job has ended as " + it.Status.State()}
		case in.Mode == "if_idle" && it.live(tx.Now()):
			return &Error{Code: InFlight, Message: "the job's lease is live"}
		}
		answer.Changed = true
		h.counts[JobCancelled]++
		from := it.Status
		cancelItem(it, reason, tx.Now())
		if err := h.save(tx, it, from, Event{Name: "cancel", Subject: c.p.Subject, Detail: reason}); err != nil {
			return err
		}
		return row.read(tx, it)
	})
	if err != nil {
		return nil, err
	}
	answer.Job, err = row.view()
	return answer, err
}

func cancelItem(it *Item, reason string, now Instant) {
	it.Status = StatusCancelled
	it.LeaseEpoch++
	it.FencingToken++
	release(it)
	it.CancelReason = reason
	it.CompletedAt = now
}

// sweep cancels ready jobs whose deadline has passed, if the authority is set to.
func (a *Authority) sweep(ctx context.Context) error {
	return a.eachTenant(ctx, func(tenant string) error {
		var after Place
		for {
			var late []ID
			var n int
			err := a.store.View(ctx, func(r Reader) error {
				items, err := r.List(&Query{Tenant: tenant, Statuses: []Status{Ready, Submitted}}, after, maxListLimit)
				if err != nil {
					return err
				}
				n = len(items)
				for _, it := range items {
					if it.Deadline != 0 && it.Deadline < r.Now() {
						late = append(late, it.ID)
					}
					after = Place{it.CreatedAt, it.ID}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(late) > 0 {
				if err := a.cancelLate(ctx, late); err != nil {
					return err
				}
			}
			if n < maxListLimit {
				return nil
			}
		}
	})
}

func (a *Authority) cancelLate(ctx context.Context, late []ID) error {
	class := "cancelled_deadline"
	ref, err := FailureRef(nil, &class, nil)
	if err != nil {
		return err
	}
	return a.update(ctx, func(tx Tx, h *happening) error {
		for _, id := range late {
			it, err := tx.Item(id)
			if err != nil {
				return err
			}
			if it == nil || it.Status != Ready && it.Status != Submitted || it.Deadline == 0 || it.Deadline >= tx.Now() {
				continue
			}
			from := it.Status
			cancelItem(it, "", tx.Now())
			it.ErrorRef = ref
			h.counts[JobCancelled]++
			if err := h.save(tx, it, from, Event{Name: "sweep", Detail: ReasonDeadlinePassed}); err != nil {
				return err
			}
		}
		return nil
	})
}
