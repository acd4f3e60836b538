package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/workitem"
)

const start = 1_800_000_000

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	keyRSA = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	keyEC  = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sign makes a token.
func sign(alg jose.SignatureAlgorithm, key any, kid string, c map[string]any) string {
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts))
	return must(must(s.Sign(must(json.Marshal(c)))).CompactSerialize())
}

// good are claims that are taken, with changes; nil removes one.
func good(changes ...any) map[string]any {
	c := map[string]any{"iss": "https://issuer", "aud": "writ", "sub": "ci", "tenant": "acme", "exp": start + 60, "scope": "openid jobs:read jobs:work"}
	for i := 0; i < len(changes); i += 2 {
		if name := changes[i].(string); changes[i+1] == nil {
			delete(c, name)
		} else {
			c[name] = changes[i+1]
		}
	}
	return maps.Clone(c)
}

func jwks(keys ...jose.JSONWebKey) []byte {
	return must(json.Marshal(jose.JSONWebKeySet{Keys: keys}))
}

func at(seconds int64) func() time.Time {
	return func() time.Time { return time.Unix(seconds, 0) }
}

func authenticator(t *testing.T, c auth.JWTConfig) *auth.Authenticator {
	t.Helper()
	if c.Now == nil {
		c.Now = at(start)
	}
	j, err := auth.NewJWT(c)
	if err != nil {
		t.Fatal(err)
	}
	return auth.New(auth.Config{JWT: j})
}

func fileKeys() []byte {
	return jwks(
		jose.JSONWebKey{Key: secret, KeyID: "h", Algorithm: "HS256"},
		jose.JSONWebKey{Key: keyRSA().Public(), KeyID: "r", Algorithm: "RS256", Use: "sig"},
		jose.JSONWebKey{Key: keyEC().Public(), KeyID: "e"},
	)
}

func TestSignedTokens(t *testing.T) {
	t.Parallel()
	a := authenticator(t, auth.JWTConfig{Keys: fileKeys(), Issuer: "https://issuer", Audience: "writ"})
	want := workitem.Principal{Subject: "ci", Tenant: "acme", Owner: "ci", Scopes: workitem.ScopeRead | workitem.ScopeWork}
	for name, token := range map[string]string{
		"HS256":          sign(jose.HS256, secret, "h", good()),
		"RS256":          sign(jose.RS256, keyRSA(), "r", good()),
		"ES256":          sign(jose.ES256, keyEC(), "e", good()),
		"without kid":    sign(jose.ES256, keyEC(), "", good()),
		"array of aud":   sign(jose.ES256, keyEC(), "e", good("aud", []string{"other", "writ"})),
		"array of scope": sign(jose.ES256, keyEC(), "e", good("scope", []string{"jobs:read", "jobs:work", "email"})),
		"fractions":      sign(jose.ES256, keyEC(), "e", good("exp", start+0.5)),
		"clock ahead":    sign(jose.ES256, keyEC(), "e", good("nbf", start+60, "iat", start+60)),
	} {
		if got, err := ask(t.Context(), a, "Bearer "+token); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := ask(t.Context(), a, "Bearer "+sign(jose.ES256, keyEC(), "e", good("owner", "ada", "scope", nil)))
	if want := (workitem.Principal{Subject: "ci", Tenant: "acme", Owner: "ada"}); err != nil || got != want {
		t.Errorf("another owner and no scope: %+v, %v", got, err)
	}
	if got, err := ask(auth.Local(t.Context()), a, "Bearer "+sign(jose.ES256, keyEC(), "e", good())); err != nil || got.Local {
		t.Errorf("a signed token has its own rights at the socket too: %+v, %v", got, err)
	}
}

func TestSignedTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	a := authenticator(t, auth.JWTConfig{Keys: fileKeys(), Issuer: "https://issuer", Audience: "writ"})
	es := func(changes ...any) string { return sign(jose.ES256, keyEC(), "e", good(changes...)) }
	public := must(x509.MarshalPKIXPublicKey(keyRSA().Public()))
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	raw := func(header, payload string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "."
	}
	body := string(must(json.Marshal(good())))
	token := es()
	for _, x := range []struct{ name, token, part string }{
		{"expired", es("exp", start), "expired"},
		{"no exp", es("exp", nil), "expired"},
		{"far exp", es("exp", 1e300), "malformed"},
		{"exp as text", es("exp", "1900000000"), "malformed"},
		{"not yet", es("nbf", start+61), "not valid yet"},
		{"issued later", es("iat", start+61), "not valid yet"},
		{"issuer", es("iss", "https://other"), "issuer"},
		{"no issuer", es("iss", nil), "issuer"},
		{"audience", es("aud", "other"), "audience"},
		{"no audience", es("aud", nil), "audience"},
		{"null audience", es("aud", json.RawMessage("null")), "audience"},
		{"no sub", es("sub", nil), "claim sub"},
		{"no tenant", es("tenant", nil), "claim tenant"},
		{"tenant with spaces", es("tenant", " acme"), "claim tenant"},
		{"tenant as array", es("tenant", []string{"acme"}), "malformed"},
		{"tenant in another case", es("tenant", nil, "Tenant", "acme"), "claim tenant"},
		{"empty owner", es("owner", ""), "claim owner"},
		{"none", raw(`{"alg":"none"}`, body), "malformed"},
		{"none with kid", raw(`{"alg":"None","kid":"h"}`, body), "malformed"},
		{"HS384", sign(jose.HS384, append(secret, secret...), "h", good()), "HS256, RS256 or ES256"},
		{"unknown kid", sign(jose.ES256, keyEC(), "x", good()), "known for its algorithm"},
		{"another key", sign(jose.ES256, other, "e", good()), "known for its algorithm"},
		{"kid of another algorithm", sign(jose.ES256, keyEC(), "r", good()), "known for its algorithm"},
		{"public key as secret, PEM", sign(jose.HS256, publicPEM, "r", good()), "known for its algorithm"},
		{"public key as secret, DER", sign(jose.HS256, public, "", good()), "known for its algorithm"},
		{"no signature", token[:strings.LastIndexByte(token, '.')+1], "known for its algorithm"},
		{"own key in the header", embedded(other), "known for its algorithm"},
		{"critical header", critical(), "known for its algorithm"},
	} {
		_, err := ask(t.Context(), a, "Bearer "+x.token)
		if err == nil {
			t.Errorf("%s was taken", x.name)
			continue
		}
		if !strings.Contains(err.Error(), x.part) || !errors.Is(err, workitem.ErrUnauthenticated) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// embedded is signed by a key that the token brings along.
func embedded(k *ecdsa.PrivateKey) string {
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k}, &jose.SignerOptions{EmbedJWK: true}))
	return must(must(s.Sign(must(json.Marshal(good())))).CompactSerialize())
}

