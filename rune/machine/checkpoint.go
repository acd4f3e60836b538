package machine

import (
	"errors"

	"github.com/writ-authority/writ/nox"
)

// version is the revision of the checkpoint's form.
const version = 1

// list makes [items… 0].
func list(items ...nox.Noun) nox.Noun {
	l := nox.Atom(0)
	for i := len(items) - 1; i >= 0; i-- {
		l = nox.Pair(items[i], l)
	}
	return l
}

// noun is the state as [1 used frames values waiting 0], stacks from the bottom.
func (m *Machine) noun() nox.Noun {
	frames := make([]nox.Noun, len(m.frames))
	for i, f := range m.frames {
		tag, op := nox.Atom(uint64(f.tag)), nox.Atom(uint64(f.op))
		switch f.tag {
		case frameEval:
			frames[i] = list(tag, f.subject, f.formula)
		case frameUnary, frameBinary:
			frames[i] = list(tag, op)
		case frameBranch:
			arms := f.formula.Tail().Tail()
			frames[i] = list(tag, f.subject, arms.Head(), arms.Tail())
		default: // frameRequest
			call := f.formula.Tail()
			frames[i] = list(tag, call.Head().Head(), f.subject, call.Tail())
		}
	}
	waiting := nox.Atom(0)
	if m.waiting {
		waiting = list(nox.Atom(m.tag), m.arguments, m.subject, m.then)
	}
	return list(nox.Atom(version), nox.Atom(m.used), list(frames...), list(m.values...), waiting)
}

// Checkpoint encodes the state, from which [Restore] makes a machine that goes on as
// this one would. The error is a [*Fault]: a state of more than [MaxNodes] nodes or
// deeper than [MaxDepth] can't be suspended, though it could be run to its end. That
// leaves the machine as it was.
func (m *Machine) Checkpoint() ([]byte, error) {
	if m.fault != nil {
		return nil, m.fault
	}
	state := m.noun()
	switch {
	case state.Size() > MaxNodes:
		return nil, m.unsuspendable(NodeLimit, "the state to be kept has %d nodes; at most %d fit: keep fewer or smaller variables, or pass particles", state.Size(), MaxNodes)
	case state.Depth() > MaxDepth:
		return nil, m.unsuspendable(DepthLimit, "the state to be kept is %d levels deep, with %d things left to do; at most %d levels fit: keep shorter lists, have less left to do after a loop or an act, or pass particles", state.Depth(), len(m.frames), MaxDepth)
	}
	return nox.Encode(state)
}

// Restore makes a machine of a checkpoint, which will go on within the limit of its
// input. The error is a [*Fault] of the kind [BadCheckpoint] for bytes that are not
// the checkpoint of a machine with that limit, or [ErrLimit].
func Restore(checkpoint []byte, limit uint64) (*Machine, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	state, err := nox.Decode(checkpoint)
	if err != nil {
		return nil, &Fault{Kind: BadCheckpoint, Reason: err.Error()}
	}
	m := &Machine{limit: limit}
	if err := m.read(state); err != nil {
		return nil, &Fault{Kind: BadCheckpoint, Reason: err.Error()}
	}
	m.restored = append([]frame(nil), m.frames...)
	return m, nil
}

// members are those of a proper list, of which at most most are expected.
func members(l nox.Noun, most int) ([]nox.Noun, bool) {
	var items []nox.Noun
	for !l.IsAtom() {
		if len(items) == most {
			return nil, false
		}
		items = append(items, l.Head())
		l = l.Tail()
	}
	return items, l.Value() == 0
}

// read fills a machine from the noun of its state, or says what is wrong with it.
func (m *Machine) read(state nox.Noun) error {
	parts, ok := members(state, 5)
	if !ok || len(parts) != 5 {
		return errors.New("a state is a list of version, used steps, frames, values and what it waits for")
	}
	if parts[0] != nox.Atom(version) {
		return errors.New("the version is not 1")
	}
	if !parts[1].IsAtom() || parts[1].Value() > m.limit {
		return errors.New("the used steps are not a number up to the limit")
	}
	m.used = parts[1].Value()
	frames, ok := members(parts[2], MaxFrames)
	if !ok {
		return errors.New("the frames are not a list of at most 256")
	}
	if m.values, ok = members(parts[3], MaxValues); !ok {
		return errors.New("the values are not a list of at most 256")
	}
	for _, one := range frames {
		f, ok := readFrame(one)
		if !ok {
			return errors.New("a frame has an unknown tag or operator, or not its number of operands")
		}
		m.frames = append(m.frames, f)
	}
	if parts[4] != nox.Atom(0) {
		waiting, ok := members(parts[4], 4)
		if !ok || len(waiting) != 4 || !waiting[0].IsAtom() {
			return errors.New("what it waits for is not a list of tag, arguments, subject and formula")
		}
		m.waiting, m.tag, m.arguments, m.subject, m.then = true, waiting[0].Value(), waiting[1], waiting[2], waiting[3]
	}
	if !m.ends() {
		return errors.New("frames and values would not end in one value")
	}
	return nil
}

func readFrame(n nox.Noun) (frame, bool) {
	parts, ok := members(n, 4)
	if !ok || len(parts) == 0 || !parts[0].IsAtom() {
		return frame{}, false
	}
	tag, parts := parts[0].Value(), parts[1:]
	switch {
	case tag == frameEval && len(parts) == 2:
		return frame{tag: frameEval, subject: parts[0], formula: parts[1]}, true
	case tag == frameUnary && len(parts) == 1 && parts[0].IsAtom() && isUnary(parts[0].Value()):
		return frame{tag: frameUnary, op: uint8(parts[0].Value())}, true
	case tag == frameBinary && len(parts) == 1 && parts[0].IsAtom() && isBinary(parts[0].Value()):
		return frame{tag: frameBinary, op: uint8(parts[0].Value())}, true
	case tag == frameBranch && len(parts) == 3:
		arms := nox.Pair(parts[1], parts[2])
		formula := nox.Pair(nox.Atom(nox.OpBranch), nox.Pair(nox.Atom(0), arms))
		return frame{tag: frameBranch, subject: parts[0], formula: formula}, true
	case tag == frameRequest && len(parts) == 3 && parts[0].IsAtom():
		call := nox.Pair(nox.Pair(parts[0], nox.Atom(0)), parts[2])
		return frame{tag: frameRequest, subject: parts[1], formula: nox.Pair(nox.Atom(nox.OpCall), call)}, true
	}
	return frame{}, false
}

// ends reports whether each frame would find the values that it needs, and one value
// would be left.
func (m *Machine) ends() bool {
	values := len(m.values)
	if m.waiting {
		values++
	}
	for i := len(m.frames) - 1; i >= 0; i-- {
		switch m.frames[i].tag {
		case frameEval:
			values++
		case frameBinary:
			if values < 2 {
				return false
			}
			values--
		default:
			if values < 1 {
				return false
			}
		}
	}
	return values == 1
}

// unsuspendable makes the fault of a state that can't be written.
func (m *Machine) unsuspendable(k Kind, format string, args ...any) *Fault {
	at := frame{}
	if n := len(m.frames); n > 0 {
		at = m.frames[n-1]
	}
	// The machine itself can go on.
	f := m.fail(k, at, format, args...)
	m.fault = nil
	return f
}
