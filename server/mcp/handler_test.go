package mcp_test

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

var update = flag.Bool("update", false, "rewrite golden files")

const (
	golden = "testdata/tools.json"
	job    = "rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25"
	fence  = `{"work_item_id":"workitem:repository_manager:0e64e7be-8728-5c0c-839b-4ee165705a25","lease_owner":"w","lease_epoch":1,"fencing_token":1}`
)

var caller = workitem.Principal{Subject: "s", Tenant: "tenant-a", Owner: "o", Scopes: workitem.ScopeAdmin}

// examples are arguments that each tool takes.
var examples = map[string]string{
	"job_submit":         `{"request":{"request_id":"r","idempotency_key":"k","operation":"build","repository_id":"a","base_ref":"main","base_sha":"` + strings.Repeat("a", 40) + `","owner_id":"o","session_id":"s","tenant_id":"tenant-a"},"max_attempts":2}`,
	"job_get":            `{"job_id":"` + job + `","wait_s":0.5,"until":"terminal"}`,
	"job_list":           `{"state":["ready","failed"],"limit":3,"blocked":true}`,
	"job_result":         `{"job_id":"` + job + `"}`,
	"job_explain":        `{"job_id":"` + job + `"}`,
	"job_graph":          `{"job_id":"` + job + `","limit":3}`,
	"job_cancel":         `{"job_id":"` + job + `","mode":"if_idle"}`,
	"job_retry":          `{"job_id":"` + job + `","adopt":true}`,
	"work_claim":         `{"job_id":"` + job + `","worker":"w"}`,
	"work_claim_next":    `{"kind":"repository.build","worker":"w","lease_ttl_s":60}`,
	"work_current_claim": `{"job_id":"` + job + `","worker":"w"}`,
	"work_heartbeat":     `{"job_id":"` + job + `","claim":` + fence + `}`,
	"work_checkpoint":    `{"job_id":"` + job + `","claim":` + fence + `,"checkpoint":"checkpoint:half"}`,
	"work_commit":        `{"job_id":"` + job + `","claim":` + fence + `,"outcome":"succeeded","result_ref":"r"}`,
	"work_defer":         `{"job_id":"` + job + `","claim":` + fence + `,"delay_s":5}`,
	"jobs_reconcile":     `{}`,
	"job_kinds":          ``,
	"job_stats":          `{}`,
}

func fake(tb testing.TB) (*resttest.Fake, *served) {
	f := new(resttest.Fake)
	return f, serve(tb, func(workitem.Principal) operation.Jobs { return f })
}

// TestTools compares the list of tools with the golden one.
func TestTools(t *testing.T) {
	t.Parallel()
	_, s := fake(t)
	list, err := s.dial(t, caller, "").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != len(mcp.Tools) || list.TTLMs == 0 || list.CacheScope != "public" {
		t.Errorf("%d tools, kept for %d ms, %s", len(list.Tools), list.TTLMs, list.CacheScope)
	}
	for _, tool := range list.Tools {
		a := tool.Annotations
		if a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil || a.Title == "" || tool.Description == "" {
			t.Errorf("%s: its annotations are not complete", tool.Name)
		}
		for _, schema := range []any{tool.InputSchema, tool.OutputSchema} {
			m, _ := schema.(map[string]any)
			text, _ := stdjson.Marshal(schema)
			if m["type"] != "object" || m["properties"] == nil || m["anyOf"] != nil || m["oneOf"] != nil || m["allOf"] != nil || bytes.Contains(text, []byte("$ref")) {
				t.Errorf("%s: not the schema of a flat object: %s", tool.Name, text)
			}
		}
	}
	got, err := stdjson.MarshalIndent(list.Tools, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the tools are not those of %s (%v); read the difference, then run go test ./server/mcp -update", golden, err)
	}
}

