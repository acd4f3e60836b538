package rune

// MaxNesting is how many bodies, expressions, operands of ! and `else if`s may be
// open at once.
const MaxNesting = 64

// kind tells what a node of the syntax tree is.
type kind uint8

const (
	number   kind = iota // token
	str                  // token
	boolean              // token
	slot                 // token
	variable             // token
	binary               // op; operands in args
	not                  // operand in args
	call                 // name; arguments in args
	group                // (…): args[0]
	block                // {…}: body
	cell                 // […]: members in args
	branch               // if: condition, block, and another block or branch in args
	loop                 // its block in args[0]
	again                // continue
)

// node is an expression. Tokens are given by their index.
type node struct {
	kind        kind
	first, last int // its first and last token
	op          tokenKind
	name        string  // of variables, slots and functions
	args        []*node // operands, arguments, members, parts
	body        *body   // of blocks
}

// body is bindings and a result.
type body struct {
	bindings []binding
	result   *node
}

// binding is `let name = value;` or `rebind name = value;`.
type binding struct {
	first, last int // the keyword and the semicolon
	rebind      bool
	name        string
	nameAt      int
	value       *node
}

type parser struct {
	text   *text
	tokens []token
	at     int
	depth  int
}

// parse reads a whole program.
func parse(t *text) (*body, []token, error) {
	tokens, err := scan(t)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{text: t, tokens: tokens}
	b, err := p.body()
	if err != nil {
		return nil, nil, err
	}
	if p.kind() != tokenEnd {
		return nil, nil, p.trailing(b.result)
	}
	return b, tokens, nil
}

func (p *parser) kind() tokenKind { return p.tokens[p.at].kind }

// take goes on by one token and returns its index.
func (p *parser) take() int {
	p.at++
	return p.at - 1
}

// name is how a message calls the present token.
func (p *parser) name() string {
	k := p.tokens[p.at]
	if k.kind == tokenEnd {
		return k.kind.String()
	}
	return p.text.source[k.start:k.end]
}

// refuse makes an error at the present token.
func (p *parser) refuse(format string, args ...any) error {
	k := p.tokens[p.at]
	return p.text.refuse(k.start, k.end, format, args...)
}

func (p *parser) expect(k tokenKind, where string) (int, error) {
	if p.kind() != k {
		return 0, p.refuse("expected %s %s, found %s", k, where, p.name())
	}
	return p.take(), nil
}

// trailing refuses what stands behind a complete expression, with advice.
func (p *parser) trailing(before *node) error {
	switch k := p.kind(); k {
	case signEqual, signUnequal, signLess, signLessEqual, signGreater, signGreaterEqual:
		return p.refuse("comparisons do not chain; join two of them with &&")
	case signAssign:
		return p.refuse("unexpected =; a variable is made with let, changed with rebind, and compared with ==")
	case signSemicolon:
		return p.refuse("unexpected ;: a program ends with an expression, without ;")
	default:
		if before.last-before.first == 0 && k == tokenNumber || k == tokenName {
			return p.refuse("unexpected %s after a complete expression; members of a cell stand in [ ]", p.name())
		}
		return p.refuse("unexpected %s after a complete expression", p.name())
	}
}

// enter counts one more open construct; the caller must leave it.
func (p *parser) enter() error {
	if p.depth == MaxNesting {
		return p.refuse("nested too deeply: at most %d bodies, expressions and operators may be open", MaxNesting)
	}
	p.depth++
	return nil
}

func (p *parser) leave() { p.depth-- }

func (p *parser) body() (*body, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	b := &body{}
	for p.kind() == keyLet || p.kind() == keyRebind {
		one := binding{rebind: p.kind() == keyRebind}
		one.first = p.take()
		keyword := p.tokens[one.first].kind
		var err error
		if one.nameAt, err = p.expect(tokenName, "after "+keyword.String()); err != nil {
			return nil, err
		}
		one.name = p.tokens[one.nameAt].text
		if _, err = p.expect(signAssign, "after the variable"); err != nil {
			return nil, err
		}
		if one.value, err = p.expression(); err != nil {
			return nil, err
		}
		if one.last, err = p.expect(signSemicolon, "after the value of "+one.name); err != nil {
			return nil, err
		}
		b.bindings = append(b.bindings, one)
	}
	var err error
	b.result, err = p.expression()
	return b, err
}

// levels are the binary operators, loosest first. Those of a level group to the left,
// except that comparisons do not chain.
var levels = [...][]tokenKind{
	{signOr},
	{signAnd},
	{signEqual, signUnequal, signLess, signLessEqual, signGreater, signGreaterEqual},
	{signPlus, signMinus},
	{signTimes},
}

const comparisons = 2

func (p *parser) expression() (*node, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	return p.level(0)
}

