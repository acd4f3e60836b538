package record

// SnapshotLink says that a Snapshot was made for a Task, by whom and where
// (Binary DB v0, section 5.10).
//
//bindb:record file=snapshot_link.bin root=authority family=workflow kind=record size=40 name=ServerTaskSnapshotLinkRecord const=AUTHORITATIVE_SNAPSHOT_LINK_RECORD_SIZE
type SnapshotLink struct {
	Meta             LinkMeta `bin:"link_meta"`                                                            // which parts the record and its payload have
	Ordinal          uint8    `bin:"snapshot_ordinal"`                                                     // 0..63, unique in the Task
	PayloadLen       uint16   `bin:"payload_len"`                                                          // at least 10
	PayloadOffset    uint64   `bin:"payload_offset" target:"snapshot_link_payload.bin"`                    // names of worktree, Line and author
	Task             uint32   `bin:"task_index" target:"task.bin"`                                         // owner
	Change           Ref      `bin:"change_index_plus1" target:"change.bin"`                               // Change of the same Task, if any
	Snapshot         uint32   `bin:"content_snapshot_index" target:"snapshot.bin"`                         // the Snapshot
	PreviousInTask   Ref      `bin:"previous_task_snapshot_link_index_plus1" target:"snapshot_link.bin"`   // link of the Task with the next smaller ordinal
	PreviousInChange Ref      `bin:"previous_change_snapshot_link_index_plus1" target:"snapshot_link.bin"` // link of the Change that was recorded before this one
	CreatedAt        Seconds  `bin:"created_at_s"`                                                         // time of the link
}

// LinkMeta is the metadata byte of a Snapshot link (section 7.10).
//
//bindb:bits has_change=0 has_session=1 has_checkpoint=2 has_worktree_name=3 has_line_name=4 has_author_or_model=5 tombstoned=7
type LinkMeta uint8

// Check verifies the invariants that the record alone can show.
func (r *SnapshotLink) Check() error {
	switch {
	case r.PayloadLen < 10:
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 10")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.Meta.HasChange() != (r.Change != 0):
		return fieldError("F07", "change_index_plus1", r.Change, "set exactly when has_change is")
	}
	return checkOrdinal("snapshot_ordinal", r.Ordinal)
}
