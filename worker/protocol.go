package worker

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/writ-authority/writ/internal/proc"
)

// Spoken begins a line of the protocol on standard output.
const Spoken = "::writ "

const (
	maxRef       = 2048 // bytes of a result or error reference
	maxReason    = 512  // bytes of the reason of a defer
	maxDirective = 4096 // bytes of a line of the protocol
	// maxDelay is the longest time that a command may ask to be deferred for.
	maxDelay = 365 * 24 * time.Hour
)

// notRun is where the error is if the command did not run.
const notRun = "writ-worker:not-run"

// verb is the first word of a line of the protocol.
type verb string

const (
	sayCheckpoint verb = "checkpoint"
	sayResult     verb = "result"
	sayError      verb = "error"
	sayFailure    verb = "failure"
	sayRefuse     verb = "refuse"
	sayDefer      verb = "defer"
	sayNoRetry    verb = "no-retry"
)

// directive is one line of the protocol.
type directive struct {
	verb verb
	text string        // the name, reference, class, code or reason
	wait time.Duration // of defer
}

// parseDirective reads a line without its end and without Spoken. Errors wrap
// ErrDirective; they have no part of the line.
func parseDirective(line string) (directive, error) {
	wrong := func(format string, args ...any) (directive, error) {
		return directive{}, fmt.Errorf("%w: %s", ErrDirective, fmt.Sprintf(format, args...))
	}
	if len(line) > maxDirective {
		return wrong("it is longer than %d bytes", maxDirective)
	}
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		return wrong("it has a control character, or is not UTF-8")
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	d := directive{verb: verb(word), text: strings.TrimSpace(rest)}
	switch d.verb {
	case sayCheckpoint:
		if !strings.HasPrefix(d.text, checkpointPrefix) {
			d.text = checkpointPrefix + d.text
		}
		if !checkpointForm.MatchString(d.text) {
			return wrong("checkpoint takes a name of 1 to 240 of a-z 0-9 _ . : -")
		}
	case sayResult, sayError:
		if d.text == "" || len(d.text) > maxRef || strings.Contains(d.text, "\t") {
			return wrong("%s takes a reference of at most %d bytes", d.verb, maxRef)
		}
	case sayFailure, sayRefuse:
		if d.text == "" || len(d.text) > maxRef || strings.ContainsAny(d.text, " \t:") {
			return wrong("%s takes one word without a colon", d.verb)
		}
	case sayDefer:
		seconds, reason, _ := strings.Cut(d.text, " ")
		n, err := strconv.ParseFloat(seconds, 64)
		if err != nil || !(n >= 0 && n <= maxDelay.Seconds()) {
			return wrong("defer takes a number of seconds, 0 to %v", maxDelay.Seconds())
		}
		d.wait, d.text = time.Duration(math.Round(n*1e6))*time.Microsecond, strings.TrimSpace(reason)
		if len(d.text) > maxReason || strings.Contains(d.text, "\t") {
			return wrong("the reason of defer has more than %d bytes, or a tab", maxReason)
		}
	case sayNoRetry:
		if d.text != "" {
			return wrong("no-retry takes nothing")
		}
	default:
		return wrong("it begins with none of checkpoint, result, error, failure, refuse, defer, no-retry")
	}
	return d, nil
}

// conversation is what a command has said about its job.
type conversation struct {
	tell func(Event)
	// checkpoints has the newest checkpoint that is not recorded yet. A command is
	// not kept waiting for a slow authority; names that were overtaken are left out.
	checkpoints chan string

	mu        sync.Mutex
	said      Result // Outcome is 0 until a line decides it
	noRetry   bool
	misspoken bool
}

func newConversation(tell func(Event)) *conversation {
	return &conversation{tell: tell, checkpoints: make(chan string, 1)}
}

// hear takes one line of the protocol.
func (c *conversation) hear(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	d, err := parseDirective(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.misspoken = true
		c.tell(Event{Kind: Misspoken, Err: err})
		return
	}
	switch d.verb {
	case sayCheckpoint:
		select {
		case <-c.checkpoints:
		default:
		}
		c.checkpoints <- d.text
	case sayResult:
		c.said.ResultRef = d.text
	case sayError:
		c.said.ErrorRef = d.text
		if c.said.Outcome != Deferred {
			c.said.Outcome = Failed
		}
	case sayFailure:
		c.said.Outcome, c.said.FailureClass, c.said.RefusalCode = Failed, d.text, ""
	case sayRefuse:
		c.said.Outcome, c.said.FailureClass, c.said.RefusalCode = Failed, "", d.text
	case sayDefer:
		c.said.Outcome, c.said.Delay, c.said.Reason = Deferred, d.wait, d.text
	case sayNoRetry:
		c.noRetry = true
	}
}

// record writes checkpoints down until the command has nothing more to say. A
// checkpoint that the authority refuses is told as a fault of the protocol.
func (c *conversation) record(ctx context.Context, job *Job) {
	for name := range c.checkpoints {
		if err := job.Checkpoint(ctx, name); err != nil && ctx.Err() == nil {
			c.tell(Event{Kind: Misspoken, Checkpoint: name, Err: err})
		}
	}
}

// result is what becomes of an attempt: of what the command said and of how it
// ended.
func (c *conversation) result(ended proc.Result, err error) Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.said
	how := "" // an ErrorRef, unless the command gave one
	class := EnvironmentFailure
	switch {
	case c.misspoken:
		r.Outcome, r.RefusalCode, how = Failed, "", "writ-worker:protocol"
		r.FailureClass = EnvironmentFailure
	case err != nil:
		how = notRun
	case ended.TimedOut:
		how = "writ-worker:time-limit"
	case ended.Signal != "":
		how = "signal:" + ended.Signal
	case ended.ExitCode != 0:
		how = "exit-status:" + strconv.Itoa(ended.ExitCode)
		if ended.ExitCode != 126 && ended.ExitCode != 127 { // a shell's: can't be run, not found
			class = CandidateFailure
		}
	default:
		class = CandidateFailure // for an exit status of 0 with an error
		if r.Outcome == 0 {
			return Result{Outcome: Succeeded, ResultRef: r.ResultRef}
		}
	}
	if r.Outcome == Deferred && err == nil && !ended.TimedOut {
		return Result{Outcome: Deferred, Delay: r.Delay, Reason: r.Reason}
	}
	if r.ErrorRef == "" {
		r.ErrorRef = how
	}
	if r.FailureClass == "" && r.RefusalCode == "" {
		r.FailureClass = class
	}
	return Result{Outcome: Failed, ErrorRef: r.ErrorRef, FailureClass: r.FailureClass, RefusalCode: r.RefusalCode,
		Final: c.noRetry || r.RefusalCode != ""}
}
