package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/rest"
)

// exchange is one request and what was answered. It is the ResponseWriter of the
// request, to see the status.
type exchange struct {
	http.ResponseWriter
	status int
	method string
	route  string    // pattern of the path, or empty if there is none
	call   rest.Call // empty if no call was answered
	tool   string    // of a call over MCP
}

// Unwrap lets http.ResponseController find what is below.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	return x.ResponseWriter.Write(b)
}

type exchangeKey struct{}

// answered tells the exchange of a request what rest has answered.
func answered(ctx context.Context, call rest.Call) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		x.call = call
		if o := call.Operation; o != nil {
			x.method, x.route = o.Method, o.Path
		}
	}
}

// calledTool tells the exchange of a request what mcp has answered.
func calledTool(ctx context.Context, call mcp.Call) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return
	}
	x.route = mcp.Path
	x.call = rest.Call{Code: call.Code, Principal: call.Principal}
	if call.Operation != nil {
		x.tool = call.Operation.Name
	}
}

// watch measures, traces and logs what next answers.
func (s *Server) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		x := &exchange{ResponseWriter: w, method: method(r.Method)}
		ctx := r.Context()
		var span trace.Span
		if s.tracing != nil {
			ctx, span = s.tracing.start(r)
		}
		r = rest.Identify(x, r.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
		defer func() { // also if a handler has given the request up by a panic
			if x.status == 0 {
				x.status = http.StatusOK // what net/http answers if nobody has
			}
			if span != nil {
				end(span, x)
			}
			took := time.Since(began)
			s.metrics.request(x.method, x.routeName(), x.status, took)
			s.logRequest(r.Context(), x, took)
		}()
		next.ServeHTTP(x, r)
	})
}

// method keeps what callers invent out of logs and metrics.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

func (x *exchange) routeName() string {
	if x.route == "" {
		return "none"
	}
	return x.route
}

// logRequest writes the line of a request. It has no value of it: the path is
// shown as its pattern, and no tenant is named.
func (s *Server) logRequest(ctx context.Context, x *exchange, took time.Duration) {
	if !s.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs,
		slog.String("method", x.method),
		slog.String("route", x.routeName()),
		slog.Int("status", x.status),
		slog.Float64("seconds", took.Seconds()),
		slog.String("request_id", rest.RequestID(ctx)))
	if x.tool != "" {
		attrs = append(attrs, slog.String("tool", x.tool))
	}
	if x.call.Code != "" {
		attrs = append(attrs, slog.String("code", string(x.call.Code)))
	}
	if x.call.Principal.Subject != "" {
		attrs = append(attrs, slog.String("subject", x.call.Principal.Subject))
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		attrs = append(attrs, slog.String("trace_id", c.TraceID().String()))
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}
