package suite

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCleanLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                "plain",
		"trailing  \t":         "trailing",
		"\x1b[1;31mred\x1b[0m": "red",
		"\x1b]0;title\x07text": "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b(Bcharset":                   "charset",
		"\x1b7saved\x1b8":                 "saved",
		"cut \x1b[1;3":                    "cut",
		"cut \x1b":                        "cut",
		"\x1bPdevice control\x1b[mstring": "string",
		"a\x00b\x07c\x7fd\u0085e":         "abcde",
		"tab\tstop":                       "tab stop",
		"\u202edirection\u2066":           "direction",
		"line\u2028separator":             "lineseparator",
		"bad \xff utf":                    "bad \ufffd utf",
		"é日本":                             "é日本",
	} {
		if got := cleanLine([]byte(in), 100); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := cleanLine([]byte(strings.Repeat("é", 200)), 120); utf8.RuneCountInString(got) != 120 {
		t.Errorf("%d runes", utf8.RuneCountInString(got))
	}
}

func FuzzCleanLine(f *testing.F) {
	f.Add([]byte("\x1b[1mx\x1b]0;y\x07\u202e\xff\r\n"), 10)
	f.Fuzz(func(t *testing.T, data []byte, most int) {
		got := cleanLine(data, most)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > max(most, 0) {
			t.Fatalf("%q", got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}

func TestLines(t *testing.T) {
	t.Parallel()
	many := ""
	var last []string
	for i := range 30 {
		many += "line " + strconv.Itoa(i) + "\n"
		if i >= 10 {
			last = append(last, "line "+strconv.Itoa(i))
		}
	}
	for _, tc := range []struct {
		name, out, last string
		tail            []string
	}{
		{"nothing", "", "", nil},
		{"one", "a\n", "a", []string{"a"}},
		{"without an end", "a\nb", "b", []string{"a", "b"}},
		{"blank at the end", "a\n\n \n", "a", []string{"a"}},
		{"blank between", "a\n\nb\n", "b", []string{"a", "", "b"}},
		{"CRLF", "a\r\nb\r\n", "b", []string{"a", "b"}},
		{"progress", "1%\r50%\r100%\ndone\n", "done", []string{"100%", "done"}},
		{"progress that goes on", "1%\r50%\r", "50%", []string{"50%"}},
		{"erased", "x\r\x1b[K\r", "x", nil},
		{"many", many, "line 29", last},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 3, 1000} { // however the output arrives
				var l lines
				for part := range slices.Chunk([]byte(tc.out), size) {
					l.write(part)
				}
				if got := l.lastLine(); got != tc.last {
					t.Errorf("last line %q, want %q", got, tc.last)
				}
				if got := l.finish(); !slices.Equal(got, tc.tail) {
					t.Errorf("tail %q, want %q", got, tc.tail)
				}
			}
		})
	}
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	var l lines
	for range 1000 {
		l.write([]byte(strings.Repeat("x", 10000)))
	}
	if len(l.current) != maxLine {
		t.Errorf("%d bytes of one line are kept", len(l.current))
	}
	if tail := l.finish(); len(tail) != 1 || len(tail[0]) != maxTailLine {
		t.Errorf("tail of %d lines", len(tail))
	}
}
