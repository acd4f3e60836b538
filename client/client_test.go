package client_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

var caller = workitem.Principal{Subject: "s", Tenant: "t", Owner: "o", Scopes: workitem.ScopeAdmin}

// TestEveryVerbArrives calls each verb through REST: its input must arrive as it
// was given, and its answer come back as it was.
func TestEveryVerbArrives(t *testing.T) {
	t.Parallel()
	for _, o := range operation.Table {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			fake := new(resttest.Fake)
			b := resttest.Serve(t, func(p workitem.Principal) operation.Jobs {
				if p != caller {
					t.Errorf("principal %+v", p)
				}
				return fake
			})
			for _, full := range []bool{true, false} {
				in := o.NewInput()
				fill(reflect.ValueOf(in).Elem(), full)
				want, err := o.Call(t.Context(), new(resttest.Fake), in)
				if err != nil {
					t.Fatal(err)
				}
				got, err := o.Call(t.Context(), b.Client(t, caller), in)
				if err != nil {
					t.Fatal(err)
				}
				if _, arrived := fake.Calls(); !reflect.DeepEqual(arrived, in) {
					t.Errorf("arrived %+v, sent %+v", arrived, in)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
		})
	}
}

// fill gives values to the members of an input, to all or to those that must be
// there.
func fill(v reflect.Value, all bool) {
	for i := range v.NumField() {
		f, s := v.Field(i), v.Type().Field(i)
		if !all && (s.Tag.Get("header") != "" || strings.HasSuffix(s.Tag.Get("json"), ",omitempty")) {
			continue
		}
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		switch f.Kind() {
		case reflect.String:
			text := "a b&c=d/%ü"
			if s.Tag.Get("header") != "" {
				text = "key-1"
			}
			f.SetString(text)
		case reflect.Int, reflect.Int64:
			f.SetInt(1<<53 + 1)
		case reflect.Float64:
			f.SetFloat(0.000001)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Struct:
			fill(f, all)
		case reflect.Slice:
			if s.Type.Elem().Kind() == reflect.Uint8 {
				f.SetBytes([]byte(`{"idempotency_key": "k" }`))
			} else {
				f.Set(reflect.ValueOf([]string{"a,b", "c"}))
			}
		}
	}
}
