package postgres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/writ-authority/writ/workitem"
)

// pick is what a transaction knows of the jobs that a kind of claim may take: the
// first ones of each fairness group and class, in every bucket.
type pick struct {
	rows    int  // asked for of each class
	groups  int  // asked for in each bucket, from the turn on and before it
	plain   bool // was read as if every bucket had one class
	mixed   bool // which is not so: it must be read otherwise
	buckets [4]bucket
}

// bucket has the groups in a circle: those from the one whose turn it was on, then
// those before it.
type bucket struct {
	start  string // whose turn it was when they were read
	groups []*group
	after  int     // how many of them come from start on
	more   [2]bool // there may be further ones behind these, and behind the rest
}

// group is the jobs of one group, one list for each class (and priority, in native
// order).
type group struct {
	name    string
	part    int // 1 for those before the turn
	classes []*class
}

type class struct {
	name     string
	priority int
	ids      []workitem.ID
	more     bool // there may be further ones
}

// Next implements workitem.Tx.
func (r *run) Next(s *workitem.Selection) (*workitem.Item, error) {
	sel := s
	if s.Fair && s.FairnessGroup != "" {
		one := *s
		one.Fair = false // a group alone has no turns
		sel = &one
	}
	if err := r.repick(wakeKey{sel.Tenant, sel.Kind}); err != nil {
		return nil, err
	}
	for {
		// The candidates are read under the lock of the tenant, after jobs were woken.
		want(&r.wants.quotas, sel.Tenant)
		var p *pick
		if r.b != nil {
			if p = r.b.picks[*sel]; p != nil {
				id, found, whole := r.best(sel, p)
				if whole {
					if !found {
						return nil, nil
					}
					n := r.row(id)
					return clone(n.item), nil
				}
			}
		}
		rows := 0
		if p != nil {
			rows = 4 * p.rows
		}
		r.wants.pick(*sel, rows)
		if !r.get() {
			return nil, r.miss()
		}
	}
}

// repick has candidates read again where jobs became claimable after they were. The
// statement must see those, so that is for a transaction of its own.
func (r *run) repick(k wakeKey) error {
	_, here := r.risen[k]
	if !here && r.b != nil {
		_, here = r.b.risen[k]
	}
	if !here {
		return nil
	}
	if !r.alone {
		r.wants.alone = true
		return r.miss()
	}
	if err := r.flush(); err != nil {
		return err
	}
	maps.DeleteFunc(r.b.picks, func(sel workitem.Selection, _ *pick) bool { return sel.Tenant == k.tenant && sel.Kind == k.kind })
	delete(r.b.risen, k)
	return nil
}

// best finds the job whose turn it is. whole is false if that can't be told from
// what was read.
func (r *run) best(sel *workitem.Selection, p *pick) (id workitem.ID, found, whole bool) {
	for i := range 4 {
		n := i
		if !sel.Native {
			n = 3 - i
		}
		id, found, whole = r.bestOf(sel, n, &p.buckets[n])
		if found || !whole {
			return id, found, whole
		}
	}
	return id, false, true
}

func (r *run) bestOf(sel *workitem.Selection, number int, k *bucket) (id workitem.ID, found, whole bool) {
	if !sel.Fair {
		var best *workitem.Item
		for _, g := range k.groups {
			it, whole := r.head(sel, g)
			if !whole {
				return id, false, false
			}
			if it != nil && (best == nil || workitem.Less(it, best, sel.Native)) {
				best = it
			}
		}
		if best == nil {
			return id, false, true
		}
		return best.ID, true, true
	}
	turn, err := r.Turn(sel.Tenant, sel.Kind, number) // it was read with the candidates
	if err != nil || r.missed {
		return id, false, false
	}
	n := len(k.groups)
	if n == 0 {
		return id, false, !k.gaps()
	}
	at := slices.IndexFunc(k.groups, func(g *group) bool { return g.name == turn.Group })
	switch {
	case at >= 0 && turn.Left <= 0:
		if k.gap(at) {
			return id, false, false
		}
		at = (at + 1) % n
	case at >= 0:
	case turn.Group == k.start && !(k.more[0] && k.after == 0):
		at = 0
	case k.gaps():
		return id, false, false
	default:
		at = k.successor(turn.Group)
	}
	for range n {
		it, whole := r.head(sel, k.groups[at])
		if !whole {
			return id, false, false
		}
		if it != nil {
			return it.ID, true, true
		}
		if k.gap(at) {
			return id, false, false
		}
		at = (at + 1) % n
	}
	return id, false, true
}

