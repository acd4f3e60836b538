package workitem

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// The bounds of a document, besides the size that its reader sets. No valid
// document comes near them.
const (
	maxDepth  = 64
	maxValues = 1 << 14
)

type jsonType uint8

const (
	jsonNull jsonType = iota
	jsonFalse
	jsonTrue
	jsonInteger // a number without fraction and exponent
	jsonDecimal // any other number
	jsonString
	jsonArray
	jsonObject
)

// jsonValue is one value of a document. Values know each other by their place in
// jsonDoc.values: 0 is the document itself, and also stands for "no value", since
// the document is nobody's child.
type jsonValue struct {
	kind   jsonType
	parent int32
	first  int32  // first member or element
	next   int32  // next member, in code-point order of names, or next element
	count  int32  // members or elements
	index  int32  // place in its array
	name   string // in its object
	text   string // the characters of a string, the digits of a number
}

// jsonDoc is a document with the memory that it was read with.
type jsonDoc struct {
	values []jsonValue
	sorted []int32 // scratch: children of the values that are being read
	out    []byte  // scratch: canonical bytes
	src    string
	at     int
	err    *Error
}

// jsonDocs keeps the memory of documents. Those that became large are not kept.
var jsonDocs = sync.Pool{New: func() any {
	return &jsonDoc{values: make([]jsonValue, 0, 96), sorted: make([]int32, 0, 64), out: make([]byte, 0, 4096)}
}}

// parseJSON reads one JSON document. It refuses what other readers let pass or read
// in different ways: members that are there twice, strings that are not Unicode,
// anything after the document. Strings of the result share memory with a copy of
// raw. The document must be released.
func parseJSON(raw []byte) (*jsonDoc, *Error) {
	d := jsonDocs.Get().(*jsonDoc)
	d.src, d.at, d.err = string(raw), 0, nil
	if !utf8.ValidString(d.src) {
		d.err = invalid("", "the document is not valid UTF-8")
	} else if d.value(0, 1) {
		if d.space(); d.at != len(d.src) {
			d.err = invalid("", "something follows the JSON document")
		}
	}
	if d.err != nil {
		err := d.err
		d.release()
		return nil, err
	}
	return d, nil
}

// release gives the memory back. Strings that were taken from the document stay
// valid.
func (d *jsonDoc) release() {
	if cap(d.values) > 1024 || cap(d.out) > 1<<16 {
		return
	}
	clear(d.values)
	d.values, d.sorted, d.out, d.src, d.err = d.values[:0], d.sorted[:0], d.out[:0], "", nil
	jsonDocs.Put(d)
}

func (d *jsonDoc) fail(at int32, message string) bool {
	if d.err == nil {
		field := d.path(at)
		if field == "" {
			message = "the document " + message
		}
		d.err = invalid(field, message)
	}
	return false
}

func (d *jsonDoc) syntax(at int32) bool { return d.fail(at, "is not valid JSON") }

