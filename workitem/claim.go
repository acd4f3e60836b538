package workitem

import (
	"context"
	"time"
)

// Claim leases one job to the caller (section 10.2).
func (c *Caller) Claim(ctx context.Context, in *ClaimInput) (*ClaimAnswer, error) {
	if err := c.need(ScopeWork); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	ttl, err := leaseTTL(in.LeaseTTL)
	if err != nil {
		return nil, err
	}
	if err := checkWorker(in.Worker, in.ClaimRequestID); err != nil {
		return nil, err
	}
	g := grant{worker: in.Worker, ttl: ttl, request: in.ClaimRequestID}
	var answer *ClaimAnswer
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		g.item = nil
		answer, err = c.claimOne(tx, h, id, &g)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, answer, &g, false)
}

// ClaimNext leases the job of one kind whose turn it is (section 10.3). With a
// wait it answers as soon as there is one. It needs jobs:tenant, since it may
// hand out jobs of every owner.
func (c *Caller) ClaimNext(ctx context.Context, in *ClaimNextInput) (*ClaimAnswer, error) {
	if err := c.need(ScopeWork); err != nil {
		return nil, err
	}
	if err := c.need(ScopeTenant); err != nil {
		return nil, err
	}
	kind, err := ParseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	ttl, err := leaseTTL(in.LeaseTTL)
	if err != nil {
		return nil, err
	}
	wait, err := seconds("wait_s", in.Wait, 0, maxWait, false)
	if err != nil {
		return nil, err
	}
	if err := checkWorker(in.Worker, in.ClaimRequestID); err != nil {
		return nil, err
	}
	for _, f := range []struct{ field, value string }{{"resource_class", in.ResourceClass}, {"fairness_group", in.FairnessGroup}} {
		if f.value != "" {
			if err := CheckOpaque(f.field, f.value, maxOpaque); err != nil {
				return nil, err
			}
		}
	}
	sel := Selection{
		Tenant: c.p.Tenant, Kind: kind, ResourceClass: in.ResourceClass, FairnessGroup: in.FairnessGroup,
		Native: c.a.cfg.Native, Fair: !c.a.cfg.Native && !c.a.cfg.Unfair && in.FairnessGroup == "",
	}
	g := grant{worker: in.Worker, ttl: ttl, request: in.ClaimRequestID}
	try := func() (*ClaimAnswer, error) {
		var answer *ClaimAnswer
		err := c.a.update(ctx, func(tx Tx, h *happening) error {
			var err error
			g.item = nil
			answer, err = c.claimNext(tx, h, &sel, &g)
			return err
		})
		if err != nil {
			return nil, err
		}
		return c.answer(ctx, answer, &g, true)
	}
	if wait == 0 {
		return try()
	}
	return c.a.await(ctx, Queue{c.p.Tenant, kind}, wait, try)
}

// lookAgain is how often a waiting claim looks without having been woken: for
// leases that run out and retries whose time comes.
const lookAgain = time.Second

// await tries until something was claimed or the time is over.
func (a *Authority) await(ctx context.Context, q Queue, wait time.Duration, try func() (*ClaimAnswer, error)) (*ClaimAnswer, error) {
	w := a.hub.claim(q)
	looked := true
	defer func() { a.hub.dropClaim(w, looked) }()
	end := time.NewTimer(wait)
	defer end.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		looked = true
		answer, err := try()
		if err != nil || answer.Claimed || a.hub.over() {
			return answer, err
		}
		looked = false
		select {
		case <-ctx.Done():
			return answer, nil
		case <-end.C:
			return answer, nil
		case <-w.wake:
		case <-again.C:
		}
	}
}

func checkWorker(worker, request string) error {
	if err := CheckOpaque("worker", worker, maxWorkerBytes); err != nil {
		return err
	}
	if request == "" {
		return nil
	}
	return CheckOpaque("claim_request_id", request, maxClaimRequest)
}

// grant is a lease about to be handed out, and the row that got it.
type grant struct {
	worker  string
	ttl     time.Duration
	request string
	item    *Item
	stored  *Stored
}

func unclaimed(reason string) *ClaimAnswer { return &ClaimAnswer{Reason: reason} }

// answer makes the answer to a claim outside its transaction: the job's view with
// it, if it is asked for. A job whose record can't be read is taken back, set
// aside as faulty, and the claim answered as failed.
func (c *Caller) answer(ctx context.Context, answer *ClaimAnswer, g *grant, view bool) (*ClaimAnswer, error) {
	if g.item == nil {
		return answer, nil
	}
	claim := NewClaim(g.item)
	answer.Claim = &claim
	answer.Trace = g.stored.Trace
	if !view {
		return answer, nil
	}
	record, err := DecodeRecord(g.stored.Metadata)
	if err != nil {
		if aside := c.a.setAside(ctx, g.item); aside != nil {
			return nil, aside
		}
		return nil, err
	}
	v := NewView(g.item, record)
	answer.Job = &v
	return answer, nil
}

