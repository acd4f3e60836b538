package mcp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// Path is where the protocol is spoken over HTTP.
const Path = "/mcp"

const (
	// maxBody is the largest request that is read, in bytes: a job request of the
	// largest size, and what is around it.
	maxBody = rest.MaxBody + 64<<10
	// maxBatch is how many messages a batch of the oldest revision may have. They
	// run at once, and the server's limits count them as one request.
	maxBatch = 16
)

// HTTPConfig is what a handler needs.
type HTTPConfig struct {
	// Authenticate verifies the credential of a request and gives the verbs for its
	// principal, as for rest.
	Authenticate func(*http.Request) (operation.Jobs, workitem.Principal, error)
	// Origins are the web origins whose pages may call, spelled exactly as browsers
	// send them. Their hosts are also names under which a proxy may hand requests on.
	Origins []string
	// Version is the version that the server tells its clients.
	Version string
	// Logger is told of internal errors and panics. Nil is slog's default.
	Logger *slog.Logger
	// Extension is that of Config.
	Extension *Extension
	// Done, if not nil, is told of every request that has been answered, with its
	// context. A batch shows one of its calls.
	Done func(context.Context, Call)
}

// Call is what a request called.
type Call struct {
	// Operation is nil where no tool or resource was used.
	Operation *operation.Operation
	// Code is empty for a success.
	Code workitem.Code
	// Principal is empty where none was verified.
	Principal workitem.Principal
}

// exchange is one HTTP request. Its calls run in goroutines of the SDK.
type exchange struct {
	request context.Context // ends when the client has gone
	jobs    operation.Jobs

	mu   sync.Mutex
	call Call
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// record keeps what became of a call.
func record(ctx context.Context, o *operation.Operation, code workitem.Code) {
	if x := exchangeOf(ctx); x != nil {
		x.mu.Lock()
		x.call.Operation, x.call.Code = o, code
		x.mu.Unlock()
	}
}

// tied ends a call with the HTTP request that brought it: without sessions nobody
// could get its answer any more.
func tied(ctx context.Context) context.Context {
	x := exchangeOf(ctx)
	if x == nil {
		return ctx
	}
	return tiedContext{x.request, ctx}
}

// tiedContext ends with one context, and has the values of both.
type tiedContext struct {
	context.Context
	values context.Context
}

// Value looks first where the end comes from, so that contexts below find it.
func (c tiedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// handler speaks the protocol over HTTP.
type handler struct {
	cfg   HTTPConfig
	hosts []string // of the origins
	next  http.Handler
}

// NewHandler makes the handler of Path.
func NewHandler(cfg HTTPConfig) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	server := New(Config{Version: cfg.Version, Logger: cfg.Logger, Extension: cfg.Extension,
		Owner: func(ctx context.Context) string { return exchangeOf(ctx).call.Principal.Owner },
		Open: func(ctx context.Context) (operation.Jobs, func() error, error) {
			return exchangeOf(ctx).jobs, func() error { return nil }, nil
		}})
	h := &handler{cfg: cfg, next: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: cfg.Extension == nil || !cfg.Extension.Events, MaxRequestBodyBytes: maxBody,
			DisableLocalhostProtection:   true, // names are checked here, where proxies are known
			PropagateRequestCancellation: true})}
	for _, o := range cfg.Origins {
		if u, err := url.Parse(o); err == nil && u.Host != "" {
			h.hosts = append(h.hosts, u.Hostname())
		}
	}
	return h
}

var (
	headerNoSniff = []string{"nosniff"}
	headerVary    = []string{"Origin"}
	corsMethods   = []string{"POST"}
	corsHeaders   = []string{"Accept, Authorization, Content-Type, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Traceparent, X-Request-Id"}
	corsExpose    = []string{"WWW-Authenticate, X-Request-Id"}
	corsMaxAge    = []string{"600"}
)

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = rest.Identify(w, r)
	w.Header()["X-Content-Type-Options"] = headerNoSniff
	x := &exchange{request: r.Context()}
	if h.cfg.Done != nil {
		defer func() {
			x.mu.Lock()
			defer x.mu.Unlock()
			h.cfg.Done(r.Context(), x.call)
		}()
	}
	if !h.named(r) {
		forbidden(w, "the request names a host that this server is not")
		return
	}
	if !h.admitted(w, r) {
		return
	}
	jobs, principal, err := h.cfg.Authenticate(r)
	if err != nil {
		x.call.Code = rest.WriteProblem(w, r, err).Code
		return
	}
	x.jobs, x.call.Principal = jobs, principal
	if r.Method == http.MethodPost {
		body, err := read(r)
		if err != nil {
			x.call.Code = rest.WriteProblem(w, r, err).Code
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if message := malformed(body); message != "" {
			x.call.Code = workitem.InvalidRequest
			protocolError(w, http.StatusBadRequest, -32700, nil, message)
			return
		}
		if id, message := misnamed(r.Header, body); message != "" {
			x.call.Code = workitem.InvalidRequest
			protocolError(w, http.StatusBadRequest, sdk.CodeHeaderMismatch, id, message)
			return
		}
	}
	ctx := context.WithValue(r.Context(), exchangeKey{}, x)
	h.next.ServeHTTP(discreetWriter{w}, r.WithContext(ctx))
}

