package bindb

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/writ-authority/writ/bindb/record"
)

// chain rebuilds the rows of one chain file while its members go by in physical
// order (section 6.6).
type chain struct {
	record.Chain
	f, owner, member *family
	latest           []record.Ref
	counts           []uint32
	next             []uint8

	// Members normally come in the order of their ordinals, and then each one
	// follows the member before it. When some do not, links are sorted first.
	ordered  bool
	links    []link
	mismatch []wrongLink
}

type link struct {
	owner, index uint32
	previous     record.Ref
	ordinal      uint8
}

type wrongLink struct {
	index     uint32
	got, want record.Ref
}

// chains are found by file name. They are empty unless the check is full.
type chains map[string]*chain

func (c *checker) newChains() chains {
	all := chains{}
	for _, spec := range record.Chains() {
		ch := &chain{
			Chain: spec, f: mustFamily(spec.File), owner: mustFamily(spec.Owner), member: mustFamily(spec.Member),
			ordered: true,
		}
		if n, owners := c.counts[ch.f.no], c.counts[ch.owner.no]; n != owners {
			c.bad(ch.f, "C01", "has %d rows, but %s has %d records", n, spec.Owner, owners)
		}
		if c.full {
			n := c.counts[ch.owner.no]
			ch.latest, ch.counts = make([]record.Ref, n), make([]uint32, n)
			if spec.Ordinal {
				ch.next = make([]uint8, n)
			}
		}
		all[spec.File] = ch
	}
	return all
}

// join adds member i to the chain of an owner that exists. Without a full check
// only the link itself is looked at.
func (c *checker) join(ch *chain, field string, i, owner uint32, ordinal uint8, previous record.Ref) {
	if p, ok := previous.Index(); ok && p >= c.counts[ch.member.no] {
		c.missing(ch.member, i, "C02", field, p, ch.member)
		return
	}
	if !c.full || owner >= uint32(len(ch.latest)) {
		return
	}
	want := ch.latest[owner]
	ch.counts[owner]++
	if ch.Ordinal {
		ch.links = append(ch.links, link{owner, i, previous, ordinal})
		if ordinal < ch.next[owner] {
			ch.ordered = false
			return
		}
		ch.next[owner] = ordinal + 1
	}
	if previous != want {
		ch.mismatch = append(ch.mismatch, wrongLink{i, previous, want})
	}
	ch.latest[owner] = record.RefTo(i)
}

// settle puts the members of an ordinal chain in order when they did not come so.
func (c *checker) settle(ch *chain) {
	if ch.ordered {
		return
	}
	slices.SortFunc(ch.links, func(a, b link) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.index, b.index))
	})
	clear(ch.latest)
	clear(ch.next)
	ch.mismatch = nil
	for j, l := range ch.links {
		if j > 0 && ch.links[j-1].owner == l.owner && ch.links[j-1].ordinal == l.ordinal {
			c.badField(ch.member, l.index, "C03", "", "has the ordinal %d, which record %d of the same owner has too", l.ordinal, ch.links[j-1].index)
		}
		if l.previous != ch.latest[l.owner] {
			ch.mismatch = append(ch.mismatch, wrongLink{l.index, l.previous, ch.latest[l.owner]})
		}
		ch.latest[l.owner] = record.RefTo(l.index)
		ch.next[l.owner] = l.ordinal + 1
	}
}

// chainRows compares the rows of all chains with the rebuilt ones (C02).
func (c *checker) chainRows(all chains) {
	for _, spec := range record.Chains() {
		ch := all[spec.File]
		c.settle(ch)
		for _, m := range ch.mismatch {
			c.badField(ch.member, m.index, "C02", "", "has the previous member %s in the chain of %s, want %s", refText(m.got), ch.File, refText(m.want))
		}
		ch.mismatch, ch.links = nil, nil
		layout, _ := record.ByFile(ch.File)
		compare := func(i uint32, latest record.Ref, count uint16) bool {
			c.inRange(ch.f, i, "C02", layout.Fields[0].Name, latest, ch.member)
			if !c.full || i >= uint32(len(ch.latest)) {
				return false
			}
			if latest != ch.latest[i] {
				c.badField(ch.f, i, "C02", layout.Fields[0].Name, "is %d, but the members give %d", latest, ch.latest[i])
			}
			if uint32(count) != ch.counts[i] {
				c.badField(ch.f, i, "C02", layout.Fields[1].Name, "is %d, but there are %d members", count, ch.counts[i])
			}
			return true
		}
		if ch.Ordinal {
			scan(c, table[record.OrdinalChain](ch.File), func(i uint32, row *record.OrdinalChain) {
				if compare(i, row.Latest, row.Count) && row.Next != ch.next[i] {
					c.badField(ch.f, i, "C02", layout.Fields[2].Name, "is %d, but the members give %d", row.Next, ch.next[i])
				}
			})
		} else {
			scan(c, table[record.InventoryChain](ch.File), func(i uint32, row *record.InventoryChain) {
				compare(i, row.Latest, row.Count)
			})
		}
		if c.stop != nil {
			return
		}
	}
}

func refText(r record.Ref) string {
	if i, ok := r.Index(); ok {
		return fmt.Sprintf("record %d", i)
	}
	return "none"
}
