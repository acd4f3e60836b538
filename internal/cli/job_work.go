package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// leaseFlag adds --lease to a command that takes or renews a lease.
func leaseFlag(c *cobra.Command, lease *time.Duration) {
	c.Flags().DurationVar(lease, "lease", time.Hour, "until the lease runs out, at most 24h")
}

// claimFlags are what both ways to claim share.
type claimFlags struct {
	worker, request string
	lease           time.Duration
}

func (f *claimFlags) add(c *cobra.Command) {
	leaseFlag(c, &f.lease)
	c.Flags().StringVar(&f.worker, "worker", "", "who works; the lease names it (default: USER@HOST)")
	c.Flags().StringVar(&f.request, "request", "", "id of this claim, at most 128 bytes; a claim repeated with it gets the same lease (default: a random one)")
}

// requestID is the id of the claim. There always is one: so a call whose answer was
// lost on the way can be made again.
func (f *claimFlags) requestID() string {
	if f.request == "" {
		f.request = "cli:" + rand.Text()
	}
	return f.request
}

// workerName is who works if nothing else is said.
func (f *claimFlags) workerName() (string, error) {
	if f.worker != "" {
		return f.worker, nil
	}
	user, err := userName()
	if err != nil {
		return "", err
	}
	host, err := os.Hostname()
	return user + "@" + host, err
}

func (a *app) jobClaim() *cobra.Command {
	var f claimFlags
	var held bool
	c := &cobra.Command{
		Use:   "claim JOB",
		Short: "Claim one job",
		Long: "Claim takes a lease of one job. It exits with 1 and says why if the job cannot be claimed\n" +
			"now. Keep what it prints with --json: the commands of a worker want it as --claim.\n\n" +
			"A worker that has lost its claim, in a crash for instance, gets that of a lease which it still\n" +
			"holds with --held and the --worker that it had.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			worker, err := f.workerName()
			if err != nil {
				return err
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				if held {
					claim, err := jobs.CurrentClaim(c.Context(), &workitem.CurrentClaimInput{JobID: args[0], Worker: worker})
					if err != nil {
						return err
					}
					return a.claimed(&workitem.ClaimAnswer{Claimed: true, Reason: workitem.ReasonClaimed, Claim: claim})
				}
				got, err := jobs.Claim(c.Context(), &workitem.ClaimInput{
					JobID: args[0], Worker: worker, LeaseTTL: seconds(c, "lease", f.lease), ClaimRequestID: f.requestID(),
				})
				if err != nil {
					return err
				}
				return a.claimed(got)
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&held, "held", false, "take no lease, show the claim of the one that the worker holds")
	return c
}

func (a *app) jobClaimNext() *cobra.Command {
	var f claimFlags
	var in workitem.ClaimNextInput
	var wait time.Duration
	c := &cobra.Command{
		Use:   "claim-next --kind KIND",
		Short: "Claim the next job of a kind",
		Long: "Claim-next takes a lease of the most urgent job of one kind that can be claimed. It exits with\n" +
			"1 and says why if there is none. Keep what it prints with --json: the commands of a worker\n" +
			"want it as --claim.",
		Example: "  writ job claim-next --kind repository.build --wait 10m --json > claim.json\n" +
			"  writ job heartbeat --claim claim.json\n  writ job commit succeeded --claim claim.json --result artifact:42",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if in.Kind == "" {
				return &usageError{errors.New("--kind is required, such as repository.build; `writ job kinds` lists all")}
			}
			var err error
			if in.Worker, err = f.workerName(); err != nil {
				return err
			}
			in.LeaseTTL, in.ClaimRequestID = seconds(c, "lease", f.lease), f.requestID()
			p := a.progress()
			defer p.clear()
			if wait > 0 {
				p.step("waiting for a job")
			}
			var got *workitem.ClaimAnswer
			err = a.follow(c.Context(), wait, maxWait, func(jobs operation.Jobs, wait float64) (bool, error) {
				in.Wait = nil
				if wait > 0 {
					in.Wait = &wait
				}
				var err error
				got, err = jobs.ClaimNext(c.Context(), &in)
				return err == nil && got.Claimed, err
			})
			p.clear()
			if err != nil {
				return err
			}
			return a.claimed(got)
		},
	}
	f.add(c)
	c.Flags().StringVar(&in.Kind, "kind", "", "kind of the job, such as repository.build")
	c.Flags().StringVar(&in.ResourceClass, "resource-class", "", "only jobs of this resource class")
	c.Flags().StringVar(&in.FairnessGroup, "fairness-group", "", "only jobs of this fairness group, in strict order")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait for a job")
	completes(c, "kind", kindNames())
	return c
}

