package worker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/writ-authority/writ/worker"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// A function works on the next build. The authority is one in this process; a
// *client.Client for one elsewhere is used in the same way.
func ExampleRun() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "work.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	authority, err := workitem.New(store, workitem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer authority.Close()
	jobs := authority.As(workitem.Principal{Subject: "ada", Tenant: "team", Owner: "ada", Scopes: workitem.ScopeAdmin})
	if _, err := jobs.Submit(ctx, &workitem.SubmitInput{Request: []byte(`{"request_id":"r","idempotency_key":"k","operation":"build",
		"repository_id":"shop","base_ref":"main","base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"owner_id":"ada","session_id":"s","tenant_id":"team"}`)}); err != nil {
		fmt.Println(err)
		return
	}

	err = worker.Run(ctx, jobs, worker.Config{
		Kind: "repository.build",
		Once: true,
		Handler: worker.HandlerFunc(func(ctx context.Context, job *worker.Job) worker.Result {
			fmt.Println("building", job.View.RepositoryID, "at", job.View.BaseRef)
			if err := job.Checkpoint(ctx, "compiled"); err != nil {
				return worker.Fail(worker.EnvironmentFailure, "")
			}
			return worker.Succeed("artifact:42")
		}),
		Events: func(e worker.Event) {
			if e.Kind == worker.Settled {
				fmt.Println(e.Status, e.Result.ResultRef)
			}
		},
	})
	fmt.Println(err)
	// Output:
	// building shop at main
	// committed artifact:42
	// <nil>
}
