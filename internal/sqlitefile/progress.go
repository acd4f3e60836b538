package sqlitefile

import "sync"

// Progress is how far the log is durable, as the number of a transaction. The zero
// value is ready.
type Progress struct {
	mu     sync.Mutex
	number uint64
	failed bool
	change chan struct{} // closed by the next change; nil if nobody waits
}

// Reach says that all transactions up to n are durable.
func (p *Progress) Reach(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number = max(p.number, n)
	p.wake()
}

// Fail says that no further transaction will be durable.
func (p *Progress) Fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
	p.wake()
}

func (p *Progress) wake() {
	if p.change != nil {
		close(p.change)
		p.change = nil
	}
}

// Wait returns once transaction n is durable, or false if it never will be.
func (p *Progress) Wait(n uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.number < n && !p.failed {
		if p.change == nil {
			p.change = make(chan struct{})
		}
		change := p.change
		p.mu.Unlock()
		<-change
		p.mu.Lock()
	}
	return p.number >= n
}
