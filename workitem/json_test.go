package workitem

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestCanonicalJSONGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Value     json.RawMessage
			Canonical string
			SHA256    string
		}
	}
	vectors(t, "requests.json", "canonical_json", &v)
	if len(v.Cases) != 8 {
		t.Fatalf("the vectors have %d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		doc, refusal := parseJSON(c.Value)
		if refusal != nil {
			t.Errorf("%s: %v", c.Value, refusal)
			continue
		}
		got := doc.appendCanonical(nil, 0)
		if string(got) != c.Canonical || Digest(sha256.Sum256(got)).String() != c.SHA256 {
			t.Errorf("%s: %s, want %s", c.Value, got, c.Canonical)
		}
	}
}

func TestParseJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, canonical string }{
		{" null ", "null"}, {"true", "true"}, {"\tfalse\r\n", "false"}, {"-0", "0"}, {"0", "0"},
		{"-12345678901234567890123", "-12345678901234567890123"}, {"1.50", "1.50"}, {"1E+2", "1E+2"},
		{`[ ]`, `[]`}, {`{ }`, `{}`}, {`[1,[2,[]],{"a":[{}]}]`, `[1,[2,[]],{"a":[{}]}]`},
		{`{"b":1,"a":{"d":2,"c":3}}`, `{"a":{"c":3,"d":2},"b":1}`},
		{`{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{`"\"\\\/\b\f\n\r\t\u001f\u007f\u2028\ud83d\udd11"`, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\u007f\u2028🔑\""},
		{strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)},
	} {
		doc, refusal := parseJSON([]byte(c.raw))
		if refusal != nil {
			t.Errorf("%s: %v", c.raw, refusal)
			continue
		}
		if got := string(doc.appendCanonical(nil, 0)); got != c.canonical {
			t.Errorf("%s: %s, want %s", c.raw, got, c.canonical)
		}
		doc.release()
	}
}

func TestParseJSONRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", " ", "nul", "nulll", "True", "01", "-", "-01", "+1", ".5", "1.", "1.e5", "1e", "1e+", "0x1", "NaN", "Infinity",
		`"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\t\"", "\"\x00\"", `'a'`, "\"\xc3\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf{}",
		`[`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{1:1}`, `{"a" 1}`, `{,}`,
		`{} {}`, `1 2`, `{}//`, `"\ud800"`, `"\udc00"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\ud800"`, `{"\ud800":1}`,
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"x":[{"y":1,"y":1}]}]`,
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
		"[" + strings.Repeat("0,", maxValues) + "0]",
	} {
		doc, refusal := parseJSON([]byte(raw))
		if refusal == nil {
			t.Errorf("%.80s: read as %s", raw, doc.appendCanonical(nil, 0))
			continue
		}
		if !errors.Is(refusal, ErrInvalidRequest) || refusal.Message == "" {
			t.Errorf("%.80s: %v", raw, refusal)
		}
	}
}

// Many members are sorted by another way than few.
func TestParseJSONSortsManyMembers(t *testing.T) {
	t.Parallel()
	var raw, want strings.Builder
	for i := 999; i >= 0; i-- {
		raw.WriteString(`,"m` + string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + `":0`)
		j := 999 - i
		want.WriteString(`,"m` + string(rune('0'+j/100)) + string(rune('0'+j/10%10)) + string(rune('0'+j%10)) + `":0`)
	}
	doc, refusal := parseJSON([]byte("{" + raw.String()[1:] + "}"))
	if refusal != nil {
		t.Fatal(refusal)
	}
	if got := string(doc.appendCanonical(nil, 0)); got != "{"+want.String()[1:]+"}" {
		t.Errorf("members are in the order %.100s", got)
	}
	if _, refusal := parseJSON([]byte("{" + raw.String()[1:] + `,"m500":1}`)); refusal == nil || refusal.Field != "m500" {
		t.Errorf("a member that is there twice: %v", refusal)
	}
}

// The reader takes what encoding/json takes, apart from what it is meant to refuse,
// and understands the same by it.
func FuzzParseJSON(f *testing.F) {
	for _, c := range goldenRequests(f) {
		f.Add([]byte(c.Contract))
	}
	f.Add([]byte(`{"b":[1.5e3,-0,true,null,"\ud83d\udd11"],"a":{"":"\/"}}`))
	f.Add([]byte(`[{"a":1,"\u0061":2},"\udd11"]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, refusal := parseJSON(raw)
		if refusal != nil {
			if !json.Valid(raw) {
				return
			}
			for _, meant := range []string{"is there twice", "has half of a surrogate pair", "is nested too deeply", "has too many values", "is not valid UTF-8"} {
				if strings.Contains(refusal.Message, meant) {
					return
				}
			}
			t.Fatalf("%q is refused: %v", raw, refusal)
		}
		canonical := doc.appendCanonical(nil, 0)
		if got, want := decoded(t, canonical), decoded(t, raw); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as %q", raw, canonical)
		}
		again, refusal := parseJSON(canonical)
		if refusal != nil {
			t.Fatalf("%q: its canonical form %q: %v", raw, canonical, refusal)
		}
		if got := again.appendCanonical(nil, 0); string(got) != string(canonical) {
			t.Fatalf("%q: canonical form %q, and of that %q", raw, canonical, got)
		}
	})
}

// decoded is what encoding/json reads, with numbers as they are spelt.
func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return withoutMinusZero(v)
}

// withoutMinusZero spells the one integer that the canonical form spells anew.
func withoutMinusZero(v any) any {
	switch v := v.(type) {
	case json.Number:
		if v == "-0" {
			return json.Number("0")
		}
	case []any:
		for i, e := range v {
			v[i] = withoutMinusZero(e)
		}
	case map[string]any:
		for name, e := range v {
			v[name] = withoutMinusZero(e)
		}
	}
	return v
}
