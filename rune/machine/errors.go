package machine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// ErrFault is what every [Fault] wraps, beside its [Kind]: a program went wrong.
var ErrFault = errors.New("fault")

// Errors of callers, which leave the machine as it was.
var (
	// ErrWaiting is returned by a run of a machine that waits for a reply.
	ErrWaiting = errors.New("the machine waits for the reply to an act")
	// ErrNotWaiting is returned for a reply that the machine has not asked for.
	ErrNotWaiting = errors.New("the machine waits for no reply")
	// ErrLimit is returned for a step limit above [MaxSteps].
	ErrLimit = errors.New("step limit out of range")
	// ErrAct is returned for a value that asks its host for something, which only
	// programs may.
	ErrAct = errors.New("a value can't call its host")
)

// Kind is what went wrong in a program. It is an error that a [Fault] of its kind wraps,
// so that errors.Is(err, machine.Axis) works.
type Kind uint8

// The kinds of faults. Their texts are stored and never change.
const (
	Axis          Kind = iota + 1 // a part of a noun was asked for that is not there
	Type                          // a pair where an atom is needed
	Malformed                     // not a formula of the shape that its pattern needs
	Unsupported                   // a pattern that this machine does not have
	NonCanonical                  // the identity of a noun with an atom not below p
	FrameLimit                    // more than 256 frames
	ValueLimit                    // more than 256 values
	NodeLimit                     // a noun, or a state to be written, of more than 65,536 nodes
	DepthLimit                    // a noun, or a state to be written, deeper than 128
	StepLimit                     // all steps of the input are used
	BadCheckpoint                 // bytes that are no checkpoint
	StateTooLarge                 // a result that no program could be started with again
)

var kinds = [...]string{
	"", "axis", "type", "malformed formula", "unsupported pattern", "non-canonical",
	"frame limit", "value limit", "node limit", "depth limit", "step limit",
	"bad checkpoint", "state too large",
}

const _ = uint(len(kinds) - 1 - int(StateTooLarge))

func (k Kind) String() string { return kinds[k] }
func (k Kind) Error() string  { return kinds[k] }

// Fault is the end of a program that went wrong.
type Fault struct {
	Kind Kind
	// Reason says more in the terms of the source, for a person. It is not part of
	// what is stored.
	Reason string
	// Places are where in the source it happened, if the machine was given a
	// [rune.Map]. There are several if the state was decoded since and several
	// expressions are equal, and none if it is not known.
	Places []rune.Place

	source *rune.Map
}

// Text is what is stored of a fault: `runtime: ` and its kind.
func (f *Fault) Text() string { return "runtime: " + f.Kind.String() }

// Error is kind, place and reason: `type at 2:9: + takes atoms, but its left operand
// is the pair [1 2]`.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Kind.String())
	for i, p := range f.Places {
		if len(f.Places) > 3 {
			break // that would help nobody
		}
		b.WriteString([]string{" at ", " or "}[min(i, 1)])
		b.WriteString(p.Start.String())
	}
	if f.Reason != "" {
		b.WriteString(": ")
		b.WriteString(f.Reason)
	}
	return b.String()
}

// Unwrap is [ErrFault] and the kind.
func (f *Fault) Unwrap() []error { return []error{ErrFault, f.Kind} }

// Excerpt shows the place in the source with carets below it. It is empty if the place
// is not known for certain.
func (f *Fault) Excerpt() string {
	if len(f.Places) != 1 {
		return ""
	}
	return f.source.Excerpt(f.Places[0].Span)
}

// describe names a noun in messages, and shows it if it is small.
func describe(n nox.Noun) string {
	switch {
	case n.IsAtom():
		return fmt.Sprintf("the atom %d", n.Value())
	case n.Size() > 31:
		return fmt.Sprintf("a pair of %d nodes", n.Size())
	}
	return "the pair " + n.String()
}

// measure says how deep a noun is: of a list, how many members it has.
func measure(n nox.Noun, fit int) string {
	members, rest := uint64(0), n
	for !rest.IsAtom() {
		members++
		rest = rest.Tail()
	}
	if rest.Value() == 0 && members == n.Depth() {
		return fmt.Sprintf("this list has %d members; %d fit: pass a particle, or a balanced tree", members, fit)
	}
	return fmt.Sprintf("this noun is %d levels deep; %d fit: pass a particle, or a flatter tree", n.Depth(), fit)
}
