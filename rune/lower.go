package rune

import (
	"math/bits"
	"slices"

	"github.com/writ-authority/writ/nox"
)

// The bounds of lowering.
const (
	// MaxLowering is how deep expressions may lie in one another. The implied binding
	// of the event is at 0; parentheses and blocks add nothing.
	MaxLowering = 128
	// MaxDistance is how far out a variable or loop may be: its axis must be below 2^64.
	MaxDistance = 61
)

// The tags of acts, as they stand in formulas and suspensions.
const (
	TagEmit      = 0xAC75000000000001
	TagQuery     = 0xAC75000000000002
	TagLink      = 0xAC75000000000003
	TagSeal      = 0xAC75000000000004
	TagSubscribe = 0xAC75000000000005
	TagHost      = 0xAC75000000000006
)

// function is what a name before ( means.
type function struct {
	name      string
	arguments int
	op        uint64 // nox.OpAxis: the part of the first argument that shape gives
	tag       uint64 // of nox.OpCall
	part      func(literal uint64) (axis uint64, refusal string)
}

var functions = []function{
	{name: "emit", arguments: 1, op: nox.OpCall, tag: TagEmit},
	{name: "query", arguments: 1, op: nox.OpCall, tag: TagQuery},
	{name: "link", arguments: 1, op: nox.OpCall, tag: TagLink},
	{name: "seal", arguments: 1, op: nox.OpCall, tag: TagSeal},
	{name: "subscribe", arguments: 1, op: nox.OpCall, tag: TagSubscribe},
	{name: "host", arguments: 1, op: nox.OpCall, tag: TagHost},
	{name: "hash", arguments: 1, op: nox.OpHash},
	{name: "inv", arguments: 1, op: nox.OpInverse},
	{name: "not", arguments: 1, op: nox.OpNot},
	{name: "xor", arguments: 2, op: nox.OpXor},
	{name: "and", arguments: 2, op: nox.OpAnd},
	{name: "shl", arguments: 2, op: nox.OpShift},
	{name: "head", arguments: 1, op: nox.OpAxis, part: func(uint64) (uint64, string) { return 2, "" }},
	{name: "tail", arguments: 1, op: nox.OpAxis, part: func(uint64) (uint64, string) { return 3, "" }},
	{name: "axis", arguments: 2, op: nox.OpAxis, part: func(n uint64) (uint64, string) {
		if n == 0 {
			return 0, "an axis is at least 1, which is the whole noun"
		}
		return n, ""
	}},
	{name: "nth", arguments: 2, op: nox.OpAxis, part: func(n uint64) (uint64, string) {
		if n > 61 {
			return 0, "nth reaches members 0 to 61 only"
		}
		return thing(int(n)), ""
	}},
}

// ActName is how the source calls an act: host for [TagHost]; "" for a tag that is none.
func ActName(tag uint64) string {
	for _, f := range functions {
		if f.op == nox.OpCall && f.tag == tag {
			return f.name
		}
	}
	return ""
}

// thing is the axis of the thing at a distance on the subject, or of the member of a
// list with that index.
func thing(distance int) uint64 { return 1<<(distance+2) - 2 }

// after is the axis of what lies beyond that thing.
func after(distance int) uint64 { return 1<<(distance+2) - 1 }

// lowerer makes the formulas of one source.
type lowerer struct {
	m      *Map
	tokens []token
	scope  []string // the names of the things on the subject, innermost last; "" is a loop
}

func (l *lowerer) refuse(n *node, format string, args ...any) error {
	return l.m.text.refuse(l.tokens[n.first].start, l.tokens[n.last].end, format, args...)
}

// formula makes one and notes what it stands for.
func (l *lowerer) formula(at Place, op uint64, body nox.Noun) nox.Noun {
	f := nox.Pair(nox.Atom(op), body)
	l.m.add(f, at)
	return f
}

