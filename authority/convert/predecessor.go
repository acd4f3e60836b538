package convert

import (
	"encoding/binary"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
)

// narrow is the width in bytes of a time in the predecessor layout.
const narrow = 4

// widening says how the records of one file of the predecessor become those of
// this layout: every time, and nothing else, grows from four bytes to eight
// (section 19.2). A file without times has equal sizes and is copied.
type widening struct {
	old, size int // bytes a record
	pieces    []piece
}

// piece is a run of bytes of a record that ends with a time, or with the record.
type piece struct {
	from, to, length int  // where the run lies in the old and the new record
	time             bool // a time follows the run
}

// widen derives the predecessor of a layout from its fields.
func widen(l *record.Layout) widening {
	w := widening{size: l.Size}
	p := piece{}
	for _, f := range l.Fields {
		if !isTime(f) {
			p.length += f.Width
			continue
		}
		p.time = true
		w.pieces = append(w.pieces, p)
		p = piece{from: p.from + p.length + narrow, to: p.to + p.length + f.Width}
	}
	if p.length > 0 {
		w.pieces = append(w.pieces, p)
	}
	w.old = p.from + p.length
	return w
}

// isTime says whether the predecessor keeps the field in four bytes.
func isTime(f record.Field) bool { return strings.HasSuffix(f.Name, "_at_s") }

// same says whether records need no change.
func (w widening) same() bool { return w.old == w.size }

// records converts whole records from src to dst and returns how many bytes of
// dst they take.
func (w widening) records(dst, src []byte) int {
	n := len(src) / w.old
	for i := range n {
		from, to := src[i*w.old:(i+1)*w.old], dst[i*w.size:(i+1)*w.size]
		for _, p := range w.pieces {
			copy(to[p.to:p.to+p.length], from[p.from:])
			if p.time {
				seconds := binary.LittleEndian.Uint32(from[p.from+p.length:])
				binary.LittleEndian.PutUint64(to[p.to+p.length:], uint64(seconds))
			}
		}
	}
	return n * w.size
}
