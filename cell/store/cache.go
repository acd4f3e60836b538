package store

import (
	"container/list"
	"encoding/binary"
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

	near near
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
	c.near.clear()
}

// known are particles that the store has for certain, because they were looked up: a
// bounded number, mostly those that were looked up last. Each has a place among a few others, of which it drives one
// out.
type known struct{ shards [knownShards]knownShard }

type knownShard struct {
	mu   sync.Mutex
	sets []knownSet // none before the first particle
}

type knownSet struct {
	names [4]record.Particle // a name of zeros is none
	next  uint8              // to be driven out
}

const (
	knownShards = 64
	knownSets   = 512 // of a shard: 4 MB for all 131,072 particles
)

func newKnown() *known { return new(known) }

// place is where a particle may be.
func (k *known) place(p *record.Particle) (*knownShard, uint64) {
	n := binary.LittleEndian.Uint64(p[8:])
	return &k.shards[n%knownShards], n / knownShards % knownSets
}

func (s *knownSet) has(p *record.Particle) bool {
	for i := range s.names {
		if s.names[i] == *p {
			return true
		}
	}
	return false
}

func (k *known) has(p record.Particle) bool {
	s, set := k.place(&p)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets != nil && p != record.Particle{} && s.sets[set].has(&p)
}

func (k *known) add(p record.Particle) {
	s, set := k.place(&p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		s.sets = make([]knownSet, knownSets)
	}
	if at := &s.sets[set]; !at.has(&p) {
		at.names[at.next] = p
		at.next = (at.next + 1) % uint8(len(at.names))
	}
}

func (k *known) clear() {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		s.sets = nil
		s.mu.Unlock()
	}
}
