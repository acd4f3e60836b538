package sqlite

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// List implements workitem.Reader. It walks the index that promises to leave the
// fewest rows; whatever else is asked for is checked on its rows. Several statuses
// are as many walks, merged.
func (r *reader) List(q *workitem.Query, after workitem.Place, limit int) ([]*workitem.Item, error) {
	if q.Unverified {
		if r.writer && !r.s.state.unverified {
			return nil, nil
		}
		items, err := r.walk(q, 0, after, limit)
		if err == nil && r.writer && len(items) == 0 && after == (workitem.Place{}) {
			// Of this tenant there is none; of any, a start or a write will tell.
			err = r.anyUnverified()
		}
		return items, err
	}
	statuses := q.Statuses
	if len(statuses) == 0 {
		rare := q.LaneID + q.CandidateID + q.GenerationID + q.CorrelationID
		if rare != "" || index(q, 0) != "items_status" {
			return r.walk(q, 0, after, limit)
		}
		for status := workitem.Submitted; status <= workitem.DeadLetter; status++ {
			statuses = append(statuses, status)
		}
	}
	var all []*workitem.Item
	for _, status := range statuses {
		if status == 0 {
			continue
		}
		items, err := r.walk(q, status, after, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	slices.SortFunc(all, func(a, b *workitem.Item) int {
		switch {
		case a.CreatedAt < b.CreatedAt:
			return -1
		case a.CreatedAt > b.CreatedAt:
			return 1
		default:
			return a.ID.Compare(b.ID)
		}
	})
	return all[:min(limit, len(all))], nil
}

// anyUnverified finds out whether the writer may skip looking.
func (r *reader) anyUnverified() error {
	return r.query("SELECT EXISTS (SELECT 1 FROM items WHERE dep_state = 0 AND status = 1)", func(*binder) {},
		func(s *sqlite.Stmt) error {
			r.s.state.unverified = s.ColumnBool(0)
			return nil
		})
}

// index names the one that a walk without labels follows.
func index(q *workitem.Query, status workitem.Status) string {
	switch {
	case q.Unverified:
		return "items_unverified"
	case q.Repository != "":
		return "items_repository"
	case status != 0 && status != workitem.Succeeded:
		return "items_status"
	case q.Owner != "":
		return "items_owner"
	case q.Kind != 0:
		return "items_kind"
	default:
		return "items_status"
	}
}

// walk lists rows of one status, or of all if it is 0.
func (r *reader) walk(q *workitem.Query, status workitem.Status, after workitem.Place, limit int) ([]*workitem.Item, error) {
	var where []string
	var binds []func(*binder)
	add := func(cond string, bind func(*binder)) {
		where = append(where, cond)
		if bind != nil {
			binds = append(binds, bind)
		}
	}
	from, created, id := "items i", "i.created", "i.id"
	number := r.s.tenants.number(q.Tenant)
	rare := []string{q.LaneID, q.CandidateID, q.GenerationID, q.CorrelationID}
	labelled := false
	for n, value := range rare {
		if value == "" {
			continue
		}
		label := int64(n + 1)
		bind := func(b *binder) {
			b.int(number)
			b.int(label)
			b.text(value)
		}
		if !labelled {
			labelled = true
			from, created, id = "labels l CROSS JOIN items i ON i.item = l.item", "l.created", "l.id"
			add("l.tenant = ? AND l.label = ? AND l.value = ?", bind)
			continue
		}
		add("EXISTS (SELECT 1 FROM labels m WHERE m.tenant = ? AND m.label = ? AND m.value = ? AND m.created = i.created AND m.id = i.id)", bind)
	}
	if !labelled {
		add("i.tenant = ?", func(b *binder) { b.int(number) })
		from += " INDEXED BY " + index(q, status)
	}
	if q.Unverified {
		add("i.dep_state = 0 AND i.status = 1", nil)
	}
	equal := func(column string, set bool, bind func(*binder)) {
		if set {
			add("i."+column+" = ?", bind)
		}
	}
	equal("repository", q.Repository != "", func(b *binder) { b.text(q.Repository) })
	equal("owner", q.Owner != "", func(b *binder) { b.text(q.Owner) })
	equal("class", q.ResourceClass != "", func(b *binder) { b.text(q.ResourceClass) })
	equal("kind", q.Kind != 0, func(b *binder) { b.int(int64(q.Kind)) })
	equal("status", status != 0, func(b *binder) { b.int(int64(status)) })
	if q.Claimable {
		now := int64(r.Now())
		condition, n := strings.ReplaceAll(readyNow, "?2", "?"), strings.Count(readyNow, "?2")
		if status != workitem.Ready {
			condition, n = strings.ReplaceAll(overNow, "?2", "?"), strings.Count(overNow, "?2")
		}
		add(condition, func(b *binder) {
			for range n {
				b.int(now)
			}
		})
	}
	if q.CreatedAfter != 0 {
		add(created+" > ?", func(b *binder) { b.int(int64(q.CreatedAfter)) })
	}
	if q.CreatedBefore != 0 {
		add(created+" < ?", func(b *binder) { b.int(int64(q.CreatedBefore)) })
	}
	if after != (workitem.Place{}) {
		add("("+created+", "+id+") > (?, ?)", func(b *binder) {
			b.int(int64(after.CreatedAt))
			b.bytes(after.ID[:])
		})
	}
	text := "SELECT " + itemColumns + " FROM " + from + " WHERE " + strings.Join(where, " AND ") +
		" ORDER BY " + created + ", " + id + " LIMIT ?"
	if labelled {
		text = strings.Replace(text, "SELECT "+itemColumns, "SELECT "+qualified, 1)
	}
	var items []*workitem.Item
	err := r.query(text, func(b *binder) {
		for _, bind := range binds {
			bind(b)
		}
		b.int(int64(limit))
	}, func(s *sqlite.Stmt) error {
		it, err := r.s.scan(s)
		if err == nil {
			items = append(items, it)
		}
		return err
	})
	return items, err
}

// qualified are itemColumns of the table i.
var qualified = func() string {
	names := strings.Split(itemColumns, ",")
	for i, n := range names {
		names[i] = "i." + strings.TrimSpace(n)
	}
	return strings.Join(names, ", ")
}()
