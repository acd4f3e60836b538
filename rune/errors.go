package rune

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrSource is what every [Error] wraps: a text was refused.
var ErrSource = errors.New("source refused")

// Position is a place in a source.
type Position struct {
	Offset int // in bytes, from 0
	Line   int // from 1
	Column int // in characters, from 1; a tab is one character
}

func (p Position) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

// Span is a part of a source: from Start up to, and without, End.
type Span struct {
	Start, End Position
}

// Error is a text that was refused, with the place.
type Error struct {
	Span    Span
	Message string // a sentence without the place
	excerpt string
}

// Error is the place and the message: `3:14: unknown name total`.
func (e *Error) Error() string { return e.Span.Start.String() + ": " + e.Message }

// Unwrap makes errors.Is(err, ErrSource) true.
func (e *Error) Unwrap() error { return ErrSource }

// Excerpt is the line of the source, and a second one with carets below the part
// that is meant; both end with a line feed.
func (e *Error) Excerpt() string { return e.excerpt }

// text is a source with the places of its lines.
type text struct {
	source string
	lines  []int // offsets at which lines begin
}

// newText takes of a source that is too long one byte more than is allowed.
func newText(source []byte) *text {
	t := &text{source: string(source[:min(len(source), MaxSource+1)]), lines: []int{0}}
	for i := range len(t.source) {
		if source[i] == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// at gives the position of a byte offset.
func (t *text) at(offset int) Position {
	lo, hi := 0, len(t.lines)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; t.lines[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return Position{Offset: offset, Line: lo + 1, Column: utf8.RuneCountInString(t.source[t.lines[lo]:offset]) + 1}
}

func (t *text) span(start, end int) Span { return Span{t.at(start), t.at(end)} }

// excerpt shows the first line of a span with carets below it. Characters that a
// terminal would obey are shown as U+FFFD.
func (t *text) excerpt(s Span) string {
	start := t.lines[s.Start.Line-1]
	line := t.source[start:]
	if i := strings.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	line = strings.TrimSuffix(line, "\r")
	lead := t.source[start:s.Start.Offset]
	marked := t.source[s.Start.Offset:min(s.End.Offset, max(start+len(line), s.Start.Offset))]
	indent := strings.Map(func(c int32) int32 {
		if c == '\t' {
			return '\t'
		}
		return ' '
	}, lead)
	line = strings.Map(func(c int32) int32 {
		if c != '\t' && (c < ' ' || c >= 0x7f && c < 0xa0 || c == 0xfeff || c == 0x2028 || c == 0x2029 || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069) {
			return utf8.RuneError
		}
		return c
	}, line)
	return line + "\n" + indent + strings.Repeat("^", max(1, utf8.RuneCountInString(marked))) + "\n"
}

// refuse makes the error for the bytes from start up to end.
func (t *text) refuse(start, end int, format string, args ...any) *Error {
	s := t.span(start, end)
	return &Error{Span: s, Message: fmt.Sprintf(format, args...), excerpt: t.excerpt(s)}
}
