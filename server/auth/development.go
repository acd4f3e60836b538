package auth

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writ-authority/writ/workitem"
)

const devPrefix = "dev:"

// devScopes is what a development token without scopes has: all but jobs:admin.
const devScopes = workitem.ScopeRead | workitem.ScopeWrite | workitem.ScopeWork |
	workitem.ScopeTenant | workitem.ScopeOnBehalf

// parseDev reads dev:TENANT:OWNER[:SCOPES] (section 14). The owner is also the
// subject.
func parseDev(token string) (workitem.Principal, error) {
	parts := strings.Split(strings.TrimPrefix(token, devPrefix), ":")
	// The names of scopes have a colon of their own, which may stand unencoded.
	if len(parts) < 2 {
		return workitem.Principal{}, errDevForm
	}
	tenant, err1 := url.PathUnescape(parts[0])
	owner, err2 := url.PathUnescape(parts[1])
	if err1 != nil || err2 != nil || !usable(tenant) || !usable(owner) {
		return workitem.Principal{}, errDevForm
	}
	p := workitem.Principal{Subject: owner, Tenant: tenant, Owner: owner, Scopes: devScopes}
	if len(parts) > 2 {
		text, err := url.PathUnescape(strings.Join(parts[2:], ":"))
		if err != nil {
			return workitem.Principal{}, errDevForm
		}
		if p.Scopes, err = workitem.ParseScopes(strings.Split(text, ",")); err != nil {
			return workitem.Principal{}, errDevForm
		}
	}
	return p, nil
}

// maxName bounds a tenant, an owner or a subject, in bytes of UTF-8 (section 3.1).
const maxName = 1024

// usable says whether a name is an opaque string (section 3.1): not empty, no
// white space at its ends, no control characters, valid Unicode.
func usable(name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.TrimFunc(name, unicode.IsSpace) != name {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r < ' ' }) < 0
}
