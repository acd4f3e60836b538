package operation

import (
	"bytes"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// argumentsOf gives the members of an input as one flat object has them: under the
// names that they have in JSON, wherever REST puts them. Headers are not among them.
func argumentsOf(fields []Field) []Field {
	var flat []Field
	for _, f := range fields {
		if f.Place == Header {
			continue
		}
		name, options, _ := strings.Cut(f.Struct.Tag.Get("json"), ",")
		f.Name, f.Required, f.Place = name, !strings.Contains(options, "omitempty"), Body
		flat = append(flat, f)
	}
	return flat
}

// Arguments are the members of the input as a tool has them: all in one object,
// under the names that they have in JSON.
func (o *Operation) Arguments() []Field { return o.arguments }

// DecodeArguments reads the arguments of a tool into the members of in, as strictly
// as DecodeBody. No arguments are an empty object. A member that is taken whole is a
// copy of its bytes, in which no member is given twice.
func (o *Operation) DecodeArguments(arguments []byte, in any) error {
	if len(bytes.TrimLeft(arguments, " \t\r\n")) == 0 {
		arguments = []byte("{}")
	}
	if jsontext.Value(arguments).Kind() != '{' {
		return refuse("", "the arguments must be a JSON object")
	}
	d := decoders.Get().(*decoder)
	defer func() {
		d.from.Reset(nil)
		decoders.Put(d)
	}()
	d.from.Reset(arguments)
	d.dec.Reset(&d.from)
	return d.object(reflect.ValueOf(in).Elem(), o.arguments, "")
}
