package workitem

import "context"

// Consent revokes, restores or limits the consent of a gated job (section 12).
func (c *Caller) Consent(ctx context.Context, in *ConsentInput) (*ConsentState, error) {
	if err := c.need(ScopeAdmin); err != nil {
		return nil, err
	}
	id, err := ParseID(in.JobID)
	if err != nil {
		return nil, err
	}
	var expires Instant
	switch in.Action {
	case "revoke", "restore":
		if in.ExpiresAt != nil {
			return nil, invalid("expires_at", "must be given only with the action expire_at")
		}
	case "expire_at":
		if in.ExpiresAt == nil {
			return nil, invalid("expires_at", "must be given with the action expire_at")
		}
		if expires, _, err = ParseInstant(*in.ExpiresAt); err != nil {
			return nil, invalid("expires_at", "must be an RFC 3339 instant with an offset")
		}
		expires = sooner(expires)
	default:
		return nil, invalid("action", "must be revoke, restore or expire_at")
	}
	var state *ConsentState
	err = c.a.update(ctx, func(tx Tx, h *happening) error {
		it, err := c.find(tx, id)
		if err != nil {
			return err
		}
		if !it.ConsentRequired {
			return &Error{Code: InvalidState, Message: "the job needs no consent"}
		}
		if it.Status.Terminal() {
			return &Error{Code: InvalidState, Message: "the job has ended as " + it.Status.State()}
		}
		now := tx.Now()
		switch in.Action {
		case "revoke":
			it.ConsentExpiresAt = now
		case "restore":
			it.ConsentGrantedAt, it.ConsentExpiresAt = now, 0
			if ttl := c.a.cfg.ConsentTTL; ttl > 0 {
				it.ConsentExpiresAt = now.Add(ttl)
			}
		case "expire_at":
			it.ConsentExpiresAt = expires
		}
		ev := Event{Name: "consent_" + in.Action, Subject: c.p.Subject}
		if err := h.save(tx, it, it.Status, ev); err != nil {
			return err
		}
		if it.claimable(now) {
			h.ready = append(h.ready, Queue{it.Tenant, it.Kind})
		}
		stored, err := tx.Stored(it)
		if err != nil {
			return err
		}
		state, err = consentOf(it, stored, now)
		return err
	})
	return state, err
}

func consentOf(it *Item, stored *Stored, now Instant) (*ConsentState, error) {
	record, err := DecodeRecord(stored.Metadata)
	if err != nil {
		return nil, err
	}
	s := &ConsentState{
		JobID: it.ID.JobID(), Required: it.ConsentRequired, State: it.consent(now),
		GrantedAt: instantText(it.ConsentGrantedAt), ExpiresAt: instantText(it.ConsentExpiresAt),
	}
	if it.ConsentRequired {
		s.Scope = "repository:" + it.Kind.Operation()
		s.Subject = it.Repository
		if m := record.Consent.RiskMarker; m != nil {
			s.Basis = *m
		}
	}
	return s, nil
}
