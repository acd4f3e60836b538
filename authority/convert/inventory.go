package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Entry is one file of a source.
type Entry struct {
	Path   string   // slash-separated, relative to the source
	Size   int64    // bytes
	SHA256 [32]byte // of the content
}

// Inventory is every file of a source, sorted by path.
type Inventory []Entry

// Bytes is the length of all files together.
func (inv Inventory) Bytes() int64 {
	var n int64
	for _, e := range inv {
		n += e.Size
	}
	return n
}

// Digest is the SHA-256 of one line for each file: its sum in hexadecimal, its
// length and its path, separated by blanks.
func (inv Inventory) Digest() string {
	h := sha256.New()
	for _, e := range inv {
		fmt.Fprintf(h, "%x %d %s\n", e.SHA256, e.Size, e.Path)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (inv Inventory) sort() {
	slices.SortFunc(inv, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
}
