package record

// Repository names one Repository of the installation. Its index is its only
// key and names its authority directory (Binary DB v0, section 4.1).
//
//bindb:record file=repository.bin root=registry family=registry kind=record size=33 name=OperationalRepositoryRecord const=OPERATIONAL_REPOSITORY_RECORD_SIZE
type Repository struct {
	Meta          OperationalMeta `bin:"repository_meta"`                                // only the tombstone bit has a meaning
	Lifecycle     Lifecycle       `bin:"lifecycle_kind"`                                 // where the Repository stands between creation and purge
	Namespace     Namespace       `bin:"namespace_ascii" show:"text"`                    // none, one or two characters, zero-padded
	PolicyFlags   PolicyFlags     `bin:"policy_flags"`                                   // requirements that hold for every Change by default
	PayloadLen    uint32          `bin:"payload_len"`                                    // 2 + the length of the name, 3..65537
	PayloadOffset uint64          `bin:"payload_offset" target:"repository_payload.bin"` // name
	CreatedAt     Seconds         `bin:"created_at_s"`                                   // required and never changed
	UpdatedAt     Seconds         `bin:"updated_at_s"`                                   // required, never before created_at_s
}

// NamespaceIndex finds Repositories by namespace. It gives candidates: purged
// Repositories may share a namespace with a live one (section 4.3).
//
//bindb:record file=repository_namespace.idx root=registry family=registry kind=index size=8 name=OperationalNamespaceIndexRecord const=OPERATIONAL_NAMESPACE_INDEX_RECORD_SIZE
type NamespaceIndex struct {
	Namespace  Namespace `bin:"namespace_ascii" show:"text"`                    // never empty
	_          uint16    `bin:"reserved0"`                                      // zero
	Repository Ref       `bin:"repository_index_plus1" target:"repository.bin"` // required
}

// OperationalMeta is the metadata byte of Repositories and Worker Jobs
// (section 7.13).
//
//bindb:bits tombstoned=7
type OperationalMeta uint8

// Lifecycle is the stage of a Repository (section 8.3). A Repository moves from
// active to retiring and back, and from retiring to purged, never elsewhere.
//
//bindb:enum
type Lifecycle uint8

const (
	LifecycleActive   Lifecycle = 1 // active: takes new work
	LifecycleRetiring Lifecycle = 2 // retiring: finishes its Jobs and takes no new ones
	LifecyclePurged   Lifecycle = 3 // purged: retained for its index, serves nothing
)

// PolicyFlags are the default requirements of a Repository (section 7.13). All
// 256 values are valid.
//
//bindb:bits require_attestation=0 require_tests=1 require_lint=2 require_security_scan=3 require_license_scan=4 require_ai_provenance=5 require_code_review_summary=6 docs_only_relaxed_checks=7
type PolicyFlags uint8

// DefaultPolicyFlags are those of a fresh Repository in the format: attestation
// and tests required, checks relaxed for changes of documentation only.
const DefaultPolicyFlags PolicyFlags = 0x83

// ReservedRepositories are the names that the Repositories 0 to 3 of every
// registry carry (section 4.1).
var ReservedRepositories = [4]string{"ait-core", "ait-server", "ait-python", "ait-node"}

// Check verifies the invariants of section 17.3 that the record alone can show.
func (r *Repository) Check() error {
	if err := r.Namespace.check("G10"); err != nil {
		return err
	}
	switch {
	case r.PayloadLen < 3 || r.PayloadLen > 2+65535:
		return fieldError("G12", "payload_len", r.PayloadLen, "3..65537")
	case r.PayloadOffset < HeaderSize:
		return fieldError("G12", "payload_offset", r.PayloadOffset, "at least 4")
	case r.CreatedAt == 0:
		return fieldError("G14", "created_at_s", r.CreatedAt, "a time")
	case r.UpdatedAt < r.CreatedAt:
		return fieldError("G14", "updated_at_s", r.UpdatedAt, "a time not before created_at_s")
	}
	return nil
}

// Check verifies that the row names a namespace and a Repository.
func (r *NamespaceIndex) Check() error {
	if err := r.Namespace.check("G10"); err != nil {
		return err
	}
	if r.Namespace == (Namespace{}) {
		return &FieldError{Field: "namespace_ascii", Bytes: r.Namespace[:], Want: "one or two characters", Check: "G10"}
	}
	return requireRef("repository_index_plus1", r.Repository)
}
