package workitem

// Code names why a verb was refused. The spelling is part of the wire contract.
type Code string

// Every code, with the HTTP status that REST gives it.
const (
	InvalidRequest        Code = "invalid_request"              // 400: syntax, schema, range, identifier, cursor
	Unauthenticated       Code = "unauthenticated"              // 401: no credential, or a bad one
	UnauthorizedTarget    Code = "unauthorized_target"          // 403: tenant or owner is not the caller's
	ForbiddenScope        Code = "forbidden_scope"              // 403: the caller lacks a scope
	NotFound              Code = "not_found"                    // 404: unknown, or of another tenant or owner
	DuplicateRequest      Code = "duplicate_request"            // 409: the key is bound to other input
	StaleFence            Code = "stale_fence_duplicate_effect" // 409: the lease is not, or no longer, the caller's
	ClaimMismatch         Code = "claim_mismatch"               // 409: the claim belongs to another job or request
	InvalidState          Code = "invalid_state_combination"    // 409: not in this state
	InFlight              Code = "in_flight"                    // 409: cancel if_idle while a lease is live
	ConsentDenied         Code = "consent_denied"               // 409: the consent is absent or has lapsed
	DependencyUnavailable Code = "dependency_unavailable"       // 422: a parent is missing, or not of this tenant
	PayloadTooLarge       Code = "payload_too_large"            // 413
	TooManyRequests       Code = "too_many_requests"            // 429
	AuthorityUnavailable  Code = "authority_unavailable"        // 503: the store can't be reached or written
	Internal              Code = "internal_error"               // 500: a corrupt row, or a bug
)

// Error is a refusal. Its texts are fixed: they name members and places, and never
// contain a value of a request.
type Error struct {
	Code    Code
	Message string
	Field   string // the member that was refused, as a path, or empty

	// What a worker's mutation answers besides the code: fenced, missing or
	// consent_denied. Renewed and Applied are false where they are set.
	Outcome string
	Renewed *bool
	Applied *bool

	// Differs says in what a duplicate differs: operation, projection or
	// source_only.
	Differs string

	// Err is the cause, for logs; it is not shown to callers.
	Err error
}

// Error gives the message, with the field that it is about.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is says that two refusals are the same if they have the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// Retryable says whether the same call may succeed later.
func (e *Error) Retryable() bool {
	return e.Code == AuthorityUnavailable || e.Code == TooManyRequests || e.Code == InFlight
}

// Sentinels for errors.Is: any refusal with that code matches.
var (
	ErrInvalidRequest        = &Error{Code: InvalidRequest}
	ErrUnauthenticated       = &Error{Code: Unauthenticated}
	ErrUnauthorizedTarget    = &Error{Code: UnauthorizedTarget}
	ErrForbiddenScope        = &Error{Code: ForbiddenScope}
	ErrNotFound              = &Error{Code: NotFound}
	ErrDuplicateRequest      = &Error{Code: DuplicateRequest}
	ErrStaleFence            = &Error{Code: StaleFence}
	ErrClaimMismatch         = &Error{Code: ClaimMismatch}
	ErrInvalidState          = &Error{Code: InvalidState}
	ErrInFlight              = &Error{Code: InFlight}
	ErrConsentDenied         = &Error{Code: ConsentDenied}
	ErrDependencyUnavailable = &Error{Code: DependencyUnavailable}
	ErrAuthorityUnavailable  = &Error{Code: AuthorityUnavailable}
	ErrInternal              = &Error{Code: Internal}
)

// invalid is a refusal of one member.
func invalid(field, message string) *Error {
	return &Error{Code: InvalidRequest, Field: field, Message: message}
}
