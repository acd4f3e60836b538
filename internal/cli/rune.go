package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

func (a *app) rune() *cobra.Command {
	c := group("rune", "Check, run, format and try programs of cells",
		a.runeCheck(), a.runeRun(), a.runeFormat(), a.runeLower(), a.runeREPL())
	c.Long = "Rune is the language in which cells are written; docs/rune.md describes it. These commands need no\n" +
		"data directory and change nothing but the files that fmt --write is given. FILE may be - for standard\n" +
		"input."
	return c
}

// located puts the file before the place of an error, and the line of the source
// behind it.
func located(path string, err error) error {
	if path == "-" {
		path = "standard input"
	}
	var refused *rune.Error
	var fault *machine.Fault
	switch {
	case errors.As(err, &refused):
		return &locatedError{fmt.Sprintf("%s:%v\n%s", path, refused, refused.Excerpt()), err}
	case errors.As(err, &fault):
		return &locatedError{fmt.Sprintf("%s: %v\n%s", path, fault, fault.Excerpt()), err}
	}
	return err
}

type locatedError struct {
	message string
	err     error
}

func (e *locatedError) Error() string { return e.message }
func (e *locatedError) Unwrap() error { return e.err }

func (a *app) compile(ctx context.Context, path string) (*rune.Program, error) {
	source, err := a.readInput(ctx, path, rune.MaxSource+1)
	if err != nil {
		return nil, err
	}
	p, err := rune.Compile(source)
	return p, located(path, err)
}

// nounFlag is a flag whose value is an expression that stands for a noun.
func nounFlag(name, text string) (nox.Noun, error) {
	n, err := machine.Eval([]byte(text))
	if err != nil {
		return nox.Noun{}, &usageError{fmt.Errorf("--%s: %w", name, located("expression", err))}
	}
	return n, nil
}

// runeCheckDoc is what is known of a program that compiles.
type runeCheckDoc struct {
	Schema string `json:"schema"`
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	Nodes  uint64 `json:"nodes"`
	Depth  uint64 `json:"depth"`
}

func (a *app) runeCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a source is a program that a cell could have",
		Long: "Check compiles a source and starts it once with state and event 0, as the creation of a cell does. It\n" +
			"evaluates nothing.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.compile(c.Context(), args[0])
			if err != nil {
				return err
			}
			if _, err := machine.Load(p, machine.Input{}, machine.MaxSteps); err != nil {
				return located(args[0], err)
			}
			doc := runeCheckDoc{"writ.rune-check.v1", args[0], len(p.Source()), p.Body().Size(), p.Body().Depth()}
			return a.print(doc, func() {
				fmt.Fprintf(a.out, "%s is sound: %d bytes, a formula of %d nodes, %d levels deep\n", line(doc.File), doc.Bytes, doc.Nodes, doc.Depth)
			})
		},
	}
}

func (a *app) runeFormat() *cobra.Command {
	var write, check bool
	c := &cobra.Command{
		Use:   "fmt FILE",
		Short: "Put a source into the one layout",
		Long: "Fmt prints the source in the one layout, or changes the file with --write. What it writes compiles to\n" +
			"the same formula. With --check it prints nothing, and ends with 1 if the layout is another one.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := args[0]
			if write && (check || path == "-") {
				return &usageError{errors.New("--write changes a file: it goes neither with --check nor with standard input")}
			}
			source, err := a.readInput(c.Context(), path, rune.MaxSource+1)
			if err != nil {
				return err
			}
			out, err := rune.Format(source)
			if err != nil {
				return located(path, err)
			}
			changed := !bytes.Equal(source, out)
			if write && changed {
				if err := replaceFile(path, out); err != nil {
					return err
				}
			}
			doc := runeFormatDoc{"writ.rune-fmt.v1", path, changed, string(out)}
			err = a.print(doc, func() {
				switch {
				case check && changed:
					fmt.Fprintf(a.err, "%s has another layout; `writ rune fmt --write` changes it\n", line(path))
				case !check && !write:
					fmt.Fprint(a.out, doc.Text)
				}
			})
			if err == nil && check && changed {
				return errBlocked
			}
			return err
		},
	}
	c.Flags().BoolVar(&write, "write", false, "change the file")
	c.Flags().BoolVar(&check, "check", false, "say whether the file has the layout, and print nothing")
	return c
}

// replaceFile puts other content in the place of a file, all of it or nothing. What is
// named by a symbolic link is replaced, not the link.
func replaceFile(path string, content []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".writ-fmt-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// runeFormatDoc is a formatted source.
type runeFormatDoc struct {
	Schema  string `json:"schema"`
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Text    string `json:"text"`
}

// runeLowerDoc is the formula of a program for one event.
type runeLowerDoc struct {
	Schema  string `json:"schema"`
	File    string `json:"file"`
	Event   string `json:"event"`
	Formula string `json:"formula"`
	Nodes   uint64 `json:"nodes"`
	Depth   uint64 `json:"depth"`
}

// formulaLimits have room for every formula: the one string that fills a source is the
// deepest, and an event may have as many nodes as a noun can.
var formulaLimits = nox.Limits{Nodes: 4 * machine.MaxNodes, Depth: 2 * rune.MaxSource}

func (a *app) runeLower() *cobra.Command {
	var event string
	c := &cobra.Command{
		Use:   "lower FILE",
		Short: "Print the formula of a program for an event",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			e, err := nounFlag("event", event)
			if err != nil {
				return err
			}
			p, err := a.compile(c.Context(), args[0])
			if err != nil {
				return err
			}
			f := p.Formula(e)
			text, err := formulaLimits.Format(f)
			if err != nil {
				return err
			}
			doc := runeLowerDoc{"writ.rune-lower.v1", args[0], e.String(), text, f.Size(), f.Depth()}
			return a.print(doc, func() { fmt.Fprintln(a.out, doc.Formula) })
		},
	}
	c.Flags().StringVar(&event, "event", "0", "the event, as an expression")
	return c
}

