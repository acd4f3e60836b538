package store

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/writ-authority/writ/cell/record"
)

// key is what the index knows of a particle: its first eight bytes. Two particles may
// have the same.
type key uint64

func keyOf(p *record.Particle) key { return key(binary.LittleEndian.Uint64(p[:])) }

// entry is one of the index: content with this key lies there.
type entry struct {
	key   key
	place place
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.place, b.place))
}

// table is the part of the index that is in memory: of the packs that no run has yet.
// One that is full does not change any more.
type table struct {
	entries []entry
	slots   []uint32 // 1 + the number of an entry, in or after the slot of its key; 0 is free
	shift   int      // from a mixed key to its slot
	last    int64    // pack
	packs   int64    // how many, with those that are damaged
}

func newTable() *table {
	t := new(table)
	t.resize(8)
	return t
}

// mixer keeps those who choose content from choosing slots.
var mixer = rand.Uint64() | 1

// resize makes 2^bits slots.
func (t *table) resize(bits int) {
	t.slots, t.shift = make([]uint32, 1<<bits), 64-bits
	for i := range t.entries {
		t.put(i)
	}
}

// put enters an entry into the first free slot for it.
func (t *table) put(i int) {
	at := uint64(t.entries[i].key) * mixer >> t.shift
	for t.slots[at] != 0 {
		at = (at + 1) & uint64(len(t.slots)-1)
	}
	t.slots[at] = uint32(i + 1)
}

func (t *table) len() int { return len(t.entries) }

// add adds all items of a pack.
func (t *table) add(number int64, p *pack) {
	for i := range p.items() {
		name := p.particle(i)
		t.entries = append(t.entries, entry{keyOf(&name), placeOf(number, i)})
		if 2*len(t.entries) > len(t.slots) {
			t.resize(64 - t.shift + 1)
		} else {
			t.put(len(t.entries) - 1)
		}
	}
	t.skip(number)
}

// find appends the places of a key.
func (t *table) find(places []place, k key) []place {
	at := uint64(k) * mixer >> t.shift
	for ; t.slots[at] != 0; at = (at + 1) & uint64(len(t.slots)-1) {
		if e := &t.entries[t.slots[at]-1]; e.key == k {
			places = append(places, e.place)
		}
	}
	return places
}

// sorted returns the entries in the order of runs.
func (t *table) sorted() []entry {
	// Keys are uniform: by their highest bits they fall into short lists.
	const bits = 12
	var ends [1<<bits + 1]int
	for _, e := range t.entries {
		ends[e.key>>(64-bits)+1]++
	}
	for i := range 1 << bits {
		ends[i+1] += ends[i]
	}
	list := make([]entry, len(t.entries))
	next := ends
	for _, e := range t.entries {
		b := e.key >> (64 - bits)
		list[next[b]] = e
		next[b]++
	}
	for i := range 1 << bits {
		slices.SortFunc(list[ends[i]:ends[i+1]], compareEntries)
	}
	return list
}

// skip counts a pack.
func (t *table) skip(number int64) {
	t.last = number
	t.packs++
}
