package mcp_test

import (
	"bufio"
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// withTasks is the envelope of revision 2026-07-28 of a client that declares tasks,
// and withoutTasks that of one that does not.
const (
	newest       = "2026-07-28"
	withTasks    = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	withoutTasks = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

// tasking has a store and a server of it.
type tasking struct {
	*testing.T
	jobs   *workitem.Authority
	server *served
}

func newTasking(t *testing.T) *tasking {
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := workitem.New(store, workitem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jobs.Close() })
	return &tasking{t, jobs, serve(t, func(p workitem.Principal) operation.Jobs { return jobs.As(p) })}
}

// opened gives the same verbs to every call.
func opened(jobs operation.Jobs) func(context.Context) (operation.Jobs, func() error, error) {
	return func(context.Context) (operation.Jobs, func() error, error) {
		return jobs, func() error { return nil }, nil
	}
}

// person is somebody of a tenant with the scopes that a submitter has.
func person(tenant, owner string) workitem.Principal {
	return workitem.Principal{Subject: owner, Tenant: tenant, Owner: owner, Scopes: workitem.ScopeRead | workitem.ScopeWrite | workitem.ScopeWork}
}

// reply is an answer of the protocol.
type reply struct {
	status int
	text   string
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
		Data    any
	}
}

// call posts a call of a method in the newest revision. Params have no braces; change
// may be nil.
func (t *tasking) call(p workitem.Principal, meta, method, params string, change func(*http.Request)) reply {
	t.Helper()
	var name struct{ Name, TaskID string }
	if err := stdjson.Unmarshal([]byte("{"+params+"}"), &name); err != nil {
		name.TaskID = "malformed"
	}
	status, text := t.server.post(t.T, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{"_meta":`+meta+`,`+params+`}}`, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+resttest.Token(t, p))
		r.Header.Set("Mcp-Protocol-Version", newest)
		r.Header.Set("Mcp-Method", method)
		r.Header.Set("Mcp-Name", name.Name+name.TaskID)
		if change != nil {
			change(r)
		}
	})
	a := reply{status: status, text: text}
	if err := stdjson.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s: %d %s", method, status, text)
	}
	return a
}

func (t *tasking) get(p workitem.Principal, id string) reply {
	t.Helper()
	return t.call(p, withTasks, "tasks/get", fmt.Sprintf(`"taskId":%q`, id), nil)
}

// job is a request of a person.
func request(p workitem.Principal, key string) string {
	return fmt.Sprintf(`{"request_id":%q,"idempotency_key":%[1]q,"operation":"build","repository_id":"a","base_ref":"main","base_sha":%q,"owner_id":%q,"session_id":"s","tenant_id":%q}`,
		key, strings.Repeat("a", 40), p.Owner, p.Tenant)
}

func submission(p workitem.Principal, key string) string {
	return `"name":"job_submit","arguments":{"request":` + request(p, key) + `,"max_attempts":1}`
}

// submit submits a job as a task and gives its id.
func (t *tasking) submit(p workitem.Principal, key string) string {
	t.Helper()
	a := t.call(p, withTasks, "tools/call", submission(p, key), nil)
	id, _ := a.Result["taskId"].(string)
	if a.Result["resultType"] != "task" || id != workitem.NewID(p.Tenant, key).JobID() {
		t.Fatalf("no task of the job: %s", a.text)
	}
	return id
}

// commit claims a job and commits its outcome.
func (t *tasking) commit(p workitem.Principal, id string, commit workitem.CommitInput) {
	t.Helper()
	jobs := t.jobs.As(p)
	a, err := jobs.Claim(t.Context(), &workitem.ClaimInput{JobID: id, Worker: "w"})
	if err != nil || !a.Claimed {
		t.Fatalf("claim: %+v, %v", a, err)
	}
	commit.JobID, commit.Claim = id, a.Claim.Fence()
	if _, err := jobs.Commit(t.Context(), &commit); err != nil {
		t.Fatal(err)
	}
}

func ref(text string) *string { return &text }

// TestTask follows tasks from their submission to every end.
func TestTask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, status string
		isError      bool
		state        string
		end          func(*tasking, workitem.Principal, string)
	}{
		{"waiting", "working", false, "ready", func(*tasking, workitem.Principal, string) {}},
		{"held", "working", false, "leased", func(t *tasking, p workitem.Principal, id string) {
			if _, err := t.jobs.As(p).Claim(t.Context(), &workitem.ClaimInput{JobID: id, Worker: "w"}); err != nil {
				t.Fatal(err)
			}
		}},
		{"succeeded", "completed", false, "succeeded", func(t *tasking, p workitem.Principal, id string) {
			t.commit(p, id, workitem.CommitInput{Outcome: "succeeded", ResultRef: ref("result:1")})
		}},
		{"failed", "completed", true, "failed", func(t *tasking, p workitem.Principal, id string) {
			t.commit(p, id, workitem.CommitInput{Outcome: "failed", FailureClass: ref("validation_failed"), ErrorRef: ref("log:1"), Retryable: new(bool)})
		}},
		{"dead letter", "completed", true, "dead-letter", func(t *tasking, p workitem.Principal, id string) {
			yes := true
			t.commit(p, id, workitem.CommitInput{Outcome: "failed", ErrorRef: ref("log:1"), Retryable: &yes})
		}},
		{"cancelled", "cancelled", false, "cancelled", func(t *tasking, p workitem.Principal, id string) {
			a := t.call(p, withTasks, "tasks/cancel", fmt.Sprintf(`"taskId":%q`, id), nil)
			delete(a.Result, "_meta")
			if len(a.Result) != 1 || a.Result["resultType"] != "complete" {
				t.Errorf("cancel: %s", a.text)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, p := newTasking(t), person("tenant-a", "alice")
			id := s.submit(p, "k")
			c.end(s, p, id)
			a := s.get(p, id)
			v, err := s.jobs.As(p).Get(t.Context(), &workitem.GetInput{JobID: id})
			if err != nil || v.State != c.state {
				t.Fatalf("the job is %+v, %v", v, err)
			}
			r := a.Result
			if a.status != 200 || r["resultType"] != "complete" || r["taskId"] != id || r["status"] != c.status || r["statusMessage"] != "the job is "+c.state ||
				r["pollIntervalMs"] != 1000.0 || r["structuredContent"] != nil || r["content"] != nil {
				t.Errorf("%d %s", a.status, a.text)
			}
			if ttl, ok := r["ttlMs"]; !ok || ttl != nil {
				t.Errorf("ttlMs: %v", ttl)
			}
			for name, want := range map[string]string{"createdAt": v.CreatedAt, "lastUpdatedAt": v.UpdatedAt} {
				at, _ := r[name].(string)
				if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) || !strings.HasPrefix(want, at[:19]) {
					t.Errorf("%s: %s, and the job has %s", name, at, want)
				}
			}
			result, _ := r["result"].(map[string]any)
			if (result != nil) != (c.status == "completed") {
				t.Fatalf("result %v", result)
			}
			if result != nil {
				isError, _ := result["isError"].(bool)
				shown, _ := stdjson.Marshal(result["structuredContent"])
				want, err := s.jobs.As(p).Result(t.Context(), &workitem.JobInput{JobID: id})
				text, _ := stdjson.Marshal(want)
				if err != nil || isError != c.isError || result["resultType"] != "complete" || !same(t, shown, text) || !same(t, []byte(result["content"].([]any)[0].(map[string]any)["text"].(string)), text) {
					t.Errorf("result %s, want %s, %v", shown, text, err)
				}
				matches(t, submitSchema(t, s), string(shown))
			}
			// Neither method changes what has ended, and both acknowledge.
			for _, method := range []string{"tasks/update", "tasks/cancel"} {
				again := s.call(p, withTasks, method, fmt.Sprintf(`"taskId":%q`, id), nil)
				delete(again.Result, "_meta")
				if len(again.Result) != 1 || again.Result["resultType"] != "complete" {
					t.Errorf("%s: %s", method, again.text)
				}
			}
			if after := s.get(p, id); c.status != "working" && after.Result["status"] != c.status {
				t.Errorf("afterwards: %s", after.text)
			}
		})
	}
}

// submitSchema is the schema of what job_submit answers.
func submitSchema(t *testing.T, s *tasking) any {
	t.Helper()
	list, err := s.server.dial(t, person("tenant-a", "alice"), "").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "job_submit" {
			return tool.OutputSchema
		}
	}
	t.Fatal("there is no job_submit")
	return nil
}

// TestSubmittedTask: a task is the answer to whoever can follow it, and has the handle
// in it; everybody else gets the handle alone.
func TestSubmittedTask(t *testing.T) {
	t.Parallel()
	s, p := newTasking(t), person("tenant-a", "alice")
	a := s.call(p, withTasks, "tools/call", submission(p, "k"), nil)
	handle, _ := a.Result["structuredContent"].(map[string]any)
	if a.Result["taskId"] != handle["job_id"] || a.Result["status"] != "working" || a.Result["result"] != nil || len(a.Result["content"].([]any)) != 1 {
		t.Errorf("task %s", a.text)
	}
	// The same request again is the same task, as it is by now.
	s.commit(p, handle["job_id"].(string), workitem.CommitInput{Outcome: "succeeded"})
	if again := s.call(p, withTasks, "tools/call", submission(p, "k"), nil).Result; again["taskId"] != handle["job_id"] || again["status"] != "completed" || again["result"] != nil {
		t.Errorf("again %v", again)
	}
	writer, agent := p, p
	writer.Scopes = workitem.ScopeWrite
	agent.Scopes |= workitem.ScopeOnBehalf | workitem.ScopeTenant
	for name, a := range map[string]reply{
		"no tasks declared":  s.call(p, withoutTasks, "tools/call", submission(p, "k2"), nil),
		"may not read":       s.call(writer, withTasks, "tools/call", submission(p, "k3"), nil),
		"of somebody else":   s.call(agent, withTasks, "tools/call", submission(person("tenant-a", "bob"), "k4"), nil),
		"another tool":       s.call(p, withTasks, "tools/call", `"name":"job_kinds"`, nil),
		"a refusal":          s.call(p, withTasks, "tools/call", `"name":"job_submit","arguments":{}`, nil),
		"an older revision":  s.old(p, submission(p, "k5")),
		"one with no answer": s.call(p, withTasks, "tools/call", `"name":"job_submit","arguments":{"request":{}}`, nil),
	} {
		if a.Result["taskId"] != nil || a.Result["resultType"] == "task" || a.Result["content"] == nil {
			t.Errorf("%s: %s", name, a.text)
		}
	}
}

// old calls a tool in the revision before.
func (t *tasking) old(p workitem.Principal, params string) reply {
	status, text := t.server.post(t.T, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+params+`}}`, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+resttest.Token(t, p))
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	})
	a := reply{status: status, text: text}
	if err := stdjson.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestUnknownTask: what is missing, of others, or no id at all can't be told apart, and
// nothing is done to the job.
func TestUnknownTask(t *testing.T) {
	t.Parallel()
	s, alice := newTasking(t), person("tenant-a", "alice")
	id := s.submit(alice, "k")
	operator := person("tenant-a", "olga")
	operator.Scopes |= workitem.ScopeTenant
	for name, c := range map[string]struct {
		p  workitem.Principal
		id string // JSON
	}{
		"missing":               {alice, `"` + workitem.NewID("tenant-a", "other").JobID() + `"`},
		"of another owner":      {person("tenant-a", "bob"), `"` + id + `"`},
		"of another tenant":     {person("tenant-b", "alice"), `"` + id + `"`},
		"of one who reads all":  {operator, `"` + id + `"`},
		"no id of a job":        {alice, `"task-1"`},
		"the other form":        {alice, `"workitem:repository_manager:` + strings.TrimPrefix(id, "rmjob:") + `"`},
		"in capitals":           {alice, `"` + strings.ToUpper(id) + `"`},
		"empty":                 {alice, `""`},
		"a number":              {alice, `1`},
		"an object":             {alice, `{"a":1}`},
		"null":                  {alice, `null`},
		"513 bytes":             {alice, `"` + strings.Repeat("x", 513) + `"`},
		"with a slash and more": {alice, `"` + id + `/graph"`},
	} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			a := s.call(c.p, withTasks, method, `"taskId":`+c.id, func(r *http.Request) {
				if c.id[0] == '"' {
					r.Header.Set("Mcp-Name", strings.Trim(c.id, `"`))
				}
			})
			want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"unknown task"}}`
			if a.status != 400 || a.text != want {
				t.Errorf("%s, %s: %d %s", name, method, a.status, a.text)
			}
		}
	}
	if got := s.get(alice, id).Result["status"]; got != "working" {
		t.Errorf("the job is %v", got)
	}
}

// TestTasksNotDeclared: a client without the extension is told so before anything else.
func TestTasksNotDeclared(t *testing.T) {
	t.Parallel()
	s, p := newTasking(t), person("tenant-a", "alice")
	id := s.submit(p, "k")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, id := range []string{id, "missing"} {
			a := s.call(p, withoutTasks, method, `"taskId":"`+id+`","inputResponses":[]`, nil)
			data, _ := stdjson.Marshal(a.Error.Data)
			if a.status != 400 || a.Error.Code != -32021 || string(data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
				t.Errorf("%s: %d %s", method, a.status, a.text)
			}
		}
	}
	if s.get(p, id).Result["status"] != "working" {
		t.Error("the job is not as it was")
	}
}

// TestTaskRefusals: what is refused for another reason than the task says why.
func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	s, p := newTasking(t), person("tenant-a", "alice")
	id := s.submit(p, "k")
	reader := p
	reader.Scopes = workitem.ScopeRead
	a := s.call(reader, withTasks, "tasks/cancel", `"taskId":"`+id+`"`, nil)
	if data, _ := a.Error.Data.(map[string]any); a.Error.Code != -32602 || data["code"] != "forbidden_scope" || data["request_id"] == "" {
		t.Errorf("a reader cancels: %s", a.text)
	}
	f, fakes := fake(t)
	f.Refuse(&workitem.Error{Code: workitem.AuthorityUnavailable})
	b := (&tasking{T: t, server: fakes}).get(p, id)
	if data, _ := b.Error.Data.(map[string]any); b.Error.Code != -32603 || data["code"] != "authority_unavailable" {
		t.Errorf("without an authority: %s", b.text)
	}
}

// TestTaskName: the header repeats the id.
func TestTaskName(t *testing.T) {
	t.Parallel()
	s, p := newTasking(t), person("tenant-a", "alice")
	id := s.submit(p, "k")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for name, values := range map[string][]string{"missing": nil, "another": {"x"}, "two": {id, id}, "empty": {""}} {
			a := s.call(p, withTasks, method, `"taskId":"`+id+`"`, func(r *http.Request) {
				delete(r.Header, "Mcp-Name")
				for _, v := range values {
					r.Header.Add("Mcp-Name", v)
				}
			})
			if a.status != 400 || a.Error.Code != -32020 || !strings.HasPrefix(a.text, `{"jsonrpc":"2.0","id":7,`) {
				t.Errorf("%s, %s: %d %s", method, name, a.status, a.text)
			}
		}
	}
	if a := s.get(p, id); a.Result["status"] != "working" {
		t.Errorf("the job is not as it was: %s", a.text)
	}
	// However the method is spelled.
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Mcp-Name", "x") },
		func(r *http.Request) { r.Header.Set("Mcp-Name", "x"); r.Header.Set("Mcp-Method", "tools/list") },
		func(r *http.Request) { r.Header.Set("Mcp-Name", "x"); r.Header.Del("Mcp-Method") },
	} {
		if a := s.call(p, withTasks, `tasks\u002fcancel`, `"taskId":"`+id+`"`, func(r *http.Request) {
			r.Header.Set("Mcp-Method", "tasks/cancel")
			change(r)
		}); a.status != 400 || a.Error.Code != -32020 {
			t.Errorf("another spelling: %d %s", a.status, a.text)
		}
	}
	// A revision without the header does not need it.
	status, text := s.server.post(t, `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"`+id+`","_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`,
		func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+resttest.Token(t, p))
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		})
	if status != 200 || !strings.Contains(text, `"status":"working"`) {
		t.Errorf("an older revision: %d %s", status, text)
	}
}

