package cli

import (
	"strconv"
	"strings"

	"github.com/writ-authority/writ/nox"
)

// expression writes a noun as a Rune expression for a person. A list of at least two
// printable characters is a string; what is deeper than a person reads has the text of
// the noun.
func expression(n nox.Noun) string {
	if n.Depth() > nox.Artifact.Depth || n.Size() > 4096 {
		return n.String()
	}
	var b strings.Builder
	writeExpression(&b, n)
	return b.String()
}

// writeExpression recurses at most nox.Artifact.Depth deep.
func writeExpression(b *strings.Builder, n nox.Noun) {
	if n.IsAtom() {
		b.WriteString(strconv.FormatUint(n.Value(), 10))
		return
	}
	if s, ok := printableText(n); ok {
		b.WriteString(strconv.Quote(s))
		return
	}
	b.WriteByte('[')
	for {
		writeExpression(b, n.Head())
		b.WriteString(", ")
		n = n.Tail()
		if _, text := printableText(n); n.IsAtom() || text {
			break
		}
	}
	writeExpression(b, n)
	b.WriteByte(']')
}

// printableText reads a list of printable ASCII characters that ends with 0.
func printableText(n nox.Noun) (string, bool) {
	var s []byte
	for !n.IsAtom() {
		c := n.Head()
		if !c.IsAtom() || c.Value() < ' ' || c.Value() > '~' {
			return "", false
		}
		s = append(s, byte(c.Value()))
		n = n.Tail()
	}
	return string(s), n.Value() == 0 && len(s) > 1
}
