package worker

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/workitem"
)

// refusedResult is where the error is if the authority refuses the handler's result
// as malformed.
const refusedResult = "writ-worker:result-refused"

// settle tells the authority how the attempt ended. A result that it refuses as
// malformed becomes a failure, so that the job does not wait for its lease.
func (l *lease) settle(ctx context.Context, result *Result) (*workitem.Settled, error) {
	if result.Outcome < Succeeded || result.Outcome > Deferred {
		*result = Fail("internal_error", "writ-worker:no-outcome")
	}
	settled, err := l.send(ctx, result)
	if codeOf(err) == workitem.InvalidRequest {
		*result = Fail(EnvironmentFailure, refusedResult)
		settled, err = l.send(ctx, result)
	}
	return settled, err
}

// send sends the result until it is answered. A failure that will be tried again
// moves the fence: its repetition is then refused, if only the answer was lost.
func (l *lease) send(ctx context.Context, result *Result) (settled *workitem.Settled, err error) {
	unanswered := false
	err = l.insist(ctx, func(ctx context.Context) (err error) {
		defer func() { unanswered = unanswered || err != nil && isTransient(err) }()
		if result.Outcome == Deferred {
			delay := result.Delay.Seconds()
			settled, err = l.jobs.Defer(ctx, &workitem.DeferInput{JobID: l.jobID, Claim: l.fence, Delay: &delay, Reason: result.Reason})
			return err
		}
		in := &workitem.CommitInput{JobID: l.jobID, Claim: l.fence, Outcome: "succeeded", ResultRef: optional(result.ResultRef)}
		if result.Outcome == Failed {
			retryable := !result.Final
			in = &workitem.CommitInput{JobID: l.jobID, Claim: l.fence, Outcome: "failed", Retryable: &retryable,
				ErrorRef: optional(result.ErrorRef), FailureClass: optional(result.FailureClass), RefusalCode: optional(result.RefusalCode)}
		}
		settled, err = l.jobs.Commit(ctx, in)
		return err
	})
	if err != nil && unanswered {
		err = fmt.Errorf("%w; the result was sent before without an answer, and may have been taken", err)
	}
	return settled, err
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
