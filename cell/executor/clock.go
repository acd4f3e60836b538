package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/nox"
)

// Clock answers ["clock" 0] with [seconds microseconds] since the beginning of 1970,
// UTC. It fails where the request is another one, or the clock shows an earlier time.
// A lost answer may be given again; see the package comment.
type Clock struct {
	// Now is the clock; nil is that of the system.
	Now func() time.Time
}

// Usage implements Adapter.
func (c *Clock) Usage() string { return `["clock" 0]` }

// Do implements cell.Executor.
func (c *Clock) Do(_ context.Context, r cell.Request) (cell.Result, error) {
	if !r.Arguments.IsAtom() || r.Arguments.Value() != 0 {
		return failed("%s has nothing but 0 after the name", c.Usage())
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	t := now()
	if t.Unix() < 0 {
		return failed("clock: the time is before 1970")
	}
	return succeeded(nox.Pair(nox.Atom(uint64(t.Unix())), nox.Atom(uint64(t.Nanosecond()/1000))))
}

// Find implements cell.Finder.
func (c *Clock) Find(ctx context.Context, r cell.Request) (cell.Result, error) {
	return proven(c.Do(ctx, r))
}

// proven is what a Find may make of a Do that has no effect: its answer. A request
// that is refused today may have been one for somebody else.
func proven(r cell.Result, err error) (cell.Result, error) {
	if r.Outcome == cell.OutcomeFailed {
		return cell.Result{}, fmt.Errorf("nobody here would have performed it: %s", r.Reason)
	}
	return r, err
}
