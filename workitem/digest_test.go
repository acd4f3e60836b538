package workitem

import (
	"strings"
	"testing"
)

func TestScopedKeyGolden(t *testing.T) {
	t.Parallel()
	var v struct {
		Cases []struct {
			Tenant string `json:"tenant_id"`
			Key    string `json:"idempotency_key"`
			Value  string
		}
	}
	vectors(t, "identity.json", "scoped_idempotency_key", &v)
	if len(v.Cases) != 2 {
		t.Fatalf("the vectors have %d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		if got := "repository:" + ScopedKey(c.Tenant, c.Key).String(); got != c.Value {
			t.Errorf("%s %s: %s, want %s", c.Tenant, c.Key, got, c.Value)
		}
	}
	var scope struct {
		Cases []struct {
			Tenant string `json:"tenant_id"`
			Value  string
		}
	}
	vectors(t, "identity.json", "idempotency_scope_digest", &scope)
	if len(scope.Cases) != 2 {
		t.Fatalf("the vectors have %d cases of scopes", len(scope.Cases))
	}
	for _, c := range scope.Cases {
		if got := scopeDigest(c.Tenant).String(); got != c.Value {
			t.Errorf("scope of %s: %s, want %s", c.Tenant, got, c.Value)
		}
	}
}

func TestParseDigest(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 4)
	d, err := ParseDigest(text)
	if err != nil || d.String() != text {
		t.Fatalf("%s: %s, %v", text, d, err)
	}
	for _, bad := range []string{"", text[1:], text + "0", strings.ToUpper(text), text[1:] + "g", text[1:] + "\n"} {
		if got, err := ParseDigest(bad); err == nil {
			t.Errorf("%q was read as %s", bad, got)
		}
	}
}
