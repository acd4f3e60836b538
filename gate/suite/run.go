package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/writ-authority/writ/internal/proc"
)

const (
	// grace is what the processes of a suite get to end by themselves after
	// SIGTERM.
	grace = 5 * time.Second
	// tick is the time between two events of a running suite.
	tick = 250 * time.Millisecond
)

// RunOptions say what to run and where.
type RunOptions struct {
	Suites []Planned
	// Dir is the checkout in which every suite starts. A suite may change it;
	// the next one finds what it left.
	Dir string
	// LogDir is an existing folder, to which each suite's output goes as <id>.log.
	LogDir string
	// Env is added to the environment of this process, as "NAME=value".
	Env []string
	// Progress, if set, is told what happens. It is never called concurrently
	// and not after Run has returned; while it runs, no further event is made.
	Progress func(Event)
	// Now is the clock for Result.StartedAt; nil is time.Now.
	Now func() time.Time
}

// State says what an Event is about.
type State string

// The states of a suite.
const (
	StateStarted  State = "started"
	StateOutput   State = "output" // four times a second while it runs
	StateFinished State = "finished"
)

// Event tells how a suite is getting on.
type Event struct {
	Suite   string // its id
	Number  int    // its place in the order of running, from 1
	Count   int    // how many suites run
	State   State
	Elapsed time.Duration
	// LastLine is the last line of its output that isn't blank, without control
	// characters and escape sequences, at most 120 runes.
	LastLine string
	Result   *Result // of a finished one
}

// Run runs the suites one after another in the order of their ids, each in a
// process group of its own, of which nothing is left when it returns. A failed
// suite doesn't stop the others.
//
// A suite sees the environment of this process without its GIT_* and WRIT_*
// variables, then CI=true, then opt.Env, then its own env, then WRIT=1 and
// WRIT_SUITE=<id>.
//
// If ctx ends, Run returns the results of the suites that were finished, and an
// error that wraps ctx.Err() and its cause. Other errors mean that the machine
// failed, not a suite: a log that can't be written, processes that can't be
// ended.
func Run(ctx context.Context, opt RunOptions) (Results, error) {
	suites, err := check(opt)
	if err != nil {
		return nil, err
	}
	results := Results{}
	for i, s := range suites {
		event := Event{Suite: s.ID, Number: i + 1, Count: len(suites)}
		res, err := runSuite(ctx, opt, s, event)
		if err != nil {
			return results, fmt.Errorf("suite %s: %w", s.ID, err)
		}
		results = append(results, res)
	}
	return results, nil
}

// check refuses what would make every suite fail, and returns the suites in
// order.
func check(opt RunOptions) ([]Planned, error) {
	for _, dir := range []string{opt.Dir, opt.LogDir} {
		if st, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("run suites: %w", err)
		} else if !st.IsDir() {
			return nil, fmt.Errorf("run suites: %s is not a directory", dir)
		}
	}
	suites := slices.Clone(opt.Suites)
	slices.SortStableFunc(suites, func(a, b Planned) int { return strings.Compare(a.ID, b.ID) })
	for i, s := range suites {
		if !validID(s.ID) { // it becomes a file name
			return nil, fmt.Errorf("run suites: %s is no suite id", quote(s.ID))
		}
		if i > 0 && s.ID == suites[i-1].ID {
			return nil, fmt.Errorf("run suites: the id %s is there twice", s.ID)
		}
	}
	return suites, nil
}

func runSuite(ctx context.Context, opt RunOptions, s Planned, event Event) (Result, error) {
	now := opt.Now
	if now == nil {
		now = time.Now
	}
	res := Result{
		ID: s.ID, Kind: s.Kind, Blocking: s.Blocking, Added: s.Added, Detected: s.Detected,
		StartedAt: now().UTC().Truncate(time.Microsecond),
		Log:       filepath.Join(opt.LogDir, s.ID+".log"),
	}
	out, err := createLog(res.Log, maxLog)
	if err != nil {
		return Result{}, err
	}
	ended := report(opt.Progress, event, out)
	got, err := proc.Run(ctx, proc.Command{
		Args: s.Run.Args, Shell: s.Run.Shell,
		Dir: opt.Dir, Env: environment(opt.Env, s.Suite),
		Stdout: out, Timeout: s.Timeout, Grace: grace,
	})
	event = ended()
	if errors.Is(err, proc.ErrStart) {
		fmt.Fprintf(out, "writ: %v\n", err)
	} else if err != nil {
		_, cerr := out.close()
		return Result{}, errors.Join(err, cerr)
	}
	res.judge(s.Suite, got, err)
	if res.Tail, err = out.close(); err != nil {
		return Result{}, err
	}
	if opt.Progress != nil {
		event.State, event.Elapsed, event.Result = StateFinished, res.Elapsed, &res
		opt.Progress(event)
	}
	return res, nil
}

// report tells of the start of a suite and, until the returned function is
// called, how it is getting on. That function returns the last event once no
// other can come.
func report(progress func(Event), event Event, out *output) (ended func() Event) {
	if progress == nil {
		return func() Event { return event }
	}
	event.State = StateStarted
	progress(event)
	begun := time.Now()
	stop, stopped := make(chan struct{}), make(chan struct{})
	event.State = StateOutput
	go func() { // stopped and waited for by ended
		defer close(stopped)
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				event.Elapsed, event.LastLine = time.Since(begun), out.lastLine()
				progress(event)
			case <-stop:
				return
			}
		}
	}()
	return func() Event {
		close(stop)
		<-stopped
		event.LastLine = out.lastLine()
		return event
	}
}

// judge turns the end of a command into a status.
func (r *Result) judge(s Suite, got proc.Result, startErr error) {
	r.ExitCode, r.Signal, r.TimedOut = got.ExitCode, got.Signal, got.TimedOut
	r.Elapsed = got.Elapsed.Truncate(time.Microsecond)
	switch {
	case startErr != nil:
		r.Status, r.Reason = StatusError, startErr.Error()
	case got.TimedOut:
		r.Status, r.Reason = StatusError, "not finished within its time limit of "+shortDuration(s.Timeout)
	case got.Signal != "":
		r.Status, r.Reason = StatusFail, "ended by "+got.Signal
	case got.ExitCode == 127:
		r.Status, r.Reason = StatusError, "exit code 127: a command was not found"
	case got.ExitCode == 126:
		r.Status, r.Reason = StatusError, "exit code 126: a command can't be executed"
	case got.ExitCode != 0:
		r.Status, r.Reason = StatusFail, fmt.Sprintf("exit code %d", got.ExitCode)
	default:
		r.Status = StatusPass
	}
}

// environment returns what a suite sees, later entries winning.
func environment(extra []string, s Suite) []string {
	// GIT_DIR and its like would lead the suite's git to the repository that is
	// being gated instead of the checkout. The mark of an enclosing run stays.
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "GIT_") || reservedEnv(name) && name != proc.Mark
	})
	env = append(env, "CI=true")
	env = append(env, extra...)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	return append(env, "WRIT=1", "WRIT_SUITE="+s.ID)
}
