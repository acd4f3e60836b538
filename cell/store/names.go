package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/writ-authority/writ/cell/record"
)

// names are the particles of the items of a write.
type names struct {
	items []record.Item
	slots []uint32 // 1 + the number of an item, in or after the slot of its name; 0 is free
	shift int
}

// namesOf enters the names of items. If one is there twice, it is the first that twice
// points to.
func namesOf(items []record.Item) (n names, twice *record.Particle) {
	size := bits.Len(uint(2 * len(items)))
	n = names{items: items, slots: make([]uint32, 1<<size), shift: 64 - size}
	for i := range items {
		at, there := n.slot(&items[i].Particle)
		if there {
			if twice == nil {
				twice = &items[i].Particle
			}
			continue
		}
		n.slots[at] = uint32(i + 1)
	}
	return n, twice
}

// slot is where a name is, or the free slot where it would be.
func (n *names) slot(p *record.Particle) (at uint64, there bool) {
	at = uint64(keyOf(p)) * mixer >> n.shift
	for ; n.slots[at] != 0; at = (at + 1) & uint64(len(n.slots)-1) {
		if n.items[n.slots[at]-1].Particle == *p {
			return at, true
		}
	}
	return at, false
}

func (n *names) has(p *record.Particle) bool {
	_, there := n.slot(p)
	return there
}

// sum is a digest of the names, whatever their order.
func (n *names) sum() [sha256.Size]byte {
	type ranked struct {
		rank uint64
		item int
	}
	order := make([]ranked, len(n.items))
	for i := range n.items {
		order[i] = ranked{binary.BigEndian.Uint64(n.items[i].Particle[:]), i}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		if a.rank != b.rank {
			return cmp.Compare(a.rank, b.rank)
		}
		return compareParticles(n.items[a.item].Particle, n.items[b.item].Particle)
	})
	sorted := make([]byte, 0, len(order)*len(record.Particle{}))
	for _, r := range order {
		sorted = append(sorted, n.items[r.item].Particle[:]...)
	}
	return sha256.Sum256(sorted)
}
