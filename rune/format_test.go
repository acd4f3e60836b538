package rune_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

func TestFormatLayout(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ in, want string }{
		"short": {"~mem+event", "~mem + event\n"},
		"bindings": {
			"let   x=1;let y = 2 ;\n\n\nx+y",
			"let x = 1;\nlet y = 2;\n\nx + y\n",
		},
		"short blocks": {"if event==0{1}else{2}", "if event == 0 { 1 } else { 2 }\n"},
		"else if": {
			"if a() {1} else if b() {2} else {3}",
			"if a() {\n  1\n} else if b() {\n  2\n} else {\n  3\n}\n",
		},
		"loop": {
			"loop{if n==0{s}else{rebind s=s+n;rebind n=n-1;continue}}",
			"loop {\n  if n == 0 {\n    s\n  } else {\n    rebind s = s + n;\n    rebind n = n - 1;\n    continue\n  }\n}\n",
		},
		"cells": {
			"[[1,2][3 4], \"a\", x, (y), f(z,1)]", "[[1 2], [3 4], \"a\", x, (y), f(z, 1)]\n",
		},
		"simple cells": {"[1,2,[x ~mem] \"a\"]", "[1 2 [x ~mem] \"a\"]\n"},
		"comments": {
			"// head\n\n\n// second\nlet x = 1;// one\n// own\nx // last\n// end",
			"// head\n\n// second\nlet x = 1; // one\n// own\nx // last\n// end\n",
		},
		"comments in a block": {
			"{//a\n1//b\n//c\n}",
			"{ //a\n  1 //b\n  //c\n}\n",
		},
		"comment before a comma": {
			"[1+2 // first\n, 3]",
			"[\n  1 + 2, // first\n  3\n]\n",
		},
		"long sum": {
			"let total = " + strings.Repeat("a_long_name + ", 7) + "1; total",
			"let total = a_long_name\n  + " + strings.Repeat("a_long_name\n  + ", 6) + "1;\ntotal\n",
		},
		"long call": {
			"host([" + strings.Repeat("a_long_name ", 8) + "])",
			"host([\n  " + strings.Repeat("a_long_name\n  ", 7) + "a_long_name\n])\n",
		},
		"not": {"!!  true&&!(a||b)", "!!true && !(a || b)\n"},
	} {
		got, err := rune.Format([]byte(one.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(got) != one.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, one.want)
		}
		again, err := rune.Format(got)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: formatting it again gives %v\n%s", name, err, again)
		}
	}
}

// checkFormat says that the formatted source means the same and stays as it is.
func checkFormat(t *testing.T, source []byte) {
	t.Helper()
	p, err := rune.Compile(source)
	if err != nil {
		return
	}
	formatted, err := rune.Format(source)
	if err != nil {
		if strings.Contains(err.Error(), "the formatted source would have") {
			return
		}
		t.Fatalf("%q compiles, but is not formatted: %v", source, err)
	}
	q, err := rune.Compile(formatted)
	if err != nil {
		t.Fatalf("%q is formatted as %q, which is refused: %v", source, formatted, err)
	}
	if !nox.Equal(p.Body(), q.Body()) {
		t.Fatalf("%q is formatted as %q, which means something else", source, formatted)
	}
	again, err := rune.Format(formatted)
	if err != nil || string(again) != string(formatted) {
		t.Fatalf("%q is formatted as\n%s\nand that as\n%s\n%v", source, formatted, again, err)
	}
	if a, b := strings.Count(string(source), "//"), strings.Count(string(formatted), "//"); a != b {
		t.Fatalf("%q has %d //, formatted as %q %d", source, a, formatted, b)
	}
}

// TestFormatOfDeepSources has sources that grow with the square of their depth where
// each level is indented.
func TestFormatOfDeepSources(t *testing.T) {
	t.Parallel()
	nested := func(member string, levels int) string {
		return strings.Repeat("["+member+" ", levels) + "1" + strings.Repeat("]", levels)
	}
	for _, one := range []struct{ source, line string }{
		{nested("1", 50), "\n  [\n    1\n"},
		{nested("1", 62), "\n [\n  1\n"},
		{nested(`"`+strings.Repeat("a", 70)+`"`, 62), "\n[\n\"aa"},
	} {
		checkFormat(t, []byte(one.source))
		out, err := rune.Format([]byte(one.source))
		if err != nil || !strings.Contains(string(out), one.line) {
			t.Errorf("%s is formatted as %s, %v", one.source, out, err)
		}
	}
}

func TestFormatKeepsVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, one := range v.Valid {
		checkFormat(t, []byte(one.Source))
	}
	for _, one := range v.Compile {
		if one.Error == "" {
			checkFormat(t, []byte(sourceOfLimit(t, one.Source)))
		}
	}
}

// TestFormatKeepsComments puts comments and line breaks at the spaces of programs.
func TestFormatKeepsComments(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	rapid.Check(t, func(rt *rapid.T) {
		source := v.Valid[rapid.IntRange(0, len(v.Valid)-1).Draw(rt, "program")].Source
		var out strings.Builder
		for _, c := range source {
			if c == ' ' || c == '(' || c == '{' {
				out.WriteString(rapid.SampledFrom([]string{"", "", "\n", "\n\n\n", " // after\n", "\n// own\n", "// one\n// two\n\n", "\n\n// own\n\n"}).Draw(rt, "space"))
			}
			out.WriteRune(c)
		}
		checkFormat(t, []byte(out.String()))
	})
}
