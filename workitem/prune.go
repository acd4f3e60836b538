package workitem

import (
	"context"
	"slices"
)

// pruneAtOnce is how many jobs one transaction drops: others wait for it.
const pruneAtOnce = 64

// Prune drops jobs that ended long ago, and leaves a tombstone of each, so that
// its idempotency key still answers (section 18). A job with a child that has not
// ended is kept.
func (c *Caller) Prune(ctx context.Context, in *PruneInput) (*Pruned, error) {
	if err := c.need(ScopeAdmin); err != nil {
		return nil, err
	}
	if !(in.OlderThan >= 0 && in.OlderThan <= 1e10) {
		return nil, invalid("older_than_s", "must be 0 to 10000000000 seconds")
	}
	sum := &Pruned{}
	var after Place
	for {
		var old []ID
		var n int
		err := c.a.store.View(ctx, func(r Reader) error {
			old = old[:0]
			items, err := r.List(&Query{Tenant: c.p.Tenant, Statuses: []Status{Succeeded, Failed, StatusCancelled, DeadLetter}}, after, maxListLimit)
			if err != nil {
				return err
			}
			n = len(items)
			limit := r.Now() - Instant(in.OlderThan*1e6)
			for _, it := range items {
				after = Place{it.CreatedAt, it.ID}
				if it.CompletedAt > limit {
					continue
				}
				needed, err := isNeeded(r, it)
				if err != nil {
					return err
				}
				if needed {
					sum.Kept++
					continue
				}
				old = append(old, it.ID)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for chunk := range slices.Chunk(old, pruneAtOnce) {
			n, err := c.drop(ctx, chunk, in.DryRun)
			if err != nil {
				return nil, err
			}
			sum.Pruned += n
		}
		if n < maxListLimit {
			return sum, nil
		}
	}
}

// isNeeded says that a child of the job has not ended.
func isNeeded(r Reader, it *Item) (bool, error) {
	children, err := r.Children(it.ID)
	if err != nil {
		return false, err
	}
	for _, id := range children {
		child, err := r.Item(id)
		if err != nil {
			return false, err
		}
		if child != nil && !child.Status.Terminal() {
			return true, nil
		}
	}
	return false, nil
}

func (c *Caller) drop(ctx context.Context, ids []ID, dry bool) (int, error) {
	if dry {
		return len(ids), nil
	}
	n := 0
	err := c.a.update(ctx, func(tx Tx, _ *happening) error {
		n = 0
		for _, id := range ids {
			it, err := tx.Item(id)
			if err != nil {
				return err
			}
			if it == nil || !it.Status.Terminal() {
				continue
			}
			needed, err := isNeeded(tx, it)
			if err != nil {
				return err
			}
			if needed {
				continue
			}
			stored, err := tx.Stored(it)
			if err != nil {
				return err
			}
			err = tx.Delete(it, &Tombstone{
				ID: it.ID, Tenant: it.Tenant, Kind: it.Kind, Status: it.Status, Owner: it.Owner,
				Digest: stored.Digest, Loose: stored.Loose, PrunedAt: tx.Now(),
			})
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}