func (l *lowerer) axis(at Place, axis uint64) nox.Noun {
	return l.formula(at, nox.OpAxis, nox.Atom(axis))
}

func (l *lowerer) quote(at Place, v nox.Noun) nox.Noun { return l.formula(at, nox.OpQuote, v) }

func (l *lowerer) two(at Place, op uint64, a, b nox.Noun) nox.Noun {
	return l.formula(at, op, nox.Pair(a, b))
}

// place is where a node stands; what names it in messages.
func (l *lowerer) place(n *node, what string) Place {
	return Place{Span: l.m.text.span(l.tokens[n.first].start, l.tokens[n.last].end), What: what}
}

// distance finds the innermost thing of a name.
func (l *lowerer) distance(name string) (int, bool) {
	for i, one := range slices.Backward(l.scope) {
		if one == name {
			return len(l.scope) - 1 - i, true
		}
	}
	return 0, false
}

// variable finds a variable that n uses or changes.
func (l *lowerer) variable(n *node) (int, error) {
	d, ok := l.distance(n.name)
	if !ok {
		if isFunction(n.name) {
			return 0, l.refuse(n, "%s is a function and needs its arguments in ( )", n.name)
		}
		return 0, l.refuse(n, "unknown name %s%s", n.name, suggestion(n.name, l.scope))
	}
	if d > MaxDistance {
		return 0, l.refuse(n, "%s lies behind %d other variables and loops; at most %d can be looked past", n.name, d, MaxDistance)
	}
	return d, nil
}

func isFunction(name string) bool {
	return slices.ContainsFunc(functions, func(f function) bool { return f.name == name })
}

// lowerBody lowers bindings from the inside out.
func (l *lowerer) lowerBody(b *body, depth int) (nox.Noun, error) {
	outer := len(l.scope)
	defer func() { l.scope = l.scope[:outer] }()
	made := make([]nox.Noun, len(b.bindings))
	places := make([]Place, len(b.bindings))
	for i, one := range b.bindings {
		as := &node{first: one.nameAt, last: one.nameAt, name: one.name}
		whole := &node{first: one.first, last: one.last}
		places[i] = l.place(whole, l.tokens[one.first].kind.String()+" "+one.name)
		if depth+i > MaxLowering {
			return nox.Noun{}, l.tooDeep(whole)
		}
		value, err := l.lower(one.value, depth+i+1)
		if err != nil {
			return nox.Noun{}, err
		}
		if !one.rebind {
			l.scope = append(l.scope, one.name)
			made[i] = l.two(places[i], nox.OpCons, value, l.axis(places[i], 1))
			continue
		}
		d, err := l.variable(as)
		if err != nil {
			return nox.Noun{}, err
		}
		subject := l.two(places[i], nox.OpCons, value, l.axis(places[i], after(d)))
		for j := d - 1; j >= 0; j-- {
			subject = l.two(places[i], nox.OpCons, l.axis(places[i], thing(j)), subject)
		}
		made[i] = subject
	}
	f, err := l.lower(b.result, depth+len(b.bindings))
	for i, subject := range slices.Backward(made) {
		f = l.two(places[i], nox.OpCompose, subject, l.quote(places[i], f))
	}
	return f, err
}

func (l *lowerer) tooDeep(n *node) error {
	return l.refuse(n, "expressions lie more than %d deep in one another; group the parts of a long sum with ( ), or those of a long cell with [ ]", MaxLowering)
}

