package rest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/workitem"
)

// MethodNotAllowed refuses a method that a route does not have. It exists only
// over HTTP.
const MethodNotAllowed workitem.Code = "method_not_allowed"

// ContentType is the media type of a Problem.
const ContentType = "application/problem+json"

// codes has the HTTP status and the title of every code.
var codes = []struct {
	code   workitem.Code
	status int
	title  string
}{
	{workitem.InvalidRequest, http.StatusBadRequest, "The request is not valid"},
	{workitem.Unauthenticated, http.StatusUnauthorized, "A valid credential is needed"},
	{workitem.UnauthorizedTarget, http.StatusForbidden, "The tenant or owner is not the caller's"},
	{workitem.ForbiddenScope, http.StatusForbidden, "The caller lacks a scope"},
	{workitem.NotFound, http.StatusNotFound, "Not found"},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "The route does not have this method"},
	{workitem.DuplicateRequest, http.StatusConflict, "The idempotency key is bound to other input"},
	{workitem.StaleFence, http.StatusConflict, "The lease is not, or no longer, the caller's"},
	{workitem.ClaimMismatch, http.StatusConflict, "The claim belongs to another job or request"},
	{workitem.InvalidState, http.StatusConflict, "Not possible in the present state"},
	{workitem.InFlight, http.StatusConflict, "A lease of the job is live"},
	{workitem.ConsentDenied, http.StatusConflict, "The consent is absent or has lapsed"},
	{workitem.DependencyUnavailable, http.StatusUnprocessableEntity, "A parent is missing"},
	{workitem.PayloadTooLarge, http.StatusRequestEntityTooLarge, "The request body is too large"},
	{workitem.TooManyRequests, http.StatusTooManyRequests, "Too many requests"},
	{workitem.AuthorityUnavailable, http.StatusServiceUnavailable, "The authority can't answer now"},
	{workitem.Internal, http.StatusInternalServerError, "Something is wrong in the authority"},
}

// Status gives the HTTP status of a code. That of an unknown code is 500.
func Status(code workitem.Code) int {
	status, _ := lookup(code)
	return status
}

func lookup(code workitem.Code) (status int, title string) {
	for _, row := range codes {
		if row.code == code {
			return row.status, row.title
		}
	}
	return http.StatusInternalServerError, "Something is wrong in the authority"
}

// Problem is the body of every refusal.
type Problem struct {
	Type      string        `json:"type" doc:"urn:writ:problem: and the code"`
	Title     string        `json:"title" doc:"What the code means"`
	Status    int           `json:"status"`
	Detail    string        `json:"detail" doc:"What was expected; never a value of the request"`
	Code      workitem.Code `json:"code"`
	Field     string        `json:"field,omitempty" doc:"The member that was refused, as a path"`
	Retryable bool          `json:"retryable" doc:"Whether the same call may succeed later"`
	RequestID string        `json:"request_id" doc:"The id of this call, also in the header X-Request-Id"`
	Outcome   string        `json:"outcome,omitempty" doc:"Of a refused worker: fenced, missing or consent_denied"`
	Renewed   *bool         `json:"renewed,omitempty" doc:"false in a refused heartbeat"`
	Applied   *bool         `json:"applied,omitempty" doc:"false in a refused checkpoint"`
	Differs   string        `json:"differs,omitempty" doc:"In what a duplicate differs: operation, projection or source_only"`
}

// refusal gives the *workitem.Error that a failure is shown as. What the
// authority does not name is internal, except the end of the caller's patience.
func refusal(err error) *workitem.Error {
	var e *workitem.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &workitem.Error{Code: workitem.AuthorityUnavailable, Err: err,
			Message: "the call was ended before it had an answer; repeat it"}
	default:
		return &workitem.Error{Code: workitem.Internal, Err: err,
			Message: "the authority has failed; its log has the cause under this request id"}
	}
}

// NewProblem says how a failure of a call is shown, and as which refusal: a
// *workitem.Error as it is, any other failure as an internal_error that does not show
// its text.
func NewProblem(err error, requestID string) (Problem, *workitem.Error) {
	e := refusal(err)
	status, title := lookup(e.Code)
	p := Problem{Type: "urn:writ:problem:" + string(e.Code), Title: title, Status: status, Detail: e.Message,
		Code: e.Code, Field: e.Field, Retryable: e.Retryable(), RequestID: requestID,
		Outcome: e.Outcome, Renewed: e.Renewed, Applied: e.Applied, Differs: e.Differs}
	if p.Detail == "" {
		p.Detail = title
	}
	return p, e
}

// WriteProblem answers a request with what refused it: a *workitem.Error, or any
// other failure as an internal_error that does not show its text. It gives the
// refusal that it wrote.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error) *workitem.Error {
	p, e := NewProblem(err, RequestID(r.Context()))
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h["Www-Authenticate"] = headerBearer
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h["Retry-After"] = headerSecond
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := json.MarshalWrite(buf, &p, json.Deterministic(true)); err != nil {
		// A member of a message is not UTF-8: nothing of it can be shown.
		w.WriteHeader(http.StatusInternalServerError)
		return e
	}
	h["Content-Type"] = headerProblem
	h["Cache-Control"] = headerNoStore
	h["Content-Length"] = []string{strconv.Itoa(buf.Len())}
	w.WriteHeader(p.Status)
	_, _ = w.Write(buf.Bytes()) // the client is gone: nobody is left to tell
	return e
}
