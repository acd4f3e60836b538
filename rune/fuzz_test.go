package rune_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/writ-authority/writ/rune"
)

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
