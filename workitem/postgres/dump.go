package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/workitem"
)

// engineName is the engine as exports name it.
const engineName = "postgres"

var _ workitem.Dumper = (*reader)(nil)

// Engine implements workitem.Dumper.
func (r *reader) Engine() (name string, schema int) { return engineName, len(migrations) }

// slowReader is how long a view that reads everything may wait for whoever takes it.
const slowReader = "SELECT set_config('idle_in_transaction_session_timeout', '15min', true)"

// Items implements workitem.Dumper.
func (r *reader) Items(after int64, limit int) ([]*workitem.FullItem, error) {
	var page []*workitem.FullItem
	var questions []question
	if after == 0 {
		var set string
		questions = append(questions, question{slowReader, nil, func(row pgx.Rows) error { return row.Scan(&set) }})
	}
	const text = "SELECT " + itemColumns + ", " + storedColumns + fromBoth + " WHERE i.item > $1 ORDER BY i.item LIMIT $2"
	err := r.ask(append(questions, question{text, []any{after, limit}, func(row pgx.Rows) error {
		var s itemScan
		var half storedScan
		if err := row.Scan(append(s.targets(), half.targets()...)...); err != nil {
			return err
		}
		it, err := s.item(&r.s.tenants)
		if err != nil {
			return err
		}
		stored, err := half.stored(it.Row)
		if err != nil {
			return err
		}
		it.CorrelationID = stored.CorrelationID
		page = append(page, &workitem.FullItem{Item: it, Stored: stored})
		return nil
	}})...)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	const events = "SELECT item, " + historyColumns + " FROM history WHERE item > $1 AND item <= $2 ORDER BY item, seq"
	at := 0
	err = r.ask(question{events, []any{after, page[len(page)-1].Item.Row}, func(row pgx.Rows) error {
		var n int64
		var ev workitem.Event
		if err := row.Scan(append([]any{&n}, historyTargets(&ev)...)...); err != nil {
			return err
		}
		for at < len(page) && page[at].Item.Row < n {
			at++
		}
		if at == len(page) || page[at].Item.Row != n {
			return corrupt("history", n, "belongs to no item")
		}
		page[at].History = append(page[at].History, ev)
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// Edges implements workitem.Dumper.
func (r *reader) Edges(after workitem.Edge, limit int) (page []workitem.Edge, err error) {
	const text = "SELECT parent, child FROM edges WHERE (parent, child) > ($1, $2) ORDER BY parent, child LIMIT $3"
	err = r.ask(question{text, []any{after.Parent[:], after.Child[:], limit}, func(row pgx.Rows) error {
		var parent, child []byte
		if err := row.Scan(&parent, &child); err != nil {
			return err
		}
		if len(parent) != len(workitem.ID{}) || len(child) != len(workitem.ID{}) {
			return corrupt("edges", 0, "has an id that is not 16 bytes")
		}
		page = append(page, workitem.Edge{Parent: workitem.ID(parent), Child: workitem.ID(child)})
		return nil
	}})
	return page, err
}

// Tombstones implements workitem.Dumper.
func (r *reader) Tombstones(after workitem.ID, limit int) (page []*workitem.Tombstone, err error) {
	const text = "SELECT id, tenant, kind, status, owner, digest, loose, pruned FROM tombstones WHERE id > $1 ORDER BY id LIMIT $2"
	err = r.ask(question{text, []any{after[:], limit}, func(row pgx.Rows) error {
		var raw, digest, loose []byte
		var tenant int64
		t := &workitem.Tombstone{}
		if err := row.Scan(&raw, &tenant, &t.Kind, &t.Status, &t.Owner, &digest, &loose, &t.PrunedAt); err != nil {
			return err
		}
		stone, err := tombstone(&r.s.tenants, t, raw, tenant, digest, loose)
		page = append(page, stone)
		return err
	}})
	return page, err
}

// Recalls implements workitem.Dumper.
func (r *reader) Recalls(after workitem.Recall, limit int) (page []workitem.Recall, err error) {
	const text = `SELECT tenant, subject, request, id, epoch, worker, kind, class, fairness, at FROM claims
		WHERE (tenant, subject, request) > ($1, $2, $3) ORDER BY tenant, subject, request LIMIT $4`
	first, err := r.number(after.Tenant)
	if err != nil {
		return nil, err
	}
	err = r.ask(question{text, []any{first, after.Subject, after.Request, limit}, func(row pgx.Rows) error {
		var tenant int64
		var raw []byte
		var c workitem.Recall
		err := row.Scan(&tenant, &c.Subject, &c.Request, &raw, &c.Epoch, &c.Worker, &c.Kind, &c.ResourceClass, &c.FairnessGroup, &c.At)
		if err != nil {
			return err
		}
		var ok bool
		if c.Tenant, ok = r.s.tenants.name(tenant); !ok {
			return corrupt("claims", 0, "names a tenant that is not there")
		}
		c.Item, err = toID(raw)
		page = append(page, c)
		return err
	}})
	return page, err
}

// Turns implements workitem.Dumper.
func (r *reader) Turns(after workitem.BucketTurn, limit int) (page []workitem.BucketTurn, err error) {
	const text = `SELECT tenant, kind, bucket, fairness, more FROM turns
		WHERE (tenant, kind, bucket) > ($1, $2, $3) ORDER BY tenant, kind, bucket LIMIT $4`
	first, err := r.number(after.Tenant)
	if err != nil {
		return nil, err
	}
	err = r.ask(question{text, []any{first, int16(after.Kind), int16(after.Bucket), limit}, func(row pgx.Rows) error {
		var tenant int64
		var t workitem.BucketTurn
		if err := row.Scan(&tenant, &t.Kind, &t.Bucket, &t.Group, &t.Left); err != nil {
			return err
		}
		var ok bool
		if t.Tenant, ok = r.s.tenants.name(tenant); !ok {
			return corrupt("turns", 0, "names a tenant that is not there")
		}
		page = append(page, t)
		return nil
	}})
	return page, err
}
