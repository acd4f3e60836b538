package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// work is the work item authority as the server needs it.
type work struct {
	as      func(workitem.Principal) operation.Jobs
	tokens  auth.Tokens
	health  func() error
	totals  func(context.Context) (totals, error)
	export  func(context.Context, io.Writer, transfer.Options) error
	release func()                                 // ends calls that wait
	copy    func(context.Context, io.Writer) error // nil if a database has the jobs
}

// Server answers requests with one authority.
type Server struct {
	cfg     Config
	log     *slog.Logger
	work    work
	auth    *auth.Authenticator
	metrics *metrics
	tracing *tracing
	handler http.Handler

	slots     chan struct{} // one for each request that may run
	exporting atomic.Bool
	stopping  atomic.Bool
}

// newServer makes a server of settings with defaults. m is the observer of the
// authority.
func newServer(ctx context.Context, cfg Config, w work, m *metrics) (*Server, error) {
	s := &Server{cfg: cfg, log: cfg.Log, work: w, metrics: m, slots: make(chan struct{}, cfg.MaxRequests)}
	credentials := auth.Config{Tokens: w.tokens, Dev: cfg.DevTokens}
	if cfg.JWT.Keys != nil || cfg.JWT.URL != "" {
		j, err := auth.NewJWT(cfg.JWT)
		if err != nil {
			return nil, usage("%v", err)
		}
		credentials.JWT = j
	}
	s.auth = auth.New(credentials)
	m.registry.MustRegister(&gauges{read: w.totals, health: w.health, now: time.Now})
	var err error
	if s.tracing, err = newTracing(ctx, cfg.Getenv, cfg.Log); err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

func (s *Server) routes() http.Handler {
	verbs := rest.New(rest.Config{
		Authenticate: s.authenticate,
		Origins:      s.cfg.Origins,
		Logger:       s.log,
		Done:         answered,
	})
	tools := mcp.NewHandler(mcp.HTTPConfig{
		Authenticate: s.authenticate,
		Origins:      s.cfg.Origins,
		Version:      s.cfg.Version,
		Logger:       s.log,
		Done:         calledTool,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/readyz", s.readyz)
	mux.Handle("/metrics", s.guardMetrics(s.metrics.handler()))
	calls := s.watch(s.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == mcp.Path:
			tools.ServeHTTP(w, r)
		case r.URL.Path == transfer.Path:
			s.serveExport(w, r)
		case r.URL.Path == operation.CopyPath && r.Method == http.MethodGet && auth.IsLocal(r.Context()):
			s.copyStore(w, r)
		default:
			verbs.ServeHTTP(w, r)
		}
	})))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz", "/metrics":
			mux.ServeHTTP(w, r)
		default: // as it is: the mux would redirect what it finds untidy
			calls.ServeHTTP(w, r)
		}
	})
}

func (s *Server) authenticate(r *http.Request) (operation.Jobs, workitem.Principal, error) {
	p, err := s.auth.Request(r)
	if err != nil {
		return nil, workitem.Principal{}, err
	}
	return traced{Jobs: s.work.as(p), tracing: s.tracing}, p, nil
}

// ready says that requests are taken, keeps the certificate as Config.Reload says,
// and serves.
func (s *Server) ready(ctx context.Context, at Addresses, tcp, socket net.Listener, cert *certificate) error {
	if cert != nil && s.cfg.Reload != nil {
		ended, end := context.WithCancel(ctx)
		var reloads sync.WaitGroup
		defer reloads.Wait()
		defer end()
		reloads.Go(func() { // until the server has stopped
			for {
				select {
				case <-s.cfg.Reload:
					cert.reload()
				case <-ended.Done():
					return
				}
			}
		})
	}
	s.log.Info("ready", "url", at.URL, "socket", at.Socket)
	if s.cfg.Ready != nil {
		s.cfg.Ready(at)
	}
	return s.serve(ctx, tcp, socket, cert)
}

// serve answers at the listeners until ctx ends, then stops as the package says.
// It closes the listeners.
func (s *Server) serve(ctx context.Context, tcp, socket net.Listener, cert *certificate) error {
	base, abort := context.WithCancel(context.Background())
	defer abort()
	h := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       connected,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // broken connections, mostly
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 2 * s.cfg.MaxPerConnection},
	}
	ended := make(chan error, 2)
	var listeners sync.WaitGroup
	bound := func(l net.Listener) net.Listener {
		return &bounded{Listener: l, slots: make(chan struct{}, s.cfg.MaxConnections), overflow: func() {
			s.metrics.refused.WithLabelValues(limitConnections).Inc()
		}}
	}
	listen := func(l net.Listener) {
		listeners.Go(func() { ended <- h.Serve(l) }) // until Shutdown
	}
	socket = bound(socket)
	if tcp != nil {
		tcp = bound(tcp)
		if cert != nil {
			tcp = tls.NewListener(tcp, cert.config())
		}
		listen(tcp)
	}
	listen(socket)

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-ended: // a listener broke: nothing is gained by going on with half of them
		failure = fmt.Errorf("a listener has failed: %w", failure)
	}
	s.log.Info("stopping", "grace", s.cfg.Grace.String())
	s.stopping.Store(true)
	s.work.release()
	grace, cancel := context.WithTimeout(context.Background(), s.cfg.Grace)
	defer cancel()
	err := h.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("requests were broken off", "running", len(s.slots))
		abort()
		err = h.Close()
	}
	listeners.Wait()
	return errors.Join(failure, err)
}

// close exports the last spans.
func (s *Server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.tracing.close(ctx)
}
