package nox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError says what is wrong with the text of a noun and where. It wraps
// [ErrSyntax], [ErrNodes] or [ErrDepth].
type SyntaxError struct {
	Offset       int // in bytes, from 0
	Line, Column int // from 1; columns count characters
	Reason       string
	err          error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%v: %d:%d: %s", e.err, e.Line, e.Column, e.Reason)
}

func (e *SyntaxError) Unwrap() error { return e.err }

// Parse reads the text form of a noun: a decimal number below 2^64 without leading
// zeros, or two or more nouns in brackets, separated by white space where they
// would run together. [a b c] means [a [b c]]. The error is a [SyntaxError].
func Parse(text string) (Noun, error) { return Text.Parse(text) }

// parser reads one text.
type parser struct {
	text   string
	at     int
	limits Limits
	atoms  uint64
	lists  []list
	values []Noun // the members of all open lists, innermost last
}

// list is an open bracket.
type list struct {
	at    int    // where it stands
	depth uint64 // at least this deep below the root
	first int    // index of its first member
}

// Parse is [Parse] with other limits.
func (l Limits) Parse(text string) (Noun, error) {
	p := parser{text: text, limits: l}
	for {
		p.space()
		if p.at == len(p.text) {
			if len(p.lists) > 0 {
				return Noun{}, p.fail(p.lists[len(p.lists)-1].at, ErrSyntax, "this bracket is never closed")
			}
			return Noun{}, p.fail(p.at, ErrSyntax, "expected a number or a [, but the text ends here")
		}
		var n Noun
		var err error
		switch c := p.text[p.at]; {
		case c == '[':
			if err := p.open(); err != nil {
				return Noun{}, err
			}
			continue
		case c == ']':
			n, err = p.close()
		case isDigit(c):
			n, err = p.number()
		default:
			err = p.fail(p.at, ErrSyntax, "unexpected "+p.character()+"; expected a number, [ or ]")
		}
		if err != nil {
			return Noun{}, err
		}
		if len(p.lists) > 0 {
			p.values = append(p.values, n)
			continue
		}
		p.space()
		if p.at < len(p.text) {
			return Noun{}, p.fail(p.at, ErrSyntax, "unexpected "+p.character()+" after the noun; several nouns need brackets around them")
		}
		return n, nil
	}
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// character quotes what stands at the parser's place.
func (p *parser) character() string {
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("byte %#02x", p.text[p.at])
	}
	return strconv.QuoteRune(r)
}

// depth is how deep the next node lies at least. Member i of a list lies i levels
// below it, or one more if others follow.
func (p *parser) depth() uint64 {
	if len(p.lists) == 0 {
		return 0
	}
	l := p.lists[len(p.lists)-1]
	return l.depth + uint64(max(1, len(p.values)-l.first))
}

// admit refuses a node that is too deep already.
func (p *parser) admit() error {
	if depth := p.depth(); depth > p.limits.Depth {
		return p.fail(p.at, ErrDepth, fmt.Sprintf("this is %d levels down, where %d are allowed", depth, p.limits.Depth))
	}
	return nil
}

func (p *parser) open() error {
	if err := p.admit(); err != nil {
		return err
	}
	p.lists = append(p.lists, list{at: p.at, depth: p.depth(), first: len(p.values)})
	p.at++
	return nil
}

// close folds the members of the innermost list into pairs.
func (p *parser) close() (Noun, error) {
	if len(p.lists) == 0 {
		return Noun{}, p.fail(p.at, ErrSyntax, "unexpected ], which closes nothing")
	}
	l := p.lists[len(p.lists)-1]
	members := p.values[l.first:]
	if len(members) < 2 {
		return Noun{}, p.fail(l.at, ErrSyntax, fmt.Sprintf("expected two members or more in these brackets, found %d", len(members)))
	}
	n := members[len(members)-1]
	for i := len(members) - 2; i >= 0; i-- {
		n = Pair(members[i], n)
	}
	if depth := l.depth + n.Depth(); depth > p.limits.Depth {
		return Noun{}, p.fail(l.at, ErrDepth, fmt.Sprintf("what begins here is %d levels deep, where %d are allowed", depth, p.limits.Depth))
	}
	p.values = p.values[:l.first]
	p.lists = p.lists[:len(p.lists)-1]
	p.at++
	return n, nil
}

// atomDigits is how many digits the largest atom has.
const atomDigits = 20

func (p *parser) number() (Noun, error) {
	if err := p.admit(); err != nil {
		return Noun{}, err
	}
	p.atoms++
	if p.atoms > p.limits.Nodes/2+p.limits.Nodes%2 {
		return Noun{}, p.fail(p.at, ErrNodes, fmt.Sprintf("this is atom %d of a noun that may have %d nodes", p.atoms, p.limits.Nodes))
	}
	end := p.at
	for end < len(p.text) && isDigit(p.text[end]) {
		end++
	}
	digits := p.text[p.at:end]
	if len(digits) > 1 && digits[0] == '0' {
		return Noun{}, p.fail(p.at, ErrSyntax, "a number has no leading zeros")
	}
	v, err := strconv.ParseUint(digits[:min(len(digits), atomDigits+1)], 10, 64) // it copies what it refuses
	if err != nil {
		return Noun{}, p.fail(p.at, ErrSyntax, fmt.Sprintf("this number is above %d, the largest atom", uint64(math.MaxUint64)))
	}
	p.at = end
	if end < len(p.text) && strings.IndexByte(" \t\r\n[]", p.text[end]) < 0 {
		return Noun{}, p.fail(end, ErrSyntax, "unexpected "+p.character()+" in a number; atoms are written in decimal")
	}
	return Atom(v), nil
}

// fail reports a reason at a place of the text.
func (p *parser) fail(at int, err error, reason string) error {
	before := p.text[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Offset: at,
		Line:   strings.Count(before, "\n") + 1,
		Column: utf8.RuneCountInString(before[line:]) + 1,
		Reason: reason,
		err:    err,
	}
}

// String returns the text form of n with every pair in brackets of its own, decimal
// atoms and one space between members. Of a noun outside the limits [Text] it
// tells the size in place of the text.
func (n Noun) String() string {
	text, err := Text.Format(n)
	if err != nil {
		return fmt.Sprintf("[noun of %d nodes]", n.Size())
	}
	return text
}

// Format is [Noun.String] with other limits, of which it tells.
func (l Limits) Format(n Noun) (string, error) {
	if err := l.Check(n); err != nil {
		return "", err
	}
	var out []byte
	var todo []Noun // tails, the next one last
	// After an atom, as many brackets are closed as tails end with it: the levels at
	// which todo stood when they began.
	var ends []int
	for {
		for n.pair != nil {
			out = append(out, '[')
			todo = append(todo, n.pair.tail)
			n = n.pair.head
		}
		out = strconv.AppendUint(out, n.word, 10)
		for len(ends) > 0 && ends[len(ends)-1] == len(todo) {
			out = append(out, ']')
			ends = ends[:len(ends)-1]
		}
		if len(todo) == 0 {
			return string(out), nil
		}
		out = append(out, ' ')
		n = todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		ends = append(ends, len(todo))
	}
}

// briefNodes is how large a noun may be to be quoted in an error.
const briefNodes = 40

// brief is the text of a small noun, and the size of another.
func brief(n Noun) string {
	if n.Size() > briefNodes {
		return fmt.Sprintf("[noun of %d nodes]", n.Size())
	}
	return n.String()
}