// read reads a body up to the limit.
func read(r *http.Request) ([]byte, error) {
	tooLarge := &workitem.Error{Code: workitem.PayloadTooLarge,
		Message: "the request body is larger than " + strconv.Itoa(maxBody) + " bytes"}
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	body := buf.Bytes()
	switch {
	case len(body) > maxBody:
		return nil, tooLarge
	case err != nil:
		return nil, &workitem.Error{Code: workitem.InvalidRequest, Err: err, Message: "the request body could not be read to its end"}
	}
	return body, nil
}

// malformed says what is wrong with a message before the SDK looks at it: its JSON is
// valid, in UTF-8, and a batch has few messages. Members that are given twice are
// refused where they matter, in arguments.
func malformed(body []byte) string {
	if v := jsontext.Value(body); v.Kind() == '{' && v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return ""
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	kind := d.PeekKind()
	messages := 0
	if kind == '[' {
		if _, err := d.ReadToken(); err != nil {
			return "the message is not valid JSON in UTF-8"
		}
		for d.PeekKind() != ']' {
			if err := d.SkipValue(); err != nil {
				return "the message is not valid JSON in UTF-8"
			}
			if messages++; messages > maxBatch {
				return "a batch may have " + strconv.Itoa(maxBatch) + " messages"
			}
		}
		if _, err := d.ReadToken(); err != nil {
			return "the message is not valid JSON in UTF-8"
		}
	} else if kind != '{' || d.SkipValue() != nil {
		return "the message must be a JSON object in UTF-8"
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return "the message must end after its JSON"
	}
	return ""
}

// named says whether a request reached this server under a name of its own. A page
// whose host's address was changed to that of this machine still sends its own name.
func (h *handler) named(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := local.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return true // who gets here by that trick sends an origin
	}
	host := hostname(r.Host)
	return isLoopback(host) || slices.Contains(h.hosts, host)
}

// hostname is a Host header without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// admitted says whether the page that sent a request, if it was one, may. What was
// not admitted, and a preflight, is answered.
func (h *handler) admitted(w http.ResponseWriter, r *http.Request) bool {
	header := w.Header()
	header["Vary"] = headerVary
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	configured := len(origins) == 1 && slices.Contains(h.cfg.Origins, origins[0])
	if !configured && (len(origins) > 1 || !own(origins[0], r.Host)) {
		forbidden(w, "pages of this origin may not call; the server admits the origins that its setting origin names")
		return false
	}
	if !configured {
		return true
	}
	header["Access-Control-Allow-Origin"] = origins
	header["Access-Control-Expose-Headers"] = corsExpose
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	header["Access-Control-Allow-Methods"] = corsMethods
	header["Access-Control-Allow-Headers"] = corsHeaders
	header["Access-Control-Max-Age"] = corsMaxAge
	w.WriteHeader(http.StatusNoContent)
	return false
}

// own says whether an origin is that of the server itself, and its host is one that
// nobody else can give to this machine: an address, or localhost.
func own(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host != host || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || strings.EqualFold(u.Hostname(), "localhost")
}

func forbidden(w http.ResponseWriter, message string) {
	protocolError(w, http.StatusForbidden, -32600, nil, message)
}

// protocolError answers with an error of the protocol, to the message with an id or
// to none. The text is a fixed one.
func protocolError(w http.ResponseWriter, status, code int, id jsontext.Value, message string) {
	if id == nil {
		id = jsontext.Value("null")
	}
	body := errorBody(id, code, message)
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone: nobody is left to tell
}

// errorBody is an error of the protocol for a message with an id, which is JSON. The
// text is a fixed one.
func errorBody(id []byte, code int, message string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":` + strconv.Itoa(code) + `,"message":` + strconv.Quote(message) + "}}")
}