// critical has an extension that nobody here understands.
func critical() string {
	opts := (&jose.SignerOptions{}).WithHeader("crit", []string{"exp"}).WithHeader("exp", start)
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: keyEC()}, opts))
	return must(must(s.Sign(must(json.Marshal(good())))).CompactSerialize())
}

func TestDuplicateClaimsAreRefused(t *testing.T) {
	t.Parallel()
	a := authenticator(t, auth.JWTConfig{Keys: fileKeys()})
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, nil))
	token := must(must(s.Sign([]byte(`{"sub":"ci","tenant":"acme","tenant":"other","exp":1900000000}`))).CompactSerialize())
	_, err := ask(t.Context(), a, "Bearer "+token)
	expectRefusal(t, err, "malformed", "acme")
}

func TestKeysInPEM(t *testing.T) {
	t.Parallel()
	var b []byte
	for _, k := range []any{keyRSA().Public(), keyEC().Public()} {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(k))})...)
	}
	b = append(b, '\n')
	a := authenticator(t, auth.JWTConfig{Keys: b})
	for _, token := range []string{sign(jose.RS256, keyRSA(), "any", good()), sign(jose.ES256, keyEC(), "", good())} {
		if _, err := ask(t.Context(), a, "Bearer "+token); err != nil {
			t.Error(err)
		}
	}
	_, err := ask(t.Context(), a, "Bearer "+sign(jose.HS256, b, "", good()))
	expectRefusal(t, err, "known for its algorithm", "")
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	private := must(x509.MarshalPKCS8PrivateKey(keyEC()))
	many := make([]jose.JSONWebKey, 33)
	for i := range many {
		many[i] = jose.JSONWebKey{Key: secret, KeyID: fmt.Sprint(i)}
	}
	for _, x := range []struct {
		name string
		keys []byte
		part string
	}{
		{"empty", []byte(" "), "is empty"},
		{"text", []byte("hello"), "neither"},
		{"broken JSON", []byte("{"), "JSON Web Key Set"},
		{"no keys", []byte(`{"keys":[]}`), "no key"},
		{"short secret", jwks(jose.JSONWebKey{Key: secret[:31]}), "31 bytes, expected at least 32"},
		{"small RSA", jwks(jose.JSONWebKey{Key: small.Public()}), "1024 bits"},
		{"P-384", jwks(jose.JSONWebKey{Key: p384.Public()}), "P-384, expected P-256"},
		{"private", jwks(jose.JSONWebKey{Key: keyRSA()}), "private"},
		{"private PEM", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "neither a public key nor a certificate"},
		{"other algorithm", jwks(jose.JSONWebKey{Key: keyRSA().Public(), Algorithm: "RS512"}), "expected RS256"},
		{"RSA for HS256", jwks(jose.JSONWebKey{Key: keyRSA().Public(), Algorithm: "HS256"}), "expected RS256"},
		{"for encryption", jwks(jose.JSONWebKey{Key: keyRSA().Public(), Use: "enc"}), "signatures"},
		{"too many", jwks(many...), "more than 32"},
		{"too long", []byte("{" + strings.Repeat(" ", 300<<10) + "}"), "at most"},
	} {
		if _, err := auth.NewJWT(auth.JWTConfig{Keys: x.keys}); err == nil || !strings.Contains(err.Error(), x.part) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	for _, url := range []string{"", "http://example.org/jwks", "ftp://localhost/", "https://", "https://user:pw@example.org/", "http://127.0.0.1.example.org/", "::"} {
		if _, err := auth.NewJWT(auth.JWTConfig{URL: url}); err == nil {
			t.Errorf("the URL %q was taken", url)
		}
	}
}

