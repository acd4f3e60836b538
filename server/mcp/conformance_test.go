package mcp_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/storetest"
)

// served is what serves a Jobs over MCP for a test.
type served struct {
	url string

	mu       sync.Mutex
	sessions map[string]*sdk.ClientSession
}

// serve serves what jobs gives for the principal that a token of resttest names.
func serve(tb testing.TB, jobs func(workitem.Principal) operation.Jobs) *served {
	tb.Helper()
	server := httptest.NewServer(mcp.NewHandler(mcp.HTTPConfig{
		Version: "1.2.3", Origins: []string{"https://writ.example.com"},
		Logger: slog.New(slog.NewTextHandler(tb.Output(), nil)),
		Authenticate: func(r *http.Request) (operation.Jobs, workitem.Principal, error) {
			var p workitem.Principal
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			text, err := base64.RawURLEncoding.DecodeString(token)
			if err != nil || json.Unmarshal(text, &p) != nil {
				return nil, p, &workitem.Error{Code: workitem.Unauthenticated, Message: "a bearer token is needed"}
			}
			return jobs(p), p, nil
		}}))
	tb.Cleanup(server.Close)
	return &served{url: server.URL + mcp.Path, sessions: map[string]*sdk.ClientSession{}}
}

// withToken adds a credential to every request.
type withToken struct {
	token string
	next  http.RoundTripper
}

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.next.RoundTrip(r)
}

// dial gives a session of a client that speaks a version, or the newest.
func (s *served) dial(tb testing.TB, p workitem.Principal, version string) *sdk.ClientSession {
	tb.Helper()
	token := resttest.Token(tb, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[version+token]; session != nil {
		return session
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(),
		&sdk.StreamableClientTransport{Endpoint: s.url, DisableStandaloneSSE: true, MaxRetries: -1,
			HTTPClient: &http.Client{Transport: withToken{token, http.DefaultTransport}}}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = session.Close() })
	s.sessions[version+token] = session
	return session
}

// agent has the verbs of tools over MCP, and the others as they are.
type agent struct {
	operation.Jobs
	session *sdk.ClientSession
}

// arguments spells an input as the arguments of a tool.
func arguments(in any) (jsontext.Value, error) {
	if in, ok := in.(*workitem.SubmitInput); ok {
		return json.Marshal(struct {
			Request     jsontext.Value `json:"request"`
			MaxAttempts *int           `json:"max_attempts,omitempty"`
			BackoffBase *float64       `json:"backoff_base_s,omitempty"`
		}{in.Request, in.MaxAttempts, in.BackoffBase}, jsontext.AllowDuplicateNames(true), json.DefaultOptionsV2())
	}
	return json.Marshal(in)
}

func tool[Out any](ctx context.Context, a agent, name string, in any, out *Out) (*Out, error) {
	text, err := arguments(in)
	if err != nil {
		return nil, err
	}
	res, err := a.session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: jsontextRaw(text)})
	if err != nil {
		return nil, err
	}
	shown := res.Content[0].(*sdk.TextContent).Text
	if res.IsError {
		var p rest.Problem
		if err := json.Unmarshal([]byte(shown), &p); err != nil || res.StructuredContent != nil {
			return nil, errors.Join(errors.New("not a refusal: "+shown), err)
		}
		return nil, &workitem.Error{Code: p.Code, Field: p.Field, Message: p.Detail, Outcome: p.Outcome,
			Renewed: p.Renewed, Applied: p.Applied, Differs: p.Differs}
	}
	if err := json.Unmarshal([]byte(shown), out, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if a, ok := any(out).(*workitem.ClaimAnswer); ok {
		a.Trace, _ = res.Meta["traceparent"].(string)
	}
	return out, nil
}

// jsontextRaw is JSON as encoding/json takes it.
type jsontextRaw []byte

func (r jsontextRaw) MarshalJSON() ([]byte, error) { return r, nil }

func (a agent) Submit(ctx context.Context, in *workitem.SubmitInput) (*workitem.Handle, error) {
	if in.IdempotencyKey != "" || in.Trace != "" || !jsontext.Value(in.Request).IsValid() {
		return a.Jobs.Submit(ctx, in) // the arguments of a tool cannot say that
	}
	return tool(ctx, a, "job_submit", in, new(workitem.Handle))
}

