package proc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is the environment variable by which the descendants of a command are
// recognised. Its value is a list of random ids separated by commas, one for
// each Run that encloses the process.
const Mark = "WRIT_RUN"

const (
	// killWait bounds the wait for processes to vanish after SIGKILL.
	killWait = 10 * time.Second
	// drainWait bounds the wait for the end of the output once all known
	// processes are gone.
	drainWait = 2 * time.Second
	// maxMark bounds what is inherited of the marks of enclosing runs, in bytes.
	maxMark = 1024
)

// Command says what to run. Exactly one of Args and Shell is set.
type Command struct {
	// Args is the program and its arguments, without a shell. A program without
	// a slash is looked up in the PATH of Env; a relative path is relative to Dir.
	Args []string
	// Shell is a command line for `sh -c`.
	Shell string
	// Dir is the working directory; "" is the one of this process.
	Dir string
	// Env is the whole environment, as "NAME=value"; nil is the one of this
	// process. PWD and the mark are added.
	Env []string
	// Input is standard input; nil is /dev/null. The command need not read it.
	Input []byte
	// Stdout receives standard output and, without Stderr, standard error in the
	// order in which they were written. Each of the three writers is called from
	// one goroutine at a time and not after Run has returned. nil discards.
	Stdout io.Writer
	// Stderr, if not nil, receives standard error.
	Stderr io.Writer
	// Side, if not nil, receives what is written to file descriptor 3, which is
	// open in the command only then.
	Side io.Writer
	// Timeout ends the command after this time; 0 is no limit.
	Timeout time.Duration
	// Grace is how long the group may take to end after SIGTERM before it gets
	// SIGKILL; 0 sends SIGKILL at once.
	Grace time.Duration
	// Hurry, if not nil, ends the grace when it is closed.
	Hurry <-chan struct{}
	// Guard, if not nil, ends the group if this program dies while it runs.
	Guard *Guard
}

// Result says how a command ended.
type Result struct {
	ExitCode  int           // 0..255; -1 if a signal ended it
	Signal    string        // the signal's name such as "SIGSEGV", or ""
	TimedOut  bool          // the time limit ended it
	Cancelled bool          // the end of the context ended it
	Elapsed   time.Duration // from the start to the last process's end
	MaxRSS    int64         // largest resident size of one process, in bytes
}

// Run runs c and returns when nothing of it is left, see the package comment.
//
// An exit code other than 0, a signal and the time limit are results, not
// errors. If the context ended the command, the result says how it died and the
// error wraps ctx.Err() and context.Cause(ctx). Other errors wrap ErrStart,
// ErrOutput, ErrGuard or ErrUnkillable.
func Run(ctx context.Context, c Command) (Result, error) {
	if ctx.Err() != nil {
		return Result{ExitCode: -1, Cancelled: true}, ended(ctx)
	}
	cmd, id, err := prepare(c)
	if err != nil {
		return Result{ExitCode: -1}, err
	}
	s, err := openStreams(c)
	if err != nil {
		return Result{ExitCode: -1}, startError(cmd.Args[0], err)
	}
	defer s.close()
	exit, err := newWatch()
	if err != nil {
		return Result{ExitCode: -1}, startError(cmd.Args[0], err)
	}
	s.attach(cmd)
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		exit.close()
		return Result{ExitCode: -1}, startError(cmd.Args[0], err)
	}
	s.run()

	g := group{id: cmd.Process.Pid, ended: make(chan struct{})}
	go func() { // ends with the leader, which Run waits for
		exit.await(g.id)
		exit.close()
		close(g.ended)
	}()

	var guardErr error
	if c.Guard != nil {
		guardErr = c.Guard.add(g.id)
		defer c.Guard.remove(g.id)
	}

	var res Result
	var timeout <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	if guardErr == nil {
		select {
		case <-g.ended:
		case <-ctx.Done():
			res.Cancelled = true
		case <-timeout:
			res.TimedOut = true
		case <-s.failed:
		}
	}
	if res.Cancelled || res.TimedOut {
		g.terminate(c.Grace, c.Hurry)
	}
	killErr := g.kill(cmd)
	if killErr == nil {
		killErr = killMarked(id, time.Now().Add(killWait))
	}
	outErr := s.finish()
	res.Elapsed = time.Since(begun)
	res.describe(cmd.ProcessState)

	switch {
	case killErr != nil:
		return res, fmt.Errorf("%s: %w", cmd.Args[0], killErr)
	case guardErr != nil: // that of a start, which was not the command's
		return res, fmt.Errorf("%s: %w: %v", cmd.Args[0], ErrGuard, guardErr)
	case res.Cancelled:
		return res, ended(ctx)
	case outErr != nil:
		return res, fmt.Errorf("%s: %w: %w", cmd.Args[0], ErrOutput, outErr)
	}
	return res, nil
}

// ended returns why the context ended: its error and, if another one was given,
// its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// describe fills in what the kernel told about the leader; st is nil if it could
// not be reaped.
func (r *Result) describe(st *os.ProcessState) {
	r.ExitCode = -1
	if st == nil {
		return
	}
	r.ExitCode = st.ExitCode()
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Signal = unix.SignalName(ws.Signal())
	}
	if ru, ok := st.SysUsage().(*syscall.Rusage); ok {
		r.MaxRSS = int64(ru.Maxrss) * rssUnit
	}
}

// prepare turns c into a command of the standard library and the id it is marked
// with.
func prepare(c Command) (*exec.Cmd, string, error) {
	args := c.Args
	switch {
	case c.Shell != "" && len(args) > 0:
		return nil, "", fmt.Errorf("%w: both a shell command and arguments were given", ErrStart)
	case c.Shell != "":
		args = []string{"/bin/sh", "-c", c.Shell}
	case len(args) == 0 || args[0] == "":
		return nil, "", fmt.Errorf("%w: the command is empty", ErrStart)
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, "", startError(args[0], err)
	}
	// Looked at first: the failed start of a program in a missing directory
	// reads as if the program were missing.
	if st, err := os.Stat(dir); err != nil {
		return nil, "", startError(args[0], err)
	} else if !st.IsDir() {
		return nil, "", startError(args[0], &os.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR})
	}
	path, err := lookPath(args[0], lookupEnv(env, "PATH"))
	if err != nil {
		return nil, "", startError(args[0], err)
	}
	var random [16]byte
	rand.Read(random[:]) // never fails
	id := hex.EncodeToString(random[:])
	mark := id
	if outer := lookupEnv(env, Mark); outer != "" && len(outer) <= maxMark {
		mark = outer + "," + id
	}
	cmd := &exec.Cmd{
		Path: path,
		Args: args,
		Dir:  dir,
		Env:  append(slices.Clip(env), "PWD="+dir, Mark+"="+mark), // the last one of a name counts
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid: true,
		},
	}
	return cmd, id, nil
}

func startError(name string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) && pe.Op == "fork/exec" {
		err = pe.Err // the name is said already
	}
	return fmt.Errorf("%w %q: %w", ErrStart, name, err)
}

// lookupEnv returns the value that counts for a variable.
func lookupEnv(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// lookPath finds a program as execvp would in the given PATH, except that only
// absolute elements count: a program must not be taken from the working
// directory by accident.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", exec.ErrNotFound
}
