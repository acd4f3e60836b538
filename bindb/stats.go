package bindb

import (
	"sync/atomic"

	"github.com/writ-authority/writ/internal/vfs"
)

// Stats count what an open root has done since it was opened.
type Stats struct {
	Batches   uint64 // committed
	Mutations uint64 // in them, those that failed left out
	Syncs     uint64 // of files and directories
	Bytes     uint64 // written to records, payloads and the journal
}

// Stats returns the counts. They are not of one instant while somebody writes.
func (r *Root) Stats() Stats {
	return Stats{
		Batches: r.stats.batches.Load(), Mutations: r.stats.mutations.Load(),
		Syncs: r.stats.syncs.Load(), Bytes: r.stats.bytes.Load(),
	}
}

type counters struct{ batches, mutations, syncs, bytes atomic.Uint64 }

// syncAll makes files durable side by side.
func (r *Root) syncAll(files []vfs.File) error {
	r.stats.syncs.Add(uint64(len(files)))
	return syncAll(files)
}
