package operation_test

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// value draws something for a member.
func value(t *rapid.T, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+" is there") {
			v.Set(reflect.New(v.Type().Elem()))
			value(t, v.Elem(), name)
		}
	case reflect.String:
		v.SetString(rapid.StringN(1, 20, -1).Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(-1e15, 1e15).Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{}`))
		} else {
			v.Set(reflect.ValueOf(rapid.SliceOfN(rapid.StringN(1, 9, -1), 1, 3).Draw(t, name)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			value(t, v.Field(i), v.Type().Field(i).Name)
		}
	}
}

// TestEncodeAndDecode: what a client places in a call, a server finds there.
func TestEncodeAndDecode(t *testing.T) {
	t.Parallel()
	for _, o := range operation.Table {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				in, got := o.NewInput(), o.NewInput()
				value(t, reflect.ValueOf(in).Elem(), "input")
				r, err := o.Encode(in)
				if err != nil {
					for _, f := range o.Fields { // the one text that no path can say
						if s := reflect.ValueOf(in).Elem().FieldByName(f.Struct.Name); f.Place == operation.Path && (s.String() == "." || s.String() == "..") {
							return
						}
					}
					t.Fatal(err)
				}
				u, err := url.Parse("http://host" + r.Path)
				if err != nil {
					t.Fatal(err)
				}
				id := ""
				if before, after, ok := strings.Cut(o.Path, "{id}"); ok {
					id = strings.TrimSuffix(strings.TrimPrefix(u.Path, before), after)
				}
				if err := o.DecodeQuery(u.RawQuery, got); err != nil {
					t.Fatal(err)
				}
				if o.Name != "job_submit" && o.HasBody() {
					if err := o.DecodeBody(r.Body, got); err != nil {
						t.Fatalf("%v: %s", err, r.Body)
					}
				}
				if err := o.SetPlaces(got, id, r.Header, r.Body); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, in) {
					t.Fatalf("got %+v, want %+v", got, in)
				}
			})
		})
	}
}

func TestIdentifiersThatNoPathCanSay(t *testing.T) {
	t.Parallel()
	get, _ := operation.ByName("job_get")
	for _, id := range []string{"", ".", ".."} {
		_, err := get.Encode(&workitem.GetInput{JobID: id})
		var e *workitem.Error
		if !errors.As(err, &e) || e.Code != workitem.InvalidRequest || e.Field != "job_id" {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// FuzzDecodeBody: no body makes the decoder do anything but fill an input or
// refuse; what it takes, encoding/json/v2 takes too and reads in the same way.
func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"claim":{"work_item_id":"w","lease_owner":"l","lease_epoch":1,"fencing_token":1,"x":[{}]},"outcome":"failed","retryable":false}`,
		`{"kind":"k","worker":"w","lease_ttl_s":1e3,"wait_s":null}`, `{"name":"n","subject":"s","scopes":["a","b"]}`,
		`{"older_than_s":-0.0,"dry_run":true}`, `{"limit":9223372036854775807}`, `{"a":1,"a":2}`, `{"claim":{"x":{"y":1,"y":2}}}`, `{"\ud800":1}`, ` { } x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, o := range operation.Table {
			if !o.HasBody() || o.Name == "job_submit" {
				continue
			}
			in := o.NewInput()
			if err := o.DecodeBody(body, in); err != nil {
				var e *workitem.Error
				if !errors.As(err, &e) || e.Code != workitem.InvalidRequest || e.Message == "" || len(e.Field) > 200 {
					t.Fatalf("%s: %#v", o.Name, err)
				}
				continue
			}
			if strings.TrimSpace(string(body)) == "" {
				continue
			}
			want := o.NewInput()
			if err := json.Unmarshal(body, want); err != nil {
				t.Fatalf("%s took what is not JSON: %v", o.Name, err)
			}
			if got, want := spell(t, in), spell(t, want); got != want {
				t.Fatalf("%s: read %s, want %s", o.Name, got, want)
			}
		}
	})
}

func spell(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzDecodeQuery: likewise for queries.
func FuzzDecodeQuery(f *testing.F) {
	for _, seed := range []string{"", "limit=1", "state=ready&state=failed&&claimable=true", "wait_s=1e2&until=terminal", "limit=%2b1", "worker=%ff", "a;b", "lane_id=a;b", "lane_id=a%3Bb", "=", "limit"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, o := range operation.Table {
			in := o.NewInput()
			if err := o.DecodeQuery(query, in); err != nil {
				var e *workitem.Error
				if !errors.As(err, &e) || e.Code != workitem.InvalidRequest || len(e.Field) > 200 {
					t.Fatalf("%s: %#v", o.Name, err)
				}
				continue
			}
			if o.Name == "job_list" {
				want, err := url.ParseQuery(query)
				if err != nil {
					t.Fatalf("took a query that is none: %v", err)
				}
				if got := in.(*workitem.ListInput).LaneID; got != want.Get("lane_id") {
					t.Fatalf("lane_id %q, want %q", got, want.Get("lane_id"))
				}
			}
		}
	})
}
