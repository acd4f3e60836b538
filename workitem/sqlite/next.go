package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/workitem"
)

// candidate is a claimable row as far as its order needs it. A held item whose
// time has run out has no row here but the item itself.
type candidate struct {
	row      int64
	group    string
	class    string
	priority int
	due      workitem.Instant
	created  workitem.Instant
	id       workitem.ID
	over     *lease
}

func (c *candidate) item() *workitem.Item {
	it := &workitem.Item{Priority: c.priority, CreatedAt: c.created, ID: c.id}
	if c.due != workitem.Never {
		it.Deadline = c.due
	}
	return it
}

// pick is one search for the next claimable row. It seeks in the claim index and
// looks at the held items whose time has run out; nothing is scanned but past
// deadlines of different priorities.
type pick struct {
	t      *tx
	sel    *workitem.Selection
	tenant int64
	now    workitem.Instant
	over   map[workitem.ID]*lease
}

// Next implements workitem.Tx.
func (t *tx) Next(sel *workitem.Selection) (*workitem.Item, error) {
	p := &pick{t: t, sel: sel, tenant: t.s.tenants.number(sel.Tenant), now: t.Now()}
	if p.tenant == 0 {
		return nil, nil
	}
	l := t.s.state.lease(p.tenant)
	l.expire(p.now)
	p.over = l.over[sel.Kind]
	found, err := p.best()
	if err != nil || found == nil {
		return nil, err
	}
	if found.over != nil {
		return t.Item(found.id)
	}
	return t.row(found.row)
}

// best goes through the buckets.
func (p *pick) best() (*candidate, error) {
	k := wakeKey{p.tenant, p.sel.Kind}
	tops := p.t.s.state.tops
	top, ok := tops[k]
	if !ok {
		top = 3
	}
	for i := range 4 {
		bucket := i
		if !p.sel.Native {
			bucket = 3 - i
		}
		if bucket > top && len(p.over) == 0 {
			continue
		}
		c, any, err := p.bucket(bucket)
		if err != nil || c != nil {
			return c, err
		}
		if !p.sel.Native && bucket == top && !any {
			// Nothing at all is claimable here: until something comes, searches
			// begin below.
			top = bucket - 1
			tops[k] = top
		}
	}
	return nil, nil
}

// bucket finds the best row of one bucket. any says that the index has rows of it,
// claimable or not.
func (p *pick) bucket(bucket int) (best *candidate, any bool, err error) {
	if p.sel.FairnessGroup != "" {
		best, err = p.group(bucket, p.sel.FairnessGroup, nil)
		return best, true, err
	}
	start, stay := "", false
	if p.sel.Fair {
		turn, err := p.t.Turn(p.sel.Tenant, p.sel.Kind, bucket)
		if err != nil {
			return nil, true, err
		}
		start, stay = turn.Group, turn.Left > 0
	}
	// The groups after the one whose turn it was, then those before, then it.
	after, wrapped := start, start == ""
	inclusive := stay
	for {
		first, name, err := p.nextGroup(bucket, after, inclusive)
		if err != nil {
			return nil, any, err
		}
		inclusive = false
		if name == "" || wrapped && start != "" && name > start {
			if wrapped {
				return best, any, nil
			}
			after, wrapped = "", true
			continue
		}
		any = true
		c, err := p.group(bucket, name, first)
		if err != nil {
			return nil, any, err
		}
		if c != nil {
			if p.sel.Fair {
				return c, any, nil
			}
			if best == nil || workitem.Less(c.item(), best.item(), p.sel.Native) {
				best = c
			}
		}
		if wrapped && name == start {
			return best, any, nil
		}
		after = name
	}
}

const candidateColumns = "item, fairness, class, priority, due, created, id"

const inBucket = " FROM items INDEXED BY items_claim WHERE claimable_at = 0 AND tenant = ?1 AND kind = ?2 AND bucket = ?3"

