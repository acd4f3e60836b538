package workitem

import "time"

// Item is the stored row of a job (section 7.1): what its lifecycle needs. What
// was asked for lies in its Stored half, which never changes. Empty strings and
// zero instants stand for null.
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

	// CorrelationID is there once the Stored half was read.
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

// Stored is the half of a job that never changes.
type Stored struct {
	Metadata       []byte // JSON with the extension record (section 7.2)
	Digest         Digest // immutable digest
	Loose          Digest // digest of the projection without its input digest
	IdempotencyKey Digest // scoped key (section 4.4)
	CorrelationID  string
	RequestID      string
	LaneID         string
	CandidateID    string
	GenerationID   string
	Trace          string // W3C trace context of the submission
}

// Bucket is the admission priority, 0..3 (section 7.3).
func (it *Item) Bucket() int { return min(it.Priority, 3) }

// live says that somebody holds the item now.
func (it *Item) live(now Instant) bool {
	return it.Status.Held() && it.LeaseExpiresAt > now
}

// expired says that the lease has run out and was not reclaimed.
func (it *Item) expired(now Instant) bool {
	return it.Status.Held() && it.LeaseExpiresAt <= now
}

// consent is the state of the gate.
func (it *Item) consent(now Instant) string {
	return ConsentStateAt(it.ConsentRequired, it.ConsentGrantedAt, it.ConsentExpiresAt, now)
}

// Position says when an item may be claimed if nothing but time passes: at once
// (Claimable), from an instant on (ClaimableFrom), or not at all.
type Position int64

// Claimable is the position of items that only a deadline or a lapsing consent
// can still take away.
const (
	Unclaimable Position = -1
	Claimable   Position = 0
)

// Position places a ready item among the claimable ones, among those that wait
// for their time, or nowhere (decision: rows that can't be claimed never lie in
// the way of those that can).
func (it *Item) Position(now Instant) Position {
	switch {
	case it.Status != Ready, it.Attempt >= it.MaxAttempts, it.DepState == DepFaulty:
		return Unclaimable
	case it.NextRetryAt > now:
		return Position(it.NextRetryAt)
	default:
		return Claimable
	}
}

// Obstacles are the reasons why the item can't be claimed at this instant, in the
// order in which a claim meets them; none means that it can be, apart from the
// tenant's quota. It is the one definition of readiness: claims, the listing of
// claimable jobs, counts and explanations all follow it.
func (it *Item) Obstacles(now Instant) []string {
	var why []string
	if it.Status.Terminal() {
		return append(why, ReasonTerminal)
	}
	if it.Status == Submitted {
		why = append(why, ReasonSubmitted)
	}
	if it.live(now) {
		why = append(why, ReasonLeased)
	}
	if it.Status != Submitted && !it.live(now) && it.Attempt >= it.MaxAttempts {
		why = append(why, ReasonExhausted)
	}
	if it.NextRetryAt > now {
		why = append(why, ReasonBackoff)
	}
	if it.Deadline != 0 && it.Deadline < now {
		why = append(why, ReasonDeadlinePassed)
	}
	if it.DepState == DepFaulty {
		why = append(why, ReasonFaulty)
	}
	if s := it.consent(now); s != ConsentNotRequired && s != ConsentActive {
		why = append(why, ReasonConsentDenied)
	}
	return why
}

// claimable is Obstacles without the list.
func (it *Item) claimable(now Instant) bool {
	switch {
	case it.Status == Ready, it.expired(now):
	default:
		return false
	}
	if it.Attempt >= it.MaxAttempts || it.NextRetryAt > now || it.DepState == DepFaulty ||
		it.Deadline != 0 && it.Deadline < now {
		return false
	}
	s := it.consent(now)
	return s == ConsentNotRequired || s == ConsentActive
}

// Less says whether a comes before b among the claimable jobs of one fairness
// group (decision W1): priority descending, deadline ascending with none last,
// created, id. Native order has no priority (section 10.3).
func Less(a, b *Item, native bool) bool {
	if !native && a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if x, y := a.Due(), b.Due(); x != y {
		return x < y
	}
	if a.CreatedAt != b.CreatedAt {
		return a.CreatedAt < b.CreatedAt
	}
	return a.ID.Compare(b.ID) < 0
}

// Never is later than every instant.
const Never Instant = 1<<63 - 1

// Due is the deadline, or Never.
func (it *Item) Due() Instant {
	if it.Deadline == 0 {
		return Never
	}
	return it.Deadline
}

// ConsentUntil is when the gate closes: Never without a gate or an expiry, 0 if
// consent was never granted.
func (it *Item) ConsentUntil() Instant {
	switch {
	case !it.ConsentRequired:
		return Never
	case it.ConsentGrantedAt == 0:
		return 0
	case it.ConsentExpiresAt == 0:
		return Never
	default:
		return it.ConsentExpiresAt
	}
}