// TestTaskBounds: each bound of an update, from both sides.
func TestTaskBounds(t *testing.T) {
	t.Parallel()
	s, p := newTasking(t), person("tenant-a", "alice")
	id := s.submit(p, "k")
	list := func(n int) string { return `{"k":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}` }
	nested := func(n int) string { return `{"k":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}` }
	text := func(n int) string { return `{"k":"` + strings.Repeat("x", n) + `"}` }
	name := func(n int) string { return `{"` + strings.Repeat("x", n) + `":1}` }
	size := func(n int) string {
		body := `{"a":"` + strings.Repeat("x", 16000) + `","b":"` + strings.Repeat("x", 16000) + `","c":"` + strings.Repeat("x", 16000) + `","d":"` + strings.Repeat("x", 16000) + `","e":"`
		return body + strings.Repeat("x", n-len(body)-2) + `"}`
	}
	for _, c := range []struct {
		name, input string
		taken       bool
	}{
		{"nothing", `{}`, true},
		{"an answer to no question", `{"q":{"action":"accept","content":{"a":true}}}`, true},
		{"4096 values", list(4094), true},
		{"4097 values", list(4095), false},
		{"24 deep", nested(24), true},
		{"25 deep", nested(25), false},
		{"a string of 16 KiB", text(16 << 10), true},
		{"a longer string", text(16<<10 + 1), false},
		{"a string whose escapes are longer than it", `{"k":"` + strings.Repeat(`\u0041`, 10000) + `"}`, true},
		{"a name of 16 KiB", name(16 << 10), true},
		{"a longer name", name(16<<10 + 1), false},
		{"64 KiB", size(64 << 10), true},
		{"more than 64 KiB", size(64<<10 + 1), false},
		{"a list", `[]`, false},
		{"a text", `"x"`, false},
		{"a member twice", `{"a":1,"a":2}`, false},
	} {
		a := s.call(p, withTasks, "tasks/update", `"taskId":"`+id+`","inputResponses":`+c.input, func(r *http.Request) { r.Header.Set("Mcp-Name", id) })
		if taken := a.Error == nil && a.Result["resultType"] == "complete"; taken != c.taken || !taken && a.Error.Code != -32602 {
			t.Errorf("%s: %d %.200s", c.name, a.status, a.text)
		}
	}
}

