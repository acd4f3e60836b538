package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stderrLimit is how much of a command's standard error is kept, in bytes; the end is kept,
// because that is where git says why it gave up.
const stderrLimit = 8 << 10

// killDelay is how long a child may take to remove its lock files after SIGTERM.
const killDelay = 2 * time.Second

// fixedConfig goes in front of every command: it takes away what a user's configuration could do
// to the form of an answer, and makes what git writes durable.
var fixedConfig = []string{
	"core.hooksPath=" + os.DevNull,
	"core.fsmonitor=false", // may be a program, or start a daemon
	"core.quotePath=false",
	"core.warnAmbiguousRefs=false",
	"core.safecrlf=false",
	"core.fsync=all",
	"core.fsyncMethod=fsync",
	"color.ui=false",
	"log.showSignature=false",
	"submodule.recurse=false",
	"gc.auto=0",
	"maintenance.auto=false",
}

// keptVariables are the GIT_* variables that reach git: who the user is, where their
// configuration is, and what they allow. Everything else that starts with GIT_ says which
// repository, index or objects to use, and would send a command elsewhere.
var keptVariables = []string{
	"GIT_ALLOW_PROTOCOL", "GIT_ASKPASS", "GIT_ATTR_NOSYSTEM", "GIT_AUTHOR_DATE", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME",
	"GIT_CEILING_DIRECTORIES", "GIT_COMMITTER_DATE", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME",
	"GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_PARAMETERS",
	"GIT_CONFIG_SYSTEM", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH",
	"GIT_PROTOCOL_FROM_USER", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT",
}

// environment returns the environment of every git command, made from Writ's own.
func environment(own []string) []string {
	env := make([]string, 0, len(own)+8)
	for _, kv := range own {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "LC_"), name == "LANG", name == "LANGUAGE":
			continue
		case strings.HasPrefix(name, "GIT_CONFIG_KEY_"), strings.HasPrefix(name, "GIT_CONFIG_VALUE_"):
		case strings.HasPrefix(name, "GIT_") && !slices.Contains(keptVariables, name):
			continue
		}
		env = append(env, kv)
	}
	return append(env,
		"LC_ALL=C",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_GRAFT_FILE="+os.DevNull,
		"GIT_PAGER=cat",
	)
}

// command is one git process.
type command struct {
	dir    string   // working directory; the repository's own when empty
	env    []string // added to the repository's environment
	config []string // further key=value options, after the fixed ones
	plain  bool     // without the fixed options, to see the user's configuration as it is
	args   []string
	stdin  io.Reader // nil: no input

	// read consumes the standard output; nil discards it. Returning errStop ends the process
	// early without an error.
	read func(*bufio.Reader) error

	// accept lists the exit statuses other than 0 that are answers, not failures.
	accept []int
}

// errStop is returned by a command's read function that has seen enough.
var errStop = errors.New("enough output")

// tail keeps the last stderrLimit bytes written to it.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - stderrLimit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), "\uFFFD")
}

// prepare builds the process: own process group, no inherited input, fixed configuration.
func (r *Repo) prepare(cmd *exec.Cmd, c command) {
	args := make([]string, 0, 2*(len(fixedConfig)+len(c.config))+len(c.args)+2)
	args = append(args, r.git, "--no-pager")
	if !c.plain {
		for _, kv := range fixedConfig {
			args = append(args, "-c", kv)
		}
	}
	for _, kv := range c.config {
		args = append(args, "-c", kv)
	}
	cmd.Args = append(args, c.args...)
	cmd.Dir = c.dir
	if cmd.Dir == "" {
		cmd.Dir = r.dir
	}
	cmd.Env = r.env
	if len(c.env) > 0 {
		cmd.Env = append(slices.Clip(r.env), c.env...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// run runs c to its end and returns its exit status, which is 0 or one of c.accept. Any other
// status is a *CommandError.
func (r *Repo) run(ctx context.Context, c command) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("git %s: %w", c.args[0], context.Cause(ctx))
	}
	own, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(own, r.git)
	r.prepare(cmd, c)
	cmd.Stdin = c.stdin
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
			return os.ErrProcessDone
		}
		return nil
	}
	cmd.WaitDelay = killDelay
	var stderr tail
	cmd.Stderr = &stderr

	var readErr error
	if c.read == nil {
		readErr = cmd.Start()
		if readErr != nil {
			return 0, startError(c, readErr)
		}
	} else {
		out, err := cmd.StdoutPipe()
		if err != nil {
			return 0, startError(c, err)
		}
		if err := cmd.Start(); err != nil {
			return 0, startError(c, err)
		}
		readErr = c.read(bufio.NewReaderSize(out, 64<<10))
		if readErr == nil {
			_, readErr = io.Copy(io.Discard, out)
		} else if !errors.Is(readErr, io.EOF) {
			stop() // at the end of the output git is about to end by itself, and says why
		}
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("git %s: %w", c.args[0], context.Cause(ctx))
	}
	code := cmd.ProcessState.ExitCode()
	if readErr != nil {
		if errors.Is(readErr, errStop) {
			return 0, nil
		}
		// An output that ends too soon is explained best by why git ended.
		if code <= 0 || slices.Contains(c.accept, code) {
			return 0, fmt.Errorf("git %s: %w", c.args[0], readErr)
		}
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("git %s: %w", c.args[0], err)
	}
	if code != 0 && !slices.Contains(c.accept, code) {
		return code, &CommandError{Args: c.args, ExitCode: code, Stderr: stderr.String()}
	}
	return code, nil
}

func startError(c command, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return ErrNoGit
	}
	return fmt.Errorf("start git %s: %w", c.args[0], err)
}

// outputLimit bounds the answers that are read as a whole, in bytes.
const outputLimit = 64 << 20

// output runs c and returns its whole standard output.
func (r *Repo) output(ctx context.Context, c command) ([]byte, int, error) {
	var buf bytes.Buffer
	c.read = func(out *bufio.Reader) error {
		if n, err := io.Copy(&buf, io.LimitReader(out, outputLimit+1)); err != nil {
			return err
		} else if n > outputLimit {
			return fmt.Errorf("%w: more than %d bytes of output", ErrTooLarge, outputLimit)
		}
		return nil
	}
	code, err := r.run(ctx, c)
	return buf.Bytes(), code, err
}

// lastLine is the line in which git says why it gave up, without its mark.
func (e *CommandError) lastLine() string {
	line := e.Stderr[strings.LastIndexByte(e.Stderr, '\n')+1:]
	return strings.TrimPrefix(line, "fatal: ")
}

// stderrHas reports whether err is a *CommandError whose message has one of the texts. The
// C locale makes them stable.
func stderrHas(err error, texts ...string) bool {
	var ce *CommandError
	if !errors.As(err, &ce) {
		return false
	}
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(ce.Stderr, s) })
}