// nextGroup finds the first group after one, with its first row in the index if
// it has any there.
func (p *pick) nextGroup(bucket int, after string, inclusive bool) (first *candidate, name string, err error) {
	comparison := " AND fairness > ?4"
	if inclusive {
		comparison = " AND fairness >= ?4"
	}
	first, err = p.one("SELECT "+candidateColumns+inBucket+comparison+" ORDER BY fairness, class, priority DESC, due, created, id LIMIT 1",
		func(b *binder) {
			p.prefix(b, bucket)
			b.text(after)
		})
	if err != nil {
		return nil, "", err
	}
	if first != nil {
		name = first.group
	}
	for _, l := range p.over {
		if p.eligible(l, bucket) && (l.FairnessGroup > after || inclusive && l.FairnessGroup == after) &&
			(name == "" || l.FairnessGroup < name) {
			name, first = l.FairnessGroup, nil
		}
	}
	return first, name, nil
}

// eligible says that a held item whose time has run out may be claimed again.
func (p *pick) eligible(l *lease, bucket int) bool {
	return l.Bucket() == bucket && l.NextRetryAt <= p.now && l.Due() >= p.now &&
		l.DepState != workitem.DepFaulty &&
		(p.sel.ResourceClass == "" || l.ResourceClass == p.sel.ResourceClass)
}

