package nox_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-authority/writ/nox"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0":                       "0",
		" 18446744073709551615\n": "18446744073709551615",
		"[1 2 [3 4]]":             "[1 [2 [3 4]]]",
		"[[1 2]3]":                "[[1 2] 3]",
		"[ 1\t2\r\n 3 4 ]":        "[1 [2 [3 4]]]",
		"[[[1 2] 3 4] [5 6] 7]":   "[[[1 2] [3 4]] [[5 6] 7]]",
		"[0[1[2[3 4]5]6]7]":       "[0 [[1 [[2 [[3 4] 5]] 6]] 7]]",
		"[1 [2 [3 [4 5]]]]":       "[1 [2 [3 [4 5]]]]",
		"[[[[1 2] 3] 4] 5]":       "[[[[1 2] 3] 4] 5]",
	} {
		n := parse(t, text)
		if n.String() != want {
			t.Errorf("%q is printed as %s; expected %s", text, n, want)
		}
	}
}

func TestTextErrors(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		text         string
		line, column int
		offset       int
		says         string
	}{
		{"", 1, 1, 0, "the text ends here"},
		{" \n ", 2, 2, 3, "the text ends here"},
		{"[1 2", 1, 1, 0, "never closed"},
		{"[1 2\n [3 4]\n", 1, 1, 0, "never closed"},
		{"[1 [2 3]", 1, 1, 0, "never closed"},
		{"]", 1, 1, 0, "closes nothing"},
		{"[]", 1, 1, 0, "found 0"},
		{"[1 [2]]", 1, 4, 3, "found 1"},
		{"1 2", 1, 3, 2, "unexpected '2' after the noun"},
		{"[1 2] ]", 1, 7, 6, "unexpected ']' after the noun"},
		{"[1 x]", 1, 4, 3, "unexpected 'x'"},
		{"[1\n  -2]", 2, 3, 5, "unexpected '-'"},
		{"[1 é]", 1, 4, 3, "unexpected 'é'"},
		{"[1 \xff]", 1, 4, 3, "unexpected byte 0xff"},
		{"0x10", 1, 2, 1, "unexpected 'x' in a number"},
		{"1,2", 1, 2, 1, "unexpected ',' in a number"},
		{"007", 1, 1, 0, "leading zeros"},
		{"[1 18446744073709551616]", 1, 4, 3, "above 18446744073709551615"},
		{"99999999999999999999999999999999", 1, 1, 0, "above"},
	} {
		_, err := nox.Parse(x.text)
		var at *nox.SyntaxError
		if !errors.As(err, &at) || !errors.Is(err, nox.ErrSyntax) {
			t.Errorf("%q: %v; expected a syntax error", x.text, err)
			continue
		}
		if at.Line != x.line || at.Column != x.column || at.Offset != x.offset || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%q: %v (byte %d); expected %d:%d (byte %d) and %q", x.text, err, at.Offset, x.line, x.column, x.offset, x.says)
		}
	}
}

func TestTextLimits(t *testing.T) {
	t.Parallel()
	limits := nox.Limits{Nodes: 15, Depth: 4}
	for _, x := range []struct {
		text string
		err  error
		at   int // column
	}{
		{"[1 2 3 4 5]", nil, 0},
		{"[1 2 3 4 5 6]", nox.ErrDepth, 12},
		{"[1 2 3 4 5 [6 7]]", nox.ErrDepth, 12},
		{"[1 2 3 4 [5 6]]", nox.ErrDepth, 11},
		{"[1 2 3 [4 5]]", nil, 0},
		{"[1 2 [3 4] 5]", nil, 0},
		{"[1 2 3 [4 5] 6]", nox.ErrDepth, 1},
		{"[[[[1 2] 3] 4] 5]", nil, 0},
		{"[[[[[1 2] 3] 4] 5] 6]", nox.ErrDepth, 6},
		{"[[[1 2] 3 4] [5 6] 7 8]", nil, 0},
		{"[[[1 2] [3 4]] [5 6] 7 8]", nil, 0},
		{"[[[1 2] [3 4]] [[5 6] [7 8]] 9]", nox.ErrNodes, 30},
	} {
		n, err := limits.Parse(x.text)
		if !errors.Is(err, x.err) {
			t.Errorf("%s: %v; expected %v", x.text, err, x.err)
			continue
		}
		var at *nox.SyntaxError
		if errors.As(err, &at) && at.Column != x.at {
			t.Errorf("%s: %v; expected it at column %d", x.text, err, x.at)
		}
		if err == nil && limits.Check(n) != nil {
			t.Errorf("%s was taken: %v", x.text, limits.Check(n))
		}
	}
	for _, text := range []string{strings.Repeat("[", 1<<20), "[" + strings.Repeat("1 ", 1<<20) + "]"} {
		if _, err := nox.Parse(text); !errors.Is(err, nox.ErrDepth) && !errors.Is(err, nox.ErrNodes) {
			t.Errorf("%s...: %v; expected a limit", text[:8], err)
		}
	}
}

