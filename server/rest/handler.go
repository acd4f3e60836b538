package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// MaxBody is the largest request body that is read, in bytes (section 20).
const MaxBody = 256 << 10

// Config is what a handler needs.
type Config struct {
	// Authenticate verifies the credential of a request and gives the verbs for
	// its principal. An error is shown as WriteProblem does.
	Authenticate func(*http.Request) (operation.Jobs, workitem.Principal, error)
	// Origins are the web origins that browsers may call from, spelled exactly as
	// they send them. None are allowed by default.
	Origins []string
	// Logger is told of internal errors and panics, with their causes. Nil is
	// slog's default.
	Logger *slog.Logger
	// Done, if not nil, is told of every call that has been answered, with the
	// context of its request.
	Done func(context.Context, Call)
}

// Call is one call that was answered.
type Call struct {
	// Operation is nil where no operation was found.
	Operation *operation.Operation
	Status    int
	// Code is empty for a success.
	Code workitem.Code
	Took time.Duration
	// Principal is empty where none was verified.
	Principal workitem.Principal
	RequestID string
}

// Values of headers that are the same in every answer. They are shared and never
// changed.
var (
	headerJSON    = []string{"application/json"}
	headerProblem = []string{ContentType}
	headerNoStore = []string{"no-store"}
	headerPrivate = []string{"private, no-cache"}
	headerBearer  = []string{`Bearer realm="writ"`}
	headerSecond  = []string{"1"}
	headerNoSniff = []string{"nosniff"}
)

// keptBuffer bounds the buffers that are kept for the next call.
const keptBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

type handler struct {
	cfg Config
	mux *http.ServeMux
}

// New makes the handler of everything below /v1. A request outside of its routes
// is answered with not_found.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	h := &handler{cfg: cfg, mux: http.NewServeMux()}
	byPath := map[string]*route{}
	for _, o := range operation.Table {
		r := byPath[o.Path]
		if r == nil {
			r = &route{handler: h, operations: map[string]*operation.Operation{}}
			byPath[o.Path] = r
			h.mux.Handle(o.Path, r)
		}
		r.operations[o.Method] = o
	}
	for _, r := range byPath {
		var methods []string
		for method := range r.operations {
			methods = append(methods, method)
			if method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
		slices.Sort(methods)
		r.allow = []string{strings.Join(methods, ", ")}
	}
	text := Document()
	h.mux.HandleFunc("/v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header()["Allow"] = []string{"GET, HEAD"}
			WriteProblem(w, r, &workitem.Error{Code: MethodNotAllowed})
			return
		}
		w.Header()["Content-Type"] = headerJSON
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(text))}
		_, _ = w.Write(text) // the client is gone: nobody is left to tell
	})
	h.mux.HandleFunc("/", h.noRoute)
	return h
}

// noRoute answers a request for which there is no route.
func (h *handler) noRoute(w http.ResponseWriter, r *http.Request) {
	e := WriteProblem(w, r, &workitem.Error{Code: workitem.NotFound, Message: "there is no such route"})
	h.done(r.Context(), Call{Status: Status(e.Code), Code: e.Code, RequestID: RequestID(r.Context())}, time.Now())
}

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = Identify(w, r)
	w.Header()["X-Content-Type-Options"] = headerNoSniff
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			h.cfg.Logger.ErrorContext(r.Context(), "panic", "request_id", RequestID(r.Context()),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			WriteProblem(w, r, fmt.Errorf("panic: %v", p))
		}
	}()
	if h.crossOrigin(w, r) {
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") || path.Clean(r.URL.Path) != r.URL.Path {
		// The mux would redirect it, or answer OPTIONS * in its own way.
		h.noRoute(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// done reports a call that began at some time.
func (h *handler) done(ctx context.Context, c Call, began time.Time) {
	if h.cfg.Done != nil {
		c.Took = time.Since(began)
		h.cfg.Done(ctx, c)
	}
}

// route has the operations of one path, by method.
type route struct {
	handler    *handler
	operations map[string]*operation.Operation
	allow      []string
}

func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := rt.handler
	began := time.Now()
	call := Call{RequestID: RequestID(r.Context())}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http drops the body
	}
	var err error
	if call.Operation = rt.operations[method]; call.Operation == nil {
		w.Header()["Allow"] = rt.allow
		err = &workitem.Error{Code: MethodNotAllowed}
	} else {
		call.Status, err = h.call(w, r, &call)
	}
	if err != nil {
		e := WriteProblem(w, r, err)
		call.Status, call.Code = Status(e.Code), e.Code
		if e.Code == workitem.Internal {
			h.cfg.Logger.ErrorContext(r.Context(), "internal error", "request_id", call.RequestID,
				"operation", call.name(), "error", err, "cause", errors.Unwrap(e))
		}
	}
	h.done(r.Context(), call, began)
}