// TestCalls calls every tool in every revision: examples match the schema of the
// input, answers that of the output, and both contents say the same.
func TestCalls(t *testing.T) {
	t.Parallel()
	if len(examples) != len(mcp.Tools) {
		t.Fatalf("%d examples of %d tools", len(examples), len(mcp.Tools))
	}
	for _, version := range mcp.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f, s := fake(t)
			session := s.dial(t, caller, version)
			if got := session.InitializeResult(); got.ProtocolVersion != version || got.ServerInfo.Version != "1.2.3" {
				t.Fatalf("speaks %s as %+v", got.ProtocolVersion, got.ServerInfo)
			}
			list, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for n, tool := range list.Tools {
				params := &sdk.CallToolParams{Name: tool.Name}
				if text := examples[tool.Name]; text != "" {
					params.Arguments = stdjson.RawMessage(text)
					matches(t, tool.InputSchema, text)
				}
				res, err := session.CallTool(t.Context(), params)
				if err != nil || res.IsError {
					t.Fatalf("%s: %v %v", tool.Name, err, res)
				}
				text := res.Content[0].(*sdk.TextContent).Text
				matches(t, tool.OutputSchema, text)
				structured, _ := stdjson.Marshal(res.StructuredContent)
				if !same(t, structured, []byte(text)) {
					t.Errorf("%s: structured %s, text %s", tool.Name, structured, text)
				}
				o, _ := operation.ByName(tool.Name)
				if calls, in := f.Calls(); calls != n+1 || o == nil {
					t.Errorf("%s: %d calls, %+v", tool.Name, calls, in)
				}
			}
		})
	}
}

// TestSameAsREST: what a tool answers is byte for byte what REST answers the same call,
// and so is what refuses it, but for the id of the request.
func TestSameAsREST(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	over := httptest.NewServer(rest.New(rest.Config{Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) { return f, caller, nil }}))
	defer over.Close()
	session := s.dial(t, caller, "")
	for _, refusal := range []error{nil,
		&workitem.Error{Code: workitem.StaleFence, Outcome: "fenced", Message: "somebody else has it"},
		errors.New("a cause that nobody is shown")} {
		f.Refuse(refusal)
		for _, name := range mcp.Tools {
			o, _ := operation.ByName(name)
			var arguments map[string]stdjson.RawMessage
			if text := examples[name]; text != "" {
				if err := stdjson.Unmarshal([]byte(text), &arguments); err != nil {
					t.Fatal(err)
				}
			}
			path := strings.Replace(o.Path, "{id}", job, 1)
			delete(arguments, "job_id")
			body := []byte(arguments["request"])
			switch {
			case o.Method == http.MethodGet:
				body = nil
				if worker := arguments["worker"]; worker != nil {
					path += "?worker=" + strings.Trim(string(worker), `"`)
				}
			case body == nil:
				body, _ = stdjson.Marshal(arguments)
			}
			r, err := http.NewRequestWithContext(t.Context(), o.Method, over.URL+path, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil || (response.StatusCode < 300) != (refusal == nil) {
				t.Fatalf("%s: REST answers %d %s, %v", name, response.StatusCode, want, err)
			}
			params := &sdk.CallToolParams{Name: name}
			if text := examples[name]; text != "" {
				params.Arguments = stdjson.RawMessage(text)
			}
			res, err := session.CallTool(t.Context(), params)
			if err != nil || res.IsError != (refusal != nil) {
				t.Fatalf("%s: %+v, %v", name, res, err)
			}
			anyID := regexp.MustCompile(`"request_id":"[0-9a-f]{32}"`)
			got := res.Content[0].(*sdk.TextContent).Text
			if refusal != nil {
				got, want = anyID.ReplaceAllString(got, `"request_id":"…"`), anyID.ReplaceAll(want, []byte(`"request_id":"…"`))
			}
			if got != strings.TrimRight(string(want), "\n") {
				t.Errorf("%s: the tool answers\n%s\nREST answers\n%s", name, got, want)
			}
		}
	}
}

// TestNullsInAnswers: what may be null in an answer may be so in its schema.
func TestNullsInAnswers(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	session := s.dial(t, caller, "")
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		switch tool.Name {
		case "work_claim_next":
			f.Answer(&workitem.ClaimAnswer{Reason: "empty"})
		case "job_list":
			f.Answer(&workitem.Page{Items: []workitem.View{}})
		case "job_result":
			f.Answer(&workitem.Result{State: "failed"})
		default:
			continue
		}
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: stdjson.RawMessage(examples[tool.Name])})
		if err != nil {
			t.Fatal(err)
		}
		matches(t, tool.OutputSchema, res.Content[0].(*sdk.TextContent).Text)
	}
}