func TestTextOfLargeNouns(t *testing.T) {
	t.Parallel()
	n := nox.Atom(1)
	for range 200 {
		n = nox.Pair(n, n)
	}
	if want := fmt.Sprintf("[noun of %d nodes]", uint64(1)<<32-1); n.String() != want {
		t.Errorf("2^201 nodes are printed as %.100s; expected %s", n.String(), want)
	}
	if _, err := nox.Text.Format(n); !errors.Is(err, nox.ErrNodes) {
		t.Errorf("formatting 2^201 nodes: %v", err)
	}
	list := nox.Atom(0)
	for range 8193 {
		list = nox.Pair(nox.Atom(1), list)
	}
	if _, err := nox.Text.Format(list); !errors.Is(err, nox.ErrDepth) {
		t.Errorf("formatting 8193 levels: %v", err)
	}
	list = list.Tail()
	if back := parse(t, list.String()); !nox.Equal(back, list) {
		t.Error("a list of 8192 does not come back from its text")
	}
}

func TestTextRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := anyNoun().Draw(t, "noun")
		text := n.String()
		back, err := nox.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if !nox.Equal(back, n) || back.String() != text {
			t.Fatalf("%s came back as %v", text, back)
		}
	})
}

// TestReadingIsBounded reads hostile texts and artifacts of 4 MiB, and the largest
// nouns, and counts all that is allocated. Nothing may run beside it.
func TestReadingIsBounded(t *testing.T) {
	const size, bytesPerNode = 4 << 20, 64
	largest := tree(32768)
	artifact, err := nox.Encode(largest)
	if err != nil {
		t.Fatal(err)
	}
	readers := map[string]func() error{}
	for name, text := range map[string]string{
		"brackets": strings.Repeat("[", size),
		"pairs":    strings.Repeat("[1 ", size/3),
		"members":  "[" + strings.Repeat("1 ", size/2),
		"digits":   strings.Repeat("9", size),
		"spaces":   strings.Repeat(" ", size),
		"lines":    strings.Repeat("\n", size),
		"leaves":   strings.Repeat("[[1 1] ", size/7),
		"largest":  largest.String() + strings.Repeat(" ", size) + "x",
	} {
		readers["text of "+name] = func() error { _, err := nox.Parse(text); return err }
	}
	for name, b := range map[string][]byte{
		"pairs":   bytes.Repeat([]byte{1}, size),
		"atoms":   make([]byte, size),
		"members": bytes.Repeat(listBytes(1)[:10], size/10),
		"largest": append(artifact, make([]byte, size)...),
	} {
		readers["artifact of "+name] = func() error { _, err := nox.Decode(b); return err }
	}
	for name, read := range readers {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("the %s is read", name)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > bytesPerNode*nox.Text.Nodes {
			t.Errorf("reading the %s allocates %d bytes", name, used)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "0", "[1 2 [3 4]]", "[[1 2]3]", "[", "[]", "[1]", "1 2", "01", "18446744073709551616", "[1 \xff]", "[[[[[[1 2"} {
		f.Add(text)
	}
	limits := nox.Limits{Nodes: 200, Depth: 20}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := limits.Parse(text)
		if err != nil {
			var at *nox.SyntaxError
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) || at.Line < 1 || at.Column < 1 {
				t.Fatalf("%q: no place in %v", text, err)
			}
			return
		}
		if err := limits.Check(n); err != nil {
			t.Fatalf("%q was taken: %v", text, err)
		}
		again, err := limits.Parse(n.String())
		if err != nil || !nox.Equal(again, n) {
			t.Fatalf("%q is printed as %s: %v", text, n, err)
		}
	})
}
