package machine

import (
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// places finds where in the source a frame comes from.
//
// As long as the machine was not decoded, the frame has the very formula that was
// compiled. Afterwards formulas are compared: that of an eval frame with all of them,
// another frame with those that have its operator and its operands, as far as it still
// has them.
func (m *Machine) places(f frame) []rune.Place {
	if m.source == nil || f == (frame{}) {
		return nil
	}
	if p, ok := m.source.Place(f.formula); ok {
		return []rune.Place{p}
	}
	if f.tag == frameEval {
		return m.source.Match(func(g nox.Noun) bool { return nox.Equal(g, f.formula) })
	}
	right, known := m.right(f)
	return m.source.Match(func(g nox.Noun) bool {
		op, body := g.Head().Value(), g.Tail()
		if f.tag == frameBranch {
			return op == nox.OpBranch && nox.Equal(body.Tail(), f.formula.Tail().Tail())
		}
		return op == uint64(f.op) && (!known || nox.Equal(body.Tail(), right))
	})
}

// right is the second operand of a frame that has just been popped, if the frame was
// decoded when its first operand was still being evaluated: then the second one lay
// between. What lies on top of all need not be an operand any more.
func (m *Machine) right(f frame) (nox.Noun, bool) {
	i := len(m.frames)
	if f.tag != frameBinary || i+2 >= len(m.restored) || m.restored[i] != f || m.restored[i+1].tag != frameEval {
		return nox.Noun{}, false
	}
	return m.restored[i+1].formula, true
}

// name is what the source calls the operation of a frame, if that is known.
func (m *Machine) name(f frame, otherwise string) string {
	places := m.places(f)
	for _, p := range places {
		if p.What != places[0].What {
			return otherwise
		}
	}
	if len(places) == 0 {
		return otherwise
	}
	return places[0].What
}
