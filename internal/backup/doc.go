// Package backup makes one backup of everything that a data directory has, while it is
// in use: the work items, the cells, and the authority in Binary DB files.
//
// A backup is a directory. manifest.json says what it is of and has the size and the
// SHA-256 of every other file; it is written last, and the directory gets its name after
// everything in it was checked and is durable. Each of the three parts is as it was,
// durably, at one moment while the backup was made: none of them refers to another.
//
// A restore makes a new data directory of a backup, whole or not at all, and raises the
// authority epochs: leases that were handed out before are refused.
package backup