// path names a value by the names and places that lead to it.
func (d *jsonDoc) path(at int32) string {
	var steps []string
	for ; at != 0; at = d.values[at].parent {
		v := &d.values[at]
		if d.values[v.parent].kind == jsonArray {
			steps = append(steps, "["+strconv.Itoa(int(v.index))+"]")
			continue
		}
		steps = append(steps, "."+showName(v.name))
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}

// showName is the name of a member as refusals show it: names are the sender's and
// may be anything.
func showName(name string) string {
	const longest = 64
	for i, r := range name {
		if i >= longest {
			return name[:i] + "…"
		}
		if r < 0x20 || r == 0x7f {
			return strconv.Quote(name[:min(len(name), longest)])
		}
	}
	return name
}

func (d *jsonDoc) space() {
	for d.at < len(d.src) {
		switch d.src[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// peek is the next byte after white space, or 0 at the end.
func (d *jsonDoc) peek() byte {
	d.space()
	if d.at == len(d.src) {
		return 0
	}
	return d.src[d.at]
}

// value reads the next value, a child of parent. Its place is that of the last
// value before the call.
func (d *jsonDoc) value(parent int32, depth int) bool {
	if len(d.values) == maxValues {
		return d.fail(parent, "has too many values")
	}
	at := int32(len(d.values))
	d.values = append(d.values, jsonValue{parent: parent})
	return d.fill(at, depth)
}

// fill reads the next value to the place that was made for it.
func (d *jsonDoc) fill(at int32, depth int) bool {
	c := d.peek()
	switch {
	case c == '"':
		text, ok := d.str(at)
		d.values[at].kind, d.values[at].text = jsonString, text
		return ok
	case c == '{' || c == '[':
		if depth > maxDepth {
			return d.fail(at, "is nested too deeply")
		}
		d.at++
		if c == '{' {
			return d.object(at, depth)
		}
		return d.array(at, depth)
	case c == '-' || c >= '0' && c <= '9':
		return d.number(at)
	case c == 'n':
		return d.word(at, "null", jsonNull)
	case c == 't':
		return d.word(at, "true", jsonTrue)
	case c == 'f':
		return d.word(at, "false", jsonFalse)
	}
	return d.syntax(at)
}

func (d *jsonDoc) word(at int32, word string, kind jsonType) bool {
	if !strings.HasPrefix(d.src[d.at:], word) {
		return d.syntax(at)
	}
	d.at += len(word)
	d.values[at].kind = kind
	return true
}

func (d *jsonDoc) number(at int32) bool {
	start, kind := d.at, jsonInteger
	if d.src[d.at] == '-' {
		d.at++
	}
	first := d.at
	if !d.digits() || d.src[first] == '0' && d.at > first+1 {
		return d.syntax(at)
	}
	if d.at < len(d.src) && d.src[d.at] == '.' {
		d.at++
		kind = jsonDecimal
		if !d.digits() {
			return d.syntax(at)
		}
	}
	if d.at < len(d.src) && (d.src[d.at] == 'e' || d.src[d.at] == 'E') {
		d.at++
		kind = jsonDecimal
		if d.at < len(d.src) && (d.src[d.at] == '+' || d.src[d.at] == '-') {
			d.at++
		}
		if !d.digits() {
			return d.syntax(at)
		}
	}
	d.values[at].kind, d.values[at].text = kind, d.src[start:d.at]
	return true
}

// digits passes digits, and says whether there was one.
func (d *jsonDoc) digits() bool {
	start := d.at
	for d.at < len(d.src) && d.src[d.at] >= '0' && d.src[d.at] <= '9' {
		d.at++
	}
	return d.at > start
}

func (d *jsonDoc) array(at int32, depth int) bool {
	d.values[at].kind = jsonArray
	if d.peek() == ']' {
		d.at++
		return true
	}
	var count, last int32
	for {
		child := int32(len(d.values))
		if len(d.values) == maxValues {
			return d.fail(at, "has too many values")
		}
		d.values = append(d.values, jsonValue{parent: at, index: count})
		if !d.fill(child, depth+1) {
			return false
		}
		if count == 0 {
			d.values[at].first = child
		} else {
			d.values[last].next = child
		}
		count, last = count+1, child
		switch d.peek() {
		case ',':
			d.at++
		case ']':
			d.at++
			d.values[at].count = count
			return true
		default:
			return d.syntax(at)
		}
	}
}

func (d *jsonDoc) object(at int32, depth int) bool {
	d.values[at].kind = jsonObject
	if d.peek() == '}' {
		d.at++
		return true
	}
	base := len(d.sorted)
	for {
		if d.peek() != '"' {
			return d.syntax(at)
		}
		name, ok := d.str(at)
		if !ok {
			return false
		}
		child := int32(len(d.values))
		if len(d.values) == maxValues {
			return d.fail(at, "has too many values")
		}
		d.values = append(d.values, jsonValue{parent: at, name: name})
		if d.peek() != ':' {
			return d.syntax(child)
		}
		d.at++
		if !d.fill(child, depth+1) {
			return false
		}
		d.sorted = append(d.sorted, child)
		switch d.peek() {
		case ',':
			d.at++
		case '}':
			d.at++
			ok := d.link(at, d.sorted[base:])
			d.sorted = d.sorted[:base]
			return ok
		default:
			return d.syntax(at)
		}
	}
}

// link orders the members of an object and chains them.
func (d *jsonDoc) link(at int32, members []int32) bool {
	values := d.values
	if len(members) <= 40 {
		for i := 1; i < len(members); i++ {
			m, k := members[i], i
			for name := values[m].name; k > 0 && values[members[k-1]].name > name; k-- {
				members[k] = members[k-1]
			}
			members[k] = m
		}
	} else {
		slices.SortFunc(members, func(a, b int32) int { return strings.Compare(values[a].name, values[b].name) })
	}
	values[at].first, values[at].count = members[0], int32(len(members))
	for i := 1; i < len(members); i++ {
		if values[members[i-1]].name == values[members[i]].name {
			return d.fail(members[i], "is there twice")
		}
		values[members[i-1]].next = members[i]
	}
	return true
}

// str reads a string whose quote comes next. at is the value that a refusal names.
func (d *jsonDoc) str(at int32) (string, bool) {
	d.at++
	src := d.src
	for i := d.at; i < len(src); i++ {
		switch c := src[i]; {
		case c == '"':
			s := src[d.at:i]
			d.at = i + 1
			return s, true
		case c == '\\':
			return d.escaped(at, i)
		case c < 0x20:
			return "", d.syntax(at)
		}
	}
	return "", d.syntax(at)
}

// escaped reads the rest of a string whose first backslash is at i.
func (d *jsonDoc) escaped(at int32, i int) (string, bool) {
	src := d.src
	b := append(make([]byte, 0, i-d.at+32), src[d.at:i]...)
	for i < len(src) {
		c := src[i]
		switch {
		case c == '"':
			d.at = i + 1
			return string(b), true
		case c < 0x20:
			return "", d.syntax(at)
		case c != '\\':
			b = append(b, c)
			i++
			continue
		}
		if i+1 == len(src) {
			return "", d.syntax(at)
		}
		i += 2
		switch src[i-1] {
		case '"', '\\', '/':
			b = append(b, src[i-1])
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, ok := hexRune(src[i:])
			if !ok {
				return "", d.syntax(at)
			}
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if strings.HasPrefix(src[i:], `\u`) {
					low, _ = hexRune(src[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					return "", d.fail(at, "has half of a surrogate pair")
				}
				i += 6
			}
			b = utf8.AppendRune(b, r)
		default:
			return "", d.syntax(at)
		}
	}
	return "", d.syntax(at)
}

// hexRune reads four hex digits.
func hexRune(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	r := rune(0)
	for i := range 4 {
		if !hexDigit(s[i]) {
			return 0, false
		}
		r = r<<4 | rune(nibble(s[i]))
	}
	return r, true
}

// appendCanonical writes a value in canonical form (section 4.2).
func (d *jsonDoc) appendCanonical(b []byte, at int32) []byte {
	v := &d.values[at]
	switch v.kind {
	case jsonNull:
		return append(b, "null"...)
	case jsonFalse:
		return append(b, "false"...)
	case jsonTrue:
		return append(b, "true"...)
	case jsonInteger, jsonDecimal:
		if v.text == "-0" {
			return append(b, '0')
		}
		return append(b, v.text...)
	case jsonString:
		return appendString(b, v.text)
	case jsonArray:
		b = append(b, '[')
		for c := v.first; c != 0; c = d.values[c].next {
			if c != v.first {
				b = append(b, ',')
			}
			b = d.appendCanonical(b, c)
		}
		return append(b, ']')
	default:
		b = append(b, '{')
		for c := v.first; c != 0; c = d.values[c].next {
			if c != v.first {
				b = append(b, ',')
			}
			b = append(appendString(b, d.values[c].name), ':')
			b = d.appendCanonical(b, c)
		}
		return append(b, '}')
	}
}
