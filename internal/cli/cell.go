package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/record"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

func (a *app) cell() *cobra.Command {
	c := group("cell", "Make cells, send them inputs, perform their acts and read their histories",
		a.cellCreate(), a.cellSend(), a.cellRun(), a.cellTick(), a.cellBegin(), a.cellSettle(),
		a.cellLifecycle("pause", "Keep a cell from running and from attempting acts", record.Paused),
		a.cellLifecycle("resume", "Let a paused cell go on", record.Active),
		a.cellLifecycle("retire", "End a cell without an input for good", record.Retiring, record.Retired),
		a.cellCancel(), a.cellFork(),
		a.cellList(), a.cellShow(), a.cellLog(), a.cellWatch(), a.cellGet(), a.cellDiff(), a.cellSchema(),
		a.cellVerify(), a.cellReplay(), a.cellExport(), a.cellImport(), a.cellCollect())
	c.Long = "A cell is a durable program in Rune with a noun of state. It takes one input at a time; the one effect\n" +
		"that it can have is an act, which its policy must allow and which is attempted once. docs/cells.md begins\n" +
		"with an example. CELL is the particle of a cell or its first digits, NOUN is a noun such as [1, \"text\"].\n" +
		"One process at a time has the store of cells open."
	return c
}

// headDoc is a head in JSON.
type headDoc struct {
	Index  uint64 `json:"index"`
	Commit string `json:"commit"`
}

func headOf(h cell.Head) headDoc { return headDoc{h.Index, h.Commit.String()} }

// definitionFlags are the flags of a cell that is made.
type definitionFlags struct {
	source, nonce string
	limit         uint64
	acts          []string
}

func (d *definitionFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&d.source, "source", "", "file with the program in Rune, - for standard input (required)")
	f.Uint64Var(&d.limit, "step-limit", machine.MaxSteps, "steps that an input may use, 1 to 1000000")
	f.StringSliceVar(&d.acts, "allow", nil, "acts that it may attempt: "+strings.Join(actNames(), ", ")+", or their tags in decimal")
	f.StringVar(&d.nonce, "nonce", "", "32 bytes in hexadecimal: the same nonce makes the same cell (default: random)")
	completes(c, "allow", actNames())
}

// actTags are the acts by the names that programs use.
var actTags = []uint64{rune.TagHost, rune.TagEmit, rune.TagQuery, rune.TagLink, rune.TagSeal, rune.TagSubscribe}

func actNames() []string {
	names := make([]string, len(actTags))
	for i, t := range actTags {
		names[i] = rune.ActName(t)
	}
	return names
}

func actName(tag uint64) string {
	if name := rune.ActName(tag); name != "" {
		return name
	}
	return "act " + strconv.FormatUint(tag, 10)
}

func (d *definitionFlags) tags() ([]uint64, error) {
	var tags []uint64
	for _, text := range d.acts {
		if i := slices.Index(actNames(), text); i >= 0 {
			tags = append(tags, actTags[i])
			continue
		}
		tag, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--allow %q: expected one of %s, or a tag in decimal", line(text), strings.Join(actNames(), ", "))}
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

// birth reads the files and flags of a definition.
func (d *definitionFlags) birth(ctx context.Context, a *app) (b cell.Birth, err error) {
	if d.source == "" {
		return b, &usageError{errors.New("--source is required: the file with the program")}
	}
	if d.limit < 1 || d.limit > machine.MaxSteps {
		return b, &usageError{fmt.Errorf("--step-limit: expected 1 to %d, not %d", machine.MaxSteps, d.limit)}
	}
	if b.Source, err = a.readInput(ctx, d.source, rune.MaxSource+1); err != nil {
		return b, err
	}
	if _, err := rune.Compile(b.Source); err != nil {
		return b, located(d.source, err)
	}
	if b.Nonce, err = nonceFlag(d.nonce); err != nil {
		return b, err
	}
	b.Acts, err = d.tags()
	b.StepLimit = d.limit
	return b, err
}

// createdDoc is writ.cell-created.v1.
type createdDoc struct {
	Schema string  `json:"schema"`
	Cell   string  `json:"cell"`
	Nonce  string  `json:"nonce"`
	Head   headDoc `json:"head"`
}

func (a *app) created(c cell.Particle, nonce [32]byte, head cell.Head) error {
	doc := createdDoc{"writ.cell-created.v1", c.String(), fmt.Sprintf("%x", nonce), headOf(head)}
	return a.print(doc, func() { fmt.Fprintln(a.out, doc.Cell) })
}

func (a *app) cellCreate() *cobra.Command {
	var d definitionFlags
	var state string
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a cell and print its name",
		Long: "Create compiles the program, starts it once with the state, and makes a cell of both. The same command\n" +
			"with the same --nonce finds the cell that it has made.",
		Example: "  writ cell create --source counter.rune --state 0\n  writ cell create --source gate.rune --state '[3, 0]' --allow host --step-limit 20000",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("state") {
				return &usageError{errors.New("--state is required: the first state, such as --state 0")}
			}
			b, err := d.birth(c.Context(), a)
			if err != nil {
				return err
			}
			if b.Initial, err = nounFlag("state", state); err != nil {
				return err
			}
			return a.withNewCells(c.Context(), func(cells *cells) error {
				made, head, err := cells.Create(c.Context(), b)
				if err != nil {
					return located(d.source, err)
				}
				return a.created(made, b.Nonce, head)
			})
		},
	}
	d.add(c)
	c.Flags().StringVar(&state, "state", "", "the first state, as an expression (required)")
	return c
}

