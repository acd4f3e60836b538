package nox

import (
	"context"
	"fmt"
	"math"
)

// Options are the terms of a reduction.
type Options struct {
	// Budget is the cost that may be spent. It bounds memory and time, too: a unit
	// adds at most 512 bytes to what is in use, and a unit takes as long as
	// comparing some thousand nodes or hashing a few.
	Budget uint64
}

// checkEvery is how much is spent before the context is looked at again.
const checkEvery = 1 << 14

// frame is a formula that waits for an operand, which is being reduced.
type frame struct {
	formula Noun
	saved   Noun // the subject while the first operand is reduced, then its value
	waits   waits
}

// waits says what a frame waits for.
type waits uint8

const (
	forFirst  waits = iota // the first of two operands
	forSecond              // the second one
	forOnly                // the only operand
	forTest                // the test of a branch
)

// reduction is the state of one call of [Reduce].
type reduction struct {
	stack      []frame
	left       uint64 // of the budget
	comparison comparison
}

// Reduce evaluates a formula against an object and returns the result and what it
// cost. All atoms must be below [P], or the error wraps [ErrNonCanonical]; every other
// refusal is a [Fault]. The patterns call and look are refused, as nobody provides
// them with witnesses or state. When ctx is done, the reduction is given up with its
// cause.
//
// The cost of a pattern is taken when its turn comes and before its operands are
// reduced, the left one first; their types are looked at when all of them are
// there. Beside an error the cost is what was spent until then.
func Reduce(ctx context.Context, object, formula Noun, o Options) (Noun, uint64, error) {
	if !object.IsCanonical() {
		return Noun{}, 0, fmt.Errorf("%w: in the object %s", ErrNonCanonical, brief(object))
	}
	if !formula.IsCanonical() {
		return Noun{}, 0, fmt.Errorf("%w: in the formula %s", ErrNonCanonical, brief(formula))
	}
	r := reduction{left: o.Budget}
	value, err := r.run(ctx, object, formula)
	return value, o.Budget - r.left, err
}

// run reduces formula against subject until that gives a value, and hands values to
// the frames that wait until one of them has another formula to reduce.
func (r *reduction) run(ctx context.Context, subject, formula Noun) (Noun, error) {
	check := uint64(math.MaxUint64) // at once
next:
	for {
		if r.left <= check {
			if ctx.Err() != nil {
				return Noun{}, context.Cause(ctx)
			}
			check = max(r.left, checkEvery) - checkEvery
		}
		if formula.pair == nil {
			return Noun{}, &Fault{ErrMalformed, formula, "an atom is no formula"}
		}
		op, body := formula.pair.head, formula.pair.tail
		if op.pair != nil {
			return Noun{}, &Fault{ErrMalformed, formula, "its operator is a pair"}
		}
		if op.word >= patternCount {
			return Noun{}, &Fault{ErrPattern, formula, fmt.Sprintf("operator %d; expected one from 0 to %d", op.word, patternCount-1)}
		}
		cost := patterns[op.word].cost
		if cost > r.left {
			return Noun{}, &Fault{ErrHalt, formula, fmt.Sprintf("the pattern %s costs %d and %d is left", patterns[op.word].name, cost, r.left)}
		}
		r.left -= cost

		var value Noun
		switch op.word {
		case OpQuote:
			value = body
		case OpAxis:
			var err error
			if value, err = axis(subject, body, formula); err != nil {
				return Noun{}, err
			}
		case OpInverse, OpNot, OpHash:
			r.stack = append(r.stack, frame{formula, subject, forOnly})
			formula = body
			continue
		case OpBranch:
			if body.pair == nil || body.pair.tail.pair == nil {
				return Noun{}, &Fault{ErrMalformed, formula, "a branch has a test and two formulas"}
			}
			r.stack = append(r.stack, frame{formula, subject, forTest})
			formula = body.pair.head
			continue
		case OpCall, OpLook:
			return Noun{}, &Fault{ErrProvider, formula, fmt.Sprintf("the pattern %s needs one", patterns[op.word].name)}
		default:
			if body.pair == nil {
				return Noun{}, &Fault{ErrMalformed, formula, fmt.Sprintf("the pattern %s has two operands", patterns[op.word].name)}
			}
			r.stack = append(r.stack, frame{formula, subject, forFirst})
			formula = body.pair.head
			continue
		}

		for len(r.stack) > 0 {
			f := &r.stack[len(r.stack)-1]
			op, body := f.formula.pair.head.word, f.formula.pair.tail
			var err error
			switch f.waits {
			case forFirst:
				subject, formula = f.saved, body.pair.tail
				f.saved, f.waits = value, forSecond
				continue next
			case forSecond:
				r.stack = r.stack[:len(r.stack)-1]
				if op == OpCompose {
					subject, formula = f.saved, value
					continue next
				}
				value, err = r.binary(op, f.saved, value, f.formula)
			case forOnly:
				r.stack = r.stack[:len(r.stack)-1]
				value, err = unary(op, value, f.formula)
			case forTest:
				r.stack = r.stack[:len(r.stack)-1]
				if value.pair != nil {
					return Noun{}, typeFault(f.formula, "test", value, "an atom")
				}
				subject, formula = f.saved, body.pair.tail.pair.tail
				if value.word == 0 {
					formula = body.pair.tail.pair.head
				}
				continue next
			}
			if err != nil {
				return Noun{}, err
			}
		}
		return value, nil
	}
}

