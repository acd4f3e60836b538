package docs

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// TestJobsExample types the commands of the worked example.
func TestJobsExample(t *testing.T) {
	t.Parallel()
	if ran := takeTour(t, "jobs.md", "## An example to follow", "/tmp/shop"); ran < 18 {
		t.Errorf("the example has %d commands; the test no longer understands the document", ran)
	}
}

// TestJobsCalls compares the REST calls that the document names with the table of
// operations, and the bodies that it shows with their inputs.
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
	for _, body := range bodies {
		o, ok := operation.ByName(body[1])
		if !ok {
			t.Errorf("there is no operation %s", body[1])
			continue
		}
		if o.Name == "job_submit" {
			if _, err := workitem.ParseRequest([]byte(body[2]), false); err != nil {
				t.Errorf("the request is refused: %v", err)
			}
			continue
		}
		d := json.NewDecoder(strings.NewReader(body[2]))
		d.DisallowUnknownFields()
		if err := d.Decode(o.NewInput()); err != nil {
			t.Errorf("the body of %s is refused: %v", o.Name, err)
		}
	}
}
