package executor

import (
	"context"
	"crypto/rand"
	"io"

	"github.com/writ-authority/writ/cell"
)

// MaxRandom is how many bytes one request of Random may ask for.
const MaxRandom = 64

// Random answers ["random" COUNT] with a list of COUNT random bytes, 1 to MaxRandom,
// that ends with 0. It fails where the request is another one, or the source fails.
// What it gave is recorded as the outcome, so that a replay finds the same bytes; they
// are no secret. A lost answer may be given again; see the package comment.
type Random struct {
	// Source is read for the bytes; nil is the one of the system. Several goroutines
	// may read from it at once.
	Source io.Reader
}

// Usage implements Adapter.
func (a *Random) Usage() string { return `["random" COUNT]` }

// Do implements cell.Executor.
func (a *Random) Do(_ context.Context, r cell.Request) (cell.Result, error) {
	if !r.Arguments.IsAtom() || r.Arguments.Value() < 1 || r.Arguments.Value() > MaxRandom {
		return failed("%s takes a count of bytes from 1 to %d", a.Usage(), MaxRandom)
	}
	source := a.Source
	if source == nil {
		source = rand.Reader
	}
	b := make([]byte, r.Arguments.Value())
	if _, err := io.ReadFull(source, b); err != nil {
		return failed("random: the source of bytes failed: %v", err)
	}
	return succeeded(list(b))
}

// Find implements cell.Finder.
func (a *Random) Find(ctx context.Context, r cell.Request) (cell.Result, error) {
	return proven(a.Do(ctx, r))
}
