package workitem

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Authority is the one durable authority for the jobs of a Store. Callers act on
// it through As. Its methods and its Callers may be used concurrently.
type Authority struct {
	store Store
	cfg   Config
	hub   hub

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	behind sync.WaitGroup // the pass that New starts, and housekeeping
	first  chan struct{}  // closed when that pass has ended
}

// Caller is an authority as one principal may use it.
type Caller struct {
	a *Authority
	p Principal
}

// New makes an authority of a store, which it closes when it is closed itself. It
// is ready at once; behind it, every submitted job is checked against its parents
// (section 11.5). Settings out of their range are refused.
func New(store Store, cfg Config) (*Authority, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	a := &Authority{store: store, cfg: cfg, first: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if w, ok := store.(Watcher); ok {
		w.Watch(a.hub.heard)
	}
	a.behind.Add(2)
	go func() {
		defer a.behind.Done()
		defer close(a.first)
		a.reconcileAll(a.ctx)
	}()
	go func() {
		defer a.behind.Done()
		a.keepHouse(a.ctx)
	}()
	return a, nil
}

// As gives the authority as p may use it. The principal must have been verified.
func (a *Authority) As(p Principal) *Caller { return &Caller{a: a, p: p} }

// Reconciled is closed when the pass over all submitted jobs that New has started
// is over.
func (a *Authority) Reconciled() <-chan struct{} { return a.first }

// Health is nil, or why nothing can be written at the moment.
func (a *Authority) Health() error { return a.store.Health() }

// Release ends all calls that wait for something to happen: they answer as if
// their time were over, and so does every later one.
func (a *Authority) Release() { a.hub.close() }

// Close ends waiting calls, finishes what was begun, and closes the store.
func (a *Authority) Close() error {
	a.cancel()
	a.hub.close()
	a.behind.Wait()
	return a.store.Close()
}

// count reports n events of a kind, if there are any.
func (a *Authority) count(c Counter, n int) {
	if n > 0 {
		a.cfg.Observer.Count(c, n)
	}
}

// housekeeping is how often old claim request ids are forgotten and passed
// deadlines swept.
const housekeeping = time.Minute

func (a *Authority) keepHouse(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A store that can't be written says so to callers and to Health; the
		// next tick tries again.
		err := a.store.Update(ctx, func(tx Tx) error {
			return tx.Forget(tx.Now().Add(-claimMemory))
		})
		if err == nil && a.cfg.Sweep {
			err = a.sweep(ctx)
		}
		if errors.Is(err, context.Canceled) {
			return
		}
	}
}

// happening collects what a transaction has changed for those who wait. It is
// published once that is durable.
type happening struct {
	items  []ID     // changed their status
	ready  []Queue  // have one more claimable job
	leases []string // tenants with one live lease less
	counts [counters]int
}

func (h *happening) reset() {
	h.items, h.ready, h.leases = h.items[:0], h.ready[:0], h.leases[:0]
	h.counts = [counters]int{}
}

// update runs fn in a transaction, and tells those who wait and the observer what
// it did once it is durable.
func (a *Authority) update(ctx context.Context, fn func(tx Tx, h *happening) error) error {
	var h happening
	err := a.store.Update(ctx, func(tx Tx) error {
		h.reset()
		return fn(tx, &h)
	})
	var refusal *Error
	if err == nil || errors.As(err, &refusal) && refusal.Code != AuthorityUnavailable {
		for c, n := range h.counts {
			a.count(Counter(c), n)
		}
	}
	if err == nil {
		a.hub.publish(&h)
	}
	return err
}

// save writes a row with one event and notes what those who wait want to know.
func (h *happening) save(tx Tx, it *Item, from Status, ev Event) error {
	now := tx.Now()
	it.UpdatedAt = now
	if ev.Name != "" {
		ev.At, ev.From, ev.To, ev.Epoch = now, from, it.Status, it.LeaseEpoch
	}
	if err := tx.Save(it, from, ev); err != nil {
		return err
	}
	h.note(it, from, now)
	return nil
}

func (h *happening) note(it *Item, from Status, now Instant) {
	if it.Status == from {
		return
	}
	h.items = append(h.items, it.ID)
	if it.Status == Ready && it.Position(now) == Claimable {
		h.ready = append(h.ready, Queue{it.Tenant, it.Kind})
	}
	if from.Held() && !it.Status.Held() {
		h.leases = append(h.leases, it.Tenant)
	}
}
