package auth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// Config says which credentials are taken.
type Config struct {
	// Tokens verifies static tokens; nil takes none.
	Tokens Tokens
	// JWT verifies signed tokens; nil takes none.
	JWT *JWT
	// Dev takes development tokens from callers that are not at the unix socket.
	// Whoever sets it makes sure that only this machine can connect.
	Dev bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Authenticator verifies credentials. Its methods may be called concurrently.
type Authenticator struct {
	static *static
	jwt    *JWT
	dev    bool
}

// New makes an Authenticator.
func New(c Config) *Authenticator {
	now := c.Now
	if now == nil {
		now = time.Now
	}
	a := &Authenticator{jwt: c.JWT, dev: c.Dev}
	if c.Tokens != nil {
		a.static = newStatic(c.Tokens, now)
	}
	return a
}

type localKey struct{}

// Local marks the context of a connection that came through the unix socket: its
// peer has the rights of the person who runs the server.
func Local(ctx context.Context) context.Context {
	return context.WithValue(ctx, localKey{}, true)
}

// IsLocal says whether a context was marked with Local.
func IsLocal(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// maxCredential bounds a credential, in bytes.
const maxCredential = 8 << 10

// Request verifies the credential of a request. Every error is a *workitem.Error:
// unauthenticated, or authority_unavailable if it could not be found out.
func (a *Authenticator) Request(r *http.Request) (workitem.Principal, error) {
	headers := r.Header["Authorization"]
	switch len(headers) {
	case 0:
		return workitem.Principal{}, errMissing
	case 1:
	default:
		return workitem.Principal{}, errForm
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxCredential {
		return workitem.Principal{}, errForm
	}
	return a.token(r.Context(), token)
}

func (a *Authenticator) token(ctx context.Context, token string) (workitem.Principal, error) {
	switch {
	case strings.HasPrefix(token, devPrefix):
		local := IsLocal(ctx)
		if !local && !a.dev {
			return workitem.Principal{}, errDevOff
		}
		p, err := parseDev(token)
		p.Local = local && err == nil
		return p, err
	case strings.HasPrefix(token, staticPrefix):
		if a.static == nil {
			return workitem.Principal{}, errUnknown
		}
		return a.static.authenticate(ctx, token)
	case strings.Count(token, ".") == 2:
		if a.jwt == nil {
			return workitem.Principal{}, errJWTOff
		}
		return a.jwt.authenticate(ctx, token)
	}
	return workitem.Principal{}, errForm
}