// runeActDoc is something that a program has asked its host for.
type runeActDoc struct {
	Act       string `json:"act"`
	Tag       string `json:"tag"`
	Arguments string `json:"arguments"`
	Steps     uint64 `json:"steps"`
	Reply     string `json:"reply,omitempty"`
}

// runeRunDoc is how a run has ended.
type runeRunDoc struct {
	Schema     string       `json:"schema"`
	File       string       `json:"file"`
	Status     string       `json:"status"`
	Value      string       `json:"value,omitempty"`
	Steps      uint64       `json:"steps"`
	Slices     int          `json:"slices"`
	Acts       []runeActDoc `json:"acts"`
	Unasked    int          `json:"unasked_replies,omitempty"`
	Checkpoint string       `json:"checkpoint,omitempty"`
}

func (a *app) runeRun() *cobra.Command {
	var event, state, here string
	var replies []string
	var steps, slice uint64
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a program once, as a cell would",
		Long: "Run starts a program with an event and a state, runs it in slices and prints the value that would\n" +
			"become the state. What it asks its host for is answered by --reply, in this order; without a reply the\n" +
			"run ends there, and nothing of it is carried out. Events, states and replies are expressions of Rune\n" +
			"without variables: 7, [1 2], \"text\".",
		Example: "  writ rune run counter.rune --state 3 --event 4",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if slice == 0 {
				return &usageError{errors.New("--slice: a slice has at least one step")}
			}
			var in machine.Input
			var err error
			if in.Event, err = nounFlag("event", event); err != nil {
				return err
			}
			if in.State, err = nounFlag("state", state); err != nil {
				return err
			}
			if here != "" {
				d, err := hemera.ParseDigest(here)
				if err != nil {
					return &usageError{fmt.Errorf("--here: %w", err)}
				}
				in.Here = &d
			}
			var answers []nox.Noun
			for _, text := range replies {
				n, err := nounFlag("reply", text)
				if err != nil {
					return err
				}
				answers = append(answers, n)
			}
			p, err := a.compile(c.Context(), args[0])
			if err != nil {
				return err
			}
			m, err := machine.Load(p, in, steps)
			if err != nil {
				return located(args[0], err)
			}
			doc := runeRunDoc{Schema: "writ.rune-run.v1", File: args[0], Acts: []runeActDoc{}}
			if err := doc.run(c.Context(), m, slice, answers); err != nil {
				var f *machine.Fault
				if errors.As(err, &f) {
					steps := plural(int(m.Used()), "step", "steps")
					err = &locatedError{fmt.Sprintf("%s: %v, after %s\n%s", args[0], f, steps, f.Excerpt()), err}
				}
				return err
			}
			return a.print(doc, func() { a.showRun(&doc) })
		},
	}
	f := c.Flags()
	f.StringVar(&event, "event", "0", "the event, as an expression")
	f.StringVar(&state, "state", "0", "the state, ~mem, as an expression")
	f.StringVar(&here, "here", "", "the particle of the context, ~here, in hexadecimal (default: none)")
	f.StringArrayVar(&replies, "reply", nil, "a reply to what the program asks for, as an expression (repeatable)")
	f.Uint64Var(&steps, "steps", machine.MaxSteps, "how many steps the program may make, at most 1000000")
	f.Uint64Var(&slice, "slice", 1000, "after how many steps the state must fit into a checkpoint")
	return c
}

// run runs m to its end, or to an act that is not answered.
func (d *runeRunDoc) run(ctx context.Context, m *machine.Machine, slice uint64, replies []nox.Noun) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := m.Run(slice)
		if err != nil {
			return err
		}
		d.Slices++
		d.Steps = m.Used()
		d.Status = r.Status.String()
		if r.Status == machine.Done {
			d.Value = r.Value.String()
			d.Unasked = len(replies)
			return nil
		}
		checkpoint, err := m.Checkpoint()
		if err != nil {
			return err
		}
		if r.Status == machine.Yielded {
			continue
		}
		act := runeActDoc{Act: rune.ActName(r.Tag), Tag: strconv.FormatUint(r.Tag, 10), Arguments: r.Arguments.String(), Steps: m.Used()}
		if len(replies) == 0 || r.Status == machine.Event {
			d.Acts = append(d.Acts, act)
			d.Checkpoint = hex.EncodeToString(checkpoint)
			return nil
		}
		act.Reply = replies[0].String()
		d.Acts = append(d.Acts, act)
		if err := m.Resume(replies[0]); err != nil {
			return err
		}
		replies = replies[1:]
	}
}

func (a *app) showRun(d *runeRunDoc) {
	for _, act := range d.Acts {
		answer := "waits for a reply; give one with --reply"
		if act.Reply != "" {
			answer = "answered with " + act.Reply
		}
		fmt.Fprintf(a.err, "%s(%s) after %d steps: %s\n", act.Act, act.Arguments, act.Steps, answer)
	}
	if d.Unasked > 0 {
		fmt.Fprintf(a.err, "the program did not ask for %s\n", plural(d.Unasked, "reply", "replies"))
	}
	if d.Status == machine.Done.String() {
		fmt.Fprintln(a.out, d.Value)
	}
	fmt.Fprintf(a.err, "%s, %s\n", plural(int(d.Steps), "step", "steps"), plural(d.Slices, "slice", "slices"))
}
