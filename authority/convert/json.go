package convert

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/writ-authority/writ/bindb/record"
)

// maxDocument bounds one JSON document, in bytes.
const maxDocument = 1 << 30

// moment is an RFC 3339 time or null.
type moment struct {
	record.Seconds
	set bool
}

// opaque is a value of which only null can be converted: what else it says is
// known to nobody but the server that wrote it.
type opaque struct{}

// decodeDocument reads a JSON document into the struct that v points to. It knows
// structs, slices, pointers, which may be null, strings, booleans, unsigned
// integers, moment and opaque. A field without the option "optional" in its tag "row"
// must be there. Unknown and repeated names, names in another case, numbers that
// are no plain integers, text that is not UTF-8 and anything behind the document
// are refused, with the path of the value. name is the file, for the error.
func decodeDocument(name string, raw []byte, v any) error {
	d := &decoder{name: name, b: raw}
	if len(raw) > maxDocument {
		return d.bad("has %d bytes, more than %d", len(raw), maxDocument)
	}
	if !utf8.Valid(raw) {
		return d.bad("is not UTF-8")
	}
	if err := d.value(reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	if d.space(); d.i < len(d.b) {
		return d.bad("goes on behind its end, at byte %d", d.i)
	}
	return nil
}

// decoder goes through a document once.
type decoder struct {
	name string
	b    []byte
	i    int
	path []step
}

// step is a name or an index of a path.
type step struct {
	name  string
	index int
}

// bad refuses the value at the present path.
func (d *decoder) bad(format string, args ...any) error {
	var p strings.Builder
	for _, s := range d.path {
		switch {
		case s.name == "":
			fmt.Fprintf(&p, "[%d]", s.index)
		case p.Len() > 0:
			p.WriteString("." + s.name)
		default:
			p.WriteString(s.name)
		}
	}
	if p.Len() > 0 {
		return sourcef(d.name+": "+p.String(), format, args...)
	}
	return sourcef(d.name, format, args...)
}

func (d *decoder) space() {
	for d.i < len(d.b) {
		switch d.b[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

// next skips space and returns the byte that follows, 0 at the end.
func (d *decoder) next() byte {
	d.space()
	if d.i == len(d.b) {
		return 0
	}
	return d.b[d.i]
}

// word takes a literal.
func (d *decoder) word(w string) bool {
	if !strings.HasPrefix(string(d.b[d.i:min(len(d.b), d.i+len(w))]), w) {
		return false
	}
	d.i += len(w)
	return true
}

// found says what comes next, for an error.
func (d *decoder) found() string {
	switch c := d.next(); {
	case d.i == len(d.b):
		return "the end of the document"
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	case d.word("null"):
		return "null"
	case d.word("true"), d.word("false"):
		return "a boolean"
	}
	return fmt.Sprintf("%q", d.b[d.i:min(len(d.b), d.i+1)])
}

var (
	momentType = reflect.TypeFor[moment]()
	opaqueType = reflect.TypeFor[opaque]()
)

func (d *decoder) value(v reflect.Value) error {
	c := d.next()
	switch v.Type() {
	case momentType:
		return d.moment(v.Addr().Interface().(*moment))
	case opaqueType:
		if c == 'n' && d.word("null") {
			return nil
		}
		return d.bad("is %s, want null: opaque data cannot be converted", d.found())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if c == 'n' && d.word("null") {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(v.Elem())
	case reflect.Struct:
		return d.object(v)
	case reflect.Slice:
		return d.array(v)
	case reflect.String:
		if c != '"' {
			return d.bad("is %s, want a string", d.found())
		}
		s, err := d.text()
		v.SetString(s)
		return err
	case reflect.Bool:
		switch {
		case d.word("true"):
			v.SetBool(true)
		case d.word("false"):
		default:
			return d.bad("is %s, want true or false", d.found())
		}
		return nil
	default:
		return d.integer(v)
	}
}

// integer reads a number from 0 that fits v.
func (d *decoder) integer(v reflect.Value) error {
	begin := d.i
	for d.i < len(d.b) && '0' <= d.b[d.i] && d.b[d.i] <= '9' {
		d.i++
	}
	digits := string(d.b[begin:d.i])
	if digits == "" {
		return d.bad("is %s, want an integer from 0", d.found())
	}
	if d.i < len(d.b) && strings.IndexByte(".eE", d.b[d.i]) >= 0 || len(digits) > 1 && digits[0] == '0' {
		return d.bad("is a number that is no plain integer")
	}
	bits := v.Type().Bits()
	n, err := strconv.ParseUint(digits, 10, bits)
	if err != nil {
		return d.bad("is %.30s, want at most %d", digits, ^uint64(0)>>(64-bits))
	}
	v.SetUint(n)
	return nil
}

func (d *decoder) moment(m *moment) error {
	if d.word("null") {
		return nil
	}
	if d.next() != '"' {
		return d.bad("is %s, want an RFC 3339 time or null", d.found())
	}
	s, err := d.text()
	if err != nil {
		return err
	}
	if m.Seconds, err = record.ParseSeconds(s); err != nil {
		return d.bad("is no time: %v", err)
	}
	if m.Seconds == 0 {
		return d.bad("is %q, want null for an unknown time: the format keeps no time in the first second of 1970", s)
	}
	m.set = true
	return nil
}

func (d *decoder) array(v reflect.Value) error {
	if d.next() != '[' {
		return d.bad("is %s, want an array", d.found())
	}
	d.i++
	v.SetLen(0)
	if d.next() == ']' {
		d.i++
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return nil
	}
	d.path = append(d.path, step{})
	for {
		n := v.Len()
		d.path[len(d.path)-1].index = n
		if n == v.Cap() {
			v.Grow(max(4, n))
		}
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		if err := d.value(v.Index(n)); err != nil {
			return err
		}
		switch d.next() {
		case ',':
			d.i++
		case ']':
			d.i++
			d.path = d.path[:len(d.path)-1]
			return nil
		default:
			return d.bad("is followed by %s, want a comma or the end of the array", d.found())
		}
	}
}

// members are the fields of a struct by name.
type members struct {
	byName map[string]int
	names  []string
	need   uint64 // those that must be there
}

var membersOf sync.Map // reflect.Type to *members

func fieldsOf(t reflect.Type) *members {
	if m, ok := membersOf.Load(t); ok {
		return m.(*members)
	}
	m := &members{byName: map[string]int{}}
	for i := range t.NumField() {
		name, option, _ := strings.Cut(t.Field(i).Tag.Get("row"), ",")
		m.byName[name] = i
		m.names = append(m.names, name)
		if option != "optional" {
			m.need |= 1 << i
		}
	}
	membersOf.Store(t, m)
	return m
}

func (d *decoder) object(v reflect.Value) error {
	if d.next() != '{' {
		return d.bad("is %s, want an object", d.found())
	}
	d.i++
	m := fieldsOf(v.Type())
	seen := uint64(0)
	for first := true; ; first = false {
		c := d.next()
		if c == '}' && first {
			d.i++
			break
		}
		if c != '"' {
			return d.bad("goes on with %s, want a name in quotes", d.found())
		}
		name, err := d.text()
		if err != nil {
			return err
		}
		d.path = append(d.path, step{name: name})
		i, ok := m.byName[name]
		switch {
		case name == "":
			d.path = d.path[:len(d.path)-1]
			return d.bad("has a member without a name")
		case !ok:
			return d.bad("is unknown; known are %s", strings.Join(m.names, ", "))
		case seen>>i&1 != 0:
			return d.bad("is there twice")
		}
		seen |= 1 << i
		if d.next() != ':' {
			return d.bad("is followed by %s, want a colon", d.found())
		}
		d.i++
		if err := d.value(v.Field(i)); err != nil {
			return err
		}
		d.path = d.path[:len(d.path)-1]
		switch d.next() {
		case ',':
			d.i++
			continue
		case '}':
			d.i++
		default:
			return d.bad("goes on with %s, want a comma or the end of the object", d.found())
		}
		break
	}
	for i, name := range m.names {
		if m.need&^seen>>i&1 != 0 {
			return d.bad("has no %s", name)
		}
	}
	return nil
}

// text reads a string.
func (d *decoder) text() (string, error) {
	d.i++
	begin := d.i
	for d.i < len(d.b) {
		switch c := d.b[d.i]; {
		case c == '"':
			d.i++
			return string(d.b[begin : d.i-1]), nil
		case c == '\\':
			return d.escaped(append([]byte(nil), d.b[begin:d.i]...))
		case c < 0x20:
			return "", d.bad("has the control character %#02x in a string", c)
		}
		d.i++
	}
	return "", d.bad("has a string without an end")
}

// escaped reads the rest of a string of which s was read.
func (d *decoder) escaped(s []byte) (string, error) {
	for d.i < len(d.b) {
		c := d.b[d.i]
		switch {
		case c == '"':
			d.i++
			return string(s), nil
		case c < 0x20:
			return "", d.bad("has the control character %#02x in a string", c)
		case c != '\\':
			s = append(s, c)
			d.i++
			continue
		}
		if d.i+1 == len(d.b) {
			break
		}
		d.i++
		c = d.b[d.i]
		d.i++
		if at := strings.IndexByte(`"\/bfnrt`, c); at >= 0 {
			s = append(s, "\"\\/\b\f\n\r\t"[at])
			continue
		}
		if c != 'u' {
			return "", d.bad("has the escape \\%c, which JSON does not know", c)
		}
		r, err := d.unicode()
		if err != nil {
			return "", err
		}
		s = utf8.AppendRune(s, r)
	}
	return "", d.bad("has a string without an end")
}

// unicode reads what follows \u, and the second half of a surrogate pair.
func (d *decoder) unicode() (rune, error) {
	four := func() (rune, bool) {
		if d.i+4 > len(d.b) {
			return 0, false
		}
		n, err := strconv.ParseUint(string(d.b[d.i:d.i+4]), 16, 16)
		d.i += 4
		return rune(n), err == nil
	}
	r, ok := four()
	if ok && !utf16.IsSurrogate(r) {
		return r, nil
	}
	if ok && d.word(`\u`) {
		low, ok := four()
		if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
			return r, nil
		}
	}
	return 0, d.bad("has a \\u escape that stands for no character")
}
