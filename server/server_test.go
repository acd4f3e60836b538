package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/auth"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// lines is a log in memory.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bundle is a server over a fake authority.
type bundle struct {
	*Server
	fake     *resttest.Fake
	log      *lines
	health   atomic.Pointer[error]
	totals   totals
	failing  error // of totals
	export   func(context.Context, io.Writer, transfer.Options) error
	released chan struct{}
}

func setup(t *testing.T, change func(*Config)) *bundle {
	t.Helper()
	b := &bundle{fake: &resttest.Fake{}, log: &lines{}, released: make(chan struct{})}
	cfg := Config{Data: t.TempDir(), DevTokens: true, Log: slog.New(slog.NewJSONHandler(b.log, nil))}
	if change != nil {
		change(&cfg)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	w := work{
		as: func(workitem.Principal) operation.Jobs { return b.fake },
		health: func() error {
			if err := b.health.Load(); err != nil {
				return *err
			}
			return nil
		},
		totals: func(context.Context) (totals, error) { return b.totals, b.failing },
		export: func(ctx context.Context, w io.Writer, o transfer.Options) error {
			return b.export(ctx, w, o)
		},
		release: sync.OnceFunc(func() { close(b.released) }),
	}
	if b.Server, err = newServer(t.Context(), cfg, w, newMetrics()); err != nil {
		t.Fatal(err)
	}
	return b
}

const devToken = "Bearer dev:acme:lovelace"

// get asks the handler as a caller at a remote address.
func (b *bundle) get(ctx context.Context, path, remote string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.RemoteAddr = remote
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func TestReadinessSaysWhyNot(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	expect := func(status int, body string) {
		t.Helper()
		w := b.get(t.Context(), "/readyz", "203.0.113.1:1")
		if w.Code != status || strings.TrimSpace(w.Body.String()) != body {
			t.Errorf("%d %s, expected %d %s", w.Code, w.Body, status, body)
		}
		if w := b.get(t.Context(), "/healthz", "203.0.113.1:1"); w.Code != http.StatusOK {
			t.Errorf("/healthz: %d", w.Code)
		}
	}
	expect(200, `{"ready":true}`)
	for _, x := range []struct {
		err    error
		reason string
	}{
		{&workitem.Error{Code: workitem.AuthorityUnavailable, Message: "secret text", Err: &fs.PathError{Op: "write", Path: "work.db", Err: syscall.ENOSPC}}, "disk_full"},
		{fmt.Errorf("x: %w", syscall.EROFS), "store_read_only"},
		{errors.New("a sync has failed"), "store_unavailable"},
	} {
		b.health.Store(&x.err)
		expect(503, `{"ready":false,"reason":"`+x.reason+`"}`)
	}
	b.health.Store(nil)
	b.stopping.Store(true)
	expect(503, `{"ready":false,"reason":"stopping"}`)
	r := httptest.NewRecorder()
	b.handler.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/healthz", nil))
	if r.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /healthz: %d", r.Code)
	}
}

func TestNobodyIsAnonymous(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.DevTokens = false })
	for _, o := range operation.Table {
		r := httptest.NewRequestWithContext(t.Context(), o.Method, strings.ReplaceAll(o.Path, "{id}", "x"), nil)
		for _, header := range []string{"", devToken} {
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			b.handler.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %q: %d", o.Method, o.Path, header, w.Code)
			}
		}
	}
	if n, _ := b.fake.Calls(); n != 0 {
		t.Errorf("the authority was called %d times", n)
	}
}

