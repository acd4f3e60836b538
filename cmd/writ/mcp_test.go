package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/workitem"
)

// agent is a session of the official client with one of Writ's servers.
type agent struct{ *sdk.ClientSession }

// bearer sends a development token of the tenant local with every request.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer dev:local:tester")
	return http.DefaultTransport.RoundTrip(r)
}

func dial(t *testing.T, transport sdk.Transport, version string) agent {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(context.Background(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the session ends with %v", err)
		}
	})
	return agent{session}
}

// overHTTP speaks with a server at a URL.
func overHTTP(t *testing.T, url, version string) agent {
	t.Helper()
	return dial(t, &sdk.StreamableClientTransport{Endpoint: url + mcp.Path, HTTPClient: &http.Client{Transport: bearer{}}}, version)
}

// overStdio speaks with `writ mcp`.
func overStdio(t *testing.T, version string, args ...string) agent {
	t.Helper()
	cmd := exec.Command("writ", append([]string{"mcp"}, args...)...)
	cmd.Env = append(os.Environ(), "WRIT_OWNER=tester", "WRIT_TOKEN=dev:local:tester", "WRIT_SERVER=")
	cmd.Stderr = t.Output()
	return dial(t, &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, version)
}

// try calls a tool and reads its answer into out, or gives the code of the refusal.
func (a agent) try(tool string, arguments any, out any) (workitem.Code, error) {
	res, err := a.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(res.StructuredContent)
	if res.IsError {
		var refusal struct{ Code workitem.Code }
		err = json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &refusal)
		return refusal.Code, err
	}
	return "", errors.Join(err, json.Unmarshal(text, out))
}

func (a agent) call(t *testing.T, tool string, arguments any, out any) {
	t.Helper()
	if code, err := a.try(tool, arguments, out); err != nil || code != "" {
		t.Fatalf("%s: %s, %v", tool, code, err)
	}
}

type arguments = map[string]any

// submit submits a job and gives its id.
func (a agent) submit(t *testing.T, key, parent string) string {
	t.Helper()
	var h workitem.Handle
	a.call(t, "job_submit", arguments{"request": json.RawMessage(stormRequest(key, parent))}, &h)
	return h.JobID
}

// claim claims the next job, for which it waits.
func (a agent) claim(t *testing.T, worker string) *workitem.Claim {
	t.Helper()
	var got workitem.ClaimAnswer
	a.call(t, "work_claim_next", arguments{"kind": "repository.build", "worker": worker, "wait_s": 30}, &got)
	if !got.Claimed {
		t.Fatalf("nothing to claim: %s", got.Reason)
	}
	return got.Claim
}

// end commits a success.
func (a agent) end(t *testing.T, c *workitem.Claim) {
	t.Helper()
	var s workitem.Settled
	a.call(t, "work_commit", arguments{"job_id": c.JobID, "claim": c, "outcome": "succeeded", "result_ref": "artifact:1"}, &s)
	if s.Status != "committed" {
		t.Errorf("the commit is answered with %s", s.Status)
	}
}

// TestMCP has agents do a piece of work through the binary in every way and revision:
// one submits and follows, one works.
func TestMCP(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T) func(version string) agent{
		"HTTP": func(t *testing.T) func(string) agent {
			v := newServed(t)
			url := v.atPort(t)
			v.start(t)
			return func(version string) agent { return overHTTP(t, url, version) }
		},
		"stdio to a server": func(t *testing.T) func(string) agent {
			v := newServed(t)
			url := v.atPort(t)
			v.start(t)
			return func(version string) agent { return overStdio(t, version, "--server", url) }
		},
		"stdio with a data directory": func(t *testing.T) func(string) agent {
			dir := t.TempDir()
			return func(version string) agent { return overStdio(t, version, "--data", dir) }
		},
		"stdio with the data directory of a server": func(t *testing.T) func(string) agent {
			v := newServed(t)
			v.start(t)
			return func(version string) agent { return overStdio(t, version, "--data", v.dir) }
		},
	}
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			connect := open(t)
			for _, version := range mcp.Versions() {
				t.Run(version, func(t *testing.T) { workThrough(t, connect(version), connect(version), version) })
			}
		})
	}
}