func (a agent) Get(ctx context.Context, in *workitem.GetInput) (*workitem.View, error) {
	return tool(ctx, a, "job_get", in, new(workitem.View))
}

func (a agent) List(ctx context.Context, in *workitem.ListInput) (*workitem.Page, error) {
	if in.Limit == nil {
		all, limit := *in, 100 // the default of REST
		all.Limit = &limit
		in = &all
	}
	return tool(ctx, a, "job_list", in, new(workitem.Page))
}

func (a agent) Result(ctx context.Context, in *workitem.JobInput) (*workitem.Result, error) {
	return tool(ctx, a, "job_result", in, new(workitem.Result))
}

func (a agent) Explain(ctx context.Context, in *workitem.JobInput) (*workitem.Diagnostics, error) {
	return tool(ctx, a, "job_explain", in, new(workitem.Diagnostics))
}

func (a agent) Graph(ctx context.Context, in *workitem.GraphInput) (*workitem.Graph, error) {
	return tool(ctx, a, "job_graph", in, new(workitem.Graph))
}

func (a agent) Cancel(ctx context.Context, in *workitem.CancelInput) (*workitem.Cancelled, error) {
	return tool(ctx, a, "job_cancel", in, new(workitem.Cancelled))
}

func (a agent) Retry(ctx context.Context, in *workitem.RetryInput) (*workitem.RetryHandle, error) {
	return tool(ctx, a, "job_retry", in, new(workitem.RetryHandle))
}

func (a agent) Claim(ctx context.Context, in *workitem.ClaimInput) (*workitem.ClaimAnswer, error) {
	return tool(ctx, a, "work_claim", in, new(workitem.ClaimAnswer))
}

func (a agent) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	return tool(ctx, a, "work_claim_next", in, new(workitem.ClaimAnswer))
}

func (a agent) CurrentClaim(ctx context.Context, in *workitem.CurrentClaimInput) (*workitem.Claim, error) {
	return tool(ctx, a, "work_current_claim", in, new(workitem.Claim))
}

func (a agent) Heartbeat(ctx context.Context, in *workitem.HeartbeatInput) (*workitem.Renewal, error) {
	return tool(ctx, a, "work_heartbeat", in, new(workitem.Renewal))
}

func (a agent) Checkpoint(ctx context.Context, in *workitem.CheckpointInput) (*workitem.Checkpointed, error) {
	return tool(ctx, a, "work_checkpoint", in, new(workitem.Checkpointed))
}

func (a agent) Commit(ctx context.Context, in *workitem.CommitInput) (*workitem.Settled, error) {
	return tool(ctx, a, "work_commit", in, new(workitem.Settled))
}

func (a agent) Defer(ctx context.Context, in *workitem.DeferInput) (*workitem.Settled, error) {
	return tool(ctx, a, "work_defer", in, new(workitem.Settled))
}

func (a agent) Reconcile(ctx context.Context, in *workitem.ReconcileInput) (*workitem.Reconciled, error) {
	return tool(ctx, a, "jobs_reconcile", in, new(workitem.Reconciled))
}

func (a agent) Kinds(ctx context.Context, in *workitem.NoInput) (*workitem.Kinds, error) {
	return tool(ctx, a, "job_kinds", in, new(workitem.Kinds))
}

func (a agent) Stats(ctx context.Context, in *workitem.NoInput) (*workitem.Stats, error) {
	return tool(ctx, a, "job_stats", in, new(workitem.Stats))
}

// TestBehaviour runs the conformance suite of stores through an MCP client.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, cfg workitem.Config, clock *storetest.Clock) *storetest.Bundle {
		t.Helper()
		b := *storetest.Over(func(ctx context.Context, dir string, clock *storetest.Reading) (workitem.Store, error) {
			o := sqlite.Options{Path: filepath.Join(dir, "work.db")}
			if clock != nil {
				o.Clock = clock
			}
			return sqlite.Open(ctx, o)
		})(t, cfg, clock)
		direct := b.Jobs
		s := serve(t, direct)
		b.Jobs = func(p workitem.Principal) operation.Jobs { return agent{direct(p), s.dial(t, p, "")} }
		return &b
	})
}