func TestMetricsAreForThisMachineAndAdmins(t *testing.T) {
	t.Parallel()
	const here, away = "127.0.0.1:1", "203.0.113.1:1"
	b := setup(t, nil)
	for _, x := range []struct {
		name    string
		ctx     context.Context
		remote  string
		headers []string
		status  int
	}{
		{"loopback", t.Context(), here, nil, 200},
		{"loopback, IPv6", t.Context(), "[::1]:1", nil, 200},
		{"socket", auth.Local(t.Context()), "@", nil, 200},
		{"away", t.Context(), away, nil, 401},
		{"through a proxy", t.Context(), here, []string{"X-Forwarded-For", "203.0.113.1"}, 401},
		{"through a proxy", t.Context(), here, []string{"Forwarded", "for=203.0.113.1"}, 401},
		{"away without jobs:admin", t.Context(), away, []string{"Authorization", devToken}, 403},
		{"away with jobs:admin", t.Context(), away, []string{"Authorization", devToken + ":jobs:admin"}, 200},
	} {
		if w := b.get(x.ctx, "/metrics", x.remote, x.headers...); w.Code != x.status {
			t.Errorf("%s: %d, expected %d", x.name, w.Code, x.status)
		}
	}
	public := setup(t, func(c *Config) { c.MetricsPublic = true })
	if w := public.get(t.Context(), "/metrics", away); w.Code != 200 {
		t.Errorf("public: %d", w.Code)
	}
}

