package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// ErrConfig is returned by New for a configuration that can't work.
var ErrConfig = errors.New("client configuration")

const (
	// maxAnswer bounds the answer that is read, in bytes: a page of a thousand
	// jobs with a thousand parents each stays below.
	maxAnswer = 256 << 20
	// idleConnections bounds the connections that are kept open.
	idleConnections = 256
	dialTimeout     = 10 * time.Second
)

// Config says how a server is reached.
type Config struct {
	// URL is where the server is, for instance https://writ.example. With Socket
	// it may be empty.
	URL string
	// Socket is the path of a unix socket on which the server listens.
	Socket string
	// Token is the bearer token, without the word Bearer.
	Token string
	// TokenSource, if not nil, gives the token of each call instead.
	TokenSource func(context.Context) (string, error)
	// HTTPClient, if not nil, is used instead of a client with connections of its
	// own. Socket is refused with it.
	HTTPClient *http.Client
	// Retry says how often calls are repeated.
	Retry Retry
	// UserAgent names the program; the default is writ.
	UserAgent string
}

// Client calls one server.
type Client struct {
	base  string
	http  *http.Client
	owned bool
	cfg   Config
}

var _ operation.Jobs = (*Client)(nil)

// New makes a client. It does not call the server. Errors are ErrConfig.
func New(cfg Config) (*Client, error) {
	if cfg.URL == "" && cfg.Socket != "" {
		cfg.URL = "http://writ.socket"
	}
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return nil, fmt.Errorf("%w: the URL must be http://HOST or https://HOST", ErrConfig)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%w: the URL may have a path, but no user, query or fragment", ErrConfig)
	case cfg.HTTPClient != nil && cfg.Socket != "":
		return nil, fmt.Errorf("%w: a socket can't be used with an HTTP client that is given", ErrConfig)
	case strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fmt.Errorf("%w: the token has a character that no token has", ErrConfig)
	}
	cfg.Retry = cfg.Retry.complete()
	if cfg.UserAgent == "" {
		cfg.UserAgent = "writ"
	}
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), cfg: cfg, http: cfg.HTTPClient}
	if c.http == nil {
		dialer := &net.Dialer{Timeout: dialTimeout}
		transport := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        idleConnections,
			MaxIdleConnsPerHost: idleConnections,
			IdleConnTimeout:     90 * time.Second,
		}
		if cfg.Socket != "" {
			transport.Proxy = nil
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", cfg.Socket)
			}
		}
		c.owned = true
		c.http = &http.Client{Transport: transport,
			// A token is for the server that it was given for.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c, nil
}

// Close ends the idle connections that the client made.
func (c *Client) Close() error {
	if c.owned {
		c.http.CloseIdleConnections()
	}
	return nil
}

// do runs one operation on the server, and repeats it as Retry says.
func do[Out any](ctx context.Context, c *Client, name string, in any) (*Out, error) {
	o, ok := operation.ByName(name)
	if !ok {
		panic("client: there is no operation " + name)
	}
	request, err := o.Encode(in)
	var refusal *workitem.Error
	if errors.As(err, &refusal) {
		return nil, refusal
	}
	if err != nil {
		return nil, &workitem.Error{Code: workitem.InvalidRequest, Err: err,
			Message: "the input can't be written as JSON: it has a text that is not UTF-8 or a number that is not finite"}
	}
	safe := repeatable(o, in)
	for attempt := 1; ; attempt++ {
		out := new(Out)
		f := c.once(ctx, request, out)
		if f == nil {
			return out, nil
		}
		if attempt >= c.cfg.Retry.Attempts || !f.again(safe) || !c.cfg.Retry.wait(ctx, attempt, f.after) {
			return nil, f.err
		}
	}
}

// request is one to the server, with the credential.
func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, *failure) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, &failure{err: &workitem.Error{Code: workitem.InvalidRequest, Err: err, Message: "the call can't be written as a URL"}}
	}
	token := c.cfg.Token
	if c.cfg.TokenSource != nil {
		if token, err = c.cfg.TokenSource(ctx); err != nil {
			return nil, &failure{err: &workitem.Error{Code: workitem.Unauthenticated, Err: err, Message: "there is no token for the server: " + err.Error()}}
		}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("User-Agent", c.cfg.UserAgent)
	return r, nil
}

// once makes one call.
func (c *Client) once(ctx context.Context, request operation.Request, out any) *failure {
	var body io.Reader
	if request.Body != nil {
		body = bytes.NewReader(request.Body)
	}
	r, f := c.request(ctx, request.Method, request.Path, body)
	if f != nil {
		return f
	}
	for name, values := range request.Header {
		r.Header[name] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, application/problem+json")
	response, err := c.http.Do(r)
	if err != nil {
		return unreachable(ctx, err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return unreachable(ctx, err)
	case len(text) > maxAnswer:
		return &failure{err: &workitem.Error{Code: workitem.Internal, Message: "the server's answer is larger than any should be"}}
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated:
		return refused(response, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &failure{err: &workitem.Error{Code: workitem.Internal, Err: err,
			Message: "the server's answer is not what this operation gives: is it a Writ server?"}}
	}
	if a, ok := out.(*workitem.ClaimAnswer); ok {
		a.Trace = response.Header.Get("Traceparent")
	}
	return nil
}
