package cell

import "github.com/writ-authority/writ/cell/record"

// prepared is the reservation that most probably follows a commit. It is hashed while
// that commit becomes durable, if no other cell is at work: with several of them the
// processors are busy anyway, and hash more at a time. It is a draft like another one:
// nothing is evaluated, and it is written only by a tick that finds the cell in the very
// state for which it was made.
type prepared struct {
	slot  *slot
	state *state
	after *draft // of the commit
	draft *draft
	err   error
	done  chan struct{} // draft and err are set
}

// maxAhead is how many drafts are kept for ticks that may not come.
const maxAhead = 16

// prepare begins the reservation that follows the commit of a draft, if one may follow.
func (e *Engine) prepare(next *state, d *draft) *prepared {
	in := next.input
	if in == nil || in.reserved > 0 || in.charged >= in.limit || next.snapshot.Lifecycle != record.Active {
		return nil
	}
	if a := in.act; a != nil && (a.stage != record.Resolved || a.disposition != record.Succeeded) {
		return nil
	}
	if e.active.Load() > 1 {
		return nil
	}
	p := &prepared{state: next, after: d, done: make(chan struct{})}
	go func() { // it ends by itself, and is waited for by whoever wants its draft
		defer close(p.done)
		p.draft = newDraft(d.After(), next)
		p.err = e.reservation(p.draft)
	}()
	return p
}

// keepAhead keeps what was prepared for the next tick. The oldest of the others is
// forgotten if there are too many.
func (e *Engine) keepAhead(at *slot, p *prepared) {
	p.slot = at
	at.ahead.Store(p)
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.aheads[e.oldest]; old != nil {
		old.slot.ahead.CompareAndSwap(old, nil)
	}
	e.aheads[e.oldest] = p
	e.oldest = (e.oldest + 1) % maxAhead
}

// prepared is the reservation for the state of the slot, or nil if there is none.
func (at *slot) prepared() (*draft, error) {
	p := at.ahead.Swap(nil)
	if p == nil || p.state != at.state {
		return nil, nil
	}
	<-p.done
	d := p.draft
	p.after.Release()
	p.after, p.draft = nil, nil // the ring still has p
	return d, p.err
}
