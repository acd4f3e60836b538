package postgres

import (
	"errors"
	"slices"

	"github.com/writ-authority/writ/workitem"
)

// errMissed ends a function that needs something which its transaction does not know
// yet. Nobody sees it: the function runs again.
var errMissed = errors.New("not read yet")

// run is one go of an update's function: the workitem.Tx that it gets. It reads what
// the transaction knows and keeps what it writes to itself until it has ended well. A
// run without a batch only finds out what the function begins with.
//
// A read of something unknown is noted. Where the most likely answer lets the function
// go on and say what it needs besides, it gets that; the run is void all the same.
type run struct {
	b      *batch
	s      *Store
	alone  bool // what is missing is read at once
	missed bool
	wants  wants
	err    error // of the database, when alone

	rows    map[workitem.ID]*row
	edges   map[edge]bool
	recalls map[recall]*workitem.Remembered
	turns   map[turnKey]workitem.Turn
	leases  map[string]int
	risen   map[wakeKey]struct{} // where jobs became claimable
	wrote   bool
	out     writes
}

var _ workitem.Tx = (*run)(nil)

// miss notes that something must be read first.
func (r *run) miss() error {
	r.missed = true
	return errMissed
}

// get reads what was noted at once, if the update is alone, and says whether it did.
func (r *run) get() bool {
	if !r.alone || r.missed || r.err != nil {
		return false
	}
	for tenant := range r.wants.quotas {
		if r.b.quotas[tenant] == nil {
			return false // tenants are locked before jobs: in another transaction
		}
	}
	if r.wrote {
		missing := r.wants
		if r.flush() != nil {
			return false
		}
		r.wants = missing
	}
	if r.err = r.b.w.load(r.b, &r.wants, false); r.err != nil {
		r.missed = true
		return false
	}
	r.wants = wants{}
	return true
}

// number is that of a tenant.
func (r *run) number(tenant string) (int64, error) {
	for {
		if n := r.s.tenants.number(tenant); n != 0 {
			return n, nil
		}
		want(&r.wants.names, tenant)
		if !r.get() {
			return 0, r.miss()
		}
	}
}

// row is what is known of a job, or nil.
func (r *run) row(id workitem.ID) *row {
	if n := r.rows[id]; n != nil {
		return n
	}
	if r.b == nil {
		return nil
	}
	return r.b.rows[id]
}

// known is what is known of a job that is locked, which it reads first if it must.
func (r *run) known(id workitem.ID) (*row, error) {
	for {
		if n := r.row(id); n != nil && (n.locked || n.fresh || n.saved) {
			return n, nil
		}
		if r.b != nil && r.b.busy[id] {
			want(&r.wants.items, id)
			return nil, r.miss()
		}
		want(&r.wants.items, id)
		if !r.get() {
			return nil, r.miss()
		}
	}
}

// writable is a job's row that this run may change.
func (r *run) writable(id workitem.ID) *row {
	n := r.rows[id]
	if n == nil {
		n = &row{}
		if old := r.row(id); old != nil {
			*n = *old
		}
		if r.rows == nil {
			r.rows = map[workitem.ID]*row{}
		}
		r.rows[id] = n
	}
	return n
}

// change notes once that a row is written.
func (r *run) change(id workitem.ID, n *row) {
	r.wrote = true
	if !n.fresh && !n.saved {
		r.out.changed = append(r.out.changed, id)
	}
}

func clone(it *workitem.Item) *workitem.Item {
	c := *it
	c.DependsOn = slices.Clone(it.DependsOn)
	return &c
}

// Now implements workitem.Reader.
func (r *run) Now() workitem.Instant {
	if r.b == nil {
		return workitem.Instant(r.s.clock.last.Load())
	}
	return r.b.now
}

// Epoch implements workitem.Reader.
func (r *run) Epoch() (int64, error) {
	switch {
	case r.b == nil:
		return 0, nil
	case r.b.guessed:
		return 0, r.miss()
	}
	return r.b.epoch, nil
}