// lower makes the formula of an expression in the present scope.
func (l *lowerer) lower(n *node, depth int) (nox.Noun, error) {
	switch n.kind {
	case group:
		return l.lower(n.args[0], depth)
	case block:
		return l.lowerBody(n.body, depth)
	}
	if depth > MaxLowering {
		return nox.Noun{}, l.tooDeep(n)
	}
	first := l.tokens[n.first]
	switch n.kind {
	case number:
		return l.quote(l.place(n, "number"), nox.Atom(first.number)), nil
	case boolean:
		return l.quote(l.place(n, n.name), nox.Atom(uint64(first.kind-keyTrue))), nil
	case str:
		return l.quote(l.place(n, "string"), bytesNoun(first.text)), nil
	case slot:
		return l.lowerSlot(n)
	case variable:
		d, err := l.variable(n)
		return l.axis(l.place(n, n.name), thing(d)), err
	case again:
		d, ok := l.distance("")
		if !ok {
			return nox.Noun{}, l.refuse(n, "continue stands outside of every loop")
		}
		if d > MaxDistance {
			return nox.Noun{}, l.refuse(n, "the loop lies behind %d variables; at most %d can be looked past", d, MaxDistance)
		}
		at := l.place(n, "continue")
		return l.two(at, nox.OpCompose, l.axis(at, after(d)>>1), l.axis(at, thing(d))), nil
	case loop:
		l.scope = append(l.scope, "")
		inner, err := l.lower(n.args[0], depth+1)
		l.scope = l.scope[:len(l.scope)-1]
		at := l.place(n, "loop")
		run := l.two(at, nox.OpCompose, l.axis(at, 1), l.axis(at, 2))
		subject := l.two(at, nox.OpCons, l.quote(at, inner), l.axis(at, 1))
		return l.two(at, nox.OpCompose, subject, l.quote(at, run)), err
	case call:
		return l.lowerCall(n, depth)
	case cell:
		return l.lowerCell(n, depth)
	}
	args := make([]nox.Noun, len(n.args))
	for i, one := range n.args {
		var err error
		if args[i], err = l.lower(one, depth+1); err != nil {
			return nox.Noun{}, err
		}
	}
	switch n.kind {
	case branch:
		return l.formula(l.place(n, "if"), nox.OpBranch, nox.Pair(args[0], nox.Pair(args[1], args[2]))), nil
	case not:
		return l.negate(l.place(n, "!"), args[0]), nil
	}
	at := l.place(n, n.op.String())
	a, b := args[0], args[1]
	switch n.op {
	case signPlus:
		return l.two(at, nox.OpAdd, a, b), nil
	case signMinus:
		return l.two(at, nox.OpSub, a, b), nil
	case signTimes:
		return l.two(at, nox.OpMul, a, b), nil
	case signEqual:
		return l.two(at, nox.OpEqual, a, b), nil
	case signUnequal:
		return l.negate(at, l.two(at, nox.OpEqual, a, b)), nil
	case signLess:
		return l.two(at, nox.OpLess, a, b), nil
	case signGreater:
		return l.two(at, nox.OpLess, b, a), nil
	case signLessEqual:
		return l.negate(at, l.two(at, nox.OpLess, b, a)), nil
	case signGreaterEqual:
		return l.negate(at, l.two(at, nox.OpLess, a, b)), nil
	case signAnd:
		return l.formula(at, nox.OpBranch, nox.Pair(a, nox.Pair(b, l.quote(at, nox.Atom(1))))), nil
	default: // signOr
		return l.formula(at, nox.OpBranch, nox.Pair(a, nox.Pair(l.quote(at, nox.Atom(0)), b))), nil
	}
}

// negate makes 1 of the truth value 0 and 0 of every other.
func (l *lowerer) negate(at Place, f nox.Noun) nox.Noun {
	return l.formula(at, nox.OpBranch, nox.Pair(f, nox.Pair(l.quote(at, nox.Atom(1)), l.quote(at, nox.Atom(0)))))
}

// lowerSlot finds a slot of the base, which lies behind everything in scope.
func (l *lowerer) lowerSlot(n *node) (nox.Noun, error) {
	i := slices.Index(slots[:], n.name)
	within := thing(i)
	if i == len(slots)-1 {
		within = after(i - 1)
	}
	more := bits.Len64(within) - 1
	if len(l.scope)+1+more > 64 {
		return nox.Noun{}, l.refuse(n, "~%s lies behind %d variables and loops; at most %d can be looked past", n.name, len(l.scope), 63-more)
	}
	base := uint64(1)<<(len(l.scope)+1) - 1
	return l.axis(l.place(n, "~"+n.name), base<<more|within&(1<<more-1)), nil
}

