// Package sqlitefile keeps one SQLite file for one process: the lock that makes it the
// only owner, the checks before anything is touched, migrations with checksums, and
// the write-ahead log, which is synced and copied under the control of the owner.
//
// Commits are made without a sync (synchronous = NORMAL). File.Sync makes all of them
// durable at once; until then nothing may be acknowledged. SQLite itself syncs the log
// before it is copied and the database after it, so a power cut loses at most commits
// that nobody was told of.
package sqlitefile
