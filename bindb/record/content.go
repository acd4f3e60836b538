package record

// Blob is the content of a file, identified by its SHA-256 (Binary DB v0,
// section 5.13).
//
//bindb:record file=blob.bin root=authority family=content kind=record size=64 name=BlobRecord const=BLOB_RECORD_SIZE
type Blob struct {
	Meta       BlobMeta `bin:"blob_meta"`                                               // whether a pack holds it
	HashKind   HashKind `bin:"hash_kind"`                                               // how it is identified
	_          uint16   `bin:"reserved"`                                                // zero
	SizeBytes  uint64   `bin:"size_bytes"`                                              // length of the content
	PackMember Ref      `bin:"pack_member_index_plus1" target:"object_pack_member.bin"` // where it is stored
	CreatedAt  Seconds  `bin:"created_at_s"`                                            // time of the record
	PrunedAt   Seconds  `bin:"pruned_at_s"`                                             // time of removal, zero before
	SHA256     [32]byte `bin:"sha256"`                                                  // hash of the content
}

// ObjectPack is a file that holds Blobs (section 5.13).
//
//bindb:record file=object_pack.bin root=authority family=content kind=record size=32 name=ObjectPackRecord const=OBJECT_PACK_RECORD_SIZE
type ObjectPack struct {
	Meta        PackMeta   `bin:"pack_meta"`                                          // whether it is ready
	Format      PackFormat `bin:"pack_format_kind"`                                   // how it is compressed
	HashHigh16  uint16     `bin:"pack_hash48_high16" show:"hex"`                      // identity, upper 16 of 48 bits
	HashLow32   uint32     `bin:"pack_hash48_low32" show:"hex"`                       // identity, lower 32 bits
	FirstMember uint32     `bin:"first_member_index" target:"object_pack_member.bin"` // first of its members
	MemberCount uint32     `bin:"member_count"`                                       // members that follow one another
	TotalBytes  uint64     `bin:"total_bytes"`                                        // length of the pack
	CreatedAt   Seconds    `bin:"created_at_s"`                                       // time of the record
}

// ObjectPackMember places one Blob in a pack (section 5.13).
//
//bindb:record file=object_pack_member.bin root=authority family=content kind=record size=16 name=ObjectPackMemberRecord
type ObjectPackMember struct {
	Meta       MemberMeta `bin:"member_meta"`                             // compression
	DeltaDepth uint8      `bin:"delta_chain_depth"`                       // deltas to apply before this one
	_          uint16     `bin:"reserved"`                                // zero
	Pack       uint32     `bin:"pack_index" target:"object_pack.bin"`     // the pack
	Blob       uint32     `bin:"blob_index" target:"blob.bin"`            // the Blob
	BaseBlob   Ref        `bin:"base_blob_index_plus1" target:"blob.bin"` // what a delta is relative to
}

// TreePack is a file that holds Trees (section 5.13).
//
//bindb:record file=tree_pack.bin root=authority family=content kind=record size=32 name=TreePackRecord const=TREE_PACK_RECORD_SIZE
type TreePack struct {
	Meta       TreePackMeta `bin:"pack_meta"`                          // whether it is ready
	Format     PackFormat   `bin:"pack_format_kind"`                   // how it is compressed
	HashHigh16 uint16       `bin:"pack_hash48_high16" show:"hex"`      // identity, upper 16 of 48 bits
	HashLow32  uint32       `bin:"pack_hash48_low32" show:"hex"`       // identity, lower 32 bits
	FirstTree  uint32       `bin:"first_tree_index" target:"tree.bin"` // first of its Trees
	TreeCount  uint32       `bin:"tree_count"`                         // Trees that follow one another
	TotalBytes uint64       `bin:"total_bytes"`                        // length of the pack
	CreatedAt  Seconds      `bin:"created_at_s"`                       // time of the record
}

// Tree is one directory (section 5.13).
//
//bindb:record file=tree.bin root=authority family=content kind=record size=20 name=TreeRecord const=TREE_RECORD_SIZE
type Tree struct {
	Meta       TreeMeta `bin:"tree_meta"`          // only the tombstone bit has a meaning
	_          uint8    `bin:"reserved0"`          // zero
	PackEntry  uint32   `bin:"pack_entry_ordinal"` // entry inside its pack
	EntryCount uint32   `bin:"entry_count"`        // entries of the directory
	Hash80     [10]byte `bin:"tree_hash80"`        // identity
}

// TreeEntryRange says where the entries of a Tree begin; row i belongs to Tree i
// (section 5.13).
//
//bindb:record file=tree_entry_range.bin root=authority family=content kind=record size=4 name=TreeEntryRangeRecord const=TREE_ENTRY_RANGE_RECORD_SIZE
type TreeEntryRange struct {
	FirstEntry uint32 `bin:"first_entry_index" target:"tree_entry.bin"` // first entry; ranges follow one another
}

