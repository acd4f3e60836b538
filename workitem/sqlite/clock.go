package sqlite

import (
	"sync/atomic"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// Clock is where the time of a store comes from: the wall clock when it is opened,
// and what has passed since by a clock that does not jump.
type Clock interface {
	Wall() time.Time
	Elapsed() time.Duration
}

// systemClock is the machine's.
type systemClock struct{ start time.Time }

func (c *systemClock) Wall() time.Time        { return c.start }
func (c *systemClock) Elapsed() time.Duration { return time.Since(c.start) }

// clock never runs backwards, nor below what the store has written before: the
// wall clock may jump without ending or extending a lease (decision W10).
type clock struct {
	source Clock
	base   workitem.Instant
	last   atomic.Int64
}

func newClock(source Clock, floor workitem.Instant) *clock {
	c := &clock{source: source}
	wall := workitem.InstantOf(source.Wall())
	c.base = max(wall, floor.Add(-source.Elapsed()))
	c.last.Store(int64(floor))
	return c
}

func (c *clock) now() workitem.Instant {
	now := int64(c.base.Add(c.source.Elapsed()))
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
