package cell

import "sync"

// underway are the attempts that this process has begun, and of which nobody has said
// that they are over. What became of them can't be looked up: it may be about to happen.
type underway struct {
	mu       sync.Mutex
	attempts map[Particle]struct{}
}

func (u *underway) add(attempt Particle) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.attempts == nil {
		u.attempts = map[Particle]struct{}{}
	}
	u.attempts[attempt] = struct{}{}
}

func (u *underway) remove(attempt Particle) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.attempts, attempt)
}

func (u *underway) has(attempt Particle) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.attempts[attempt]
	return ok
}
