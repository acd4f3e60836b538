package nox

// plainVisits is how many pairs of nodes are compared one by one before the nouns are
// compared by identity. It bounds what the comparison of two nouns costs that have
// been compared before.
const plainVisits = 4096

// Equal reports whether a and b are the same noun: atoms compare as integers. It takes
// time in the number of their distinct nodes at most, however often these are shared.
// Large nouns get their identities, so that comparing them again costs little.
func Equal(a, b Noun) bool {
	var c comparison
	return c.equal(a, b)
}

// comparison goes through two nouns side by side. It may be used again.
type comparison struct {
	todo [][2]*pair
	// same, unless nil, has a set for all pairs that must be equal if the comparison
	// is to succeed: a forest of links to their representative. Every node that is
	// looked into makes two sets one, so no more are looked into than there are nodes.
	same map[*pair]*pair
}

func (c *comparison) equal(a, b Noun) bool {
	if a.word != b.word {
		return false // other atoms, or pairs of other measures
	}
	if a.pair == b.pair {
		return true
	}
	if a.pair == nil || b.pair == nil {
		return false
	}
	equal, finished := c.run(a.pair, b.pair, plainVisits)
	if finished {
		return equal
	}
	if da, err := a.Identity(); err == nil {
		if db, err := b.Identity(); err == nil {
			return da == db
		}
	}
	c.same = map[*pair]*pair{}
	equal, _ = c.run(a.pair, b.pair, -1)
	c.same = nil
	return equal
}

// run compares a and b and gives up unfinished after the number of visits, unless
// that is negative.
func (c *comparison) run(a, b *pair, visits int) (equal, finished bool) {
	c.todo = append(c.todo[:0], [2]*pair{a, b})
	for len(c.todo) > 0 {
		if visits == 0 {
			return false, false
		}
		visits--
		next := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		a, b := next[0], next[1]
		if known, equal := compareKnown(a, b); known {
			if !equal {
				return false, true
			}
			continue
		}
		if c.same != nil && !c.join(a, b) {
			continue
		}
		if !c.push(a.tail, b.tail) || !c.push(a.head, b.head) {
			return false, true
		}
	}
	return true, true
}

// push notes that two nouns must be compared, or returns false if they cannot be equal.
func (c *comparison) push(a, b Noun) bool {
	if a.word != b.word || (a.pair == nil) != (b.pair == nil) {
		return false
	}
	if a.pair != b.pair {
		c.todo = append(c.todo, [2]*pair{a.pair, b.pair})
	}
	return true
}

// join makes the sets of a and b one, and returns false if they are already.
func (c *comparison) join(a, b *pair) bool {
	a, b = c.find(a), c.find(b)
	if a == b {
		return false
	}
	c.same[a] = b
	return true
}

// find returns the representative of p and shortens the way to it.
func (c *comparison) find(p *pair) *pair {
	for {
		up, ok := c.same[p]
		if !ok {
			return p
		}
		if top, ok := c.same[up]; ok {
			c.same[p] = top
		}
		p = up
	}
}

// compareKnown compares two pairs whose identities are both known.
func compareKnown(a, b *pair) (known, equal bool) {
	da, db := a.id.Load(), b.id.Load()
	if da == nil || db == nil {
		return false, false
	}
	return true, *da == *db
}
