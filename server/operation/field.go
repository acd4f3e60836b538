package operation

import (
	"fmt"
	"reflect"
	"strings"
)

// Place says where in a REST call a member of an input is.
type Place uint8

// The places.
const (
	Body   Place = iota // a member of the JSON body
	Whole               // the body itself, byte for byte
	Path                // the wildcard of the path
	Query               // a query parameter
	Header              // a header, not shown to tools
)

// Field is one member of an input.
type Field struct {
	// Name is the member's name in JSON, the query parameter or the header.
	Name     string
	Place    Place
	Required bool
	// Struct is the declaration, for documentation.
	Struct reflect.StructField

	index int
	kind  kind
	// nested are the fields of an object.
	nested []Field
}

// kind is the shape of a member's value.
type kind uint8

const (
	text kind = iota
	textPointer
	textList
	integer
	integerPointer
	number
	numberPointer
	boolean
	booleanPointer
	object
	raw
)

// kindOf gives the shape of a Go type. The inputs are declared in this module, so
// that one without a shape is a mistake that no test can miss: it panics.
func kindOf(t reflect.Type) kind {
	switch t.String() {
	case "string":
		return text
	case "*string":
		return textPointer
	case "[]string":
		return textList
	case "int", "int64":
		return integer
	case "*int":
		return integerPointer
	case "float64":
		return number
	case "*float64":
		return numberPointer
	case "bool":
		return boolean
	case "*bool":
		return booleanPointer
	case "[]uint8":
		return raw
	}
	if t.Kind() == reflect.Struct {
		return object
	}
	panic(fmt.Sprintf("operation: a member of an input can't be a %s", t))
}

// fieldsOf reads the members of an input from the tags of its declaration: path,
// query and header place a member, json names it, and omitempty or a pointer makes
// it optional.
func fieldsOf(t reflect.Type) []Field {
	var fields []Field
	for i := range t.NumField() {
		s := t.Field(i)
		name, options, _ := strings.Cut(s.Tag.Get("json"), ",")
		f := Field{Name: name, Place: Body, Required: !strings.Contains(options, "omitempty"),
			Struct: s, index: i, kind: kindOf(s.Type)}
		switch {
		case f.kind == raw:
			f.Place = Whole
		case s.Tag.Get("header") != "":
			f.Name, f.Place, f.Required = s.Tag.Get("header"), Header, false
		case s.Tag.Get("path") != "":
			f.Name, f.Place, f.Required = s.Tag.Get("path"), Path, true
		case s.Tag.Get("query") != "":
			f.Name, f.Place = s.Tag.Get("query"), Query
		}
		if f.kind == object {
			f.nested = fieldsOf(s.Type)
		}
		fields = append(fields, f)
	}
	return fields
}
