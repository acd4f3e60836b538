package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
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
	// Version is the version that the server tells its clients.
	Version string
	// Logger is told of internal errors and panics, with their causes. Nil is slog's
	// default.
	Logger *slog.Logger
}

// surface is what one server offers.
type surface struct{ cfg Config }

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
	server := sdk.NewServer(&sdk.Implementation{Name: "writ", Title: "Writ", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions:              instructions,
		SupportedProtocolVersions: Versions(),
		Capabilities:              &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		SetCacheable: func(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
			if _, ok := req.(*sdk.ReadResourceRequest); ok {
				c.TTLMs, c.CacheScope = 0, "private"
				return
			}
			c.TTLMs, c.CacheScope = listTTL, "public"
		},
	})
	all, operations := offered()
	for i, t := range all {
		server.AddTool(t, s.handler(operations[i]))
	}
	s.resources(server)
	server.AddReceivingMiddleware(s.guard)
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
		switch r := req.(type) {
		case *sdk.ReadResourceRequest:
			if _, _, ok := resourceOf(r.Params.URI); !ok {
				return nil, errNoResource
			}
		case *sdk.CallToolRequest:
			if !known[r.Params.Name] {
				return nil, errNoTool
			}
		}
		return next(ctx, method, req)
	}
}

var errNoTool = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such tool; tools/list has all of them"}

// known are the names of the tools.
var known = func() map[string]bool {
	m := map[string]bool{}
	for _, name := range Tools {
		m[name] = true
	}
	return m
}()
