package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/internal/proc"
	"github.com/writ-authority/writ/nox"
)

// DefaultTimeout is how long a command, and a request over HTTP, may take.
const DefaultTimeout = time.Minute

const (
	maxArgumentBytes = 32 << 10 // of one request, with the name of the command
	execGrace        = 2 * time.Second
)

// The variables that a command finds in its environment.
const (
	EnvAttempt   = "WRIT_ATTEMPT"   // the attempt's particle: the key by which the effect is known
	EnvOperation = "WRIT_OPERATION" // the operation's particle
	EnvCell      = "WRIT_CELL"      // the cell's particle
)

// ExecOptions are the terms of an Exec.
type ExecOptions struct {
	// Commands are the programs that may run, by the names that requests use, with
	// their absolute paths.
	Commands map[string]string
	// Dir is the working directory, an absolute path; "" is the one of this process.
	Dir string
	// Env is the environment of the commands, as NAME=value; nil has PATH, HOME,
	// TMPDIR, TZ, LANG and LC_ALL of this process, and nothing else of it.
	Env []string
	// Timeout ends a command; 0 is DefaultTimeout.
	Timeout time.Duration
	// Stderr, if not nil, receives what the commands write to standard error as well
	// as the reply. Errors of it are ignored.
	Stderr io.Writer
}

// Exec answers ["exec" COMMAND ARGUMENT … 0] with [status [output errors]]: the
// exit status, 0 to 255, and standard output and standard error, each as [size pieces].
//
// It fails, and then nothing has run, where the request is another one, the command is
// not among those allowed, an argument has a zero byte, or the program can't be
// started. It is unknown what a command has done that did not exit by itself: one that
// a signal or the timeout ended, or that was ended because this program stops. A lost
// answer is unknown too, and can't be looked up. A command that must not act twice
// checks the key WRIT_ATTEMPT.
//
// Commands run without a shell and have no standard input. Nothing of a command is left
// when Do returns; if this program dies meanwhile, a guard, which is a process of its
// own, ends the command.
type Exec struct {
	commands map[string]string
	dir      string
	env      []string
	timeout  time.Duration

	mu     sync.Mutex // guards writes to stderr: commands run at the same time
	stderr io.Writer

	once     sync.Once
	guard    *proc.Guard
	guardErr error
}

// NewExec checks the options. The error wraps ErrConfig.
func NewExec(o ExecOptions) (*Exec, error) {
	for _, name := range slices.Sorted(maps.Keys(o.Commands)) {
		path := o.Commands[name]
		if name == "" || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("%w: %q is no name of a command", ErrConfig, name)
		}
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("%w: command %q: %q is no absolute path", ErrConfig, name, path)
		}
	}
	if o.Dir != "" && !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("%w: the working directory %q is no absolute path", ErrConfig, o.Dir)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("%w: a timeout of %v", ErrConfig, o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Env == nil {
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL"} {
			if v, ok := os.LookupEnv(name); ok {
				o.Env = append(o.Env, name+"="+v)
			}
		}
	}
	return &Exec{
		commands: maps.Clone(o.Commands), dir: o.Dir, env: slices.Clone(o.Env),
		timeout: o.Timeout, stderr: o.Stderr,
	}, nil
}

// Usage implements Adapter.
func (e *Exec) Usage() string { return `["exec" COMMAND ARGUMENT … 0]` }

// Performs implements cell.Chooser: another process may allow a command that is not
// allowed here.
func (e *Exec) Performs(r cell.Request) bool {
	args, err := texts(r.Arguments, maxArgumentBytes)
	if err != nil || len(args) == 0 {
		return true // for Do to refuse
	}
	_, ok := e.commands[args[0]]
	return ok
}

// Do implements cell.Executor.
func (e *Exec) Do(ctx context.Context, r cell.Request) (cell.Result, error) {
	args, err := texts(r.Arguments, maxArgumentBytes)
	if err != nil {
		return failed("%s: %v", e.Usage(), err)
	}
	if len(args) == 0 {
		return failed("%s: the name of a command is missing", e.Usage())
	}
	name := strconv.QuoteToASCII(args[0])
	path, ok := e.commands[args[0]]
	if !ok {
		return failed("exec: the command %s is not allowed; allowed are: %s", name, e.allowed())
	}
	for i, a := range args {
		if strings.ContainsRune(a, 0) {
			return failed("exec %s: argument %d has a zero byte, which no program can be given", name, i)
		}
	}
	e.once.Do(func() { e.guard, e.guardErr = proc.NewGuard() })
	if e.guardErr != nil {
		return failed("exec %s: %v", name, e.guardErr)
	}
	if ctx.Err() != nil {
		return failed("exec %s: not started: %v", name, context.Cause(ctx))
	}
	var out, errs kept
	ended, err := proc.Run(ctx, proc.Command{
		Guard: e.guard,
		Args:  append([]string{path}, args[1:]...),
		Dir:   e.dir,
		Env: append(slices.Clone(e.env), EnvAttempt+"="+r.Attempt.String(),
			EnvOperation+"="+r.Operation.String(), EnvCell+"="+r.Cell.String()),
		Stdout: &out, Stderr: io.MultiWriter(&errs, (*execLog)(e)),
		Timeout: e.timeout, Grace: execGrace,
	})
	switch {
	case errors.Is(err, proc.ErrStart):
		return failed("exec %s: nothing has run: %v", name, err)
	case err != nil:
		return cell.Result{}, fmt.Errorf("exec %s: %w", name, err)
	case ended.TimedOut:
		return cell.Result{}, fmt.Errorf("exec %s: ended after %v, its time", name, e.timeout)
	case ended.ExitCode < 0:
		return cell.Result{}, fmt.Errorf("exec %s: ended by %s", name, ended.Signal)
	}
	return succeeded(nox.Pair(nox.Atom(uint64(ended.ExitCode)), nox.Pair(out.noun(), errs.noun())))
}

// allowed lists the commands.
func (e *Exec) allowed() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(e.commands)) {
		names = append(names, strconv.QuoteToASCII(name))
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// execLog is the Stderr of the options, shared by all commands. Whoever reads it has no
// say in what becomes of them.
type execLog Exec

// Write implements io.Writer.
func (l *execLog) Write(b []byte) (int, error) {
	if l.stderr != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, _ = l.stderr.Write(b)
	}
	return len(b), nil
}
