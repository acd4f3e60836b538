package worker

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/writ-authority/writ/internal/proc"
)

func TestParseDirective(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 2048)
	for _, c := range []struct {
		line string
		want directive
		err  string // part of it; empty for none
	}{
		{line: "checkpoint built", want: directive{verb: sayCheckpoint, text: "checkpoint:built"}},
		{line: "  checkpoint   checkpoint:a.b_c:1-2 ", want: directive{verb: sayCheckpoint, text: "checkpoint:a.b_c:1-2"}},
		{line: "checkpoint Built", err: "1 to 240"},
		{line: "checkpoint", err: "1 to 240"},
		{line: "checkpoint " + long[:240], want: directive{verb: sayCheckpoint, text: "checkpoint:" + long[:240]}},
		{line: "checkpoint " + long[:241], err: "1 to 240"},
		{line: "result s3://b/c d", want: directive{verb: sayResult, text: "s3://b/c d"}},
		{line: "result " + long, want: directive{verb: sayResult, text: long}},
		{line: "result " + long + "a", err: "at most 2048"},
		{line: "result", err: "result takes a reference"},
		{line: "error log:1", want: directive{verb: sayError, text: "log:1"}},
		{line: "failure conflict_base_moved", want: directive{verb: sayFailure, text: "conflict_base_moved"}},
		{line: "failure a b", err: "one word"},
		{line: "failure a:b", err: "without a colon"},
		{line: "refuse invalid_git_ref", want: directive{verb: sayRefuse, text: "invalid_git_ref"}},
		{line: "refuse", err: "refuse takes one word"},
		{line: "defer 30", want: directive{verb: sayDefer, wait: 30 * time.Second}},
		{line: "defer 0.25 the lane is busy", want: directive{verb: sayDefer, wait: 250 * time.Millisecond, text: "the lane is busy"}},
		{line: "defer -1", err: "number of seconds"},
		{line: "defer NaN", err: "number of seconds"},
		{line: "defer inf", err: "number of seconds"},
		{line: "defer soon", err: "number of seconds"},
		{line: "defer 1 " + long[:513], err: "more than 512"},
		{line: "no-retry", want: directive{verb: sayNoRetry}},
		{line: "no-retry please", err: "takes nothing"},
		{line: "noretry", err: "begins with none of"},
		{line: "Result x", err: "begins with none of"},
		{line: "result a\x00b", err: "control character"},
		{line: "result a\xff", err: "not UTF-8"},
		{line: "result " + long + long, err: "longer than 4096"},
	} {
		got, err := parseDirective(c.line)
		if c.err != "" {
			if !errors.Is(err, ErrDirective) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.40q: %v, want an error with %q", c.line, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%.40q: %+v, %v, want %+v", c.line, got, err, c.want)
		}
	}
}

func FuzzParseDirective(f *testing.F) {
	for _, line := range []string{"checkpoint a", "result r x", "error e", "failure c", "refuse c", "defer 1.5 why not", "no-retry", " defer\t1", "x"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		d, err := parseDirective(line)
		if err != nil {
			if !errors.Is(err, ErrDirective) {
				t.Fatalf("%q: %v", line, err)
			}
			return
		}
		if !utf8.ValidString(d.text) || strings.ContainsAny(d.text, "\x00\t\r\n\x7f") || len(d.text) > maxRef || d.text != strings.TrimSpace(d.text) {
			t.Fatalf("%q gave %q", line, d.text)
		}
		if d.wait < 0 || d.wait > maxDelay || len(d.text) > maxReason && d.verb == sayDefer {
			t.Fatalf("%q gave %v and %q", line, d.wait, d.text)
		}
		if d.verb == sayCheckpoint && !checkpointForm.MatchString(d.text) {
			t.Fatalf("%q gave %q", line, d.text)
		}
		if (d.verb == sayFailure || d.verb == sayRefuse) && strings.ContainsAny(d.text, ": ") {
			t.Fatalf("%q gave %q", line, d.text)
		}
	})
}

func TestResultOfAnEnd(t *testing.T) {
	t.Parallel()
	failed := errors.New("not started")
	for _, c := range []struct {
		name  string
		said  []string
		ended proc.Result
		err   error
		want  Result
	}{
		{name: "ends well", want: Succeed("")},
		{name: "result", said: []string{"result a", "result b"}, want: Succeed("b")},
		{name: "no-retry alone", said: []string{"no-retry"}, want: Succeed("")},
		{name: "exit status", ended: proc.Result{ExitCode: 3}, want: Fail(CandidateFailure, "exit-status:3")},
		{name: "exit status and result", said: []string{"result a"}, ended: proc.Result{ExitCode: 1}, want: Fail(CandidateFailure, "exit-status:1")},
		{name: "exit status and words", said: []string{"error log:1", "failure conflict_base_moved", "no-retry"}, ended: proc.Result{ExitCode: 1},
			want: Result{Outcome: Failed, FailureClass: "conflict_base_moved", ErrorRef: "log:1", Final: true}},
		{name: "error with status 0", said: []string{"error log:1"}, want: Fail(CandidateFailure, "log:1")},
		{name: "failure with status 0", said: []string{"failure a"}, want: Fail("a", "")},
		{name: "refusal", said: []string{"failure a", "refuse b"}, want: Refuse("b", "")},
		{name: "refusal with status", said: []string{"refuse b"}, ended: proc.Result{ExitCode: 2}, want: Refuse("b", "exit-status:2")},
		{name: "failure after a refusal", said: []string{"refuse b", "failure a"}, want: Fail("a", "")},
		{name: "not found", ended: proc.Result{ExitCode: 127}, want: Fail(EnvironmentFailure, "exit-status:127")},
		{name: "signal", ended: proc.Result{ExitCode: -1, Signal: "SIGSEGV"}, want: Fail(EnvironmentFailure, "signal:SIGSEGV")},
		{name: "time limit", said: []string{"defer 1"}, ended: proc.Result{ExitCode: -1, Signal: "SIGTERM", TimedOut: true}, want: Fail(EnvironmentFailure, "writ-worker:time-limit")},
		{name: "not run", err: failed, ended: proc.Result{ExitCode: -1}, want: Fail(EnvironmentFailure, "writ-worker:not-run")},
		{name: "defer", said: []string{"failure a", "defer 2 busy"}, ended: proc.Result{ExitCode: 75}, want: Defer(2*time.Second, "busy")},
		{name: "error after defer", said: []string{"defer 2", "error e"}, want: Defer(2*time.Second, "")},
		{name: "failure after defer", said: []string{"defer 2", "failure a"}, want: Fail("a", "")},
		{name: "misspoken", said: []string{"result a", "reslut b"}, want: Fail(EnvironmentFailure, "writ-worker:protocol")},
		{name: "misspoken defer", said: []string{"defer 2", "defer x"}, want: Fail(EnvironmentFailure, "writ-worker:protocol")},
		{name: "empty lines", said: []string{"", " "}, want: Succeed("")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			talk := newConversation(func(Event) {})
			for _, line := range c.said {
				talk.hear(line)
			}
			if got := talk.result(c.ended, c.err); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	l := &lines{take: func(line []byte) { got = append(got, string(line)) }}
	long := strings.Repeat("x", maxLine)
	for _, part := range []string{"a", "b\ncd\r\n\n", long[:maxLine-1], "xy\n", long, "\nend"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	l.flush()
	l.flush()
	want := []string{"ab", "cd", "", long, "y", long, "end"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		for i := range got {
			t.Errorf("line %d: %.20q of %d bytes", i, got[i], len(got[i]))
		}
	}
}
