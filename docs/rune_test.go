package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/internal/cli"
	"github.com/writ-authority/writ/rune"
)

// TestRunePrograms runs the programs of rune.md as it says, and compares what they
// print.
func TestRunePrograms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rune.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fence := regexp.MustCompile("(?ms)^```(rune|sh)\n(.*?)^```$")
	out := fence.ReplaceAllFunc(text, func(block []byte) []byte {
		m := fence.FindSubmatch(block)
		if string(m[1]) == "rune" {
			name := regexp.MustCompile(`^// ([a-z]+\.rune): `).FindSubmatch(m[2])
			if name == nil {
				t.Fatalf("a program does not begin with its file name:\n%s", m[2])
			}
			if formatted, err := rune.Format(m[2]); err != nil || !bytes.Equal(formatted, m[2]) {
				t.Errorf("%s has not the one layout, which is\n%s%v", name[1], formatted, err)
			}
			if err := os.WriteFile(filepath.Join(dir, string(name[1])), m[2], 0o600); err != nil {
				t.Fatal(err)
			}
			return block
		}
		var said strings.Builder
		said.WriteString("```sh\n")
		for _, command := range strings.Split(string(m[2]), "\n") {
			words, ok := strings.CutPrefix(command, "$ writ ")
			if !ok {
				continue
			}
			said.WriteString(command + "\n")
			args := strings.Fields(words)
			for i, one := range args {
				if strings.HasSuffix(one, ".rune") {
					args[i] = filepath.Join(dir, one)
				}
			}
			var both bytes.Buffer
			cli.Main(unquote(args), strings.NewReader(""), &both, &both)
			said.WriteString(strings.ReplaceAll(both.String(), dir+string(filepath.Separator), ""))
		}
		said.WriteString("```")
		return []byte(said.String())
	})
	if n := len(fence.FindAll(text, -1)); n < 18 {
		t.Fatalf("rune.md has %d programs and runs", n)
	}
	if bytes.Equal(out, text) {
		return
	}
	if *update {
		if err := os.WriteFile("rune.md", out, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(string(text), "\n"), strings.Split(string(out), "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			t.Fatalf("rune.md line %d says\n%s\nbut the program says\n%s", i+1, was[i], is[i])
		}
	}
	t.Fatalf("rune.md has %d lines, and should have %d", len(was), len(is))
}

// unquote joins words between single quotes.
func unquote(words []string) []string {
	var args []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "'") {
			for !strings.HasSuffix(word, "'") {
				i++
				word += " " + words[i]
			}
			word = strings.Trim(word, "'")
		}
		args = append(args, word)
	}
	return args
}
