package storetest

import (
	"sync"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// Clock is a clock that a test sets. It has two hands, as a machine has: the wall
// clock, which may be set, and the monotonic clock, which only runs. Any goroutine
// may use it.
type Clock struct {
	mu   sync.Mutex
	wall workitem.Instant
	ran  time.Duration
}

// NewClock is a clock that stands.
func NewClock(at workitem.Instant) *Clock { return &Clock{wall: at} }

// Reading is a clock as somebody sees it who looks at the wall clock once, when he
// starts, and at the monotonic clock from then on.
type Reading struct {
	clock *Clock
	wall  workitem.Instant
	ran   time.Duration
}

// Start looks at both hands.
func (c *Clock) Start() *Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Reading{clock: c, wall: c.wall, ran: c.ran}
}

// Wall is what the wall clock has shown at the start.
func (r *Reading) Wall() time.Time { return time.UnixMicro(int64(r.wall)).UTC() }

// Elapsed is how long ago that was.
func (r *Reading) Elapsed() time.Duration {
	r.clock.mu.Lock()
	defer r.clock.mu.Unlock()
	return r.clock.ran - r.ran
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
	c.ran += d
}

// Jump sets the wall clock forwards, or backwards if d is negative. No time passes.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}
