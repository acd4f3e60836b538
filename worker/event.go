package worker

import "time"

// EventKind names what happened.
type EventKind string

// The events.
const (
	Idle         EventKind = "idle"        // there is nothing to claim; told once until there was
	Unavailable  EventKind = "unavailable" // a claim was not answered; told once until one was
	Claimed      EventKind = "claimed"     // a job begins
	Checkpointed EventKind = "checkpoint"  // a checkpoint was recorded
	Misspoken    EventKind = "protocol"    // a line of the protocol that was not understood
	Settled      EventKind = "settled"     // the authority took the result, or the job back
	Lost         EventKind = "lost"        // the lease was lost, or the result not taken
	Stopping     EventKind = "stopping"    // nothing more is claimed
)

// Event is something that a log would tell. Members that do not fit its kind are
// zero.
type Event struct {
	Time time.Time
	Kind EventKind
	// JobID, Attempt and FencingToken name the lease that it is about.
	JobID        string
	Attempt      int
	FencingToken int64
	Checkpoint   string
	// Status is what the authority made of a result: committed, retry_scheduled,
	// dead_letter, noop or deferred.
	Status string
	Result Result
	// Elapsed is how long the handler has worked.
	Elapsed time.Duration
	// Err says why, with Lost, Unavailable and Misspoken.
	Err error
}
