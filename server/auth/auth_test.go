package auth_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/workitem"
)

// ask verifies one Authorization header.
func ask(ctx context.Context, a *auth.Authenticator, header ...string) (workitem.Principal, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://writ/v1/jobs", nil)
	if err != nil {
		return workitem.Principal{}, err
	}
	for _, h := range header {
		r.Header.Add("Authorization", h)
	}
	return a.Request(r)
}

// expectRefusal wants an unauthenticated refusal whose text has a part and
// nothing of the credential.
func expectRefusal(t *testing.T, err error, part, credential string) {
	t.Helper()
	var e *workitem.Error
	if !errors.As(err, &e) || e.Code != workitem.Unauthenticated || !strings.Contains(e.Message, part) {
		t.Fatalf("got %v, expected unauthenticated with %q", err, part)
	}
	if credential != "" && strings.Contains(e.Message, credential) {
		t.Errorf("the refusal shows the credential: %q", e.Message)
	}
}

func TestCredentialsWithoutAForm(t *testing.T) {
	t.Parallel()
	a := auth.New(auth.Config{Dev: true})
	if _, err := ask(t.Context(), a); err == nil {
		t.Fatal("no credential was taken")
	} else {
		expectRefusal(t, err, "a credential is needed", "")
	}
	for _, header := range []string{
		"Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "secret-value", "Bearer secret-value",
		"Bearer  dev:t:o", "Bearer " + strings.Repeat("a", 9000), "dev:t:o",
	} {
		_, err := ask(t.Context(), a, header)
		expectRefusal(t, err, "none of the known forms", "secret-value")
	}
	_, err := ask(t.Context(), a, "Bearer dev:t:o", "Bearer dev:t:p")
	expectRefusal(t, err, "one header", "")
	if p, err := ask(t.Context(), a, "bearer dev:t:o"); err != nil || p.Tenant != "t" {
		t.Errorf("the scheme is case-insensitive: %v, %v", p, err)
	}
	for header, part := range map[string]string{
		"Bearer writ_id_secret": "unknown or was revoked",
		"Bearer a.b.c":          "no keys",
	} {
		_, err := ask(t.Context(), a, header)
		expectRefusal(t, err, part, "secret")
	}
}

func TestDevelopmentTokens(t *testing.T) {
	t.Parallel()
	const usual = workitem.ScopeRead | workitem.ScopeWrite | workitem.ScopeWork | workitem.ScopeTenant | workitem.ScopeOnBehalf
	on := auth.New(auth.Config{Dev: true})
	off := auth.New(auth.Config{})
	local := auth.Local(t.Context())
	for _, x := range []struct {
		token string
		want  workitem.Principal
	}{
		{"dev:acme:ada", workitem.Principal{Subject: "ada", Tenant: "acme", Owner: "ada", Scopes: usual}},
		{"dev:a%3Ab:%C3%A4da", workitem.Principal{Subject: "äda", Tenant: "a:b", Owner: "äda", Scopes: usual}},
		{"dev:acme:ada:jobs%3Aread", workitem.Principal{Subject: "ada", Tenant: "acme", Owner: "ada", Scopes: workitem.ScopeRead}},
		{"dev:acme:ada:jobs:read,jobs:admin", workitem.Principal{Subject: "ada", Tenant: "acme", Owner: "ada", Scopes: workitem.ScopeRead | workitem.ScopeAdmin}},
	} {
		if got, err := ask(t.Context(), on, "Bearer "+x.token); err != nil || got != x.want {
			t.Errorf("%s: %+v, %v; expected %+v", x.token, got, err, x.want)
		}
		_, err := ask(t.Context(), off, "Bearer "+x.token)
		expectRefusal(t, err, "--dev-tokens", "acme")
		x.want.Local = true
		if got, err := ask(local, off, "Bearer "+x.token); err != nil || got != x.want {
			t.Errorf("%s at the socket: %+v, %v; expected %+v", x.token, got, err, x.want)
		}
	}
	for _, token := range []string{
		"dev:", "dev::", "dev:acme", "dev:acme:", "dev::ada", "dev:%zz:ada", "dev:acme:%", "dev:acme:ada:",
		"dev:acme:ada:jobs:everything", "dev:acme:ada:jobs:read,", "dev:%20acme:ada", "dev:ac%00me:ada", "dev:%ff:ada",
		"dev:" + strings.Repeat("t", 1025) + ":ada",
	} {
		_, err := ask(t.Context(), on, "Bearer "+token)
		expectRefusal(t, err, "malformed", "acme")
		if p, err := ask(local, on, "Bearer "+token); err == nil || p.Local {
			t.Errorf("%s was taken at the socket: %+v", token, p)
		}
	}
}

