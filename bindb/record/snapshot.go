package record

// Snapshot is one state of the content. Its manifest hash identifies the content
// (Binary DB v0, section 5.13).
//
//bindb:record file=snapshot.bin root=authority family=content kind=record size=88 name=ContentSnapshotRecord const=CONTENT_SNAPSHOT_RECORD_SIZE
type Snapshot struct {
	Meta          SnapshotMeta `bin:"snapshot_meta"`                                     // kind, and which parts the payload has
	History       HistoryFlags `bin:"history_flags"`                                     // where known history ends
	PayloadLen    uint16       `bin:"payload_len"`                                       // length of message and Line name
	PayloadOffset uint64       `bin:"payload_offset" target:"snapshot_payload.bin"`      // message and Line name
	Hash48        uint64       `bin:"snapshot_hash48" show:"hex"`                        // public identity, in the low 48 bits
	Parent        Ref          `bin:"parent_snapshot_index_plus1" target:"snapshot.bin"` // copy of the first parent edge
	RootTreePack  Ref          `bin:"root_tree_pack_index_plus1" target:"tree_pack.bin"` // none without a root locator
	RootEntry     uint32       `bin:"root_entry_ordinal"`                                // entry inside that pack
	Line          Ref          `bin:"line_index_plus1" target:"line.bin"`                // Line that it was made on, never changed
	ManifestHash  [32]byte     `bin:"manifest_hash"`                                     // SHA-256 of the manifest
	FileCount     uint32       `bin:"file_count"`                                        // files in the state
	TotalBytes    uint64       `bin:"total_bytes"`                                       // their bytes together
	CreatedAt     Seconds      `bin:"created_at_s"`                                      // time of the Snapshot
}

// SnapshotMeta is the metadata byte of a Snapshot (section 7.12). The kinds have
// no public names.
//
//bindb:bits kind=0..1 has_message=2 has_line_name_payload=3 parent_edges_authority=4 has_root_locator=5 tombstoned=7
type SnapshotMeta uint8

// HistoryFlags says whether the parents of a Snapshot lie beyond what this
// authority holds (section 7.12).
//
//bindb:bits remote_head_boundary=0
type HistoryFlags uint8

// SnapshotParentEdge says that one Snapshot is a parent of another (section
// 5.13).
//
//bindb:record file=snapshot_parent_edge.bin root=authority family=content kind=record size=12 name=SnapshotParentEdgeRecord const=SNAPSHOT_PARENT_EDGE_RECORD_SIZE
type SnapshotParentEdge struct {
	Child   uint32 `bin:"child_snapshot_index" target:"snapshot.bin"`  // the later Snapshot
	Parent  uint32 `bin:"parent_snapshot_index" target:"snapshot.bin"` // the earlier Snapshot, another one
	Ordinal uint16 `bin:"parent_ordinal"`                              // place among the parents of the child, 0..1023
	_       uint16 `bin:"flags"`                                       // zero
}

// SnapshotIDIndex finds Snapshots by public identity (section 11.2).
//
//bindb:record file=snapshot_id.idx root=authority family=content kind=index size=12 name=SnapshotIdIndexRecord
type SnapshotIDIndex struct {
	Hash48   uint64 `bin:"snapshot_hash48" show:"hex"`                 // public identity
	Snapshot Ref    `bin:"snapshot_index_plus1" target:"snapshot.bin"` // required
}

// ManifestHashIndex finds Snapshots by content (section 11.2).
//
//bindb:record file=manifest_hash.idx root=authority family=content kind=index size=36 name=ManifestHashIndexRecord
type ManifestHashIndex struct {
	ManifestHash [32]byte `bin:"manifest_hash"`                              // SHA-256 of the manifest
	Snapshot     Ref      `bin:"snapshot_index_plus1" target:"snapshot.bin"` // required
}

// SnapshotParentChildIndex finds the children of a Snapshot (section 11.2).
//
//bindb:record file=snapshot_parent_child.idx root=authority family=content kind=index size=8 name=SnapshotParentChildIndexRecord
type SnapshotParentChildIndex struct {
	Parent uint32 `bin:"parent_snapshot_index" target:"snapshot.bin"`      // the earlier Snapshot
	Child  Ref    `bin:"child_snapshot_index_plus1" target:"snapshot.bin"` // the later Snapshot, required
}

// MaxParents bounds the parents of one Snapshot.
const MaxParents = 1024

// Check verifies the invariants of sections 5.13 and 7.12 that the record alone
// can show.
func (r *Snapshot) Check() error {
	switch {
	case r.PayloadLen != 0 && r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.PayloadLen < 3 && (r.Meta.HasMessage() || r.Meta.HasLineNamePayload()):
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 3 for a message or Line name")
	case r.Hash48>>48 != 0:
		return fieldError("S01", "snapshot_hash48", r.Hash48, "at most 48 bits")
	case r.Meta.HasRootLocator() != (r.RootTreePack != 0):
		return fieldError("S01", "root_tree_pack_index_plus1", r.RootTreePack, "set exactly when has_root_locator is")
	case r.RootTreePack == 0 && r.RootEntry != 0:
		return fieldError("S01", "root_entry_ordinal", r.RootEntry, "zero without a root locator")
	case r.History.RemoteHeadBoundary() && (!r.Meta.ParentEdgesAuthority() || r.Parent != 0):
		return fieldError("S01", "history_flags", uint8(r.History), "a boundary only with parent_edges_authority and without a parent")
	}
	return nil
}

// Check verifies that the edge is no loop and that its ordinal is in range.
func (r *SnapshotParentEdge) Check() error {
	switch {
	case r.Parent == r.Child:
		return fieldError("S01", "parent_snapshot_index", r.Parent, "another Snapshot than the child")
	case r.Ordinal >= MaxParents:
		return fieldError("S01", "parent_ordinal", r.Ordinal, "0..1023")
	}
	return nil
}

// Check verifies that the row names a Snapshot.
func (r *SnapshotIDIndex) Check() error { return requireRef("snapshot_index_plus1", r.Snapshot) }

// Check verifies that the row names a Snapshot.
func (r *ManifestHashIndex) Check() error { return requireRef("snapshot_index_plus1", r.Snapshot) }

// Check verifies that the row names a child.
func (r *SnapshotParentChildIndex) Check() error {
	return requireRef("child_snapshot_index_plus1", r.Child)
}
