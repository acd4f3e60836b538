package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// Tokens verifies the secrets of static tokens. *workitem.Authority is one.
type Tokens interface {
	// Authenticate gives the principal of a token. A secret that is unknown or
	// was revoked is a *workitem.Error with the code unauthenticated.
	Authenticate(ctx context.Context, secret string) (workitem.Principal, error)
}

// TokenCache is how long a verified static token counts without being looked up
// again, and so the longest time for which a revoked one still does.
const TokenCache = 3 * time.Second

const (
	staticPrefix = "writ_"
	maxStatic    = 256  // bytes of a secret
	maxCached    = 1024 // tokens
)

// static looks static tokens up and remembers those that counted. Refusals are not
// remembered: a token counts as soon as it was made.
type static struct {
	tokens Tokens
	now    func() time.Time

	mu sync.Mutex
	// cached is keyed by the hash of the secret, so that neither the secrets nor
	// the time that a comparison takes give anything away.
	cached map[[sha256.Size]byte]verified
}

type verified struct {
	principal workitem.Principal
	until     time.Time
}

func newStatic(tokens Tokens, now func() time.Time) *static {
	return &static{tokens: tokens, now: now, cached: map[[sha256.Size]byte]verified{}}
}

func (s *static) authenticate(ctx context.Context, secret string) (workitem.Principal, error) {
	if !staticForm(secret) {
		return workitem.Principal{}, errUnknown
	}
	key := sha256.Sum256([]byte(secret))
	asked := s.now()
	s.mu.Lock()
	v, ok := s.cached[key]
	s.mu.Unlock()
	if ok && asked.Before(v.until) {
		return v.principal, nil
	}
	p, err := s.tokens.Authenticate(ctx, secret)
	if err != nil {
		if errors.Is(err, workitem.ErrUnauthenticated) {
			s.mu.Lock()
			delete(s.cached, key)
			s.mu.Unlock()
			return workitem.Principal{}, errUnknown
		}
		return workitem.Principal{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cached) >= maxCached {
		for k, v := range s.cached {
			if !asked.Before(v.until) {
				delete(s.cached, k)
			}
		}
		if len(s.cached) >= maxCached {
			clear(s.cached)
		}
	}
	// Counted from before the look-up: what was revoked after it is out in time.
	s.cached[key] = verified{principal: p, until: asked.Add(TokenCache)}
	return p, nil
}

// staticForm says whether a secret can be one: writ_ and characters of base64url,
// an underscore between the id and the rest.
func staticForm(secret string) bool {
	if len(secret) > maxStatic {
		return false
	}
	id := 0
	rest := secret[len(staticPrefix):]
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '_' && id == 0:
			if id = i; i == 0 {
				return false
			}
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return id > 0 && id+1 < len(rest)
}