func workThrough(t *testing.T, boss, worker agent, prefix string) {
	first := boss.submit(t, prefix+" first", "")
	second := boss.submit(t, prefix+" second", prefix+" first")
	var again workitem.Handle
	if boss.call(t, "job_submit", arguments{"request": json.RawMessage(stormRequest(prefix+" first", ""))}, &again); again.JobID != first || !again.Deduplicated {
		t.Errorf("the same request again is answered with %+v", again)
	}
	if code, err := boss.try("job_submit", arguments{"request": json.RawMessage(strings.Replace(string(stormRequest(prefix+" first", "")), "main", "other", 1))}, nil); err != nil || code != workitem.DuplicateRequest {
		t.Errorf("another request with the key: %s, %v", code, err)
	}

	// Whoever follows the second job waits while both are worked on.
	followed := make(chan error, 1)
	go func() {
		var view workitem.View
		code, err := boss.try("job_get", arguments{"job_id": second, "wait_s": 30, "until": "terminal"}, &view)
		if err == nil && (code != "" || view.State != "succeeded" || view.ResultRef == nil || *view.ResultRef != "artifact:1") {
			err = fmt.Errorf("followed to %s %+v", code, view)
		}
		followed <- err
	}()
	c := worker.claim(t, "w1")
	if c.JobID != first {
		t.Fatalf("the claim is of %s", c.JobID)
	}
	var renewed workitem.Renewal
	worker.call(t, "work_heartbeat", arguments{"job_id": first, "claim": c, "lease_ttl_s": 600}, &renewed)
	var kept workitem.Checkpointed
	worker.call(t, "work_checkpoint", arguments{"job_id": first, "claim": c, "checkpoint": "checkpoint:half"}, &kept)
	var current workitem.Claim
	worker.call(t, "work_current_claim", arguments{"job_id": first, "worker": "w1"}, &current)
	var why workitem.Diagnostics
	boss.call(t, "job_explain", arguments{"job_id": second}, &why)
	if !renewed.Renewed || !kept.Applied || current.FencingToken != c.FencingToken || len(why.BlockedBy) != 1 || why.BlockedBy[0].State != "running" {
		t.Errorf("meanwhile: %+v %+v %+v %+v", renewed, kept, current, why)
	}
	if code, err := boss.try("job_result", arguments{"job_id": first}, nil); err != nil || code != workitem.InvalidState {
		t.Errorf("the result before the end: %s, %v", code, err)
	}
	worker.end(t, c)
	stale := *c
	stale.FencingToken++
	if code, err := worker.try("work_heartbeat", arguments{"job_id": first, "claim": stale}, nil); err != nil || code != workitem.StaleFence {
		t.Errorf("a heartbeat after the end: %s, %v", code, err)
	}
	worker.end(t, worker.claim(t, "w1"))
	if err := <-followed; err != nil {
		t.Error(err)
	}

	var result workitem.Result
	if boss.call(t, "job_result", arguments{"job_id": second}, &result); result.State != "succeeded" {
		t.Errorf("the result is %+v", result)
	}
	res, err := boss.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "writ://jobs/" + second + "/graph"})
	var graph workitem.Graph
	if err != nil || json.Unmarshal([]byte(res.Contents[0].Text), &graph) != nil || len(graph.Nodes) != 2 || len(graph.Edges) != 1 {
		t.Errorf("the graph is %+v, %v", graph, err)
	}
	// A page at a time; what other revisions have left may lie between.
	found, cursor := 0, any(nil)
	for range 100 {
		in := arguments{"limit": 1, "state": []string{"succeeded"}}
		if cursor != nil {
			in["cursor"] = cursor
		}
		var page workitem.Page
		boss.call(t, "job_list", in, &page)
		for _, job := range page.Items {
			if job.JobID == first || job.JobID == second {
				found++
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if found != 2 {
		t.Errorf("the pages have %d of the two jobs", found)
	}
}

// TestMCPRestart kills a server while agents are connected to it. Calls fail as long
// as it is away, and the same sessions go on when it is back: leases, waiting and all.
func TestMCPRestart(t *testing.T) {
	t.Parallel()
	v := newServed(t)
	url := v.atPort(t)
	v.start(t)
	agents := map[string]agent{
		"stdio to a server":      overStdio(t, "", "--server", url),
		"stdio with a directory": overStdio(t, "", "--data", v.dir),
	}
	for _, version := range mcp.Versions() {
		agents["HTTP "+version] = overHTTP(t, url, version)
	}
	claims := map[string]*workitem.Claim{}
	for name, a := range agents {
		a.submit(t, name, "")
		claims[name] = a.claim(t, name)
	}
	v.kill(t)
	for name, a := range agents {
		var kinds workitem.Kinds
		code, err := a.try("job_kinds", nil, &kinds)
		switch {
		case strings.HasPrefix(name, "HTTP"):
			if err == nil {
				t.Errorf("%s: answered %s while the server was away", name, code)
			}
		case name == "stdio with a directory": // which it opens itself
			if err != nil || code != "" {
				t.Errorf("%s: %s, %v", name, code, err)
			}
		case err != nil || code != workitem.AuthorityUnavailable:
			t.Errorf("%s: %s, %v while the server was away", name, code, err)
		}
	}
	v.start(t)
	for name, a := range agents {
		t.Run(name, func(t *testing.T) {
			var renewed workitem.Renewal
			a.call(t, "work_heartbeat", arguments{"job_id": claims[name].JobID, "claim": claims[name]}, &renewed)
			a.end(t, claims[name])
			a.submit(t, name+" again", "")
		})
	}
	v.stop(t)
}

// TestMCPEnds: `writ mcp` ends with its input, and when it is interrupted also while
// a call waits.
func TestMCPEnds(t *testing.T) {
	t.Parallel()
	const waits = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work_claim_next","arguments":{"kind":"repository.build","worker":"w","wait_s":60}}}
{"jsonrpc":"2.0","id":3,"method":"ping"}
`
	for name, end := range map[string]struct {
		how  func(*exec.Cmd, io.Closer) error
		code int
	}{
		"Ctrl-C":      {func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(os.Interrupt) }, 130},
		"termination": {func(c *exec.Cmd, _ io.Closer) error { return c.Process.Signal(syscall.SIGTERM) }, 130},
		"end of file": {func(_ *exec.Cmd, in io.Closer) error { return in.Close() }, 0},
	} {
		for _, where := range []string{"directory", "server"} {
			t.Run(name+", "+where, func(t *testing.T) {
				t.Parallel()
				v := newServed(t)
				if where == "server" {
					v.start(t)
				}
				cmd := exec.Command("writ", "mcp", "--data", v.dir)
				out := new(messages)
				cmd.Stdout = out
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test has failed
				if _, err := io.WriteString(in, waits); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the later call is answered", func() bool {
					text, _ := out.now()
					return strings.Contains(text, `"id":3,"result"`)
				})
				begun := time.Now()
				if err := end.how(cmd, in); err != nil {
					t.Fatal(err)
				}
				err = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != end.code || time.Since(begun) > 20*time.Second {
					t.Errorf("it ends with %d after %s: %v", code, time.Since(begun), err)
				}
				if where == "server" {
					v.stop(t)
				}
			})
		}
	}
}
