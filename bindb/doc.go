// Package bindb is the container of Binary DB v0: a root directory of
// fixed-record and payload files, mutated in durable batches.
//
// It knows files, records, locks, the journal and indexes. It does not know
// what a record means for the workflow; that is package authority.
//
// # What it promises
//
//   - A batch is wholly there or wholly absent after a crash at any point. Its
//     before-images and append intents are durable in the writer's journal
//     before the first authority byte changes, and recovery either keeps all of
//     the batch or puts all of it back.
//   - Nothing is acknowledged before it is durable. Update returns after the
//     records themselves are synced.
//   - Inside a batch the files become durable in the order that the format asks
//     for: payload bytes, then the records that others refer to, then the
//     records that commit, then job states. See stage.
//   - A failed sync is final. The root refuses every later write until it is
//     opened again and recovered.
//   - Readers see committed records only.
//   - Indexes are accelerators. A missing, stale or damaged one costs time,
//     never truth: it is used only if it has the sum that a clean stop noted.
//
// # Shared and owned roots
//
// Commands share a root: each one opens it, takes the file locks for one batch or
// one view, never longer, and reads the files. Mutations and views of whatever
// process wait for each other.
//
// A server owns a root (Config.Own): it holds the locks from Open to Close, and
// others get ErrBusy. A file is read into memory when it is first used. Behind each
// durable batch, before its callers are answered, the owner puts a new image of
// the records in place of the old one, with which it shares what has not changed.
// A view takes the latest image and reads it without any lock, for as long as it
// likes; it never waits for a mutation or a sync, and never sees what is not
// durable. After a failed sync the image stays that of the last acknowledged batch.
// Memory is somewhat more than the files that are in use.
//
// # How to use it
//
// Create makes a root of empty files, Open opens one and validates what has not
// been validated since the last clean stop. View runs a reader, Update a
// mutation; mutations that wait at the same time share one set of syncs.
// Records are reached through the typed tables (Tasks, Changes, Patchsets and
// so on), variable bytes through the payload files.
//
// Copy writes the committed state elsewhere while others go on, and Verify checks
// files that nobody has open. Hold takes the locks of a root that is to be replaced;
// Held.Compact writes it anew without the bytes that nothing refers to.
package bindb
