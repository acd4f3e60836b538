// Package authority is the repository authority of Writ: what was proposed, what
// was checked, who approved, which rule decided and what has landed, kept in
// Binary DB v0 roots.
//
// An Authority is one installation in one data directory: a registry of
// Repositories, of which the first four are reserved, and one root a Repository.
// A Repository is read through View and changed through Update; the verbs are
// methods of Tx. Each verb keeps the invariants of the records it touches:
// chains, counts, ordinals that never come back, owners and times. A verb that
// returns an error has changed nothing.
//
// # What it promises
//
//   - Everything that one Update wrote is durable when it returns, or nothing of
//     it exists.
//   - A lease is handed out only after the running Job and the lease entry are
//     durable. A holder is refused once its lease has expired or was superseded.
//     A claim that is sent again with the same request id gets the same lease.
//   - The next Job to claim is the first in the order of (available at, Repository,
//     Job) over all Repositories that are served, however many are queued or ended.
//   - Evidence of a Job reaches its Patchset before the Job's success marker,
//     and only while that Job is the selected one.
//   - Evaluate is a pure function of what is recorded, so that every decision can
//     be computed again.
//   - A generation of the installation is replaced as a whole, by Restore, Compact
//     or whoever calls Publish, or not at all. Whoever has the old one open gets
//     ErrGeneration from then on.
//   - A Backup has its name only when it is complete, sound and durable. It is made
//     while others write.
//
// The content itself stays in Git. This package knows Snapshots by index, hash
// and manifest; package gate knows which commit they stand for.
package authority