// tokens is a store of one static token.
type tokens struct {
	secret string
	fail   error
	asked  int
}

func (s *tokens) Authenticate(_ context.Context, secret string) (workitem.Principal, error) {
	s.asked++
	if s.fail != nil {
		return workitem.Principal{}, s.fail
	}
	if secret != s.secret {
		return workitem.Principal{}, &workitem.Error{Code: workitem.Unauthenticated, Message: "no"}
	}
	return workitem.Principal{Subject: "ci", Tenant: "acme", Owner: "ci", Scopes: workitem.ScopeWork}, nil
}

func TestStaticTokensCountFromTheCacheForAMoment(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	store := &tokens{secret: "writ_k1_c2VjcmV0LXZhbHVl"}
	a := auth.New(auth.Config{Tokens: store, Now: func() time.Time { return now }})
	good := "Bearer " + store.secret
	for range 3 {
		p, err := ask(t.Context(), a, good)
		if err != nil || p.Subject != "ci" || p.Local {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	if p, err := ask(auth.Local(t.Context()), a, good); err != nil || p.Local {
		t.Errorf("a static token has its own rights at the socket too: %+v, %v", p, err)
	}
	if store.asked != 1 {
		t.Errorf("the store was asked %d times", store.asked)
	}
	store.secret = "revoked"
	now = now.Add(auth.TokenCache - time.Nanosecond)
	if _, err := ask(t.Context(), a, good); err != nil {
		t.Errorf("within the cache: %v", err)
	}
	now = now.Add(time.Nanosecond)
	_, err := ask(t.Context(), a, good)
	expectRefusal(t, err, "revoked", "c2VjcmV0")
	if auth.TokenCache > 5*time.Second {
		t.Error("a revocation must count within 5 seconds")
	}

	asked := store.asked
	for _, secret := range []string{"writ_", "writ_k1", "writ_k1_", "writ__abc", "writ_k1_a b", "writ_k1_ä", "writ_k1_" + strings.Repeat("a", 300)} {
		_, err := ask(t.Context(), a, "Bearer "+secret)
		expectRefusal(t, err, "unknown", "k1")
	}
	if store.asked != asked {
		t.Error("the store was asked for what can't be a token")
	}

	store.fail = &workitem.Error{Code: workitem.AuthorityUnavailable, Message: "the store is closed"}
	if _, err := ask(t.Context(), a, good); !errors.Is(err, workitem.ErrAuthorityUnavailable) {
		t.Errorf("a store that can't be read: %v", err)
	}
}

func FuzzCredential(f *testing.F) {
	for _, s := range []string{"Bearer dev:t:o", "Bearer dev:%41:o:jobs:read", "Bearer writ_a_b", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30."} {
		f.Add(s)
	}
	j, err := auth.NewJWT(auth.JWTConfig{Keys: []byte(`{"kty":"oct","k":"` + strings.Repeat("QUFB", 12) + `"}`)})
	if err != nil {
		f.Fatal(err)
	}
	a := auth.New(auth.Config{Dev: true, JWT: j, Tokens: &tokens{secret: "writ_a_b"}})
	f.Fuzz(func(t *testing.T, header string) {
		p, err := ask(t.Context(), a, header)
		if err != nil {
			if p != (workitem.Principal{}) {
				t.Errorf("a refusal with a principal: %+v", p)
			}
			return
		}
		if p.Tenant == "" || p.Owner == "" || p.Subject == "" || p.Local {
			t.Errorf("%+v", p)
		}
	})
}
