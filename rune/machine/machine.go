package machine

import (
	"fmt"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// The bounds of the machine, revision 1.
const (
	MaxSteps  = 1_000_000 // charged for one input
	MaxFrames = 256
	MaxValues = 256
	MaxNodes  = 65536 // of a noun, and of a state that is written
	MaxDepth  = 128
)

// The tags of the frames, as checkpoints have them.
const (
	frameEval = iota
	frameUnary
	frameBinary
	frameBranch
	frameRequest
)

// frame is work that is left to do.
type frame struct {
	tag     uint8
	op      uint8    // of unary and binary frames
	subject nox.Noun // of eval, branch and request frames
	// formula is what eval evaluates, and for the others the formula that they come
	// from. Of a unary or binary frame that was decoded it is not known and 0; of a
	// branch or request frame that was decoded, its first part is 0.
	formula nox.Noun
}

// Machine is a computation. It must not be used by two goroutines at once.
type Machine struct {
	used, limit uint64
	frames      []frame
	values      []nox.Noun
	waiting     bool
	tag         uint64   // of the act that it waits for
	arguments   nox.Noun // of it
	subject     nox.Noun // with which the reply goes on
	then        nox.Noun
	fault       *Fault
	compared    []nox.Noun // room for comparisons

	source   *rune.Map
	restored []frame // the frames as they were decoded, to find places with
}

// Status tells how a run has ended.
type Status uint8

const (
	// Done is a program that has ended with a value.
	Done Status = iota + 1
	// Yielded is one whose slice is over.
	Yielded
	// Act is one that asks its host for something and waits for the reply.
	Act
	// Event is one that waits for an event, which no host of revision 1 supports. It
	// can be resumed like an act.
	Event
)

var statuses = [...]string{"", "done", "yield", "act", "event"}

func (s Status) String() string { return statuses[s] }

// Result is how a run has ended.
type Result struct {
	Status    Status
	Value     nox.Noun // of Done
	Tag       uint64   // of Act and Event
	Arguments nox.Noun // of Act and Event
}

// Start makes a machine that will reduce a formula against a subject within limit
// steps. The error is [ErrLimit].
func Start(subject, formula nox.Noun, limit uint64) (*Machine, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return &Machine{limit: limit, frames: []frame{{tag: frameEval, subject: subject, formula: formula}}}, nil
}

func checkLimit(limit uint64) error {
	if limit > MaxSteps {
		return fmt.Errorf("%w: %d, where at most %d are allowed", ErrLimit, limit, uint64(MaxSteps))
	}
	return nil
}

// Trace has faults tell their places in a source, from which the formula was compiled.
func (m *Machine) Trace(source *rune.Map) { m.source = source }

// Used is the number of steps charged since the start of the input.
func (m *Machine) Used() uint64 { return m.used }

// Limit is the number of steps that the input may use.
func (m *Machine) Limit() uint64 { return m.limit }

// Frames is how much work is stacked up.
func (m *Machine) Frames() int { return len(m.frames) }

// Values is how many intermediate values are kept.
func (m *Machine) Values() int { return len(m.values) }

// Waiting gives tag and arguments of the act whose reply the machine waits for.
func (m *Machine) Waiting() (tag uint64, arguments nox.Noun, ok bool) {
	return m.tag, m.arguments, m.waiting
}

// Run makes up to slice steps. A computation that ends exactly with its slice is done,
// not yielded. The error is a [*Fault], which ends the machine, or [ErrWaiting].
func (m *Machine) Run(slice uint64) (Result, error) {
	if m.fault != nil {
		return Result{}, m.fault
	}
	if m.waiting {
		return Result{}, ErrWaiting
	}
	for end := m.used + min(slice, MaxSteps+1); ; {
		if len(m.frames) == 0 {
			return Result{Status: Done, Value: m.values[0]}, nil
		}
		if m.used == end {
			return Result{Status: Yielded}, nil
		}
		if m.used == m.limit {
			return Result{}, m.fail(StepLimit, frame{}, "the input has no steps left")
		}
		m.used++
		if f := m.step(); f != nil {
			return Result{}, f
		}
		if m.waiting {
			status := Event
			if m.tag >= rune.TagEmit && m.tag <= rune.TagHost {
				status = Act
			}
			return Result{Status: status, Tag: m.tag, Arguments: m.arguments}, nil
		}
	}
}

// Resume gives the reply to the act that the machine waits for; the next run goes on
// with it. The error is a [*Fault], which ends the machine, if the reply is too large,
// or [ErrNotWaiting].
func (m *Machine) Resume(reply nox.Noun) error {
	if m.fault != nil {
		return m.fault
	}
	if !m.waiting {
		return ErrNotWaiting
	}
	subject := nox.Pair(reply, m.subject)
	next := frame{tag: frameEval, subject: subject, formula: m.then}
	if f := m.checkSize(subject, next); f != nil {
		if depth := MaxDepth - 1; f.Kind == DepthLimit && reply.Depth() > uint64(depth) {
			f.Reason = "the reply: " + measure(reply, depth)
		}
		return f
	}
	m.waiting, m.tag, m.arguments, m.subject, m.then = false, 0, nox.Noun{}, nox.Noun{}, nox.Noun{}
	m.frames = append(m.frames, next)
	return nil
}

// fail ends the machine.
func (m *Machine) fail(k Kind, at frame, format string, args ...any) *Fault {
	m.fault = &Fault{Kind: k, Reason: fmt.Sprintf(format, args...), Places: m.places(at), source: m.source}
	return m.fault
}

// checkSize refuses a noun that is too large to be computed with.
func (m *Machine) checkSize(n nox.Noun, at frame) *Fault {
	if n.Size() <= MaxNodes && n.Depth() <= MaxDepth {
		return nil
	}
	if n.Size() > MaxNodes {
		return m.fail(NodeLimit, at, "a noun of %d nodes was made; at most %d fit", n.Size(), MaxNodes)
	}
	return m.fail(DepthLimit, at, "%s", measure(n, MaxDepth))
}
