package docs

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// TestMCPTasks makes the requests of the section about tasks and compares the answers.
func TestMCPTasks(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n## Tasks\n")
	blocks := regexp.MustCompile("(?s)```json request\n(.*?)```\n\n```json answer\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("found %d requests; the test no longer understands the document", len(blocks))
	}
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := workitem.New(store, workitem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jobs.Close() })
	alice := workitem.Principal{Subject: "alice", Tenant: "local", Owner: "alice", Scopes: workitem.ScopeRead | workitem.ScopeWrite}
	server := httptest.NewServer(mcp.NewHandler(mcp.HTTPConfig{
		Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) { return jobs.As(alice), alice, nil },
	}))
	t.Cleanup(server.Close)
	for _, block := range blocks {
		var asked struct {
			Method string
			Params struct{ Name, TaskID string }
		}
		if err := json.Unmarshal([]byte(block[1]), &asked); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+mcp.Path, bytes.NewReader([]byte(block[1])))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": asked.Method, "Mcp-Name": asked.Params.Name + asked.Params.TaskID} {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		var got struct{ Result map[string]any }
		var want map[string]any
		if err != nil || json.Unmarshal(answer, &got) != nil || json.Unmarshal([]byte(block[2]), &want) != nil {
			t.Fatalf("%s: %v %s", asked.Method, err, answer)
		}
		for _, name := range []string{"_meta", "content", "structuredContent"} {
			delete(got.Result, name)
		}
		for _, name := range []string{"createdAt", "lastUpdatedAt"} { // which differ
			at, _ := got.Result[name].(string)
			if _, err := time.Parse(time.RFC3339, at); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got.Result[name] = want[name]
		}
		if !reflect.DeepEqual(got.Result, want) {
			t.Errorf("%s is answered\n%v, and the document has\n%v", asked.Method, got.Result, want)
		}
	}
}
