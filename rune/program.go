package rune

import (
	"slices"
	"strings"

	"github.com/writ-authority/writ/nox"
)

// Place is what a formula was made from.
type Place struct {
	Span
	What string // how the source names it: +, head, ~mem, total, if, let total
}

// Map leads from the formulas of a compiled source back to its text.
type Map struct {
	text     *text
	places   map[nox.Noun]Place
	formulas []nox.Noun // in the order in which they were made
}

func (m *Map) add(formula nox.Noun, at Place) {
	m.places[formula] = at
	m.formulas = append(m.formulas, formula)
}

// Source is the text.
func (m *Map) Source() string { return m.text.source }

// Excerpt shows the first line of a part of the source with carets below it.
func (m *Map) Excerpt(s Span) string { return m.text.excerpt(s) }

// Place tells where a formula came from. It knows the very nodes that compiling has
// made; for formulas that were encoded since, use Match.
func (m *Map) Place(formula nox.Noun) (Place, bool) {
	p, ok := m.places[formula]
	return p, ok
}

// Match gives the places of all formulas for which fits returns true, in the order of
// the text and each once. It is how a formula that was encoded and decoded again is
// found: two equal expressions have equal formulas.
func (m *Map) Match(fits func(formula nox.Noun) bool) []Place {
	var found []Place
	for _, f := range m.formulas {
		if fits(f) {
			found = append(found, m.places[f])
		}
	}
	slices.SortFunc(found, func(a, b Place) int {
		if d := a.Start.Offset - b.Start.Offset; d != 0 {
			return d
		}
		if d := a.End.Offset - b.End.Offset; d != 0 {
			return d
		}
		return strings.Compare(a.What, b.What)
	})
	return slices.Compact(found)
}

// Program is a compiled source. It is immutable.
type Program struct {
	*Map
	body nox.Noun
}

// Compile reads, checks and lowers the source of a program. An error is an [*Error].
func Compile(source []byte) (*Program, error) {
	m, f, err := compile(source, "event")
	if err != nil {
		return nil, err
	}
	return &Program{m, f}, nil
}

// Formula is the program as a formula for one event, [2 [[3 [[1 event] [0 1]]] [1
// body]]]: it is to be reduced against the base, [self now here caps code libs mem
// world].
func (p *Program) Formula(event nox.Noun) nox.Noun {
	quoted := nox.Pair(nox.Atom(nox.OpQuote), event)
	whole := nox.Pair(nox.Atom(nox.OpAxis), nox.Atom(1))
	subject := nox.Pair(nox.Atom(nox.OpCons), nox.Pair(quoted, whole))
	body := nox.Pair(nox.Atom(nox.OpQuote), p.body)
	return nox.Pair(nox.Atom(nox.OpCompose), nox.Pair(subject, body))
}

// Body is the formula of the program with the event on the subject.
func (p *Program) Body() nox.Noun { return p.body }

// Value is a compiled expression that stands for a noun. It is immutable.
type Value struct {
	*Map
	formula nox.Noun
}

// CompileValue compiles an expression that knows no event, but the variables whose
// names are given, outermost first. An error is an [*Error].
func CompileValue(source []byte, variables ...string) (*Value, error) {
	m, f, err := compile(source, variables...)
	if err != nil {
		return nil, err
	}
	return &Value{m, f}, nil
}

// Formula is to be reduced against the atom 0, or against [xn … [x1 base]] where the
// expression has the variables x1 to xn.
func (v *Value) Formula() nox.Noun { return v.formula }

func compile(source []byte, scope ...string) (*Map, nox.Noun, error) {
	t := newText(source)
	tree, tokens, err := parse(t)
	if err != nil {
		return nil, nox.Noun{}, err
	}
	m := &Map{text: t, places: map[nox.Noun]Place{}}
	l := &lowerer{m: m, tokens: tokens, scope: scope}
	f, err := l.lowerBody(tree, 1)
	if err != nil {
		return nil, nox.Noun{}, err
	}
	return m, f, nil
}