func (l *lowerer) lowerCall(n *node, depth int) (nox.Noun, error) {
	i := slices.IndexFunc(functions, func(f function) bool { return f.name == n.name })
	name := &node{first: n.first, last: n.first}
	if i < 0 {
		if _, ok := l.distance(n.name); ok {
			return nox.Noun{}, l.refuse(name, "%s is a variable, not a function; put a comma before the ( if two members are meant", n.name)
		}
		var names []string
		for _, f := range functions {
			names = append(names, f.name)
		}
		return nox.Noun{}, l.refuse(name, "unknown function %s%s", n.name, suggestion(n.name, names))
	}
	f := functions[i]
	if len(n.args) != f.arguments {
		counts := map[int]string{1: "one argument", 2: "two arguments"}
		hint := ""
		if f.op == nox.OpCall && len(n.args) > 1 {
			hint = "; send several values as a cell [ ]"
		}
		return nox.Noun{}, l.refuse(n, "%s takes %s, not %d%s", f.name, counts[f.arguments], len(n.args), hint)
	}
	at := l.place(n, f.name)
	a, err := l.lower(n.args[0], depth+1)
	if err != nil {
		return nox.Noun{}, err
	}
	switch f.op {
	case nox.OpCall:
		return l.formula(at, nox.OpCall, nox.Pair(nox.Pair(nox.Atom(f.tag), a), l.axis(at, 2))), nil
	case nox.OpAxis:
		literal := uint64(0)
		if f.arguments == 2 {
			one := n.args[1]
			for one.kind == group || one.kind == block && len(one.body.bindings) == 0 {
				if one.kind == group {
					one = one.args[0]
				} else {
					one = one.body.result
				}
			}
			if one.kind != number {
				return nox.Noun{}, l.refuse(n.args[1], "the second argument of %s must be a number that is written out", f.name)
			}
			literal = l.tokens[one.first].number
		}
		axis, refusal := f.part(literal)
		if refusal != "" {
			return nox.Noun{}, l.refuse(n.args[1], "%s", refusal)
		}
		return l.two(at, nox.OpCompose, a, l.quote(at, l.axis(at, axis))), nil
	}
	if f.arguments == 1 {
		return l.formula(at, f.op, a), nil
	}
	b, err := l.lower(n.args[1], depth+1)
	return l.two(at, f.op, a, b), err
}

// lowerCell nests members to the right; a cell of more than two lies one deeper with
// each member.
func (l *lowerer) lowerCell(n *node, depth int) (nox.Noun, error) {
	members := make([]nox.Noun, len(n.args))
	for i, one := range n.args {
		var err error
		if members[i], err = l.lower(one, depth+min(i+1, len(n.args)-1)); err != nil {
			return nox.Noun{}, err
		}
	}
	at := l.place(n, "[ ]")
	f := members[len(members)-1]
	for _, one := range slices.Backward(members[:len(members)-1]) {
		f = l.two(at, nox.OpCons, one, f)
	}
	return f, nil
}

// bytesNoun is the list of the bytes of s.
func bytesNoun(s string) nox.Noun {
	list := nox.Atom(0)
	for i := len(s) - 1; i >= 0; i-- {
		list = nox.Pair(nox.Atom(uint64(s[i])), list)
	}
	return list
}

// suggestion finds the name that was probably meant.
func suggestion(name string, known []string) string {
	best, least := "", max(1, len(name)/3)
	for _, one := range slices.Backward(known) {
		if d := edits(name, one); one != "" && d <= least && d < len(one) {
			best, least = one, d-1
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// edits counts the letters to put in, take out or replace to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost = 1 + min(last, row[j], row[j+1])
			}
			last, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