// gap says that there may be groups which were not read between one and the next.
func (k *bucket) gap(at int) bool {
	last := at == len(k.groups)-1
	return k.more[0] && (at == k.after-1 || last && k.after == 0) || k.more[1] && last
}

func (k *bucket) gaps() bool { return k.more[0] || k.more[1] }

// successor is where the first group after a name is.
func (k *bucket) successor(name string) int {
	best, least := -1, 0
	for i, g := range k.groups {
		if g.name > name && (best < 0 || g.name < k.groups[best].name) {
			best = i
		}
		if g.name < k.groups[least].name {
			least = i
		}
	}
	if best < 0 {
		return least
	}
	return best
}

// head finds the first job of a group that may be claimed.
func (r *run) head(sel *workitem.Selection, g *group) (best *workitem.Item, whole bool) {
	for _, c := range g.classes {
		var it *workitem.Item
		for i, id := range c.ids {
			n := r.row(id)
			if n == nil || n.item == nil || !r.claimable(n.item) {
				if r.rows[id] == nil && i == 0 {
					c.ids = c.ids[1:] // for good: a transaction never makes it claimable again
				}
				continue
			}
			it = n.item
			break
		}
		if it == nil {
			if c.more {
				return nil, false
			}
			continue
		}
		if best == nil || workitem.Less(it, best, sel.Native) {
			best = it
		}
	}
	return best, true
}

// claimable says that a job of the claim index may be handed out, or is one whose
// consent is missing, which the caller parks.
func (r *run) claimable(it *workitem.Item) bool {
	now := r.Now()
	switch {
	case it.Status.Held():
		if it.LeaseExpiresAt > now || it.Attempt >= it.MaxAttempts || it.NextRetryAt > now || it.DepState == workitem.DepFaulty {
			return false
		}
	case it.Position(now) != workitem.Claimable:
		return false
	}
	return it.Due() >= now
}

// spare is how many groups of a bucket a search reads besides one for each update of
// the transaction.
const spare = 4

// loadPick reads candidates. rows is how many of each class at least; 0 leaves it to
// the size of the batch.
func (w *writer) loadPick(q *pgx.Batch, b *batch, sel workitem.Selection, tenant int64, rows int, at *int64) {
	p := &pick{rows: max(rows, b.scale), groups: b.scale + spare}
	if old := b.picks[sel]; old != nil {
		p.groups = 4 * old.groups
	}
	if !sel.Fair {
		p.groups = everything
	}
	b.picks[sel] = p
	for i := range p.buckets {
		if k := (turnKey{sel.Tenant, sel.Kind, i}); tenant == 0 && sel.Fair {
			b.turns[k] = workitem.Turn{}
		}
	}
	if tenant == 0 {
		return
	}
	search := candidates
	p.plain = !sel.Native && sel.ResourceClass == "" && sel.FairnessGroup == "" && !w.mixed[sel]
	if p.plain {
		search = plainCandidates
	}
	text, args := search(&sel, at, tenant, p, b.strict)
	q.Queue(text, args...).Query(func(rows pgx.Rows) error {
		err := each(rows, func(r pgx.Rows) error { return w.candidate(b, &sel, p, r) })
		mixed := false
		for i := range p.buckets {
			p.buckets[i].arrange(p.groups)
			mixed = mixed || p.buckets[i].mixed()
		}
		if !p.plain && !mixed {
			delete(w.mixed, sel)
		}
		return err
	})
}

// mixed says that a bucket has more than one class of jobs.
func (k *bucket) mixed() bool {
	return len(k.groups) > 1 || len(k.groups) == 1 && len(k.groups[0].classes) > 1
}

// everything is a limit that is none.
const everything = 1 << 30

