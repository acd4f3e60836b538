package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	jsonv "github.com/go-jose/go-jose/v4/json"

	"github.com/writ-authority/writ/workitem"
)

// leeway is how far the clock of an issuer may be ahead of ours.
const leeway = time.Minute

// algorithms are those that are taken.
var algorithms = []jose.SignatureAlgorithm{jose.HS256, jose.RS256, jose.ES256}

// JWTConfig says which signed tokens are taken. At least one of Keys and URL is
// needed; with both a token may be signed by a key of either.
type JWTConfig struct {
	// Keys is the content of a file with keys, as parseKeys reads it.
	Keys []byte
	// URL is where a JWKS is fetched from: https, or http on a loopback address.
	URL string
	// Issuer and Audience must be in the claims iss and aud, unless they are empty.
	Issuer, Audience string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Client fetches the URL; nil is a client with the defaults of net/http.
	Client *http.Client
}

// JWT verifies signed tokens.
type JWT struct {
	issuer, audience string
	keys             keySet
	remote           *remote
	now              func() time.Time
}

// NewJWT reads the keys. It fetches nothing yet.
func NewJWT(c JWTConfig) (*JWT, error) {
	j := &JWT{issuer: c.Issuer, audience: c.Audience, now: c.Now}
	if j.now == nil {
		j.now = time.Now
	}
	if c.Keys == nil && c.URL == "" {
		return nil, errors.New("signed tokens need a file with keys or a JWKS URL")
	}
	var err error
	if c.Keys != nil {
		if j.keys, err = parseKeys(c.Keys); err != nil {
			return nil, fmt.Errorf("the file with keys %w", err)
		}
	}
	if c.URL != "" {
		if j.remote, err = newRemote(c.URL, c.Client, j.now); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// authenticate verifies a token and gives the principal of its claims.
func (j *JWT) authenticate(ctx context.Context, token string) (workitem.Principal, error) {
	parsed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(parsed.Signatures) != 1 {
		return workitem.Principal{}, errJWTForm
	}
	header := parsed.Signatures[0].Protected
	alg, kid := jose.SignatureAlgorithm(header.Algorithm), header.KeyID
	keys := j.keys
	if j.remote != nil && !keys.hasID(alg, kid) {
		fetched, err := j.remote.get(ctx, alg, kid)
		if err != nil && !keys.has(alg, kid) {
			return workitem.Principal{}, err
		}
		keys = append(keys[:len(keys):len(keys)], fetched...)
	}
	for i := range keys {
		if !keys[i].fits(alg, kid) {
			continue
		}
		if payload, err := parsed.Verify(keys[i].key); err == nil {
			return j.principal(payload)
		}
	}
	return workitem.Principal{}, errJWTKey
}

// hasID says whether a key has exactly that id.
func (s keySet) hasID(alg jose.SignatureAlgorithm, kid string) bool {
	for i := range s {
		if s[i].alg == alg && kid != "" && s[i].id == kid {
			return true
		}
	}
	return false
}

// claims are the members of a token that count. Others are not looked at.
type claims struct {
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"`
	Audience  oneOrAll `json:"aud"`
	Expires   *moment  `json:"exp"`
	NotBefore *moment  `json:"nbf"`
	IssuedAt  *moment  `json:"iat"`
	Tenant    string   `json:"tenant"`
	Owner     *string  `json:"owner"`
	Scope     scopes   `json:"scope"`
}

// principal checks the claims of a token whose signature was verified.
func (j *JWT) principal(payload []byte) (workitem.Principal, error) {
	var c claims
	// This decoder, unlike that of the standard library, is case-sensitive and
	// refuses a member that is there twice.
	if err := jsonv.Unmarshal(payload, &c); err != nil {
		return workitem.Principal{}, errJWTClaims
	}
	now := j.now()
	switch {
	case c.Expires == nil || !now.Before(c.Expires.Time):
		return workitem.Principal{}, errJWTExpired
	case c.NotBefore != nil && now.Add(leeway).Before(c.NotBefore.Time),
		c.IssuedAt != nil && now.Add(leeway).Before(c.IssuedAt.Time):
		return workitem.Principal{}, errJWTEarly
	case j.issuer != "" && c.Issuer != j.issuer:
		return workitem.Principal{}, errJWTIssuer
	case j.audience != "" && !c.Audience.has(j.audience):
		return workitem.Principal{}, errJWTAudience
	case !usable(c.Subject):
		return workitem.Principal{}, errJWTSubject
	case !usable(c.Tenant):
		return workitem.Principal{}, errJWTTenant
	}
	p := workitem.Principal{Subject: c.Subject, Tenant: c.Tenant, Owner: c.Subject, Scopes: c.Scope.held}
	if c.Owner != nil {
		if p.Owner = *c.Owner; !usable(p.Owner) {
			return workitem.Principal{}, errJWTOwner
		}
	}
	return p, nil
}

// moment is seconds since the Unix epoch, with or without a fraction.
type moment struct{ time.Time }

// maxMoment is the year 9999.
const maxMoment = 253402300800

func (m *moment) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := jsonv.Unmarshal(b, &seconds); err != nil {
		return err
	}
	if !(seconds >= 0 && seconds < maxMoment) {
		return errors.New("out of range")
	}
	whole, fraction := math.Modf(seconds)
	m.Time = time.Unix(int64(whole), int64(fraction*1e9))
	return nil
}

// oneOrAll is a string, or an array of strings.
type oneOrAll []string

func (o *oneOrAll) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		return jsonv.Unmarshal(b, (*[]string)(o))
	}
	var one string
	if err := jsonv.Unmarshal(b, &one); err != nil {
		return err
	}
	*o = oneOrAll{one}
	return nil
}

func (o oneOrAll) has(want string) bool {
	for _, s := range o {
		if s == want {
			return true
		}
	}
	return false
}

// scopes reads a string of names separated by spaces, or an array of names. Names
// that mean nothing here, such as openid, give nothing.
type scopes struct{ held workitem.Scope }

func (s *scopes) UnmarshalJSON(b []byte) error {
	var names oneOrAll
	if err := names.UnmarshalJSON(b); err != nil {
		return err
	}
	if !bytes.HasPrefix(b, []byte("[")) {
		names = strings.Fields(names[0])
	}
	for _, name := range names {
		if one, err := workitem.ParseScopes([]string{name}); err == nil {
			s.held |= one
		}
	}
	return nil
}
