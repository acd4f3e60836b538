package workitem

// NewView is the job as its tenant sees it (section 8.1). It shares memory with
// both arguments.
func NewView(it *Item, r *Record) View {
	v := View{
		ContractVersion: "1",
		JobID:           it.ID.JobID(),
		WorkItemID:      it.ID.WorkItemID(),
		RequestID:       r.RequestID,
		Operation:       it.Kind.Operation(),
		Kind:            it.Kind.String(),
		State:           it.Status.State(),
		RepositoryID:    r.RepositoryID,
		TenantID:        it.Tenant,
		OwnerID:         r.OwnerID,
		SessionID:       r.SessionID,
		BaseRef:         r.BaseRef,
		BaseSHA:         r.BaseSHA,
		TargetKind:      r.TargetKind,
		TargetAlias:     nullable(&r.TargetAlias),
		LaneID:          nullable(&r.LaneID),
		CandidateID:     nullable(&r.CandidateID),
		GenerationID:    nullable(&r.GenerationID),
		Dependencies:    none,
		InputDigest:     r.Digest.String(),
		ConfigDigest:    nullable(&r.ConfigDigest),
		CorrelationID:   nullable(&it.CorrelationID),
		ResourceClass:   r.ResourceClass,
		ConcurrencyKey:  r.ConcurrencyKey,
		FairnessGroup:   r.FairnessGroup,
		Priority:        r.Priority,
		CPUWeight:       r.CPUWeight,
		MemoryMiB:       r.MemoryMiB,
		DiskMiB:         r.DiskMiB,
		ProcessSlots:    r.ProcessSlots,
		HostLabels:      r.HostLabels,
		PreferredTarget: r.Preferred,
		RequiredTarget:  r.Required,
		AntiAffinity:    r.AntiAffinity,
		QueueDeadline:   nullable(&r.QueueDeadline),
		DiskLow:         r.DiskLow,
		DiskHigh:        r.DiskHigh,
		Consent:         r.Consent,
		Attempt:         it.Attempt,
		MaxAttempts:     it.MaxAttempts,
		Checkpoint:      nullable(&it.Checkpoint),
		RetryClass:      nullable(&r.RetryClass),
		ResultRef:       nullable(&it.ResultRef),
		ErrorRef:        nullable(&it.ErrorRef),
		CreatedAt:       it.CreatedAt.RFC3339(),
		UpdatedAt:       it.UpdatedAt.RFC3339(),
	}
	if len(r.Dependencies) > 0 {
		v.Dependencies = make([]string, len(r.Dependencies))
		for i, id := range r.Dependencies {
			v.Dependencies[i] = id.WorkItemID()
		}
	}
	if it.LeaseOwner != "" {
		v.Lease = &Lease{
			Owner: it.LeaseOwner, Epoch: it.LeaseEpoch, FencingToken: it.FencingToken,
			Attempt: max(1, it.Attempt), HeartbeatAt: secondsOrNull(it.HeartbeatAt), ExpiresAt: secondsOrNull(it.LeaseExpiresAt),
		}
	}
	if it.CompletedAt != 0 {
		text := it.CompletedAt.RFC3339()
		v.CompletedAt = &text
	}
	return v
}

// NewResult is how a job ended (section 8.3). It means something only for terminal
// jobs. It shares memory with both arguments.
func NewResult(it *Item, r *Record) Result {
	res := Result{
		ContractVersion: "1",
		JobID:           it.ID.JobID(),
		WorkItemID:      it.ID.WorkItemID(),
		RequestID:       r.RequestID,
		Operation:       it.Kind.Operation(),
		State:           it.Status.State(),
		RepositoryID:    r.RepositoryID,
		TenantID:        it.Tenant,
		TargetKind:      r.TargetKind,
		TargetAlias:     nullable(&r.TargetAlias),
		LaneID:          nullable(&r.LaneID),
		CandidateID:     nullable(&r.CandidateID),
		GenerationID:    nullable(&r.GenerationID),
		InputDigest:     r.Digest.String(),
		ConfigDigest:    nullable(&r.ConfigDigest),
		ResourceClass:   r.ResourceClass,
		ConcurrencyKey:  r.ConcurrencyKey,
		FairnessGroup:   r.FairnessGroup,
		Priority:        r.Priority,
		CPUWeight:       r.CPUWeight,
		MemoryMiB:       r.MemoryMiB,
		DiskMiB:         r.DiskMiB,
		ProcessSlots:    r.ProcessSlots,
		HostLabels:      r.HostLabels,
		PreferredTarget: r.Preferred,
		RequiredTarget:  r.Required,
		AntiAffinity:    r.AntiAffinity,
		QueueDeadline:   nullable(&r.QueueDeadline),
		DiskLow:         r.DiskLow,
		DiskHigh:        r.DiskHigh,
		Consent:         r.Consent,
		Attempt:         it.Attempt,
		Checkpoint:      nullable(&it.Checkpoint),
		RetryClass:      nullable(&r.RetryClass),
		ResultRef:       nullable(&it.ResultRef),
	}
	res.FailureClass, res.RefusalCode, res.ErrorRef = SplitFailureRef(it.ErrorRef)
	return res
}

// NewClaim is the claim of an item that is held (section 8.4). DependsOn is always
// empty.
func NewClaim(it *Item) Claim {
	job := it.ID.JobID()
	return Claim{
		WorkItemID: it.ID.WorkItemID(), JobID: job, Kind: it.Kind.String(), Tenant: it.Tenant,
		PayloadRef: job, DependsOn: none, LeaseOwner: it.LeaseOwner,
		LeaseEpoch: it.LeaseEpoch, FenceToken: it.LeaseEpoch, FencingToken: it.FencingToken,
		Attempt: it.Attempt, MaxAttempts: it.MaxAttempts, LeaseExpiresAt: it.LeaseExpiresAt.Seconds(),
	}
}

func secondsOrNull(at Instant) *float64 {
	if at == 0 {
		return nil
	}
	s := at.Seconds()
	return &s
}
