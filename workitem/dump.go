package workitem

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Errors of filling a store.
var (
	// ErrOccupied is returned when a store that is to be filled is not empty.
	ErrOccupied = errors.New("the store is not empty")
	// ErrUnfinished is returned by everything but a Loader for a store that was not
	// filled to the end.
	ErrUnfinished = errors.New("an import into the store was not finished")
	// ErrTwice is returned by a Loader for a row that the store has already.
	ErrTwice = errors.New("the same row came twice")
)

// Dumper reads everything that a store has, a page at a time. The Reader of a View is
// a Dumper in every engine that can be moved to another one.
//
// Pages are in an order of the engine's own. Each begins after the last row of the
// one before, the first after the zero value.
type Dumper interface {
	Reader
	// Engine names the engine, and the version of its schema.
	Engine() (name string, schema int)
	// Items reads jobs with all that belongs to them, ordered by Row.
	Items(after int64, limit int) ([]*FullItem, error)
	// Edges reads the reverse index.
	Edges(after Edge, limit int) ([]Edge, error)
	// Tombstones reads what is left of pruned jobs.
	Tombstones(after ID, limit int) ([]*Tombstone, error)
	// Recalls reads the claim request ids with their answers.
	Recalls(after Recall, limit int) ([]Recall, error)
	// Turns reads whose turn it is everywhere.
	Turns(after BucketTurn, limit int) ([]BucketTurn, error)
}

// Loader fills an empty store. From its first row on the store refuses everything but
// another Loader with ErrUnfinished, until Finish. Its methods are for one goroutine.
type Loader interface {
	// Load adds rows, durably at the latest with Finish. The rows of items are numbered
	// anew; submitted ones must be unverified (decision W2).
	Load(context.Context, *Batch) error
	// Sizes and Counts count what the store has, row by row.
	Sizes(context.Context) (Sizes, error)
	Counts(ctx context.Context, tenant string) ([]Count, error)
	// Finish makes the store one like any other, durably, with this authority epoch and
	// with a clock that is not before this instant.
	Finish(ctx context.Context, epoch int64, clock Instant) error
	// Close gives the store up. Without Finish it stays unfinished.
	Close() error
}

// FullItem is a job with all that belongs to it.
type FullItem struct {
	Item    *Item
	Stored  *Stored
	History []Event // oldest first
}

// Edge is one entry of the reverse index.
type Edge struct{ Parent, Child ID }

// Recall is a claim request id with its answer.
type Recall struct {
	Tenant, Subject, Request string
	Remembered
}

// BucketTurn is whose turn it is in one bucket of a tenant and kind.
type BucketTurn struct {
	Tenant string
	Kind   Kind
	Bucket int
	Turn
}

// Batch is what a Loader adds at once.
type Batch struct {
	Items      []*FullItem
	Edges      []Edge
	Tombstones []*Tombstone
	Recalls    []Recall
	Turns      []BucketTurn
	Tokens     []*Token
}

// Sizes says how many rows of each sort a store has.
type Sizes struct {
	Jobs       int64 `json:"jobs"`
	Events     int64 `json:"events"` // of the histories of all jobs
	Edges      int64 `json:"edges"`
	Tombstones int64 `json:"tombstones"`
	Claims     int64 `json:"claims"` // claim request ids
	Turns      int64 `json:"turns"`
	Tokens     int64 `json:"tokens"`
}

// String lists what there is, or says that there is nothing.
func (s Sizes) String() string {
	var parts []string
	for _, p := range []struct {
		n         int64
		one, many string
	}{
		{s.Jobs, "job", "jobs"}, {s.Events, "event of jobs", "events of jobs"}, {s.Edges, "dependency", "dependencies"},
		{s.Tombstones, "tombstone", "tombstones"}, {s.Claims, "claim request id", "claim request ids"},
		{s.Turns, "turn", "turns"}, {s.Tokens, "token", "tokens"},
	} {
		switch p.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+p.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.many))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
