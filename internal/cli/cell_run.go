package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/executor"
	"github.com/writ-authority/writ/rune"
)

// named are the cells that arguments name, or all of them.
func (c *cells) named(ctx context.Context, names []string) ([]cell.Particle, error) {
	var list []cell.Particle
	for _, name := range names {
		p, err := c.find(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if len(names) > 0 {
		return list, nil
	}
	var after cell.Particle
	for {
		page, err := c.store.Cells(ctx, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, h := range page {
			list = append(list, h.Cell)
		}
		if len(page) < 1000 {
			return list, nil
		}
		after = page[len(page)-1].Cell
	}
}

// adapterFlags say which acts `writ cell run` performs.
type adapterFlags struct {
	exec    []string
	hosts   []string
	private bool
	timeout time.Duration
}

func (f *adapterFlags) registry() (*executor.Registry, error) {
	adapters := map[string]executor.Adapter{"clock": &executor.Clock{}, "random": &executor.Random{}}
	if len(f.exec) > 0 {
		commands := map[string]string{}
		for _, pair := range f.exec {
			name, path, ok := strings.Cut(pair, "=")
			if !ok || name == "" || path == "" {
				return nil, &usageError{fmt.Errorf("--exec %q: expected NAME=PATH", line(pair))}
			}
			if _, twice := commands[name]; twice {
				return nil, &usageError{fmt.Errorf("--exec %s is given twice", line(name))}
			}
			commands[name] = path
		}
		e, err := executor.NewExec(executor.ExecOptions{Commands: commands, Timeout: f.timeout})
		if err != nil {
			return nil, &usageError{fmt.Errorf("--exec: %w", err)}
		}
		adapters["exec"] = e
	}
	if len(f.hosts) > 0 {
		g, err := executor.NewHTTPGet(executor.HTTPOptions{Hosts: f.hosts, Private: f.private, Timeout: f.timeout})
		if err != nil {
			return nil, &usageError{fmt.Errorf("--http-host: %w", err)}
		}
		adapters["http-get"] = g
	} else if f.private {
		return nil, &usageError{errors.New("--http-private goes with --http-host")}
	}
	return executor.NewRegistry(adapters), nil
}

// actGrace is how much longer than its time an act may take to end.
const actGrace = 10 * time.Second

// noticeDoc is a line that `writ cell run` prints.
type noticeDoc struct {
	Cell      string   `json:"cell"`
	Notice    string   `json:"notice"`
	Head      *headDoc `json:"head,omitempty"`
	State     string   `json:"state,omitempty"`
	Act       string   `json:"act,omitempty"`
	Arguments string   `json:"arguments,omitempty"`
	Operation string   `json:"operation,omitempty"`
	Attempt   string   `json:"attempt,omitempty"`
	Value     string   `json:"value,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Error     string   `json:"error,omitempty"`
}

func noticeOf(n *cell.Notice) noticeDoc {
	doc := noticeDoc{Cell: n.Cell.String(), Notice: n.Kind.String(), Reason: n.Reason}
	switch n.Kind {
	case cell.Ticked, cell.Completed, cell.Faulted, cell.Settled, cell.ActFailed:
		h := headOf(n.Head)
		doc.Head = &h
	}
	if n.Kind == cell.Completed {
		doc.State = n.State.String()
	}
	if n.Tag != 0 {
		doc.Act, doc.Arguments, doc.Operation = actName(n.Tag), n.Arguments.String(), n.Operation.String()
	}
	if n.Attempt != (cell.Particle{}) {
		doc.Attempt = n.Attempt.String()
	}
	if n.Outcome == cell.OutcomeSucceeded {
		doc.Value = n.Value.String()
	}
	if n.Err != nil {
		doc.Error = n.Err.Error()
	}
	return doc
}

func (a *app) cellRun() *cobra.Command {
	var f adapterFlags
	c := &cobra.Command{
		Use:   "run [CELL…]",
		Short: "Run cells and perform their acts until nothing is left to do",
		Long: "Run runs the inputs of cells, all of them if none is named, and performs their host requests: clock and\n" +
			"random always, exec and http-get for what is allowed here. It ends when every cell is idle or waits for\n" +
			"something that it does not perform, and exits with 1 if a person has to look at one: an outcome is unknown,\n" +
			"an act was denied, or a cell can't go on (with 7 if what is stored of it is damaged). Ctrl-C lets acts that have begun end, for 10 seconds; a second\n" +
			"one does not. Whatever happens, the next run goes on from what is recorded. With --json it prints one\n" +
			"object a line. docs/executors.md describes the requests.",
		Example: "  writ cell run\n  writ cell run 500c0e97 --exec publish=/usr/local/bin/publish --http-host api.example.org",
		RunE: func(c *cobra.Command, args []string) error {
			registry, err := f.registry()
			if err != nil {
				return err
			}
			left, damaged := 0, 0
			err = a.withCells(c.Context(), func(cells *cells) error {
				list, err := cells.named(c.Context(), args)
				if err != nil {
					return err
				}
				var printed error
				s := cell.NewSupervisor(cells.Engine, cell.SupervisorOptions{
					Executors: map[uint64]cell.Executor{rune.TagHost: registry},
					ActTime:   f.timeout + actGrace, // the adapters keep the time themselves
					Notify: func(n cell.Notice) {
						switch n.Kind {
						case cell.Left:
							if len(args) == 0 && errors.Is(n.Err, cell.ErrLifecycle) {
								return // nobody has asked for this cell in particular
							}
							left++
							if errors.Is(n.Err, cell.ErrCorrupt) {
								damaged++
							}
						case cell.Uncertain, cell.Denied:
							left++
						}
						if a.json {
							printed = errors.Join(printed, a.printLine(noticeOf(&n)))
							return
						}
						if text := a.noticeText(&n); text != "" {
							fmt.Fprintf(a.out, "%s  %s\n", a.style.faint(n.Cell.String()[:12]), text)
						}
					},
				})
				return errors.Join(s.Run(c.Context(), list), printed)
			})
			switch {
			case err != nil:
				return err
			case damaged > 0:
				return errUnsound
			case left > 0:
				return errBlocked
			}
			return nil
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.exec, "exec", nil, "allow a command to run: NAME=PATH, the path absolute (may be repeated)")
	fl.StringArrayVar(&f.hosts, "http-host", nil, "allow http-get from a host, such as example.org or http://127.0.0.1:8080 (may be repeated)")
	fl.BoolVar(&f.private, "http-private", false, "let names of hosts lead to addresses that are not public")
	fl.DurationVar(&f.timeout, "act-timeout", time.Minute, "how long a command or a request may take")
	return c
}

func (a *app) noticeText(n *cell.Notice) string {
	s := a.style
	act := func() string { return actName(n.Tag) + "(" + a.shown(n.Arguments) + ")" }
	switch n.Kind {
	case cell.Completed:
		return s.green("complete") + ": state " + a.shown(n.State)
	case cell.Faulted:
		return s.red("fault") + ": " + line(n.Err.Error())
	case cell.Begun:
		return act() + " is attempted"
	case cell.Settled:
		return act() + " " + s.green("has succeeded") + ": " + a.shown(n.Value)
	case cell.ActFailed:
		return act() + " " + s.red("has failed") + ": " + line(n.Reason)
	case cell.Uncertain:
		text := s.red("unknown") + ": the outcome of " + act() + " is not known"
		if n.Err != nil {
			text += ": " + line(n.Err.Error())
		}
		switch n.Outcome {
		case cell.OutcomeSucceeded:
			text = s.red("unknown") + ": " + act() + " has succeeded with " + n.Value.String() + ", which could not be recorded: " + line(n.Err.Error())
		case cell.OutcomeFailed:
			text = s.red("unknown") + ": " + act() + " has failed, which could not be recorded: " + line(n.Reason) + ": " + line(n.Err.Error())
		}
		return text + "; `writ cell show` tells what to settle"
	case cell.Denied:
		return act() + " " + s.red("was denied") + " by the policy of the cell"
	case cell.Unhandled:
		return s.yellow("awaiting") + " " + act() + ", which is not performed here"
	case cell.Left:
		return s.red("left") + ": " + line(n.Err.Error())
	}
	return ""
}