func (a *app) cellFork() *cobra.Command {
	var d definitionFlags
	var program string
	c := &cobra.Command{
		Use:   "fork CELL",
		Short: "Make a cell with another program that goes on from the state of a cell",
		Long: "Fork makes a new cell whose parent is the old one. A program given with --map turns the state, which it\n" +
			"gets as its event, into the state of the new cell; without it the state is the same. The old cell stays\n" +
			"as it is: retire it if the new one takes its place.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			b, err := d.birth(c.Context(), a)
			if err != nil {
				return err
			}
			f := cell.Fork{Source: b.Source, Nonce: b.Nonce, StepLimit: b.StepLimit, Acts: b.Acts}
			if program != "" {
				if f.Map, err = a.readInput(c.Context(), program, rune.MaxSource+1); err != nil {
					return err
				}
				if _, err := rune.Compile(f.Map); err != nil {
					return located(program, err)
				}
			}
			return a.onCell(c.Context(), args[0], func(cells *cells, old cell.Particle) error {
				made, head, err := cells.Fork(c.Context(), old, f)
				if err != nil {
					return err
				}
				return a.created(made, f.Nonce, head)
			})
		},
	}
	d.add(c)
	c.Flags().StringVar(&program, "map", "", "file with a program that turns the old state into the new one")
	return c
}

// onCell opens the store and finds a cell in it.
func (a *app) onCell(ctx context.Context, name string, fn func(*cells, cell.Particle) error) error {
	return a.withCells(ctx, func(cells *cells) error {
		c, err := cells.find(ctx, name)
		if err != nil {
			return err
		}
		return fn(cells, c)
	})
}

// cellHeadDoc is writ.cell-head.v1.
type cellHeadDoc struct {
	Schema string  `json:"schema"`
	Cell   string  `json:"cell"`
	Nonce  string  `json:"nonce,omitempty"`
	Head   headDoc `json:"head"`
}

func (a *app) printHead(c cell.Particle, nonce string, head cell.Head) error {
	doc := cellHeadDoc{"writ.cell-head.v1", c.String(), nonce, headOf(head)}
	return a.print(doc, func() { fmt.Fprintf(a.out, "commit %d  %v\n", head.Index, head.Commit) })
}

// nounArgument reads a noun that is an argument.
func nounArgument(name, text string) (nox.Noun, error) {
	n, err := machine.Eval([]byte(text))
	if err != nil {
		return nox.Noun{}, &usageError{fmt.Errorf("%s: %w", name, located("expression", err))}
	}
	return n, nil
}

