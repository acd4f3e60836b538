package store

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/cell/record"
)

// Names that differ anywhere are told apart, names with the same first bytes too, and
// their sum depends on what they are and not on their order.
func TestNames(t *testing.T) {
	t.Parallel()
	name := rapid.Custom(func(t *rapid.T) (it record.Item) {
		binary.LittleEndian.PutUint64(it.Particle[:], rapid.Uint64Range(0, 40).Draw(t, "first"))
		it.Particle[31] = rapid.Byte().Draw(t, "last") % 4
		return it
	})
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(name).Draw(t, "items")
		there := map[record.Particle]int{}
		for _, it := range items {
			there[it.Particle]++
		}
		n, twice := namesOf(items)
		if (twice != nil) != (len(there) < len(items)) || twice != nil && there[*twice] < 2 {
			t.Fatalf("%d of %d names are different, and %v is there twice", len(there), len(items), twice)
		}
		for range 20 {
			p := name.Draw(t, "asked for").Particle
			if n.has(&p) != (there[p] > 0) {
				t.Fatalf("%v is there %d times, but has says %v", p, there[p], n.has(&p))
			}
		}
		other := slices.Clone(items)
		if len(other) == 0 {
			return
		}
		i, k := rapid.IntRange(0, len(other)-1).Draw(t, "i"), rapid.IntRange(0, len(other)-1).Draw(t, "k")
		other[i], other[k] = other[k], other[i]
		if swapped, _ := namesOf(other); swapped.sum() != n.sum() {
			t.Fatal("the sum depends on the order")
		}
		other[i].Particle[rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1
		if changed, _ := namesOf(other); changed.sum() == n.sum() {
			t.Fatal("other names have the same sum")
		}
	})
}
