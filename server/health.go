package server

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"zombiezen.com/go/sqlite"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// The reasons why a server is not ready.
const (
	reasonStopping    = "stopping"
	reasonDiskFull    = "disk_full"
	reasonReadOnly    = "store_read_only"
	reasonUnavailable = "store_unavailable"
)

// healthz says that the process answers.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	writeHealth(w, r, http.StatusOK, map[string]any{"status": "ok"})
}

// readyz says whether writes are taken, and if not, why.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	reason := s.unready()
	if reason == "" {
		writeHealth(w, r, http.StatusOK, map[string]any{"ready": true})
		return
	}
	writeHealth(w, r, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": reason})
}

// unready is why the server is not ready, or "".
func (s *Server) unready() string {
	if s.stopping.Load() {
		return reasonStopping
	}
	return unreadiness(s.work.health())
}

// The codes of PostgreSQL that say more than that a store is unavailable.
const (
	postgresDiskFull = "53100"
	postgresReadOnly = "25006"
)

// unreadiness is the reason of a store's error.
func unreadiness(err error) string {
	var e pgconn.PgError
	if p := (*pgconn.PgError)(nil); errors.As(err, &p) {
		e = *p
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull, e.Code == postgresDiskFull:
		return reasonDiskFull
	case errors.Is(err, syscall.EROFS), sqlite.ErrCode(err).ToPrimary() == sqlite.ResultReadOnly, e.Code == postgresReadOnly:
		return reasonReadOnly
	}
	return reasonUnavailable
}

func writeHealth(w http.ResponseWriter, r *http.Request, status int, body map[string]any) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		rest.WriteProblem(w, r, &workitem.Error{Code: rest.MethodNotAllowed})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller is gone: nobody is left to tell
}

// guardMetrics shows the metrics to callers on this machine, to admins, and to
// everybody if the settings say so.
func (s *Server) guardMetrics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.cfg.MetricsPublic && !onThisMachine(r) {
			p, err := s.auth.Request(r)
			if err == nil && !p.Scopes.Has(workitem.ScopeAdmin) {
				err = &workitem.Error{Code: workitem.ForbiddenScope, Message: "from another machine the metrics need jobs:admin"}
			}
			if err != nil {
				rest.WriteProblem(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// onThisMachine says whether the caller is: at the socket, or at the other end of
// a loopback connection. What a proxy has passed on may come from anywhere.
func onThisMachine(r *http.Request) bool {
	if auth.IsLocal(r.Context()) {
		return true
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
