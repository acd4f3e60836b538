package store

import (
	"container/list"
	"sync"

	"github.com/writ-authority/writ/cell/record"
)

// cacheSize is how many bytes of packs stay in memory: those that were used last.
const cacheSize = 16 << 20

// cache has packs. What was verified of one is not verified again while it is here.
type cache struct {
	mu    sync.Mutex
	packs map[int64]*list.Element
	order *list.List // of *cached, the last used first
	size  int
}

type cached struct {
	number int64
	pack   *pack
}

func newCache() *cache { return &cache{packs: map[int64]*list.Element{}, order: list.New()} }

func (c *cache) get(number int64) *pack {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.packs[number]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).pack
}

func (c *cache) put(number int64, p *pack) {
	if len(p.data) > cacheSize/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.packs[number]; ok {
		return
	}
	c.packs[number] = c.order.PushFront(&cached{number, p})
	c.size += len(p.data)
	for c.size > cacheSize {
		last := c.order.Remove(c.order.Back()).(*cached)
		delete(c.packs, last.number)
		c.size -= len(last.pack.data)
	}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.packs)
	c.order.Init()
	c.size = 0
}

// known are particles that the store has for certain: a bounded number, those that
// were learnt last.
type known struct{ shards [16]knownShard }

type knownShard struct {
	mu       sync.RWMutex
	cur, old map[record.Particle]struct{}
}

// knownSize is how many particles one generation of a shard has.
const knownSize = 1 << 12

func newKnown() *known {
	k := new(known)
	k.clear()
	return k
}

func (k *known) shard(p *record.Particle) *knownShard { return &k.shards[p[8]%16] }

func (k *known) has(p record.Particle) bool {
	s := k.shard(&p)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, ok := s.cur[p]; ok {
		return true
	}
	_, ok := s.old[p]
	return ok
}

func (k *known) add(p record.Particle) {
	s := k.shard(&p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur[p] = struct{}{}
	if len(s.cur) >= knownSize {
		s.old, s.cur = s.cur, make(map[record.Particle]struct{}, knownSize)
	}
}

func (k *known) clear() {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		s.cur, s.old = map[record.Particle]struct{}{}, nil
		s.mu.Unlock()
	}
}
