package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// running is a server over a real store.
type running struct {
	server.Addresses
	stop  context.CancelFunc
	ended chan error
}

func run(t *testing.T, cfg server.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ready := make(chan server.Addresses, 1)
	cfg.Listen = "127.0.0.1:0"
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.Ready = func(a server.Addresses) { ready <- a }
	r := &running{stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- server.Run(ctx, cfg) }()
	select {
	case r.Addresses = <-ready:
	case err := <-r.ended:
		t.Fatal(err)
	}
	return r
}

func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.Retry = client.Retry{Attempts: 1}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func request(t *testing.T, key string) *workitem.SubmitInput {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"contract_version": "1", "request_id": "r-" + key, "idempotency_key": key, "operation": "build",
		"repository": map[string]any{"repository_id": "repo-a"}, "base_ref": "main", "base_sha": strings.Repeat("a", 40),
		"owner_id": "ci", "session_id": "s", "tenant_id": "acme",
	})
	if err != nil {
		t.Fatal(err)
	}
	return &workitem.SubmitInput{Request: raw}
}

func TestAServerFromTheFirstTokenToARestart(t *testing.T) {
	t.Parallel()
	cfg := server.Config{Data: t.TempDir() + "/data"}
	r := run(t, cfg)

	// The person at the socket makes a token; it works over TCP, as what it says.
	local := connect(t, client.Config{Socket: r.Socket, Token: "dev:ops:me:jobs:admin"})
	token, err := local.CreateToken(t.Context(), &workitem.TokenInput{
		Name: "ci", Subject: "ci", Tenant: "acme", Scopes: []string{"jobs:read", "jobs:write", "jobs:work", "jobs:tenant"}})
	if err != nil {
		t.Fatal(err)
	}
	ci := connect(t, client.Config{URL: r.URL, Token: token.Token})
	handle, err := ci.Submit(t.Context(), request(t, "one"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*client.Client{
		"development token": connect(t, client.Config{URL: r.URL, Token: "dev:acme:ci"}),
		"wrong secret":      connect(t, client.Config{URL: r.URL, Token: token.Token + "x"}),
		"no token":          connect(t, client.Config{URL: r.URL}),
	} {
		if _, err := c.Stats(t.Context(), &workitem.NoInput{}); !errors.Is(err, workitem.ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// One store has one server.
	if err := server.Run(t.Context(), cfg); !errors.Is(err, server.ErrRunning) {
		t.Errorf("a second server: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: server.StorePath(cfg.Data)}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("the store beside the server: %v", err)
	}

	metrics := fetch(t, r.URL+"/metrics")
	for _, want := range []string{
		`writ_submissions_total{result="new"} 1`, `writ_jobs{kind="repository.build",state="ready"} 1`,
		`writ_jobs{kind="repository.merge",state="ready"} 0`,
		`writ_claimable_jobs{kind="repository.build"} 1`, "writ_live_leases 0", "writ_store_writable 1", "writ_store_readable 1",
	} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(metrics, "writ_store_sync_seconds_count 0\n") || strings.Contains(metrics, "writ_store_batch_size_count 0\n") {
		t.Error("no transaction was measured")
	}

	claim, err := ci.ClaimNext(t.Context(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w"})
	if err != nil || !claim.Claimed {
		t.Fatalf("%+v, %v", claim, err)
	}

	// A stop ends a long poll with its normal answer, and the lease stays.
	wait := 60.0
	polled := make(chan error, 1)
	entered := fetchGauge(t, r.URL)
	go func() {
		a, err := ci.ClaimNext(t.Context(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w2", Wait: &wait})
		if err == nil && a.Claimed {
			err = errors.New("it was given a job")
		}
		polled <- err
	}()
	for fetchGauge(t, r.URL) == entered { // until the poll has arrived
		if t.Context().Err() != nil {
			t.Fatal("the long poll does not arrive")
		}
	}
	r.end(t)
	if err := <-polled; err != nil {
		t.Errorf("the long poll: %v", err)
	}

	r = run(t, cfg)
	defer r.end(t)
	ci = connect(t, client.Config{URL: r.URL, Token: token.Token})
	settled, err := ci.Commit(t.Context(), &workitem.CommitInput{JobID: handle.JobID, Claim: claim.Claim.Fence(), Outcome: "succeeded"})
	if err != nil || settled.Status != workitem.Committed {
		t.Errorf("the lease did not outlive the restart: %+v, %v", settled, err)
	}
	local = connect(t, client.Config{Socket: r.Socket, Token: "dev:ops:me:jobs:admin"})
	if _, err := local.RevokeToken(t.Context(), &workitem.RevokeInput{ID: token.ID}); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// fetchGauge gives how many requests run.
func fetchGauge(t *testing.T, url string) (n int) {
	t.Helper()
	for line := range strings.Lines(fetch(t, url+"/metrics")) {
		if _, err := fmt.Sscanf(line, "writ_http_requests_in_flight %d", &n); err == nil {
			return n
		}
	}
	t.Fatal("/metrics does not say how many requests run")
	return 0
}

func TestSettingsOfTheAuthorityThatAreRefused(t *testing.T) {
	t.Parallel()
	cfg := server.Config{Data: t.TempDir(), Listen: server.ListenNone, Work: workitem.Config{Quota: 5000}}
	if err := server.Run(t.Context(), cfg); !errors.Is(err, server.ErrUsage) || !strings.Contains(err.Error(), "max-tenant-in-flight must be 1 to 4096") {
		t.Errorf("%v", err)
	}
	cfg.Work.Quota = 0
	cfg.TLSCert, cfg.TLSKey = "missing.pem", "missing.pem"
	if err := server.Run(t.Context(), cfg); !errors.Is(err, server.ErrUsage) || !strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("%v", err)
	}
	cfg.TLSCert, cfg.TLSKey = "", ""
	cfg.JWT.URL = "http://example.org"
	if err := server.Run(t.Context(), cfg); !errors.Is(err, server.ErrUsage) || !strings.Contains(err.Error(), "https") {
		t.Errorf("%v", err)
	}
}