// unclaimed says for people why a claim was not granted.
var unclaimed = map[string]string{
	workitem.ReasonEmpty:          "nothing to claim",
	workitem.ReasonSubmitted:      "it waits for its parents",
	workitem.ReasonLeased:         "somebody works on it",
	workitem.ReasonBackoff:        "it waits before the next attempt",
	workitem.ReasonDeadlinePassed: "its deadline has passed",
	workitem.ReasonConsentDenied:  "it needs consent",
	workitem.ReasonTerminal:       "it has ended",
	workitem.ReasonExhausted:      "no attempt is left",
	workitem.ReasonTenantQuota:    "the tenant has as many live leases as it may",
}

// claimed prints the answer to a claim and turns an empty one into the exit code.
func (a *app) claimed(got *workitem.ClaimAnswer) error {
	err := a.answer("writ.job-claim.v1", got, func() {
		c := got.Claim
		if c == nil {
			why := unclaimed[got.Reason]
			if why == "" {
				why = got.Reason
			}
			fmt.Fprintf(a.out, "not claimed: %s\n", why)
			return
		}
		fmt.Fprintf(a.out, "%s  %s  claimed by %s\n", a.style.bold(c.JobID), c.Kind, line(c.LeaseOwner))
		table(a.out, [][]string{
			{"  attempt", fmt.Sprintf("%d of %d", c.Attempt, c.MaxAttempts)},
			{"  fence", fmt.Sprint(c.FencingToken)},
			{"  runs out", ago(secondsTime(c.LeaseExpiresAt), time.Now())},
		})
	})
	if err == nil && !got.Claimed {
		err = errBlocked
	}
	return err
}

// claimFlag adds --claim to a command of a worker.
func claimFlag(c *cobra.Command, claim *string) {
	c.Flags().StringVar(claim, "claim", "", "what the claim printed with --json: a file, - for standard input, or the JSON itself")
}

// maxClaim bounds a file with a claim, in bytes: also one with the view of a job.
const maxClaim = 1 << 20

// readClaim reads a claim: the tuple itself, or the document that a claim printed.
func (a *app) readClaim(from string) (id string, fence workitem.Fence, err error) {
	wrong := func(format string, args ...any) (string, workitem.Fence, error) {
		return "", fence, &usageError{fmt.Errorf("--claim: "+format, args...)}
	}
	var b []byte
	switch {
	case from == "":
		return wrong("expected the file that `writ job claim --json` or `writ job claim-next --json` has filled")
	case from[0] == '{':
		b = []byte(from)
	case from == "-":
		b, err = io.ReadAll(io.LimitReader(a.in, maxClaim))
	default:
		b, err = readAtMost(from, maxClaim)
	}
	if err != nil {
		return "", fence, err
	}
	var document struct {
		workitem.Fence
		Claim  json.RawMessage `json:"claim"`
		Reason string          `json:"reason"`
	}
	if err := json.Unmarshal(b, &document); err != nil {
		return wrong("it is no claim: %v", err)
	}
	fence = document.Fence
	if document.Claim != nil {
		if bytes.Equal(document.Claim, []byte("null")) {
			return wrong("nothing was claimed there: %s", document.Reason)
		}
		if err := json.Unmarshal(document.Claim, &fence); err != nil {
			return wrong("it is no claim: %v", err)
		}
	}
	if fence.WorkItemID == "" {
		return wrong("it is no claim: work_item_id is missing")
	}
	return fence.WorkItemID, fence, nil
}

// readAtMost reads the first n bytes of a file.
func readAtMost(file string, n int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

func (a *app) jobHeartbeat() *cobra.Command {
	var claim string
	var lease time.Duration
	c := &cobra.Command{
		Use:   "heartbeat --claim FILE",
		Short: "Renew a lease",
		Long: "Heartbeat renews the lease of a claim: it runs out --lease from now, also if that is sooner\n" +
			"than before. A refusal with the code stale_fence_duplicate_effect means that somebody else has\n" +
			"the job or may have it: stop, and commit nothing.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			id, fence, err := a.readClaim(claim)
			if err != nil {
				return err
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Heartbeat(c.Context(), &workitem.HeartbeatInput{JobID: id, Claim: fence, LeaseTTL: seconds(c, "lease", lease)})
				if err != nil {
					return err
				}
				return a.answer("writ.job-renewal.v1", r, func() {
					fmt.Fprintf(a.out, "%s  the lease runs out %s\n", a.style.bold(publicID(id)), ago(secondsTime(r.LeaseExpiresAt), time.Now()))
				})
			})
		},
	}
	claimFlag(c, &claim)
	leaseFlag(c, &lease)
	return c
}

