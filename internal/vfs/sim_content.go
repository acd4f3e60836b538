package vfs

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

const (
	simPageSize = 4096
	// sectorSize is what a simulated disk writes whole or not at all, in bytes.
	sectorSize = 512
)

// simPage is a part of a file's content. Pages are shared between contents; only
// the content that made a page writes to it, and only until it is frozen.
type simPage struct {
	b   [simPageSize]byte
	sum atomic.Uint64 // of b; 0 if not known
}

// content is what is in a file. A frozen one never changes again and may be
// shared between goroutines; others belong to their simNode. Nothing but zeros
// lies behind size, and a missing page means zeros.
type content struct {
	pages  []*simPage
	own    []bool // parallel to pages: made by this content, so writable
	size   int64
	frozen bool
	sum    atomic.Uint64 // of a frozen content; 0 if not known
}

// emptyContent is the content of a new file.
var emptyContent = &content{frozen: true}

// clone returns a content that can be changed. c must be frozen.
func (c *content) clone() *content {
	d := &content{size: c.size}
	d.pages = append(make([]*simPage, 0, len(c.pages)+1), c.pages...)
	d.own = make([]bool, len(d.pages), len(d.pages)+1)
	return d
}

// freeze ends all change of c and returns it.
func (c *content) freeze() *content {
	if !c.frozen { // others may be reading a frozen one
		c.frozen = true
		c.own = nil
	}
	return c
}

// readAt fills p from offset off and returns how much of it lies in the file.
func (c *content) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for done := 0; done < len(p); {
		at := off + int64(done)
		i, in := at/simPageSize, at%simPageSize
		part := p[done:min(len(p), done+int(simPageSize-in))]
		if i < int64(len(c.pages)) && c.pages[i] != nil {
			copy(part, c.pages[i].b[in:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return len(p)
}

// page returns page i for writing.
func (c *content) page(i int64) *simPage {
	for int64(len(c.pages)) <= i {
		c.pages = append(c.pages, nil)
		c.own = append(c.own, false)
	}
	if !c.own[i] {
		p := new(simPage)
		if old := c.pages[i]; old != nil {
			p.b = old.b
		}
		c.pages[i], c.own[i] = p, true
	}
	c.pages[i].sum.Store(0)
	return c.pages[i]
}

func (c *content) writeAt(p []byte, off int64) {
	for done := 0; done < len(p); {
		at := off + int64(done)
		done += copy(c.page(at / simPageSize).b[at%simPageSize:], p[done:])
	}
	c.size = max(c.size, off+int64(len(p)))
}

func (c *content) setSize(size int64) {
	if size < c.size {
		keep := (size + simPageSize - 1) / simPageSize
		if keep < int64(len(c.pages)) {
			c.pages, c.own = c.pages[:keep], c.own[:keep]
		}
		last := size / simPageSize
		if in := size % simPageSize; in != 0 && last < int64(len(c.pages)) && c.pages[last] != nil {
			clear(c.page(last).b[in:])
		}
	}
	c.size = size
}

// sumSeed makes sums comparable inside one process, which is all they are for.
var sumSeed = maphash.MakeSeed()

var zeroPageSum = pageSum(new(simPage))

func pageSum(p *simPage) uint64 {
	if sum := p.sum.Load(); sum != 0 {
		return sum
	}
	sum := maphash.Bytes(sumSeed, p.b[:])
	p.sum.Store(sum)
	return sum
}

// mix returns a sum of the pair, so that sums of pairs can be added up in any
// order.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	x := hi ^ lo ^ bits.RotateLeft64(a, 23) ^ bits.RotateLeft64(b, 41)
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// digest returns the sum of a frozen content: equal contents, however their
// pages came about, have equal sums.
func (c *content) digest() uint64 {
	if sum := c.sum.Load(); sum != 0 {
		return sum
	}
	sum := mix(uint64(c.size), 1)
	for i, p := range c.pages {
		if p == nil {
			continue
		}
		if s := pageSum(p); s != zeroPageSum {
			sum += mix(s, uint64(i)+2)
		}
	}
	c.sum.Store(sum)
	return sum
}