// group finds the best row of one group. first is its first row, if the caller
// has it already.
func (p *pick) group(bucket int, name string, first *candidate) (best *candidate, err error) {
	better := func(c *candidate) {
		if best == nil || workitem.Less(c.item(), best.item(), p.sel.Native) {
			best = c
		}
	}
	for _, l := range p.over {
		if l.FairnessGroup == name && p.eligible(l, bucket) {
			better(&candidate{group: name, priority: l.Priority, due: l.Due(), created: l.CreatedAt, id: l.ID, over: l})
		}
	}
	if p.sel.ResourceClass != "" {
		if first == nil || first.class != p.sel.ResourceClass {
			first = nil
		}
		c, err := p.class(bucket, name, p.sel.ResourceClass, first)
		if c != nil {
			better(c)
		}
		return best, err
	}
	if first == nil {
		if first, err = p.nextClass(bucket, name, ""); err != nil {
			return nil, err
		}
	}
	for first != nil {
		c, err := p.class(bucket, name, first.class, first)
		if err != nil {
			return nil, err
		}
		if c != nil {
			better(c)
		}
		if first, err = p.nextClass(bucket, name, first.class); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// nextClass finds the first row of the first resource class after one.
func (p *pick) nextClass(bucket int, group, after string) (*candidate, error) {
	return p.one("SELECT "+candidateColumns+inBucket+" AND fairness = ?4 AND class > ?5 ORDER BY class, priority DESC, due, created, id LIMIT 1",
		func(b *binder) {
			p.prefix(b, bucket)
			b.text(group)
			b.text(after)
		})
}

// class finds the best row of one resource class of a group: the first whose
// deadline has not passed. Past deadlines are jumped over, one seek for each
// priority.
func (p *pick) class(bucket int, group, class string, first *candidate) (best *candidate, err error) {
	const inClass = inBucket + " AND fairness = ?4 AND class = ?5"
	seek := func(condition string, more func(*binder)) (*candidate, error) {
		return p.one("SELECT "+candidateColumns+inClass+condition+" ORDER BY priority DESC, due, created, id LIMIT 1", func(b *binder) {
			p.prefix(b, bucket)
			b.text(group)
			b.text(class)
			more(b)
		})
	}
	if first == nil {
		if first, err = seek(" AND priority <= ?6", func(b *binder) { b.int(10000) }); err != nil {
			return nil, err
		}
	}
	for first != nil {
		priority := first.priority
		c := first
		if c.due < p.now {
			c, err = seek(" AND priority = ?6 AND due >= ?7", func(b *binder) {
				b.int(int64(priority))
				b.int(int64(p.now))
			})
			if err != nil {
				return nil, err
			}
		}
		if c != nil {
			if !p.sel.Native {
				return c, nil
			}
			if best == nil || workitem.Less(c.item(), best.item(), true) {
				best = c
			}
		}
		// In native order every priority may have the best row.
		first, err = seek(" AND priority < ?6", func(b *binder) { b.int(int64(priority)) })
		if err != nil {
			return nil, err
		}
	}
	return best, nil
}

func (p *pick) prefix(b *binder, bucket int) {
	b.int(p.tenant)
	b.int(int64(p.sel.Kind))
	b.int(int64(bucket))
}

// one reads at most one candidate.
func (p *pick) one(text string, bind func(*binder)) (c *candidate, err error) {
	err = p.t.query(text, bind, func(s *sqlite.Stmt) error {
		c = &candidate{
			row: s.ColumnInt64(0), group: s.ColumnText(1), class: s.ColumnText(2), priority: s.ColumnInt(3),
			due: workitem.Instant(s.ColumnInt64(4)), created: workitem.Instant(s.ColumnInt64(5)),
		}
		if s.ColumnBytes(6, c.id[:]) != len(c.id) {
			return corrupt("items", c.row, "has an id that is not 16 bytes")
		}
		return nil
	})
	return c, err
}

// Wake implements workitem.Tx. It also takes rows out of the claim index whose
// deadline has passed, a few at a time: they are jumped over as long as they are
// there.
func (t *tx) Wake(tenant string, kind workitem.Kind) error {
	k := wakeKey{t.s.tenants.number(tenant), kind}
	if err := t.wake(k); err != nil {
		return err
	}
	return t.retire(k)
}

// moved is a row whose place among the claimable ones changes as time passes.
type moved struct {
	row    int64
	bucket int
	at     workitem.Instant
}

// passed reads rows of an index whose instant lies before now, earliest first, and
// the instant of the first one after them.
func (t *tx) passed(index, column, condition string, k wakeKey, now workitem.Instant, limit int) (rows []moved, next workitem.Instant, err error) {
	next = workitem.Never
	err = t.query("SELECT item, bucket, "+column+" FROM items INDEXED BY "+index+" WHERE tenant = ? AND kind = ? AND "+condition+
		" ORDER BY "+column+" LIMIT ?", func(b *binder) {
		b.int(k.tenant)
		b.int(int64(k.kind))
		b.int(int64(limit) + 1)
	}, func(s *sqlite.Stmt) error {
		m := moved{s.ColumnInt64(0), s.ColumnInt(1), workitem.Instant(s.ColumnInt64(2))}
		if m.at <= now && len(rows) < limit {
			rows = append(rows, m)
		} else {
			next = min(next, m.at)
		}
		return nil
	})
	return rows, next, err
}

// wakeAtOnce is how many rows one search for due retries reads.
const wakeAtOnce = 256

func (t *tx) wake(k wakeKey) error {
	st := t.s.state
	now := t.Now()
	for {
		if wake, ok := st.wakes[k]; ok && wake > now {
			return nil
		}
		rows, next, err := t.passed("items_wake", "claimable_at", "claimable_at > 0", k, now, wakeAtOnce)
		if err != nil {
			return err
		}
		for _, m := range rows {
			if err := t.do("UPDATE items SET claimable_at = 0 WHERE item = ?", func(b *binder) { b.int(m.row) }); err != nil {
				return err
			}
			if top, ok := st.tops[k]; ok && m.bucket > top {
				st.tops[k] = m.bucket
			}
			delete(st.dues, k)
		}
		st.wakes[k] = next
	}
}

// retireAtOnce is how many rows one claim takes out of the claim index.
const retireAtOnce = 16

func (t *tx) retire(k wakeKey) error {
	st := t.s.state
	now := t.Now()
	if due, ok := st.dues[k]; ok && due >= now {
		return nil
	}
	rows, next, err := t.passed("items_due", "due", "claimable_at = 0 AND due < 9223372036854775807", k, now-1, retireAtOnce)
	if err != nil {
		return err
	}
	for _, m := range rows {
		if err := t.do("UPDATE items SET claimable_at = NULL WHERE item = ?", func(b *binder) { b.int(m.row) }); err != nil {
			return err
		}
	}
	st.dues[k] = next
	return nil
}

// Exhausted implements workitem.Tx.
func (t *tx) Exhausted(tenant string) ([]workitem.ID, error) {
	l := t.s.state.lease(t.s.tenants.number(tenant))
	l.expire(t.Now())
	var ids []workitem.ID
	for id := range l.exhausted {
		ids = append(ids, id)
	}
	return ids, nil
}