func (c *Call) name() string {
	if c.Operation == nil {
		return ""
	}
	return c.Operation.Name
}

// call runs one operation and answers with what it gives. After an error nothing
// has been answered yet.
func (h *handler) call(w http.ResponseWriter, r *http.Request, call *Call) (int, error) {
	o := call.Operation
	jobs, principal, err := h.cfg.Authenticate(r)
	if err != nil {
		return 0, err
	}
	call.Principal = principal
	in := o.NewInput()
	if err := o.DecodeQuery(r.URL.RawQuery, in); err != nil {
		return 0, err
	}
	if err := h.body(r, o, in); err != nil {
		return 0, err
	}
	out, err := o.Call(r.Context(), jobs, in)
	if err != nil {
		return 0, err
	}
	return answer(w, r, o, out)
}

// body reads the request's body into an input.
func (h *handler) body(r *http.Request, o *operation.Operation, in any) error {
	id := r.PathValue("id")
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	if !o.HasBody() {
		// A body that nobody asked for is refused like an unknown member.
		if r.ContentLength != 0 {
			var one [1]byte
			if n, _ := io.ReadFull(r.Body, one[:]); n > 0 {
				return &workitem.Error{Code: workitem.InvalidRequest, Message: "this request takes no body"}
			}
		}
		return o.SetPlaces(in, id, r.Header, nil)
	}
	if o == submit {
		// The authority may keep these bytes longer than the call lasts.
		buf := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength+bytes.MinRead, bytes.MinRead)))
		if err := readAll(buf, r); err != nil {
			return err
		}
		return o.SetPlaces(in, id, r.Header, buf.Bytes())
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := readAll(buf, r); err != nil {
		return err
	}
	if err := o.DecodeBody(buf.Bytes(), in); err != nil {
		return err
	}
	return o.SetPlaces(in, id, r.Header, nil)
}

// submit is the operation whose body is kept as it came.
var submit, _ = operation.ByName("job_submit")

func tooLarge() error {
	return &workitem.Error{Code: workitem.PayloadTooLarge,
		Message: "the request body is larger than " + strconv.Itoa(MaxBody) + " bytes"}
}

// readAll reads a body up to the limit.
func readAll(buf *bytes.Buffer, r *http.Request) error {
	n, err := buf.ReadFrom(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case n > MaxBody:
		return tooLarge()
	case err != nil:
		return &workitem.Error{Code: workitem.InvalidRequest, Err: err, Message: "the request body could not be read to its end"}
	}
	return nil
}

// answer writes what an operation gave.
func answer(w http.ResponseWriter, r *http.Request, o *operation.Operation, out any) (int, error) {
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	if err := json.MarshalWrite(buf, out, json.Deterministic(true)); err != nil {
		return 0, fmt.Errorf("answer of %s: %w", o.Name, err)
	}
	h := w.Header()
	status := http.StatusOK
	switch a := out.(type) {
	case *workitem.Handle:
		status = created(h, a)
	case *workitem.RetryHandle:
		status = created(h, &a.Handle)
	case *workitem.NewToken:
		status = http.StatusCreated
		h["Location"] = []string{"/v1/tokens/" + a.ID}
	case *workitem.ClaimAnswer:
		if a.Trace != "" {
			h["Traceparent"] = []string{a.Trace}
		}
	case *workitem.View:
		tag := entityTag(buf.Bytes())
		h["Etag"] = []string{tag}
		h["Cache-Control"] = headerPrivate
		if matches(r.Header["If-None-Match"], tag) {
			w.WriteHeader(http.StatusNotModified)
			return http.StatusNotModified, nil
		}
	}
	if h["Cache-Control"] == nil {
		h["Cache-Control"] = headerNoStore
	}
	h["Content-Type"] = headerJSON
	h["Content-Length"] = []string{strconv.Itoa(buf.Len())}
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the client is gone: nobody is left to tell
	return status, nil
}

// created gives the status of a handle, and says where a new job is.
func created(h http.Header, a *workitem.Handle) int {
	h["Location"] = []string{"/v1/jobs/" + a.JobID}
	if a.Deduplicated {
		return http.StatusOK
	}
	return http.StatusCreated
}

// entityTag is a weak tag of a body: the same for as long as nothing in it
// changes.
func entityTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches says whether an If-None-Match names a tag, by the weak comparison of RFC
// 9110, section 13.1.2.
func matches(values []string, tag string) bool {
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
