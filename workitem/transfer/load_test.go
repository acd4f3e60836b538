package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/transfer"
)

// gated is a writer that tells of its first bytes and then waits to be let on.
type gated struct {
	bytes.Buffer
	begun chan struct{}
	on    <-chan struct{}
	once  sync.Once
}

func (g *gated) Write(b []byte) (int, error) {
	g.once.Do(func() {
		close(g.begun)
		<-g.on
	})
	return g.Buffer.Write(b)
}

// An export that is made while others submit, claim and commit is one state: every
// job that waits has a parent that has not succeeded, and every other has none. Those
// who held a lease before go on where it is imported.
func TestExportUnderLoad(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, from, to place) {
		store := must(from.open(t.Context()))(t)
		a := authority(t, store)
		c := a.As(admin("tenant-a"))
		h := populate(t, a)
		must(c.Submit(t.Context(), request("tenant-a", "again", "build")))(t)

		ctx, stop := context.WithCancel(t.Context())
		var steps atomic.Int64
		let := make(chan struct{})
		const workers, before, during = 8, 300, 150
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := step(ctx, c, fmt.Sprintf("load-%d-%d", w, n)); err != nil && ctx.Err() == nil {
						t.Error(err)
						stop()
						return
					}
					steps.Add(1)
				}
			})
		}
		defer all.Wait()
		defer stop()
		wait := func(n int64) {
			for steps.Load() < n && ctx.Err() == nil {
				must(c.Stats(t.Context(), &workitem.NoInput{}))(t)
			}
		}
		wait(before)
		out := &gated{begun: make(chan struct{}), on: let}
		exported := make(chan error, 1)
		go func() {
			_, err := transfer.Export(t.Context(), store, out, transfer.Options{})
			exported <- err
		}()
		select { // nothing is written before it has its state
		case <-out.begun:
		case err := <-exported:
			t.Fatalf("the export has ended at once: %v", err)
		}
		wait(steps.Load() + during)
		close(let)
		if err := <-exported; err != nil {
			t.Fatal(err)
		}
		stop()
		all.Wait()
		closed(t, a)

		if err := imported(t.Context(), to, out.Bytes()); err != nil {
			t.Fatal(err)
		}
		moved, found := watched(t, must(to.open(t.Context()))(t))
		defer closed(t, moved)
		if n := found.Load(); n != 0 {
			t.Errorf("the state is not one: %d jobs had to be mended", n)
		}
		goOn(t, moved, h)
	})
}

// step submits a parent and a child, and commits the parent.
func step(ctx context.Context, c *workitem.Caller, key string) error {
	parent, err := c.Submit(ctx, request("tenant-a", key, "workspace.bump"))
	if err != nil {
		return err
	}
	_, err = c.Submit(ctx, request("tenant-a", key+"-child", "workspace.bump", fmt.Sprintf(`,"dependencies":[%q]`, parent.WorkItemID)))
	if err != nil {
		return err
	}
	answer, err := c.Claim(ctx, &workitem.ClaimInput{JobID: parent.JobID, Worker: "w-" + key})
	if err != nil {
		return err
	}
	if !answer.Claimed {
		return errors.New("not claimed: " + answer.Reason)
	}
	if _, err = c.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: parent.JobID, Claim: answer.Claim.Fence()}); err != nil {
		return err
	}
	_, err = c.Commit(ctx, &workitem.CommitInput{JobID: parent.JobID, Claim: answer.Claim.Fence(), Outcome: "succeeded"})
	return err
}