// TreeEntry is one name in a directory (section 5.13).
//
//bindb:record file=tree_entry.bin root=authority family=content kind=record size=16 name=TreeEntryRecord
type TreeEntry struct {
	Meta       EntryMeta `bin:"entry_meta"`                                 // file or directory
	NameLen    uint8     `bin:"name_len"`                                   // at least 1
	Mode       uint16    `bin:"mode_bits"`                                  // file mode, zero for a directory
	NameOffset uint64    `bin:"name_offset" target:"tree_name_payload.bin"` // name; entries may share it
	Target     uint32    `bin:"target_index"`                               // index in blob.bin or tree.bin
}

// BlobMeta is the metadata byte of a Blob.
//
//bindb:bits has_pack_member=0 tombstoned=7
type BlobMeta uint8

// PackMeta is the metadata byte of an object pack.
//
//bindb:bits ready=0 corrupt=1 tombstoned=7
type PackMeta uint8

// MemberMeta is the metadata byte of a pack member.
//
//bindb:bits compression=2..3:Compression
type MemberMeta uint8

// TreePackMeta is the metadata byte of a tree pack.
//
//bindb:bits ready=0 corrupt=1 sparse_physical_ordinals=2 tombstoned=7
type TreePackMeta uint8

// TreeMeta is the metadata byte of a Tree.
//
//bindb:bits tombstoned=7
type TreeMeta uint8

// EntryMeta is the metadata byte of a Tree entry.
//
//bindb:bits kind=0..1:EntryKind
type EntryMeta uint8

// HashKind says how a Blob is identified.
//
//bindb:enum
type HashKind uint8

const HashKindSHA256 HashKind = 0 // sha256

// PackFormat says how a pack is compressed.
//
//bindb:enum
type PackFormat uint8

const PackFormatZstd PackFormat = 1 // zstd

// Compression says how one pack member is compressed.
//
//bindb:enum
type Compression uint8

const CompressionZstd Compression = 2 // zstd

// EntryKind says what a Tree entry names.
//
//bindb:enum
type EntryKind uint8

const (
	EntryKindBlob EntryKind = 0 // blob
	EntryKindTree EntryKind = 1 // tree
)

// BlobIDIndex finds Blobs by the first ten bytes of their hash (section 11.2).
//
//bindb:record file=blob_id.idx root=authority family=content kind=index size=14 name=BlobIdIndexRecord
type BlobIDIndex struct {
	Prefix [10]byte `bin:"sha256_prefix"`                      // first bytes of the SHA-256
	Blob   Ref      `bin:"blob_index_plus1" target:"blob.bin"` // required
}

// ObjectPackIDIndex finds object packs by identity (section 11.2).
//
//bindb:record file=object_pack_id.idx root=authority family=content kind=index size=12 name=ObjectPackIdIndexRecord
type ObjectPackIDIndex struct {
	Hash48 uint64 `bin:"pack_hash48" show:"hex"`                           // identity
	Pack   Ref    `bin:"object_pack_index_plus1" target:"object_pack.bin"` // required
}

// TreeIDIndex finds Trees by identity (section 11.2).
//
//bindb:record file=tree_id.idx root=authority family=content kind=index size=14 name=TreeIdIndexRecord
type TreeIDIndex struct {
	Hash80 [10]byte `bin:"tree_hash80"`                        // identity
	Tree   Ref      `bin:"tree_index_plus1" target:"tree.bin"` // required
}

// TreePackIDIndex finds tree packs by identity (section 11.2).
//
//bindb:record file=tree_pack_id.idx root=authority family=content kind=index size=12 name=TreePackIdIndexRecord
type TreePackIDIndex struct {
	Hash48 uint64 `bin:"pack_hash48" show:"hex"`                       // identity
	Pack   Ref    `bin:"tree_pack_index_plus1" target:"tree_pack.bin"` // required
}

// Check verifies that has_pack_member agrees with the reference.
func (r *Blob) Check() error {
	if r.Meta.HasPackMember() != (r.PackMember != 0) {
		return fieldError("S01", "pack_member_index_plus1", r.PackMember, "set exactly when has_pack_member is")
	}
	return nil
}

// Check verifies the name locator and that a directory has no mode.
func (r *TreeEntry) Check() error {
	switch {
	case r.NameLen < 1:
		return fieldError("S01", "name_len", r.NameLen, "at least 1")
	case r.NameOffset < HeaderSize:
		return fieldError("F04", "name_offset", r.NameOffset, "at least 4")
	case r.Meta.Kind() == EntryKindTree && r.Mode != 0:
		return fieldError("S01", "mode_bits", r.Mode, "zero for a directory")
	}
	return nil
}

// Check verifies that the row names a Blob.
func (r *BlobIDIndex) Check() error { return requireRef("blob_index_plus1", r.Blob) }

// Check verifies that the row names a pack.
func (r *ObjectPackIDIndex) Check() error { return requireRef("object_pack_index_plus1", r.Pack) }

// Check verifies that the row names a Tree.
func (r *TreeIDIndex) Check() error { return requireRef("tree_index_plus1", r.Tree) }

// Check verifies that the row names a pack.
func (r *TreePackIDIndex) Check() error { return requireRef("tree_pack_index_plus1", r.Pack) }
