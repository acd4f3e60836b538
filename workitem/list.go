package workitem

import "context"

// List reads a page of jobs, oldest first (section 13). A row that can't be read
// is left out and counted.
func (c *Caller) List(ctx context.Context, in *ListInput) (*Page, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	q, err := c.query(in)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(in.Limit, listLimit)
	if err != nil {
		return nil, err
	}
	var begun int64
	var after Place
	if in.Cursor != "" {
		if begun, after, err = DecodeCursor(c.p.Tenant, in.Cursor); err != nil {
			return nil, err
		}
	}
	if err := c.a.reconcileUnverified(ctx, c.p.Tenant); err != nil {
		return nil, err
	}
	blocked := in.Blocked != nil && *in.Blocked
	var rows []rowHalves
	page := &Page{Items: []View{}}
	var epoch int64
	err = c.a.store.View(ctx, func(r Reader) error {
		if epoch, err = r.Epoch(); err != nil {
			return err
		}
		if in.Cursor != "" && begun != epoch {
			return invalid("cursor", "is of another authority epoch, as after a restore: start the listing again")
		}
		rows, page.Scanned, page.Exhausted = rows[:0], 0, false
		size := min(maxListLimit, max(limit, listLimit))
		last := after
		for {
			items, err := r.List(q, last, size)
			if err != nil {
				return err
			}
			for _, it := range items {
				if len(rows) == limit {
					return nil
				}
				page.Scanned++
				last = Place{it.CreatedAt, it.ID}
				after = last
				if q.Claimable && !it.claimable(r.Now()) {
					continue
				}
				if blocked {
					is, err := isBlocked(r, it)
					if err != nil {
						return err
					}
					if !is {
						continue
					}
				}
				var row rowHalves
				if err := row.read(r, it); err != nil {
					return err
				}
				rows = append(rows, row)
			}
			if len(items) < size {
				page.Exhausted = true
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		v, err := rows[i].view()
		if err != nil {
			page.Corrupt++
			continue
		}
		page.Items = append(page.Items, v)
	}
	c.a.count(CorruptRow, page.Corrupt)
	if !page.Exhausted {
		cursor := EncodeCursor(c.p.Tenant, epoch, after)
		page.NextCursor = &cursor
	}
	return page, nil
}

// query checks the filters of a listing.
func (c *Caller) query(in *ListInput) (*Query, error) {
	if in.TenantID != "" && in.TenantID != c.p.Tenant {
		return nil, &Error{Code: UnauthorizedTarget, Field: "tenant_id", Message: "must be the tenant of the credential"}
	}
	q := &Query{
		Tenant: c.p.Tenant, Owner: in.OwnerID, Repository: in.RepositoryID, ResourceClass: in.ResourceClass,
		LaneID: in.LaneID, CandidateID: in.CandidateID, GenerationID: in.GenerationID, CorrelationID: in.CorrelationID,
		Claimable: in.Claimable != nil && *in.Claimable,
	}
	for _, f := range []struct{ name, value string }{
		{"owner_id", q.Owner}, {"repository_id", q.Repository}, {"resource_class", q.ResourceClass},
		{"lane_id", q.LaneID}, {"candidate_id", q.CandidateID}, {"generation_id", q.GenerationID}, {"correlation_id", q.CorrelationID},
	} {
		if f.value != "" {
			if err := CheckOpaque(f.name, f.value, maxOpaque); err != nil {
				return nil, err
			}
		}
	}
	if !c.p.Scopes.Has(ScopeTenant) {
		if q.Owner != "" && q.Owner != c.p.Owner {
			return nil, &Error{Code: UnauthorizedTarget, Field: "owner_id", Message: "must be the owner of the credential, which lacks the scope jobs:tenant"}
		}
		q.Owner = c.p.Owner
	}
	var err error
	if in.Operation != "" {
		if q.Kind, err = ParseOperation(in.Operation); err != nil {
			return nil, err
		}
	}
	if in.Kind != "" {
		kind, err := ParseKind(in.Kind)
		if err != nil {
			return nil, err
		}
		if q.Kind != 0 && q.Kind != kind {
			return nil, invalid("kind", "must be the kind of operation, if both are given")
		}
		q.Kind = kind
	}
	seen := map[Status]bool{}
	for _, text := range in.State {
		s, err := ParseState(text)
		if err != nil {
			return nil, err
		}
		if !seen[s] {
			seen[s] = true
			q.Statuses = append(q.Statuses, s)
		}
	}
	for _, f := range []struct {
		name, value string
		at          *Instant
	}{{"created_after", in.CreatedAfter, &q.CreatedAfter}, {"created_before", in.CreatedBefore, &q.CreatedBefore}} {
		if f.value != "" {
			if *f.at, _, err = ParseInstant(f.value); err != nil {
				return nil, invalid(f.name, "must be an RFC 3339 instant with an offset")
			}
			*f.at = sooner(*f.at)
		}
	}
	if in.Blocked != nil && *in.Blocked {
		q.Statuses = intersect(q.Statuses, Submitted)
	}
	if q.Claimable {
		q.Statuses = intersect(q.Statuses, Ready, Leased, Running)
	}
	return q, nil
}

// intersect keeps the states that are allowed; no states stand for all. If none is
// left, the result selects nothing.
func intersect(states []Status, allowed ...Status) []Status {
	if len(states) == 0 {
		return allowed
	}
	kept := []Status{}
	for _, s := range states {
		for _, a := range allowed {
			if s == a {
				kept = append(kept, s)
			}
		}
	}
	if len(kept) == 0 {
		kept = append(kept, 0)
	}
	return kept
}

// isBlocked says that a job waits for a parent which has ended without success.
func isBlocked(r Reader, it *Item) (bool, error) {
	if it.Status != Submitted {
		return false, nil
	}
	for _, id := range it.DependsOn {
		p, err := r.Item(id)
		if err != nil {
			return false, err
		}
		if p == nil || p.Tenant != it.Tenant || p.Status.Terminal() && p.Status != Succeeded {
			return true, nil
		}
	}
	return false, nil
}

// Stats counts the jobs of the tenant.
func (c *Caller) Stats(ctx context.Context, _ *NoInput) (*Stats, error) {
	if err := c.need(ScopeRead); err != nil {
		return nil, err
	}
	if err := c.need(ScopeTenant); err != nil {
		return nil, err
	}
	if err := c.a.reconcileUnverified(ctx, c.p.Tenant); err != nil {
		return nil, err
	}
	s := &Stats{Quota: c.a.cfg.Quota}
	err := c.a.store.View(ctx, func(r Reader) error {
		s.Kinds, s.Claimable = []KindStats{}, 0
		counts, err := r.Counts(c.p.Tenant)
		if err != nil {
			return err
		}
		claimable, err := r.ClaimableCounts(c.p.Tenant)
		if err != nil {
			return err
		}
		for _, n := range counts {
			if len(s.Kinds) == 0 || s.Kinds[len(s.Kinds)-1].Kind != n.Kind.String() {
				s.Kinds = append(s.Kinds, KindStats{Kind: n.Kind.String(), States: map[string]int{}, Claimable: claimable[n.Kind]})
				s.Claimable += claimable[n.Kind]
			}
			s.Kinds[len(s.Kinds)-1].States[n.Status.State()] = n.Rows
		}
		if s.LiveLeases, err = r.Leases(c.p.Tenant); err != nil {
			return err
		}
		oldest, err := r.OldestReady(c.p.Tenant)
		if err != nil {
			return err
		}
		if oldest != 0 {
			age := (r.Now() - oldest).Seconds()
			s.OldestReadyAge = &age
		}
		s.Faults, err = r.Faults(c.p.Tenant)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
