package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
)

// object is a JSON object of a schema.
type object = map[string]any

// openAPI is the OpenAPI document as plain JSON.
var openAPI = sync.OnceValue(func() object {
	var d object
	if err := json.Unmarshal(rest.Document(), &d); err != nil {
		panic("mcp: the OpenAPI document is not JSON: " + err.Error()) // it is made in this module
	}
	return d
})

// at follows the members of an object.
func at(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(object)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// resolver makes schemas that stand alone. Many clients hand schemas to models that
// know neither references nor unions.
type resolver struct {
	components any
	input      bool
}

// maxNesting bounds how deep schemas refer to one another.
const maxNesting = 16

// resolve gives a copy of a schema without references. Where null may stand beside an
// object, that is said by its type. In an input no null is offered: what is optional
// is left out. In an output members may be added.
func (r resolver) resolve(v any, depth int) any {
	if depth > maxNesting {
		panic("mcp: a schema of the OpenAPI document refers to itself")
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, 0, len(v))
		for _, e := range v {
			list = append(list, r.resolve(e, depth))
		}
		return list
	case object:
		if ref, ok := v["$ref"].(string); ok {
			s := r.resolve(at(r.components, strings.TrimPrefix(ref, "#/components/schemas/")), depth+1).(object)
			if d, ok := v["description"]; ok {
				s["description"] = d
			}
			return s
		}
		if union, ok := v["anyOf"].([]any); ok {
			s := r.resolve(union[0], depth).(object) // the other one is null
			if d, ok := v["description"]; ok {
				s["description"] = d
			}
			if !r.input {
				s["type"] = []any{s["type"], "null"}
			}
			return s
		}
		s := make(object, len(v))
		for name, e := range v {
			switch {
			case name == "properties":
				members := object{}
				for member, schema := range e.(object) {
					members[member] = r.resolve(schema, depth)
				}
				s[name] = members
			case name == "format" && e != "date-time": // widths of numbers
			case name == "additionalProperties" && e == false && !r.input:
			case name == "type" && r.input, name == "enum" && r.input:
				s[name] = withoutNull(e)
			default:
				s[name] = r.resolve(e, depth)
			}
		}
		return s
	}
	return v
}

func withoutNull(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	var left []any
	for _, e := range list {
		if e != nil && e != "null" {
			left = append(left, e)
		}
	}
	if len(left) == 1 {
		if t, ok := left[0].(string); ok && len(list) == 2 {
			return t // of a type and null
		}
	}
	return left
}

// inputSchema is the schema of an operation's arguments.
func inputSchema(o *operation.Operation) object {
	d := openAPI()
	described := at(d, "paths", o.Path, strings.ToLower(o.Method))
	r := resolver{components: at(d, "components", "schemas"), input: true}
	body, _ := r.resolve(at(described, "requestBody", "content", "application/json", "schema"), 0).(object)
	members, required := object{}, []any{}
	arguments := o.Arguments()
	names := map[string]operation.Field{} // of the arguments, by that of the declaration
	for _, f := range o.Fields {
		names[f.Struct.Name] = f
	}
	for _, f := range arguments {
		place := names[f.Struct.Name]
		var s object
		switch place.Place {
		case operation.Whole:
			s = body
			s["description"] = "The v1 development request. Digests cover it as it is written."
		case operation.Body:
			s = at(body, "properties", f.Name).(object)
		default:
			s = r.parameter(described, place.Name)
		}
		members[f.Name] = s
		if f.Required {
			required = append(required, f.Name)
		}
	}
	schema := object{"type": "object", "properties": members, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// parameter is the schema of a parameter of a path or a query.
func (r resolver) parameter(described any, name string) object {
	list, _ := at(described, "parameters").([]any)
	for _, p := range list {
		if at(p, "name") == name && at(p, "in") != "header" {
			s := r.resolve(at(p, "schema"), 0).(object)
			if d, ok := at(p, "description").(string); ok {
				s["description"] = d
			}
			return s
		}
	}
	panic(fmt.Sprintf("mcp: the OpenAPI document has no parameter %s", name))
}

// outputSchema is the schema of an operation's answer.
func outputSchema(o *operation.Operation) object {
	d := openAPI()
	r := resolver{components: at(d, "components", "schemas")}
	status := fmt.Sprint(o.Success[0])
	s, ok := r.resolve(at(d, "paths", o.Path, strings.ToLower(o.Method), "responses", status, "content", "application/json", "schema"), 0).(object)
	if !ok || s["type"] != "object" {
		panic("mcp: the answer of " + o.Name + " is not described as an object")
	}
	return s
}
