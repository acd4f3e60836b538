package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// inventoried is one file of a source.
type inventoried struct {
	path   string   // slash-separated, relative to the source
	size   int64    // bytes
	sha256 [32]byte // of the content
}

// inventory is every file of a source, sorted by path.
type inventory []inventoried

// bytes is the length of all files together.
func (inv inventory) bytes() int64 {
	var n int64
	for _, e := range inv {
		n += e.size
	}
	return n
}

// digest is the SHA-256 of one line for each file: its sum in hexadecimal, its
// length and its path, separated by blanks.
func (inv inventory) digest() string {
	h := sha256.New()
	for _, e := range inv {
		fmt.Fprintf(h, "%x %d %s\n", e.sha256, e.size, e.path)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (inv inventory) sort() {
	slices.SortFunc(inv, func(a, b inventoried) int { return strings.Compare(a.path, b.path) })
}
