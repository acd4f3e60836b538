package record

// Plan is a titled document of planned work with a linear history of revisions
// (Binary DB v0, section 5.12).
//
//bindb:record file=plan.bin root=authority family=plan kind=record size=48 name=PlanRecord const=PLAN_RECORD_SIZE
type Plan struct {
	Meta                    PlanMeta `bin:"plan_meta"`                                                        // status of the Plan
	_                       uint8    `bin:"reserved0"`                                                        // zero
	PayloadLen              uint16   `bin:"payload_len"`                                                      // at least 1
	PayloadOffset           uint64   `bin:"payload_offset" target:"plan_payload.bin"`                         // title
	LatestRevision          Ref      `bin:"latest_revision_index_plus1" target:"plan_revision.bin"`           // head of the revision chain
	PublishedPlan           Ref      `bin:"published_plan_index_plus1" target:"plan.bin"`                     // none on a server
	PublishedLatestRevision Ref      `bin:"published_latest_revision_index_plus1" target:"plan_revision.bin"` // none on a server
	CreatedAt               Seconds  `bin:"created_at_s"`                                                     // required
	UpdatedAt               Seconds  `bin:"updated_at_s"`                                                     // required
	PublishedAt             Seconds  `bin:"published_at_s"`                                                   // zero unless published
}

// PlanRevision is one immutable version of a Plan (section 5.12).
//
//bindb:record file=plan_revision.bin root=authority family=plan kind=record size=56 name=PlanRevisionRecord const=PLAN_REVISION_RECORD_SIZE
type PlanRevision struct {
	_             uint8   `bin:"revision_meta"`                                             // zero; no bit has a meaning
	_             uint8   `bin:"reserved0"`                                                 // zero
	PayloadLen    uint16  `bin:"payload_len"`                                               // at least 10
	Number        uint16  `bin:"revision_number"`                                           // place in the chain, counted from 1
	ItemCount     uint16  `bin:"item_count"`                                                // rows of plan_item.bin that belong to it
	PayloadOffset uint64  `bin:"payload_offset" target:"plan_revision_payload.bin"`         // title, summary and artifact
	Plan          uint32  `bin:"plan_index" target:"plan.bin"`                              // owner
	Previous      Ref     `bin:"previous_revision_index_plus1" target:"plan_revision.bin"`  // none for the first revision
	ItemStart     uint32  `bin:"item_start_index" target:"plan_item.bin"`                   // first row of its items
	Published     Ref     `bin:"published_revision_index_plus1" target:"plan_revision.bin"` // none on a server
	RootTreePack  Ref     `bin:"root_tree_pack_index_plus1" target:"tree_pack.bin"`         // tree of the artifact, if any
	RootEntry     uint32  `bin:"root_entry_ordinal"`                                        // entry inside that pack
	CreatedAt     Seconds `bin:"created_at_s"`                                              // required
	PublishedAt   Seconds `bin:"published_at_s"`                                            // zero unless published
}

// PlanItem is one line of a Plan revision that a Task may take up (section 5.12).
//
//bindb:record file=plan_item.bin root=authority family=plan kind=record size=16 name=PlanItemRecord const=PLAN_ITEM_RECORD_SIZE
type PlanItem struct {
	Meta          PlanItemMeta `bin:"item_meta"`                                     // state of the item
	_             uint8        `bin:"reserved0"`                                     // zero
	PayloadLen    uint16       `bin:"payload_len"`                                   // at least 6
	PayloadOffset uint64       `bin:"payload_offset" target:"plan_item_payload.bin"` // reference, text and headings
	LineNumber    uint32       `bin:"line_number"`                                   // line of the artifact
}

// PlanMeta is the metadata byte of a Plan (section 7.11).
//
//bindb:bits status=0..1:PlanStatus
type PlanMeta uint8

// PlanStatus is the status of a Plan (section 7.11).
//
//bindb:enum
type PlanStatus uint8

const (
	PlanStatusDraft      PlanStatus = 0 // draft
	PlanStatusArchived   PlanStatus = 1 // archived
	PlanStatusSuperseded PlanStatus = 2 // superseded
)

// PlanItemMeta is the metadata byte of a Plan item (section 7.11).
//
//bindb:bits state=0..1:PlanItemState has_ref=2 taskable_hint=3
type PlanItemMeta uint8

// PlanItemState is the check mark of a Plan item (section 7.11).
//
//bindb:enum
type PlanItemState uint8

const (
	PlanItemStateNone PlanItemState = 0 // none
	PlanItemStateOpen PlanItemState = 1 // open
	PlanItemStateDone PlanItemState = 2 // done
)

// Check verifies the invariants that the record alone can show.
func (r *Plan) Check() error {
	switch {
	case r.PayloadLen < 1:
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 1")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.LatestRevision == 0:
		return fieldError("L01", "latest_revision_index_plus1", r.LatestRevision, "a revision")
	case r.CreatedAt == 0:
		return fieldError("L01", "created_at_s", r.CreatedAt, "a time")
	case r.UpdatedAt == 0:
		return fieldError("L01", "updated_at_s", r.UpdatedAt, "a time")
	}
	return nil
}

// Check verifies the invariants that the record alone can show, the numbering of
// the first revision among them (L01).
func (r *PlanRevision) Check() error {
	switch {
	case r.PayloadLen < 10:
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 10")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case r.Number == 0:
		return fieldError("L01", "revision_number", r.Number, "at least 1")
	case (r.Number == 1) != (r.Previous == 0):
		return fieldError("L01", "revision_number", r.Number, "1 exactly when there is no previous revision")
	case r.RootTreePack == 0 && r.RootEntry != 0:
		return fieldError("L02", "root_entry_ordinal", r.RootEntry, "zero without a tree pack")
	case r.CreatedAt == 0:
		return fieldError("L01", "created_at_s", r.CreatedAt, "a time")
	}
	return nil
}

// Check verifies the payload locator.
func (r *PlanItem) Check() error {
	switch {
	case r.PayloadLen < 6:
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 6")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	}
	return nil
}