// axis is the value of the pattern axis.
func axis(subject, body, formula Noun) (Noun, error) {
	if body.pair != nil {
		return Noun{}, &Fault{ErrMalformed, formula, "an axis is an atom"}
	}
	if body.word == 0 {
		particle, err := Particle(subject)
		if err != nil {
			return Noun{}, &Fault{err, formula, "the subject has no identity"}
		}
		return particle, nil
	}
	value, ok := subject.Axis(body.word)
	if !ok {
		return Noun{}, &Fault{ErrAxis, formula, fmt.Sprintf("axis %d leads into an atom of the subject %s", body.word, brief(subject))}
	}
	return value, nil
}

// binary is the value of a pattern with two operands, compose excepted.
func (r *reduction) binary(op uint64, x, y, formula Noun) (Noun, error) {
	switch op {
	case OpCons:
		return Pair(x, y), nil
	case OpEqual:
		return truth(r.comparison.equal(x, y)), nil
	}
	if x.pair != nil {
		return Noun{}, typeFault(formula, "first operand", x, "an atom")
	}
	if y.pair != nil {
		return Noun{}, typeFault(formula, "second operand", y, "an atom")
	}
	switch op {
	case OpAdd:
		return Atom(Add(x.word, y.word)), nil
	case OpSub:
		return Atom(Sub(x.word, y.word)), nil
	case OpMul:
		return Atom(Mul(x.word, y.word)), nil
	case OpLess:
		return truth(x.word < y.word), nil
	}
	if x.word > math.MaxUint32 {
		return Noun{}, typeFault(formula, "first operand", x, "a 32-bit word")
	}
	if y.word > math.MaxUint32 {
		return Noun{}, typeFault(formula, "second operand", y, "a 32-bit word")
	}
	switch op {
	case OpXor:
		return Atom(x.word ^ y.word), nil
	case OpAnd:
		return Atom(x.word & y.word), nil
	default: // OpShift
		return Atom(uint64(uint32(x.word) << y.word)), nil
	}
}

// unary is the value of a pattern with one operand.
func unary(op uint64, x, formula Noun) (Noun, error) {
	if op == OpHash {
		value, err := Hash(x)
		if err != nil {
			return Noun{}, &Fault{err, formula, "the operand has no identity"}
		}
		return value, nil
	}
	if x.pair != nil {
		return Noun{}, typeFault(formula, "operand", x, "an atom")
	}
	if op == OpInverse {
		if x.word == 0 {
			return Noun{}, &Fault{ErrInverse, formula, "the operand is 0"}
		}
		return Atom(Inverse(x.word)), nil
	}
	if x.word > math.MaxUint32 {
		return Noun{}, typeFault(formula, "operand", x, "a 32-bit word")
	}
	return Atom(x.word ^ math.MaxUint32), nil // OpNot
}

// truth is 0 for yes.
func truth(yes bool) Noun {
	if yes {
		return Atom(0)
	}
	return Atom(1)
}

func typeFault(formula Noun, what string, n Noun, expected string) error {
	return &Fault{ErrType, formula, fmt.Sprintf("the %s is %s; expected %s", what, brief(n), expected)}
}