func matches(t *testing.T, schema any, text string) {
	t.Helper()
	var s jsonschema.Schema
	raw, _ := stdjson.Marshal(schema)
	if err := stdjson.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := stdjson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(v); err != nil {
		t.Errorf("%s\n%v", text, err)
	}
}

func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var texts [2]string
	for i, text := range [][]byte{a, b} {
		var v any
		if err := stdjson.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		again, _ := stdjson.Marshal(v)
		texts[i] = string(again)
	}
	return texts[0] == texts[1]
}

// TestRefusals: a refusal is shown as REST shows it, without a value of the request.
func TestRefusals(t *testing.T) {
	t.Parallel()
	no := false
	f, s := fake(t)
	session := s.dial(t, caller, "")
	for _, c := range []struct {
		name, arguments string
		err             error
		want            rest.Problem
	}{
		{"work_heartbeat", examples["work_heartbeat"], &workitem.Error{Code: workitem.StaleFence, Outcome: "fenced", Renewed: &no},
			rest.Problem{Code: workitem.StaleFence, Status: 409, Outcome: "fenced", Renewed: &no}},
		{"job_submit", examples["job_submit"], &workitem.Error{Code: workitem.DuplicateRequest, Differs: "projection"},
			rest.Problem{Code: workitem.DuplicateRequest, Status: 409, Differs: "projection"}},
		{"job_get", examples["job_get"], errors.New("SECRET cause"), rest.Problem{Code: workitem.Internal, Status: 500}},
		{"job_get", examples["job_get"], context.Canceled, rest.Problem{Code: workitem.AuthorityUnavailable, Status: 503, Retryable: true}},
		{"job_get", `{}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "job_id"}},
		{"job_get", `{"job_id":"SECRET","id":"SECRET"}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "id"}},
		{"job_get", `{"job_id":"a","job_id":"SECRET"}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "job_id"}},
		{"job_get", `["SECRET"]`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400}},
		{"job_list", `{"limit":"SECRET"}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "limit"}},
		{"job_list", `{"state":"SECRET"}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "state"}},
		{"work_defer", `{"job_id":"a","claim":{"work_item_id":"SECRET"},"delay_s":1}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "claim.lease_owner"}},
		{"job_submit", `{"request":{"operation":"a","operation":"SECRET"}}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "operation"}},
		{"job_submit", `{"request":{"x":"` + strings.Repeat("S", rest.MaxBody) + `"}}`, nil, rest.Problem{Code: workitem.PayloadTooLarge, Status: 413, Field: "request"}},
		{"job_submit", `{"request":{},"Idempotency-Key":"SECRET"}`, nil, rest.Problem{Code: workitem.InvalidRequest, Status: 400, Field: "Idempotency-Key"}},
	} {
		f.Refuse(c.err)
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: c.name, Arguments: stdjson.RawMessage(c.arguments)})
		if err != nil {
			t.Errorf("%s %.80s: %v", c.name, c.arguments, err)
			continue
		}
		text := res.Content[0].(*sdk.TextContent).Text
		var got rest.Problem
		if err := stdjson.Unmarshal([]byte(text), &got); err != nil || !res.IsError || res.StructuredContent != nil || got.RequestID == "" || got.Detail == "" {
			t.Errorf("%s %.80s: %v %s", c.name, c.arguments, err, text)
		}
		if strings.Contains(text, "SECRET") {
			t.Errorf("%s shows what it should not: %s", c.name, text)
		}
		short := func(p rest.Problem) string {
			p.Type, p.Title, p.Detail, p.RequestID = "", "", "", ""
			text, _ := stdjson.Marshal(p)
			return string(text)
		}
		if short(got) != short(c.want) {
			t.Errorf("%s %.80s:\n got %s\nwant %s", c.name, c.arguments, short(got), short(c.want))
		}
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	f.Hook = func(context.Context) error { panic("SECRET") }
	session := s.dial(t, caller, "")
	res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "job_kinds"})
	if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*sdk.TextContent).Text, `"code":"internal_error"`) ||
		strings.Contains(res.Content[0].(*sdk.TextContent).Text, "SECRET") {
		t.Errorf("answer %v, %v", res, err)
	}
}

// TestMissingMethods: what is not offered is not answered, although the SDK would.
func TestMissingMethods(t *testing.T) {
	t.Parallel()
	_, s := fake(t)
	for _, method := range []string{"logging/setLevel", "completion/complete", "resources/subscribe"} {
		_, answer := s.post(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"a","level":"info","uri":"writ://kinds","ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":"a"}}}`, nil)
		if !strings.Contains(answer, `"code":-32601`) {
			t.Errorf("%s: %s", method, answer)
		}
	}
}

