package workitem

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// The secret of a token is writ_ID_RANDOM: 8 random bytes in hex name it, and 24
// more in base64url prove it.
const (
	tokenPrefix      = "writ_"
	tokenIDBytes     = 8
	tokenSecretBytes = 24
)

// errToken is the one answer to every credential that is not good.
func errToken() *Error {
	return &Error{Code: Unauthenticated, Message: "the credential is not known, or was revoked"}
}

// Authenticate verifies the secret of a static token.
func (a *Authority) Authenticate(ctx context.Context, secret string) (Principal, error) {
	rest, ok := strings.CutPrefix(secret, tokenPrefix)
	id, _, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 || len(id) != 2*tokenIDBytes || len(secret) > 128 {
		return Principal{}, errToken()
	}
	var token *Token
	err := a.store.View(ctx, func(r Reader) (err error) {
		token, err = r.Token(id)
		return err
	})
	if err != nil {
		return Principal{}, err
	}
	hash := sha256.Sum256([]byte(secret))
	if token == nil {
		token = &Token{}
	}
	if subtle.ConstantTimeCompare(hash[:], token.Hash[:]) != 1 || token.RevokedAt != 0 {
		return Principal{}, errToken()
	}
	return Principal{Subject: token.Subject, Tenant: token.Tenant, Owner: token.Owner, Scopes: token.Scopes}, nil
}

// tokens refuses callers that may not handle the tokens of a tenant: an admin of
// it, or the person who runs the server.
func (c *Caller) tokens(tenant string) error {
	if err := c.need(ScopeAdmin); err != nil {
		return err
	}
	if tenant != c.p.Tenant && !c.p.Local {
		return &Error{Code: UnauthorizedTarget, Field: "tenant", Message: "must be the tenant of the credential"}
	}
	return nil
}

// CreateToken makes a token and shows its secret, this once.
func (c *Caller) CreateToken(ctx context.Context, in *TokenInput) (*NewToken, error) {
	t := Token{Name: in.Name, Subject: in.Subject, Tenant: in.Tenant, Owner: in.Owner}
	if t.Tenant == "" {
		t.Tenant = c.p.Tenant
	}
	if t.Owner == "" {
		t.Owner = t.Subject
	}
	if err := c.tokens(t.Tenant); err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, value string }{{"name", t.Name}, {"subject", t.Subject}, {"tenant", t.Tenant}, {"owner", t.Owner}} {
		if err := CheckOpaque(f.name, f.value, maxOpaque); err != nil {
			return nil, err
		}
	}
	var err error
	if t.Scopes, err = ParseScopes(in.Scopes); err != nil {
		return nil, err
	}
	if t.Scopes == 0 {
		return nil, invalid("scopes", "must have at least one scope")
	}
	random := make([]byte, tokenIDBytes+tokenSecretBytes)
	rand.Read(random)
	t.ID = hex.EncodeToString(random[:tokenIDBytes])
	secret := tokenPrefix + t.ID + "_" + base64.RawURLEncoding.EncodeToString(random[tokenIDBytes:])
	t.Hash = sha256.Sum256([]byte(secret))
	err = c.a.store.Update(ctx, func(tx Tx) error {
		t.CreatedAt = tx.Now()
		return tx.AddToken(&t)
	})
	if err != nil {
		return nil, err
	}
	return &NewToken{Token: secret, TokenEntry: t.entry()}, nil
}

func (t *Token) entry() TokenEntry {
	return TokenEntry{
		ID: t.ID, Name: t.Name, Subject: t.Subject, Tenant: t.Tenant, Owner: t.Owner,
		Scopes: t.Scopes.Names(), CreatedAt: t.CreatedAt.RFC3339(), RevokedAt: instantText(t.RevokedAt),
	}
}

// Tokens lists the tokens of the tenant; the person who runs the server sees those
// of all.
func (c *Caller) Tokens(ctx context.Context, _ *NoInput) (*TokenList, error) {
	if err := c.tokens(c.p.Tenant); err != nil {
		return nil, err
	}
	tenant := c.p.Tenant
	if c.p.Local {
		tenant = ""
	}
	list := &TokenList{Items: []TokenEntry{}}
	err := c.a.store.View(ctx, func(r Reader) error {
		tokens, err := r.Tokens(tenant)
		for _, t := range tokens {
			list.Items = append(list.Items, t.entry())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// RevokeToken ends a token for good. Repeated, it gives the same answer.
func (c *Caller) RevokeToken(ctx context.Context, in *RevokeInput) (*TokenEntry, error) {
	if err := c.need(ScopeAdmin); err != nil {
		return nil, err
	}
	var entry TokenEntry
	err := c.a.store.Update(ctx, func(tx Tx) error {
		t, err := tx.Token(in.ID)
		if err != nil {
			return err
		}
		if t == nil || t.Tenant != c.p.Tenant && !c.p.Local {
			return &Error{Code: NotFound, Field: "id", Message: "there is no such token"}
		}
		if t.RevokedAt == 0 {
			t.RevokedAt = tx.Now()
			if err := tx.SaveToken(t); err != nil {
				return err
			}
		}
		entry = t.entry()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &entry, nil
}
