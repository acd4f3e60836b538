package postgres

import (
	"fmt"
	"strings"

	"github.com/writ-authority/writ/workitem"
)

// lifeNames are the columns of life that change, for a list of names.
var lifeNames = func() string {
	names := make([]string, len(lifeColumns))
	for i, c := range lifeColumns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}()

// lifeArrays are parameters for lifeColumns, from number first on.
func lifeArrays(first int) string {
	list := make([]string, len(lifeColumns))
	for i, c := range lifeColumns {
		list[i] = fmt.Sprintf("$%d::%s[]", first+i, c.kind)
	}
	return strings.Join(list, ", ")
}

func lifeAssignments() string {
	list := make([]string, len(lifeColumns))
	for i, c := range lifeColumns {
		list[i] = c.name + " = u." + c.name
	}
	return strings.Join(list, ", ")
}

// lives has the columns of life that change, of several jobs.
type lives struct {
	status                                    []int16
	updated, completed                        []int64
	depends                                   [][]byte
	depCount                                  []int32
	depState                                  []int16
	attempt                                   []int32
	nextRetry                                 []int64
	claimable                                 []*int64
	owner, principal                          []*string
	epoch, fence, expires, heartbeat          []int64
	last, checkpoint, result, failure, reason []*string
	defers                                    []int32
	granted, consentExpires, until            []int64
	events                                    []int32
}

func (v *lives) add(n *row, now workitem.Instant) {
	it := n.item
	v.status = append(v.status, int16(it.Status))
	v.updated = append(v.updated, int64(it.UpdatedAt))
	v.completed = append(v.completed, int64(it.CompletedAt))
	v.depends = append(v.depends, joined(it.DependsOn))
	v.depCount = append(v.depCount, int32(it.DepCount))
	v.depState = append(v.depState, int16(it.DepState))
	v.attempt = append(v.attempt, int32(it.Attempt))
	v.nextRetry = append(v.nextRetry, int64(it.NextRetryAt))
	var claimable *int64
	if p := it.Position(now); p != workitem.Unclaimable {
		at := int64(p)
		claimable = &at
	}
	v.claimable = append(v.claimable, claimable)
	v.owner = append(v.owner, optional(it.LeaseOwner))
	v.principal = append(v.principal, optional(it.LeasePrincipal))
	v.epoch = append(v.epoch, it.LeaseEpoch)
	v.fence = append(v.fence, it.FencingToken)
	v.expires = append(v.expires, int64(it.LeaseExpiresAt))
	v.heartbeat = append(v.heartbeat, int64(it.HeartbeatAt))
	v.last = append(v.last, optional(it.LastLeaseOwner))
	v.checkpoint = append(v.checkpoint, optional(it.Checkpoint))
	v.result = append(v.result, optional(it.ResultRef))
	v.failure = append(v.failure, optional(it.ErrorRef))
	v.reason = append(v.reason, optional(it.CancelReason))
	v.defers = append(v.defers, int32(it.DeferCount))
	v.granted = append(v.granted, int64(it.ConsentGrantedAt))
	v.consentExpires = append(v.consentExpires, int64(it.ConsentExpiresAt))
	v.until = append(v.until, int64(it.ConsentUntil()))
	v.events = append(v.events, int32(n.events))
}

// args are the parameters for lifeArrays.
func (v *lives) args() []any {
	return []any{v.status, v.updated, v.completed, v.depends, v.depCount, v.depState, v.attempt, v.nextRetry, v.claimable,
		v.owner, v.principal, v.epoch, v.fence, v.expires, v.heartbeat, v.last, v.checkpoint, v.result, v.failure, v.reason,
		v.defers, v.granted, v.consentExpires, v.until, v.events}
}

// halves has the columns of items, of several jobs.
type halves struct {
	item                               []int64
	id                                 [][]byte
	tenant                             []int64
	kind                               []int16
	created                            []int64
	repository, owner                  []string
	backoff                            []int64
	consent                            []bool
	digest, loose, key                 [][]byte
	correlation, request               []string
	lane, candidate, generation, trace []*string
	metadata                           [][]byte
	fairness, class                    []string
	bucket                             []int16
	priority                           []int32
	due                                []int64
	attempts                           []int32
}

func (v *halves) add(n *row, tenant int64) {
	it, st := n.item, n.stored
	v.item = append(v.item, it.Row)
	v.id = append(v.id, it.ID[:])
	v.tenant = append(v.tenant, tenant)
	v.kind = append(v.kind, int16(it.Kind))
	v.created = append(v.created, int64(it.CreatedAt))
	v.repository = append(v.repository, it.Repository)
	v.owner = append(v.owner, it.Owner)
	v.backoff = append(v.backoff, it.Backoff.Microseconds())
	v.consent = append(v.consent, it.ConsentRequired)
	v.digest = append(v.digest, st.Digest[:])
	v.loose = append(v.loose, st.Loose[:])
	v.key = append(v.key, st.IdempotencyKey[:])
	v.correlation = append(v.correlation, st.CorrelationID)
	v.request = append(v.request, st.RequestID)
	v.lane = append(v.lane, optional(st.LaneID))
	v.candidate = append(v.candidate, optional(st.CandidateID))
	v.generation = append(v.generation, optional(st.GenerationID))
	v.trace = append(v.trace, optional(st.Trace))
	v.metadata = append(v.metadata, st.Metadata)
	v.fairness = append(v.fairness, it.FairnessGroup)
	v.class = append(v.class, it.ResourceClass)
	v.bucket = append(v.bucket, int16(it.Bucket()))
	v.priority = append(v.priority, int32(it.Priority))
	v.due = append(v.due, int64(it.Due()))
	v.attempts = append(v.attempts, int32(it.MaxAttempts))
}

func (v *halves) items() []any {
	return []any{v.item, v.id, v.tenant, v.kind, v.created, v.repository, v.owner, v.backoff, v.consent,
		v.digest, v.loose, v.key, v.correlation, v.request, v.lane, v.candidate, v.generation, v.trace, v.metadata}
}

func (v *halves) life() []any {
	return []any{v.item, v.id, v.tenant, v.kind, v.created, v.fairness, v.class, v.bucket, v.priority, v.due, v.attempts}
}
