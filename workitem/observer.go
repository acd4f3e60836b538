package workitem

import "time"

// Counter names what an Observer counts. None has a tenant or an id as a label.
type Counter uint8

// The counters.
const (
	SubmittedNew       Counter = iota // submissions that made a job
	SubmittedDuplicate                // submissions answered by the job that was there
	SubmittedConflict                 // submissions refused: the key is bound to other input
	ClaimGranted                      // leases handed out
	ClaimReplayed                     // claims answered by the lease that their claim request id has
	ClaimEmpty                        // claims that found nothing
	ClaimQuota                        // claims refused by the tenant's quota
	ClaimConsent                      // claims refused by the consent gate
	LeaseExpired                      // leases found to have run out, once each
	LeaseRenewed                      // heartbeats and checkpoints accepted
	FencedRefusal                     // worker mutations refused by the fence
	CommitSucceeded                   // attempts ended
	CommitFailed                      //
	CommitCancelled                   //
	CommitRetry                       // failures that will be tried again
	CommitDeadLetter                  // failures with no attempt left, leases exhausted included
	CommitNoop                        // commits of jobs that had ended before
	JobCancelled                      // cancellations
	JobDeferred                       // leases given back
	Repaired                          // jobs that a reconciliation mended
	Faulty                            // jobs that a reconciliation left alone
	CorruptRow                        // rows left out of a listing
	counters
)

// Counters is how many there are.
const Counters = int(counters)

// Observer is told what the authority does. Its methods must not block: they are
// called by the writer.
type Observer interface {
	// Count adds n to a counter.
	Count(c Counter, n int)
	// Batch reports one durable transaction: how many mutations it had, how long
	// they ran, and how long the disk took to make them durable.
	Batch(size int, run, sync time.Duration)
}

// silent is the Observer of an authority that has none.
type silent struct{}

func (silent) Count(Counter, int)                      {}
func (silent) Batch(int, time.Duration, time.Duration) {}
