package postgres

import (
	"sync/atomic"

	"github.com/writ-authority/writ/workitem"
)

// Clock is a time that tests give a store instead of the database's.
type Clock interface {
	// Now is the present instant.
	Now() workitem.Instant
}

// sqlNow is the present instant in a statement: the parameter, or the database's clock
// if that is null. It is stable within a statement, so an index can serve it, and later
// than every lock that earlier statements have waited for.
const sqlNow = "coalesce($1::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)"

// clock is the time of a store: the database's, never running backwards within this
// process (decision W10).
type clock struct {
	source Clock // nil is the database's
	last   atomic.Int64
}

// parameter is what statements with sqlNow get: null for the database's clock.
func (c *clock) parameter() *int64 {
	if c.source == nil {
		return nil
	}
	now := int64(c.at(int64(c.source.Now())))
	return &now
}

// at is a reading that is not earlier than the last one.
func (c *clock) at(now int64) workitem.Instant {
	for {
		last := c.last.Load()
		if now <= last {
			return workitem.Instant(last)
		}
		if c.last.CompareAndSwap(last, now) {
			return workitem.Instant(now)
		}
	}
}
