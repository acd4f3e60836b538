package record

// Line is a named sequence of Snapshots with a head, as a branch is in Git
// (Binary DB v0, section 5.13).
//
//bindb:record file=line.bin root=authority family=content kind=record size=40 name=LineRecord const=LINE_RECORD_SIZE
type Line struct {
	Meta       LineMeta `bin:"line_meta"`                                       // whether it is archived
	_          uint8    `bin:"reserved0"`                                       // zero
	NameLen    uint16   `bin:"line_name_len"`                                   // at least 1
	NameOffset uint64   `bin:"line_name_offset" target:"line_name_payload.bin"` // name
	Head       Ref      `bin:"head_snapshot_index_plus1" target:"snapshot.bin"` // none for a Line without Snapshots
	CreatedAt  Seconds  `bin:"created_at_s"`                                    // time of creation
	UpdatedAt  Seconds  `bin:"updated_at_s"`                                    // time of the latest change
	ArchivedAt Seconds  `bin:"archived_at_s"`                                   // set exactly when archived
}

// LineMeta is the metadata byte of a Line. Its tombstone bit is bit 1, not bit 7
// as in other families.
//
//bindb:bits archived=0 tombstoned=1
type LineMeta uint8

// LineNameIndex finds Lines by the hash of their name. Unlike other indexes it
// stores the plain index of the Line (section 11.2).
//
//bindb:record file=line_name.idx root=authority family=content kind=index size=12 name=LineNameIndexRecord
type LineNameIndex struct {
	NameHash uint64 `bin:"line_name_hash64" show:"hex"`  // FNV-1a-64 of the name
	Line     uint32 `bin:"line_index" target:"line.bin"` // not plus one
}

// Check verifies the invariants of section 5.13 that the record alone can show.
func (r *Line) Check() error {
	switch {
	case r.NameLen < 1:
		return fieldError("S01", "line_name_len", r.NameLen, "at least 1")
	case r.NameOffset < HeaderSize:
		return fieldError("F04", "line_name_offset", r.NameOffset, "at least 4")
	case r.Meta.Archived() != (r.ArchivedAt != 0):
		return fieldError("S01", "archived_at_s", r.ArchivedAt, "a time exactly when archived")
	}
	return nil
}