// Item implements workitem.Reader.
func (r *run) Item(id workitem.ID) (*workitem.Item, error) {
	n, err := r.known(id)
	if err != nil || n.item == nil {
		return nil, err
	}
	return clone(n.item), nil
}

// Stored implements workitem.Reader.
func (r *run) Stored(it *workitem.Item) (*workitem.Stored, error) {
	for {
		n := r.row(it.ID)
		if n != nil && n.stored != nil {
			st := *n.stored
			it.CorrelationID = st.CorrelationID
			return &st, nil
		}
		want(&r.wants.stored, it.ID)
		if !r.get() {
			return nil, r.miss()
		}
		if n := r.row(it.ID); n == nil || n.stored == nil {
			return nil, corrupt("items", it.Row, "has no record")
		}
	}
}

// Tombstone implements workitem.Reader.
func (r *run) Tombstone(id workitem.ID) (*workitem.Tombstone, error) {
	n, err := r.known(id)
	if err != nil || n.stone == nil {
		return nil, err
	}
	stone := *n.stone
	return &stone, nil
}

// Children implements workitem.Reader.
func (r *run) Children(id workitem.ID) ([]workitem.ID, error) {
	n, err := r.known(id)
	if err == nil && !n.locked {
		// It was chosen without its children. Once it is written it can be read.
		if !r.alone {
			r.wants.alone = true
			return nil, r.miss()
		}
		if err = r.flush(); err == nil {
			n, err = r.known(id)
		}
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.children), nil
}

// linked says whether the reverse index has an edge.
func (r *run) linked(e edge) (bool, error) {
	for {
		if linked, ok := r.edges[e]; ok {
			return linked, nil
		}
		if r.b != nil {
			if linked, ok := r.b.edges[e]; ok {
				return linked, nil
			}
		}
		if n := r.row(e.parent); n != nil && n.locked {
			return slices.Contains(n.children, e.child), nil
		}
		want(&r.wants.edges, e)
		if !r.get() {
			return false, r.miss()
		}
	}
}

// Linked implements workitem.Reader.
func (r *run) Linked(parent, child workitem.ID) (bool, error) {
	return r.linked(edge{parent, child})
}

// Remembered implements workitem.Reader.
func (r *run) Remembered(tenant, subject, request string) (*workitem.Remembered, error) {
	k := recall{tenant, subject, request}
	for {
		if v, ok := r.recalls[k]; ok {
			return v, nil
		}
		if r.b != nil {
			if v, ok := r.b.recalls[k]; ok {
				return v, nil
			}
		}
		// What a claim is answered with is decided under the lock of its tenant.
		want(&r.wants.recalls, k)
		want(&r.wants.quotas, tenant)
		if !r.get() {
			r.missed = true
			return nil, nil
		}
	}
}

// quota is what is known of a tenant that is locked.
func (r *run) quota(tenant string) *quota {
	for {
		if r.b != nil {
			if q := r.b.quotas[tenant]; q != nil {
				return q
			}
		}
		want(&r.wants.quotas, tenant)
		if !r.get() {
			r.missed = true
			return &quota{}
		}
	}
}

// Leases implements workitem.Reader.
func (r *run) Leases(tenant string) (int, error) {
	return r.quota(tenant).leases + r.leases[tenant], nil
}

