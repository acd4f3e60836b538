package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

func (a *app) mcp() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Offer the jobs as tools to an agent, over standard input and output",
		Long: "Mcp speaks the Model Context Protocol on standard input and output, for agents that start their\n" +
			"servers as commands. It works on the jobs of a data directory, through the server that has it\n" +
			"open if there is one, or on those of the server that --server or the database that --jobs-db\n" +
			"names. It ends with its input.\n" +
			"docs/mcp.md has the tools, and what to write into the settings of agents.",
		Example: "  writ mcp --data /srv/writ\n" +
			"  WRIT_TOKEN=… writ mcp --server https://writ.example.com",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			jobs := &jobsOfCalls{app: a, keep: a.serverURL() != "" || a.database() != ""}
			defer func() { err = errors.Join(err, jobs.end()) }()
			// Wrong settings are said before an agent gets a server that refuses everything.
			if _, release, err := jobs.open(c.Context()); err != nil {
				return err
			} else if err := release(); err != nil {
				return err
			}
			owner, err := a.taskOwner()
			if err != nil {
				return err
			}
			server := mcp.New(mcp.Config{Open: jobs.open, Owner: func(context.Context) string { return owner },
				Version: version(), Logger: slog.New(slog.NewTextHandler(a.err, nil))})
			return server.Run(c.Context(), &mcp.Lines{In: a.in, Out: a.out})
		},
	}
	a.connectionFlags(c)
	return c
}

// taskOwner is the owner whose jobs are tasks. Of a server's token nobody here knows
// the owner.
func (a *app) taskOwner() (string, error) {
	if a.serverURL() != "" && !strings.HasPrefix(a.bearer(), "dev:") {
		return "", nil
	}
	_, owner, err := a.caller()
	return owner, err
}

// jobsOfCalls opens the work item authority for calls that may overlap, and closes it
// when none runs, so that others can use a store that this process opened. A server or
// a database is kept, since it has others beside this process.
type jobsOfCalls struct {
	app  *app
	keep bool

	mu    sync.Mutex
	shown *authorityOfJobs // nil while it is not open
	uses  int
}

// end closes what is kept. No call runs any more.
func (j *jobsOfCalls) end() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.shown == nil || j.uses > 0 {
		return nil
	}
	return j.shown.close()
}

// open gives the verbs for one call.
func (j *jobsOfCalls) open(ctx context.Context) (operation.Jobs, func() error, error) {
	c := &waitingCall{all: j}
	if err := c.acquire(ctx); err != nil {
		return nil, nil, err
	}
	return c, c.release, nil
}

// waitingCall has the verbs of one call. Those that wait ask a store of this process
// again and again, and let others have it meanwhile.
type waitingCall struct {
	operation.Jobs // nil between acquire and release
	held           bool
	all            *jobsOfCalls
}

func (c *waitingCall) acquire(ctx context.Context) error {
	j := c.all
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.shown == nil {
		shown, err := j.app.openJobs(ctx, true)
		switch {
		case errors.Is(err, sqlite.ErrLocked):
			return &workitem.Error{Code: workitem.AuthorityUnavailable, Err: err,
				Message: "another command has the store of jobs open; repeat the call"}
		case err != nil:
			return err
		}
		j.shown = shown
	}
	j.uses++
	c.Jobs, c.held = j.shown.Jobs, j.shown.held
	return nil
}

func (c *waitingCall) release() error {
	if c.Jobs == nil {
		return nil
	}
	c.Jobs = nil
	j := c.all
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.uses--; j.uses > 0 || j.keep {
		return nil
	}
	shown := j.shown
	j.shown = nil
	return shown.close()
}

// wait asks until ask is done or the time is over. ask is told how long the authority
// may take.
func (c *waitingCall) wait(ctx context.Context, seconds *float64, ask func(wait *float64) (done bool, err error)) error {
	if seconds == nil || !c.held || !(*seconds >= 0 && *seconds <= maxWait.Seconds()) {
		_, err := ask(seconds) // which also refuses what is out of bounds
		return err
	}
	deadline := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		left := max(0, time.Until(deadline))
		now := 0.0
		if !c.held {
			now = left.Seconds()
		}
		if done, err := ask(&now); err != nil || done || left == 0 || !c.held {
			return err
		}
		if err := c.release(); err != nil {
			return err
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if err := c.acquire(ctx); err != nil {
			return err
		}
	}
}

// Get reads a job, and may wait for its end.
func (c *waitingCall) Get(ctx context.Context, in *workitem.GetInput) (out *workitem.View, err error) {
	err = c.wait(ctx, in.Wait, func(wait *float64) (bool, error) {
		one := *in
		one.Wait = wait
		out, err = c.Jobs.Get(ctx, &one)
		return err == nil && terminal(out.State), err
	})
	return out, err
}

// ClaimNext claims a job, and may wait for one.
func (c *waitingCall) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (out *workitem.ClaimAnswer, err error) {
	err = c.wait(ctx, in.Wait, func(wait *float64) (bool, error) {
		one := *in
		one.Wait = wait
		out, err = c.Jobs.ClaimNext(ctx, &one)
		return err == nil && out.Claimed, err
	})
	return out, err
}