// candidate takes one row of candidates over: a job, or the place of a group or a
// bucket that has none.
func (w *writer) candidate(b *batch, sel *workitem.Selection, p *pick, r pgx.Rows) error {
	var number int
	var turn workitem.Turn
	var part, priority *int
	var name, className, version *string
	var s itemScan
	var st storedScan
	var parent bool
	targets := []any{&number, &turn.Group, &turn.Left, &part, &name, &className, &priority, &version}
	places := append(append(s.targets(), st.targets()...), &parent)
	if r.RawValues()[len(targets)-1] == nil {
		clear(places) // nothing is scanned
	}
	if err := r.Scan(append(targets, places...)...); err != nil {
		return err
	}
	k := &p.buckets[number]
	k.start = turn.Group
	if key := (turnKey{sel.Tenant, sel.Kind, number}); sel.Fair {
		if _, ok := b.turns[key]; !ok {
			b.turns[key] = turn
		}
	}
	if part == nil {
		return nil
	}
	c := k.class(*part, *name, *className, *priority)
	if version == nil {
		p.mixed = p.mixed || p.plain // the class of the jobs that were passed over is unknown
		return nil
	}
	it, err := s.item(&w.s.tenants)
	if err != nil {
		return err
	}
	stored, err := st.stored(it.Row)
	if err != nil {
		return err
	}
	if p.plain && (it.FairnessGroup != *name || it.ResourceClass != *className) {
		p.mixed = true
		return nil
	}
	c.ids = append(c.ids, it.ID)
	c.more = len(c.ids) >= p.rows
	if n := b.rows[it.ID]; n == nil || !n.locked && !n.fresh && !n.saved {
		b.rows[it.ID] = &row{item: it, old: it, events: s.events, oldEvents: s.events, stored: stored, version: *version, parent: parent}
	} else if n.stored == nil {
		n.stored = stored
	}
	return nil
}

// class is where a candidate belongs.
func (k *bucket) class(part int, name, className string, priority int) *class {
	i := slices.IndexFunc(k.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		i = len(k.groups)
		k.groups = append(k.groups, &group{name: name, part: part})
	}
	g := k.groups[i]
	j := slices.IndexFunc(g.classes, func(c *class) bool { return c.name == className && c.priority == priority })
	if j < 0 {
		j = len(g.classes)
		g.classes = append(g.classes, &class{name: className, priority: priority})
	}
	return g.classes[j]
}

// arrange closes the circle. Where as many classes were read as were asked for, the
// last group may have more of them, so it is left out.
func (k *bucket) arrange(limit int) {
	slices.SortFunc(k.groups, func(a, b *group) int { return cmp.Or(a.part-b.part, cmp.Compare(a.name, b.name)) })
	cut := slices.IndexFunc(k.groups, func(g *group) bool { return g.part == 1 })
	if cut < 0 {
		cut = len(k.groups)
	}
	parts := [2][]*group{k.groups[:cut:cut], k.groups[cut:]}
	for i, part := range parts {
		n := 0
		for _, g := range part {
			n += len(g.classes)
		}
		if k.more[i] = n >= limit; k.more[i] {
			parts[i] = part[:len(part)-1]
		}
	}
	k.after = len(parts[0])
	k.groups = append(parts[0], parts[1]...)
}

// plainCandidates is candidates for the usual case that all jobs of a bucket are of one
// group and class: where the first job's is also the last one's.
func plainCandidates(sel *workitem.Selection, at *int64, tenant int64, p *pick, strict bool) (text string, args []any) {
	turn, turnColumns, part := "", "'', 0", "0"
	if sel.Fair {
		turn = turnJoin
		turnColumns = "coalesce(t.fairness, ''), coalesce(t.more, 0)"
		part = "CASE WHEN z.fairness >= coalesce(t.fairness, '') THEN 0 ELSE 1 END"
	}
	return `SELECT b.bucket, ` + turnColumns + `, CASE WHEN z.fairness IS NOT NULL THEN ` + part + ` END, z.fairness, z.class, 0, r.*
		FROM unnest('{0,1,2,3}'::smallint[]) b (bucket)` + turn + `
		LEFT JOIN LATERAL (SELECT c.fairness, c.class ` + inBucket + ` ORDER BY c.fairness DESC, c.class DESC LIMIT 1) z ON true
		LEFT JOIN LATERAL (
			SELECT l.version, ` + itemColumns + `, ` + storedColumns + `, EXISTS (SELECT 1 FROM edges e WHERE e.parent = l.id) AS parent
			FROM (SELECT c.xmin::text AS version, c.* ` + inBucket + ` AND c.due >= ` + sqlNow + `
				ORDER BY c.fairness, c.class, c.priority DESC, c.due, c.created, c.id LIMIT $4` + locking(strict) + `) l
			JOIN items i ON i.item = l.item
		) r ON z.fairness IS NOT NULL`, []any{at, tenant, int16(sel.Kind), p.rows}
}

