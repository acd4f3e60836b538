package workitem

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestFailureRefGolden(t *testing.T) {
	t.Parallel()
	type failure struct {
		Class  *string `json:"failure_class"`
		Code   *string `json:"refusal_code"`
		Ref    *string `json:"error_ref"`
		Stored *string `json:"stored_error_ref"`
	}
	var v struct{ Encode, Decode []failure }
	vectors(t, "rules.json", "failure_ref", &v)
	if len(v.Encode) != 5 || len(v.Decode) != 5 {
		t.Fatalf("the vectors have %d and %d cases", len(v.Encode), len(v.Decode))
	}
	for _, c := range v.Encode {
		got, err := FailureRef(c.Class, c.Code, c.Ref)
		if err != nil || !reflect.DeepEqual(nullable(&got), c.Stored) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	for _, c := range v.Decode {
		class, code, ref := SplitFailureRef(*c.Stored)
		if !reflect.DeepEqual([]*string{class, code, ref}, []*string{c.Class, c.Code, c.Ref}) {
			t.Errorf("%s: %v, %v, %v", *c.Stored, class, code, ref)
		}
	}
	if class, code, ref := SplitFailureRef(""); class != nil || code != nil || ref != nil {
		t.Error("null is read as a failure")
	}
	both := "repository-error:v1:a:b:c"
	if class, code, ref := SplitFailureRef(both); class != nil || code != nil || ref == nil || *ref != both {
		t.Error("a class and a code together are read")
	}
}

func TestFailureRefRefuses(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		class, code, ref *string
		field            string
	}{
		{text("a"), text("b"), nil, "refusal_code"},
		{text("a:b"), nil, nil, "failure_class"},
		{nil, text("a:b"), nil, "refusal_code"},
		{text("a\n"), nil, nil, "failure_class"},
		{nil, text("a\x7f"), nil, "refusal_code"},
		{nil, nil, text("a\x00"), "error_ref"},
		{nil, nil, text("a\xff"), "error_ref"},
		{nil, nil, text(strings.Repeat("a", 2049)), "error_ref"},
		{text(strings.Repeat("a", 257)), nil, nil, "failure_class"},
	} {
		_, err := FailureRef(c.class, c.code, c.ref)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != InvalidRequest || refusal.Field != c.field {
			t.Errorf("%v, want a refusal of %s", err, c.field)
		}
	}
	if got, err := FailureRef(text(""), text(""), text("")); err != nil || got != "" {
		t.Errorf("empty parts give %q, %v", got, err)
	}
	if err := CheckRef("result_ref", strings.Repeat("a", 2048)); err != nil {
		t.Errorf("the longest reference: %v", err)
	}
}
