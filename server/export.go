package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// serveExport sends everything that the store has, to an admin of its only tenant or to
// the person who runs the server. An export that fails is broken off: what has arrived
// lacks its last line.
func (s *Server) serveExport(w http.ResponseWriter, r *http.Request) {
	call := rest.Call{RequestID: rest.RequestID(r.Context())}
	out := &stream{w: w, control: http.NewResponseController(w)}
	err := s.export(out, r, &call)
	if err == nil {
		call.Status = http.StatusOK
	} else {
		var e *workitem.Error
		if out.begun {
			call.Status = http.StatusOK
			e = &workitem.Error{Code: workitem.Internal}
			errors.As(err, &e)
		} else {
			e = rest.WriteProblem(w, r, err)
			call.Status = rest.Status(e.Code)
		}
		call.Code = e.Code
		if e.Code == workitem.Internal {
			s.log.ErrorContext(r.Context(), "export failed", "request_id", call.RequestID, "error", err, "cause", errors.Unwrap(e))
		}
	}
	exported(r.Context(), call)
	if out.begun && err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) export(out *stream, r *http.Request, call *rest.Call) error {
	if r.Method != http.MethodGet {
		out.w.Header()["Allow"] = []string{http.MethodGet}
		return &workitem.Error{Code: rest.MethodNotAllowed}
	}
	p, err := s.auth.Request(r)
	if err != nil {
		return err
	}
	call.Principal = p
	if !p.Scopes.Has(workitem.ScopeAdmin) {
		return &workitem.Error{Code: workitem.ForbiddenScope, Message: "the credential lacks the scope jobs:admin"}
	}
	// A view of the store lasts as long as the export, and there are few of them.
	if !s.exporting.CompareAndSwap(false, true) {
		return &workitem.Error{Code: workitem.TooManyRequests, Message: "another export is under way"}
	}
	defer s.exporting.Store(false)
	var o transfer.Options
	if !p.Local {
		o.Tenant = p.Tenant
	}
	// Reading has its end, which would end the request; an export may take longer.
	if err := out.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return s.work.export(r.Context(), out, o)
}

// stream sends an answer whose end is far: each chunk has the time of a whole answer.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (s *stream) Write(b []byte) (int, error) {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", transfer.ContentType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return s.w.Write(b)
}

// exported tells the exchange of a request how its export has ended.
func exported(ctx context.Context, call rest.Call) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		x.call, x.route = call, transfer.Path
	}
}
