package store

import (
	"cmp"
	"encoding/binary"
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
	places map[key]place
	others map[key][]place // of keys that were there already
	more   int             // places in others
	last   int64           // pack
}

func newTable() *table { return &table{places: map[key]place{}, others: map[key][]place{}} }

func (t *table) len() int { return len(t.places) + t.more }

// add adds all items of a pack.
func (t *table) add(number int64, p *pack) {
	for i := range p.items() {
		name := p.particle(i)
		k, at := keyOf(&name), placeOf(number, i)
		if _, taken := t.places[k]; taken {
			t.others[k] = append(t.others[k], at)
			t.more++
		} else {
			t.places[k] = at
		}
	}
	t.last = number
}

// find appends the places of a key.
func (t *table) find(places []place, k key) []place {
	at, ok := t.places[k]
	if !ok {
		return places
	}
	return append(append(places, at), t.others[k]...)
}

// sorted returns the entries in the order of runs.
func (t *table) sorted() []entry {
	list := slices.Grow([]entry(nil), t.len())
	for k, at := range t.places {
		list = append(list, entry{k, at})
	}
	for k, places := range t.others {
		for _, at := range places {
			list = append(list, entry{k, at})
		}
	}
	slices.SortFunc(list, compareEntries)
	return list
}
