package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/writ-authority/writ/internal/proc"
)

// State is what an Event tells.
type State string

// The states. StateWaiting is for callers that wait for somebody else's run.
const (
	StateStarted  State = "started"
	StateOutput   State = "output"
	StateFinished State = "finished"
	StateWaiting  State = "waiting"
)

// Event is one step of a run.
type Event struct {
	Suite    string
	State    State
	Elapsed  time.Duration
	LastLine string  // last line of output, without control characters
	Result   *Result // once finished
}

// RunOptions say what to run and where.
type RunOptions struct {
	Suites []Planned
	Dir    string   // the checkout
	LogDir string   // gets one file a suite, ID.log
	Env    []string // added to the environment, as NAME=VALUE
	// Progress is called for every step, never by two goroutines at once; nil
	// for nobody.
	Progress func(Event)
}

const (
	grace      = 5 * time.Second
	maxLog     = 64 << 20
	tailLines  = 20
	tailBytes  = 16 << 10
	lineLength = 120
)

// Run runs suites one after another, each in a process group of its own, and
// returns their results. A suite that fails is a result, not an error. When ctx
// ends, Run returns its error with the results so far; nothing is left running.
func Run(ctx context.Context, o RunOptions) (Results, error) {
	list := slices.Clone(o.Suites)
	slices.SortFunc(list, func(a, b Planned) int { return strings.Compare(a.ID, b.ID) })
	out := Results{}
	for _, s := range list {
		r, err := runOne(ctx, o, s)
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

func runOne(ctx context.Context, o RunOptions, s Planned) (Result, error) {
	r := Result{ID: s.ID, Kind: s.Kind, Blocking: s.Blocking, StartedAt: time.Now().UTC(), Log: filepath.Join(o.LogDir, s.ID+".log")}
	f, err := os.OpenFile(r.Log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return r, err
	}
	log := &logWriter{f: f, suite: s.ID, began: time.Now(), progress: o.Progress}
	log.tell(Event{Suite: s.ID, State: StateStarted})
	got, runErr := proc.Run(ctx, proc.Command{
		Args: s.Run.Args, Shell: s.Run.Shell, Dir: o.Dir, Env: environment(s, o.Env),
		Stdout: log, Timeout: s.Timeout, Grace: grace,
	})
	if runErr != nil && ctx.Err() == nil {
		fmt.Fprintf(log, "%v\n", runErr)
	}
	if got.TimedOut {
		fmt.Fprintf(log, "\nstopped at the time limit of %s\n", s.Timeout)
	}
	if err := errors.Join(log.err, f.Close()); err != nil {
		return r, fmt.Errorf("%s: %w", r.Log, err)
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	r.ExitCode, r.Signal, r.TimedOut, r.Elapsed = got.ExitCode, got.Signal, got.TimedOut, got.Elapsed
	r.Tail = log.lines()
	r.Status = judge(got, runErr)
	log.tell(Event{Suite: s.ID, State: StateFinished, Elapsed: r.Elapsed, Result: &r})
	return r, nil
}

// judge tells a failure from a suite that could not be run to its end. A shell
// says 126 and 127 for a command that it cannot run.
func judge(r proc.Result, err error) Status {
	switch {
	case err != nil || r.TimedOut || r.ExitCode == 126 || r.ExitCode == 127:
		return StatusError
	case r.ExitCode == 0:
		return StatusPass
	}
	return StatusFail
}

// environment is the parent's without Git's repository variables, which would
// point the suite's Git at another repository.
func environment(s Planned, extra []string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GIT_") {
			env = append(env, e)
		}
	}
	env = append(env, "CI=true", "WRIT=1", "WRIT_SUITE="+s.ID)
	env = append(env, extra...)
	for _, k := range sortedKeys(s.Env) {
		env = append(env, k+"="+s.Env[k])
	}
	return env
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// logWriter writes a suite's output to its log, keeps the end of it, and tells
// the caller about it.
type logWriter struct {
	mu       sync.Mutex
	f        *os.File
	suite    string
	began    time.Time
	written  int64
	cut      bool
	tail     []byte
	err      error
	progress func(Event)
}

// Write never fails the suite: a log that cannot be written is reported once the
// suite has ended.
func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	if room := maxLog - l.written; int64(len(p)) <= room {
		l.put(p)
	} else if !l.cut {
		l.put(p[:room])
		l.cut = true
		l.put([]byte("\n[the log is cut here; the suite wrote more]\n"))
	}
	l.tail = append(l.tail, p...)
	if len(l.tail) > 2*tailBytes {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-tailBytes:]...)
	}
	last := lastLine(l.tail)
	l.mu.Unlock()
	if last != "" {
		l.tell(Event{Suite: l.suite, State: StateOutput, Elapsed: time.Since(l.began), LastLine: last})
	}
	return len(p), nil
}

func (l *logWriter) put(p []byte) {
	n, err := l.f.Write(p)
	l.written += int64(n)
	if err != nil && l.err == nil {
		l.err = err
	}
}

func (l *logWriter) tell(e Event) {
	if l.progress != nil {
		l.progress(e)
	}
}

// lines are the last lines of the output.
func (l *logWriter) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for raw := range bytes.SplitSeq(l.tail, []byte{'\n'}) {
		if text := plainLine(raw); strings.TrimSpace(text) != "" {
			list = append(list, text)
		}
	}
	return list[max(0, len(list)-tailLines):]
}

func lastLine(b []byte) string {
	b = bytes.TrimRight(b, "\r\n\t ")
	if i := bytes.LastIndexAny(b, "\r\n"); i >= 0 {
		b = b[i+1:]
	}
	return plainLine(b)
}

// plainLine is one line of output without escape sequences and control characters, at
// most lineLength runes.
func plainLine(b []byte) string {
	var out strings.Builder
	escape, n := 0, 0
	for _, r := range strings.ToValidUTF8(string(b), "\uFFFD") {
		switch {
		case escape == 0 && r == 0x1b:
			escape = 1
		case escape == 1 && (r == '[' || r == ']'):
			escape = 2
		case escape == 1:
			escape = 0
		case escape == 2:
			if r >= '@' && r <= '~' || r == 0x07 {
				escape = 0
			}
		case r == '\t':
			out.WriteByte(' ')
			n++
		case unicode.IsControl(r):
		case n < lineLength:
			out.WriteRune(r)
			n++
		}
	}
	return strings.TrimRight(out.String(), " ")
}
