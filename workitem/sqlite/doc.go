// Package sqlite keeps work items in one SQLite file. It implements
// workitem.Store and passes workitem/storetest.
//
// One process owns the file, by a lock that the kernel holds; a second one is
// refused. One goroutine writes. It takes all updates that wait, runs them in one
// transaction, and commits that without a sync (synchronous = NORMAL); a second
// goroutine then syncs the write-ahead log once for all transactions that were
// committed meanwhile, and only then answers their callers. So nothing is
// acknowledged before it is durable, and the writer does not stand still while
// the disk works. SQLite itself syncs the log before each checkpoint and the
// database after it, so a power cut loses at most transactions that nobody was
// told of.
//
// Readers work beside the writer on connections of their own. What they have read
// may not be durable yet; View returns once it is.
//
// Leases, whose turn it is, and counts are kept in memory too, by the writer
// alone: the database is what counts, and after a transaction that was rolled
// back they are read from it again. A sync that fails is final: the store refuses
// everything until it is opened again.
package sqlite
