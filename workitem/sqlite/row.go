package sqlite

import (
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// itemColumns are the columns of a row in the order in which scan reads them.
const itemColumns = `item, id, tenant, kind, status, created, updated, completed, repository, owner,
	fairness, class, priority, due, depends_on, dep_count, dep_state, attempt, max_attempts, backoff,
	next_retry, lease_owner, lease_principal, lease_epoch, fencing_token, lease_expires, heartbeat,
	last_lease_owner, checkpoint, result_ref, error_ref, cancel_reason, defer_count,
	consent_required, consent_granted, consent_expires`

// scan reads a row of itemColumns.
func (s *Store) scan(r *sqlite.Stmt) (*workitem.Item, error) {
	tenant, ok := s.tenants.name(r.ColumnInt64(2))
	if !ok {
		return nil, corrupt("items", r.ColumnInt64(0), "names a tenant that is not there")
	}
	it := &workitem.Item{
		Row:              r.ColumnInt64(0),
		Tenant:           tenant,
		Kind:             workitem.Kind(r.ColumnInt64(3)),
		Status:           workitem.Status(r.ColumnInt64(4)),
		CreatedAt:        workitem.Instant(r.ColumnInt64(5)),
		UpdatedAt:        workitem.Instant(r.ColumnInt64(6)),
		CompletedAt:      workitem.Instant(r.ColumnInt64(7)),
		Repository:       r.ColumnText(8),
		Owner:            r.ColumnText(9),
		FairnessGroup:    r.ColumnText(10),
		ResourceClass:    r.ColumnText(11),
		Priority:         r.ColumnInt(12),
		DepCount:         r.ColumnInt(15),
		DepState:         workitem.DepState(r.ColumnInt64(16)),
		Attempt:          r.ColumnInt(17),
		MaxAttempts:      r.ColumnInt(18),
		Backoff:          time.Duration(r.ColumnInt64(19)) * time.Microsecond,
		NextRetryAt:      workitem.Instant(r.ColumnInt64(20)),
		LeaseOwner:       r.ColumnText(21),
		LeasePrincipal:   r.ColumnText(22),
		LeaseEpoch:       r.ColumnInt64(23),
		FencingToken:     r.ColumnInt64(24),
		LeaseExpiresAt:   workitem.Instant(r.ColumnInt64(25)),
		HeartbeatAt:      workitem.Instant(r.ColumnInt64(26)),
		LastLeaseOwner:   r.ColumnText(27),
		Checkpoint:       r.ColumnText(28),
		ResultRef:        r.ColumnText(29),
		ErrorRef:         r.ColumnText(30),
		CancelReason:     r.ColumnText(31),
		DeferCount:       r.ColumnInt(32),
		ConsentRequired:  r.ColumnBool(33),
		ConsentGrantedAt: workitem.Instant(r.ColumnInt64(34)),
		ConsentExpiresAt: workitem.Instant(r.ColumnInt64(35)),
	}
	if due := workitem.Instant(r.ColumnInt64(13)); due != workitem.Never {
		it.Deadline = due
	}
	if r.ColumnLen(1) != len(it.ID) || r.ColumnBytes(1, it.ID[:]) != len(it.ID) {
		return nil, corrupt("items", it.Row, "has an id that is not 16 bytes")
	}
	if n := r.ColumnLen(14); n > 0 {
		if n%len(it.ID) != 0 {
			return nil, corrupt("items", it.Row, "has parents that are not 16 bytes each")
		}
		raw := make([]byte, n)
		r.ColumnBytes(14, raw)
		it.DependsOn = make([]workitem.ID, n/len(it.ID))
		for i := range it.DependsOn {
			copy(it.DependsOn[i][:], raw[i*len(it.ID):])
		}
	}
	return it, nil
}

// corrupt is the refusal of a row that can't be what it says.
func corrupt(table string, row int64, what string) *workitem.Error {
	return &workitem.Error{Code: workitem.Internal, Message: "the store is damaged", Err: fmt.Errorf("%s row %d %s", table, row, what)}
}

// binder binds parameters one after another; the first is number 1.
type binder struct {
	s *sqlite.Stmt
	n int
}

func (b *binder) int(v int64) {
	b.n++
	b.s.BindInt64(b.n, v)
}

func (b *binder) text(v string) {
	b.n++
	b.s.BindText(b.n, v)
}

// optional binds null for an empty text.
func (b *binder) optional(v string) {
	b.n++
	if v == "" {
		b.s.BindNull(b.n)
	} else {
		b.s.BindText(b.n, v)
	}
}

func (b *binder) bytes(v []byte) {
	b.n++
	b.s.BindBytes(b.n, v)
}

func (b *binder) bool(v bool) {
	b.n++
	b.s.BindBool(b.n, v)
}

// ids binds a list of ids end to end, or null.
func (b *binder) ids(list []workitem.ID) {
	b.n++
	if len(list) == 0 {
		b.s.BindNull(b.n)
		return
	}
	raw := make([]byte, 0, len(list)*len(workitem.ID{}))
	for i := range list {
		raw = append(raw, list[i][:]...)
	}
	b.s.BindBytes(b.n, raw)
}

// position binds claimable_at.
func (b *binder) position(p workitem.Position) {
	b.n++
	if p == workitem.Unclaimable {
		b.s.BindNull(b.n)
	} else {
		b.s.BindInt64(b.n, int64(p))
	}
}
