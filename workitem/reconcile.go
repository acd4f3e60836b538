package workitem

import "context"

// pendingParents counts the parents that have not succeeded. whole is false if one
// is missing or belongs to another tenant, which must look alike.
func pendingParents(r Reader, tenant string, parents []ID) (pending int, whole bool, err error) {
	for _, id := range parents {
		p, err := r.Item(id)
		if err != nil {
			return 0, false, err
		}
		if p == nil || p.Tenant != tenant {
			return 0, false, nil
		}
		if p.Status != Succeeded {
			pending++
		}
	}
	return pending, true, nil
}

// repair mends the dependency state of one item (section 11.4): every parent must
// be there, every parent's reverse index must have the item, and the count must
// be that of the parents which have not succeeded. An item with a parent that is
// missing or foreign is set aside and otherwise left as it is.
func repair(tx Tx, h *happening, it *Item) (changed, fault bool, err error) {
	if it.Status != Submitted {
		return false, false, nil
	}
	pending, whole, err := pendingParents(tx, it.Tenant, it.DependsOn)
	if err != nil {
		return false, false, err
	}
	if !whole {
		h.counts[Faulty]++
		if it.DepState == DepFaulty {
			return false, true, nil
		}
		it.DepState = DepFaulty
		return false, true, h.save(tx, it, Submitted, Event{})
	}
	for _, id := range it.DependsOn {
		added, err := tx.Link(id, it.ID)
		if err != nil {
			return false, false, err
		}
		changed = changed || added
	}
	write := it.DepState != DepVerified
	it.DepState = DepVerified
	var ev Event
	if pending != it.DepCount || pending == 0 {
		changed, write = true, true
		it.DepCount = pending
		if pending == 0 {
			it.Status = Ready
			ev.Name = "reconcile"
		}
	}
	if changed {
		h.counts[Repaired]++
	}
	if write {
		err = h.save(tx, it, Submitted, ev)
	}
	return changed, false, err
}

// repairUnverified mends what our own transactions have not written: imported,
// restored and planted rows (decision W2). It finds nothing in normal life.
func repairUnverified(tx Tx, h *happening, tenant string) error {
	var after Place
	for {
		items, err := tx.List(&Query{Tenant: tenant, Unverified: true}, after, maxListLimit)
		if err != nil {
			return err
		}
		for _, it := range items {
			if _, _, err := repair(tx, h, it); err != nil {
				return err
			}
			after = Place{it.CreatedAt, it.ID}
		}
		if len(items) < maxListLimit {
			return nil
		}
	}
}

// reconcileUnverified is repairUnverified for readers: it writes only if there is
// something to mend.
func (a *Authority) reconcileUnverified(ctx context.Context, tenant string) error {
	var found bool
	err := a.store.View(ctx, func(r Reader) error {
		items, err := r.List(&Query{Tenant: tenant, Unverified: true}, Place{}, 1)
		found = len(items) > 0
		return err
	})
	if err != nil || !found {
		return err
	}
	return a.update(ctx, func(tx Tx, h *happening) error { return repairUnverified(tx, h, tenant) })
}

// Reconcile checks every submitted job of the tenant against its parents (section
// 11.5). A second pass finds nothing.
func (c *Caller) Reconcile(ctx context.Context, in *ReconcileInput) (*Reconciled, error) {
	if err := c.needAny(ScopeAdmin, ScopeWork); err != nil {
		return nil, err
	}
	limit, err := limitOf(in.Limit, listLimit)
	if err != nil {
		return nil, err
	}
	return c.a.reconcile(ctx, c.p.Tenant, limit)
}

func (a *Authority) reconcile(ctx context.Context, tenant string, size int) (*Reconciled, error) {
	sum := &Reconciled{}
	var after Place
	for {
		var suspects []ID
		var n int
		err := a.store.View(ctx, func(r Reader) error {
			suspects = suspects[:0]
			items, err := r.List(&Query{Tenant: tenant, Statuses: []Status{Submitted}}, after, size)
			if err != nil {
				return err
			}
			n = len(items)
			for _, it := range items {
				sound, err := isSound(r, it)
				if err != nil {
					return err
				}
				if !sound {
					suspects = append(suspects, it.ID)
				}
				after = Place{it.CreatedAt, it.ID}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		sum.Scanned += n
		if len(suspects) > 0 {
			repaired, faults, err := a.repairAll(ctx, suspects)
			if err != nil {
				return nil, err
			}
			sum.Repaired += repaired
			sum.Faults += faults
		}
		if n < size {
			return sum, nil
		}
	}
}

func (a *Authority) repairAll(ctx context.Context, ids []ID) (repaired, faults int, err error) {
	err = a.update(ctx, func(tx Tx, h *happening) error {
		repaired, faults = 0, 0
		for _, id := range ids {
			it, err := tx.Item(id)
			if err != nil {
				return err
			}
			if it == nil {
				continue
			}
			changed, fault, err := repair(tx, h, it)
			if err != nil {
				return err
			}
			if changed {
				repaired++
			}
			if fault {
				faults++
			}
		}
		return nil
	})
	return repaired, faults, err
}

// isSound says that there is nothing to mend about a submitted item.
func isSound(r Reader, it *Item) (bool, error) {
	if it.DepState != DepVerified {
		return false, nil
	}
	pending, whole, err := pendingParents(r, it.Tenant, it.DependsOn)
	if err != nil || !whole || pending == 0 || pending != it.DepCount {
		return false, err
	}
	for _, id := range it.DependsOn {
		linked, err := r.Linked(id, it.ID)
		if err != nil || !linked {
			return false, err
		}
	}
	return true, nil
}

// eachTenant runs fn for every tenant that has rows.
func (a *Authority) eachTenant(ctx context.Context, fn func(tenant string) error) error {
	var tenants []string
	err := a.store.View(ctx, func(r Reader) (err error) {
		tenants, err = r.Tenants()
		return err
	})
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		if err := fn(tenant); err != nil {
			return err
		}
	}
	return nil
}

// reconcileAll is the pass after a start. What it can't read or write the next
// claim or reconciliation meets again and reports.
func (a *Authority) reconcileAll(ctx context.Context) {
	_ = a.eachTenant(ctx, func(tenant string) error {
		_, err := a.reconcile(ctx, tenant, maxListLimit)
		return err
	})
}
