package rune_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

func TestErrorsSayWhereAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ source, want, excerpt string }{
		{"let total = 1;\n\tlet x = totl + 1; x", "2:10: unknown name totl; did you mean total?", "\tlet x = totl + 1; x\n\t        ^^^^\n"},
		{"// é\n\"éé\" + ~mim", "2:8: there is no slot ~mim; the slots are ~self ~now ~here ~caps ~code ~libs ~mem ~world", "\"éé\" + ~mim\n       ^^^^\n"},
		{"1 +\r\n", "2:1: expected an expression, found the end of the text", "\n^\n"},
		{"1 /\r\n 2", "1:3: unexpected character '/'; there is no division, and a comment begins with //", "1 /\n  ^\n"},
		{"host(1,\n 2)", "1:1: host takes one argument, not 2; send several values as a cell [ ]", "host(1,\n^^^^^^^\n"},
		{"a = 1", "1:3: unexpected =; a variable is made with let, changed with rebind, and compared with ==", "a = 1\n  ^\n"},
		{"1 < 2 < 3", "1:7: comparisons do not chain; join two of them with &&", "1 < 2 < 3\n      ^\n"},
		{"let x = 1; [x (2)]", "1:18: a cell has two members or more; a name before ( is a call, so put a comma between them if two are meant", "let x = 1; [x (2)]\n                 ^\n"},
		{"let x = 1; [1 x (2)]", "1:15: x is a variable, not a function; put a comma before the ( if two members are meant", "let x = 1; [1 x (2)]\n              ^\n"},
		{"axiss(event, 3)", "1:1: unknown function axiss; did you mean axis?", "axiss(event, 3)\n^^^^^\n"},
		{"1 & 2", "1:3: unexpected character '&'; did you mean &&?", "1 & 2\n  ^\n"},
		{"\x1b[31m", `1:1: unexpected character '\x1b'`, "\uFFFD[31m\n^\n"},
		{"1 \xff", "1:3: the source must be UTF-8; byte 0xff is not", "1 \uFFFD\n  ^\n"},
		{strings.Repeat(" ", 9000), "1:8193: the source has more than 8192 bytes", ""},
	} {
		_, err := rune.Compile([]byte(one.source))
		var refused *rune.Error
		if !errors.As(err, &refused) || !errors.Is(err, rune.ErrSource) {
			t.Errorf("%q: %v", one.source, err)
			continue
		}
		if refused.Error() != one.want || refused.Excerpt() != one.excerpt {
			t.Errorf("%q is refused with\n%s\n%q, want\n%s\n%q", one.source, refused, refused.Excerpt(), one.want, one.excerpt)
		}
	}
}

// TestEveryFormulaHasAPlace walks the body of a program and finds each formula that
// can be evaluated in the source.
func TestEveryFormulaHasAPlace(t *testing.T) {
	t.Parallel()
	source := "let a = head(event);\nloop {\n  rebind a = a + nth(event, 3);\n  if a >= 9 || !true { host(a) } else { continue }\n}"
	p, err := rune.Compile([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	// Which text each pattern came from, at the first place that has it.
	for op, want := range map[uint64]string{
		4:  "if a >= 9 || !true { host(a) } else { continue }",
		5:  "a + nth(event, 3)",
		10: "a >= 9",
		16: "host(a)",
	} {
		places := p.Match(func(f nox.Noun) bool { return f.Head() == nox.Atom(op) })
		if len(places) == 0 {
			t.Errorf("no formula has the pattern %d", op)
			continue
		}
		if at := places[0]; source[at.Start.Offset:at.End.Offset] != want {
			t.Errorf("the first formula with the pattern %d is at %q, want %q", op, source[at.Start.Offset:at.End.Offset], want)
		}
	}
	seen := 0
	var walk func(f nox.Noun)
	walk = func(f nox.Noun) {
		at, ok := p.Place(f)
		if !ok || at.What == "" || at.Start.Offset >= at.End.Offset {
			t.Errorf("the formula %s has the place %+v", f, at)
		}
		seen++
		body := f.Tail()
		switch op := f.Head().Value(); op {
		case 0:
		case 1: // a quoted formula is in the map, a quoted value is not
			if _, ok := p.Place(body); ok {
				walk(body)
			}
		case 4:
			walk(body.Head())
			walk(body.Tail().Head())
			walk(body.Tail().Tail())
		case 16:
			walk(body.Head().Tail())
			walk(body.Tail())
		default:
			walk(body.Head())
			walk(body.Tail())
		}
	}
	walk(p.Body())
	if seen < 40 {
		t.Errorf("%d formulas were walked", seen)
	}
}
