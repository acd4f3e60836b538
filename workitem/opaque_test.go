package workitem

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func plainOpaque(s string) (string, bool) {
	plain, ok := decodeOpaque(nil, s)
	return string(plain), ok
}

func TestOpaqueGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases       []struct{ Plain, Encoded, Decoded string }
		Passthrough []struct{ Input, Decoded *string }
		Decode      []struct{ Input json.RawMessage }
	}
	vectors(t, "rows.json", "opaque_encoding", &v)
	if len(v.Cases) != 16 || len(v.Decode) != 6 {
		t.Fatalf("the vectors have %d and %d cases", len(v.Cases), len(v.Decode))
	}
	for _, c := range v.Cases {
		if got := string(appendOpaque(nil, c.Plain)); got != c.Encoded {
			t.Errorf("%q: %s, want %s", c.Plain, got, c.Encoded)
		}
		if got, ok := plainOpaque(c.Encoded); !ok || got != c.Decoded {
			t.Errorf("%s: %q, %v", c.Encoded, got, ok)
		}
	}
	for _, c := range v.Passthrough {
		if c.Input == nil {
			continue // null is not read as a string at all
		}
		if got, ok := plainOpaque(*c.Input); !ok || got != *c.Decoded {
			t.Errorf("%s: %q, %v", *c.Input, got, ok)
		}
	}
	for _, c := range v.Decode {
		var text string
		if json.Unmarshal(c.Input, &text) != nil {
			continue // no string: the record's reader refuses it
		}
		if got, ok := plainOpaque(text); ok {
			t.Errorf("%s was read as %q", text, got)
		}
	}
	for _, damaged := range []string{
		"opaque:v1:YQ=.=.=", "opaque:v1:YR==", "opaque:v1:YWJ.j=", "opaque:v1:Y", "opaque:v1:YW\nJj", "opaque:v1:Y=Q=", "opaque:v1:YQ= =",
	} {
		if got, ok := plainOpaque(damaged); ok {
			t.Errorf("%q was read as %q", damaged, got)
		}
	}
	if got, ok := plainOpaque("opaque:v1:Y.Q"); !ok || got != "a" {
		t.Errorf("without padding and with other dots: %q, %v", got, ok)
	}
}

func TestCheckOpaque(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a", "a b", "a:b/c", "a\u007f", "東京", "\u200b", "\ufeffa"} {
		if err := CheckOpaque("x", s, maxOpaque); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", " ", " a", "a ", "a\n", "\ta", "a\x00b", "\u00a0a", "a\u2028", "a\u0085", "\u3000a", "a\xff", "\xff"} {
		if err := CheckOpaque("x", s, maxOpaque); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
	if CheckOpaque("x", "abcd", 3) == nil || CheckOpaque("x", "abc", 3) != nil {
		t.Error("the bound of 3 bytes is not kept")
	}
}

func FuzzOpaque(f *testing.F) {
	for _, s := range []string{"a", "ab", "abc", "1234-5678-9012-3456", "🔑", "opaque:v1:YQ==", "opaque:v1:Y.Q=.="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) && s != "" {
			encoded := string(appendOpaque(nil, s))
			if got, ok := plainOpaque(encoded); !ok || got != s {
				t.Fatalf("%q is encoded as %s, and read as %q, %v", s, encoded, got, ok)
			}
		}
		if plain, ok := plainOpaque(s); ok && plain != s && !utf8.ValidString(plain) {
			t.Fatalf("%q was read as %q", s, plain)
		}
	})
}