func (p *parser) level(l int) (*node, error) {
	if l == len(levels) {
		return p.unary()
	}
	left, err := p.level(l + 1)
	for err == nil && hasKind(levels[l], p.kind()) {
		op := p.tokens[p.take()].kind
		var right *node
		if right, err = p.level(l + 1); err != nil {
			break
		}
		left = &node{kind: binary, first: left.first, last: right.last, op: op, args: []*node{left, right}}
		if l == comparisons {
			break
		}
	}
	return left, err
}

func hasKind(kinds []tokenKind, k tokenKind) bool {
	for _, one := range kinds {
		if one == k {
			return true
		}
	}
	return false
}

func (p *parser) unary() (*node, error) {
	if p.kind() != signNot {
		return p.primary()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	first := p.take()
	operand, err := p.unary()
	if err != nil {
		return nil, err
	}
	return &node{kind: not, first: first, last: operand.last, args: []*node{operand}}, nil
}

func (p *parser) primary() (*node, error) {
	one := func(k kind) (*node, error) {
		i := p.take()
		return &node{kind: k, first: i, last: i, name: p.tokens[i].text}, nil
	}
	switch p.kind() {
	case tokenNumber:
		return one(number)
	case tokenString:
		return one(str)
	case keyTrue, keyFalse:
		return one(boolean)
	case tokenSlot:
		return one(slot)
	case keyContinue:
		return one(again)
	case tokenName:
		if p.tokens[p.at+1].kind == signOpen {
			return p.call()
		}
		return one(variable)
	case signOpen:
		first := p.take()
		inner, err := p.expression()
		if err != nil {
			return nil, err
		}
		last, err := p.expect(signClose, "to close the parenthesis")
		if err != nil {
			return nil, err
		}
		return &node{kind: group, first: first, last: last, args: []*node{inner}}, nil
	case signOpenBracket:
		return p.cell()
	case signOpenBrace:
		return p.block("")
	case keyIf:
		return p.branch()
	case keyLoop:
		first := p.take()
		inner, err := p.block("after loop")
		if err != nil {
			return nil, err
		}
		return &node{kind: loop, first: first, last: inner.last, args: []*node{inner}}, nil
	case keyLet, keyRebind:
		return nil, p.refuse("%s may stand only at the beginning of a program or of a block { }", p.name())
	case tokenEnd:
		return nil, p.refuse("expected an expression, found the end of the text")
	case signMinus:
		return nil, p.refuse("expected an expression, found -; there are no negative numbers, write 0 - x for the inverse of addition")
	}
	return nil, p.refuse("expected an expression, found %s", p.name())
}

func (p *parser) call() (*node, error) {
	n := &node{kind: call, first: p.take()}
	n.name = p.tokens[n.first].text
	p.take()
	for p.kind() != signClose || len(n.args) > 0 {
		arg, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
		if p.kind() != signComma {
			break
		}
		p.take()
	}
	var err error
	n.last, err = p.expect(signClose, "or a comma in the call of "+n.name)
	return n, err
}

func (p *parser) cell() (*node, error) {
	n := &node{kind: cell, first: p.take()}
	for {
		member, err := p.expression()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, member)
		if p.kind() == signCloseBracket {
			break
		}
		if p.kind() == tokenEnd {
			return nil, p.refuse("expected ] to close the cell, found the end of the text")
		}
		if p.kind() == signComma {
			p.take()
		}
	}
	if len(n.args) < 2 {
		if n.args[0].kind == call {
			return nil, p.refuse("a cell has two members or more; a name before ( is a call, so put a comma between them if two are meant")
		}
		return nil, p.refuse("a cell has two members or more")
	}
	n.last = p.take()
	return n, nil
}

func (p *parser) block(where string) (*node, error) {
	first, err := p.expect(signOpenBrace, where)
	if err != nil {
		return nil, err
	}
	inner, err := p.body()
	if err != nil {
		return nil, err
	}
	if p.kind() == signSemicolon {
		return nil, p.refuse("unexpected ;: a block ends with an expression, without ;")
	}
	last, err := p.expect(signCloseBrace, "to close the block")
	if err != nil {
		return nil, err
	}
	return &node{kind: block, first: first, last: last, body: inner}, nil
}

func (p *parser) branch() (*node, error) {
	n := &node{kind: branch, first: p.take()}
	condition, err := p.expression()
	if err != nil {
		return nil, err
	}
	yes, err := p.block("after the condition of if")
	if err != nil {
		return nil, err
	}
	if _, err := p.expect(keyElse, "after the block of if, which always needs one"); err != nil {
		return nil, err
	}
	var other *node
	if p.kind() == keyIf {
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer p.leave()
		other, err = p.branch()
	} else {
		other, err = p.block("or if after else")
	}
	if err != nil {
		return nil, err
	}
	n.last = other.last
	n.args = []*node{condition, yes, other}
	return n, nil
}
