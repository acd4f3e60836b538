package workitem

import (
	"math"
	"time"
)

// RetryDelay is how long a job waits after its attempt-th attempt has failed: the
// base, or the floor if that is longer, doubled for each attempt after the first and
// at most 31 times (section 10.6). It is the longest Duration if that is shorter.
func RetryDelay(base, floor time.Duration, attempt int) time.Duration {
	delay := max(base, floor)
	doublings := min(31, max(0, attempt-1))
	if delay > math.MaxInt64>>doublings {
		return math.MaxInt64
	}
	return delay << doublings
}
