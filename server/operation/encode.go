package operation

import (
	"bytes"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is an input as a REST call carries it.
type Request struct {
	Method string
	Path   string // with its query, escaped
	Header http.Header
	Body   []byte // nil if the operation takes none
}

// Encode places an input in a REST call: the inverse of DecodeBody, DecodeQuery
// and SetPlaces.
func (o *Operation) Encode(in any) (Request, error) {
	from := reflect.ValueOf(in).Elem()
	r := Request{Method: o.Method, Path: o.Path, Header: http.Header{}}
	query := url.Values{}
	var body bytes.Buffer
	enc := jsontext.NewEncoder(&body)
	hasBody := false
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return r, err
	}
	for i := range o.Fields {
		f := &o.Fields[i]
		value := from.Field(f.index)
		switch f.Place {
		case Path:
			if s := value.String(); s == "" || s == "." || s == ".." {
				// No path can say that.
				name, _, _ := strings.Cut(f.Struct.Tag.Get("json"), ",")
				return r, refuse(name, "must be an identifier")
			}
			r.Path = strings.Replace(r.Path, "{"+f.Name+"}", url.PathEscape(value.String()), 1)
		case Query:
			if f.Required || !value.IsZero() {
				query[f.Name] = f.texts(value)
			}
		case Header:
			if s := value.String(); s != "" {
				r.Header.Set(f.Name, s)
			}
		case Whole:
			r.Body = value.Bytes()
		case Body:
			hasBody = true
			if !f.Required && value.IsZero() {
				continue
			}
			if err := enc.WriteToken(jsontext.String(f.Name)); err != nil {
				return r, err
			}
			if err := json.MarshalEncode(enc, value.Interface()); err != nil {
				return r, err
			}
		}
	}
	if err := enc.WriteToken(jsontext.EndObject); err != nil {
		return r, err
	}
	if hasBody {
		r.Body = body.Bytes()
	}
	if len(query) > 0 {
		r.Path += "?" + query.Encode()
	}
	return r, nil
}

// texts spells a value as the texts of query parameters.
func (f *Field) texts(v reflect.Value) []string {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice:
		return v.Interface().([]string)
	case reflect.Bool:
		return []string{strconv.FormatBool(v.Bool())}
	case reflect.Int, reflect.Int64:
		return []string{strconv.FormatInt(v.Int(), 10)}
	case reflect.Float64:
		return []string{strconv.FormatFloat(v.Float(), 'f', -1, 64)}
	default:
		return []string{v.String()}
	}
}
