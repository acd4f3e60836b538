// Package auth turns the credential of a request into a workitem.Principal. There
// is no anonymous caller: whatever is not verified is refused as unauthenticated,
// with a fixed text that shows nothing of the credential.
//
// One header carries every credential, Authorization: Bearer TOKEN. The form of the
// token decides which mechanism verifies it, and only that one:
//
//   - writ_ID_SECRET is a static token. The job store has it hashed (section 14).
//   - HEADER.CLAIMS.SIGNATURE is a JWT, signed with HS256, RS256 or ES256 by one of
//     the configured keys. Every key is bound to one algorithm; a token that names
//     another one is never verified with it.
//   - dev:TENANT:OWNER[:SCOPES] is a development token. It proves nothing, so it is
//     taken only where something else has: at the unix socket, whose permissions
//     admit its owner alone, and, if that is switched on, at a loopback listener.
//
// A revoked static token stops counting after TokenCache at the latest.
//
// Section numbers are those of the work item specification, version 1.
package auth