func (a *app) jobCheckpoint() *cobra.Command {
	var claim string
	var lease time.Duration
	c := &cobra.Command{
		Use:     "checkpoint CHECKPOINT --claim FILE",
		Short:   "Record how far a job has come, and renew its lease",
		Long:    "Checkpoint records a name for how far the job has come: checkpoint: and 1 to 240 of a-z 0-9 _ . : -.\nIt survives the attempt; the worker of the next one finds it in the job.",
		Example: "  writ job checkpoint checkpoint:compiled --claim claim.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, fence, err := a.readClaim(claim)
			if err != nil {
				return err
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Checkpoint(c.Context(), &workitem.CheckpointInput{
					JobID: id, Claim: fence, Checkpoint: args[0], LeaseTTL: seconds(c, "lease", lease),
				})
				if err != nil {
					return err
				}
				return a.answer("writ.job-checkpointed.v1", r, func() {
					fmt.Fprintf(a.out, "%s  %s is recorded; the lease runs out %s\n",
						a.style.bold(publicID(id)), args[0], ago(secondsTime(r.LeaseExpiresAt), time.Now()))
				})
			})
		},
	}
	claimFlag(c, &claim)
	leaseFlag(c, &lease)
	return c
}

// settled says for people what a commit or a defer has done.
var settled = map[string]string{
	workitem.Committed:      "committed",
	workitem.RetryScheduled: "it will be tried again",
	workitem.DeadLettered:   "no attempt is left; it is a dead letter",
	workitem.Noop:           "it had ended before; nothing was changed",
	workitem.Deferred:       "given back",
}

func (a *app) showSettled(id string, s *workitem.Settled) error {
	return a.answer("writ.job-settled.v1", s, func() {
		text := settled[s.Status]
		if text == "" {
			text = s.Status
		}
		fmt.Fprintf(a.out, "%s  %s\n", a.style.bold(publicID(id)), text)
	})
}

func (a *app) jobCommit() *cobra.Command {
	var claim, result, failure, class, code string
	var final bool
	c := &cobra.Command{
		Use:   "commit succeeded|failed|cancelled --claim FILE",
		Short: "End an attempt",
		Long: "Commit ends the attempt of a claim. A success releases the jobs that wait for it. A failure is\n" +
			"tried again after a delay as long as attempts are left, unless --final says that it is no use.\n" +
			"A commit of a job that has ended before changes nothing and says so.",
		Example: "  writ job commit succeeded --claim claim.json --result artifact:42\n" +
			"  writ job commit failed --claim claim.json --failure-class validation_candidate_failure --final",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"succeeded", "failed", "cancelled"},
		RunE: func(c *cobra.Command, args []string) error {
			id, fence, err := a.readClaim(claim)
			if err != nil {
				return err
			}
			in := &workitem.CommitInput{
				JobID: id, Claim: fence, Outcome: args[0], ResultRef: set(c, "result", result), ErrorRef: set(c, "error", failure),
				FailureClass: set(c, "failure-class", class), RefusalCode: set(c, "refusal-code", code),
			}
			if final {
				retryable := false
				in.Retryable = &retryable
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				s, err := jobs.Commit(c.Context(), in)
				if err != nil {
					return err
				}
				return a.showSettled(id, s)
			})
		},
	}
	claimFlag(c, &claim)
	f := c.Flags()
	f.StringVar(&result, "result", "", "where the result is, at most 2048 bytes")
	f.StringVar(&failure, "error", "", "where the error is, at most 2048 bytes")
	f.StringVar(&class, "failure-class", "", "why it failed, such as validation_candidate_failure")
	f.StringVar(&code, "refusal-code", "", "why it was refused, such as invalid_git_ref")
	f.BoolVar(&final, "final", false, "a failure is not to be tried again")
	return c
}

func (a *app) jobDefer() *cobra.Command {
	var claim, until, reason string
	var delay time.Duration
	c := &cobra.Command{
		Use:     "defer --claim FILE --delay DURATION",
		Short:   "Give a lease back without using the attempt up",
		Example: "  writ job defer --claim claim.json --delay 5m --reason 'the host is busy'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("delay") == (until != "") {
				return &usageError{errors.New("expected --delay or --until, one of them")}
			}
			id, fence, err := a.readClaim(claim)
			if err != nil {
				return err
			}
			in := &workitem.DeferInput{JobID: id, Claim: fence, Delay: seconds(c, "delay", delay), Reason: reason}
			if until != "" {
				in.NextRetryAt = &until
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				s, err := jobs.Defer(c.Context(), in)
				if err != nil {
					return err
				}
				return a.showSettled(id, s)
			})
		},
	}
	claimFlag(c, &claim)
	c.Flags().DurationVar(&delay, "delay", 0, "how long nobody can claim it")
	c.Flags().StringVar(&until, "until", "", "until when nobody can claim it, such as 2026-12-02T15:04:05Z")
	c.Flags().StringVar(&reason, "reason", "", "why, at most 512 bytes")
	return c
}
