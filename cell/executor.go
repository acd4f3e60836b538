package cell

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/writ-authority/writ/nox"
)

// Executor performs acts. It is asked once for each attempt, after the attempt was
// recorded, and never again for the same one.
type Executor interface {
	// Do performs an act, and returns soon after ctx is done. An error says why it is
	// not known what became of the act, whatever the Result is.
	Do(ctx context.Context, r Request) (Result, error)
}

// Finder is an Executor that can prove what became of an attempt that was recorded by
// an earlier process and has no outcome. It must not perform the act.
type Finder interface {
	// Find returns OutcomeUnknown, or an error that says why, unless there is a proof.
	Find(ctx context.Context, r Request) (Result, error)
}

// Chooser is an Executor that leaves some requests to others. It is asked before an
// attempt is recorded, so that such an act goes on waiting.
type Chooser interface {
	// Performs reports whether Do is for a request, which has no attempt yet. A request
	// that nobody could perform is for Do, which says so.
	Performs(r Request) bool
}

// Request is an act whose attempt is recorded.
type Request struct {
	Cell, Operation Particle
	// Attempt is different for every act that was ever attempted. It is the key by
	// which others can recognise a repeated effect.
	Attempt   Particle
	Tag       uint64 // as in rune.TagHost
	Arguments nox.Noun
}

// Outcome is what an Executor knows about an attempt.
type Outcome uint8

// The outcomes of attempts.
const (
	// OutcomeUnknown leaves the attempt to a person, or to a Finder.
	OutcomeUnknown Outcome = iota
	// OutcomeSucceeded is an act that was performed.
	OutcomeSucceeded
	// OutcomeFailed is an act that certainly had no effect, or one whose effect is
	// known to be a failure.
	OutcomeFailed
)

func (o Outcome) String() string {
	switch o {
	case OutcomeUnknown:
		return "unknown"
	case OutcomeSucceeded:
		return "succeeded"
	case OutcomeFailed:
		return "failed"
	}
	return "invalid"
}

// MaxReason is the length of a Result's reason in bytes.
const MaxReason = 4096

// Result is what came of an attempt.
type Result struct {
	Outcome Outcome
	Value   nox.Noun // of OutcomeSucceeded
	Reason  string   // of OutcomeFailed, for a person; it becomes part of the cell's history
}

// Failure is a definite failure. The reason is cut to what can be recorded.
func Failure(format string, args ...any) Result {
	return Result{Outcome: OutcomeFailed, Reason: recordable(fmt.Sprintf(format, args...))}
}

// recordable is a reason of at most MaxReason bytes of UTF-8.
func recordable(reason string) string {
	reason = strings.ToValidUTF8(reason, "\ufffd")
	if len(reason) <= MaxReason {
		return reason
	}
	cut := MaxReason
	for !utf8.RuneStart(reason[cut]) {
		cut--
	}
	return reason[:cut]
}
