package rest_test

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
)

var update = flag.Bool("update", false, "rewrite golden files")

const golden = "testdata/openapi.json"

func TestDocument(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	setup(t).handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/openapi.json", nil))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("answer %d %v", w.Code, w.Header())
	}
	if *update {
		if err := os.WriteFile(golden, w.Body.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.Body.Bytes(), want) {
		t.Errorf("the served document is not %s; read the difference, then run go test ./server/rest -update", golden)
	}
}

// TestDocumentHasEveryOperation: each row of the table, with its parameters, its
// body and the statuses of its refusals.
func TestDocumentHasEveryOperation(t *testing.T) {
	t.Parallel()
	d := rest.OpenAPI()
	n := 0
	for _, item := range d.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			n++
			o, ok := operation.ByName(op.OperationID)
			if !ok {
				t.Errorf("no operation is named %s", op.OperationID)
				continue
			}
			for _, f := range o.Fields {
				documented := false
				for _, p := range op.Parameters {
					documented = documented || p.Name == f.Name && p.Required == f.Required
				}
				if inBody := f.Place == operation.Body || f.Place == operation.Whole; documented == inBody {
					t.Errorf("%s: %s is a parameter: %t", o.Name, f.Name, documented)
				}
			}
			if (op.RequestBody != nil) != o.HasBody() {
				t.Errorf("%s: body", o.Name)
			}
			for _, code := range o.Refusals {
				if op.Responses[strconv.Itoa(rest.Status(code))] == nil {
					t.Errorf("%s: the document has not the status of %s", o.Name, code)
				}
			}
		}
	}
	if n != len(operation.Table) {
		t.Errorf("%d operations in the document, %d in the table", n, len(operation.Table))
	}
}

// TestSchemasAreStrict: a client may rely on the members of an answer, and on
// there being no others.
func TestSchemasAreStrict(t *testing.T) {
	t.Parallel()
	for name, s := range rest.OpenAPI().Components.Schemas.Map() {
		if open := s.AdditionalProperties != false; open != (name == "Fence") {
			t.Errorf("%s takes any member: %t", name, open)
		}
	}
}

// TestJobRequestSchema: what submitters send fits the schema of a submission.
func TestJobRequestSchema(t *testing.T) {
	t.Parallel()
	submit, _ := operation.ByName("job_submit")
	dump, err := os.ReadFile("testdata/frozen_contract_dump.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"example": `{"contract_version":"1","request_id":"req-1","idempotency_key":"idem-1","operation":"build",
			"repository":{"repository_id":"repo-a"},"base_ref":"main","base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			"owner_id":"actor-a","session_id":"session-a","tenant_id":"tenant-a"}`,
		"dump of the contract": string(dump),
		"benchmark":            benchRequest,
	} {
		if err := resttest.CheckRequest(submit, []byte(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, body := range map[string]string{
		"unknown member": strings.Replace(benchRequest, `"operation"`, `"x":1,"operation"`, 1),
		"nested member":  strings.Replace(benchRequest, `"cpu_weight"`, `"x":1,"cpu_weight"`, 1),
		"operation":      strings.Replace(benchRequest, `"build"`, `"biuld"`, 1),
		"range":          strings.Replace(benchRequest, `"priority":5`, `"priority":10001`, 1),
	} {
		if resttest.CheckRequest(submit, []byte(body)) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestCheckFindsFaults: the check of answers, on which the tests of every route
// rest, refuses what does not fit.
func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	header := func(media string) http.Header {
		return http.Header{"Content-Type": {media}, "X-Request-Id": {"x"}}
	}
	kinds := `{"items":[{"operation":"build","kind":"repository.build"}]}`
	if err := resttest.Check("GET", "/v1/kinds", 200, header("application/json"), []byte(kinds)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"member":     resttest.Check("GET", "/v1/kinds", 200, header("application/json"), []byte(`{"items":[],"x":1}`)),
		"case":       resttest.Check("GET", "/v1/kinds", 200, header("application/json"), []byte(`{"Items":[]}`)),
		"missing":    resttest.Check("GET", "/v1/kinds", 200, header("application/json"), []byte(`{}`)),
		"null":       resttest.Check("GET", "/v1/kinds", 200, header("application/json"), []byte(`{"items":null}`)),
		"type":       resttest.Check("GET", "/v1/kinds", 200, header("application/json"), []byte(`{"items":[{"operation":1,"kind":"k"}]}`)),
		"media":      resttest.Check("GET", "/v1/kinds", 200, header("text/plain"), []byte(kinds)),
		"status":     resttest.Check("GET", "/v1/kinds", 201, header("application/json"), []byte(kinds)),
		"id":         resttest.Check("GET", "/v1/kinds", 200, http.Header{"Content-Type": {"application/json"}}, []byte(kinds)),
		"route":      resttest.Check("GET", "/v1/none", 200, header("application/json"), []byte(kinds)),
		"no claim":   resttest.Check("POST", "/v1/claims", 200, header("application/json"), []byte(`{"claimed":true,"reason":"r","claim":1}`)),
		"no problem": resttest.Check("GET", "/v1/kinds", 401, header(rest.ContentType), []byte(`{"error":{}}`)),
	} {
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
