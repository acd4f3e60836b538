package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/writ-authority/writ/workitem"
)

// TestLastEpoch plants the epoch before the last one, which no test would reach by
// raising.
func TestLastEpoch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "work.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		sqlitex.ExecuteTransient(s.conn, "INSERT INTO meta (name, value) VALUES ('epoch', ?)", &sqlitex.ExecOptions{Args: []any{workitem.LastEpoch - 1}}),
		s.Close())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	a, err := workitem.New(s, workitem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	jobs := a.As(workitem.Principal{Subject: "s", Tenant: "t", Owner: "o", Scopes: workitem.ScopeAdmin})
	request := []byte(`{"request_id":"r","idempotency_key":"k","operation":"build","repository_id":"r","base_ref":"main",` +
		`"base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","owner_id":"o","session_id":"s","tenant_id":"t"}`)
	h, err := jobs.Submit(t.Context(), &workitem.SubmitInput{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	raised, err := jobs.RaiseEpoch(t.Context(), &workitem.NoInput{})
	if err != nil || raised.Epoch != workitem.LastEpoch {
		t.Fatal(raised, err)
	}
	claim := func() *workitem.Claim {
		t.Helper()
		a, err := jobs.Claim(t.Context(), &workitem.ClaimInput{JobID: h.JobID, Worker: "w"})
		if err != nil || !a.Claimed {
			t.Fatal(a, err)
		}
		return a.Claim
	}
	c := claim()
	if c.LeaseEpoch != workitem.LastEpoch*workitem.EpochStep+1 || int64(float64(c.LeaseEpoch)) != c.LeaseEpoch || c.LeaseEpoch >= 1<<53 {
		t.Errorf("the fence is %d", c.LeaseEpoch)
	}
	if _, err := jobs.RaiseEpoch(t.Context(), &workitem.NoInput{}); !errors.Is(err, workitem.ErrLastEpoch) {
		t.Errorf("the last epoch is raised: %v", err)
	}
	minute := time.Minute.Seconds()
	if _, err := jobs.Heartbeat(t.Context(), &workitem.HeartbeatInput{JobID: h.JobID, Claim: c.Fence(), LeaseTTL: &minute}); err != nil {
		t.Errorf("the refused raise has ended a lease: %v", err)
	}
}
