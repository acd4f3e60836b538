package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

// TestRefusalsComeBack: what an authority refuses is the same through REST.
func TestRefusalsComeBack(t *testing.T) {
	t.Parallel()
	no := false
	fake := new(resttest.Fake)
	c := resttest.Serve(t, func(workitem.Principal) operation.Jobs { return fake }).Client(t, caller)
	for _, want := range []*workitem.Error{
		{Code: workitem.InvalidRequest, Message: "is not a kind", Field: "kind"},
		{Code: workitem.ForbiddenScope, Message: "needs jobs:work"},
		{Code: workitem.NotFound, Message: "there is no such job"},
		{Code: workitem.StaleFence, Message: "the lease is another's", Outcome: "fenced", Renewed: &no},
		{Code: workitem.NotFound, Message: "there is no such job", Outcome: "missing", Applied: &no},
		{Code: workitem.ConsentDenied, Message: "it has lapsed", Outcome: "consent_denied", Renewed: &no, Applied: &no},
		{Code: workitem.AuthorityUnavailable, Message: "the disk is full"},
		{Code: workitem.TooManyRequests, Message: "too many"},
	} {
		fake.Refuse(want)
		_, err := c.Heartbeat(t.Context(), &workitem.HeartbeatInput{JobID: "rmjob:x"})
		var got *workitem.Error
		if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", err, want)
		}
		if !errors.Is(err, &workitem.Error{Code: want.Code}) {
			t.Errorf("%v is not its code", err)
		}
	}
	fake.Refuse(&workitem.Error{Code: workitem.DuplicateRequest, Message: "other input", Differs: "source_only"})
	var got *workitem.Error
	if _, err := c.Submit(t.Context(), &workitem.SubmitInput{Request: []byte(`{}`)}); !errors.As(err, &got) || got.Differs != "source_only" {
		t.Errorf("got %+v", err)
	}
	fake.Refuse(errors.New("hunter2"))
	if _, err := c.Kinds(t.Context(), &workitem.NoInput{}); !errors.Is(err, workitem.ErrInternal) || !strings.Contains(err.Error(), "request id") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// TestAnswersThatAreNotWrits: proxies, and servers of something else.
func TestAnswersThatAreNotWrits(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		200: workitem.ErrInternal, 302: workitem.ErrInternal, 400: workitem.ErrInvalidRequest, 401: workitem.ErrUnauthenticated,
		403: workitem.ErrForbiddenScope, 404: workitem.ErrNotFound, 413: &workitem.Error{Code: workitem.PayloadTooLarge},
		429: &workitem.Error{Code: workitem.TooManyRequests}, 500: workitem.ErrInternal, 502: workitem.ErrAuthorityUnavailable,
		503: workitem.ErrAuthorityUnavailable, 504: workitem.ErrAuthorityUnavailable,
	} {
		followed := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			followed = followed || r.URL.Path == "/elsewhere"
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>")) // the client reads it or not
		}))
		c, err := client.New(client.Config{URL: server.URL, Token: "secret", Retry: client.Retry{Attempts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Kinds(t.Context(), &workitem.NoInput{}); !errors.Is(err, want) || followed {
			t.Errorf("status %d: %v, followed %t", status, err, followed)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	c, err := client.New(client.Config{Socket: filepath.Join(t.TempDir(), "none.sock"), Retry: client.Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var op *net.OpError
	if _, err := c.Kinds(t.Context(), &workitem.NoInput{}); !errors.Is(err, workitem.ErrAuthorityUnavailable) || !errors.As(err, &op) {
		t.Errorf("got %v", err)
	}
}

// TestPatience: a call that its caller ends says so.
func TestPatience(t *testing.T) {
	t.Parallel()
	fake := &resttest.Fake{}
	ctx, cancel := context.WithCancel(t.Context())
	fake.Hook = func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	c := resttest.Serve(t, func(workitem.Principal) operation.Jobs { return fake }).Client(t, caller)
	if _, err := c.Kinds(ctx, &workitem.NoInput{}); !errors.Is(err, context.Canceled) || !errors.Is(err, workitem.ErrAuthorityUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestSocket calls a server on a unix socket, with the token of a source.
func TestSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "writ.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	fake := new(resttest.Fake)
	server := httptest.NewUnstartedServer(rest.New(rest.Config{Authenticate: func(r *http.Request) (operation.Jobs, workitem.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer dev:t:o" {
			return nil, caller, workitem.ErrUnauthenticated
		}
		return fake, caller, nil
	}}))
	if err := server.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	fail := errors.New("no key")
	c, err := client.New(client.Config{Socket: path, TokenSource: func(context.Context) (string, error) { return "dev:t:o", fail }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kinds(t.Context(), &workitem.NoInput{}); !errors.Is(err, workitem.ErrUnauthenticated) || !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	fail = nil
	if _, err := c.Kinds(t.Context(), &workitem.NoInput{}); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestInputsThatNoCallCanSay(t *testing.T) {
	t.Parallel()
	c, err := client.New(client.Config{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, empty := c.Get(t.Context(), &workitem.GetInput{})
	_, text := c.ClaimNext(t.Context(), &workitem.ClaimNextInput{Kind: "\xff"})
	for _, err := range []error{empty, text} {
		if !errors.Is(err, workitem.ErrInvalidRequest) {
			t.Errorf("got %v", err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []client.Config{
		{}, {URL: "writ.example"}, {URL: "ftp://writ.example"}, {URL: "http://"}, {URL: "http://u:p@writ.example"},
		{URL: "http://writ.example?x=1"}, {URL: "http://writ.example", Token: "a b"}, {URL: "http://writ.example", Token: "a\n"},
		{Socket: "/x", HTTPClient: http.DefaultClient}, {URL: "http://[::1"},
	} {
		if _, err := client.New(cfg); !errors.Is(err, client.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, url := range []string{"http://writ.example", "https://writ.example:8443/below/", "http://[::1]:80"} {
		if _, err := client.New(client.Config{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
