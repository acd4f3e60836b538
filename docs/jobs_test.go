package docs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// TestJobsExample types the commands of the worked example.
func TestJobsExample(t *testing.T) {
	t.Parallel()
	if ran := takeTour(t, "jobs.md", "## An example to follow", "/tmp/shop"); ran < 18 {
		t.Errorf("the example has %d commands; the test no longer understands the document", ran)
	}
}

// TestJobsCalls makes the calls whose bodies the document shows, in its order, and
// compares all that it names with the table of operations.
func TestJobsCalls(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	known := map[string]bool{}
	for _, o := range operation.Table {
		known[o.Method+" "+o.Path] = true
	}
	calls := regexp.MustCompile("`(GET|POST|PATCH) (/v1/[^`?]*)[^`]*`").FindAllStringSubmatch(text, -1)
	if len(calls) < 20 {
		t.Errorf("found %d calls; the test no longer understands the document", len(calls))
	}
	for _, c := range calls {
		if call := c[1] + " " + strings.ReplaceAll(c[2], "JOB", "{id}"); !known[call] {
			t.Errorf("there is no operation %s", call)
		}
	}
	bodies := regexp.MustCompile("(?s)```json ([a-z_]+)\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(bodies) < 4 {
		t.Errorf("found %d bodies; the test no longer understands the document", len(bodies))
	}
	server := jobServer(t)
	for _, body := range bodies {
		o, ok := operation.ByName(body[1])
		if !ok {
			t.Errorf("there is no operation %s", body[1])
			continue
		}
		path := strings.ReplaceAll(o.Path, "{id}", workitem.NewID("local", "build-1").JobID())
		r, err := http.NewRequestWithContext(t.Context(), o.Method, server+path, strings.NewReader(body[2]))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it was only read
		if err != nil || answer.StatusCode > http.StatusCreated {
			t.Errorf("%s %s: %s %s %v", o.Method, path, answer.Status, said, err)
		}
	}
}

// jobServer serves the jobs of a new store to ada.
func jobServer(t *testing.T) string {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := workitem.New(store, workitem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := jobs.Close(); err != nil {
			t.Error(err)
		}
	})
	ada := workitem.Principal{Subject: "ada", Tenant: "local", Owner: "ada", Scopes: workitem.ScopeAdmin}
	server := httptest.NewServer(rest.New(rest.Config{Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) {
		return jobs.As(ada), ada, nil
	}}))
	t.Cleanup(server.Close)
	return server.URL
}
