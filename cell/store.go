package cell

import (
	"context"

	"github.com/writ-authority/writ/cell/record"
)

// Particle is the identity of content. That of its birth names a cell.
type Particle = record.Particle

// Head is the newest commit of a cell, or one of its history.
type Head struct {
	Index  uint64
	Commit Particle
}

// CellHead is a cell with its head.
type CellHead struct {
	Cell Particle
	Head Head
}

// Store keeps cells durably (section 12). It has one owner at a time, and its methods
// may be called by any number of goroutines. A read that fails is an error and never
// looks like absence.
type Store interface {
	// Content returns content that was verified; the error wraps ErrMissing if it is
	// not there and ErrCorrupt if it is damaged.
	record.Source

	// Head returns the head of a cell, or an error that wraps ErrMissing.
	Head(ctx context.Context, cell Particle) (Head, error)

	// Cells lists cells above after in the order of their particles, at most limit.
	Cells(ctx context.Context, after Particle, limit int) ([]CellHead, error)

	// History lists the commits of a cell from an index on, at most limit, which is 1
	// to MaxHistory.
	History(ctx context.Context, cell Particle, from uint64, limit int) ([]Head, error)

	// Request returns the head that a request of a cell has led to, if it is known.
	Request(ctx context.Context, cell, request Particle) (Head, bool, error)

	// Write makes one commit, all of it or nothing, and returns when it is durable. A
	// request that is known already is answered with its head and writes nothing. The
	// error wraps ErrConflict, ErrMissing, ErrLimit, ErrInvalid, ErrCorrupt, ErrStore,
	// or ErrCommitUnknown, after which the store takes no writes until it was reopened.
	Write(ctx context.Context, w *Write) (Head, error)
}

// Write is one commit with its content (section 12.2).
type Write struct {
	Cell, Request Particle
	Expected      *Head // the head that it follows; nil for a birth
	Next          Head
	Items         []record.Item // new content; what it refers to is here or in the store
	Claims        []Claim

	// Trusted says that this process has just made the items with a Builder, so that
	// their identities need not be computed again.
	Trusted bool
}

// Claim binds a request to an event in the whole store.
type Claim struct{ Request, Event Particle }

// The bounds of stores (section 17).
const (
	MaxHistory    = 4096     // commits of one page
	MaxWriteBytes = 16 << 20 // of one write: its content, and one byte for each item
	MaxClaims     = 4096     // of one write
)
