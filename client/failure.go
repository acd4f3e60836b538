package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// Retry says how calls are repeated that may be: reads, calls with the same effect
// when repeated (a submission has its idempotency key, a claim its
// ClaimRequestID, a terminal commit is answered with noop), and any call whose
// connection could not even be made.
type Retry struct {
	// Attempts is how often a call is made at most; 0 is 4, 1 never repeats.
	Attempts int
	// Base is the wait before the first repetition, doubled before each further
	// one and jittered by half; 0 is 50 ms.
	Base time.Duration
	// Max bounds a wait, and a Retry-After of the server; 0 is 5 s.
	Max time.Duration
}

func (r Retry) complete() Retry {
	if r.Attempts <= 0 {
		r.Attempts = 4
	}
	if r.Base <= 0 {
		r.Base = 50 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 5 * time.Second
	}
	return r
}

// pause is how long to wait after an attempt, without jitter.
func (r Retry) pause(attempt int, after time.Duration) time.Duration {
	d := r.Base
	for i := 1; i < attempt && d < r.Max; i++ {
		d *= 2
	}
	return min(max(d, after), r.Max)
}

// wait waits before the next attempt. It gives false if the caller's patience ends
// first.
func (r Retry) wait(ctx context.Context, attempt int, after time.Duration) bool {
	d := r.pause(attempt, after)
	if after < d {
		d -= time.Duration(rand.Int64N(int64(d/2) + 1))
		d = max(d, after)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// repeatable says whether a call may be made twice when it is not known whether it
// had an effect.
func repeatable(o *operation.Operation, in any) bool {
	switch in := in.(type) {
	case *workitem.ClaimInput:
		return in.ClaimRequestID != ""
	case *workitem.ClaimNextInput:
		return in.ClaimRequestID != ""
	case *workitem.CommitInput:
		// A failure that will be tried again moves the fence: its repetition would
		// be refused.
		return in.Outcome != "failed" || in.Retryable != nil && !*in.Retryable
	}
	return o.ReadOnly || o.Idempotent
}

// failure is a call without an answer that could be used.
type failure struct {
	err *workitem.Error
	// unsent: the server can't have seen the call.
	unsent bool
	// later: the same call may succeed later.
	later bool
	after time.Duration
}

// again says whether the call may be repeated.
func (f *failure) again(safe bool) bool { return f.unsent || f.later && safe }

// unreachable is a failure of the connection.
func unreachable(ctx context.Context, err error) *failure {
	e := &workitem.Error{Code: workitem.AuthorityUnavailable, Err: err, Message: "the server can't be reached: " + err.Error()}
	if cause := ctx.Err(); cause != nil {
		e.Err = cause
		return &failure{err: e}
	}
	var op *net.OpError
	return &failure{err: e, later: true, unsent: errors.As(err, &op) && op.Op == "dial"}
}

// problem is the part of a refusal's body that the client needs.
type problem struct {
	Code      workitem.Code `json:"code"`
	Detail    string        `json:"detail"`
	Field     string        `json:"field"`
	RequestID string        `json:"request_id"`
	Outcome   string        `json:"outcome"`
	Renewed   *bool         `json:"renewed"`
	Applied   *bool         `json:"applied"`
	Differs   string        `json:"differs"`
}

// refused reads the refusal of a server, or of a proxy before it.
func refused(response *http.Response, body []byte) *failure {
	var p problem
	e := &workitem.Error{}
	if err := json.Unmarshal(body, &p); err == nil && p.Code != "" {
		e = &workitem.Error{Code: p.Code, Message: p.Detail, Field: p.Field, Outcome: p.Outcome,
			Renewed: p.Renewed, Applied: p.Applied, Differs: p.Differs}
		if p.Code == workitem.Internal {
			e.Message += " (request id " + p.RequestID + ")"
		}
	} else {
		e.Code = codeOf(response.StatusCode)
		e.Message = "the server, or a proxy before it, has answered with the HTTP status " + strconv.Itoa(response.StatusCode)
	}
	f := &failure{err: e}
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		f.later, f.unsent = true, true // it was refused before it did anything
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		f.later = true
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		f.after = time.Duration(min(seconds, 3600)) * time.Second
	}
	return f
}

// codeOf gives the code of an answer that has none.
func codeOf(status int) workitem.Code {
	switch {
	case status == http.StatusUnauthorized:
		return workitem.Unauthenticated
	case status == http.StatusForbidden:
		return workitem.ForbiddenScope
	case status == http.StatusNotFound:
		return workitem.NotFound
	case status == http.StatusRequestEntityTooLarge:
		return workitem.PayloadTooLarge
	case status == http.StatusTooManyRequests:
		return workitem.TooManyRequests
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return workitem.AuthorityUnavailable
	case status >= 400 && status < 500:
		return workitem.InvalidRequest
	default:
		return workitem.Internal
	}
}
