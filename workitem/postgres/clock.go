package postgres

import (
	"strings"
	"sync/atomic"
	"time"

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

// sqlNowOf2 is sqlNow as the second parameter.
var sqlNowOf2 = strings.Replace(sqlNow, "$1", "$2", 1)

// clock is the time of a store: the database's, never running backwards within this
// process (decision W10).
type clock struct {
	source Clock // nil is the database's
	last   atomic.Int64
	read   atomic.Pointer[reading] // the last one of the database
}

// reading is what the database's clock said, and when that was heard.
type reading struct {
	now  int64
	when time.Time
}

// guessFor is how long a reading lets this process tell the database's time by itself.
const guessFor = time.Second

// guess is the present instant by the last reading of the database's clock and this
// machine's monotonic clock. ok is false if that was too long ago.
func (c *clock) guess() (now workitem.Instant, ok bool) {
	if c.source != nil {
		return c.at(int64(c.source.Now())), true
	}
	r := c.read.Load()
	if r == nil {
		return 0, false
	}
	passed := time.Since(r.when)
	return c.at(r.now + passed.Microseconds()), passed < guessFor
}

// heard takes a reading of the database's clock.
func (c *clock) heard(now int64) workitem.Instant {
	c.read.Store(&reading{now, time.Now()})
	return c.at(now)
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
