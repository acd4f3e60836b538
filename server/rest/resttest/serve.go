package resttest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// Bundle is a Jobs behind a server of its own.
type Bundle struct {
	// URL is where the server is.
	URL string
	// HTTP calls the server and fails the test when an answer does not match the
	// OpenAPI document.
	HTTP *http.Client
}

// Serve serves for the duration of a test what jobs gives for a principal. The
// principal of a call is whoever its token names: see Token.
func Serve(tb testing.TB, jobs func(workitem.Principal) operation.Jobs) *Bundle {
	tb.Helper()
	handler := rest.New(rest.Config{Logger: slog.New(slog.NewTextHandler(tb.Output(), nil)), Authenticate: func(r *http.Request) (operation.Jobs, workitem.Principal, error) {
		p, ok := principal(r.Header.Get("Authorization"))
		if !ok {
			return nil, p, &workitem.Error{Code: workitem.Unauthenticated, Message: "a bearer token is needed"}
		}
		return jobs(p), p, nil
	}})
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	tb.Cleanup(transport.CloseIdleConnections)
	return &Bundle{URL: server.URL, HTTP: &http.Client{Transport: &checked{tb, transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Client gives a client that calls the server as a principal. It never repeats a
// call.
func (b *Bundle) Client(tb testing.TB, p workitem.Principal) *client.Client {
	tb.Helper()
	c, err := client.New(client.Config{URL: b.URL, Token: Token(tb, p), HTTPClient: b.HTTP, Retry: client.Retry{Attempts: 1}})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Token gives the token by which a served Jobs knows a principal.
func Token(tb testing.TB, p workitem.Principal) string {
	tb.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		tb.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func principal(authorization string) (p workitem.Principal, ok bool) {
	token, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return p, false
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	return p, err == nil && json.Unmarshal(text, &p) == nil
}

// checked is a transport that holds every answer against the document.
type checked struct {
	tb   testing.TB
	next http.RoundTripper
}

// RoundTrip makes a call and checks its answer.
func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	if r.URL.Path != "/v1/openapi.json" {
		if err := Check(r.Method, r.URL.EscapedPath(), response.StatusCode, response.Header, body); err != nil {
			c.tb.Error(err)
		}
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}