// TestUnknownTool: the client's SDK would not let these out, so they are posted.
func TestUnknownTool(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"token_create","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"SECRET"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"SECRET"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"writ://SECRET"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"\u0001SECRET"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"writ://jobs/SECRET/x"}}`,
	} {
		status, answer := s.post(t, body, nil)
		refused := status >= 400 && status < 500 || status == 200 && strings.Contains(answer, `"error"`)
		if _, uri, ok := strings.Cut(strings.TrimSuffix(body, "}}"), `"uri":`); ok { // which the protocol repeats
			without := strings.Replace(answer, `"data":{"uri":`+uri+`}`, "", 1)
			refused, answer = refused && without != answer, without
		}
		if !refused || strings.Contains(answer, "SECRET") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if n, _ := f.Calls(); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// post sends a body with headers of its own.
func (s *served) post(t *testing.T, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+resttest.Token(t, caller))
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// TestAdmission: who may send a request at all.
func TestAdmission(t *testing.T) {
	t.Parallel()
	_, s := fake(t)
	own := strings.TrimSuffix(s.url, mcp.Path)
	port := own[strings.LastIndex(own, ":"):]
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"plain", func(*http.Request) {}, 200},
		{"no credential", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"wrong credential", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401},
		{"localhost", func(r *http.Request) { r.Host = "localhost" + port }, 200},
		{"IPv6 loopback", func(r *http.Request) { r.Host = "[::1]" + port }, 200},
		{"proxied under a configured name", func(r *http.Request) { r.Host = "writ.example.com" }, 200},
		{"another name", func(r *http.Request) { r.Host = "evil.example.com" }, 403},
		{"a name that begins like localhost", func(r *http.Request) { r.Host = "localhost.evil.example.com" + port }, 403},
		{"another address", func(r *http.Request) { r.Host = "192.0.2.1" + port }, 403},
		{"own origin", func(r *http.Request) { r.Header.Set("Origin", own) }, 200},
		{"configured origin", func(r *http.Request) { r.Header.Set("Origin", "https://writ.example.com") }, 200},
		{"configured host, other scheme", func(r *http.Request) { r.Header.Set("Origin", "http://writ.example.com") }, 403},
		{"other origin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, 403},
		{"other port", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		{"no origin's origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"two origins", func(r *http.Request) { r.Header["Origin"] = []string{own, own} }, 403},
		{"rebound name and its origin", func(r *http.Request) {
			r.Host = "evil.example.com"
			r.Header.Set("Origin", "http://evil.example.com")
		}, 403},
		{"GET", func(r *http.Request) { r.Method = "GET" }, 405},
		{"another type", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"a revision of the future", func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2999-01-01") }, 400},
		{"the revision before streamable HTTP", func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2024-11-05") }, 400},
		{"headers that do not match", func(r *http.Request) {
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "tools/call")
		}, 400},
	} {
		if status, answer := s.post(t, ping, c.change); status != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, status, c.want, answer)
		}
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	_, s := fake(t)
	status, _ := s.post(t, "", func(r *http.Request) {
		r.Method = "OPTIONS"
		r.Header.Del("Authorization")
		r.Header.Set("Origin", "https://writ.example.com")
		r.Header.Set("Access-Control-Request-Method", "POST")
	})
	if status != http.StatusNoContent {
		t.Errorf("preflight: %d", status)
	}
}

// TestHostileBodies: each is answered, and none is believed.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	deep := strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_kinds"}}`
	for name, body := range map[string]string{
		"empty":           ``,
		"no JSON":         `{"jsonrpc"`,
		"a number":        `1`,
		"two objects":     call + call,
		"not UTF-8":       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
		"deep":            deep,
		"deep arguments":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_submit","arguments":{"request":` + deep + `}}}`,
		"very deep":       strings.Repeat(`[`, 200000),
		"large":           `{"x":"` + strings.Repeat("x", 400<<10) + `"}`,
		"large batch":     `[` + strings.Repeat(call+`,`, 16) + call + `]`,
		"an empty batch":  `[]`,
		"no method":       `{"jsonrpc":"2.0","id":1}`,
		"unknown method":  `{"jsonrpc":"2.0","id":1,"method":"jobs/destroy"}`,
		"wrong id":        `{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"job_kinds"}}`,
		"params a number": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":1}`,
		"params a null":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`,
		"name a list":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":[]}}`,
	} {
		status, answer := s.post(t, body, nil)
		refused := status >= 400 && status < 500 || strings.Contains(answer, `"error"`)
		if name == "no method" {
			refused = status == http.StatusAccepted && answer == "" // the SDK takes it for a response, which nobody awaits
		}
		if !refused {
			t.Errorf("%s: %d %.200s", name, status, answer)
		}
	}
	if n, in := f.Calls(); n != 0 {
		t.Errorf("%d calls, %v", n, in)
	}
	// The oldest revision has batches.
	if status, answer := s.post(t, `[`+call+`,`+strings.Replace(call, `"id":1`, `"id":2`, 1)+`]`, nil); status != 200 || strings.Count(answer, `"structuredContent"`) != 2 {
		t.Errorf("batch: %d %.300s", status, answer)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	for _, version := range mcp.Versions() {
		session := s.dial(t, caller, version)
		templates, err := session.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 2 {
			t.Fatalf("templates %v, %v", templates, err)
		}
		for uri, want := range map[string]any{
			"writ://kinds":       &workitem.NoInput{},
			"writ://jobs/" + job: &workitem.GetInput{JobID: job},
			"writ://jobs/" + strings.Replace(job, ":", "%3A", 1): &workitem.GetInput{JobID: job},
			"writ://jobs/" + job + "/graph":                      &workitem.GraphInput{JobID: job},
		} {
			res, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
			if err != nil {
				t.Fatalf("%s: %v", uri, err)
			}
			_, in := f.Calls()
			got, _ := stdjson.Marshal(in)
			expected, _ := stdjson.Marshal(want)
			if !bytes.Equal(got, expected) || res.Contents[0].URI != uri || res.Contents[0].MIMEType != "application/json" || !stdjson.Valid([]byte(res.Contents[0].Text)) {
				t.Errorf("%s: %s, %+v", uri, got, res.Contents[0])
			}
		}
	}
	f.Refuse(&workitem.Error{Code: workitem.NotFound})
	_, err := s.dial(t, caller, "").ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "writ://jobs/" + job})
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams || !bytes.Contains(e.Data, []byte(`"code":"not_found"`)) {
		t.Errorf("a missing job: %v", err)
	}
}

