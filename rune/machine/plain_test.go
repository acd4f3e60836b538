package machine_test

import (
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// plain is the machine's rules once more, as simply as they can be written: it
// recurses, cannot stop, and looks at whole nouns.
type plain struct {
	used, limit uint64
	frames      int
	replies     []nox.Noun
	acts        []nox.Noun // [tag arguments] of those that were asked for
}

// stop ends a plain evaluation; it is what plain panics with.
type stop struct {
	kind  machine.Kind // or 0
	event bool         // or it waits for an event, or for a reply that is not there
}

// run gives the value, or how the evaluation stopped.
func (p *plain) run(subject, formula nox.Noun) (value nox.Noun, end stop) {
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stop)
			if !ok {
				panic(r)
			}
			end = s
		}
	}()
	p.frames = 1
	return p.eval(subject, formula), stop{}
}

func fault(k machine.Kind) { panic(stop{kind: k}) }

// pop charges for a frame.
func (p *plain) pop() {
	if p.used == p.limit {
		fault(machine.StepLimit)
	}
	p.used++
	p.frames--
}

func (p *plain) expand(n int) {
	p.frames += n
	if p.frames > 256 {
		fault(machine.FrameLimit)
	}
}

// measure counts nodes and levels without what nouns know of themselves.
func measure(n nox.Noun, memo map[nox.Noun][2]int) [2]int {
	if n.IsAtom() {
		return [2]int{1, 0}
	}
	if m, ok := memo[n]; ok {
		return m
	}
	a, b := measure(n.Head(), memo), measure(n.Tail(), memo)
	m := [2]int{1 + a[0] + b[0], 1 + max(a[1], b[1])}
	memo[n] = m
	return m
}

func (p *plain) checked(n nox.Noun) nox.Noun {
	m := measure(n, map[nox.Noun][2]int{})
	if m[0] > 65536 {
		fault(machine.NodeLimit)
	}
	if m[1] > 128 {
		fault(machine.DepthLimit)
	}
	return n
}

func word(n nox.Noun) uint64 {
	if !n.IsAtom() {
		fault(machine.Type)
	}
	return n.Value()
}

// split takes a pair apart that a formula must have.
func split(n nox.Noun) (nox.Noun, nox.Noun) {
	if n.IsAtom() {
		fault(machine.Malformed)
	}
	return n.Head(), n.Tail()
}

func part(n nox.Noun, axis uint64) nox.Noun {
	if axis == 1 {
		return n
	}
	up := part(n, axis/2)
	if up.IsAtom() {
		fault(machine.Axis)
	}
	if axis%2 == 0 {
		return up.Head()
	}
	return up.Tail()
}

func (p *plain) eval(s, f nox.Noun) nox.Noun {
	p.pop()
	head, body := split(f)
	if !head.IsAtom() {
		fault(machine.Malformed)
	}
	switch op := head.Value(); op {
	case 0:
		if !body.IsAtom() {
			fault(machine.Malformed)
		}
		if body.Value() == 0 {
			v, err := nox.Particle(s)
			if err != nil {
				fault(machine.NonCanonical)
			}
			return p.checked(v)
		}
		return p.checked(part(s, body.Value()))
	case 1:
		return p.checked(body)
	case 8, 13, 15:
		p.expand(2)
		x := p.eval(s, body)
		p.pop()
		switch op {
		case 8:
			return nox.Atom(nox.Inverse(word(x)))
		case 13:
			return nox.Atom(^word(x))
		}
		v, err := nox.Hash(x)
		if err != nil {
			fault(machine.NonCanonical)
		}
		return v
	case 4:
		t, arms := split(body)
		yes, no := split(arms)
		p.expand(2)
		way := p.eval(s, t)
		p.pop()
		if word(way) != 0 {
			yes = no
		}
		p.frames++
		return p.eval(s, yes)
	case 16:
		request, then := split(body)
		tag, arguments := split(request)
		if !tag.IsAtom() {
			fault(machine.Malformed)
		}
		p.expand(2)
		a := p.eval(s, arguments)
		p.pop()
		p.acts = append(p.acts, nox.Pair(tag, a))
		if tag.Value() < rune.TagEmit || tag.Value() > rune.TagHost || len(p.replies) == 0 {
			panic(stop{event: true})
		}
		reply := p.replies[0]
		p.replies = p.replies[1:]
		p.frames++
		return p.eval(p.checked(nox.Pair(reply, s)), then)
	case 2, 3, 5, 6, 7, 9, 10, 11, 12, 14:
		left, right := split(body)
		p.expand(3)
		x := p.eval(s, left)
		y := p.eval(s, right)
		p.pop()
		switch op {
		case 2:
			p.frames++
			return p.eval(x, y)
		case 3:
			return p.checked(nox.Pair(x, y))
		case 9:
			return yes(x.String() == y.String())
		}
		if !x.IsAtom() || !y.IsAtom() {
			fault(machine.Type)
		}
		a, b := x.Value(), y.Value()
		switch op {
		case 5:
			return nox.Atom(nox.Add(a, b))
		case 6:
			return nox.Atom(nox.Sub(a, b))
		case 7:
			return nox.Atom(nox.Mul(a, b))
		case 10:
			return yes(a < b)
		case 11:
			return nox.Atom(a ^ b)
		case 12:
			return nox.Atom(a & b)
		default:
			for range min(b, 64) {
				a *= 2
			}
			return nox.Atom(a)
		}
	}
	fault(machine.Unsupported)
	return nox.Noun{}
}

func yes(b bool) nox.Noun {
	if b {
		return nox.Atom(0)
	}
	return nox.Atom(1)
}
