package worker

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/writ-authority/writ/workitem"
)

// Handler works on claimed jobs. Handle is called from as many goroutines as
// Config.Parallel says.
type Handler interface {
	// Handle works on one job and says how that ended. When ctx ends it must stop
	// all effects and return soon: the cause is ErrLeaseLost, after which nothing is
	// committed whatever it returns, or that of the context given to Run, after which
	// a failure gives the job back without using the attempt up.
	Handle(ctx context.Context, job *Job) Result
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) Result

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job) Result { return f(ctx, job) }

// Job is a claimed job.
type Job struct {
	// View is the job as it was when it was claimed.
	View *workitem.View
	// Claim has the lease. Its FencingToken grows with every lease of the job: a
	// store that keeps the largest one it has seen can refuse what an older attempt
	// still sends.
	Claim *workitem.Claim
	// Trace is the W3C trace context of the submission, or empty.
	Trace string

	held *lease
	tell func(Event)
}

// checkpointPrefix begins every checkpoint.
const checkpointPrefix = "checkpoint:"

// checkpointForm is what the authority takes.
var checkpointForm = regexp.MustCompile(`^checkpoint:[a-z0-9_.:-]{1,240}$`)

// Checkpoint records how far the work has come; the next attempt finds it in its
// View. The name is 1 to 240 of a-z 0-9 _ . : -, with or without the prefix
// "checkpoint:". It renews the lease, and is repeated while the authority does not
// answer. Errors wrap ErrLeaseLost or are *workitem.Error.
func (j *Job) Checkpoint(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, checkpointPrefix) {
		name = checkpointPrefix + name
	}
	err := j.held.insist(ctx, func(ctx context.Context) error {
		sent := j.held.now()
		_, err := j.held.jobs.Checkpoint(ctx, &workitem.CheckpointInput{
			JobID: j.held.jobID, Claim: j.held.fence, Checkpoint: name, LeaseTTL: j.held.seconds()})
		if err == nil {
			j.held.renewed(sent)
		}
		return err
	})
	if err == nil {
		j.tell(Event{Kind: Checkpointed, Checkpoint: name})
	}
	return err
}

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes. A Result without one counts as a failure.
const (
	Succeeded Outcome = iota + 1
	Failed
	Deferred // given back without using the attempt up
)

// Result is what a Handler says about its attempt. Succeed, Fail, Refuse and Defer
// make one.
type Result struct {
	Outcome Outcome
	// ResultRef says where the result is, for Succeeded. At most 2048 bytes.
	ResultRef string
	// ErrorRef says where the error is, for Failed. At most 2048 bytes.
	ErrorRef string
	// FailureClass or RefusalCode says why it failed. Not both.
	FailureClass, RefusalCode string
	// Final says that a failure must not be tried again.
	Final bool
	// Delay is for how long a deferred job is not claimable.
	Delay time.Duration
	// Reason says why it was deferred. At most 512 bytes.
	Reason string
}

// The failure classes that this package gives of itself.
const (
	EnvironmentFailure = "worker_environment_failure"   // the worker could not run it
	CandidateFailure   = "validation_candidate_failure" // it ran, and did not succeed
)

// Succeed is a success; resultRef may be empty.
func Succeed(resultRef string) Result { return Result{Outcome: Succeeded, ResultRef: resultRef} }

// Fail is a failure that may be tried again; errorRef may be empty.
func Fail(class, errorRef string) Result {
	return Result{Outcome: Failed, FailureClass: class, ErrorRef: errorRef}
}

// Refuse is a refusal of the job itself, which is not tried again.
func Refuse(code, errorRef string) Result {
	return Result{Outcome: Failed, RefusalCode: code, ErrorRef: errorRef, Final: true}
}

// Defer gives the job back for at least delay, without using the attempt up.
func Defer(delay time.Duration, reason string) Result {
	return Result{Outcome: Deferred, Delay: delay, Reason: reason}
}
