package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// Config is what a server needs.
type Config struct {
	// Open gives the verbs for one call, and what ends their use. It may be called
	// concurrently.
	Open func(context.Context) (operation.Jobs, func() error, error)
	// Owner gives the owner of the caller of a call, whose jobs are the caller's tasks.
	// Where it is nil or gives nothing, every job that the caller may read is one.
	Owner func(context.Context) string
	// Version is the version that the server tells its clients.
	Version string
	// Logger is told of internal errors and panics, with their causes. Nil is slog's
	// default.
	Logger *slog.Logger
	// Extension, if not nil, is offered beside the verbs.
	Extension *Extension
}

// Extension is what a suite of tests of the protocol needs beside the verbs, which
// have no prompts, for instance. Its functions must all be there. The server that is
// shipped has no extension.
type Extension struct {
	// Options changes the options of the SDK's server.
	Options func(*sdk.ServerOptions)
	// Add adds tools, resources and prompts.
	Add func(*sdk.Server)
	// Tasks gives tasks beside the jobs.
	Tasks func(jobs Tasks) Tasks
	// Events has calls over HTTP answered with streams of events, in which notifications
	// precede the answer. No verb sends any.
	Events bool
}

// surface is what one server offers.
type surface struct {
	cfg    Config
	tasks  Tasks
	silent bool // sends clients no messages of a log
}

var listInput = reflect.TypeFor[workitem.ListInput]()

// offered has the tools, which are the same in every server.
var offered = sync.OnceValues(tools)

// Versions are the revisions of the protocol that are spoken, newest first: all that
// the SDK knows, except the one from before streamable HTTP.
func Versions() []string {
	var spoken []string
	for _, v := range sdk.SupportedProtocolVersions() {
		if v >= "2025-03-26" {
			spoken = append(spoken, v)
		}
	}
	return spoken
}

const instructions = `Writ keeps jobs of repository work: who submits one, which jobs it waits for, who works on it, and how it ended.

Submit with job_submit and keep the job_id. The same request again is answered with the same job, so that it can be repeated after a lost answer. Follow it with job_get (wait_s up to 60, until "terminal"), then read job_result; job_explain says why a job is not claimed.

Work with work_claim_next (one kind), send the claim that you got with every work_heartbeat, work_checkpoint, work_commit and work_defer, and renew the lease before lease_expires_at. A refusal is an error whose text is JSON: code says what was wrong, field where, retryable whether the same call may succeed later. After stale_fence_duplicate_effect the job is no longer yours: stop working on it.`

// listTTL is how long clients may keep lists and descriptions, in milliseconds: they
// change with the version of the server only.
const listTTL = 5 * 60 * 1000

// New makes a server that speaks the protocol over any transport of the SDK.
func New(cfg Config) *sdk.Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &surface{cfg: cfg}
	s.tasks = jobTasks{s}
	// There are no prompts, but clients ask for their list whatever is declared, and the
	// SDK answers.
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}, Prompts: &sdk.PromptCapabilities{}}
	capabilities.AddExtension(TasksExtension, nil)
	options := &sdk.ServerOptions{
		Instructions:              instructions,
		SupportedProtocolVersions: Versions(),
		Capabilities:              capabilities,
		SetCacheable: func(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
			if _, ok := req.(*sdk.ReadResourceRequest); ok {
				c.TTLMs, c.CacheScope = 0, "private"
				return
			}
			c.TTLMs, c.CacheScope = listTTL, "public"
		},
	}
	x := cfg.Extension
	if x != nil {
		x.Options(options)
		s.tasks = x.Tasks(s.tasks)
	}
	//lint:ignore SA1019 older revisions have it
	s.silent = options.Capabilities.Logging == nil
	server := sdk.NewServer(&sdk.Implementation{Name: "writ", Title: "Writ", Version: cfg.Version}, options)
	all, operations := offered()
	for i, t := range all {
		server.AddTool(t, s.handler(operations[i]))
	}
	s.resources(server)
	s.addTasks(server)
	if x != nil {
		x.Add(server)
	}
	server.AddReceivingMiddleware(s.guard, answered, created)
	return server
}

// guard keeps what the SDK would do with a malformed request from ending the process,
// and texts of requests out of its errors.
func (s *surface) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.cfg.Logger.ErrorContext(ctx, "panic", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the authority has failed"}
			}
		}()
		if method == "logging/setLevel" && s.silent { // the SDK would take the level
			return nil, errNoMethod
		}
		res, err = next(ctx, method, req)
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
			return res, err
		}
		switch r := req.(type) {
		case *sdk.ReadResourceRequest:
			if e.Message == "Resource not found" {
				return nil, noResource(r.Params.URI)
			}
		case *sdk.CallToolRequest:
			if strings.HasPrefix(e.Message, "unknown tool ") {
				return nil, errNoTool
			}
		case *sdk.GetPromptRequest:
			if strings.HasPrefix(e.Message, "unknown prompt ") {
				return nil, errNoPrompt
			}
		}
		return res, err
	}
}
