package workitem

import "time"

// Item is the stored row of a job (section 7.1): what its lifecycle needs. Empty
// strings and zero instants stand for null.
type Item struct {
	// Row is the engine's own number of the row.
	Row int64

	ID                         ID
	Tenant                     string
	Kind                       Kind
	Status                     Status
	CreatedAt                  Instant
	UpdatedAt                  Instant
	CompletedAt                Instant
	Repository, Owner          string
	FairnessGroup              string
	ResourceClass              string
	Priority                   int     // 0..10000
	Deadline                   Instant // of the queue: not claimable after
	DependsOn                  []ID    // present parents, sorted
	DepCount                   int     // parents that have not succeeded
	DepState                   DepState
	Attempt, MaxAttempts       int
	Backoff                    time.Duration // before the first retry
	NextRetryAt                Instant
	LeaseOwner, LeasePrincipal string
	LeaseEpoch, FencingToken   int64
	LeaseExpiresAt             Instant
	HeartbeatAt                Instant
	LastLeaseOwner             string
	Checkpoint                 string
	ResultRef, ErrorRef        string
	CancelReason               string
	DeferCount                 int
	ConsentRequired            bool
	ConsentGrantedAt           Instant
	ConsentExpiresAt           Instant

	// CorrelationID is the request's, or its request id.
	CorrelationID string
}

// DepState says what is known about the dependencies of an item.
type DepState uint8

// The states. Rows that the authority's own transactions have written are
// verified; imported and restored ones are not. A faulty row is left alone until
// everything is reconciled.
const (
	DepUnverified DepState = iota
	DepVerified
	DepFaulty
)
