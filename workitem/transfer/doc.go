// Package transfer moves all work items of one store to another, of any engine, with
// handles, fences and idempotency as they were: jobs with their records, histories and
// edges, tombstones, claim request ids, the turns of fairness groups and tokens (as
// hashes). The old worker's next heartbeat and its commit succeed at the new store.
//
// An export is a text of one JSON object a line, in the order of docs/postgres.md. It
// is one consistent state of a store that may be in use. Its last line has the number
// of lines of each sort and a SHA-256 of everything before it.
//
// An import goes into an empty store. That refuses every other use until all lines are
// there, were counted again, and fit the last one. Both use memory that does not grow
// with the number of jobs.
package transfer
