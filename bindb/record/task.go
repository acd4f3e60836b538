package record

// Task is a piece of work with a title and an intent. Changes are made for it
// (Binary DB v0, section 5.1).
//
//bindb:record file=task.bin root=authority family=workflow kind=record size=60 name=RemoteTaskRecord const=REMOTE_TASK_RECORD_SIZE
type Task struct {
	Meta               TaskMeta   `bin:"task_meta"`                                                   // progress of the Task
	RemoteMeta         RemoteMeta `bin:"remote_meta"`                                                 // deleted Tasks are skipped by every reader
	PayloadLen         uint16     `bin:"payload_len"`                                                 // at least 3
	PayloadOffset      uint64     `bin:"payload_offset" target:"task_payload.bin"`                    // title and intent
	OriginPlanRevision Ref        `bin:"origin_plan_revision_index_plus1" target:"plan_revision.bin"` // Plan revision that the Task came from, if any
	PlanItem           Ref        `bin:"plan_item_index_plus1" target:"plan_item.bin"`                // set exactly when the revision is
	CreatedAt          Seconds    `bin:"created_at_s"`                                                // required
	UpdatedAt          Seconds    `bin:"updated_at_s"`                                                // required
	PlanLinkedAt       Seconds    `bin:"plan_linked_at_s"`                                            // set exactly when the Task is bound to a Plan
	FetchedAt          Seconds    `bin:"fetched_at_s"`                                                // creation time on a server
	ClosedAt           Seconds    `bin:"closed_at_s"`                                                 // set only for a completed or canceled Task
}

// TaskMeta is the metadata byte of a Task (section 7.1). completed and canceled
// exclude one another.
//
//bindb:bits planned=0 snapshotted=1 review_pending=2 validation_pending=3 blocked=4 ready_to_land=5 completed=6 canceled=7
type TaskMeta uint8

// Terminal says whether the Task is completed or canceled.
func (m TaskMeta) Terminal() bool { return m.Completed() || m.Canceled() }

// RemoteMeta is the second metadata byte of Tasks and Changes. The bits called
// unused are known to other implementations and kept as they are (section 7.1).
//
//bindb:bits deleted=0 unused=1..3
type RemoteMeta uint8

// Check verifies the invariants that the record alone can show: T01 for the
// Plan binding, T02 for the terminal state.
func (r *Task) Check() error {
	switch {
	case r.PayloadLen < 3:
		return fieldError("F07", "payload_len", r.PayloadLen, "at least 3")
	case r.PayloadOffset < HeaderSize:
		return fieldError("F04", "payload_offset", r.PayloadOffset, "at least 4")
	case (r.OriginPlanRevision == 0) != (r.PlanItem == 0):
		return fieldError("T01", "plan_item_index_plus1", r.PlanItem, "zero exactly when origin_plan_revision_index_plus1 is")
	case (r.PlanItem == 0) != (r.PlanLinkedAt == 0):
		return fieldError("T01", "plan_linked_at_s", r.PlanLinkedAt, "a time exactly when the Task is bound to a Plan item")
	case r.Meta.Completed() && r.Meta.Canceled():
		return fieldError("T02", "task_meta", uint8(r.Meta), "not both completed and canceled")
	case r.ClosedAt != 0 && !r.Meta.Terminal():
		return fieldError("T02", "closed_at_s", r.ClosedAt, "zero unless completed or canceled")
	case r.CreatedAt == 0:
		return fieldError("T02", "created_at_s", r.CreatedAt, "a time")
	case r.UpdatedAt == 0:
		return fieldError("T02", "updated_at_s", r.UpdatedAt, "a time")
	}
	return nil
}
