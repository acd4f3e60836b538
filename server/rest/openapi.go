package rest

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// schemas is where the document keeps the schemas of its types.
const schemas = "#/components/schemas/"

// null is the schema of null alone.
func null() *huma.Schema { return &huma.Schema{Type: "null", Enum: []any{nil}} }

// Document gives the OpenAPI 3.1 document of everything below /v1, as JSON. It may
// not be changed.
func Document() []byte { return document() }

var document = sync.OnceValue(func() []byte {
	text, err := json.MarshalIndent(OpenAPI(), "", "  ")
	if err != nil {
		// It is made from declarations of this module only.
		panic("rest: the OpenAPI document can't be made: " + err.Error())
	}
	return append(text, '\n')
})

// OpenAPI makes the document from the table of operations and the types that the
// handlers decode and encode.
func OpenAPI() *huma.OpenAPI {
	registry := huma.NewMapRegistry(schemas, huma.DefaultSchemaNamer)
	d := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:   "Writ",
			Version: "1.0.0",
			Description: "The authority for jobs of repository work. Every refusal is application/problem+json (RFC 9457) with code, field, retryable and request_id; " +
				"it never shows a value of the request. Members that end in _s are seconds, the times of claims and leases are seconds since the Unix epoch, all others are RFC 3339.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/", Description: "The server that gave this document"}},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {
				Type: "http", Scheme: "bearer",
				Description: "A static token, a JWT, or on a loopback listener with development tokens dev:TENANT:OWNER[:SCOPES].",
			}},
			Responses: map[string]*huma.Response{},
		},
		Security: []map[string][]string{{"bearer": {}}},
	}
	for _, g := range operation.Groups {
		d.Tags = append(d.Tags, &huma.Tag{Name: g.Name, Description: g.Description})
	}
	problem := registry.Schema(reflect.TypeFor[Problem](), true, "")
	for _, row := range codes {
		name := strconv.Itoa(row.status)
		if row.code == MethodNotAllowed || d.Components.Responses[name] != nil {
			continue
		}
		r := &huma.Response{Description: http.StatusText(row.status),
			Content: map[string]*huma.MediaType{ContentType: {Schema: problem}},
			Headers: map[string]*huma.Param{"X-Request-Id": header("The id of the call")}}
		switch row.status {
		case http.StatusUnauthorized:
			r.Headers["WWW-Authenticate"] = header("Bearer")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			r.Headers["Retry-After"] = header("Seconds to wait before the call is repeated")
		}
		d.Components.Responses[name] = r
	}
	inputs, outputs := map[reflect.Type]bool{}, map[reflect.Type]bool{}
	for _, o := range operation.Table {
		d.AddOperation(operationOf(o, registry))
		if o.HasBody() {
			reach(bodyOf(o), inputs)
		}
		reach(o.Out, outputs)
	}
	for name, s := range registry.Map() {
		t := registry.TypeFromRef(schemas + name)
		switch {
		case t == reflect.TypeFor[workitem.Fence]():
			s.AdditionalProperties = true
			s.Description = "A claim as it was given, or these members of it. Others are not looked at."
		case t == reflect.TypeFor[Problem]():
			list := []any{}
			for _, row := range codes {
				list = append(list, string(row.code))
			}
			s.Properties["code"].Enum = list
		}
		nullable(t, s, inputs[t] && !outputs[t])
		s.PrecomputeMessages()
	}
	return d
}

