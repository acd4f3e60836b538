package auth

import "github.com/writ-authority/writ/workitem"

// refused is an unauthenticated refusal. Its text is fixed.
func refused(message string) *workitem.Error {
	return &workitem.Error{Code: workitem.Unauthenticated, Message: message}
}

// The refusals of this package.
var (
	errMissing = refused("a credential is needed: send the header Authorization: Bearer TOKEN")
	errForm    = refused("the credential has none of the known forms; send one header Authorization: Bearer TOKEN")
	errUnknown = refused("the token is unknown or was revoked")
	errDevOff  = refused("development tokens are not taken here; the server takes them with --dev-tokens, on a loopback address only")
	errDevForm = refused("the development token is malformed: expected dev:TENANT:OWNER or dev:TENANT:OWNER:SCOPES, percent-encoded, scopes separated by commas")
	errJWTOff  = refused("signed tokens are not taken here: the server has no keys for them")

	errJWTForm     = refused("the signed token is malformed, or is not signed with HS256, RS256 or ES256")
	errJWTKey      = refused("the signed token was not signed by a key that is known for its algorithm")
	errJWTClaims   = refused("the claims of the signed token are malformed")
	errJWTTenant   = refused("the signed token has no usable claim tenant")
	errJWTSubject  = refused("the signed token has no usable claim sub")
	errJWTOwner    = refused("the claim owner of the signed token is not usable")
	errJWTExpired  = refused("the signed token has expired, or does not say when it does")
	errJWTEarly    = refused("the signed token is not valid yet; compare the clocks of issuer and server")
	errJWTIssuer   = refused("the issuer of the signed token is not the expected one")
	errJWTAudience = refused("the signed token is meant for another audience")
)

// unavailable says that a credential could be neither accepted nor refused.
func unavailable(message string, err error) *workitem.Error {
	return &workitem.Error{Code: workitem.AuthorityUnavailable, Message: message, Err: err}
}