func TestMetricsCountWhatTheAuthorityDoes(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for c := range workitem.Counter(workitem.Counters) {
		b.metrics.Count(c, 100+int(c))
	}
	b.metrics.Batch(32, time.Millisecond, 2*time.Millisecond)
	b.totals = totals{OldestReadyAge: 12.5, LiveLeases: 3, Faults: 1,
		Kinds: []kindTotals{{Kind: "repository.build", States: map[string]int{"ready": 7}, Claimable: 5}}}
	b.get(t.Context(), "/v1/jobs/x/result", "203.0.113.1:1", "Authorization", devToken)
	b.get(t.Context(), "/v1/acme-secret", "203.0.113.1:1", "Authorization", devToken)
	text := b.get(t.Context(), "/metrics", "127.0.0.1:1").Body.String()
	for _, want := range []string{
		"writ_store_batch_size_sum 32", "writ_store_run_seconds_sum 0.001", "writ_store_sync_seconds_sum 0.002",
		"writ_oldest_ready_age_seconds 12.5", "writ_live_leases 3", "writ_faulty_jobs 1",
		`writ_jobs{kind="repository.build",state="ready"} 7`, `writ_claimable_jobs{kind="repository.build"} 5`,
		"writ_store_readable 1", "writ_store_writable 1",
		`writ_http_request_seconds_count{method="GET",route="/v1/jobs/{id}/result",status="200"} 1`,
		`writ_http_request_seconds_count{method="GET",route="none",status="404"} 1`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	for c, d := range counted {
		want := d.metric
		if d.label != "" {
			want += fmt.Sprintf("{%s=%q}", d.label, d.value)
		}
		if want += fmt.Sprintf(" %d", 100+c); !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	for _, never := range []string{"acme", "lovelace"} {
		if strings.Contains(text, never) {
			t.Errorf("/metrics shows %s", never)
		}
	}
}

func TestMetricsOfAStoreThatCantBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.failing = errors.New("I/O error")
	failure := error(&workitem.Error{Code: workitem.AuthorityUnavailable})
	b.health.Store(&failure)
	text := b.get(t.Context(), "/metrics", "127.0.0.1:1").Body.String()
	for _, want := range []string{"writ_store_readable 0", "writ_store_writable 0"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "\nwrit_oldest_ready_age_seconds ") {
		t.Error("an age was shown although nothing could be read")
	}
}

func TestOneLineARequest(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.get(t.Context(), "/v1/jobs/rmjob:private?wait_s=1", "203.0.113.1:1", "Authorization", devToken, "X-Request-Id", "r-1")
	b.fake.Refuse(&workitem.Error{Code: workitem.NotFound, Message: "no such job"})
	b.get(t.Context(), "/v1/jobs/rmjob:private", "203.0.113.1:1", "Authorization", devToken)
	b.get(t.Context(), "/v1/jobs", "203.0.113.1:1", "Authorization", "Bearer private")
	b.get(t.Context(), "/v1/private", "203.0.113.1:1")
	b.get(t.Context(), "//private", "203.0.113.1:1")
	b.get(t.Context(), "/healthz", "203.0.113.1:1")
	text := b.log.String()
	for _, never := range []string{"private", "acme", "wait_s"} {
		if strings.Contains(text, never) {
			t.Errorf("the log shows %s:\n%s", never, text)
		}
	}
	var got []string
	for line := range strings.Lines(text) {
		var m struct {
			Level, Msg, Method, Route, Code, Subject string
			Status                                   int
			Seconds                                  *float64
			RequestID                                string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Seconds == nil || m.RequestID == "" {
			t.Fatalf("%s: %v", line, err)
		}
		if m.RequestID != "r-1" {
			m.RequestID = "-"
		}
		got = append(got, fmt.Sprint(m.Level, " ", m.Msg, " ", m.Method, " ", m.Route, " ", m.Status, " ", m.Code, " ", m.Subject, " ", m.RequestID))
	}
	want := []string{
		"INFO request GET /v1/jobs/{id} 200  lovelace r-1",
		"INFO request GET /v1/jobs/{id} 404 not_found lovelace -",
		"INFO request GET /v1/jobs 401 unauthenticated  -",
		"INFO request GET none 404 not_found  -",
		"INFO request GET none 404 not_found  -",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCallsOfToolsAreWatched: requests over MCP are logged and limited like others, and
// the line says which tool was called and how it was refused.
func TestCallsOfToolsAreWatched(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.MaxRequests = 1 })
	post := func(body, authorization string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		return w
	}
	const get = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_get","arguments":{"job_id":"rmjob:private"}}}`
	if w := post(get, devToken); w.Code != 200 || !strings.Contains(w.Body.String(), `"structuredContent":{`) {
		t.Errorf("a call: %d %s", w.Code, w.Body)
	}
	b.fake.Refuse(&workitem.Error{Code: workitem.NotFound, Message: "no such job"})
	if w := post(get, devToken); w.Code != 200 || !strings.Contains(w.Body.String(), `"isError":true`) {
		t.Errorf("a refusal: %d %s", w.Code, w.Body)
	}
	b.fake.Refuse(nil)
	if w := post(get, "Bearer private"); w.Code != 401 {
		t.Errorf("without a token: %d %s", w.Code, w.Body)
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, devToken)
	arrived, letGo := b.hold()
	var running sync.WaitGroup
	running.Go(func() { post(get, devToken) })
	<-arrived
	if w := post(get, devToken); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("beyond the limit: %d %s", w.Code, w.Body)
	}
	letGo()
	running.Wait()

	var got []string
	for line := range strings.Lines(b.log.String()) {
		var m struct {
			Method, Route, Tool, Code, Subject string
			Status                             int
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || strings.Contains(line, "private") {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprint(m.Method, " ", m.Route, " ", m.Status, " ", m.Tool, " ", m.Code, " ", m.Subject))
	}
	want := []string{
		"POST /mcp 200 job_get  lovelace",
		"POST /mcp 200 job_get not_found lovelace",
		"POST /mcp 401  unauthenticated ",
		"POST /mcp 200   lovelace",
		"POST none 503  authority_unavailable ",
		"POST /mcp 200 job_get  lovelace",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// hold makes calls of the authority wait until the test lets them go, and tells
// when one has arrived.
func (b *bundle) hold() (arrived <-chan struct{}, letGo func()) {
	in, out := make(chan struct{}, 100), make(chan struct{})
	b.fake.Hook = func(ctx context.Context) error {
		in <- struct{}{}
		select {
		case <-out:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return in, sync.OnceFunc(func() { close(out) })
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.MaxRequests, c.MaxPerConnection = 3, 2 })
	arrived, letGo := b.hold()
	one := context.WithValue(t.Context(), connectionKey{}, &connection{})
	var running sync.WaitGroup
	ask := func(ctx context.Context) {
		running.Go(func() {
			if w := b.get(ctx, "/v1/jobs", "203.0.113.1:1", "Authorization", devToken); w.Code != 200 {
				t.Errorf("a request within the limits: %d", w.Code)
			}
		})
		<-arrived
	}
	refused := func(ctx context.Context, status int, code string) {
		t.Helper()
		w := b.get(ctx, "/v1/jobs", "203.0.113.1:1", "Authorization", devToken)
		var p rest.Problem
		err := json.Unmarshal(w.Body.Bytes(), &p)
		if err != nil || w.Code != status || string(p.Code) != code || !p.Retryable || w.Header().Get("Retry-After") == "" || p.RequestID == "" {
			t.Errorf("%d %s (%v), expected %d %s", w.Code, w.Body, err, status, code)
		}
	}
	ask(one)
	ask(one)
	refused(one, 429, "too_many_requests")
	ask(t.Context())
	refused(t.Context(), 503, "authority_unavailable")
	if w := b.get(t.Context(), "/readyz", "203.0.113.1:1"); w.Code != 200 {
		t.Errorf("health has no part in the limits: %d", w.Code)
	}
	text := b.get(t.Context(), "/metrics", "127.0.0.1:1").Body.String()
	for _, want := range []string{`writ_http_refused_total{limit="connection"} 1`, `writ_http_refused_total{limit="requests"} 1`, "writ_http_requests_in_flight 3"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	letGo()
	running.Wait()
	b.fake.Hook = nil
	if w := b.get(one, "/v1/jobs", "203.0.113.1:1", "Authorization", devToken); w.Code != 200 {
		t.Errorf("after the others: %d", w.Code)
	}
}

// serving is a bundle that listens.
type serving struct {
	*bundle
	url    string
	client *http.Client
	stop   func()
	ended  chan error
}

func (b *bundle) listen(t *testing.T, cert *certificate) *serving {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := listenSocket(t.Context(), b.cfg.Data)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{bundle: b, url: "http://" + tcp.Addr().String(), client: &http.Client{Transport: transport}, stop: cancel, ended: make(chan error, 1)}
	if cert != nil {
		s.url = "https://" + tcp.Addr().String()
	}
	go func() { s.ended <- b.serve(ctx, tcp, socket, cert) }()
	t.Cleanup(func() { cancel(); transport.CloseIdleConnections() })
	return s
}

// ask calls a server; the body is read to its end.
func (s *serving) ask(ctx context.Context, path string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", devToken)
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), errors.Join(err, resp.Body.Close())
}

func TestAStopLetsRunningRequestsFinish(t *testing.T) {
	t.Parallel()
	s := setup(t, nil).listen(t, nil)
	arrived, letGo := s.hold()
	answer := make(chan error, 1)
	go func() {
		status, _, err := s.ask(t.Context(), "/v1/jobs")
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d", status)
		}
		answer <- err
	}()
	<-arrived
	s.stop()
	<-s.released // long polls have been told
	if !s.stopping.Load() {
		t.Error("the server still says that it is ready")
	}
	select {
	case err := <-s.ended:
		t.Fatalf("the server has ended before the request: %v", err)
	default:
	}
	letGo()
	if err := <-answer; err != nil {
		t.Errorf("the running request: %v", err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(SocketPath(s.cfg.Data)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket was left: %v", err)
	}
}

func TestAStopBreaksOffWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.Grace = time.Millisecond }).listen(t, nil)
	arrived, letGo := s.hold()
	defer letGo()
	answer := make(chan error, 1)
	go func() {
		status, _, err := s.ask(t.Context(), "/v1/jobs")
		if err == nil && status == 200 {
			err = errors.New("it was answered as if it had succeeded")
		} else {
			err = nil
		}
		answer <- err
	}()
	<-arrived
	s.stop()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func TestCallersAtTheSocketAreLocal(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.DevTokens = false })
	var principal workitem.Principal
	b.work.as = func(p workitem.Principal) operation.Jobs { principal = p; return b.fake }
	s := b.listen(t, nil)
	if status, _, err := s.ask(t.Context(), "/v1/jobs"); status != 401 {
		t.Errorf("a development token over TCP: %d, %v", status, err)
	}
	path := SocketPath(s.cfg.Data)
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer s.client.CloseIdleConnections()
	if status, body, err := s.ask(t.Context(), "/v1/jobs"); status != 200 {
		t.Fatalf("at the socket: %d %s %v", status, body, err)
	}
	if !principal.Local || principal.Tenant != "acme" {
		t.Errorf("%+v", principal)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.MaxConnections = 1 }).listen(t, nil)
	arrived, letGo := s.hold()
	answer := make(chan error, 1)
	go func() {
		_, _, err := s.ask(t.Context(), "/v1/jobs")
		answer <- err
	}()
	<-arrived
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the second connection was not closed: %d, %v", n, err)
	}
	_ = conn.Close()
	letGo()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	s.client.CloseIdleConnections()
	// The slot is free again once the server has seen the first one go.
	for {
		status, _, err := s.ask(t.Context(), "/v1/jobs")
		if err == nil {
			if status != 200 {
				t.Errorf("status %d", status)
			}
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestTheSocketOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := SocketPath(data)
	left, err := listenSocket(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(t.Context(), data); !errors.Is(err, ErrRunning) {
		t.Errorf("beside one that answers: %v", err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	l, err := listenSocket(t.Context(), data)
	if err != nil {
		t.Fatalf("after one that is gone: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(t.Context(), data); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("where a file is: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "notes" {
		t.Errorf("the file was touched: %q, %v", b, err)
	}
	if _, err := listenSocket(t.Context(), filepath.Join(data, strings.Repeat("x", 100))); !errors.Is(err, ErrUsage) {
		t.Errorf("a path that is too long: %v", err)
	}
}

func TestAddressesThatAreTooOpen(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name   string
		change func(*Config)
		part   string // of the error; "" for none
	}{
		{"loopback", func(c *Config) { c.Listen = "127.0.0.1:0"; c.DevTokens = true }, ""},
		{"IPv6 loopback", func(c *Config) { c.Listen = "[::1]:0" }, ""},
		{"everywhere", func(c *Config) { c.Listen = ":0" }, "--insecure-listen"},
		{"everywhere, named", func(c *Config) { c.Listen = "0.0.0.0:0" }, "--tls-cert"},
		{"everywhere, said so", func(c *Config) { c.Listen = "0.0.0.0:0"; c.InsecureListen = true }, ""},
		{"everywhere with TLS", func(c *Config) { c.Listen = "0.0.0.0:0"; c.TLSCert, c.TLSKey = "c", "k" }, ""},
		{"development tokens", func(c *Config) { c.Listen = "0.0.0.0:0"; c.DevTokens = true; c.InsecureListen = true }, "development tokens"},
		{"development tokens with TLS", func(c *Config) {
			c.Listen = "0.0.0.0:0"
			c.DevTokens = true
			c.TLSCert, c.TLSKey = "c", "k"
		}, "development tokens"},
		{"no port", func(c *Config) { c.Listen = "127.0.0.1" }, "HOST:PORT"},
	} {
		c := Config{Data: "x"}
		x.change(&c)
		l, err := c.listenTCP(t.Context())
		if err == nil {
			_ = l.Close()
		}
		switch {
		case x.part == "" && err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT):
			t.Errorf("%s: %v", x.name, err)
		case x.part != "" && (!errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), x.part)):
			t.Errorf("%s: %v, expected %q", x.name, err, x.part)
		}
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"data":        {},
		"key":         {Data: "x", TLSCert: "c"},
		"requests":    {Data: "x", MaxRequests: -1},
		"connections": {Data: "x", MaxConnections: 1 << 21},
		"grace":       {Data: "x", Grace: -1},
	} {
		if _, err := c.withDefaults(); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