// TestGone: a call ends with the request that brought it.
func TestGone(t *testing.T) {
	t.Parallel()
	for _, version := range mcp.Versions() {
		f, s := fake(t)
		began, ended := make(chan struct{}), make(chan error, 1)
		f.Hook = func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}
		session := s.dial(t, caller, version)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "job_get", Arguments: stdjson.RawMessage(examples["job_get"])}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", version, err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// FuzzBody: whatever is posted, somebody answers, and no tool runs that was not asked.
func FuzzBody(f *testing.F) {
	f.Add(ping, "")
	f.Add(`[`+ping+`]`, "2025-03-26")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_get","arguments":`+examples["job_get"]+`}}`, "2025-11-25")
	f.Add(`{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"writ://jobs/a%2"}}`, "2026-07-28")
	f.Add(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "x")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"`+job+`","inputResponses":{"a":[1]},"_meta":`+withTasks+`}}`, "2025-11-25")
	_, s := fake(f)
	f.Fuzz(func(t *testing.T, body, version string) {
		if strings.ContainsFunc(version, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // net/http refuses it
		}
		status, answer := s.post(t, body, func(r *http.Request) {
			if version != "" {
				r.Header.Set("Mcp-Protocol-Version", version)
			}
		})
		if status >= 500 {
			t.Errorf("%d %s", status, answer)
		}
		if strings.Contains(answer, `"internal_error"`) {
			t.Errorf("failed: %s", answer)
		}
	})
}
