package record_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/writ-authority/writ/bindb/record"
)

// plausible gives bytes of the layout that Decode accepts and that are not zero
// wherever a field may be anything.
func plausible(l *record.Layout) []byte {
	b := make([]byte, l.Size)
	for _, f := range l.Fields {
		switch {
		case f.Reserved:
		case f.Enum != nil:
			b[f.Offset] = byte(f.Enum.Values[len(f.Enum.Values)-1].Value)
		case f.Bits != nil:
			for _, bit := range f.Bits {
				v := uint64(1)<<(bit.Hi-bit.Lo+1) - 1
				if bit.Enum != nil {
					v = bit.Enum.Values[len(bit.Enum.Values)-1].Value
				}
				b[f.Offset] |= byte(v << bit.Lo)
			}
		default:
			for i := range f.Width {
				b[f.Offset+i] = byte(f.Offset + i + 1)
			}
		}
	}
	return b
}

func TestCodecIsExact(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		if c.size != c.layout.Size {
			t.Errorf("%s: size constant %d, layout %d", c.layout.Name, c.size, c.layout.Size)
		}
		in := plausible(c.layout)
		out, err := c.trip(in)
		if err != nil {
			t.Errorf("%s: %v", c.layout.Name, err)
		} else if !bytes.Equal(in, out) {
			t.Errorf("%s:\n in %x\nout %x", c.layout.Name, in, out)
		}
	}
}

func TestDecodeRefusesAnotherLength(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		in := plausible(c.layout)
		for _, b := range [][]byte{nil, in[:len(in)-1], append(bytes.Clone(in), 0)} {
			_, err := c.trip(b)
			var fe *record.FieldError
			if !errors.As(err, &fe) || !errors.Is(err, record.ErrMalformed) || fe.Check != "F03" {
				t.Errorf("%s with %d bytes: got %v, want a length error", c.layout.Name, len(b), err)
			}
		}
	}
}

func TestEncodeBounds(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		// A capacity beyond the length must not be used.
		b := make([]byte, c.size+8)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: Encode accepted %d bytes", c.layout.Name, c.size-1)
				}
			}()
			c.encodeInto(b[:c.size-1])
		}()
		for i := range b {
			b[i] = 0xaa
		}
		c.encodeInto(b)
		if !bytes.Equal(b[c.size:], bytes.Repeat([]byte{0xaa}, 8)) {
			t.Errorf("%s: Encode wrote beyond its %d bytes", c.layout.Name, c.size)
		}
	}
}

// Every single bit that a layout reserves, and every enumerated value without a
// name, is refused with the name of its field.
func TestDecodeRefusesEachReservedBit(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		good := plausible(c.layout)
		for _, f := range c.layout.Fields {
			if !f.Reserved && f.Enum == nil && f.Bits == nil {
				continue
			}
			for bit := range 8 * f.Width {
				b := bytes.Clone(good)
				b[f.Offset+bit/8] ^= 1 << (bit % 8)
				v := uint64(0)
				for i := range f.Width {
					v |= uint64(b[f.Offset+i]) << (8 * i)
				}
				want := accepts(&f, v)
				_, err := c.trip(b)
				if (err == nil) != want {
					t.Errorf("%s.%s = %#x: got %v, want acceptance %v", c.layout.Name, f.Name, v, err, want)
				}
				var fe *record.FieldError
				if err != nil && (!errors.As(err, &fe) || fe.Check != "F06" || !bytes.HasPrefix([]byte(fe.Field), []byte(f.Name))) {
					t.Errorf("%s.%s = %#x: error %v names another field", c.layout.Name, f.Name, v, err)
				}
			}
		}
	}
}

// accepts restates the rules of Decode from the layout.
func accepts(f *record.Field, v uint64) bool {
	has := func(e *record.Enum, v uint64) bool {
		for _, x := range e.Values {
			if x.Value == v {
				return true
			}
		}
		return e.Open
	}
	switch {
	case f.Reserved:
		return v == 0
	case f.Enum != nil:
		return has(f.Enum, v)
	}
	known := uint64(0)
	for _, b := range f.Bits {
		mask := uint64(1)<<(b.Hi-b.Lo+1) - 1
		known |= mask << b.Lo
		if b.Enum != nil && !has(b.Enum, v>>b.Lo&mask) {
			return false
		}
	}
	return v&^known == 0
}

func FuzzDecode(f *testing.F) {
	for i, c := range codecs {
		f.Add(uint8(i), plausible(c.layout))
		f.Add(uint8(i), make([]byte, c.size))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		c := codecs[int(which)%len(codecs)]
		b = b[:min(len(b), c.size)]
		record.Dump(c.layout, 0, b)
		out, err := c.trip(b)
		if err != nil {
			if !errors.Is(err, record.ErrMalformed) {
				t.Fatalf("%s: %v does not match ErrMalformed", c.layout.Name, err)
			}
			return
		}
		if !bytes.Equal(b, out) {
			t.Fatalf("%s:\n in %x\nout %x", c.layout.Name, b, out)
		}
	})
}
