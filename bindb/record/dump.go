package record

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Dumped is one record in readable form, with its fields in order. It marshals
// to JSON.
type Dumped struct {
	Record  string        `json:"record"`
	File    string        `json:"file"`
	Index   int           `json:"index"`
	Fields  []DumpedField `json:"fields"`
	Raw     string        `json:"raw,omitempty"`     // all bytes, when they are too few or too many
	Problem string        `json:"problem,omitempty"` // the first thing that Decode or Check finds wrong
}

// DumpedField is one field of a Dumped record.
type DumpedField struct {
	Name    string      `json:"name"`
	Value   any         `json:"value"`             // integer; hexadecimal text for hashes and bytes
	Meaning string      `json:"meaning,omitempty"` // name of the value, time, text, or target of a reference
	Bits    []DumpedBit `json:"bits,omitempty"`
	Problem string      `json:"problem,omitempty"` // what is wrong with this field alone
}

// DumpedBit is one named part of a metadata field.
type DumpedBit struct {
	Name    string `json:"name"`
	Value   uint64 `json:"value"`
	Meaning string `json:"meaning,omitempty"`
}

// Dump shows the bytes of one record of the given layout. It never fails: fields
// that are missing are left out, and whatever is wrong is marked.
func Dump(layout *Layout, index int, raw []byte) Dumped {
	d := Dumped{Record: layout.Name, File: layout.File, Index: index, Fields: []DumpedField{}}
	for i := range layout.Fields {
		f := &layout.Fields[i]
		if f.Offset+f.Width > len(raw) {
			break
		}
		d.Fields = append(d.Fields, f.dump(raw[f.Offset:f.Offset+f.Width]))
	}
	secret := false
	for _, f := range layout.Fields {
		secret = secret || f.Secret
	}
	if len(raw) != layout.Size && !secret {
		d.Raw = hex.EncodeToString(raw)
	}
	if err := layout.check(raw); err != nil {
		d.Problem = err.Error()
	}
	return d
}

func (f *Field) dump(raw []byte) DumpedField {
	d := DumpedField{Name: f.Name}
	if f.Secret {
		d.Value, d.Meaning = "", "not shown"
		return d
	}
	if len(f.Type) > 3 && f.Type[:3] == "u8[" {
		d.Value = hex.EncodeToString(raw)
		if f.Text {
			d.Meaning = text(raw)
		}
		return d
	}
	var v uint64
	for i, c := range raw {
		v |= uint64(c) << (8 * i)
	}
	d.Value = v
	switch {
	case f.Hex:
		d.Value = fmt.Sprintf("%0*x", 2*f.Width, v)
	case f.Reserved:
		if v != 0 {
			d.Problem = "reserved, want zero"
		}
	case f.Time && v != 0:
		d.Meaning = Seconds(v).String()
	case f.Optional && v == 0:
		d.Meaning = "none"
	case f.Optional:
		d.Meaning = fmt.Sprintf("%s record %d", f.Target, v-1)
	case f.Enum != nil:
		d.Meaning, d.Problem = f.Enum.dump(v)
	case f.Bits != nil:
		known := uint64(0)
		for _, b := range f.Bits {
			mask := uint64(1)<<(b.Hi-b.Lo+1) - 1
			known |= mask << b.Lo
			x := DumpedBit{Name: b.Name, Value: v >> b.Lo & mask}
			if b.Enum != nil {
				var problem string
				if x.Meaning, problem = b.Enum.dump(x.Value); problem != "" {
					d.Problem = b.Name + ": " + problem
				}
			}
			d.Bits = append(d.Bits, x)
		}
		if v&^known != 0 {
			d.Problem = fmt.Sprintf("reserved bits %#x, want zero", v&^known)
		}
	}
	return d
}

// text shows zero-padded bytes, quoted where they are not printable ASCII.
func text(raw []byte) string {
	b := bytes.TrimRight(raw, "\x00")
	if len(b) == 0 {
		return "empty"
	}
	for _, c := range b {
		if c <= ' ' || c > '~' {
			return strconv.QuoteToASCII(string(b))
		}
	}
	return string(b)
}

func (e *Enum) dump(v uint64) (meaning, problem string) {
	name, ok := e.lookup(v)
	if !ok && !e.Open {
		return "", fmt.Sprintf("%d has no meaning", v)
	}
	return name, ""
}

// Text is the record on one line, for people.
func (d Dumped) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d:", d.File, d.Index)
	for _, f := range d.Fields {
		fmt.Fprintf(&b, " %s=%v", f.Name, f.Value)
		if f.Meaning != "" {
			fmt.Fprintf(&b, " (%s)", f.Meaning)
		}
	}
	if d.Problem != "" {
		fmt.Fprintf(&b, " PROBLEM: %s", d.Problem)
	}
	return b.String()
}
