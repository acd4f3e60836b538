package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-authority/writ/internal/proc"
)

// Command is a Handler that runs a command for every job.
//
// The command gets a process group of its own and the job's view as JSON on
// standard input. Its environment has WRIT_JOB_ID, WRIT_WORK_ITEM_ID, WRIT_ATTEMPT,
// WRIT_FENCING_TOKEN, WRIT_OPERATION, WRIT_REPOSITORY_ID, WRIT_BASE_REF,
// WRIT_BASE_SHA, WRIT_CHECKPOINT (empty before the first), WRIT_PROTOCOL_FD (3), and
// TRACEPARENT if the submission had a trace. It speaks to the worker with lines on
// file descriptor 3, or with lines on standard output that begin with Spoken.
//
// Exit status 0 is a success unless a line said otherwise; every other end is a
// failure. When its context ends, or after Timeout, the group gets SIGTERM, and
// SIGKILL when Grace is over or the lease has run out, whichever is first. Nothing
// of the command is left when Handle returns. If this program dies meanwhile, a
// guard, which is a process of its own, sends SIGKILL to the group.
type Command struct {
	// Args is the program and its arguments, without a shell.
	Args []string
	// Dir is the working directory; "" is the one of this process.
	Dir string
	// Env is the environment to add to; nil is the one of this process without
	// WRIT_TOKEN, which is the worker's and not the job's.
	Env []string
	// Timeout ends an attempt; 0 is no limit.
	Timeout time.Duration
	// Grace is between SIGTERM and SIGKILL.
	Grace time.Duration
	// Log, if not nil, receives what the command prints, line by line and each line
	// with the job before it. Errors of it are ignored.
	Log io.Writer

	mu sync.Mutex // guards Log: jobs run at the same time

	once     sync.Once
	guard    *proc.Guard
	guardErr error
}

// Handle runs the command for one job.
func (c *Command) Handle(ctx context.Context, job *Job) Result {
	view, err := json.Marshal(job.View)
	if err != nil {
		return Fail("internal_error", "writ-worker:view")
	}
	talk := newConversation(job.tell)
	var recording sync.WaitGroup
	recording.Go(func() { talk.record(ctx, job) }) // Handle waits for it
	prefix := logPrefix(job)
	out := &lines{take: func(line []byte) {
		if said, ok := bytes.CutPrefix(line, []byte(Spoken)); ok {
			talk.hear(string(said))
			return
		}
		c.log(prefix, line)
	}}
	errs := &lines{take: func(line []byte) { c.log(prefix, line) }}
	side := &lines{take: func(line []byte) { talk.hear(string(line)) }}
	c.once.Do(func() { c.guard, c.guardErr = proc.NewGuard() })
	if c.guardErr != nil {
		c.log(prefix, []byte(c.guardErr.Error()))
		close(talk.checkpoints)
		return Fail(EnvironmentFailure, notRun)
	}
	ended, err := proc.Run(ctx, proc.Command{
		Guard: c.guard,
		Args:  c.Args, Dir: c.Dir, Env: c.environment(job), Input: view,
		Stdout: out, Stderr: errs, Side: side,
		Timeout: c.Timeout, Grace: c.Grace, Hurry: job.held.overdue,
	})
	for _, l := range [...]*lines{out, errs, side} {
		l.flush()
	}
	close(talk.checkpoints)
	recording.Wait()
	if err != nil && ctx.Err() == nil {
		c.log(prefix, []byte(err.Error()))
	}
	if errors.Is(err, ctx.Err()) && ctx.Err() != nil {
		return Fail(EnvironmentFailure, "writ-worker:stopped")
	}
	return talk.result(ended, err)
}

// logPrefix names a job in front of its lines.
func logPrefix(job *Job) string {
	id := job.Claim.JobID[strings.IndexByte(job.Claim.JobID, ':')+1:]
	return fmt.Sprintf("[%s %.8s/%d] ", job.View.Operation, id, job.Claim.Attempt)
}

// log passes one line on. Whoever reads the log has no say in what becomes of jobs.
func (c *Command) log(prefix string, line []byte) {
	if c.Log == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.Log, "%s%s\n", prefix, line)
}

// environment is what the command of a job inherits.
func (c *Command) environment(job *Job) []string {
	base := c.Env
	if base == nil {
		base = os.Environ()
	}
	env := make([]string, 0, len(base)+11)
	for _, kv := range base {
		// A trace that this process has is not the one of the job.
		if c.Env == nil && strings.HasPrefix(kv, "WRIT_TOKEN=") || strings.HasPrefix(kv, "TRACEPARENT=") {
			continue
		}
		env = append(env, kv)
	}
	checkpoint := ""
	if job.View.Checkpoint != nil {
		checkpoint = *job.View.Checkpoint
	}
	env = append(env,
		"WRIT_JOB_ID="+job.Claim.JobID,
		"WRIT_WORK_ITEM_ID="+job.Claim.WorkItemID,
		"WRIT_ATTEMPT="+strconv.Itoa(job.Claim.Attempt),
		"WRIT_FENCING_TOKEN="+strconv.FormatInt(job.Claim.FencingToken, 10),
		"WRIT_OPERATION="+job.View.Operation,
		"WRIT_REPOSITORY_ID="+job.View.RepositoryID,
		"WRIT_BASE_REF="+job.View.BaseRef,
		"WRIT_BASE_SHA="+job.View.BaseSHA,
		"WRIT_CHECKPOINT="+checkpoint,
		"WRIT_PROTOCOL_FD=3",
	)
	if job.Trace != "" {
		env = append(env, "TRACEPARENT="+job.Trace)
	}
	return env
}

// maxLine bounds a line that is passed on whole, in bytes. The rest of a longer one
// is passed on as another line.
const maxLine = 16 << 10

// lines cuts what is written to it into lines.
type lines struct {
	take func(line []byte) // without its end; line is only valid during the call
	rest []byte            // of a line that has not ended
}

// Write takes the next bytes. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part, more := p, []byte(nil)
		if end >= 0 {
			part, more = p[:end], p[end+1:]
		}
		if room := maxLine - len(l.rest); len(part) > room {
			part, more, end = p[:room], p[room:], room
		}
		l.rest = append(l.rest, part...)
		if p = more; end >= 0 {
			l.pass()
		}
	}
	return n, nil
}

// flush takes what is left when nothing more comes.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.pass()
	}
}

func (l *lines) pass() {
	l.take(bytes.TrimSuffix(l.rest, []byte("\r")))
	l.rest = l.rest[:0]
}
