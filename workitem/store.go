package workitem

import "context"

// Store keeps work items durably. There is one implementation for each engine;
// workitem/storetest is what all of them must pass.
type Store interface {
	// Update runs fn in a transaction and returns once that is durable; waiting
	// updates may share one transaction. If fn returns an error, nothing that it
	// wrote is kept and the error is returned as it is. fn may run more than once,
	// never after Update has returned, and must not keep the Tx. Only its last run
	// counts: what an earlier one has read may have been a guess. If ctx ends before
	// fn has begun, ctx's error is returned and fn does not run.
	//
	// When the store can't be written it returns an error with the code
	// authority_unavailable.
	Update(ctx context.Context, fn func(Tx) error) error
	// View runs fn on one consistent state, every part of which is durable by the
	// time View returns.
	View(ctx context.Context, fn func(Reader) error) error
	// Health is nil, or why the store can't be written.
	Health() error
	// Close ends the store. Updates that wait are finished first.
	Close() error
}

// Watcher is a Store that other processes write too.
type Watcher interface {
	// Watch has fn called with what other processes have changed, soon after it is
	// durable. Changes may be missing.
	Watch(fn func(*Change))
}

// Change is what others have changed, for those who wait for it.
type Change struct {
	Items      []ID     // changed their status
	AnyItem    bool     // so did others that are not named
	Ready      []Queue  // have one more claimable job
	Leases     []string // tenants with one live lease less
	Everything bool     // anything may have changed
}

// Queue is what a waiting claim waits for.
type Queue struct {
	Tenant string
	Kind   Kind
}

// Reader reads one consistent state.
type Reader interface {
	// Now is the time of the store's clock, which never runs backwards.
	Now() Instant
	// Epoch is the authority epoch: 0 in a new store.
	Epoch() (int64, error)
	// Item returns a row, or nil if there is none. In an Update the row is the
	// caller's until the transaction ends.
	Item(ID) (*Item, error)
	// Stored returns the other half of a row and sets its CorrelationID.
	Stored(*Item) (*Stored, error)
	// Tombstone returns what is left of a pruned job, or nil.
	Tombstone(ID) (*Tombstone, error)
	// Children lists the jobs that have id among their parents in the reverse
	// index, sorted.
	Children(ID) ([]ID, error)
	// History lists what happened to an item, oldest first.
	History(*Item) ([]Event, error)
	// List returns at most limit rows after a place, ordered by creation and id.
	List(q *Query, after Place, limit int) ([]*Item, error)
	// Tenants lists the tenants that have rows.
	Tenants() ([]string, error)
	// Leases counts the live leases of a tenant.
	Leases(tenant string) (int, error)
	// Counts counts the rows of a tenant by kind and status.
	Counts(tenant string) ([]Count, error)
	// ClaimableCounts counts by kind what Item.Obstacles lets through.
	ClaimableCounts(tenant string) (map[Kind]int, error)
	// OldestReady is when the oldest claimable job of the tenant was created, of
	// any tenant if it is empty; 0 if there is none.
	OldestReady(tenant string) (Instant, error)
	// Faults counts the rows of a tenant that are set aside.
	Faults(tenant string) (int, error)
	// Linked says whether the reverse index of parent has child.
	Linked(parent, child ID) (bool, error)
	// Remembered returns the claim that a claim request id was answered with.
	Remembered(tenant, subject, request string) (*Remembered, error)
	// Token returns a token by its id, or nil; Tokens those of a tenant, or of all
	// if it is empty.
	Token(id string) (*Token, error)
	Tokens(tenant string) ([]*Token, error)
}

// Tx reads and writes.
type Tx interface {
	Reader

	// Insert adds a row that is not there, sets its Row, and records event.
	Insert(*Item, *Stored, Event) error
	// Save writes the lifecycle of a row, which had the status from until now. An
	// event with a name is added to the history.
	Save(it *Item, from Status, ev Event) error
	// Link and Unlink change the reverse index; Link says whether it did.
	Link(parent, child ID) (bool, error)
	Unlink(parent, child ID) error
	// Delete removes a row with everything that belongs to it and leaves t.
	Delete(*Item, *Tombstone) error

	// Exhausted lists items of the tenant whose lease has run out with no attempt
	// left.
	Exhausted(tenant string) ([]ID, error)
	// Next returns the first claimable row in the order of s, or nil. Rows whose
	// consent is missing are returned too: the caller parks them.
	Next(s *Selection) (*Item, error)
	// Wake makes items of the tenant and kind claimable whose time has come.
	Wake(tenant string, kind Kind) error
	// Turn and SetTurn keep whose turn it is in one bucket of a tenant and kind.
	Turn(tenant string, kind Kind, bucket int) (Turn, error)
	SetTurn(tenant string, kind Kind, bucket int, turn Turn) error

	// Remember keeps the answer of a claim request id.
	Remember(tenant, subject, request string, r *Remembered) error
	// Forget drops the claim request ids from before an instant.
	Forget(before Instant) error

	// RaiseEpoch adds 1 to the authority epoch and gives the new one. The lease epoch
	// and the fencing token of every row that has not ended grow by EpochStep, and a
	// lease that is live runs out now. After LastEpoch it returns ErrLastEpoch.
	RaiseEpoch() (int64, error)

	// AddToken and SaveToken write a token.
	AddToken(*Token) error
	SaveToken(*Token) error
}

// Place is a position in the order of creation: after the row with these values.
type Place struct {
	CreatedAt Instant
	ID        ID
}

// Query selects rows of one tenant. Empty members select everything.
type Query struct {
	Tenant        string
	Owner         string
	Repository    string
	ResourceClass string
	Kind          Kind
	Statuses      []Status
	LaneID        string
	CandidateID   string
	GenerationID  string
	CorrelationID string
	CreatedAfter  Instant // exclusive
	CreatedBefore Instant // exclusive
	// Claimable leaves out rows that can't be claimed now. The caller checks
	// again with Item.Obstacles.
	Claimable bool
	// Unverified selects submitted rows whose dependencies were not verified.
	Unverified bool
}

// Count is how many rows of a kind have a status.
type Count struct {
	Kind   Kind
	Status Status
	Rows   int
}

// Event is one row of a job's history.
type Event struct {
	Seq      int
	At       Instant
	Name     string
	From, To Status
	Epoch    int64
	Subject  string
	Detail   string
}

// Selection says what a claim may take, and in which order.
type Selection struct {
	Tenant        string
	Kind          Kind
	ResourceClass string // if not empty
	FairnessGroup string // if not empty
	// Native is bucket 0 first and no priority inside a bucket; otherwise bucket 3
	// comes first.
	Native bool
	// Fair makes the groups of a bucket take turns.
	Fair bool
}

// Turn is whose turn it is: the group that was served last, and how many more
// jobs it may have before the next one is served.
type Turn struct {
	Group string
	Left  int
}

// Remembered is how a claim request was answered.
type Remembered struct {
	Item          ID
	Epoch         int64
	Worker        string
	Kind          Kind // 0 for the claim of one job
	ResourceClass string
	FairnessGroup string
	At            Instant
}

// Tombstone is what a pruned job leaves, so that its idempotency key still
// answers.
type Tombstone struct {
	ID       ID
	Tenant   string
	Kind     Kind
	Status   Status
	Digest   Digest
	Loose    Digest
	Owner    string
	PrunedAt Instant
}

// Token is a static credential. Only the hash of its secret is kept.
type Token struct {
	ID        string
	Name      string
	Hash      Digest
	Subject   string
	Tenant    string
	Owner     string
	Scopes    Scope
	CreatedAt Instant
	RevokedAt Instant
}
