package record

import "sync"

// shards is how many parts a cache has, each with its own lock.
const shards = 16

// ways is how many places there are for a key.
const ways = 4

// cache holds a bounded number of particles under keys. Of those that share their
// places it forgets one that was not used since another was forgotten. It grows
// with its content.
type cache[K comparable] struct {
	limit  int // places of a shard, a power of two
	shards [shards]shard[K]
}

type shard[K comparable] struct {
	mu     sync.Mutex
	places []place[K]
	full   int
	next   uint8 // the way that is forgotten if all were used
	_      [64]byte
}

type place[K comparable] struct {
	key  K
	hash uint64
	id   Particle
	state
}

// state is what a place has.
type state uint8

const (
	empty state = iota
	idle
	used // since a neighbour was forgotten
)

// spread makes all bits of a hash depend on the lower ones.
func spread(hash uint64) uint64 {
	hash *= 0x9e3779b97f4a7c15
	return hash ^ hash>>29
}

// group are the places of a key.
func (s *shard[K]) group(hash uint64) []place[K] {
	at := hash % uint64(len(s.places)) / ways * ways
	return s.places[at : at+ways : at+ways]
}

// find returns the particle under a key. Equal keys must have equal hashes.
func (c *cache[K]) find(key *K, hash uint64) (id Particle, ok bool) {
	hash = spread(hash)
	s := &c.shards[hash>>60]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == 0 {
		return id, false
	}
	for i, group := 0, s.group(hash); i < ways; i++ {
		if p := &group[i]; p.hash == hash && p.state != empty && p.key == *key {
			p.state = used
			return p.id, true
		}
	}
	return id, false
}

// put sets the particle under a key.
func (c *cache[K]) put(key *K, hash uint64, id *Particle) {
	hash = spread(hash)
	s := &c.shards[hash>>60]
	s.mu.Lock()
	defer s.mu.Unlock()
	if 2*s.full >= len(s.places) && len(s.places) < c.limit {
		old := s.places
		s.places, s.full = make([]place[K], min(c.limit, max(64, 4*len(old)))), 0
		for i := range old {
			if p := &old[i]; p.state != empty {
				s.insert(p)
			}
		}
	}
	s.insert(&place[K]{*key, hash, *id, idle})
}

func (s *shard[K]) insert(p *place[K]) {
	group := s.group(p.hash)
	at := -1
	for i := range group {
		q := &group[i]
		if q.state != empty && q.hash == p.hash && q.key == p.key {
			q.state = used
			return
		}
		if at < 0 && q.state == empty {
			at = i
			s.full++
		}
	}
	for i := 0; at < 0 && i < ways; i++ {
		if group[i].state == idle {
			at = i
		}
	}
	if at < 0 {
		at = int(s.next % ways)
		s.next++
		for i := range group {
			group[i].state = idle
		}
	}
	group[at] = *p
}
