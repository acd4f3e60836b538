// Package store keeps cells durably in one SQLite file. Store implements cell.Store,
// section 12 of the specification of the cell runtime.
//
// One process owns the file, by a lock that the kernel holds; a second one is refused.
// Writes of any number of goroutines are checked side by side. One goroutine then takes
// all that wait, decides each by what the file says, and commits them in one
// transaction without a sync; a second goroutine syncs the log once for all
// transactions that were committed meanwhile, and only then answers. So nothing is
// acknowledged before it is durable. A sync or a commit that fails leaves open whether
// its writes will be there: they are answered with cell.ErrCommitUnknown, and the store
// takes no more until it was opened again.
//
// Content is appended in packs, a row for each write. Particles are uniform numbers,
// and to file each one of them where it belongs would touch hundreds of places of the
// file for one input. So the index of particles is kept as sorted runs, each written
// once and in order: new entries are collected in memory, make a run when there are
// enough, and runs of a similar size are merged beside the writer. After a crash the
// packs that no run has are read again, which are never many.
//
// Content that comes from the file is hashed before anybody gets it. Pages of the index
// and rows have checksums. What can't be read is an error and never looks like absence.
package store