// TestTaskOverLines follows a task over standard input and output, in the revision whose
// clients declare their capabilities once.
func TestTaskOverLines(t *testing.T) {
	t.Parallel()
	s, p := newTasking(t), person("tenant-a", "alice")
	server := mcp.New(mcp.Config{Open: opened(s.jobs.As(p))})
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(t.Context(), &mcp.Lines{In: in, Out: out}) }()
	lines := bufio.NewReader(answers)
	ask := func(body string) string {
		t.Helper()
		if _, err := io.WriteString(requests, body+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	if got := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`); !strings.Contains(got, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("the extension is not offered: %s", got)
	}
	if _, err := io.WriteString(requests, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	id := workitem.NewID(p.Tenant, "k").JobID()
	if got := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + submission(p, "k") + `}}`); !strings.Contains(got, `"resultType":"task","taskId":"`+id+`","status":"working"`) {
		t.Errorf("no task: %s", got)
	}
	s.commit(p, id, workitem.CommitInput{Outcome: "succeeded"})
	if got := ask(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + id + `"}}`); !strings.Contains(got, `"resultType":"complete","taskId":"`+id+`","status":"completed"`) {
		t.Errorf("not completed: %s", got)
	}
	if got := ask(`{"jsonrpc":"2.0","id":4,"method":"tasks/get"}`); !strings.Contains(got, `"message":"unknown task"`) {
		t.Errorf("no parameters: %s", got)
	}
	if err := requests.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
}
