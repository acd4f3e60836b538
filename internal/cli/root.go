package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/gate"
	"github.com/writ-authority/writ/workitem"
)

// app is what the commands share: the streams and the global flags.
type app struct {
	in       io.Reader
	out, err io.Writer
	repo     string
	data     string
	json     bool
	at       connection
	style    style
	errStyle style
}

// Main runs one command line and returns its exit code. An interrupt ends the
// command's context, so that it can tidy up; a second one ends the process.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	answer := &output{w: out}
	a := &app{in: in, out: answer, err: errw, style: styleOf(out), errStyle: styleOf(errw)}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, errBlocked) || errors.Is(err, errUnsound) {
		// What was done is done, but nobody has been told of it.
		if answer.err != nil {
			err = answer.err
		}
	}
	if err == nil {
		return exitOK
	}
	if errors.Is(err, bindb.ErrNoRecord) {
		err = fmt.Errorf("%w: a record refers to %w", bindb.ErrCorrupt, err)
	}
	code, name := codeOf(err)
	if errors.Is(err, errBlocked) || errors.Is(err, errUnsound) {
		return code
	}
	a.json = a.json || wantsJSON(args) // a wrong flag may stand before it
	a.fail(err, name)
	return code
}

// wantsJSON looks for --json where no value can stand.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// output is what a command answers with. It keeps the first error of a write, so
// that no answer is taken for given that has not arrived.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// fail shows an error: a sentence and what to do for people, an object for
// programs.
func (a *app) fail(err error, name string) {
	message, advice := strings.TrimSpace(err.Error()), adviceOf(err)
	message = strings.ReplaceAll(message, context.Canceled.Error(), "interrupted")
	if a.json {
		object := map[string]string{"code": name, "message": message, "advice": advice}
		if refusal := (*workitem.Error)(nil); errors.As(err, &refusal) {
			for member, text := range map[string]string{"field": refusal.Field, "differs": refusal.Differs, "outcome": refusal.Outcome} {
				if text != "" {
					object[member] = text
				}
			}
		}
		_ = json.NewEncoder(a.out).Encode(map[string]any{"schema": "writ.error.v1", "error": object})
	}
	fmt.Fprintf(a.err, "writ: %s\n", printable(message))
	if advice != "" {
		fmt.Fprintf(a.err, "      %s\n", advice)
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "writ",
		Short: "The authority for repository work done by agents and people",
		Long: "Writ records what was proposed, what was checked, who approved and which rule decided,\n" +
			"and lands a change only when its evidence allows it.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.checkRepo()
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("writ {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if number := (*strconv.NumError)(nil); errors.As(err, &number) {
			err = fmt.Errorf("%sexpected a whole number in its range", strings.TrimSuffix(err.Error(), number.Error()))
		}
		return &usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
	})
	f := root.PersistentFlags()
	f.StringVar(&a.repo, "repo", "", "directory inside the Git repository (default: the current one)")
	f.StringVar(&a.data, "data", "", "data directory (default: writ inside the common Git directory)")
	f.BoolVar(&a.json, "json", false, "print JSON")
	root.AddCommand(
		a.gate(), a.initFile(), a.review(), a.attest(), a.waiver(),
		a.policy(), a.task(), a.change(), a.patchset(), a.plan(), a.land(),
		a.log(), a.show(), a.status(), a.doctor(), a.queue(),
		a.job(), a.worker(), a.serve(), a.mcp(), a.token(), a.repository(), a.db(), a.backup(),
		a.cell(), a.hash(), a.nouns(), a.nox(), a.rune(),
	)
	wrapArgs(root)
	return root
}

// checkRepo refuses a --repo that is no directory.
func (a *app) checkRepo() error {
	if a.repo == "" {
		return nil
	}
	info, err := os.Stat(a.repo)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", a.repo)
	}
	if err != nil {
		return &usageError{fmt.Errorf("--repo: %w", err)}
	}
	return nil
}

// group is a noun whose verbs are subs; alone it shows its help.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(subs...)
	return c
}

// wrapArgs makes wrong arguments wrong use, for every command below c.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return &usageError{fmt.Errorf("%w; see `%s --help`", err, c.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "development"
	}
	return info.Main.Version
}

func (a *app) openOptions(create bool) gate.OpenOptions {
	return gate.OpenOptions{Dir: a.repo, Data: a.data, Create: create}
}

// with opens the workspace, runs fn and closes it.
func (a *app) with(ctx context.Context, create bool, fn func(*gate.Workspace) error) error {
	return a.within(ctx, a.openOptions(create), fn)
}

func (a *app) within(ctx context.Context, o gate.OpenOptions, fn func(*gate.Workspace) error) error {
	w, err := gate.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(fn(w), w.Close())
}

// print writes v as JSON, or calls people.
func (a *app) print(v any, people func()) error {
	if !a.json {
		people()
		return nil
	}
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printLine prints one JSON value on one line, for commands that go on.
func (a *app) printLine(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// styleOf uses colour on a terminal, unless NO_COLOR says otherwise.
func styleOf(w io.Writer) style {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return style{}
	}
	tty := isatty.IsTerminal(f.Fd())
	return style{terminal: tty, colour: tty && os.Getenv("NO_COLOR") == ""}
}
