// Package worker claims jobs from a work item authority and has a Handler work on
// them: a function in Go, or a command.
//
// What it promises:
//
//   - A job is worked on only while its lease is live. The lease is renewed three
//     times in the time that it lasts. When a renewal is refused, or none got
//     through and the lease is about to run out, the context of the handler ends;
//     of a command nothing is left alive when the lease runs out.
//   - How long the lease lasts is counted from before the renewal was sent, by a
//     clock that also runs while this process is stopped or the machine sleeps. So
//     the worker never believes in a lease for longer than the authority does, unless
//     that clock itself is slow.
//   - After a lease was lost nothing is committed for it.
//   - Results are committed again and again while the authority does not answer and
//     the lease lasts, and never again after it has answered.
//   - A claim whose answer was lost is repeated with the same claim request id, and
//     so finds the lease that it had been granted.
package worker
