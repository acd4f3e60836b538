package rest

import (
	"net/http"
	"slices"
)

// Values of the headers that answer a preflight.
var (
	corsVary    = []string{"Origin"}
	corsMethods = []string{"GET, POST, PATCH, DELETE"}
	corsHeaders = []string{"Authorization, Content-Type, Idempotency-Key, If-None-Match, Traceparent, X-Request-Id"}
	corsExpose  = []string{"ETag, Location, Retry-After, Traceparent, WWW-Authenticate, X-Request-Id"}
	corsMaxAge  = []string{"600"}
)

// crossOrigin lets browsers of the configured origins read an answer, and answers
// their preflights: then it gives true. Credentials of a browser (cookies) are
// never allowed: callers present a bearer token.
func (h *handler) crossOrigin(w http.ResponseWriter, r *http.Request) bool {
	if len(h.cfg.Origins) == 0 {
		return false
	}
	header := w.Header()
	header["Vary"] = corsVary
	origin := r.Header.Get("Origin")
	if !slices.Contains(h.cfg.Origins, origin) {
		return false
	}
	header["Access-Control-Allow-Origin"] = []string{origin}
	header["Access-Control-Expose-Headers"] = corsExpose
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header["Access-Control-Allow-Methods"] = corsMethods
	header["Access-Control-Allow-Headers"] = corsHeaders
	header["Access-Control-Max-Age"] = corsMaxAge
	w.WriteHeader(http.StatusNoContent)
	return true
}