func (a *app) cellSend() *cobra.Command {
	var nonce, about string
	c := &cobra.Command{
		Use:   "send CELL NOUN",
		Short: "Admit an input, which the next ticks run",
		Long: "Send records the input durably and runs nothing: `writ cell run` or `writ cell tick` does. A cell has one\n" +
			"input at a time. Sending again with the same --nonce and the same noun answers with the same commit, so\n" +
			"that a command whose answer was lost can be repeated.",
		Example: "  writ cell send 500c0e97 7\n  writ cell send 500c0e97 '[\"approve\", 3]' --nonce 0202020202020202020202020202020202020202020202020202020202020202",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			in := cell.Input{}
			var err error
			if in.Noun, err = nounArgument("NOUN", args[1]); err != nil {
				return err
			}
			if in.Nonce, err = nonceFlag(nonce); err != nil {
				return err
			}
			if about != "" {
				p, err := particleArgument("--context", about)
				if err != nil {
					return err
				}
				in.Context = &p
			}
			return a.onCell(c.Context(), args[0], func(cells *cells, to cell.Particle) error {
				head, err := cells.Submit(c.Context(), to, in)
				if err != nil {
					return err
				}
				return a.printHead(to, fmt.Sprintf("%x", in.Nonce), head)
			})
		},
	}
	c.Flags().StringVar(&nonce, "nonce", "", "32 bytes in hexadecimal that name this request (default: random)")
	c.Flags().StringVar(&about, "context", "", "particle of stored content that the program sees as ~here")
	return c
}

// progressDoc is writ.cell-progress.v1.
type progressDoc struct {
	Schema    string   `json:"schema"`
	Cell      string   `json:"cell"`
	Progress  string   `json:"progress"`
	Head      *headDoc `json:"head,omitempty"`
	Operation string   `json:"operation,omitempty"`
	Attempt   string   `json:"attempt,omitempty"`
	Tag       string   `json:"tag,omitempty"`
	Arguments string   `json:"arguments,omitempty"`
	State     string   `json:"state,omitempty"`
}

func (a *app) cellTick() *cobra.Command {
	return &cobra.Command{
		Use:   "tick CELL",
		Short: "Run one slice of a cell's input, at most 1000 steps",
		Long: "Tick reserves the steps in one commit, runs them, and settles what they have led to in another one. It\n" +
			"tells whether the cell is idle, has advanced or completed its input, is awaiting an attempt of an act,\n" +
			"or waits for the outcome of an attempt, which is unknown.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onCell(c.Context(), args[0], func(cells *cells, on cell.Particle) error {
				p, err := cells.Tick(c.Context(), on)
				if err != nil {
					return err
				}
				doc := progressDoc{Schema: "writ.cell-progress.v1", Cell: on.String(), Progress: p.Kind.String()}
				switch p.Kind {
				case cell.Advanced, cell.Complete:
					h := headOf(p.Head)
					doc.Head = &h
					if p.Kind == cell.Complete {
						doc.State = p.State.String()
					}
				case cell.Awaiting, cell.Unknown:
					doc.Operation, doc.Tag, doc.Arguments = p.Operation.String(), strconv.FormatUint(p.Tag, 10), p.Arguments.String()
					if p.Kind == cell.Unknown {
						doc.Attempt = p.Attempt.String()
					}
				}
				return a.print(doc, func() { a.showProgress(p) })
			})
		},
	}
}

func (a *app) showProgress(p cell.Progress) {
	switch p.Kind {
	case cell.Idle:
		fmt.Fprintln(a.out, "idle")
	case cell.Advanced:
		fmt.Fprintf(a.out, "advanced to commit %d\n", p.Head.Index)
	case cell.Complete:
		fmt.Fprintf(a.out, "%s at commit %d: state %s\n", a.style.green("complete"), p.Head.Index, a.shown(p.State))
	case cell.Awaiting:
		fmt.Fprintf(a.out, "%s %s(%s)\n  operation %v\n", a.style.yellow("awaiting"), actName(p.Tag), a.shown(p.Arguments), p.Operation)
	case cell.Unknown:
		fmt.Fprintf(a.out, "%s: %s(%s) was attempted\n  operation %v\n  attempt   %v\n", a.style.red("unknown"), actName(p.Tag), a.shown(p.Arguments), p.Operation, p.Attempt)
	}
}

