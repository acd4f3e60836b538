package operation

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-authority/writ/workitem"
)

// maxName bounds how much of an unknown member's name is repeated in a refusal.
const maxName = 64

// refuse makes an invalid_request. The message never has a value of the request.
func refuse(field, message string) *workitem.Error {
	return &workitem.Error{Code: workitem.InvalidRequest, Field: field, Message: message}
}

// decoder is a JSON decoder that is used again and again.
type decoder struct {
	dec  *jsontext.Decoder
	from bytes.Reader
}

var decoders = sync.Pool{New: func() any {
	d := new(decoder)
	d.dec = jsontext.NewDecoder(&d.from)
	return d
}}

// DecodeBody reads the JSON object of a request body into the members of in that
// are in the body. Unknown members, members given twice, values of another type
// and anything behind the object are refused, with the path of the member. The
// null of an optional member is its absence. Members of a nested object that are
// not known are passed over: workers send whole claims back.
func (o *Operation) DecodeBody(body []byte, in any) error {
	if !o.BodyRequired() && len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return nil
	}
	d := decoders.Get().(*decoder)
	defer func() {
		d.from.Reset(nil)
		decoders.Put(d)
	}()
	d.from.Reset(body)
	d.dec.Reset(&d.from)
	if d.dec.PeekKind() != '{' {
		if _, err := d.dec.ReadValue(); err != nil {
			return d.syntax(err)
		}
		return refuse("", "the body must be a JSON object")
	}
	if err := d.object(reflect.ValueOf(in).Elem(), o.Fields, ""); err != nil {
		return err
	}
	switch _, err := d.dec.ReadToken(); err {
	case io.EOF:
		return nil
	case nil:
		return refuse("", "the body must end after the JSON object")
	default:
		return refuse("", "the body must end after the JSON object, without anything that is not JSON")
	}
}

// object reads an object into the fields of a struct that have their place in the
// body.
func (d *decoder) object(into reflect.Value, fields []Field, path string) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	var seen uint64 // by index: an input has far fewer than 64 members
	for d.dec.PeekKind() != '}' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return d.syntax(err)
		}
		f := find(fields, token)
		if f == nil {
			if path == "" {
				return refuse(clip(token.String()), "is not a member of this request")
			}
			if err := d.dec.SkipValue(); err != nil {
				return d.syntax(err)
			}
			continue
		}
		null := d.dec.PeekKind() == 'n'
		if err := d.value(into.Field(f.index), f, path); err != nil {
			return err
		}
		if !null {
			seen |= 1 << f.index
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	for i := range fields {
		if f := &fields[i]; f.Required && f.Place == Body && seen&(1<<f.index) == 0 {
			return refuse(path+f.Name, "is required")
		}
	}
	return nil
}

// find looks up the field of the body that a name token names.
func find(fields []Field, name jsontext.Token) *Field {
	s := name.String()
	for i := range fields {
		if fields[i].Place == Body && fields[i].Name == s {
			return &fields[i]
		}
	}
	return nil
}

// value reads the value of one member.
func (d *decoder) value(into reflect.Value, f *Field, path string) error {
	kind := d.dec.PeekKind()
	if kind == 'n' {
		if _, err := d.dec.ReadToken(); err != nil {
			return d.syntax(err)
		}
		if f.Required {
			return refuse(path+f.Name, "is required and may not be null")
		}
		return nil
	}
	if f.kind == object {
		if kind != '{' {
			return d.mistyped(path+f.Name, "must be an object")
		}
		return d.object(into, f.nested, path+f.Name+".")
	}
	if f.kind == textList {
		if kind != '[' {
			return d.mistyped(path+f.Name, "must be an array of strings")
		}
		return d.list(into, path+f.Name)
	}
	if f.kind == raw {
		return d.whole(into, f)
	}
	// A token is good until the next one is read: its text is parsed before that.
	token, err := d.dec.ReadToken()
	if err != nil {
		return d.syntax(err)
	}
	switch f.kind {
	case text, textPointer:
		if kind != '"' {
			return refuse(path+f.Name, "must be a string")
		}
	case integer, integerPointer:
		if kind != '0' {
			return refuse(path+f.Name, "must be an integer")
		}
	case number, numberPointer:
		if kind != '0' {
			return refuse(path+f.Name, "must be a number")
		}
	case boolean, booleanPointer:
		if kind != 't' && kind != 'f' {
			return refuse(path+f.Name, "must be true or false")
		}
	}
	return f.set(into, token.String(), path)
}

// whole reads a value that is kept as it is written. What is wrong in it is named
// as if it stood alone.
func (d *decoder) whole(into reflect.Value, f *Field) error {
	v, err := d.dec.ReadValue()
	if err != nil {
		e := d.syntax(err)
		e.Field = strings.TrimPrefix(e.Field, f.Name+".")
		return e
	}
	into.SetBytes(bytes.Clone(v))
	return nil
}