// issuer serves a JWKS that a test may change.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	age    string
	body   []byte
	served atomic.Int64
}

func serve(t *testing.T, body []byte) *issuer {
	i := &issuer{status: http.StatusOK, body: body}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.served.Add(1)
		if i.age != "" {
			w.Header().Set("Cache-Control", "public, max-age="+i.age)
		}
		if i.status == http.StatusFound {
			w.Header().Set("Location", "http://example.org/jwks")
		}
		w.WriteHeader(i.status)
		_, _ = w.Write(i.body)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(status int, body []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status, i.body = status, body
}

// clock is moved by hand.
type clock struct{ seconds atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(start+c.seconds.Load(), 0) }

func TestKeysFromAURL(t *testing.T) {
	t.Parallel()
	e := jose.JSONWebKey{Key: keyEC().Public(), KeyID: "e", Algorithm: "ES256"}
	// What is of no use is left out, a secret that anybody can fetch above all.
	useless := []jose.JSONWebKey{{Key: secret, KeyID: "h"}, {Key: keyRSA().Public(), KeyID: "x", Use: "enc"}}
	i := serve(t, jwks(append(useless, e)...))
	c := &clock{}
	a := authenticator(t, auth.JWTConfig{URL: i.URL, Now: c.now, Client: i.Client()})
	later := func(alg jose.SignatureAlgorithm, key any, kid string) string {
		return "Bearer " + sign(alg, key, kid, good("exp", start+1_000_000))
	}
	first, second := later(jose.ES256, keyEC(), "e"), later(jose.RS256, keyRSA(), "r")
	expect := func(what string, served int64, token string, taken bool) {
		t.Helper()
		_, err := ask(t.Context(), a, token)
		if (err == nil) != taken {
			t.Errorf("%s: %v", what, err)
		}
		if n := i.served.Load(); n != served {
			t.Errorf("%s: fetched %d times, expected %d", what, n, served)
		}
	}
	expect("first use", 1, first, true)
	expect("cached", 1, first, true)
	expect("a secret from the network", 1, later(jose.HS256, secret, "h"), false)

	i.set(http.StatusOK, jwks(e, jose.JSONWebKey{Key: keyRSA().Public(), KeyID: "r"}))
	for n := range 500 {
		expect("flood of unknown keys", 1, later(jose.ES256, keyEC(), fmt.Sprint("x", n)), false)
	}
	expect("new key too early", 1, second, false)
	c.seconds.Add(60)
	expect("new key after a minute", 2, second, true)

	i.set(http.StatusInternalServerError, nil)
	c.seconds.Add(60)
	expect("failed fetch", 3, later(jose.ES256, keyEC(), "x"), false)
	expect("last good set", 3, second, true)
	expect("no fetch soon after a failure", 3, later(jose.ES256, keyEC(), "x"), false)
	for n, body := range [][]byte{[]byte("{}"), []byte(strings.Repeat(" ", 300<<10)), jwks(useless...)} {
		i.set(http.StatusOK, body)
		c.seconds.Add(60)
		expect("bad set", 4+int64(n), later(jose.ES256, keyEC(), "x"), false)
		expect("last good set", 4+int64(n), first, true)
	}
	i.set(http.StatusFound, nil)
	c.seconds.Add(60)
	expect("redirect to http", 7, later(jose.ES256, keyEC(), "x"), false)

	// A key that was withdrawn goes with the next fetch that age asks for.
	i.set(http.StatusOK, jwks(jose.JSONWebKey{Key: keyRSA().Public(), KeyID: "r"}))
	c.seconds.Add(3600)
	expect("unknown key fetches the set", 8, later(jose.ES256, keyEC(), "x"), false)
	expect("withdrawn key", 8, first, false)
}

func TestKeysFromAURLAreFetchedAgainWhenTheyAreOld(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		age   string
		fresh int64 // seconds
	}{{"", 900}, {"300", 300}, {"0", 60}, {"junk", 60}, {"999999999", 86400}} {
		i := serve(t, jwks(jose.JSONWebKey{Key: keyEC().Public(), KeyID: "e"}))
		i.age = x.age
		c := &clock{}
		a := authenticator(t, auth.JWTConfig{URL: i.URL, Now: c.now, Client: i.Client()})
		token := "Bearer " + sign(jose.ES256, keyEC(), "e", good("exp", start+1_000_000))
		for _, step := range []int64{0, x.fresh - 1} {
			c.seconds.Store(step)
			if _, err := ask(t.Context(), a, token); err != nil {
				t.Fatal(err)
			}
			if n := i.served.Load(); n != 1 {
				t.Errorf("max-age %q: fetched %d times after %d s", x.age, n, step)
			}
		}
		c.seconds.Store(x.fresh)
		// The keys that are there are used while the new ones come; a token with a
		// key that is not there waits for them.
		if _, err := ask(t.Context(), a, token); err != nil {
			t.Fatal(err)
		}
		_, err := ask(t.Context(), a, "Bearer "+sign(jose.ES256, keyEC(), "x", good("exp", start+1_000_000)))
		expectRefusal(t, err, "known for its algorithm", "")
		if n := i.served.Load(); n != 2 {
			t.Errorf("max-age %q: fetched %d times after %d s", x.age, n, x.fresh)
		}
	}
}

