package workitem

import "sync"

// hub wakes calls that wait. A wake-up is a hint: whoever is woken looks again. A
// job that becomes claimable wakes one waiting claim, which is enough, since that
// one either takes it or finds that somebody else has.
type hub struct {
	mu     sync.Mutex
	closed bool
	items  map[ID][]chan struct{}
	claims map[Queue][]*waiter
	quotas map[string][]*waiter
}

// waiter is a claim that waits. Its channel has room for one wake-up.
type waiter struct {
	wake  chan struct{}
	queue Queue
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// item registers interest in one job.
func (h *hub) item(id ID) chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		wake(ch)
	}
	if h.items == nil {
		h.items = map[ID][]chan struct{}{}
	}
	h.items[id] = append(h.items[id], ch)
	return ch
}

func (h *hub) dropItem(id ID, ch chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.items[id]
	for i, c := range list {
		if c == ch {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(h.items, id)
	} else {
		h.items[id] = list
	}
}

// claim registers a waiting claim.
func (h *hub) claim(q Queue) *waiter {
	w := &waiter{wake: make(chan struct{}, 1), queue: q}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		wake(w.wake)
	}
	if h.claims == nil {
		h.claims, h.quotas = map[Queue][]*waiter{}, map[string][]*waiter{}
	}
	h.claims[q] = append(h.claims[q], w)
	h.quotas[q.Tenant] = append(h.quotas[q.Tenant], w)
	return w
}

// dropClaim takes a waiting claim back. If it was woken and has not looked since,
// the wake-up goes to another.
func (h *hub) dropClaim(w *waiter, looked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims[w.queue] = without(h.claims[w.queue], w)
	if len(h.claims[w.queue]) == 0 {
		delete(h.claims, w.queue)
	}
	h.quotas[w.queue.Tenant] = without(h.quotas[w.queue.Tenant], w)
	if len(h.quotas[w.queue.Tenant]) == 0 {
		delete(h.quotas, w.queue.Tenant)
	}
	if !looked && len(w.wake) > 0 {
		h.wakeOne(w.queue)
	}
}

func without(list []*waiter, w *waiter) []*waiter {
	for i, x := range list {
		if x == w {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// wakeOne wakes the claim that waits longest of those that were not woken yet.
func (h *hub) wakeOne(q Queue) {
	for _, w := range h.claims[q] {
		if len(w.wake) == 0 {
			wake(w.wake)
			return
		}
	}
}

// publish wakes those whom a durable change concerns.
func (h *hub) publish(c *happening) {
	if len(c.items)+len(c.ready)+len(c.leases) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.items) > 0 {
		for _, id := range c.items {
			for _, ch := range h.items[id] {
				wake(ch)
			}
		}
	}
	if len(h.claims) == 0 {
		return
	}
	for _, q := range c.ready {
		h.wakeOne(q)
	}
	for _, tenant := range c.leases {
		for _, w := range h.quotas[tenant] {
			if len(w.wake) == 0 {
				wake(w.wake)
				break
			}
		}
	}
}

// heard wakes those whom a change concerns that another process has made.
func (h *hub) heard(c *Change) {
	h.publish(&happening{items: c.Items, ready: c.Ready, leases: c.Leases})
	if !c.AnyItem && !c.Everything {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.items {
		for _, ch := range list {
			wake(ch)
		}
	}
	if !c.Everything {
		return
	}
	for _, list := range h.claims {
		for _, w := range list {
			wake(w.wake)
		}
	}
}

// close wakes everybody, and everybody who comes later.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, list := range h.items {
		for _, ch := range list {
			wake(ch)
		}
	}
	for _, list := range h.claims {
		for _, w := range list {
			wake(w.wake)
		}
	}
}

// over says that nobody should wait any more.
func (h *hub) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}
