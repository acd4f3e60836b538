package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// style is what an output stream can show.
type style struct{ terminal, colour bool }

func (s style) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// The codes have equal lengths, so that painted cells stay aligned in columns.
func (s style) bold(text string) string   { return s.paint("01", text) }
func (s style) faint(text string) string  { return s.paint("02", text) }
func (s style) red(text string) string    { return s.paint("31", text) }
func (s style) green(text string) string  { return s.paint("32", text) }
func (s style) yellow(text string) string { return s.paint("33", text) }
func (s style) plain(text string) string  { return s.paint("00", text) }

// printable makes text from outside safe to show: control characters, which could
// steer the terminal, become visible.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || r == '\u202e' || r == '\u2066' || r == '\u2067' || r == '\u2068' {
			return '\uFFFD'
		}
		return r
	}, text)
}

// line is printable text on one line.
func line(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(printable(text), "\n", " "), "\t", " ")
}

// table writes rows in columns.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // the stream reports its own failure
}
