package sqlite

import (
	"errors"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// tx is the workitem.Tx of one transaction of the writer.
type tx struct {
	reader
	writes int
	err    error // of the database; the transaction can't go on
}

// Item implements workitem.Tx: what somebody holds is in memory.
func (t *tx) Item(id workitem.ID) (*workitem.Item, error) {
	if held := t.s.state.held[id]; held != nil {
		return held.copy(), nil
	}
	return t.reader.Item(id)
}

// wrote notes a write, and whether the database took it.
func (t *tx) wrote(err error) error {
	t.writes++
	return t.broken(err)
}

// broken makes an error of the database one of the transaction.
func (t *tx) broken(err error) error {
	if err == nil {
		return nil
	}
	var refusal *workitem.Error
	if errors.As(err, &refusal) {
		return err
	}
	t.err = err
	return unavailable("the store can't be written", err)
}

// do prepares, binds and runs one statement that writes.
func (t *tx) do(text string, bind func(*binder)) error { return t.wrote(t.stmts.do(text, bind)) }

const insertTenant = "INSERT INTO tenants (tenant, name) VALUES (?, ?)"

// tenant gives the number of a tenant, making it if it is new.
func (t *tx) tenant(name string) (int64, error) {
	if n := t.s.tenants.number(name); n != 0 {
		return n, nil
	}
	n := int64(t.s.tenants.count() + 1)
	err := t.do(insertTenant, func(b *binder) {
		b.int(n)
		b.text(name)
	})
	if err == nil {
		t.s.tenants.add(n, name)
	}
	return n, err
}

// given are the columns of a row that never change, life those that do.
var (
	given = []string{"item", "id", "tenant", "kind", "created", "repository", "owner", "fairness", "class",
		"bucket", "priority", "due", "max_attempts", "backoff", "consent_required"}
	life = []string{"status", "updated", "completed", "depends_on", "dep_count", "dep_state", "attempt", "next_retry",
		"claimable_at", "lease_owner", "lease_principal", "lease_epoch", "fencing_token", "lease_expires", "heartbeat",
		"last_lease_owner", "checkpoint", "result_ref", "error_ref", "cancel_reason", "defer_count",
		"consent_granted", "consent_expires", "consent_until"}
)

var (
	insertLife = "INSERT INTO items (" + strings.Join(given, ", ") + ", " + strings.Join(life, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(given)+len(life)-1) + ")"
	saveItem = "UPDATE items SET " + strings.Join(life, " = ?, ") + " = ? WHERE item = ?"
)

// life binds the columns that change.
func (b *binder) life(it *workitem.Item, p workitem.Position) {
	b.int(int64(it.Status))
	b.int(int64(it.UpdatedAt))
	b.int(int64(it.CompletedAt))
	b.ids(it.DependsOn)
	b.int(int64(it.DepCount))
	b.int(int64(it.DepState))
	b.int(int64(it.Attempt))
	b.int(int64(it.NextRetryAt))
	b.position(p)
	b.optional(it.LeaseOwner)
	b.optional(it.LeasePrincipal)
	b.int(it.LeaseEpoch)
	b.int(it.FencingToken)
	b.int(int64(it.LeaseExpiresAt))
	b.int(int64(it.HeartbeatAt))
	b.optional(it.LastLeaseOwner)
	b.optional(it.Checkpoint)
	b.optional(it.ResultRef)
	b.optional(it.ErrorRef)
	b.optional(it.CancelReason)
	b.int(int64(it.DeferCount))
	b.int(int64(it.ConsentGrantedAt))
	b.int(int64(it.ConsentExpiresAt))
	b.int(int64(it.ConsentUntil()))
}

const insertRecord = `INSERT INTO records (item, digest, loose, key, correlation, request, lane, candidate, generation, trace, metadata)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// insertItem writes a row with its number, its record and its labels, by do.
func insertItem(do func(string, func(*binder)) error, tenant int64, it *workitem.Item, position workitem.Position, stored *workitem.Stored) error {
	err := do(insertLife, func(b *binder) {
		b.int(it.Row)
		b.bytes(it.ID[:])
		b.int(tenant)
		b.int(int64(it.Kind))
		b.int(int64(it.CreatedAt))
		b.text(it.Repository)
		b.text(it.Owner)
		b.text(it.FairnessGroup)
		b.text(it.ResourceClass)
		b.int(int64(it.Bucket()))
		b.int(int64(it.Priority))
		b.int(int64(it.Due()))
		b.int(int64(it.MaxAttempts))
		b.int(it.Backoff.Microseconds())
		b.bool(it.ConsentRequired)
		b.life(it, position)
	})
	if err != nil {
		return err
	}
	err = do(insertRecord, func(b *binder) {
		b.int(it.Row)
		b.bytes(stored.Digest[:])
		b.bytes(stored.Loose[:])
		b.bytes(stored.IdempotencyKey[:])
		b.text(stored.CorrelationID)
		b.text(stored.RequestID)
		b.optional(stored.LaneID)
		b.optional(stored.CandidateID)
		b.optional(stored.GenerationID)
		b.optional(stored.Trace)
		b.bytes(stored.Metadata)
	})
	if err != nil {
		return err
	}
	for _, l := range labels {
		value := *l.of(stored)
		if value == "" {
			continue
		}
		err := do("INSERT INTO labels (tenant, label, value, created, id, item) VALUES (?, ?, ?, ?, ?, ?)", func(b *binder) {
			b.int(tenant)
			b.int(l.number)
			b.text(value)
			b.int(int64(it.CreatedAt))
			b.bytes(it.ID[:])
			b.int(it.Row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Insert implements workitem.Tx.
func (t *tx) Insert(it *workitem.Item, stored *workitem.Stored, ev workitem.Event) error {
	tenant, err := t.tenant(it.Tenant)
	if err != nil {
		return err
	}
	st := t.s.state
	it.Row = st.next
	position := it.Position(t.Now())
	if err := insertItem(t.do, tenant, it, position, stored); err != nil {
		return err
	}
	st.next++
	st.count(tenant, it.Kind, 0, it.Status)
	if it.Status == workitem.Submitted && it.DepState == workitem.DepUnverified {
		st.unverified = true
	}
	t.placed(tenant, it, position)
	return t.event(it, ev, true)
}

// label is a rare filter of listings; all of them share one index.
type label struct {
	number int64
	of     func(*workitem.Stored) *string
}

var labels = []label{
	{1, func(s *workitem.Stored) *string { return &s.LaneID }},
	{2, func(s *workitem.Stored) *string { return &s.CandidateID }},
	{3, func(s *workitem.Stored) *string { return &s.GenerationID }},
	{4, func(s *workitem.Stored) *string { return &s.CorrelationID }},
}

// placed keeps what the writer has in memory true after a row was written.
func (t *tx) placed(tenant int64, it *workitem.Item, p workitem.Position) {
	st := t.s.state
	st.lease(tenant).put(it)
	k := wakeKey{tenant, it.Kind}
	switch {
	case p == workitem.Claimable:
		if top, ok := st.tops[k]; ok && it.Bucket() > top {
			st.tops[k] = it.Bucket()
		}
		if due, ok := st.dues[k]; ok && it.Due() < due {
			st.dues[k] = it.Due()
		}
	case p > 0:
		if wake, ok := st.wakes[k]; ok && workitem.Instant(p) < wake {
			st.wakes[k] = workitem.Instant(p)
		}
	}
}

// renewItem is saveItem for a heartbeat, which touches no index.
const renewItem = `UPDATE items SET updated = ?, lease_expires = ?, heartbeat = ?, checkpoint = ? WHERE item = ?`

// renewed says that an item which somebody works on differs from how it was stored
// in nothing but what renewItem writes.
func renewed(old, it *workitem.Item) bool {
	return old.Status == workitem.Running && it.Status == workitem.Running &&
		old.LeaseEpoch == it.LeaseEpoch && old.FencingToken == it.FencingToken &&
		old.LeaseOwner == it.LeaseOwner && old.LeasePrincipal == it.LeasePrincipal && old.LastLeaseOwner == it.LastLeaseOwner &&
		old.Attempt == it.Attempt && old.NextRetryAt == it.NextRetryAt && old.CompletedAt == it.CompletedAt &&
		old.ResultRef == it.ResultRef && old.ErrorRef == it.ErrorRef && old.CancelReason == it.CancelReason &&
		old.DeferCount == it.DeferCount && old.DepCount == it.DepCount && old.DepState == it.DepState &&
		old.ConsentGrantedAt == it.ConsentGrantedAt && old.ConsentExpiresAt == it.ConsentExpiresAt &&
		slices.Equal(old.DependsOn, it.DependsOn)
}

// Save implements workitem.Tx.
func (t *tx) Save(it *workitem.Item, from workitem.Status, ev workitem.Event) error {
	tenant, err := t.tenant(it.Tenant)
	if err != nil {
		return err
	}
	st := t.s.state
	if held := st.held[it.ID]; held != nil && ev.Name == "" && renewed(&held.Item, it) {
		err := t.do(renewItem, func(b *binder) {
			b.int(int64(it.UpdatedAt))
			b.int(int64(it.LeaseExpiresAt))
			b.int(int64(it.HeartbeatAt))
			b.optional(it.Checkpoint)
			b.int(it.Row)
		})
		if err == nil {
			st.lease(tenant).put(it)
		}
		return err
	}
	position := it.Position(t.Now())
	err = t.do(saveItem, func(b *binder) {
		b.life(it, position)
		b.int(it.Row)
	})
	if err != nil {
		return err
	}
	st.count(tenant, it.Kind, from, it.Status)
	if it.Status == workitem.Submitted && it.DepState == workitem.DepUnverified {
		st.unverified = true
	}
	t.placed(tenant, it, position)
	return t.event(it, ev, false)
}

// event adds a row to the history of an item, if ev has a name.
func (t *tx) event(it *workitem.Item, ev workitem.Event, first bool) error {
	if ev.Name == "" {
		return nil
	}
	text := addEvent
	if first {
		text = insertEvent
	}
	return t.do(text, func(b *binder) { b.event(it.Row, 1, &ev) })
}

// insertEvent writes an event with its number, addEvent one behind those that the item
// has.
const (
	insertEvent = `INSERT INTO history (item, seq, at, event, from_status, to_status, epoch, subject, detail)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`
	addEvent = `INSERT INTO history (item, seq, at, event, from_status, to_status, epoch, subject, detail)
		VALUES (?1, ?2 + (SELECT coalesce(max(seq), 0) FROM history WHERE item = ?1), ?3, ?4, ?5, ?6, ?7, ?8, ?9)`
)

func (b *binder) event(row int64, seq int, ev *workitem.Event) {
	b.int(row)
	b.int(int64(seq))
	b.int(int64(ev.At))
	b.text(ev.Name)
	b.int(int64(ev.From))
	b.int(int64(ev.To))
	b.int(ev.Epoch)
	b.optional(ev.Subject)
	b.optional(ev.Detail)
}

// Link implements workitem.Tx.
func (t *tx) Link(parent, child workitem.ID) (bool, error) {
	err := t.do("INSERT OR IGNORE INTO edges (parent, child) VALUES (?, ?)", func(b *binder) {
		b.bytes(parent[:])
		b.bytes(child[:])
	})
	return err == nil && t.s.conn.Changes() > 0, err
}

// Unlink implements workitem.Tx.
func (t *tx) Unlink(parent, child workitem.ID) error {
	return t.do("DELETE FROM edges WHERE parent = ? AND child = ?", func(b *binder) {
		b.bytes(parent[:])
		b.bytes(child[:])
	})
}

// Delete implements workitem.Tx.
func (t *tx) Delete(it *workitem.Item, stone *workitem.Tombstone) error {
	tenant, err := t.tenant(it.Tenant)
	if err != nil {
		return err
	}
	stored, err := t.Stored(it)
	if err != nil {
		return err
	}
	for _, l := range labels {
		if value := *l.of(stored); value != "" {
			err := t.do("DELETE FROM labels WHERE tenant = ? AND label = ? AND value = ? AND created = ? AND id = ?", func(b *binder) {
				b.int(tenant)
				b.int(l.number)
				b.text(value)
				b.int(int64(it.CreatedAt))
				b.bytes(it.ID[:])
			})
			if err != nil {
				return err
			}
		}
	}
	for _, q := range []string{
		"DELETE FROM items WHERE item = ?", "DELETE FROM records WHERE item = ?", "DELETE FROM history WHERE item = ?",
	} {
		if err := t.do(q, func(b *binder) { b.int(it.Row) }); err != nil {
			return err
		}
	}
	if err := t.do("DELETE FROM edges WHERE parent = ?", func(b *binder) { b.bytes(it.ID[:]) }); err != nil {
		return err
	}
	for _, parent := range it.DependsOn {
		if err := t.Unlink(parent, it.ID); err != nil {
			return err
		}
	}
	st := t.s.state
	if held := st.held[it.ID]; held != nil {
		st.lease(tenant).drop(held)
	}
	st.count(tenant, it.Kind, it.Status, 0)
	if stone == nil {
		return nil
	}
	st.tombstones = true
	return t.do(insertTombstone, func(b *binder) { b.tombstone(tenant, stone) })
}

const insertTombstone = "INSERT INTO tombstones (id, tenant, kind, status, owner, digest, loose, pruned) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

func (b *binder) tombstone(tenant int64, t *workitem.Tombstone) {
	b.bytes(t.ID[:])
	b.int(tenant)
	b.int(int64(t.Kind))
	b.int(int64(t.Status))
	b.text(t.Owner)
	b.bytes(t.Digest[:])
	b.bytes(t.Loose[:])
	b.int(int64(t.PrunedAt))
}

// Remember implements workitem.Tx.
func (t *tx) Remember(tenant, subject, request string, r *workitem.Remembered) error {
	n, err := t.tenant(tenant)
	if err != nil {
		return err
	}
	return t.do(insertClaim, func(b *binder) { b.claim(n, subject, request, r) })
}

const insertClaim = `INSERT INTO claims (tenant, subject, request, id, epoch, worker, kind, class, fairness, at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (b *binder) claim(tenant int64, subject, request string, r *workitem.Remembered) {
	b.int(tenant)
	b.text(subject)
	b.text(request)
	b.bytes(r.Item[:])
	b.int(r.Epoch)
	b.text(r.Worker)
	b.int(int64(r.Kind))
	b.text(r.ResourceClass)
	b.text(r.FairnessGroup)
	b.int(int64(r.At))
}

// Forget implements workitem.Tx.
func (t *tx) Forget(before workitem.Instant) error {
	old := false
	err := t.query("SELECT EXISTS (SELECT 1 FROM claims WHERE at < ?)", func(b *binder) { b.int(int64(before)) },
		func(r *sqlite.Stmt) error { old = r.ColumnBool(0); return nil })
	if err != nil || !old {
		return err
	}
	return t.do("DELETE FROM claims WHERE at < ?", func(b *binder) { b.int(int64(before)) })
}

// AddToken implements workitem.Tx.
func (t *tx) AddToken(k *workitem.Token) error {
	return t.do(insertToken, func(b *binder) { b.token(k) })
}

const insertToken = "INSERT INTO tokens (id, name, hash, subject, tenant, owner, scopes, created, revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

func (b *binder) token(k *workitem.Token) {
	b.text(k.ID)
	b.text(k.Name)
	b.bytes(k.Hash[:])
	b.text(k.Subject)
	b.text(k.Tenant)
	b.text(k.Owner)
	b.int(int64(k.Scopes))
	b.int(int64(k.CreatedAt))
	b.int(int64(k.RevokedAt))
}

// SaveToken implements workitem.Tx.
func (t *tx) SaveToken(k *workitem.Token) error {
	return t.do("UPDATE tokens SET revoked = ? WHERE id = ?", func(b *binder) {
		b.int(int64(k.RevokedAt))
		b.text(k.ID)
	})
}

// Turn implements workitem.Tx.
func (t *tx) Turn(tenant string, kind workitem.Kind, bucket int) (workitem.Turn, error) {
	if u := t.s.state.turns[turnKey{t.s.tenants.number(tenant), kind, bucket}]; u != nil {
		return u.Turn, nil
	}
	return workitem.Turn{}, nil
}

// SetTurn implements workitem.Tx. It is written at the end of the transaction.
func (t *tx) SetTurn(tenant string, kind workitem.Kind, bucket int, next workitem.Turn) error {
	st := t.s.state
	k := turnKey{t.s.tenants.number(tenant), kind, bucket}
	u := st.turns[k]
	if u == nil {
		u = &turn{}
		st.turns[k] = u
	}
	u.Turn = next
	if !u.dirty {
		u.dirty = true
		st.dirtyTurns = append(st.dirtyTurns, k)
	}
	t.writes++
	return nil
}

// flush writes what was collected during the transaction.
func (s *Store) flush(t *tx) error {
	st := s.state
	st.uncopied += t.writes
	for _, k := range st.dirtyCounts {
		err := t.do("INSERT INTO counts (tenant, kind, status, items) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET items = ?4", func(b *binder) {
			b.int(k.tenant)
			b.int(int64(k.kind))
			b.int(int64(k.status))
			b.int(st.counts[k].n)
		})
		if err != nil {
			return err
		}
	}
	for _, k := range st.dirtyTurns {
		err := t.do("INSERT INTO turns (tenant, kind, bucket, fairness, more) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET fairness = ?4, more = ?5", func(b *binder) {
			b.int(k.tenant)
			b.int(int64(k.kind))
			b.int(int64(k.bucket))
			b.text(st.turns[k].Group)
			b.int(int64(st.turns[k].Left))
		})
		if err != nil {
			return err
		}
	}
	return t.do("INSERT INTO meta (name, value) VALUES ('clock', ?1) ON CONFLICT DO UPDATE SET value = ?1", func(b *binder) {
		b.int(int64(s.clock.now()))
	})
}
