package workitem

import "context"

// The authority epoch counts how often what had been handed out was made worthless,
// as it must be after a restore: the store then knows nothing of the leases that were
// granted since the backup. A fence has the epoch in which it was made in the bits from
// EpochStep on, so that none of an earlier epoch is ever given out again.
const (
	// EpochStep is how far the fences of one epoch lie behind those of the one before.
	EpochStep int64 = 1 << 32
	// LastEpoch is the last one: fences stay below 2^53, which every reader of JSON
	// has exactly.
	LastEpoch int64 = 1<<21 - 1
)

// Fences of the last epoch are exact in a float64.
const _ = uint64(1<<53 - (LastEpoch+1)*EpochStep)

// ErrLastEpoch is returned by Tx.RaiseEpoch, and nothing written, when the authority
// epoch is LastEpoch.
var ErrLastEpoch = &Error{Code: InvalidState, Message: "the authority epoch is 2097151, the last one: export the jobs into a new store"}

// RaiseEpoch raises the authority epoch of the whole store: every lease is worthless
// from then on, every job that was held can be claimed at once, and every cursor and
// claim request id from before is refused. It is for a store that was restored to an
// earlier state. An admin of one tenant may do it as long as no other tenant has
// jobs, the person who runs the server always.
func (c *Caller) RaiseEpoch(ctx context.Context, _ *NoInput) (*EpochRaised, error) {
	if err := c.need(ScopeAdmin); err != nil {
		return nil, err
	}
	answer := &EpochRaised{}
	err := c.a.update(ctx, func(tx Tx, _ *happening) error {
		tenants, err := tx.Tenants()
		if err != nil {
			return err
		}
		for _, t := range tenants {
			if t != c.p.Tenant && !c.p.Local {
				return &Error{Code: UnauthorizedTarget, Message: "the authority epoch is that of every tenant, and others have jobs too: raise it on the machine of the server"}
			}
		}
		if answer.Previous, err = tx.Epoch(); err != nil {
			return err
		}
		answer.Epoch, err = tx.RaiseEpoch()
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}
