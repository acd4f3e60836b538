package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/workitem"
)

// itemColumns are the columns of a job in the order in which itemScan reads them, of
// items i and life l.
const itemColumns = `l.item, l.id, l.tenant, l.kind, l.status, l.created, l.updated, l.completed, i.repository, i.owner,
	l.fairness, l.class, l.priority, l.due, l.depends_on, l.dep_count, l.dep_state, l.attempt, l.max_attempts, i.backoff,
	l.next_retry, l.lease_owner, l.lease_principal, l.lease_epoch, l.fencing_token, l.lease_expires, l.heartbeat,
	l.last_lease_owner, l.checkpoint, l.result_ref, l.error_ref, l.cancel_reason, l.defer_count,
	i.consent_required, l.consent_granted, l.consent_expires, l.events`

// storedColumns are those of the half of a job that never changes.
const storedColumns = `i.digest, i.loose, i.key, i.correlation, i.request, i.lane, i.candidate, i.generation, i.trace, i.metadata`

// itemScan is where itemColumns are scanned into.
type itemScan struct {
	it        workitem.Item
	id        []byte
	tenant    int64
	due       int64
	depends   []byte
	backoff   int64
	events    int
	principal *string
	owner     *string
	last      *string
	point     *string
	result    *string
	failure   *string
	reason    *string
}

func (s *itemScan) targets() []any {
	it := &s.it
	return []any{&it.Row, &s.id, &s.tenant, &it.Kind, &it.Status, &it.CreatedAt, &it.UpdatedAt, &it.CompletedAt, &it.Repository, &it.Owner,
		&it.FairnessGroup, &it.ResourceClass, &it.Priority, &s.due, &s.depends, &it.DepCount, &it.DepState, &it.Attempt, &it.MaxAttempts, &s.backoff,
		&it.NextRetryAt, &s.owner, &s.principal, &it.LeaseEpoch, &it.FencingToken, &it.LeaseExpiresAt, &it.HeartbeatAt,
		&s.last, &s.point, &s.result, &s.failure, &s.reason, &it.DeferCount,
		&it.ConsentRequired, &it.ConsentGrantedAt, &it.ConsentExpiresAt, &s.events}
}

// item is what was scanned.
func (s *itemScan) item(names *tenants) (*workitem.Item, error) {
	it := &s.it
	name, err := names.of(s.tenant)
	if err != nil {
		return nil, unread(err)
	}
	if name == "" {
		return nil, corrupt("life", it.Row, "names a tenant that is not there")
	}
	it.Tenant = name
	if len(s.id) != len(it.ID) {
		return nil, corrupt("life", it.Row, "has an id that is not 16 bytes")
	}
	copy(it.ID[:], s.id)
	if due := workitem.Instant(s.due); due != workitem.Never {
		it.Deadline = due
	}
	it.Backoff = time.Duration(s.backoff) * time.Microsecond
	if n := len(s.depends); n > 0 {
		if n%len(it.ID) != 0 {
			return nil, corrupt("life", it.Row, "has parents that are not 16 bytes each")
		}
		it.DependsOn = make([]workitem.ID, n/len(it.ID))
		for i := range it.DependsOn {
			copy(it.DependsOn[i][:], s.depends[i*len(it.ID):])
		}
	}
	it.LeaseOwner, it.LeasePrincipal = value(s.owner), value(s.principal)
	it.LastLeaseOwner, it.Checkpoint = value(s.last), value(s.point)
	it.ResultRef, it.ErrorRef, it.CancelReason = value(s.result), value(s.failure), value(s.reason)
	return it, nil
}

// storedScan is where storedColumns are scanned into.
type storedScan struct {
	st                                 workitem.Stored
	digest, loose, key                 []byte
	lane, candidate, generation, trace *string
}

func (s *storedScan) targets() []any {
	st := &s.st
	return []any{&s.digest, &s.loose, &s.key, &st.CorrelationID, &st.RequestID, &s.lane, &s.candidate, &s.generation, &s.trace, &st.Metadata}
}

// stored is what was scanned of a row.
func (s *storedScan) stored(row int64) (*workitem.Stored, error) {
	st := &s.st
	for _, f := range []struct {
		from []byte
		to   *workitem.Digest
	}{{s.digest, &st.Digest}, {s.loose, &st.Loose}, {s.key, &st.IdempotencyKey}} {
		if len(f.from) != len(f.to) {
			return nil, corrupt("items", row, "has a digest that is not 32 bytes")
		}
		copy(f.to[:], f.from)
	}
	st.LaneID, st.CandidateID, st.GenerationID, st.Trace = value(s.lane), value(s.candidate), value(s.generation), value(s.trace)
	return st, nil
}

// value is the text of a column that may be null.
func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// optional is null for an empty text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// corrupt is the refusal of a row that can't be what it says.
func corrupt(table string, row int64, what string) *workitem.Error {
	return &workitem.Error{Code: workitem.Internal, Message: "the store is damaged", Err: fmt.Errorf("%s row %d %s", table, row, what)}
}

// each runs fn on every row of a result, and closes it.
func each(rows pgx.Rows, fn func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// joined puts ids end to end, or is nil for none.
func joined(ids []workitem.ID) []byte {
	if len(ids) == 0 {
		return nil
	}
	raw := make([]byte, 0, len(ids)*len(workitem.ID{}))
	for i := range ids {
		raw = append(raw, ids[i][:]...)
	}
	return raw
}
