package machine

import (
	"github.com/writ-authority/writ/nox"
)

var opNames = [...]string{
	"axis", "quote", "compose", "cons", "branch", "add", "subtract", "multiply", "inverse",
	"equal", "less", "xor", "and", "not", "shl", "hash", "call",
}

const _ = uint(len(opNames) - 1 - nox.OpCall)

func isUnary(op uint64) bool { return op == nox.OpInverse || op == nox.OpNot || op == nox.OpHash }

func isBinary(op uint64) bool {
	return op >= nox.OpCompose && op <= nox.OpShift && op != nox.OpBranch && !isUnary(op)
}

// step pops the top frame and does its work.
func (m *Machine) step() *Fault {
	top := len(m.frames) - 1
	f := m.frames[top]
	m.frames = m.frames[:top]
	switch f.tag {
	case frameEval:
		return m.eval(f)
	case frameBinary:
		return m.binary(f)
	case frameUnary:
		return m.unary(f)
	case frameBranch:
		t := m.pop()
		if !t.IsAtom() {
			return m.fail(Type, f, "%s needs an atom to decide by, but got %s", m.name(f, "a branch"), describe(t))
		}
		arms := f.formula.Tail().Tail()
		if t.Value() == 0 {
			f.formula = arms.Head()
		} else {
			f.formula = arms.Tail()
		}
		f.tag = frameEval
		m.frames = append(m.frames, f)
		return nil
	default: // frameRequest
		m.arguments = m.pop()
		m.tag = f.formula.Tail().Head().Head().Value()
		m.subject = f.subject
		m.then = f.formula.Tail().Tail()
		m.waiting = true
		return nil
	}
}

func (m *Machine) pop() nox.Noun {
	top := len(m.values) - 1
	v := m.values[top]
	m.values = m.values[:top]
	return v
}

func (m *Machine) push(v nox.Noun, at frame) *Fault {
	if f := m.checkSize(v, at); f != nil {
		return f
	}
	m.values = append(m.values, v)
	if len(m.values) > MaxValues {
		return m.fail(ValueLimit, at, "more than %d intermediate values are kept", MaxValues)
	}
	return nil
}

// expand pushes frames, of which the last one is done first.
func (m *Machine) expand(at frame, frames ...frame) *Fault {
	m.frames = append(m.frames, frames...)
	if len(m.frames) > MaxFrames {
		return m.fail(FrameLimit, at, "more than %d things are left to do at once: what comes after a `continue` must be finished in each turn, so let it stand last", MaxFrames)
	}
	return nil
}

// eval looks at a formula and evaluates it, or pushes the work that it consists of.
func (m *Machine) eval(f frame) *Fault {
	if f.formula.IsAtom() {
		return m.fail(Malformed, f, "%s is no formula", describe(f.formula))
	}
	head, body := f.formula.Head(), f.formula.Tail()
	if !head.IsAtom() {
		return m.fail(Malformed, f, "a formula begins with an atom, not with %s", describe(head))
	}
	s := f.subject
	switch op := head.Value(); op {
	case nox.OpAxis:
		if !body.IsAtom() {
			return m.malformed(f)
		}
		if body.Value() == 0 {
			v, err := nox.Particle(s)
			if err != nil {
				return m.fail(NonCanonical, f, "an atom in %s is not below p, so it has no particle", describe(s))
			}
			return m.push(v, f)
		}
		v, ok := s.Axis(body.Value())
		if !ok {
			return m.fail(Axis, f, "%s needs a part that is not there: axis %d of %s", m.name(f, "it"), body.Value(), describe(s))
		}
		return m.push(v, f)
	case nox.OpQuote:
		return m.push(body, f)
	case nox.OpCompose, nox.OpCons, nox.OpAdd, nox.OpSub, nox.OpMul, nox.OpEqual, nox.OpLess, nox.OpXor, nox.OpAnd, nox.OpShift:
		if body.IsAtom() {
			return m.malformed(f)
		}
		return m.expand(f,
			frame{tag: frameBinary, op: uint8(op), formula: f.formula},
			frame{tag: frameEval, subject: s, formula: body.Tail()},
			frame{tag: frameEval, subject: s, formula: body.Head()})
	case nox.OpInverse, nox.OpNot, nox.OpHash:
		return m.expand(f,
			frame{tag: frameUnary, op: uint8(op), formula: f.formula},
			frame{tag: frameEval, subject: s, formula: body})
	case nox.OpBranch:
		if body.IsAtom() || body.Tail().IsAtom() {
			return m.malformed(f)
		}
		return m.expand(f,
			frame{tag: frameBranch, subject: s, formula: f.formula},
			frame{tag: frameEval, subject: s, formula: body.Head()})
	case nox.OpCall:
		if body.IsAtom() || body.Head().IsAtom() || !body.Head().Head().IsAtom() {
			return m.malformed(f)
		}
		return m.expand(f,
			frame{tag: frameRequest, subject: s, formula: f.formula},
			frame{tag: frameEval, subject: s, formula: body.Head().Tail()})
	default:
		return m.fail(Unsupported, f, "there is no pattern %d", op)
	}
}

