package executor

import (
	"fmt"

	"github.com/writ-authority/writ/nox"
)

// The bounds of bytes from outside in a reply. A list has as many levels as members,
// so that the deepest byte lies MaxBytes/PieceBytes + PieceBytes levels down.
const (
	PieceBytes = 64
	MaxBytes   = 16 * PieceBytes
)

// text reads the list of the bytes of a text. A noun that is none, or one of more than
// limit bytes, is refused with what is wrong.
func text(n nox.Noun, limit int) (string, error) {
	var b []byte
	for ; !n.IsAtom(); n = n.Tail() {
		if len(b) == limit {
			return "", fmt.Errorf("is longer than %d bytes", limit)
		}
		if head := n.Head(); !head.IsAtom() {
			return "", fmt.Errorf("is not a text, whose members are bytes: member %d is a pair", len(b))
		} else if head.Value() > 0xff {
			return "", fmt.Errorf("is not a text, whose members are bytes: member %d is %d", len(b), head.Value())
		}
		b = append(b, byte(n.Head().Value()))
	}
	if n.Value() != 0 {
		return "", fmt.Errorf("is not a text, which is a list that ends with 0: it ends with %d", n.Value())
	}
	return string(b), nil
}

// texts reads a list of texts of at most limit bytes together. The error names the
// member that is wrong by its number, from 1.
func texts(n nox.Noun, limit int) ([]string, error) {
	var list []string
	left := limit
	for ; !n.IsAtom(); n = n.Tail() {
		s, err := text(n.Head(), left)
		if err != nil {
			return nil, fmt.Errorf("text %d of the list %w", len(list)+1, err)
		}
		left -= len(s)
		list = append(list, s)
	}
	if n.Value() != 0 {
		return nil, fmt.Errorf("the list of texts ends with %d, not with 0", n.Value())
	}
	return list, nil
}

// list is the list of bytes that ends with 0.
func list(b []byte) nox.Noun {
	n := nox.Atom(0)
	for i := len(b) - 1; i >= 0; i-- {
		n = nox.Pair(nox.Atom(uint64(b[i])), n)
	}
	return n
}

// kept counts bytes from outside and keeps the first of them. It never refuses a
// write.
type kept struct {
	size  uint64
	first []byte
}

// Write implements io.Writer.
func (k *kept) Write(b []byte) (int, error) {
	k.size += uint64(len(b))
	k.first = append(k.first, b[:min(len(b), MaxBytes-len(k.first))]...)
	return len(b), nil
}

// noun is [size pieces].
func (k *kept) noun() nox.Noun {
	pieces := nox.Atom(0)
	for end := len(k.first); end > 0; {
		begin := (end - 1) / PieceBytes * PieceBytes
		pieces = nox.Pair(list(k.first[begin:end]), pieces)
		end = begin
	}
	return nox.Pair(nox.Atom(k.size), pieces)
}
