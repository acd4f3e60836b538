package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	c := open(t, workitem.Config{})
	ctx := context.Background()
	h, err := c.Submit(ctx, &workitem.SubmitInput{Request: request(1)})
	if err != nil {
		t.Fatal(err)
	}
	if h.State != "ready" || h.Deduplicated {
		t.Fatalf("submitted as %+v", h)
	}
	again, err := c.Submit(ctx, &workitem.SubmitInput{Request: request(1)})
	if err != nil || !again.Deduplicated || again.JobID != h.JobID {
		t.Fatalf("submitted again as %+v, %v", again, err)
	}
	answer, err := c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w"})
	if err != nil || !answer.Claimed || answer.Job.State != "leased" {
		t.Fatalf("claimed as %+v, %v", answer, err)
	}
	if _, err := c.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: h.JobID, Claim: answer.Claim.Fence()}); err != nil {
		t.Fatal(err)
	}
	settled, err := c.Commit(ctx, &workitem.CommitInput{JobID: h.JobID, Claim: answer.Claim.Fence(), Outcome: "succeeded"})
	if err != nil || settled.Status != workitem.Committed {
		t.Fatalf("settled as %+v, %v", settled, err)
	}
	page, err := c.List(ctx, &workitem.ListInput{State: []string{"succeeded", "ready"}, Operation: "build"})
	if err != nil || len(page.Items) != 1 || !page.Exhausted {
		t.Fatalf("listed %+v, %v", page, err)
	}
	stats, err := c.Stats(ctx, nil)
	if err != nil || stats.Kinds[0].States["succeeded"] != 1 || stats.Claimable != 0 {
		t.Fatalf("stats %+v, %v", stats, err)
	}
	history, err := c.History(ctx, &workitem.JobInput{JobID: h.JobID})
	if err != nil || len(history.Items) != 4 {
		t.Fatalf("history %+v, %v", history, err)
	}
}

func TestSecondOwnerIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "work.db")
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(context.Background(), sqlite.Options{Path: path}); !errors.Is(err, sqlite.ErrLocked) {
		t.Fatalf("a second open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(context.Background(), sqlite.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
