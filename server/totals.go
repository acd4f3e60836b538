package server

import (
	"context"

	"github.com/writ-authority/writ/workitem"
)

// totals are counts over all tenants.
type totals struct {
	OldestReadyAge float64 // seconds; 0 if no job is claimable
	LiveLeases     int
	Faults         int
	Kinds          []kindTotals
}

// kindTotals are the counts of one kind, by state.
type kindTotals struct {
	Kind      string
	States    map[string]int
	Claimable int
}

// readTotals counts the jobs of a store. Every kind and state is there, also with
// 0: a series that comes and goes can't be compared with itself.
func readTotals(ctx context.Context, store workitem.Store) (totals, error) {
	var t totals
	err := store.View(ctx, func(r workitem.Reader) error {
		t = totals{}
		for kind := workitem.Kind(1); kind.Valid(); kind++ {
			k := kindTotals{Kind: kind.String(), States: map[string]int{}}
			for s := workitem.Submitted; s <= workitem.DeadLetter; s++ {
				k.States[s.State()] = 0
			}
			t.Kinds = append(t.Kinds, k)
		}
		tenants, err := r.Tenants()
		if err != nil {
			return err
		}
		for _, tenant := range tenants {
			if err := t.add(r, tenant); err != nil {
				return err
			}
		}
		oldest, err := r.OldestReady("")
		if err == nil && oldest != 0 {
			t.OldestReadyAge = max(0, (r.Now() - oldest).Seconds())
		}
		return err
	})
	return t, err
}

// add adds the counts of one tenant.
func (t *totals) add(r workitem.Reader, tenant string) error {
	counts, err := r.Counts(tenant)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if c.Kind.Valid() {
			t.Kinds[c.Kind-1].States[c.Status.State()] += c.Rows
		}
	}
	claimable, err := r.ClaimableCounts(tenant)
	if err != nil {
		return err
	}
	for kind, n := range claimable {
		if kind.Valid() {
			t.Kinds[kind-1].Claimable += n
		}
	}
	leases, err := r.Leases(tenant)
	if err != nil {
		return err
	}
	faults, err := r.Faults(tenant)
	t.LiveLeases += leases
	t.Faults += faults
	return err
}
