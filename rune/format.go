package rune

import (
	"strings"
	"unicode/utf8"
)

// The layout that [Format] writes.
const (
	lineWidth   = 80
	indentation = 2 // spaces
)

// Format puts the source of a program or of a value into the one layout: two spaces
// for each level, a line for each binding, blocks on one line where they are short.
// Where that would be more than [MaxSource] bytes, a level has one space, or none.
// Numbers, strings, parentheses and comments stay as they are, and so do single empty
// lines between bindings; members of cells are separated by spaces if all of them are
// simple, by commas otherwise. Formatting twice changes nothing more.
//
// What it writes compiles to the same formula. The error is an [*Error]: the source is
// no program, or would have more than [MaxSource] bytes. Names are not looked up.
func Format(source []byte) ([]byte, error) {
	t := newText(source)
	tree, tokens, err := parse(t)
	if err != nil {
		return nil, err
	}
	out := ""
	for indent := indentation; indent >= 0; indent-- {
		p := &printer{source: t.source, tokens: tokens, indent: indent, opened: true}
		p.body(tree)
		p.broken = true
		p.comments(len(tokens) - 1)
		out = p.out.String() + "\n"
		if len(out) <= MaxSource {
			return []byte(out), nil
		}
	}
	return nil, t.refuse(0, 0, "the formatted source would have %d bytes; at most %d are allowed", len(out), MaxSource)
}

// printer writes the tokens of a source in their order, with other white space.
//
// Breaks and spaces are remembered until something follows them. So a comment that
// followed a token on its line can be written there, in front of the break.
type printer struct {
	source string
	tokens []token
	next   int // the first token that has not been written
	out    strings.Builder

	indent int  // spaces for each level
	level  int  // of indentation
	column int  // characters on the present line
	broken bool // a line break is due
	spaced bool // a space is due
	empty  bool // an empty line is due with the break
	opened bool // nothing was written yet, in the text or in this block
}

// write puts down text that has no line breaks.
func (p *printer) write(s string) {
	switch {
	case p.out.Len() == 0:
	case p.broken:
		p.out.WriteByte('\n')
		if p.empty && !p.opened {
			p.out.WriteByte('\n')
		}
		p.out.WriteString(strings.Repeat(" ", p.level*p.indent))
		p.column = p.level * p.indent
	case p.spaced:
		p.out.WriteByte(' ')
		p.column++
	}
	p.broken, p.spaced, p.empty, p.opened = false, false, false, false
	p.out.WriteString(s)
	p.column += utf8.RuneCountInString(s)
}

// comments writes what stands before token i and behind the last one written.
func (p *printer) comments(i int) {
	for ; p.next <= i; p.next++ {
		for _, c := range p.tokens[p.next].comments {
			if c.own {
				p.broken, p.empty = true, c.blank
			} else {
				p.broken, p.spaced = false, true
			}
			p.write(c.text)
			p.broken = true
		}
	}
}

// token writes token i with the comments before it.
func (p *printer) token(i int) {
	p.comments(i)
	k := p.tokens[i]
	p.write(p.source[k.start:k.end])
}

// space writes token i between spaces.
func (p *printer) space(i int) {
	p.spaced = true
	p.token(i)
	p.spaced = true
}

// statement begins a line with token i, after an empty line if one stood there.
func (p *printer) statement(i int) {
	p.broken = true
	first := p.tokens[i]
	p.comments(i)
	p.empty = first.blank
}

// body writes bindings and result, each on a line.
func (p *printer) body(b *body) {
	for _, one := range b.bindings {
		p.statement(one.first)
		p.token(one.first)
		p.space(one.nameAt)
		p.space(one.nameAt + 1)
		p.node(one.value)
		p.token(one.last)
	}
	p.statement(b.result.first)
	p.node(b.result)
}

// room is how many characters fit on the line.
func (p *printer) room() int {
	if p.broken {
		return lineWidth - p.level*p.indent
	}
	return lineWidth - p.column - 1
}

