package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// engineName is the engine as exports and metrics name it.
const engineName = "sqlite"

var _ workitem.Dumper = (*reader)(nil)

// Engine implements workitem.Dumper.
func (r *reader) Engine() (name string, schema int) { return engineName, len(format.Migrations) }

// Items implements workitem.Dumper.
func (r *reader) Items(after int64, limit int) ([]*workitem.FullItem, error) {
	var page []*workitem.FullItem
	err := r.query("SELECT "+itemColumns+" FROM items WHERE item > ? ORDER BY item LIMIT ?", func(b *binder) {
		b.int(after)
		b.int(int64(limit))
	}, func(s *sqlite.Stmt) error {
		it, err := r.s.scan(s)
		page = append(page, &workitem.FullItem{Item: it})
		return err
	})
	if err != nil || len(page) == 0 {
		return nil, err
	}
	within := func(b *binder) {
		b.int(after)
		b.int(page[len(page)-1].Item.Row)
	}
	// The other tables are in the same order; each row goes to the item that has its
	// number.
	at := 0
	find := func(row int64) *workitem.FullItem {
		for at < len(page) && page[at].Item.Row < row {
			at++
		}
		if at < len(page) && page[at].Item.Row == row {
			return page[at]
		}
		return nil
	}
	err = r.query("SELECT item, "+recordColumns+" FROM records WHERE item > ? AND item <= ? ORDER BY item", within,
		func(s *sqlite.Stmt) error {
			f := find(s.ColumnInt64(0))
			if f == nil {
				return corrupt("records", s.ColumnInt64(0), "belongs to no item")
			}
			var err error
			f.Stored, err = scanStored(s, 1, f.Item.Row)
			return err
		})
	if err != nil {
		return nil, err
	}
	at = 0
	err = r.query("SELECT item, "+historyColumns+" FROM history WHERE item > ? AND item <= ? ORDER BY item, seq", within,
		func(s *sqlite.Stmt) error {
			f := find(s.ColumnInt64(0))
			if f == nil {
				return corrupt("history", s.ColumnInt64(0), "belongs to no item")
			}
			f.History = append(f.History, scanEvent(s, 1))
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, f := range page {
		if f.Stored == nil {
			return nil, corrupt("records", f.Item.Row, "is missing")
		}
		f.Item.CorrelationID = f.Stored.CorrelationID
	}
	return page, nil
}

// Edges implements workitem.Dumper.
func (r *reader) Edges(after workitem.Edge, limit int) (page []workitem.Edge, err error) {
	err = r.query("SELECT parent, child FROM edges WHERE (parent, child) > (?, ?) ORDER BY parent, child LIMIT ?", func(b *binder) {
		b.bytes(after.Parent[:])
		b.bytes(after.Child[:])
		b.int(int64(limit))
	}, func(s *sqlite.Stmt) error {
		var e workitem.Edge
		if s.ColumnLen(0) != len(e.Parent) || s.ColumnLen(1) != len(e.Child) {
			return corrupt("edges", 0, "has an id that is not 16 bytes")
		}
		s.ColumnBytes(0, e.Parent[:])
		s.ColumnBytes(1, e.Child[:])
		page = append(page, e)
		return nil
	})
	return page, err
}

// Tombstones implements workitem.Dumper.
func (r *reader) Tombstones(after workitem.ID, limit int) (page []*workitem.Tombstone, err error) {
	err = r.query("SELECT "+tombstoneColumns+" FROM tombstones WHERE id > ? ORDER BY id LIMIT ?", func(b *binder) {
		b.bytes(after[:])
		b.int(int64(limit))
	}, func(s *sqlite.Stmt) error {
		t, err := r.s.scanTombstone(s)
		page = append(page, t)
		return err
	})
	return page, err
}

// Recalls implements workitem.Dumper.
func (r *reader) Recalls(after workitem.Recall, limit int) (page []workitem.Recall, err error) {
	err = r.query("SELECT tenant, subject, request, "+claimColumns+` FROM claims WHERE (tenant, subject, request) > (?, ?, ?)
		ORDER BY tenant, subject, request LIMIT ?`, func(b *binder) {
		b.int(r.s.tenants.number(after.Tenant))
		b.text(after.Subject)
		b.text(after.Request)
		b.int(int64(limit))
	}, func(s *sqlite.Stmt) error {
		tenant, ok := r.s.tenants.name(s.ColumnInt64(0))
		if !ok {
			return corrupt("claims", 0, "names a tenant that is not there")
		}
		found, err := scanClaim(s, 3)
		if err == nil {
			page = append(page, workitem.Recall{Tenant: tenant, Subject: s.ColumnText(1), Request: s.ColumnText(2), Remembered: *found})
		}
		return err
	})
	return page, err
}

// Turns implements workitem.Dumper.
func (r *reader) Turns(after workitem.BucketTurn, limit int) (page []workitem.BucketTurn, err error) {
	err = r.query(`SELECT tenant, kind, bucket, fairness, more FROM turns WHERE (tenant, kind, bucket) > (?, ?, ?)
		ORDER BY tenant, kind, bucket LIMIT ?`, func(b *binder) {
		b.int(r.s.tenants.number(after.Tenant))
		b.int(int64(after.Kind))
		b.int(int64(after.Bucket))
		b.int(int64(limit))
	}, func(s *sqlite.Stmt) error {
		tenant, ok := r.s.tenants.name(s.ColumnInt64(0))
		if !ok {
			return corrupt("turns", 0, "names a tenant that is not there")
		}
		page = append(page, workitem.BucketTurn{
			Tenant: tenant, Kind: workitem.Kind(s.ColumnInt64(1)), Bucket: s.ColumnInt(2),
			Turn: workitem.Turn{Group: s.ColumnText(3), Left: s.ColumnInt(4)},
		})
		return nil
	})
	return page, err
}