// setAside gives a lease back that was granted on a row which can't be read, and
// keeps the row from being handed out again.
func (a *Authority) setAside(ctx context.Context, granted *Item) error {
	return a.update(ctx, func(tx Tx, h *happening) error {
		it, err := tx.Item(granted.ID)
		if err != nil || it == nil || !it.Status.Held() || it.LeaseEpoch != granted.LeaseEpoch {
			return err
		}
		from := it.Status
		giveBack(it)
		it.DepState = DepFaulty
		h.counts[Faulty]++
		return h.save(tx, it, from, Event{Name: "set_aside", Detail: "its record can't be read"})
	})
}

// giveBack ends a lease without using the attempt up.
func giveBack(it *Item) {
	it.Status = Ready
	it.Attempt = max(0, it.Attempt-1)
	it.DeferCount++
	advance(it)
	release(it)
}

// advance makes every lease from before worthless.
func advance(it *Item) {
	it.LeaseEpoch++
	it.FencingToken = it.LeaseEpoch
}

// release clears the holder and remembers it.
func release(it *Item) {
	if it.LeaseOwner != "" {
		it.LastLeaseOwner = it.LeaseOwner
	}
	it.LeaseOwner, it.LeasePrincipal, it.LeaseExpiresAt = "", "", 0
}

// claimOne is the claim of one job inside its transaction.
func (c *Caller) claimOne(tx Tx, h *happening, id ID, g *grant) (*ClaimAnswer, error) {
	if answer, err := c.replay(tx, h, &Remembered{Item: id}, g); answer != nil || err != nil {
		return answer, err
	}
	it, err := c.find(tx, id)
	if err != nil {
		return nil, err
	}
	if it.Status == Submitted {
		if _, _, err := repair(tx, h, it); err != nil {
			return nil, err
		}
	}
	now := tx.Now()
	if it.expired(now) && it.Attempt >= it.MaxAttempts {
		if err := exhaust(tx, h, it); err != nil {
			return nil, err
		}
		return unclaimed(ReasonExhausted), nil
	}
	if why := it.Obstacles(now); len(why) > 0 {
		if why[0] == ReasonConsentDenied {
			h.counts[ClaimConsent]++
		}
		return unclaimed(why[0]), nil
	}
	if full, err := c.full(tx, h); full || err != nil {
		return unclaimed(ReasonTenantQuota), err
	}
	return c.grant(tx, h, it, g, &Remembered{Item: id})
}

// claimNext is the claim of the next job inside its transaction.
func (c *Caller) claimNext(tx Tx, h *happening, sel *Selection, g *grant) (*ClaimAnswer, error) {
	wanted := &Remembered{Kind: sel.Kind, ResourceClass: sel.ResourceClass, FairnessGroup: sel.FairnessGroup}
	if answer, err := c.replay(tx, h, wanted, g); answer != nil || err != nil {
		return answer, err
	}
	if err := repairUnverified(tx, h, c.p.Tenant); err != nil {
		return nil, err
	}
	exhausted, err := tx.Exhausted(c.p.Tenant)
	if err != nil {
		return nil, err
	}
	for _, id := range exhausted {
		it, err := tx.Item(id)
		if err != nil {
			return nil, err
		}
		if err := exhaust(tx, h, it); err != nil {
			return nil, err
		}
	}
	if full, err := c.full(tx, h); full || err != nil {
		return unclaimed(ReasonTenantQuota), err
	}
	if err := tx.Wake(sel.Tenant, sel.Kind); err != nil {
		return nil, err
	}
	for {
		it, err := tx.Next(sel)
		if err != nil {
			return nil, err
		}
		if it == nil {
			h.counts[ClaimEmpty]++
			return unclaimed(ReasonEmpty), nil
		}
		now := tx.Now()
		if s := it.consent(now); s != ConsentNotRequired && s != ConsentActive {
			if err := park(tx, h, it); err != nil {
				return nil, err
			}
			continue
		}
		if sel.Fair {
			if err := c.a.passTurn(tx, it); err != nil {
				return nil, err
			}
		}
		return c.grant(tx, h, it, g, wanted)
	}
}

// passTurn counts a job against its group's turn.
func (a *Authority) passTurn(tx Tx, it *Item) error {
	turn, err := tx.Turn(it.Tenant, it.Kind, it.Bucket())
	if err != nil {
		return err
	}
	if turn.Group == it.FairnessGroup && turn.Left > 0 {
		turn.Left--
	} else {
		turn = Turn{Group: it.FairnessGroup, Left: a.cfg.weight(it.FairnessGroup) - 1}
	}
	return tx.SetTurn(it.Tenant, it.Kind, it.Bucket(), turn)
}