func header(doc string) *huma.Param {
	return &huma.Param{Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
}

// bodyOf is the type whose schema documents an operation's body.
func bodyOf(o *operation.Operation) reflect.Type {
	if o == submit {
		return reflect.TypeFor[operation.JobRequest]()
	}
	return o.In
}

// operationOf describes one operation.
func operationOf(o *operation.Operation, registry huma.Registry) *huma.Operation {
	op := &huma.Operation{
		OperationID: o.Name, Method: o.Method, Path: o.Path, Tags: []string{o.Group},
		Summary:     o.Summary,
		Description: o.Description + "\n\nScope: " + strings.Join(o.Scope.Names(), " and ") + ".",
		Responses:   map[string]*huma.Response{},
	}
	for _, f := range o.Fields {
		where := map[operation.Place]string{operation.Path: "path", operation.Query: "query", operation.Header: "header"}[f.Place]
		if where == "" {
			continue
		}
		field := f.Struct
		if where == "header" {
			// Headers of this interface are plain texts.
			field.Tag = reflect.StructTag(strings.ReplaceAll(string(field.Tag), "header:", "-:"))
		}
		s := huma.SchemaFromField(registry, field, "")
		s.Nullable = false
		description := s.Description
		s.Description = ""
		op.Parameters = append(op.Parameters, &huma.Param{Name: f.Name, In: where, Required: f.Required,
			Description: description, Schema: s})
	}
	if o.HasBody() {
		t := bodyOf(o)
		s := registry.Schema(t, true, "")
		if t == o.In {
			prune(o, registry.SchemaFromRef(s.Ref))
		}
		op.RequestBody = &huma.RequestBody{Required: o.BodyRequired(),
			Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
	}
	out := registry.Schema(o.Out, true, "")
	for _, status := range o.Success {
		r := &huma.Response{Description: map[int]string{http.StatusOK: "Done", http.StatusCreated: "Made"}[status],
			Content: map[string]*huma.MediaType{"application/json": {Schema: out}},
			Headers: map[string]*huma.Param{"X-Request-Id": header("The id of the call")}}
		if slices.Contains(o.Success, http.StatusCreated) {
			r.Headers["Location"] = header("Where it is")
		}
		switch o.Out {
		case reflect.TypeFor[workitem.View]():
			r.Headers["ETag"] = header("Changes with the job; for If-None-Match")
			op.Parameters = append(op.Parameters, &huma.Param{Name: "If-None-Match", In: "header",
				Description: "The ETag of an earlier answer: 304 if nothing has changed", Schema: &huma.Schema{Type: huma.TypeString}})
			op.Responses["304"] = &huma.Response{Description: "Not changed"}
		case reflect.TypeFor[workitem.ClaimAnswer]():
			r.Headers["Traceparent"] = header("The trace context of the submission, if it had one")
		}
		op.Responses[strconv.Itoa(status)] = r
	}
	refusals := append([]workitem.Code{workitem.InvalidRequest, workitem.Unauthenticated, workitem.ForbiddenScope,
		workitem.TooManyRequests, workitem.Internal, workitem.AuthorityUnavailable}, o.Refusals...)
	if o.HasBody() {
		refusals = append(refusals, workitem.PayloadTooLarge)
	}
	for _, code := range refusals {
		name := strconv.Itoa(Status(code))
		op.Responses[name] = &huma.Response{Ref: "#/components/responses/" + name}
	}
	return op
}

// prune leaves only the members of the body in the schema of an input.
func prune(o *operation.Operation, s *huma.Schema) {
	for _, f := range o.Fields {
		if f.Place != operation.Body {
			name, _, _ := strings.Cut(f.Struct.Tag.Get("json"), ",")
			delete(s.Properties, name)
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
	}
}

// reach collects the struct types that a type has, itself included.
func reach(t reflect.Type, found map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		reach(t.Elem(), found)
	case reflect.Struct:
		if found[t] {
			return
		}
		found[t] = true
		for i := range t.NumField() {
			reach(t.Field(i).Type, found)
		}
	}
}

// nullable says where null may stand. In answers that is where a pointer is not
// left out; lists are never null. In requests it is every optional member of a
// verb's input, and in the job request what its declaration says.
func nullable(t reflect.Type, s *huma.Schema, input bool) {
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			continue
		}
		optional := strings.Contains(options, "omitempty")
		verb := input && t.PkgPath() == reflect.TypeFor[workitem.JobInput]().PkgPath()
		switch {
		case p.Type == huma.TypeArray:
			p.Nullable = input
		case p.Ref != "" && f.Type.Kind() == reflect.Pointer && optional == input:
			s.Properties[name] = &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, null()}, Description: p.Description}
		case p.Ref == "" && verb && optional:
			p.Nullable = true
		}
		if p.Nullable && len(p.Enum) > 0 && !slices.Contains(p.Enum, nil) {
			p.Enum = append(p.Enum, nil)
		}
	}
}