// Exhausted implements workitem.Tx.
func (r *run) Exhausted(tenant string) ([]workitem.ID, error) {
	list := r.quota(tenant).exhausted
	for _, id := range list {
		if n := r.row(id); (n == nil || !n.locked) && !r.b.busy[id] {
			want(&r.wants.items, id)
		}
	}
	if len(r.wants.items) > 0 && !r.get() {
		return nil, r.miss()
	}
	var ids []workitem.ID
	for _, id := range list {
		n := r.row(id)
		if n == nil || !n.locked {
			continue // somebody else is at it
		}
		if it := n.item; it != nil && it.Status.Held() && it.LeaseExpiresAt <= r.Now() && it.Attempt >= it.MaxAttempts {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Wake implements workitem.Tx. Jobs are woken with the first search of a transaction.
func (r *run) Wake(tenant string, kind workitem.Kind) error {
	k := wakeKey{tenant, kind}
	if r.b == nil || !r.b.woken[k] {
		want(&r.wants.wakes, k)
		want(&r.wants.quotas, tenant)
		if !r.get() {
			r.missed = true
		}
	}
	return nil
}

// Turn implements workitem.Tx.
func (r *run) Turn(tenant string, kind workitem.Kind, bucket int) (workitem.Turn, error) {
	k := turnKey{tenant, kind, bucket}
	for {
		if v, ok := r.turns[k]; ok {
			return v, nil
		}
		if r.b != nil {
			if v, ok := r.b.turns[k]; ok {
				return v, nil
			}
		}
		want(&r.wants.turns, k)
		if !r.get() {
			r.missed = true
			return workitem.Turn{}, nil
		}
	}
}

// SetTurn implements workitem.Tx.
func (r *run) SetTurn(tenant string, kind workitem.Kind, bucket int, turn workitem.Turn) error {
	if _, err := r.number(tenant); err != nil {
		return err
	}
	if r.turns == nil {
		r.turns = map[turnKey]workitem.Turn{}
	}
	k := turnKey{tenant, kind, bucket}
	if _, ok := r.turns[k]; !ok && r.b != nil {
		if known, ok := r.b.turns[k]; ok && known == turn {
			return nil // as it is
		}
	}
	if _, ok := r.turns[k]; !ok {
		r.out.turns = append(r.out.turns, k)
	}
	r.turns[k] = turn
	r.wrote = true
	return nil
}

// counted notes that a job went from one status to another; 0 is none.
func (r *run) counted(tenant int64, kind workitem.Kind, from, to workitem.Status) {
	if from == to {
		return
	}
	if from != 0 {
		r.out.counts = append(r.out.counts, counted{tenant, kind, from, -1})
	}
	if to != 0 {
		r.out.counts = append(r.out.counts, counted{tenant, kind, to, 1})
	}
}

// lives counts the live leases of a tenant as a job changes.
func (r *run) lives(before, after *workitem.Item) {
	n := 0
	for i, it := range []*workitem.Item{before, after} {
		if it != nil && live(it, r.Now()) {
			n += 2*i - 1
		}
	}
	if n != 0 {
		if r.leases == nil {
			r.leases = map[string]int{}
		}
		r.leases[after.Tenant] += n
	}
}

// rises notes a job that becomes claimable: picks don't have it.
func (r *run) rises(before, after *workitem.Item) {
	if r.claimable(after) && (before == nil || !r.claimable(before)) {
		want(&r.risen, wakeKey{after.Tenant, after.Kind})
	}
}

// Insert implements workitem.Tx.
func (r *run) Insert(it *workitem.Item, stored *workitem.Stored, ev workitem.Event) error {
	tenant, err := r.number(it.Tenant)
	if err != nil {
		return err
	}
	old, err := r.known(it.ID)
	if err != nil {
		return err
	}
	if old.item != nil {
		return corrupt("items", old.item.Row, "is there already")
	}
	n := r.writable(it.ID)
	r.change(it.ID, n)
	half := *stored
	half.Metadata = slices.Clone(stored.Metadata)
	n.item, n.stored, n.fresh, n.events = clone(it), &half, true, 0
	r.rises(nil, it)
	r.counted(tenant, it.Kind, 0, it.Status)
	r.lives(nil, it)
	r.out.change.note(it, 0, r.Now())
	r.event(n, ev)
	return nil
}

// event adds a row to the history of a job, if ev has a name. Its number is known when
// it is written.
func (r *run) event(n *row, ev workitem.Event) {
	if ev.Name == "" {
		return
	}
	n.events++
	r.out.events = append(r.out.events, event{item: n.item.ID, seq: n.events, Event: ev})
}

// Save implements workitem.Tx.
func (r *run) Save(it *workitem.Item, from workitem.Status, ev workitem.Event) error {
	tenant, err := r.number(it.Tenant)
	if err != nil {
		return err
	}
	old := r.row(it.ID)
	if old == nil || old.item == nil {
		if old, err = r.known(it.ID); err != nil {
			return err
		}
		if old.item == nil {
			return corrupt("items", it.Row, "is not there")
		}
	}
	n := r.writable(it.ID)
	r.change(it.ID, n)
	before := n.item
	n.item, n.saved = clone(it), true
	if before.Row != 0 {
		n.item.Row = before.Row
	}
	r.counted(tenant, it.Kind, from, it.Status)
	r.lives(before, it)
	r.rises(before, it)
	r.out.change.note(it, from, r.Now())
	r.event(n, ev)
	return nil
}

// Link implements workitem.Tx.
func (r *run) Link(parent, child workitem.ID) (bool, error) {
	e := edge{parent, child}
	if n := r.rows[child]; n != nil && n.fresh {
		// Nothing waits for a parent before it is there.
		if _, ok := r.edges[e]; !ok {
			return true, r.setEdge(e, true)
		}
	}
	linked, err := r.linked(e)
	if err != nil || linked {
		return false, err
	}
	return true, r.setEdge(e, true)
}

func (r *run) setEdge(e edge, linked bool) error {
	if r.edges == nil {
		r.edges = map[edge]bool{}
	}
	r.edges[e] = linked
	r.wrote = true
	if linked {
		r.out.links = append(r.out.links, e)
	} else {
		r.out.unlinks = append(r.out.unlinks, e)
	}
	if r.row(e.parent) != nil {
		r.writable(e.parent).link(e.child, linked)
	}
	return nil
}

// Unlink implements workitem.Tx.
func (r *run) Unlink(parent, child workitem.ID) error {
	return r.setEdge(edge{parent, child}, false)
}

// Delete implements workitem.Tx.
func (r *run) Delete(it *workitem.Item, stone *workitem.Tombstone) error {
	tenant, err := r.number(it.Tenant)
	if err != nil {
		return err
	}
	n, err := r.known(it.ID)
	if err != nil {
		return err
	}
	if n.item == nil {
		return corrupt("items", it.Row, "is not there")
	}
	row := n.item.Row
	stored, err := r.Stored(it)
	if err != nil {
		return err
	}
	for _, child := range n.children {
		if err := r.setEdge(edge{it.ID, child}, false); err != nil {
			return err
		}
	}
	for _, parent := range it.DependsOn {
		if err := r.setEdge(edge{parent, it.ID}, false); err != nil {
			return err
		}
	}
	n = r.writable(it.ID)
	gone := clone(it)
	gone.Row = row
	if stone != nil {
		copied := *stone
		n.stone = &copied
	}
	n.item, n.stored, n.saved, n.fresh, n.locked = nil, nil, false, false, true
	r.out.deleted = append(r.out.deleted, &deletion{gone, stored, stone})
	r.counted(tenant, it.Kind, it.Status, 0)
	r.wrote = true
	return nil
}

// Remember implements workitem.Tx.
func (r *run) Remember(tenant, subject, request string, v *workitem.Remembered) error {
	if _, err := r.number(tenant); err != nil {
		return err
	}
	if r.recalls == nil {
		r.recalls = map[recall]*workitem.Remembered{}
	}
	k := recall{tenant, subject, request}
	copied := *v
	r.recalls[k] = &copied
	r.out.recalls = append(r.out.recalls, k)
	r.wrote = true
	return nil
}

// Forget implements workitem.Tx.
func (r *run) Forget(before workitem.Instant) error {
	r.out.forget = max(r.out.forget, before)
	r.wrote = true
	return nil
}

// AddToken implements workitem.Tx.
func (r *run) AddToken(k *workitem.Token) error {
	copied := *k
	r.out.tokens = append(r.out.tokens, &copied)
	r.wrote = true
	return nil
}

// SaveToken implements workitem.Tx.
func (r *run) SaveToken(k *workitem.Token) error {
	copied := *k
	r.out.revoked = append(r.out.revoked, &copied)
	r.wrote = true
	return nil
}

// RaiseEpoch implements workitem.Tx.
func (r *run) RaiseEpoch() (int64, error) {
	if !r.alone {
		r.wants.alone = true
		return 0, r.miss()
	}
	if r.b.epoch >= workitem.LastEpoch {
		return 0, workitem.ErrLastEpoch
	}
	r.out.raise, r.wrote = true, true
	if err := r.flush(); err != nil {
		return 0, err
	}
	r.b.rows = map[workitem.ID]*row{} // all of them have changed
	clear(r.b.picks)
	for _, q := range r.b.quotas {
		q.leases = 0
	}
	return r.b.epoch, nil
}

// flush sends what the function has written so far, so that statements see it. Only an
// update that is alone does that.
func (r *run) flush() error {
	r.b.merge(r)
	*r = run{b: r.b, s: r.s, alone: true}
	r.err = r.b.w.flush(r.b, false)
	if r.err != nil {
		r.missed = true
	}
	return r.err
}

// aside is for what is read rarely: the function runs in a transaction of its own, and
// reads what the tables say after what it has written so far.
func (r *run) aside(read func(*reader) error) error {
	if !r.alone {
		r.wants.alone = true
		return r.miss()
	}
	if err := r.flush(); err != nil {
		return err
	}
	if r.err = read(r.b.w.reader(r.b)); r.err != nil {
		return r.err
	}
	return nil
}

// List implements workitem.Reader. The rows are locked.
func (r *run) List(q *workitem.Query, after workitem.Place, limit int) (list []*workitem.Item, err error) {
	if q.Unverified && !r.alone {
		if !r.quota(q.Tenant).unverified {
			return nil, nil
		}
	}
	err = r.aside(func(rd *reader) error {
		list, err = rd.List(q, after, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, it := range list {
		if n := r.row(it.ID); n == nil || !n.locked {
			want(&r.wants.items, it.ID)
		}
	}
	if len(r.wants.items) > 0 && !r.get() {
		return nil, r.miss()
	}
	fresh := list[:0]
	for _, it := range list {
		n, err := r.known(it.ID)
		if err != nil {
			return nil, err
		}
		if n.item != nil {
			fresh = append(fresh, clone(n.item))
		}
	}
	return fresh, nil
}

// History implements workitem.Reader.
func (r *run) History(it *workitem.Item) (list []workitem.Event, err error) {
	err = r.aside(func(rd *reader) error { list, err = rd.History(it); return err })
	return list, err
}

// Tenants implements workitem.Reader.
func (r *run) Tenants() (list []string, err error) {
	err = r.aside(func(rd *reader) error { list, err = rd.Tenants(); return err })
	return list, err
}

// Counts implements workitem.Reader.
func (r *run) Counts(tenant string) (list []workitem.Count, err error) {
	err = r.aside(func(rd *reader) error { list, err = rd.Counts(tenant); return err })
	return list, err
}

// ClaimableCounts implements workitem.Reader.
func (r *run) ClaimableCounts(tenant string) (counts map[workitem.Kind]int, err error) {
	err = r.aside(func(rd *reader) error { counts, err = rd.ClaimableCounts(tenant); return err })
	return counts, err
}

// OldestReady implements workitem.Reader.
func (r *run) OldestReady(tenant string) (at workitem.Instant, err error) {
	err = r.aside(func(rd *reader) error { at, err = rd.OldestReady(tenant); return err })
	return at, err
}

// Faults implements workitem.Reader.
func (r *run) Faults(tenant string) (n int, err error) {
	err = r.aside(func(rd *reader) error { n, err = rd.Faults(tenant); return err })
	return n, err
}

// Token implements workitem.Reader.
func (r *run) Token(id string) (k *workitem.Token, err error) {
	err = r.aside(func(rd *reader) error { k, err = rd.Token(id); return err })
	return k, err
}

// Tokens implements workitem.Reader.
func (r *run) Tokens(tenant string) (list []*workitem.Token, err error) {
	err = r.aside(func(rd *reader) error { list, err = rd.Tokens(tenant); return err })
	return list, err
}