func TestKeysThatCantBeFetchedYet(t *testing.T) {
	t.Parallel()
	i := serve(t, nil)
	i.set(http.StatusServiceUnavailable, nil)
	c := &clock{}
	a := authenticator(t, auth.JWTConfig{URL: i.URL, Now: c.now, Client: i.Client()})
	token := "Bearer " + sign(jose.ES256, keyEC(), "e", good())
	for range 3 {
		if _, err := ask(t.Context(), a, token); !errors.Is(err, workitem.ErrAuthorityUnavailable) {
			t.Fatalf("got %v, expected authority_unavailable", err)
		}
	}
	if n := i.served.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	i.set(http.StatusOK, jwks(jose.JSONWebKey{Key: keyEC().Public(), KeyID: "e"}))
	c.seconds.Add(5)
	if _, err := ask(t.Context(), a, token); err != nil {
		t.Error(err)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add(fileKeys())
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if j, err := auth.NewJWT(auth.JWTConfig{Keys: b}); (j == nil) == (err == nil) {
			t.Errorf("%v, %v", j, err)
		}
	})
}

// FuzzClaims signs what it is given: a claim that is odd never gives half a
// principal.
func FuzzClaims(f *testing.F) {
	f.Add(must(json.Marshal(good())))
	f.Add([]byte(`{"aud":null,"scope":["jobs:admin",""],"exp":1e9}`))
	j := must(auth.NewJWT(auth.JWTConfig{Keys: fileKeys(), Now: at(start)}))
	a := auth.New(auth.Config{JWT: j})
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, nil))
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := ask(t.Context(), a, "Bearer "+must(must(s.Sign(payload)).CompactSerialize()))
		if err != nil && p != (workitem.Principal{}) || err == nil && (p.Tenant == "" || p.Owner == "" || p.Subject == "") {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
