package sqlite

import (
	"container/heap"
	"slices"

	"github.com/writ-authority/writ/workitem"
)

// lease is an item that somebody holds, or has held until its time ran out.
type lease struct {
	workitem.Item
	place int  // in the heap of the live ones, -1 otherwise
	over  bool // its time has run out
}

// take makes the present state of an item the lease's own.
func (l *lease) take(it *workitem.Item) {
	l.Item = *it
	l.DependsOn = slices.Clone(it.DependsOn)
}

// copy gives the item to somebody who may change it.
func (l *lease) copy() *workitem.Item {
	it := l.Item
	it.DependsOn = slices.Clone(l.DependsOn)
	return &it
}

// leases has every held item of one tenant, by when its time runs out.
type leases struct {
	held      map[workitem.ID]*lease // of all tenants
	live      leaseHeap
	over      map[workitem.Kind]map[workitem.ID]*lease // may be claimed again
	exhausted map[workitem.ID]*lease                   // no attempt is left
}

func newLeases(held map[workitem.ID]*lease) *leases {
	return &leases{
		held:      held,
		over:      map[workitem.Kind]map[workitem.ID]*lease{},
		exhausted: map[workitem.ID]*lease{},
	}
}

// put takes the present state of an item over.
func (l *leases) put(it *workitem.Item) {
	held := it.Status.Held()
	old := l.held[it.ID]
	if old != nil && held && !old.over {
		old.take(it)
		heap.Fix(&l.live, old.place)
		return
	}
	if old != nil {
		l.drop(old)
	}
	if held {
		n := &lease{}
		n.take(it)
		l.held[it.ID] = n
		heap.Push(&l.live, n)
	}
}

func (l *leases) drop(old *lease) {
	delete(l.held, old.ID)
	if !old.over {
		heap.Remove(&l.live, old.place)
		return
	}
	delete(l.exhausted, old.ID)
	delete(l.over[old.Kind], old.ID)
}

// expire sorts out those whose time has run out by now. Time only moves forward,
// so they stay sorted out until they are put again.
func (l *leases) expire(now workitem.Instant) {
	for len(l.live) > 0 && l.live[0].LeaseExpiresAt <= now {
		old := heap.Pop(&l.live).(*lease)
		old.over = true
		if old.Attempt >= old.MaxAttempts {
			l.exhausted[old.ID] = old
			continue
		}
		kind := l.over[old.Kind]
		if kind == nil {
			kind = map[workitem.ID]*lease{}
			l.over[old.Kind] = kind
		}
		kind[old.ID] = old
	}
}

// leaseHeap is ordered by when a lease runs out.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].LeaseExpiresAt < h[j].LeaseExpiresAt }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *leaseHeap) Push(x any) {
	n := x.(*lease)
	n.place = len(*h)
	*h = append(*h, n)
}

func (h *leaseHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	n.place = -1
	return n
}
