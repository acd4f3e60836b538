package rune_test

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writ-authority/writ/rune"
)

// TestCompilingIsBounded compiles and formats the dearest sources and counts all that is
// allocated. Nothing may run beside it.
func TestCompilingIsBounded(t *testing.T) {
	const bound = 4 << 20
	for name, source := range map[string]string{
		"rebinds":      "let w = 1; " + strings.Repeat("let v = 0; ", 60) + strings.Repeat("rebind w = 1; ", 40) + "1",
		"long string":  `"` + strings.Repeat("a", rune.MaxSource-2) + `"`,
		"long name":    "let " + strings.Repeat("a", 4000) + " = 1; " + strings.Repeat("a", 3000) + "b",
		"lists":        strings.Repeat("[1 ", 62) + "1" + strings.Repeat("]", 62),
		"calls":        strings.Repeat("host(", 62) + "1" + strings.Repeat(")", 62),
		"members":      "[" + strings.Repeat("1 ", 128) + "]",
		"negations":    strings.Repeat("if !!!!!!!!1 { 1 } else ", 20) + "{ 1 }",
		"comments":     strings.Repeat("//\n", rune.MaxSource/3) + "1",
		"lines":        strings.Repeat("\n", rune.MaxSource-1) + "1",
		"many words":   strings.Repeat("1+", 1<<20) + "1",
		"wrong bytes":  strings.Repeat("\xff", 1<<20),
		"a wrong line": strings.Repeat("a", rune.MaxSource-1) + "\x00",
	} {
		text := []byte(source)
		var before, compiled, formatted runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = rune.Compile(text) // refused or not
		runtime.ReadMemStats(&compiled)
		_, _ = rune.Format(text)
		runtime.ReadMemStats(&formatted)
		if a, b := compiled.TotalAlloc-before.TotalAlloc, formatted.TotalAlloc-compiled.TotalAlloc; a > bound || b > bound {
			t.Errorf("the source of %s takes %d bytes to compile and %d to format", name, a, b)
		}
	}
}

// FuzzCompile says that any bytes are compiled or refused with a place inside of
// them, and that what compiles can be formatted.
func FuzzCompile(f *testing.F) {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		f.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		f.Fatal(err)
	}
	for _, one := range v.Valid {
		f.Add([]byte(one.Source))
	}
	for _, one := range v.Invalid {
		f.Add([]byte(one.Source))
	}
	f.Add([]byte("let x = // one\n  [1 + 2 // two\n , // three\n // four\n\n 3]; { // five\n x // six\n }"))
	f.Fuzz(func(t *testing.T, source []byte) {
		_, err := rune.Compile(source)
		if err == nil {
			checkFormat(t, source)
			return
		}
		var refused *rune.Error
		if !errors.As(err, &refused) {
			t.Fatalf("%q: %v is no Error", source, err)
		}
		at := refused.Span
		if at.Start.Offset < 0 || at.End.Offset < at.Start.Offset || at.End.Offset > len(source) || at.Start.Line < 1 || at.Start.Column < 1 {
			t.Fatalf("%q is refused at %+v", source, at)
		}
		if lines := strings.Count(refused.Excerpt(), "\n"); len(source) <= rune.MaxSource && lines != 2 {
			t.Fatalf("%q: the excerpt has %d lines: %q", source, lines, refused.Excerpt())
		}
		if !utf8.ValidString(refused.Error()) {
			t.Fatalf("%q: the message %q is not UTF-8", source, refused)
		}
	})
}
