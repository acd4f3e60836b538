package postgres

import (
	"maps"
	"slices"

	"github.com/writ-authority/writ/workitem"
)

// edge is a parent and a job that waits for it.
type edge struct{ parent, child workitem.ID }

// recall is a claim request id.
type recall struct{ tenant, subject, request string }

// turnKey is where fairness groups take turns.
type turnKey struct {
	tenant string
	kind   workitem.Kind
	bucket int
}

// wakeKey is where jobs wait for their time.
type wakeKey struct {
	tenant string
	kind   workitem.Kind
}

// wants is what the functions of updates have asked for and a transaction does not
// know yet.
type wants struct {
	items   map[workitem.ID]struct{}
	stored  map[workitem.ID]struct{}
	edges   map[edge]struct{}
	recalls map[recall]struct{}
	quotas  map[string]struct{} // tenants, to be locked
	wakes   map[wakeKey]struct{}
	picks   map[workitem.Selection]int // how many of each group
	turns   map[turnKey]struct{}
	names   map[string]struct{} // tenants without a number
	alone   bool                // something that is read for one update at a time
}

func want[K comparable](m *map[K]struct{}, k K) {
	if *m == nil {
		*m = map[K]struct{}{}
	}
	(*m)[k] = struct{}{}
}

func (w *wants) pick(sel workitem.Selection, rows int) {
	if w.picks == nil {
		w.picks = map[workitem.Selection]int{}
	}
	w.picks[sel] = max(w.picks[sel], rows)
}

func union[K comparable](m *map[K]struct{}, other map[K]struct{}) {
	for k := range other {
		want(m, k)
	}
}

// add takes the wants of another over.
func (w *wants) add(o *wants) {
	union(&w.items, o.items)
	union(&w.stored, o.stored)
	union(&w.edges, o.edges)
	union(&w.recalls, o.recalls)
	union(&w.quotas, o.quotas)
	union(&w.wakes, o.wakes)
	union(&w.turns, o.turns)
	union(&w.names, o.names)
	for sel, n := range o.picks {
		w.pick(sel, n)
	}
	w.alone = w.alone || o.alone
}

// onlyItems says that nothing but jobs is wanted.
func (w *wants) onlyItems() bool {
	return !w.alone && len(w.stored)+len(w.edges)+len(w.recalls)+len(w.quotas)+len(w.wakes)+len(w.picks)+len(w.turns)+len(w.names) == 0 &&
		len(w.items) > 0
}

// row is what a transaction knows of a job.
type row struct {
	item     *workitem.Item // nil if there is none
	events   int            // rows of its history
	stored   *workitem.Stored
	children []workitem.ID
	stone    *workitem.Tombstone
	locked   bool   // with its children and its tombstone
	kept     bool   // not read at all, but what this process has left
	version  string // of a row that is not locked, to be locked as it is before it is written
	ours     bool   // was written by this transaction, and so is locked too
	parent   bool   // others wait for it, or did when it was read without a lock

	old       *workitem.Item // what the table has
	oldEvents int

	fresh bool // is inserted
	saved bool // is written
}

// link adds a child to those of a job, or takes it out.
func (n *row) link(child workitem.ID, linked bool) {
	i, found := slices.BinarySearchFunc(n.children, child, workitem.ID.Compare)
	switch {
	case linked && !found:
		n.children = slices.Insert(slices.Clone(n.children), i, child)
	case !linked && found:
		n.children = slices.Delete(slices.Clone(n.children), i, i+1)
	}
}

// quota is what a transaction knows of a tenant that it has locked.
type quota struct {
	leases     int // live ones
	exhausted  []workitem.ID
	unverified bool // there may be some
}

// batch is one transaction: what it knows, and what its updates have written so far.
type batch struct {
	s       *Store
	w       *writer
	begun   bool // its locks are taken
	guessed bool // nothing was read
	now     workitem.Instant
	epoch   int64

	rows    map[workitem.ID]*row
	edges   map[edge]bool
	recalls map[recall]*workitem.Remembered
	quotas  map[string]*quota
	woken   map[wakeKey]bool
	turns   map[turnKey]workitem.Turn
	picks   map[workitem.Selection]*pick
	risen   map[wakeKey]struct{} // where jobs became claimable after picks were read
	busy    map[workitem.ID]bool // somebody else has them locked
	scale   int                  // updates of the batch
	strict  bool                 // candidates that others have locked are passed over at once
	wary    bool                 // so is everything that others have locked

	out writes
}

func newBatch(w *writer) *batch {
	return &batch{
		s: w.s, w: w,
		rows: map[workitem.ID]*row{}, edges: map[edge]bool{}, recalls: map[recall]*workitem.Remembered{},
		quotas: map[string]*quota{}, woken: map[wakeKey]bool{}, turns: map[turnKey]workitem.Turn{},
		picks: map[workitem.Selection]*pick{}, busy: map[workitem.ID]bool{},
	}
}

// writes is what updates have written, in order; rows say what becomes of them
// themselves.
type writes struct {
	changed []workitem.ID // rows that are fresh or saved
	events  []event
	links   []edge
	unlinks []edge
	counts  []counted
	recalls []recall
	turns   []turnKey
	deleted []*deletion
	tokens  []*workitem.Token
	revoked []*workitem.Token
	forget  workitem.Instant
	raise   bool
	wake    bool // the search for due jobs may have written
	change  change
}

func (o *writes) any() bool {
	return len(o.changed)+len(o.events)+len(o.links)+len(o.unlinks)+len(o.turns)+len(o.recalls)+len(o.deleted)+
		len(o.tokens)+len(o.revoked) > 0 || o.forget != 0 || o.raise || o.wake
}

type event struct {
	item workitem.ID
	seq  int
	workitem.Event
}

type counted struct {
	tenant int64
	kind   workitem.Kind
	status workitem.Status
	n      int
}

type deletion struct {
	item   *workitem.Item
	stored *workitem.Stored
	stone  *workitem.Tombstone
}

// merge makes what a run has written part of the transaction.
func (b *batch) merge(r *run) {
	maps.Copy(b.rows, r.rows)
	maps.Copy(b.edges, r.edges)
	maps.Copy(b.recalls, r.recalls)
	maps.Copy(b.turns, r.turns)
	union(&b.risen, r.risen)
	for tenant, n := range r.leases {
		if q := b.quotas[tenant]; q != nil {
			q.leases += n
		}
	}
	o, n := &b.out, &r.out
	o.changed = append(o.changed, n.changed...)
	o.events = append(o.events, n.events...)
	o.links = append(o.links, n.links...)
	o.unlinks = append(o.unlinks, n.unlinks...)
	o.counts = append(o.counts, n.counts...)
	o.recalls = append(o.recalls, n.recalls...)
	o.turns = append(o.turns, n.turns...)
	o.deleted = append(o.deleted, n.deleted...)
	o.tokens = append(o.tokens, n.tokens...)
	o.revoked = append(o.revoked, n.revoked...)
	o.forget = max(o.forget, n.forget)
	o.raise = o.raise || n.raise
	o.change.add(&n.change)
}
