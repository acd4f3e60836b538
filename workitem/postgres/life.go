package postgres

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/writ-authority/writ/workitem"
)

// column is one that changes in the life of a job. value is what it has for a row;
// arrays of values are parameters of statements that write many rows.
type column struct {
	name, kind string
	same       func(old, n *row, now workitem.Instant) bool
	array      func(rows []*row, now workitem.Instant) any
}

func columnOf[T comparable](name, kind string, value func(n *row) T) column {
	return column{name, kind,
		func(old, n *row, _ workitem.Instant) bool { return value(old) == value(n) },
		func(rows []*row, _ workitem.Instant) any {
			list := make([]T, len(rows))
			for i, n := range rows {
				list[i] = value(n)
			}
			return list
		}}
}

func bigints[T ~int64](name string, value func(it *workitem.Item) T) column {
	return columnOf(name, "bigint", func(n *row) int64 { return int64(value(n.item)) })
}

func integers(name string, value func(n *row) int) column {
	return columnOf(name, "integer", func(n *row) int32 { return int32(value(n)) })
}

// texts are null where they are empty.
func texts(name string, value func(it *workitem.Item) string) column {
	return column{name, "text",
		func(old, n *row, _ workitem.Instant) bool { return value(old.item) == value(n.item) },
		func(rows []*row, _ workitem.Instant) any {
			list := make([]*string, len(rows))
			for i, n := range rows {
				list[i] = optional(value(n.item))
			}
			return list
		}}
}

// life are the columns that change.
var life = []column{
	columnOf("status", "smallint", func(n *row) int16 { return int16(n.item.Status) }),
	bigints("updated", func(it *workitem.Item) workitem.Instant { return it.UpdatedAt }),
	bigints("completed", func(it *workitem.Item) workitem.Instant { return it.CompletedAt }),
	{"depends_on", "bytea",
		func(old, n *row, _ workitem.Instant) bool {
			return bytes.Equal(joined(old.item.DependsOn), joined(n.item.DependsOn))
		},
		func(rows []*row, _ workitem.Instant) any {
			list := make([][]byte, len(rows))
			for i, n := range rows {
				list[i] = joined(n.item.DependsOn)
			}
			return list
		}},
	integers("dep_count", func(n *row) int { return n.item.DepCount }),
	columnOf("dep_state", "smallint", func(n *row) int16 { return int16(n.item.DepState) }),
	integers("attempt", func(n *row) int { return n.item.Attempt }),
	bigints("next_retry", func(it *workitem.Item) workitem.Instant { return it.NextRetryAt }),
	{"claimable_at", "bigint",
		// Whose lease is live has none. Of every other the table may say something
		// else than a position, since time has passed.
		func(old, n *row, now workitem.Instant) bool { return live(old.item, now) && live(n.item, now) },
		func(rows []*row, now workitem.Instant) any {
			list := make([]*int64, len(rows))
			for i, n := range rows {
				if p := n.item.Position(now); p != workitem.Unclaimable {
					at := int64(p)
					list[i] = &at
				}
			}
			return list
		}},
	texts("lease_owner", func(it *workitem.Item) string { return it.LeaseOwner }),
	texts("lease_principal", func(it *workitem.Item) string { return it.LeasePrincipal }),
	bigints("lease_epoch", func(it *workitem.Item) int64 { return it.LeaseEpoch }),
	bigints("fencing_token", func(it *workitem.Item) int64 { return it.FencingToken }),
	bigints("lease_expires", func(it *workitem.Item) workitem.Instant { return it.LeaseExpiresAt }),
	bigints("heartbeat", func(it *workitem.Item) workitem.Instant { return it.HeartbeatAt }),
	texts("last_lease_owner", func(it *workitem.Item) string { return it.LastLeaseOwner }),
	texts("checkpoint", func(it *workitem.Item) string { return it.Checkpoint }),
	texts("result_ref", func(it *workitem.Item) string { return it.ResultRef }),
	texts("error_ref", func(it *workitem.Item) string { return it.ErrorRef }),
	texts("cancel_reason", func(it *workitem.Item) string { return it.CancelReason }),
	integers("defer_count", func(n *row) int { return n.item.DeferCount }),
	bigints("consent_granted", func(it *workitem.Item) workitem.Instant { return it.ConsentGrantedAt }),
	bigints("consent_expires", func(it *workitem.Item) workitem.Instant { return it.ConsentExpiresAt }),
	bigints("consent_until", func(it *workitem.Item) workitem.Instant { return it.ConsentUntil() }),
	integers("events", func(n *row) int { return n.events }),
}

// live says that somebody holds a job.
func live(it *workitem.Item, now workitem.Instant) bool {
	return it.Status.Held() && it.LeaseExpiresAt > now
}

// columns is a set of life's, one bit each.
type columns uint32

// all has every column.
var all = columns(1)<<len(life) - 1

// changed are the columns in which a row differs from what the table has.
func (n *row) changed(now workitem.Instant) (set columns) {
	old := &row{item: n.old, events: n.oldEvents}
	for i := range life {
		if !life[i].same(old, n, now) {
			set |= 1 << i
		}
	}
	return set
}

// names, arrays and args are the parts of a statement with these columns. The first
// array is parameter number first.
func (set columns) names() string {
	return set.join(func(c *column, _ int) string { return c.name })
}

func (set columns) arrays(first int) string {
	return set.join(func(c *column, i int) string { return fmt.Sprintf("$%d::%s[]", first+i, c.kind) })
}

func (set columns) assignments() string {
	return set.join(func(c *column, _ int) string { return c.name + " = u." + c.name })
}

func (set columns) join(part func(c *column, i int) string) string {
	var parts []string
	for i := range life {
		if set&(1<<i) != 0 {
			parts = append(parts, part(&life[i], len(parts)))
		}
	}
	return strings.Join(parts, ", ")
}

func (set columns) args(args []any, rows []*row, now workitem.Instant) []any {
	for i := range life {
		if set&(1<<i) != 0 {
			args = append(args, life[i].array(rows, now))
		}
	}
	return args
}

var updates sync.Map // of columns to statements

// update writes these columns of a number of rows.
func (set columns) update() string {
	if text, ok := updates.Load(set); ok {
		return text.(string)
	}
	text := expect(`UPDATE life l SET ` + set.assignments() + ` FROM unnest($2::bigint[], ` + set.arrays(3) + `) u (item, ` + set.names() + `)
		WHERE l.item = u.item RETURNING 1`)
	updates.Store(set, text)
	return text
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
