package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/worker"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

func (a *app) worker() *cobra.Command {
	var program string
	var wait time.Duration
	cfg := worker.Config{}
	run := &worker.Command{}
	c := &cobra.Command{
		Use:   "worker --kind KIND --exec CMD [ARG...]",
		Short: "Run a command for every job of a kind",
		Long: "Worker claims jobs of one kind and runs a command for each, as long as it holds the job's\n" +
			"lease. The command finds the job as JSON on standard input and in WRIT_ variables; exit status\n" +
			"0 is a success. It says more with lines on file descriptor 3, or with lines of its output that\n" +
			"begin with \"" + worker.Spoken + "\":\n\n" +
			"  checkpoint NAME          how far it has come; the next attempt finds it in WRIT_CHECKPOINT\n" +
			"  result REF, error REF    where the result or the error is\n" +
			"  failure CLASS            why it fails\n" +
			"  refuse CODE              the job cannot be done by anybody; it is not tried again\n" +
			"  defer SECONDS [REASON]   not now; the attempt does not count\n" +
			"  no-retry                 a failure is final\n\n" +
			"The first interrupt ends claiming and lets running commands finish. The second one ends them\n" +
			"and gives their jobs back. docs/workers.md says what happens when things go wrong.",
		Example: "  writ worker --kind repository.build --exec ./build.sh\n" +
			"  writ worker --kind repository.validation --jobs 4 --lease 2m --exec make -- -C checkout test",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case cfg.Kind == "":
				return &usageError{errors.New("--kind is required, such as repository.build; `writ job kinds` lists all")}
			case program == "":
				return &usageError{errors.New("--exec is required: the command that does the work")}
			}
			if _, err := workitem.ParseKind(cfg.Kind); err != nil {
				return err
			}
			if cfg.Parallel == 0 { // which for worker.Run is the default
				return &usageError{errors.New("--jobs: expected at least 1")}
			}
			// Each job that is claimed for a command that is not there loses an attempt.
			if _, err := exec.LookPath(program); err != nil {
				return &usageError{fmt.Errorf("--exec: %v", err)}
			}
			run.Args = append([]string{program}, args...)
			if cfg.Wait = wait; wait == 0 {
				cfg.Wait = -1
			}
			log := &workerLog{app: a}
			run.Log = &printableLines{to: log}
			cfg.Handler, cfg.Events = run, log.event
			return a.work(c.Context(), cfg, log)
		},
	}
	a.connectionFlags(c)
	f := c.Flags()
	f.StringVar(&cfg.Kind, "kind", "", "kind of the jobs, such as repository.build")
	f.StringVar(&program, "exec", "", "the command; what follows the flags are its arguments")
	f.BoolVar(&cfg.Once, "once", false, "end after one job, or when there was none for as long as --wait")
	f.IntVar(&cfg.Parallel, "jobs", 1, "how many jobs to work on at the same time")
	f.IntVar(&cfg.Max, "max", 0, "end after so many jobs (default: never)")
	f.DurationVar(&cfg.Lease, "lease", time.Minute, "until a lease that is not renewed runs out, at most 24h")
	f.DurationVar(&wait, "wait", 30*time.Second, "how long one claim waits for a job, at most 60s")
	f.StringVar(&cfg.Worker, "worker", "", "name of this worker in leases (default: HOST:PID)")
	f.StringVar(&cfg.ResourceClass, "resource-class", "", "only jobs of this resource class")
	f.StringVar(&cfg.FairnessGroup, "fairness-group", "", "only jobs of this fairness group, in strict order")
	f.DurationVar(&run.Timeout, "timeout", 0, "end a command that runs longer (default: never)")
	f.DurationVar(&run.Grace, "grace", 10*time.Second, "between SIGTERM and SIGKILL")
	f.SetInterspersed(false)
	return c
}

// work runs a worker until it is interrupted. The end of ctx is the first
// interrupt, so that one which comes before the worker has begun counts too.
func (a *app) work(ctx context.Context, cfg worker.Config, log *workerLog) error {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(interrupts)
	// When whoever reads the events or the log goes away, commands go on.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := make(chan struct{})
	cfg.Stop = stop
	go func() { // ends with working
		select {
		case <-ctx.Done():
		case <-working.Done():
			return
		}
		close(stop)
		// The signal that has ended ctx may be here too.
		select {
		case <-interrupts:
		case <-time.After(echoTime):
		}
		select {
		case <-interrupts:
			log.say("interrupted again: the running commands are ended and their jobs given back")
			end()
			signal.Stop(interrupts) // a third one ends the process
		case <-working.Done():
		}
	}()
	jobs, err := a.openJobs(working, false)
	if err != nil {
		return err
	}
	if jobs.held {
		// Others must get at the store while a command runs.
		if err := jobs.close(); err != nil {
			return err
		}
		jobs = &authorityOfJobs{Jobs: &byTurns{app: a}, close: func() error { return nil }}
	}
	err = worker.Run(working, jobs, cfg)
	if errors.Is(err, worker.ErrConfig) {
		err = &usageError{err}
	}
	return errors.Join(err, jobs.close())
}

// echoTime is how long after the end of the context the signal that has ended it
// may arrive once more.
const echoTime = 200 * time.Millisecond

// byTurns is the store of a data directory without a server, opened for each call
// of a worker.
type byTurns struct {
	operation.Jobs // nil: a worker makes no other calls
	app            *app
}

func (b *byTurns) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (out *workitem.ClaimAnswer, err error) {
	err = b.app.follow(ctx, time.Duration(*in.Wait*float64(time.Second)), maxWait, func(jobs operation.Jobs, wait float64) (bool, error) {
		once := *in
		once.Wait = &wait
		var err error
		out, err = jobs.ClaimNext(ctx, &once)
		return err == nil && out.Claimed, err
	})
	return out, whenBusy(err)
}

