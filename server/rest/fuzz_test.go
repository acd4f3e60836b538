package rest_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

// FuzzHandler: whatever is asked, the answer is one that the document has.
func FuzzHandler(f *testing.F) {
	for _, o := range operation.Table {
		f.Add(o.Method, strings.Replace(o.Path, "{id}", job, 1), "", `{"claim":`+benchFence+`,"outcome":"failed"}`, "")
	}
	f.Add("GET", "/v1/jobs", "state=ready&limit=1&claimable=true", "", "*")
	f.Add("GET", "/v1/jobs/"+job, "wait_s=1e1", "", `W/"x", *`)
	f.Add("POST", "/v1/claims", "", `{"kind":"k","worker":"w","wait_s":0.5}`, "")
	f.Add("GET", "/v1/jobs/a%2Fb/claim", "worker=%20", "", "")
	f.Add("HEAD", "/v1/../v1/kinds", "&&", "", "")
	handler := rest.New(rest.Config{Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) {
		return new(resttest.Fake), caller, nil
	}})
	f.Fuzz(func(t *testing.T, method, path, query, body, match string) {
		u := &url.URL{RawQuery: query}
		var err error
		if u.Path, err = url.PathUnescape(path); err != nil || method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			return // net/http refuses it
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", strings.NewReader(body))
		r.Method, r.URL = method, u
		r.Header["If-None-Match"] = []string{match}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if method == http.MethodHead || u.Path == "/v1/openapi.json" {
			return // net/http drops the one's body, and the other is no operation
		}
		if err := resttest.Check(method, u.EscapedPath(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
			t.Error(err)
		}
	})
}
