package docs

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

const (
	routesBegin = "<!-- routes -->\n"
	routesEnd   = "<!-- end of routes -->\n"
)

// routes is the table of routes, as the table of operations has them.
func routes() string {
	var b strings.Builder
	for _, g := range operation.Groups {
		fmt.Fprintf(&b, "\n%s\n\n| method and path | is | scope | safe to repeat | operation |\n| --- | --- | --- | --- | --- |\n", g.Description)
		for _, o := range operation.Table {
			if o.Group != g.Name {
				continue
			}
			repeat := "no"
			switch {
			case o.ReadOnly:
				repeat = "reads only"
			case o.Idempotent:
				repeat = "yes"
			}
			fmt.Fprintf(&b, "| `%s %s` | %s | `%s` | %s | `%s` |\n", o.Method, o.Path, o.Summary,
				strings.Join(o.Scope.Names(), "`, `"), repeat, o.Name)
		}
	}
	return b.String() + "\n"
}

// TestRESTRoutes holds the routes of rest.md against the table of operations.
func TestRESTRoutes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rest.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), routesBegin)
	_, after, ok2 := strings.Cut(rest, routesEnd)
	if !ok || !ok2 {
		t.Fatal("rest.md has no place for its routes")
	}
	want := before + routesBegin + routes() + routesEnd + after
	if *update {
		if err := os.WriteFile("rest.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Error("the routes of rest.md are stale: run go test ./docs -update")
	}
}

// TestRESTCodes holds the codes of rest.md against those that a problem can have.
func TestRESTCodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rest.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\d{3}) \\|").FindAllStringSubmatch(string(text), -1) {
		described[m[1]] = true
		if got := rest.Status(workitem.Code(m[1])); strconv.Itoa(got) != m[2] {
			t.Errorf("%s has the status %d, not %s", m[1], got, m[2])
		}
	}
	codes := rest.OpenAPI().Components.Schemas.Map()["Problem"].Properties["code"].Enum
	for _, code := range codes {
		if !described[code.(string)] {
			t.Errorf("rest.md does not describe %s", code)
		}
	}
	if len(described) != len(codes) {
		t.Errorf("rest.md describes %d codes, and there are %d", len(described), len(codes))
	}
}

// TestRESTCalls holds the calls of curl in rest.md against the routes and the
// strict reading of their bodies and queries.
func TestRESTCalls(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("rest.md")
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(job|claim)='?([^'\n]*)'?$`).FindAllStringSubmatch(string(text), -1) {
		vars["$"+m[1]] = m[2]
	}
	calls := regexp.MustCompile(`(?s)curl -sS "\$WRIT(/v1/[^"]*)" -H "\$AUTH"(?: -d ('[^']*'|"(?:[^"\\]|\\.)*"))?`).FindAllStringSubmatch(string(text), -1)
	if len(calls) < 7 {
		t.Fatalf("found %d calls", len(calls))
	}
	for _, m := range calls {
		target, body := m[1], m[2]
		if strings.HasPrefix(body, `"`) {
			body = strings.ReplaceAll(body, `\"`, `"`)
		}
		body = strings.Trim(body, `'`)
		if strings.HasPrefix(m[2], `"`) {
			body = strings.TrimSuffix(strings.TrimPrefix(body, `"`), `"`)
		}
		for name, value := range vars {
			target, body = strings.ReplaceAll(target, name, value), strings.ReplaceAll(body, name, value)
		}
		method := "GET"
		if body != "" {
			method = "POST"
		}
		path, query, _ := strings.Cut(target, "?")
		o := route(method, path)
		if o == nil {
			t.Errorf("%s %s is no route", method, path)
			continue
		}
		in := o.NewInput()
		if err := o.DecodeQuery(query, in); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		if o.Name == "job_submit" {
			_, err = workitem.ParseRequest([]byte(body), false)
		} else if o.HasBody() {
			err = o.DecodeBody([]byte(body), in)
		}
		if err != nil {
			t.Errorf("%s: %v: %s", target, err, body)
		}
	}
}

// route finds the operation of a call.
func route(method, path string) *operation.Operation {
	for _, o := range operation.Table {
		pattern := "^" + strings.Replace(regexp.QuoteMeta(o.Path), `\{id\}`, "[^/]+", 1) + "$"
		if o.Method == method && regexp.MustCompile(pattern).MatchString(path) {
			return o
		}
	}
	return nil
}
