package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// The revisions that are measured: the newest, and the newest with a handshake.
const (
	newest    = "2026-07-28"
	handshake = "2025-11-25"
)

// canned answers every tool of a list from memory: the bare SDK.
func canned(tools []*sdk.Tool, answers map[string]*sdk.CallToolResult) http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "bare", Version: "1"}, nil)
	for _, t := range tools {
		server.AddTool(t, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in workitem.GetInput
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			return answers[in.JobID], nil
		})
	}
	return streamable(server)
}

// typed has job_get as a function whose input and answer the SDK reads, checks and
// writes.
func typed(tools []*sdk.Tool, views map[string]*workitem.View) http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "typed", Version: "1"}, nil)
	for _, t := range tools {
		if t.Name == "job_get" {
			sdk.AddTool(server, t, func(_ context.Context, _ *sdk.CallToolRequest, in workitem.GetInput) (*sdk.CallToolResult, *workitem.View, error) {
				return nil, views[in.JobID], nil
			})
		}
	}
	return streamable(server)
}

func streamable(server *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// toolsOf asks a server for its tools.
func toolsOf(b *testing.B, url string) []*sdk.Tool {
	b.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).
		Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: authorized{}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	return list.Tools
}

// authorized sends the credential.
type authorized struct{}

func (authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	name, value, _ := strings.Cut(strings.TrimSpace(bearer), ": ")
	r.Header.Set(name, value)
	return http.DefaultTransport.RoundTrip(r)
}

// BenchmarkMCPJobGet reads jobs over MCP with 32 keep-alive connections: through
// Writ's handler, which looks each up in the store, and from the bare SDK, which has
// the same answers under the same schemas in memory.
func BenchmarkMCPJobGet(b *testing.B) {
	const connections, stored = 32, 1000
	j := openJobs(b, filepath.Join(b.TempDir(), "work.db"))
	defer j.close(b)
	ids := make([]string, stored)
	if err := each(stored, func(i int) error {
		h, err := j.Submit(ctx, &workitem.SubmitInput{Request: Fixture{}.Request(i, "", "", "")})
		if err == nil {
			ids[i] = h.JobID
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	views, answers := map[string]*workitem.View{}, map[string]*sdk.CallToolResult{}
	for _, id := range ids {
		view, err := j.Get(ctx, &workitem.GetInput{JobID: id})
		if err != nil {
			b.Fatal(err)
		}
		text, err := json.Marshal(view)
		if err != nil {
			b.Fatal(err)
		}
		views[id] = view
		answers[id] = &sdk.CallToolResult{StructuredContent: json.RawMessage(text), Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}
	}

	credential := strings.TrimSpace(strings.TrimPrefix(bearer, "Authorization: "))
	writ := httptest.NewServer(mcp.NewHandler(mcp.HTTPConfig{Authenticate: func(r *http.Request) (operation.Jobs, workitem.Principal, error) {
		if r.Header.Get("Authorization") != credential {
			return nil, workitem.Principal{}, workitem.ErrUnauthenticated
		}
		return j.Caller, principal, nil
	}}))
	defer writ.Close()
	tools := toolsOf(b, writ.URL+mcp.Path)
	bare, checked := httptest.NewServer(canned(tools, answers)), httptest.NewServer(typed(tools, views))
	defer bare.Close()
	defer checked.Close()

	for _, revision := range []string{newest, handshake} {
		b.Run(revision, func(b *testing.B) {
			list := []*contestant{}
			for _, peer := range []struct {
				name, settings, url string
			}{
				{"writ", "its handler, with a credential; every job is read from the store", writ.URL},
				{"sdk", "the bare SDK, answers encoded beforehand, in memory", bare.URL},
				{"sdk-typed", "the SDK checks arguments and answers against the schemas, answers in memory", checked.URL},
			} {
				if peer.name != "writ" && !*withPeers {
					continue
				}
				callers := make([]*caller, connections)
				for i := range callers {
					c, err := newCaller(strings.TrimPrefix(peer.url, "http://"), revision)
					if err != nil {
						b.Fatal(err)
					}
					defer c.conn.Close()
					callers[i] = c
				}
				list = append(list, &contestant{name: peer.name, durability: peer.settings, op: func(i, n int) error {
					return callers[i].get(ids[(i*31+n)%stored])
				}})
			}
			contest(b, connections, list)
		})
	}
}

// caller calls job_get over one connection.
type caller struct {
	*wire
	before, after string // of the identifier in a request
}

func newCaller(addr, revision string) (*caller, error) {
	headers := "Host: " + addr + "\r\n" + bearer + "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: " + revision + "\r\n"
	c := &caller{before: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_get","arguments":{"job_id":"`, after: `"}}}`}
	if revision == newest {
		headers += "Mcp-Method: tools/call\r\nMcp-Name: job_get\r\n"
		c.after = `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"` + newest + `","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
	w, err := dial(addr, headers)
	c.wire = w
	return c, err
}

func (c *caller) get(id string) error {
	status, answer, err := c.call("POST", mcp.Path, []byte(c.before+id+c.after))
	if err != nil {
		return err
	}
	if status != 200 || !strings.Contains(string(answer), `"structuredContent":{`) || !strings.Contains(string(answer), id) {
		return errors.New(fmt.Sprint(status, " ", string(answer)))
	}
	return nil
}