func (b *byTurns) Heartbeat(ctx context.Context, in *workitem.HeartbeatInput) (out *workitem.Renewal, err error) {
	err = b.app.withJobs(ctx, func(jobs operation.Jobs) (err error) { out, err = jobs.Heartbeat(ctx, in); return err })
	return out, whenBusy(err)
}

func (b *byTurns) Checkpoint(ctx context.Context, in *workitem.CheckpointInput) (out *workitem.Checkpointed, err error) {
	err = b.app.withJobs(ctx, func(jobs operation.Jobs) (err error) { out, err = jobs.Checkpoint(ctx, in); return err })
	return out, whenBusy(err)
}

func (b *byTurns) Commit(ctx context.Context, in *workitem.CommitInput) (out *workitem.Settled, err error) {
	err = b.app.withJobs(ctx, func(jobs operation.Jobs) (err error) { out, err = jobs.Commit(ctx, in); return err })
	return out, whenBusy(err)
}

func (b *byTurns) Defer(ctx context.Context, in *workitem.DeferInput) (out *workitem.Settled, err error) {
	err = b.app.withJobs(ctx, func(jobs operation.Jobs) (err error) { out, err = jobs.Defer(ctx, in); return err })
	return out, whenBusy(err)
}

// whenBusy tells a worker that a call which met others at the store may be made
// again.
func whenBusy(err error) error {
	if errors.Is(err, sqlite.ErrLocked) {
		return &workitem.Error{Code: workitem.AuthorityUnavailable, Message: err.Error(), Err: err}
	}
	return err
}

// workerEvent is one line of `writ worker --json`.
type workerEvent struct {
	Schema       string `json:"schema"`
	At           string `json:"at"`
	Event        string `json:"event"`
	JobID        string `json:"job_id,omitempty"`
	Attempt      int    `json:"attempt,omitempty"`
	FencingToken int64  `json:"fencing_token,omitempty"`
	Checkpoint   string `json:"checkpoint,omitempty"`
	Status       string `json:"status,omitempty"`
	Outcome      string `json:"outcome,omitempty"`
	ResultRef    string `json:"result_ref,omitempty"`
	ErrorRef     string `json:"error_ref,omitempty"`
	FailureClass string `json:"failure_class,omitempty"`
	RefusalCode  string `json:"refusal_code,omitempty"`
	Reason       string `json:"reason,omitempty"`
	ElapsedMS    int64  `json:"elapsed_ms,omitempty"`
}

// outcomes are the names of worker.Outcome.
var outcomes = map[worker.Outcome]string{worker.Succeeded: "succeeded", worker.Failed: "failed", worker.Deferred: "deferred"}

// workerLog tells events: lines of JSON to standard output, or sentences to standard
// error, where the output of the commands goes too.
type workerLog struct {
	app *app
	mu  sync.Mutex
}

// Write passes whole lines on to standard error.
func (l *workerLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.app.err.Write(p)
}

func (l *workerLog) say(format string, args ...any) {
	fmt.Fprintf(l, "writ: "+format+"\n", args...)
}

func (l *workerLog) event(e worker.Event) {
	if l.app.json {
		l.line(e)
		return
	}
	reason := ""
	if e.Err != nil {
		reason = line(e.Err.Error())
	}
	job := fmt.Sprintf("%s attempt %d", e.JobID, e.Attempt)
	switch e.Kind {
	case worker.Idle:
		l.say("there is nothing to claim")
	case worker.Unavailable:
		l.say("the claim was not answered, and is repeated: %s", reason)
	case worker.Claimed:
		l.say("%s begins", job)
	case worker.Checkpointed:
		l.say("%s: %s is recorded", job, e.Checkpoint)
	case worker.Misspoken:
		l.say("%s: %s", job, reason)
	case worker.Settled:
		l.say("%s %s: %s in %v", job, outcomes[e.Result.Outcome], settledText(e), e.Elapsed.Round(time.Millisecond))
	case worker.Lost:
		l.say("%s is lost: %s", job, reason)
	case worker.Stopping:
		l.say("nothing more is claimed; running commands finish")
	}
}

// settledText says what became of a result.
func settledText(e worker.Event) string {
	text := e.Status
	for _, detail := range [...]string{e.Result.ResultRef, e.Result.FailureClass, e.Result.RefusalCode, e.Result.ErrorRef, e.Result.Reason} {
		if detail != "" {
			text += ", " + line(detail)
		}
	}
	return text
}

// line writes an event as one line of JSON.
func (l *workerLog) line(e worker.Event) {
	doc := workerEvent{Schema: "writ.worker-event.v1", At: e.Time.UTC().Format(time.RFC3339), Event: string(e.Kind), JobID: e.JobID,
		Attempt: e.Attempt, FencingToken: e.FencingToken, Checkpoint: e.Checkpoint, Status: e.Status, Outcome: outcomes[e.Result.Outcome],
		ResultRef: e.Result.ResultRef, ErrorRef: e.Result.ErrorRef, FailureClass: e.Result.FailureClass, RefusalCode: e.Result.RefusalCode,
		Reason: e.Result.Reason, ElapsedMS: e.Elapsed.Milliseconds()}
	if e.Err != nil {
		doc.Reason = e.Err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	encoder := json.NewEncoder(l.app.out) // which keeps the error of a write
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(doc)
}

// printableLines passes the output of commands on without what could steer a
// terminal.
type printableLines struct{ to io.Writer }

func (p *printableLines) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.to, printable(string(bytes.ToValidUTF8(b, []byte("\uFFFD"))))); err != nil {
		return 0, err
	}
	return len(b), nil
}
