package suite

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLine     = 4096 // bytes that are kept of one line of output
	maxLastLine = 120  // runes of Event.LastLine
	maxTailLine = 400  // runes of one element of Result.Tail
	tailLines   = 20   // elements of Result.Tail
)

// lines follows output line by line: the last ones for a report, the very last
// for a progress line. A carriage return begins a line anew, as on a terminal.
type lines struct {
	current  []byte   // the line that is not complete yet, at most maxLine of it
	returned bool     // a carriage return came last
	tail     []string // cleaned, at most tailLines
	last     string   // the last one that is not blank, cleaned
}

func (l *lines) write(p []byte) {
	for _, c := range p {
		switch {
		case c == '\n':
			l.end()
			continue
		case c == '\r':
			l.returned = true
			continue
		case l.returned:
			l.returned = false
			l.remember()
			l.current = l.current[:0]
		}
		if len(l.current) < maxLine {
			l.current = append(l.current, c)
		}
	}
}

// end completes a line.
func (l *lines) end() {
	l.remember()
	if len(l.tail) == tailLines {
		l.tail = append(l.tail[:0], l.tail[1:]...)
	}
	l.tail = append(l.tail, cleanLine(l.current, maxTailLine))
	l.current, l.returned = l.current[:0], false
}

// remember makes the current line the last one, unless it is blank.
func (l *lines) remember() {
	if s := cleanLine(l.current, maxLastLine); strings.TrimSpace(s) != "" {
		l.last = s
	}
}

// lastLine returns the last line with something on it, complete or not.
func (l *lines) lastLine() string {
	l.remember()
	return l.last
}

// finish returns the tail after the end of the output.
func (l *lines) finish() []string {
	if len(l.current) > 0 {
		l.end()
	}
	for len(l.tail) > 0 && l.tail[len(l.tail)-1] == "" {
		l.tail = l.tail[:len(l.tail)-1]
	}
	return l.tail
}

// cleanLine makes a line of output fit to be shown: without escape sequences and
// control characters (also those that only change the direction of a text), tabs
// as spaces, what isn't UTF-8 replaced, at most so many runes.
func cleanLine(p []byte, most int) string {
	var b strings.Builder
	n := 0
	for len(p) > 0 {
		if p[0] == 0x1b {
			p = p[escapeLen(p):]
			continue
		}
		r, size := utf8.DecodeRune(p)
		p = p[size:]
		switch {
		case r == '\t':
			r = ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
			continue
		}
		if n++; n > most {
			return strings.TrimRight(b.String(), " ")
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ")
}

// escapeLen returns the length of the escape sequence that p begins with
// (ECMA-48): a control sequence, a control string, or two bytes and what may
// stand between them.
func escapeLen(p []byte) int {
	if len(p) < 2 {
		return len(p)
	}
	i := 2
	switch p[1] {
	case '[': // parameters and intermediates up to a final byte
		for i < len(p) && p[i] >= 0x20 && p[i] < 0x40 {
			i++
		}
		if i < len(p) && p[i] >= 0x40 && p[i] < 0x7f {
			i++
		}
	case ']', 'P', 'X', '^', '_': // a string up to BEL or ESC \
		for i < len(p) && p[i] != 0x07 && p[i] != 0x1b {
			i++
		}
		switch {
		case i < len(p) && p[i] == 0x07:
			i++
		case i+1 < len(p) && p[i+1] == '\\':
			i += 2
		}
	default:
		for i = 1; i < len(p) && p[i] >= 0x20 && p[i] < 0x30; {
			i++
		}
		if i < len(p) && p[i] >= 0x30 && p[i] < 0x7f {
			i++
		}
	}
	return i
}
