// Package suite is what a repository wants checked, and the running of it: the
// file writ.yaml, the suites that are found without one, the set that counts for
// a change, and their results.
//
// It is a second floor below gate because none of this needs an authority: a
// worker that has leased a job and a person who only wants to run the checks use
// the same definition and the same runner as the gate.
//
// What it promises:
//
//   - A change can't weaken its own checks. Resolve takes every suite and every
//     policy flag of the base as the base defines it; what the head changes
//     about them is reported and takes effect after landing. The head may add.
//   - writ.yaml is read strictly. Parse names file, line and column of every
//     problem; what it doesn't know, it refuses.
//   - Nothing of a suite outlives Run (see internal/proc), and a suite that could
//     not be run to its end is an error, never a pass.
package suite
