package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/server"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// localCalls opens the store of a new data directory for each call.
func localCalls(t *testing.T) *jobsOfCalls {
	t.Helper()
	return &jobsOfCalls{app: &app{data: t.TempDir(), at: connection{tenant: "t", owner: "o"}, err: io.Discard}}
}

// others opens the store as another command would.
func (j *jobsOfCalls) others(ctx context.Context) (*authorityOfJobs, error) {
	return openAuthority(ctx, jobsPlace{data: j.app.data}, true, workitem.Principal{Subject: "o", Tenant: "t", Owner: "o", Scopes: workitem.ScopeAdmin})
}

func requestOf(key string) []byte {
	return fmt.Appendf(nil, `{"request_id":%[1]q,"idempotency_key":%[1]q,"operation":"build","repository_id":"r","base_ref":"main",`+
		`"base_sha":"%040d","owner_id":"o","session_id":"s","tenant_id":"t"}`, key, 1)
}

func TestCallsThatOverlapShareTheStore(t *testing.T) {
	t.Parallel()
	j := localCalls(t)
	first, endFirst, err := j.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, endSecond, err := j.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, err := first.Submit(t.Context(), &workitem.SubmitInput{Request: requestOf("a")})
	if err != nil {
		t.Fatal(err)
	}
	if err := endFirst(); err != nil {
		t.Fatal(err)
	}
	if v, err := second.Get(t.Context(), &workitem.GetInput{JobID: h.JobID}); err != nil || v.State != "ready" {
		t.Errorf("the other call reads %+v, %v", v, err)
	}
	if _, err := j.others(t.Context()); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("while a call runs the store opens with %v", err)
	}
	if err := endSecond(); err != nil {
		t.Fatal(err)
	}
	jobs, err := j.others(t.Context())
	if err != nil {
		t.Fatalf("after the last call: %v", err)
	}
	if err := jobs.close(); err != nil {
		t.Error(err)
	}
}

// TestWaitingCallsLeaveTheStore: what a call waits for is done by another command.
func TestWaitingCallsLeaveTheStore(t *testing.T) {
	t.Parallel()
	j := localCalls(t)
	claimed := make(chan error, 1)
	go func() {
		jobs, end, err := j.open(context.Background())
		if err == nil {
			var got *workitem.ClaimAnswer
			got, err = jobs.ClaimNext(context.Background(), &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w", Wait: ptr(60.0)})
			if err == nil && !got.Claimed {
				err = errors.New("nothing was claimed: " + got.Reason)
			}
			err = errors.Join(err, end())
		}
		claimed <- err
	}()
	for {
		jobs, err := j.others(t.Context())
		if errors.Is(err, sqlite.ErrLocked) {
			continue // it has waited a while itself
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = jobs.Submit(t.Context(), &workitem.SubmitInput{Request: requestOf("a")})
		if err := errors.Join(err, jobs.close()); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := <-claimed; err != nil {
		t.Error(err)
	}
}

func TestWaitingCallsEnd(t *testing.T) {
	t.Parallel()
	j := localCalls(t)
	jobs, end, err := j.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w", Wait: ptr(0.3)}
	begun := time.Now()
	got, err := jobs.ClaimNext(t.Context(), in)
	if took := time.Since(begun); err != nil || got.Claimed || took < 300*time.Millisecond {
		t.Errorf("after %s: %+v, %v", took, got, err)
	}
	in.Wait = ptr(61.0)
	if _, err := jobs.ClaimNext(t.Context(), in); !errors.Is(err, workitem.ErrInvalidRequest) {
		t.Errorf("a wait beyond the bound: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	in.Wait = ptr(60.0)
	if _, err := jobs.ClaimNext(ctx, in); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is broken off: %v", err)
	}
	if err := end(); err != nil {
		t.Errorf("its end: %v", err)
	}
}

func TestStoreThatOthersHaveIsUnavailable(t *testing.T) {
	t.Parallel()
	j := localCalls(t)
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: server.StorePath(j.app.data)})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := j.open(t.Context()); !errors.Is(err, workitem.ErrAuthorityUnavailable) {
		t.Errorf("a call gets %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, end, err := j.open(t.Context())
	if err == nil {
		err = end()
	}
	if err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestWrongUseOfMCP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--server", "http://127.0.0.1:1", "--data", dir}, exitUsage, "exclude one another"},
		{[]string{"--data", dir, "--token", "x"}, exitUsage, "--token is for a server"},
		{[]string{"--server", "ftp://x"}, exitUsage, "http://HOST"},
		{[]string{"--data", "/dev/null/x"}, exitUsage, "choose a real directory"},
		{[]string{"--data", dir, "more"}, exitUsage, "more"},
	} {
		var out, said strings.Builder
		code := Main(append([]string{"mcp"}, c.args...), strings.NewReader(""), &out, &said)
		if code != c.code || !strings.Contains(said.String(), c.says) || out.Len() > 0 {
			t.Errorf("%q: %d, %s%s", c.args, code, out.String(), said.String())
		}
	}
}
