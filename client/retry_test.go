package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/workitem"
)

// script is a server of which every answer is known before. After the last one it
// repeats that.
type script struct {
	answers []answer
	calls   []time.Time
	bodies  []string
}

// answer is what one call gets: a failure of the connection, or a response.
type answer struct {
	err    error
	status int
	after  string
	body   string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.bodies = append(s.bodies, string(text))
	}
	a := s.answers[min(len(s.calls), len(s.answers)-1)]
	s.calls = append(s.calls, time.Now())
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{}
	if a.after != "" {
		h.Set("Retry-After", a.after)
	}
	return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

// waits are the pauses between the calls.
func (s *script) waits() []time.Duration {
	var list []time.Duration
	for i := 1; i < len(s.calls); i++ {
		list = append(list, s.calls[i].Sub(s.calls[i-1]))
	}
	return list
}

func (s *script) client(t *testing.T, retry client.Retry) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: "http://writ.test", HTTPClient: &http.Client{Transport: s}, Retry: retry})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	reset   = answer{err: &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}}
	refused = answer{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	busy    = answer{status: 503, body: `{"code":"authority_unavailable","detail":"the store is full"}`}
	many    = answer{status: 429, body: `{"code":"too_many_requests"}`}
	bad     = answer{status: 400, body: `{"code":"invalid_request","field":"kind","detail":"is none"}`}
	broken  = answer{status: 500, body: `{"code":"internal_error","detail":"a bug","request_id":"r-1"}`}
	proxy   = answer{status: 502, body: `<html>`}
	done    = answer{status: 200, body: `{"status":"committed","renewed":true,"claimed":true,"a_member_of_a_newer_server":1}`}
)

func TestRepeatedCalls(t *testing.T) {
	t.Parallel()
	final, no := "final", false
	submit := func(ctx context.Context, c *client.Client) error {
		_, err := c.Submit(ctx, &workitem.SubmitInput{Request: []byte(`{"idempotency_key":"k"}`)})
		return err
	}
	claim := func(id string) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w", ClaimRequestID: id})
			return err
		}
	}
	commit := func(in workitem.CommitInput) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			in.JobID = "rmjob:x"
			_, err := c.Commit(ctx, &in)
			return err
		}
	}
	deferred := func(ctx context.Context, c *client.Client) error {
		_, err := c.Defer(ctx, &workitem.DeferInput{JobID: "rmjob:x"})
		return err
	}
	token := func(ctx context.Context, c *client.Client) error {
		_, err := c.CreateToken(ctx, &workitem.TokenInput{})
		return err
	}
	for _, tt := range []struct {
		name    string
		call    func(context.Context, *client.Client) error
		answers []answer
		calls   int
		want    error
	}{
		{"at once", submit, []answer{done}, 1, nil},
		{"submission, connection lost", submit, []answer{reset, busy, proxy, done}, 4, nil},
		{"submission, never answered", submit, []answer{reset}, 4, workitem.ErrAuthorityUnavailable},
		{"refusal", submit, []answer{bad}, 1, workitem.ErrInvalidRequest},
		{"bug", submit, []answer{broken}, 1, workitem.ErrInternal},
		{"claim with an id", claim("c-1"), []answer{reset, done}, 2, nil},
		{"claim without an id", claim(""), []answer{reset, done}, 1, workitem.ErrAuthorityUnavailable},
		{"claim without an id, not sent", claim(""), []answer{refused, many, done}, 3, nil},
		{"claim without an id, answered 503", claim(""), []answer{busy, done}, 1, workitem.ErrAuthorityUnavailable},
		{"commit of a success", commit(workitem.CommitInput{Outcome: "succeeded"}), []answer{reset, done}, 2, nil},
		{"commit of a failure for good", commit(workitem.CommitInput{Outcome: "failed", Retryable: &no, ErrorRef: &final}), []answer{reset, done}, 2, nil},
		{"commit of a failure", commit(workitem.CommitInput{Outcome: "failed"}), []answer{reset, done}, 1, workitem.ErrAuthorityUnavailable},
		{"defer", deferred, []answer{reset, done}, 1, workitem.ErrAuthorityUnavailable},
		{"token", token, []answer{reset, done}, 1, workitem.ErrAuthorityUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				err := tt.call(t.Context(), s.client(t, client.Retry{}))
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if len(s.calls) != tt.calls {
					t.Errorf("%d calls, want %d", len(s.calls), tt.calls)
				}
				for _, body := range s.bodies {
					if body != s.bodies[0] {
						t.Errorf("repeated with another body: %s, %s", s.bodies[0], body)
					}
				}
			})
		})
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, c *client.Client) error {
		_, err := c.Get(ctx, &workitem.GetInput{JobID: "rmjob:x"})
		return err
	}
	t.Run("grow and are jittered", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []answer{reset}}
			_ = get(t.Context(), s.client(t, client.Retry{Attempts: 6, Base: 100 * time.Millisecond, Max: 500 * time.Millisecond}))
			for i, want := range []time.Duration{100, 200, 400, 500, 500} {
				want *= time.Millisecond
				if got := s.waits()[i]; got > want || got < want/2 {
					t.Errorf("wait %d is %v, want %v to %v", i, got, want/2, want)
				}
			}
		})
	})
	t.Run("follow Retry-After", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			later := busy
			later.after = "2"
			s := &script{answers: []answer{later, done}}
			if err := get(t.Context(), s.client(t, client.Retry{Base: time.Millisecond})); err != nil {
				t.Fatal(err)
			}
			if got := s.waits()[0]; got < 2*time.Second {
				t.Errorf("waited %v", got)
			}
		})
	})
	t.Run("are bounded", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			later := busy
			later.after = "3600"
			s := &script{answers: []answer{later, done}}
			if err := get(t.Context(), s.client(t, client.Retry{Max: time.Second})); err != nil {
				t.Fatal(err)
			}
			if got := s.waits()[0]; got != time.Second {
				t.Errorf("waited %v", got)
			}
		})
	})
	t.Run("end with the caller's patience", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []answer{busy}}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(10 * time.Second) // of the bubble's clock
				cancel()
			}()
			err := get(ctx, s.client(t, client.Retry{Attempts: 1000, Base: time.Second, Max: time.Minute}))
			if !errors.Is(err, workitem.ErrAuthorityUnavailable) || len(s.calls) < 3 || len(s.calls) > 8 {
				t.Errorf("%v after %d calls", err, len(s.calls))
			}
		})
	})
	t.Run("are not begun when the deadline comes first", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []answer{busy}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if err := get(ctx, s.client(t, client.Retry{Base: time.Minute, Max: time.Minute})); !errors.Is(err, workitem.ErrAuthorityUnavailable) {
				t.Error(err)
			}
			if len(s.calls) != 1 || time.Since(began) != 0 {
				t.Errorf("%d calls in %v", len(s.calls), time.Since(began))
			}
		})
	})
}
