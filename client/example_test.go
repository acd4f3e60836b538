package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/writ-authority/writ/client"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

// A worker claims a job, works, and commits. The claim has an id, so that the
// client may repeat it: the server answers with the same lease.
func Example() {
	url, stop := exampleServer()
	defer stop()

	ctx := context.Background()
	jobs, err := client.New(client.Config{URL: url, Token: "writ_example"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = jobs.Close() }() // ends idle connections only

	ttl := 60.0
	answer, err := jobs.ClaimNext(ctx, &workitem.ClaimNextInput{
		Kind: "repository.build", Worker: "worker-1", LeaseTTL: &ttl, ClaimRequestID: "worker-1/42",
	})
	if err != nil {
		log.Fatal(err)
	}
	if !answer.Claimed {
		fmt.Println("nothing to do:", answer.Reason)
		return
	}
	result := "result:build-42"
	settled, err := jobs.Commit(ctx, &workitem.CommitInput{
		JobID: answer.Claim.JobID, Claim: answer.Claim.Fence(), Outcome: "succeeded", ResultRef: &result,
	})
	switch {
	case errors.Is(err, workitem.ErrStaleFence):
		fmt.Println("somebody else has the lease now")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(settled.Status)
	}
	// Output: committed
}

// exampleServer answers every claim with the same job.
func exampleServer() (url string, stop func()) {
	fake := &exampleJobs{answer: resttest.Sample[workitem.ClaimAnswer]()}
	fake.answer.Claim.JobID = "rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25"
	server := httptest.NewServer(rest.New(rest.Config{Authenticate: func(*http.Request) (operation.Jobs, workitem.Principal, error) {
		return fake, workitem.Principal{}, nil
	}}))
	return server.URL, server.Close
}

type exampleJobs struct {
	operation.Jobs
	answer *workitem.ClaimAnswer
}

func (j *exampleJobs) ClaimNext(context.Context, *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	return j.answer, nil
}

func (j *exampleJobs) Commit(context.Context, *workitem.CommitInput) (*workitem.Settled, error) {
	return &workitem.Settled{Status: workitem.Committed}, nil
}