func (m *Machine) malformed(f frame) *Fault {
	return m.fail(Malformed, f, "%s has no body that the pattern %s can use", describe(f.formula), opNames[f.formula.Head().Value()])
}

func (m *Machine) unary(f frame) *Fault {
	x := m.pop()
	if f.op == nox.OpHash {
		v, err := nox.Hash(x)
		if err != nil {
			return m.fail(NonCanonical, f, "an atom in %s is not below p, so it can't be hashed", describe(x))
		}
		return m.push(v, f)
	}
	if !x.IsAtom() {
		return m.fail(Type, f, "%s takes an atom, but got %s", m.name(f, opNames[f.op]), describe(x))
	}
	if f.op == nox.OpInverse {
		return m.push(nox.Atom(nox.Inverse(x.Value())), f)
	}
	return m.push(nox.Atom(^x.Value()), f)
}

func (m *Machine) binary(f frame) *Fault {
	y := m.pop()
	x := m.pop()
	switch f.op {
	case nox.OpCompose:
		m.frames = append(m.frames, frame{tag: frameEval, subject: x, formula: y})
		return nil
	case nox.OpCons:
		return m.push(nox.Pair(x, y), f)
	case nox.OpEqual:
		return m.push(truth(m.equal(x, y)), f)
	}
	if !x.IsAtom() || !y.IsAtom() {
		wrong, side := x, "first"
		if x.IsAtom() {
			wrong, side = y, "second"
		}
		return m.fail(Type, f, "%s takes atoms, but got %s for the %s", m.name(f, opNames[f.op]), describe(wrong), side)
	}
	a, b := x.Value(), y.Value()
	var v nox.Noun
	switch f.op {
	case nox.OpAdd:
		v = nox.Atom(nox.Add(a, b))
	case nox.OpSub:
		v = nox.Atom(nox.Sub(a, b))
	case nox.OpMul:
		v = nox.Atom(nox.Mul(a, b))
	case nox.OpLess:
		v = truth(a < b)
	case nox.OpXor:
		v = nox.Atom(a ^ b)
	case nox.OpAnd:
		v = nox.Atom(a & b)
	default: // nox.OpShift; a shift by 64 or more gives 0
		v = nox.Atom(a << b)
	}
	return m.push(v, f)
}

// truth is the atom that stands for yes or no.
func truth(yes bool) nox.Noun {
	if yes {
		return nox.Atom(0)
	}
	return nox.Atom(1)
}

// equal compares nouns of at most [MaxNodes] nodes. It does not look into parts that
// they share, and asks for no identities: those would cost far more than one look at
// each node.
func (m *Machine) equal(x, y nox.Noun) bool {
	todo := m.compared[:0]
	defer func() { m.compared = todo[:0] }()
	for {
		for x != y {
			if x.IsAtom() || y.IsAtom() || x.Size() != y.Size() || x.Depth() != y.Depth() {
				return false
			}
			todo = append(todo, x.Tail(), y.Tail())
			x, y = x.Head(), y.Head()
		}
		if len(todo) == 0 {
			return true
		}
		x, y = todo[len(todo)-2], todo[len(todo)-1]
		todo = todo[:len(todo)-2]
	}
}
