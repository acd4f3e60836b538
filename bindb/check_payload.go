package bindb

import (
	"cmp"
	"slices"
	"strings"

	"github.com/writ-authority/writ/bindb/record"
)

// span is a range of a payload file and the record that refers to it.
type span struct {
	off   uint64
	len   uint32
	index uint32
}

// window holds a piece of a payload file. Locators mostly ascend, so that one
// read serves many of them.
type window struct {
	at  int64
	buf []byte
}

// payload checks a locator of record i of f and decodes what it points to. The
// checks are F04 for the range and id for the content.
func (c *checker) payload(f *family, i uint32, field string, p Payload, off uint64, n int, into record.Payload, id string) bool {
	size := uint64(c.sizes[p.f.no])
	if off < HeaderSize || off > size || uint64(n) > size-off {
		rangeID := "F04"
		if id == "P03" {
			rangeID = id
		}
		c.badField(f, i, rangeID, field, "is %d with length %d, outside of the %d bytes of %s", off, n, size, p.f.file)
		return false
	}
	if c.full && n > 0 && p.f != treeNames.f {
		c.spans[p.f.no] = append(c.spans[p.f.no], span{off, uint32(n), i})
	}
	b := c.bytes(p.f, int64(off), n)
	if c.stop != nil {
		return false
	}
	if err := into.Decode(b); err != nil {
		text := strings.TrimSuffix(strings.TrimPrefix(err.Error(), record.ErrMalformed.Error()+": "), " (F07)")
		c.badField(f, i, id, field, "is %d with length %d in %s: %s", off, n, p.f.file, text)
		return false
	}
	return true
}

// bytes returns a range of a payload file that lies inside of it. The result is
// valid until the next call for the same file.
func (c *checker) bytes(f *family, off int64, n int) []byte {
	const piece = 128 << 10
	w := &c.windows[f.no]
	end := w.at + int64(len(w.buf))
	if off >= w.at && off+int64(n) <= end {
		return w.buf[off-w.at:][:n]
	}
	want := n
	if off >= w.at && off <= end+piece { // ascending
		want = int(min(int64(max(n, piece)), c.sizes[f.no]-off))
	}
	w.at, w.buf = off, slices.Grow(w.buf[:0], want)[:want]
	if err := c.rd.readAt(f, w.buf, off); err != nil {
		w.buf = w.buf[:0]
		c.fail(err)
		return nil
	}
	return w.buf[:n]
}

// overlaps reports ranges of one payload file that share bytes (F05).
func (c *checker) overlaps() {
	for _, owner := range payloadOwners {
		list := c.spans[owner.payload.no]
		byOffset := func(a, b span) int { return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.index, b.index)) }
		if !slices.IsSortedFunc(list, byOffset) {
			slices.SortFunc(list, byOffset)
		}
		var last span
		for _, s := range list {
			if c.stop != nil {
				return
			}
			if s.off < last.off+uint64(last.len) {
				c.badField(owner.f, s.index, "F05", owner.field, "is %d with length %d in %s and overlaps the range %d..%d of record %d",
					s.off, s.len, owner.payload.file, last.off, last.off+uint64(last.len)-1, last.index)
			}
			if s.off+uint64(s.len) > last.off+uint64(last.len) {
				last = s
			}
		}
	}
}

// treeNames are shared by the entries that have the same name.
var treeNames = Payload{mustFamily("tree_name_payload.bin")}

// payloadOwners names the record family that refers to each payload file of which
// every range has one owner.
var payloadOwners = slices.DeleteFunc(declarePayloadOwners(), func(o payloadOwner) bool { return o.payload == treeNames.f })

type payloadOwner struct {
	payload, f *family
	field      string
}

func declarePayloadOwners() []payloadOwner {
	var list []payloadOwner
	for _, l := range record.Layouts() {
		f, ok := byFile[l.File]
		if !ok || f.root != l.Root {
			continue
		}
		for _, field := range l.Fields {
			if p, ok := byFile[field.Target]; ok && !p.fixed {
				list = append(list, payloadOwner{p, f, field.Name})
			}
		}
	}
	return list
}