const (
	inBucket = "FROM life c WHERE c.claimable_at = 0 AND c.tenant = $2 AND c.kind = $3 AND c.bucket = b.bucket"
	turnJoin = " LEFT JOIN turns t ON t.tenant = $2 AND t.kind = $3 AND t.bucket = b.bucket"
)

func locking(strict bool) string {
	if strict {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// candidates makes the statement that finds the first jobs of each group and class of
// every bucket. It hops from one group to the next in the claim index and reads
// nothing in between.
func candidates(sel *workitem.Selection, at *int64, tenant int64, p *pick, strict bool) (text string, args []any) {
	args = []any{at, tenant, int16(sel.Kind), p.rows, p.groups}
	parameter := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	columns, order := "c.fairness, c.class, 0 AS priority", "c.fairness, c.class"
	if sel.Native {
		columns, order = "c.fairness, c.class, c.priority", "c.fairness, c.class, c.priority DESC"
	}
	hop := func(part int, within string) string {
		next := "SELECT " + columns + " " + inBucket + within + " AND (c.fairness, c.class) > (g.fairness, g.class) ORDER BY " + order + " LIMIT 1"
		if sel.Native {
			next = "(SELECT " + columns + " " + inBucket + within + " AND c.fairness = g.fairness AND c.class = g.class AND c.priority < g.priority ORDER BY c.priority DESC LIMIT 1) " +
				"UNION ALL (" + next + ") LIMIT 1"
		}
		return fmt.Sprintf(`(WITH RECURSIVE g AS (
			(SELECT %s, 1 AS n %s%s ORDER BY %s LIMIT 1)
			UNION ALL
			SELECT x.fairness, x.class, x.priority, g.n + 1 FROM g CROSS JOIN LATERAL (%s) x WHERE g.n < $5)
			SELECT %d AS part, fairness, class, priority FROM g)`, columns, inBucket, within, order, next, part)
	}
	turn, groups := "", ""
	turnColumns := "'', 0"
	switch {
	case sel.Fair:
		turn = turnJoin
		turnColumns = "coalesce(t.fairness, ''), coalesce(t.more, 0)"
		groups = hop(0, " AND c.fairness >= coalesce(t.fairness, '')") + " UNION ALL " + hop(1, " AND c.fairness < coalesce(t.fairness, '')")
	case sel.FairnessGroup != "":
		groups = hop(0, " AND c.fairness = "+parameter(sel.FairnessGroup))
	default:
		groups = hop(0, "")
	}
	within := " AND c.fairness = g.fairness AND c.class = g.class"
	rowOrder := "c.priority DESC, c.due, c.created, c.id"
	if sel.Native {
		within += " AND c.priority = g.priority"
		rowOrder = "c.due, c.created, c.id"
	}
	if sel.ResourceClass != "" {
		within += " AND g.class = " + parameter(sel.ResourceClass)
	}
	return `SELECT b.bucket, ` + turnColumns + `, g.part, g.fairness, g.class, g.priority, r.*
		FROM unnest('{0,1,2,3}'::smallint[]) b (bucket)` + turn + `
		LEFT JOIN LATERAL (` + groups + `) g ON true
		LEFT JOIN LATERAL (
			SELECT l.version, ` + itemColumns + `, ` + storedColumns + `, EXISTS (SELECT 1 FROM edges e WHERE e.parent = l.id) AS parent
			FROM (SELECT c.xmin::text AS version, c.* ` + inBucket + within + ` AND c.due >= ` + sqlNow + ` ORDER BY ` + rowOrder + ` LIMIT $4` + locking(strict) + `) l
			JOIN items i ON i.item = l.item
		) r ON g.fairness IS NOT NULL`, args
}