// node writes an expression, on this line if it fits.
func (p *printer) node(n *node) {
	if flat, ok := p.flat(n); ok && utf8.RuneCountInString(flat) <= p.room() {
		p.comments(n.first)
		p.write(flat)
		p.next = n.last + 1
		return
	}
	switch n.kind {
	case group:
		p.token(n.first)
		p.node(n.args[0])
		p.token(n.last)
	case block, branch:
		p.open(n)
	case loop:
		p.token(n.first)
		p.spaced = true
		p.open(n.args[0])
	case call:
		p.token(n.first)
		p.token(n.first + 1)
		p.members(n.args, ",")
		p.token(n.last)
	case cell:
		p.token(n.first)
		p.members(n.args, separator(n))
		p.token(n.last)
	case not:
		p.token(n.first)
		p.node(n.args[0])
	case binary:
		p.chain(n, levelOf(n.op))
	default:
		p.token(n.first)
	}
}

// open writes a block, or an if with its blocks, with bodies on lines of their own.
func (p *printer) open(n *node) {
	if n.kind == branch {
		p.token(n.first)
		p.spaced = true
		p.node(n.args[0])
		p.spaced = true
		p.open(n.args[1])
		p.space(n.args[1].last + 1)
		p.open(n.args[2])
		return
	}
	p.token(n.first)
	p.opened = true
	p.level++
	p.body(n.body)
	p.broken = true
	p.comments(n.last)
	p.level--
	p.broken = true
	p.token(n.last)
}

// members writes a long list: one member alone clings to its brackets, several have a
// line each.
func (p *printer) members(list []*node, separator string) {
	if len(list) == 1 {
		p.node(list[0])
		return
	}
	p.level++
	for i, one := range list {
		p.broken = true
		p.node(one)
		if i < len(list)-1 && separator != "" {
			p.write(separator)
		}
	}
	p.broken = true
	p.comments(p.next)
	p.level--
	p.broken = true
}

func levelOf(op tokenKind) int {
	l := 0
	for !hasKind(levels[l], op) {
		l++
	}
	return l
}

// chain writes a long row of operands of one level, with a line for each operator.
func (p *printer) chain(n *node, level int) {
	left, right := n.args[0], n.args[1]
	if left.kind == binary && levelOf(left.op) == level {
		p.chain(left, level)
	} else {
		p.node(left)
	}
	p.level++
	p.broken = true
	p.space(left.last + 1)
	p.node(right)
	p.level--
}

// separator is what stands between the members of a cell: a comma, unless all members
// are so simple that nobody can mistake where they end.
func separator(n *node) string {
	for _, one := range n.args {
		switch one.kind {
		case number, str, boolean, slot, variable, again:
		case cell:
			if separator(one) != "" {
				return ","
			}
		default:
			return ","
		}
	}
	return ""
}

// flat is an expression on one line, if it may stand there: without comments, bindings
// and else ifs.
func (p *printer) flat(n *node) (string, bool) {
	for i := n.first + 1; i <= n.last; i++ {
		if len(p.tokens[i].comments) > 0 {
			return "", false
		}
	}
	var b strings.Builder
	ok := p.flatten(&b, n)
	return b.String(), ok
}

func (p *printer) flatten(b *strings.Builder, n *node) bool {
	list := func(before string, args []*node, separator, behind string) bool {
		b.WriteString(before)
		for i, one := range args {
			if i > 0 {
				b.WriteString(separator)
			}
			if !p.flatten(b, one) {
				return false
			}
		}
		b.WriteString(behind)
		return true
	}
	switch n.kind {
	case group:
		return list("(", n.args, "", ")")
	case block:
		return len(n.body.bindings) == 0 && list("{ ", []*node{n.body.result}, "", " }")
	case branch:
		return n.args[2].kind == block &&
			list("if ", n.args[:2], " ", " else ") && p.flatten(b, n.args[2])
	case loop:
		return list("loop ", n.args, "", "")
	case call:
		return list(n.name+"(", n.args, ", ", ")")
	case cell:
		return list("[", n.args, separator(n)+" ", "]")
	case not:
		return list("!", n.args, "", "")
	case binary:
		return list("", n.args, " "+n.op.String()+" ", "")
	}
	k := p.tokens[n.first]
	b.WriteString(p.source[k.start:k.end])
	return true
}