// list reads an array of strings.
func (d *decoder) list(into reflect.Value, path string) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	list := []string{}
	for d.dec.PeekKind() != ']' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return d.syntax(err)
		}
		if token.Kind() != '"' {
			return refuse(path, "must be an array of strings")
		}
		list = append(list, token.String())
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return d.syntax(err)
	}
	into.Set(reflect.ValueOf(list))
	return nil
}

// mistyped refuses a value of another type, unless it is not even JSON.
func (d *decoder) mistyped(path, message string) error {
	if _, err := d.dec.ReadValue(); err != nil {
		return d.syntax(err)
	}
	return refuse(path, message)
}

// syntax tells what is wrong with the JSON, and where.
func (d *decoder) syntax(err error) *workitem.Error {
	where := ""
	var s *jsontext.SyntacticError
	if errors.As(err, &s) {
		where = clip(strings.ReplaceAll(strings.TrimPrefix(string(s.JSONPointer), "/"), "/", "."))
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return refuse(where, "is given twice")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("", "the body ends before its JSON does")
	default:
		return refuse("", "the body is not valid JSON in UTF-8")
	}
}

// clip bounds a name and keeps it printable.
func clip(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}

// set parses a value that is known to be of the right JSON type, or the text of a
// query parameter.
func (f *Field) set(into reflect.Value, s, path string) error {
	switch f.kind {
	case text:
		into.SetString(s)
	case textPointer:
		into.Set(reflect.ValueOf(&s))
	case textList:
		into.Set(reflect.Append(into, reflect.ValueOf(s)))
	case integer, integerPointer:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return refuse(path+f.Name, "must be an integer, without fraction and exponent, of at most 64 bits")
		}
		if f.kind == integer {
			into.SetInt(n)
			break
		}
		i := int(n)
		into.Set(reflect.ValueOf(&i))
	case number, numberPointer:
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return refuse(path+f.Name, "must be a decimal number that a 64-bit float can hold")
		}
		if f.kind == number {
			into.SetFloat(n)
			break
		}
		into.Set(reflect.ValueOf(&n))
	case boolean, booleanPointer:
		if s != "true" && s != "false" {
			return refuse(path+f.Name, "must be true or false")
		}
		b := s == "true"
		if f.kind == boolean {
			into.SetBool(b)
			break
		}
		into.Set(reflect.ValueOf(&b))
	}
	return nil
}

// DecodeQuery reads the query of a URL into the members of in that are in the
// query. Unknown parameters, empty values, and parameters given twice are refused,
// except those that are lists.
func (o *Operation) DecodeQuery(query string, in any) error {
	into := reflect.ValueOf(in).Elem()
	var seen uint64
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" {
			continue
		}
		if strings.Contains(pair, ";") {
			// Some read it as a separator, some as a part of the value.
			return refuse("", "the query has a semicolon that is not percent-encoded (%3B)")
		}
		key, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if err != nil {
			return refuse("", "the query has a name that is not percent-encoded")
		}
		f := o.parameter(name)
		if f == nil {
			return refuse(clip(name), "is not a query parameter of this request")
		}
		value, err = url.QueryUnescape(value)
		switch {
		case err != nil || !utf8.ValidString(value):
			return refuse(name, "must be percent-encoded UTF-8")
		case value == "":
			return refuse(name, "must not be empty")
		case seen&(1<<f.index) != 0 && f.kind != textList:
			return refuse(name, "is given twice")
		case f.kind >= integer && f.kind <= numberPointer && !isNumber(value):
			return refuse(name, "must be a decimal number")
		}
		seen |= 1 << f.index
		if err := f.set(into.Field(f.index), value, ""); err != nil {
			return err
		}
	}
	for i := range o.Fields {
		if f := &o.Fields[i]; f.Place == Query && f.Required && seen&(1<<f.index) == 0 {
			return refuse(f.Name, "is required")
		}
	}
	return nil
}

// isNumber says whether a text is a number as JSON spells it.
func isNumber(s string) bool {
	v := jsontext.Value(s)
	return v.Kind() == '0' && v.IsValid()
}

// parameter finds a query parameter by its name.
func (o *Operation) parameter(name string) *Field {
	for i := range o.Fields {
		if o.Fields[i].Place == Query && o.Fields[i].Name == name {
			return &o.Fields[i]
		}
	}
	return nil
}

// SetPlaces puts what a call has outside of body and query into in: the wildcard
// of the path, the headers, and a body that is taken whole.
func (o *Operation) SetPlaces(in any, id string, header http.Header, body []byte) error {
	into := reflect.ValueOf(in).Elem()
	for i := range o.Fields {
		f := &o.Fields[i]
		switch f.Place {
		case Path:
			into.Field(f.index).SetString(id)
		case Whole:
			into.Field(f.index).SetBytes(body)
		case Header:
			values := header[http.CanonicalHeaderKey(f.Name)]
			if len(values) > 1 {
				return refuse(f.Name, "is a header that is given twice")
			}
			if len(values) == 1 {
				into.Field(f.index).SetString(values[0])
			}
		}
	}
	return nil
}
