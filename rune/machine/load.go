package machine

import (
	"errors"
	"fmt"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// Input is what a program is started with.
type Input struct {
	State nox.Noun // ~mem
	Event nox.Noun
	Here  *hemera.Digest // ~here, the particle of the context; nil for none
}

// Base is the subject of a program without its event: [self now here caps code libs
// mem world], of which this runtime fills here and mem.
func (in Input) Base() nox.Noun {
	base, here := nox.Atom(0), nox.Atom(0)
	if in.Here != nil {
		here = nox.FromDigest(*in.Here)
	}
	for _, slot := range []nox.Noun{in.State, {}, {}, {}, here, {}, {}} { // from mem to self
		base = nox.Pair(slot, base)
	}
	return base
}

// How deep things lie in the first checkpoint of a program.
const (
	depthOfState = 13
	depthOfEvent = 12
	depthOfBody  = 10
)

// Load starts a program with an input, and makes sure that the first checkpoint can
// be written. The error is a [*Fault] that says what is too large, or [ErrLimit].
func Load(p *rune.Program, in Input, limit uint64) (*Machine, error) {
	m, err := Start(in.Base(), p.Formula(in.Event), limit)
	if err != nil {
		return nil, err
	}
	m.Trace(p.Map)
	first := m.noun()
	switch {
	case first.Size() > MaxNodes:
		return nil, &Fault{Kind: NodeLimit, Reason: fmt.Sprintf(
			"state, event and program have %d nodes (%d, %d and %d); at most %d fit: pass particles of what is large",
			first.Size(), in.State.Size(), in.Event.Size(), p.Body().Size(), MaxNodes)}
	case first.Depth() <= MaxDepth:
		return m, nil
	case in.State.Depth() > MaxDepth-depthOfState:
		return nil, &Fault{Kind: DepthLimit, Reason: "the state: " + measure(in.State, MaxDepth-depthOfState)}
	case in.Event.Depth() > MaxDepth-depthOfEvent:
		return nil, &Fault{Kind: DepthLimit, Reason: "the event: " + measure(in.Event, MaxDepth-depthOfEvent)}
	}
	return nil, &Fault{Kind: DepthLimit, Reason: fmt.Sprintf(
		"the program: its formula is %d levels deep; %d fit: it has too many variables in one body, too long a chain of else if, or too long a string",
		p.Body().Depth(), MaxDepth-depthOfBody)}
}

// Fits reports with a [*Fault] of the kind [StateTooLarge] if a program that has this
// value for its state could not be started any more: a value is checked so before it
// becomes the state.
func Fits(p *rune.Program, value nox.Noun) error {
	_, err := Load(p, Input{State: value}, MaxSteps)
	if f := (*Fault)(nil); errors.As(err, &f) {
		return &Fault{Kind: StateTooLarge, Reason: f.Reason}
	}
	return err
}

// valueSteps is what an expression that stands for a noun may use.
const valueSteps = 10_000

// Eval gives the noun for which an expression stands, such as `[1, "text", 0x10]`. The
// error is a [*rune.Error], a [*Fault] or [ErrAct].
func Eval(expression []byte) (nox.Noun, error) {
	v, err := rune.CompileValue(expression)
	if err != nil {
		return nox.Noun{}, err
	}
	m, err := Start(nox.Atom(0), v.Formula(), valueSteps)
	if err != nil {
		return nox.Noun{}, err
	}
	m.Trace(v.Map)
	r, err := m.Run(valueSteps + 1)
	if err != nil {
		return nox.Noun{}, err
	}
	if r.Status != Done {
		return nox.Noun{}, ErrAct
	}
	return r.Value, nil
}