// attemptDoc is writ.cell-attempt.v1.
type attemptDoc struct {
	Schema    string `json:"schema"`
	Operation string `json:"operation"`
	Attempt   string `json:"attempt"`
	Tag       string `json:"tag"`
	Arguments string `json:"arguments"`
}

func (a *app) cellBegin() *cobra.Command {
	return &cobra.Command{
		Use:   "begin CELL OPERATION",
		Short: "Record the attempt of an act that you are about to perform",
		Long: "Begin asks the policy and records the attempt, once and for ever: whoever gets it may perform the act, and\n" +
			"tells the outcome with `writ cell settle`. The attempt is the key by which others can recognise a repeated\n" +
			"effect. If this command is interrupted, `writ cell show` tells whether the attempt is recorded.",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			operation, err := particleArgument("OPERATION", args[1])
			if err != nil {
				return err
			}
			return a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				at, err := cells.Begin(c.Context(), of, operation)
				if err != nil {
					return err
				}
				doc := attemptDoc{"writ.cell-attempt.v1", at.Operation.String(), at.Attempt.String(), strconv.FormatUint(at.Tag, 10), at.Arguments.String()}
				return a.print(doc, func() {
					fmt.Fprintf(a.out, "%s(%s)\n  attempt %v\n", actName(at.Tag), a.shown(at.Arguments), at.Attempt)
				})
			})
		},
	}
}

func (a *app) cellSettle() *cobra.Command {
	var value, reason string
	c := &cobra.Command{
		Use:   "settle CELL OPERATION ATTEMPT",
		Short: "Record what became of an attempt",
		Long: "Settle records that an attempt has succeeded with a value, or has definitely failed, which ends the input\n" +
			"with that text. Only what is known should be recorded: the first outcome stands for ever.",
		Args: cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			succeeded, failed := c.Flags().Changed("value"), c.Flags().Changed("fail")
			if succeeded == failed {
				return &usageError{errors.New("expected either --value or --fail")}
			}
			operation, err := particleArgument("OPERATION", args[1])
			if err != nil {
				return err
			}
			attempt, err := particleArgument("ATTEMPT", args[2])
			if err != nil {
				return err
			}
			var noun nox.Noun
			if succeeded {
				if noun, err = nounFlag("value", value); err != nil {
					return err
				}
			}
			return a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				var head cell.Head
				var err error
				if succeeded {
					head, err = cells.Settle(c.Context(), of, operation, attempt, noun)
				} else {
					head, err = cells.Fail(c.Context(), of, operation, attempt, reason)
				}
				if err != nil {
					return err
				}
				return a.printHead(of, "", head)
			})
		},
	}
	c.Flags().StringVar(&value, "value", "", "it has succeeded: the reply, as an expression")
	c.Flags().StringVar(&reason, "fail", "", "it has definitely failed: why")
	return c
}

// cellLifecycle changes the lifecycle of a cell, one step after the other.
func (a *app) cellLifecycle(name, short string, steps ...record.Lifecycle) *cobra.Command {
	return &cobra.Command{
		Use:   name + " CELL",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				view, err := cells.Inspect(c.Context(), of)
				if err != nil {
					return err
				}
				head := view.Head
				for _, to := range steps {
					if to < view.Lifecycle && to == record.Retiring {
						continue // it is retired already
					}
					if head, err = cells.Manage(c.Context(), of, to); err != nil {
						return err
					}
				}
				return a.printHead(of, "", head)
			})
		},
	}
}

func (a *app) cellCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel CELL",
		Short: "End the input of a cell; its state stays as it was",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onCell(c.Context(), args[0], func(cells *cells, of cell.Particle) error {
				head, err := cells.Cancel(c.Context(), of)
				if err != nil {
					return err
				}
				return a.printHead(of, "", head)
			})
		},
	}
}

// maxShown is how much of a noun a line for people has.
const maxShown = 200

// shown is a noun on one line, or the beginning of it. It is an expression of Rune that
// stands for the noun: lists of bytes that read as text are written as such.
func (a *app) shown(n nox.Noun) string {
	text := expression(n)
	if len(text) > maxShown {
		text = text[:maxShown] + fmt.Sprintf("… (%d characters)", len(text))
	}
	return text
}
