package store

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/writ-authority/writ/cell/record"
)

// nearPacks is how many packs are asked before the index is.
const nearPacks = 16

// near has the packs that were read last. What is read next is mostly in one of them,
// since records that refer to each other were written together.
type near struct {
	packs [nearPacks]atomic.Pointer[nearPack]
	mu    sync.Mutex
	next  int
}

// nearPack finds the items of a pack by their names.
type nearPack struct {
	pack   *pack
	number int64
	slots  []uint16 // 1 + the number of an item, or 0
	shift  int
}

func newNearPack(number int64, p *pack) *nearPack {
	width := max(3, bits.Len(uint(p.items()))+1)
	n := &nearPack{p, number, make([]uint16, 1<<width), 64 - width}
	for i := range p.items() {
		name := p.particle(i)
		at := n.slot(&name)
		for n.slots[at] != 0 {
			at = (at + 1) & uint64(len(n.slots)-1)
		}
		n.slots[at] = uint16(i + 1)
	}
	return n
}

func (n *nearPack) slot(p *record.Particle) uint64 { return uint64(keyOf(p)) * mixer >> n.shift }

// find is the item of a name, or -1.
func (n *nearPack) find(p *record.Particle) int {
	for at := n.slot(p); n.slots[at] != 0; at = (at + 1) & uint64(len(n.slots)-1) {
		if i := int(n.slots[at] - 1); n.pack.particle(i) == *p {
			return i
		}
	}
	return -1
}

// find looks in all packs.
func (n *near) find(p *record.Particle) (*pack, int, bool) {
	for i := range n.packs {
		if at := n.packs[i].Load(); at != nil {
			if ordinal := at.find(p); ordinal >= 0 {
				return at.pack, ordinal, true
			}
		}
	}
	return nil, 0, false
}

// add puts a pack in the place of the one that came first.
func (n *near) add(number int64, p *pack) {
	if p.items() >= 1<<16-1 {
		return
	}
	at := newNearPack(number, p)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.packs {
		if old := n.packs[i].Load(); old != nil && old.number == number {
			return
		}
	}
	n.packs[n.next].Store(at)
	n.next = (n.next + 1) % nearPacks
}

// clear forgets all packs, whose numbers may mean others from now on.
func (n *near) clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.packs {
		n.packs[i].Store(nil)
	}
}
