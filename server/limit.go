package server

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// The limits as the metric writ_http_refused_total names them.
const (
	limitRequests    = "requests"
	limitConnection  = "connection"
	limitConnections = "connections"
)

type connectionKey struct{}

// connection counts the requests of one connection that run.
type connection struct{ requests atomic.Int64 }

// connected marks the context of a new connection.
func connected(ctx context.Context, conn net.Conn) context.Context {
	if conn.LocalAddr().Network() == "unix" {
		ctx = auth.Local(ctx)
	}
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// limit refuses requests above the limits: of the connection with 429, of the
// server with 503.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			defer c.requests.Add(-1)
			if c.requests.Add(1) > int64(s.cfg.MaxPerConnection) {
				s.refuse(w, r, limitConnection, &workitem.Error{Code: workitem.TooManyRequests,
					Message: "this connection has too many requests that are not answered yet"})
				return
			}
		}
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			next.ServeHTTP(w, r)
		default:
			s.refuse(w, r, limitRequests, &workitem.Error{Code: workitem.AuthorityUnavailable,
				Message: "the server has too many requests that are not answered yet"})
		}
	})
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, limit string, e *workitem.Error) {
	s.metrics.refused.WithLabelValues(limit).Inc()
	rest.WriteProblem(w, r, e)
	answered(r.Context(), rest.Call{Code: e.Code})
}
