package rune_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
)

// vectors are those of the specification that concern the language.
type vectors struct {
	Valid []struct {
		Source, Event, Formula string
		Blob                   string `json:"artifact_blob"`
	}
	Invalid []struct{ Source, Why string }
	Compile []struct {
		Source string
		Length int
		Blob   string `json:"formula_blob"`
		Error  string
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func parseNoun(t *testing.T, text string) nox.Noun {
	t.Helper()
	n, err := nox.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// blob is the identity of the artifact of a noun, of which formulas may be deeper than
// an artifact that is stored.
func blob(t *testing.T, n nox.Noun) string {
	t.Helper()
	artifact, err := nox.Limits{Nodes: 1 << 20, Depth: 1 << 16}.Encode(n)
	if err != nil {
		t.Fatal(err)
	}
	return hemera.Sum(artifact).String()
}

func TestLoweringVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	if len(v.Valid) != 51 || len(v.Invalid) != 52 {
		t.Fatalf("%d valid and %d invalid programs", len(v.Valid), len(v.Invalid))
	}
	for _, one := range v.Valid {
		p, err := rune.Compile([]byte(one.Source))
		if err != nil {
			t.Errorf("%q: %v", one.Source, err)
			continue
		}
		got, want := p.Formula(parseNoun(t, one.Event)), parseNoun(t, one.Formula)
		if !nox.Equal(got, want) {
			t.Errorf("%q lowers to\n%s, want\n%s", one.Source, got, want)
		}
		if id := blob(t, got); id != one.Blob {
			t.Errorf("%q: the artifact of the formula is %s, want %s", one.Source, id, one.Blob)
		}
	}
	for _, one := range v.Invalid {
		p, err := rune.Compile([]byte(one.Source))
		if !errors.Is(err, rune.ErrSource) {
			t.Errorf("%q compiles to %v, %v; want it refused: %s", one.Source, p, err, one.Why)
		}
	}
}

// sourceOfLimit makes the source that a vector of the limits describes.
func sourceOfLimit(t *testing.T, description string) string {
	t.Helper()
	lets := func(n int) string { return strings.Repeat("let v = 0; ", n) }
	made := map[string]string{
		`128 operands 1 joined by " + "`:                   strings.Repeat("1 + ", 127) + "1",
		`129 operands 1 joined by " + "`:                   strings.Repeat("1 + ", 128) + "1",
		`"[", 128 times 1 joined by one space, "]"`:        "[" + strings.Repeat("1 ", 127) + "1]",
		`"[", 129 times 1 joined by one space, "]"`:        "[" + strings.Repeat("1 ", 128) + "1]",
		`"let v = 0; " 61 times, then "event"`:             lets(61) + "event",
		`"let v = 0; " 62 times, then "event"`:             lets(62) + "event",
		`"let v = 0; " 55 times, then "~mem"`:              lets(55) + "~mem",
		`"let v = 0; " 56 times, then "~mem"`:              lets(56) + "~mem",
		`"let v = 0; " 61 times, then "~self"`:             lets(61) + "~self",
		`"let v = 0; " 62 times, then "~self"`:             lets(62) + "~self",
		`"(" 62 times, "1", ")" 62 times`:                  strings.Repeat("(", 62) + "1" + strings.Repeat(")", 62),
		`"(" 63 times, "1", ")" 63 times`:                  strings.Repeat("(", 63) + "1" + strings.Repeat(")", 63),
		`"!" 62 times, "1"`:                                strings.Repeat("!", 62) + "1",
		`"!" 63 times, "1"`:                                strings.Repeat("!", 63) + "1",
		`"{" 31 times, "1", "}" 31 times`:                  strings.Repeat("{", 31) + "1" + strings.Repeat("}", 31),
		`"{" 32 times, "1", "}" 32 times`:                  strings.Repeat("{", 32) + "1" + strings.Repeat("}", 32),
		`"let v = 0; " 102 times, then "!v" (512 tokens)`:  lets(102) + "!v",
		`"let v = 0; " 102 times, then "!!v" (513 tokens)`: lets(102) + "!!v",
		`"1" followed by 8191 spaces`:                      "1" + strings.Repeat(" ", 8191),
		`"1" followed by 8192 spaces`:                      "1" + strings.Repeat(" ", 8192),
	}
	source, ok := made[description]
	if !ok {
		t.Fatalf("no source for %s", description)
	}
	return source
}

func TestCompileLimitVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	if len(v.Compile) != 20 {
		t.Fatalf("%d vectors", len(v.Compile))
	}
	for _, one := range v.Compile {
		source := sourceOfLimit(t, one.Source)
		if len(source) != one.Length {
			t.Fatalf("%s: made %d bytes, want %d", one.Source, len(source), one.Length)
		}
		p, err := rune.Compile([]byte(source))
		if one.Error != "" {
			if !errors.Is(err, rune.ErrSource) {
				t.Errorf("%s: %v, want it refused", one.Source, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", one.Source, err)
			continue
		}
		if id := blob(t, p.Formula(nox.Atom(0))); id != one.Blob {
			t.Errorf("%s: the artifact of the formula is %s, want %s", one.Source, id, one.Blob)
		}
	}
}

// TestLiteralArguments says that the number of axis and nth may stand in parentheses
// and braces, and what else is the same to them.
func TestLiteralArguments(t *testing.T) {
	t.Parallel()
	compile := func(source string) nox.Noun {
		p, err := rune.Compile([]byte(source))
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		return p.Body()
	}
	for source, same := range map[string]string{
		"nth(event, ((2)))":       "nth(event, 2)",
		"nth(event, {2})":         "nth(event, 0x2)",
		"axis(event, {({ 3 })})":  "tail(event)",
		"axis (event, 2)":         "head(event)",
		"nth(event, 0)":           "head(event)",
		"{ event }":               "(event)",
		"let x = true; {x}":       "let y = 0; y",
		"1 // one\r\n+\t2":        "1+2",
		"event > 1 && true || !0": "((event > 1) && true) || (!0)",
	} {
		got, want := compile(source), compile(same)
		if !nox.Equal(got, want) {
			t.Errorf("%s lowers to %s, but %s to %s", source, got, same, want)
		}
	}
	for _, source := range []string{"nth(event, {let x = 2; x})", "nth(event, !2)", "axis(event, true)", "axis(event, \"a\")"} {
		if _, err := rune.Compile([]byte(source)); !errors.Is(err, rune.ErrSource) {
			t.Errorf("%s: %v", source, err)
		}
	}
}
