package record_test

import (
	"bytes"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// codec is one record type behind plain functions.
type codec struct {
	layout *record.Layout
	// trip decodes b and gives the bytes that it encodes back to.
	trip func(b []byte) ([]byte, error)
	// encodeInto encodes the zero record into dst.
	encodeInto func(dst []byte)
	size       int
}

func of[T any, P record.Codec[T]](size int) codec {
	return codec{
		layout: P(new(T)).Layout(),
		trip: func(b []byte) ([]byte, error) {
			var r T
			if err := P(&r).Decode(b); err != nil {
				return nil, err
			}
			// Garbage, so that bytes that Encode leaves alone show.
			out := bytes.Repeat([]byte{0xaa}, size)
			P(&r).Encode(out)
			return out, nil
		},
		encodeInto: func(dst []byte) { P(new(T)).Encode(dst) },
		size:       size,
	}
}

// codecs lists every record type.
var codecs = []codec{
	of[record.Repository](record.RepositorySize),
	of[record.NamespaceIndex](record.NamespaceIndexSize),
	of[record.Task](record.TaskSize),
	of[record.Change](record.ChangeSize),
	of[record.Patchset](record.PatchsetSize),
	of[record.Attestation](record.AttestationSize),
	of[record.Actor](record.ActorSize),
	of[record.ActorLookupIndex](record.ActorLookupIndexSize),
	of[record.Review](record.ReviewSize),
	of[record.PolicyDecision](record.PolicyDecisionSize),
	of[record.PolicyCheck](record.PolicyCheckSize),
	of[record.Waiver](record.WaiverSize),
	of[record.Land](record.LandSize),
	of[record.SnapshotLink](record.SnapshotLinkSize),
	of[record.OrdinalChain](record.OrdinalChainSize),
	of[record.InventoryChain](record.InventoryChainSize),
	of[record.Plan](record.PlanSize),
	of[record.PlanRevision](record.PlanRevisionSize),
	of[record.PlanItem](record.PlanItemSize),
	of[record.Line](record.LineSize),
	of[record.LineNameIndex](record.LineNameIndexSize),
	of[record.Snapshot](record.SnapshotSize),
	of[record.SnapshotParentEdge](record.SnapshotParentEdgeSize),
	of[record.SnapshotIDIndex](record.SnapshotIDIndexSize),
	of[record.ManifestHashIndex](record.ManifestHashIndexSize),
	of[record.SnapshotParentChildIndex](record.SnapshotParentChildIndexSize),
	of[record.Blob](record.BlobSize),
	of[record.BlobIDIndex](record.BlobIDIndexSize),
	of[record.ObjectPack](record.ObjectPackSize),
	of[record.ObjectPackMember](record.ObjectPackMemberSize),
	of[record.ObjectPackIDIndex](record.ObjectPackIDIndexSize),
	of[record.TreePack](record.TreePackSize),
	of[record.TreePackIDIndex](record.TreePackIDIndexSize),
	of[record.Tree](record.TreeSize),
	of[record.TreeIDIndex](record.TreeIDIndexSize),
	of[record.TreeEntryRange](record.TreeEntryRangeSize),
	of[record.TreeEntry](record.TreeEntrySize),
	of[record.WorkerJob](record.WorkerJobSize),
	of[record.WorkerReadyIndex](record.WorkerReadyIndexSize),
	of[record.WorkerStateIndex](record.WorkerStateIndexSize),
	of[record.LeaseReplicaHeader](record.LeaseReplicaHeaderSize),
	of[record.LeaseReplicaEntry](record.LeaseReplicaEntrySize),
	of[record.LeaseHeader](record.LeaseHeaderSize),
	of[record.LeaseEntry](record.LeaseEntrySize),
	of[record.WorkerJobUpdateJournal](record.WorkerJobUpdateJournalSize),
	of[record.RepositoryUpdateJournal](record.RepositoryUpdateJournalSize),
	of[record.AppendIntent](record.AppendIntentSize),
}

// byName finds the codec that declares the named layout.
func byName(t testing.TB, name string) codec {
	t.Helper()
	for _, c := range codecs {
		if c.layout.Name == name {
			return c
		}
	}
	t.Fatalf("no codec for %s", name)
	panic("unreachable")
}
