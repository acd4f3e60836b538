package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/workitem"
)

// taskParams name a task.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

// taskShown is a task, and taskSettled what acknowledges.
type (
	taskShown struct {
		sdk.ResultBase
		TaskID       string              `json:"taskId"`
		Status       string              `json:"status"`
		PollInterval int                 `json:"pollIntervalMs"`
		Result       *sdk.CallToolResult `json:"result"`
	}
	taskSettled struct{ sdk.ResultBase }
)

// named adds the header that repeats the id of a task, which the client of the SDK does
// for its own methods only.
type named struct{ next http.RoundTripper }

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.Header.Get("Mcp-Method"), "tasks/") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var message struct{ Params taskParams }
		if err := json.Unmarshal(body, &message); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("Mcp-Name", message.Params.TaskID)
	}
	return n.next.RoundTrip(r)
}

// taskAgent is an agent that declares the tasks extension.
type taskAgent struct {
	agent
	meta sdk.Meta // of every request
}

func tasking(t *testing.T, transport sdk.Transport, version string) taskAgent {
	t.Helper()
	extensions := &sdk.ClientCapabilities{}
	extensions.AddExtension(mcp.TasksExtension, nil)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{Capabilities: extensions})
	if err := errors.Join(
		sdk.AddSendingCustomMethod[*taskParams, *taskShown](client, "tasks/get"),
		sdk.AddSendingCustomMethod[*taskParams, *taskSettled](client, "tasks/update"),
		sdk.AddSendingCustomMethod[*taskParams, *taskSettled](client, "tasks/cancel"),
	); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(context.Background(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the session ends with %v", err)
		}
	})
	// Over HTTP a server without sessions knows of an older client only what each request
	// says.
	return taskAgent{agent{session}, sdk.Meta{"io.modelcontextprotocol/clientCapabilities": extensions}}
}

// submit submits a job and gives its task.
func (a taskAgent) submit(t *testing.T, key string) string {
	t.Helper()
	res, err := a.CallTool(t.Context(), &sdk.CallToolParams{Meta: a.meta, Name: "job_submit",
		Arguments: arguments{"request": json.RawMessage(stormRequest(key, "")), "max_attempts": 1}})
	if err != nil || res.IsError {
		t.Fatalf("job_submit: %v, %v", res, err)
	}
	handle, _ := res.StructuredContent.(map[string]any)
	id, _ := handle["job_id"].(string)
	return id
}

// follow asks for a task until it has ended.
func (a taskAgent) follow(ctx context.Context, id string) (*taskShown, error) {
	for {
		shown, err := sdk.CallCustomMethod[*taskParams, *taskShown](ctx, a.ClientSession, "tasks/get", &taskParams{sdk.ParamsBase{Meta: a.meta}, id})
		if err != nil || shown.Status != "working" {
			return shown, err
		}
		select {
		case <-time.After(time.Duration(shown.PollInterval) * time.Millisecond / 20):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (a taskAgent) tell(t *testing.T, method, id string) {
	t.Helper()
	if _, err := sdk.CallCustomMethod[*taskParams, *taskSettled](t.Context(), a.ClientSession, method, &taskParams{sdk.ParamsBase{Meta: a.meta}, id}); err != nil {
		t.Errorf("%s: %v", method, err)
	}
}

// TestMCPTask has the client of the Go SDK follow tasks through the binary to their ends.
func TestMCPTask(t *testing.T) {
	t.Parallel()
	v := newServed(t)
	url := v.atPort(t)
	v.start(t)
	command := func(owner string) sdk.Transport {
		cmd := exec.Command("writ", "mcp", "--data", v.dir)
		cmd.Env = append(os.Environ(), "WRIT_OWNER="+owner, "WRIT_TOKEN=", "WRIT_SERVER=")
		cmd.Stderr = t.Output()
		return &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}
	}
	for way, transport := range map[string]func() sdk.Transport{
		"HTTP": func() sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: url + mcp.Path, HTTPClient: &http.Client{Transport: named{bearer{}}}}
		},
		"stdio": func() sdk.Transport { return command("tester") },
	} {
		for _, version := range mcp.Versions() {
			name := way + " " + version
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a := tasking(t, transport(), version)
				for outcome, isError := range map[string]bool{"succeeded": false, "failed": true} {
					id := a.submit(t, name+" "+outcome)
					type end struct {
						shown *taskShown
						err   error
					}
					followed := make(chan end, 1)
					go func() {
						shown, err := a.follow(t.Context(), id)
						followed <- end{shown, err}
					}()
					var claim workitem.ClaimAnswer
					a.call(t, "work_claim", arguments{"job_id": id, "worker": "w"}, &claim)
					var settled workitem.Settled
					a.call(t, "work_commit", arguments{"job_id": id, "claim": claim.Claim, "outcome": outcome, "retryable": false}, &settled)
					got := <-followed
					if got.err != nil || got.shown.TaskID != id || got.shown.Status != "completed" || got.shown.Result == nil || got.shown.Result.IsError != isError {
						t.Fatalf("%s: %+v, %v", outcome, got.shown, got.err)
					}
					if result, _ := got.shown.Result.StructuredContent.(map[string]any); result["state"] != outcome || result["job_id"] != id {
						t.Errorf("the result is %v", result)
					}
				}
				id := a.submit(t, name+" cancelled")
				a.tell(t, "tasks/update", id)
				a.tell(t, "tasks/cancel", id)
				if shown, err := a.follow(t.Context(), id); err != nil || shown.Status != "cancelled" || shown.Result != nil {
					t.Errorf("cancelled: %+v, %v", shown, err)
				}
				// What belongs to somebody else is no task.
				_, err := tasking(t, command("other"), "").follow(t.Context(), id)
				var e *jsonrpc.Error
				if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams || e.Message != "unknown task" {
					t.Errorf("somebody else is answered %v", err)
				}
			})
		}
	}
}