// full says whether the tenant may have no further lease.
func (c *Caller) full(tx Tx, h *happening) (bool, error) {
	n, err := tx.Leases(c.p.Tenant)
	if err != nil || n < c.a.cfg.Quota {
		return false, err
	}
	h.counts[ClaimQuota]++
	return true, nil
}

// exhaust retires an item whose last lease has run out.
func exhaust(tx Tx, h *happening, it *Item) error {
	from := it.Status
	it.Status = DeadLetter
	it.ErrorRef = "lease_exhausted"
	it.CompletedAt = tx.Now()
	advance(it)
	release(it)
	h.counts[LeaseExpired]++
	h.counts[CommitDeadLetter]++
	return h.save(tx, it, from, Event{Name: "exhaust"})
}

// park sets an item whose consent is missing aside for a while: no attempt is
// used, and what was granted on it before is worthless.
func park(tx Tx, h *happening, it *Item) error {
	from := it.Status
	now := tx.Now()
	if from != Ready {
		it.Status = Ready
		advance(it)
		release(it)
		h.counts[LeaseExpired]++
	}
	it.NextRetryAt = now.Add(consentCooldown)
	it.DeferCount++
	it.LeaseEpoch += 2
	it.FencingToken = it.LeaseEpoch
	h.counts[ClaimConsent]++
	return h.save(tx, it, from, Event{Name: "park", Detail: ReasonConsentDenied})
}

// grant hands out the lease. An item that somebody else has held until now is
// reclaimed first.
func (c *Caller) grant(tx Tx, h *happening, it *Item, g *grant, wanted *Remembered) (*ClaimAnswer, error) {
	now := tx.Now()
	from := it.Status
	detail := g.worker
	if it.Status.Held() {
		advance(it)
		release(it)
		h.counts[LeaseExpired]++
		detail += ", after the lease of " + it.LastLeaseOwner + " had run out"
	}
	it.Status = Leased
	it.Attempt++
	advance(it)
	it.LeaseOwner, it.LeasePrincipal = g.worker, c.p.Subject
	it.HeartbeatAt = now
	it.LeaseExpiresAt = now.Add(g.ttl)
	stored, err := tx.Stored(it)
	if err != nil {
		return nil, err
	}
	if err := h.save(tx, it, from, Event{Name: "claim", Subject: c.p.Subject, Detail: detail}); err != nil {
		return nil, err
	}
	if g.request != "" {
		r := *wanted
		r.Item, r.Epoch, r.Worker, r.At = it.ID, it.LeaseEpoch, g.worker, now
		if err := tx.Remember(c.p.Tenant, c.p.Subject, g.request, &r); err != nil {
			return nil, err
		}
	}
	g.item, g.stored = it, stored
	h.counts[ClaimGranted]++
	return &ClaimAnswer{Claimed: true, Reason: ReasonClaimed}, nil
}

// replay answers a claim whose request id was answered before (decision W5).
func (c *Caller) replay(tx Tx, h *happening, wanted *Remembered, g *grant) (*ClaimAnswer, error) {
	if g.request == "" {
		return nil, nil
	}
	r, err := tx.Remembered(c.p.Tenant, c.p.Subject, g.request)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Worker != g.worker || r.Kind != wanted.Kind || r.ResourceClass != wanted.ResourceClass ||
		r.FairnessGroup != wanted.FairnessGroup || wanted.Kind == 0 && r.Item != wanted.Item {
		return nil, &Error{Code: ClaimMismatch, Field: "claim_request_id", Message: "was used before for another claim"}
	}
	it, err := tx.Item(r.Item)
	if err != nil {
		return nil, err
	}
	if it == nil || it.LeaseEpoch != r.Epoch || !it.live(tx.Now()) {
		return nil, &Error{Code: InvalidState, Field: "claim_request_id", Message: "was answered with a lease that has ended: use a new one"}
	}
	stored, err := tx.Stored(it)
	if err != nil {
		return nil, err
	}
	g.item, g.stored = it, stored
	h.counts[ClaimReplayed]++
	return &ClaimAnswer{Claimed: true, Reason: ReasonClaimed}, nil
}

// CurrentClaim gives a worker the tuple of a live lease back that it holds, for
// instance after it was restarted (section 10.10).
func (c *Caller) CurrentClaim(ctx context.Context, in *CurrentClaimInput) (*Claim, error) {
	if err := c.need(ScopeWork); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	if err := CheckOpaque("worker", in.Worker, maxWorkerBytes); err != nil {
		return nil, err
	}
	var claim Claim
	err = c.a.store.View(ctx, func(r Reader) error {
		it, err := c.find(r, id)
		if err != nil {
			return err
		}
		if !it.live(r.Now()) || it.LeaseOwner != in.Worker || it.LeasePrincipal != c.p.Subject {
			return &Error{Code: NotFound, Message: "there is no such lease"}
		}
		claim = NewClaim(it)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &claim, nil
}
