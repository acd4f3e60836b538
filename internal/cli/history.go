package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/gate"
)

func (a *app) log() *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use:   "log",
		Short: "Show changes, patchsets, decisions and lands as one history",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return &usageError{fmt.Errorf("--limit: expected a positive number")}
			}
			var list []gate.History
			var epoch uint64
			err := a.with(c.Context(), false, func(w *gate.Workspace) error {
				var err error
				epoch = w.Authority.Epoch()
				list, err = w.Log(c.Context(), limit)
				return err
			})
			if err != nil {
				return err
			}
			return a.print(map[string]any{"schema": "writ.log.v1", "epoch": epoch, "changes": list}, func() {
				if len(list) == 0 {
					fmt.Fprintln(a.out, "nothing is recorded yet")
				}
				for i, h := range list {
					if i > 0 {
						fmt.Fprintln(a.out)
					}
					a.showHistory(h)
				}
			})
		},
	}
	c.Flags().IntVarP(&limit, "limit", "n", limit, "how many changes")
	return c
}

func (a *app) showHistory(h gate.History) {
	s := a.style
	fmt.Fprintf(a.out, "%s  %s  %s  %s\n", s.bold(h.Change), a.lifecycle(h.Lifecycle), line(h.Branch), line(h.Title))
	for _, p := range h.Patchsets {
		mark := " "
		if p.Selected {
			mark = "*"
		}
		fmt.Fprintf(a.out, "  %s %s  %s  %s\n", mark, p.ID[len(h.Change)+1:], p.Revision, line(p.Subject))
		var rows [][]string
		for _, e := range p.Events {
			what := e.Kind + " " + e.What
			if e.ID != "" {
				what = e.ID[max(0, len(e.ID)-4):] + " " + what
			}
			text := e.Who
			if e.Text != "" {
				if text != "" {
					text += ": "
				}
				text += e.Text
			}
			rows = append(rows, []string{"      " + e.At, what, line(text)})
		}
		table(a.out, rows)
	}
	for _, l := range h.Lands {
		text := l.Status
		if l.Landed != "" {
			text += " " + l.Landed
		}
		if l.Failure != "" {
			text += " " + l.Failure
		}
		fmt.Fprintf(a.out, "    %s  %s  %s %s\n", l.ID[len(h.Change)+1:], l.At, text, l.Mode)
	}
}

func (a *app) lifecycle(l string) string {
	if l == "landed" {
		return a.style.green(l)
	}
	return a.style.yellow(l)
}

func (a *app) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show [PATCHSET]",
		Short: "Show a patchset with its decision and every requirement",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var r *gate.Report
			var h gate.History
			err := a.about(c.Context(), args, false, func(w *gate.Workspace, p *authority.Patchset) error {
				var err error
				if r, err = w.Explain(c.Context(), p); err != nil {
					return err
				}
				h, err = w.HistoryOf(c.Context(), p)
				return err
			})
			if err != nil {
				return err
			}
			doc := struct {
				*gate.Report
				History gate.History `json:"history"`
			}{r, h}
			return a.print(doc, func() {
				a.showReport(r)
				fmt.Fprintln(a.out)
				a.showHistory(h)
			})
		},
	}
}

func (a *app) status() *cobra.Command {
	limit := 50
	c := &cobra.Command{
		Use:   "status",
		Short: "Show open changes and what stands in their way",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return &usageError{fmt.Errorf("--limit: expected a positive number")}
			}
			var list []gate.OpenChange
			var more bool
			var epoch uint64
			err := a.with(c.Context(), false, func(w *gate.Workspace) error {
				var err error
				epoch = w.Authority.Epoch()
				list, more, err = w.Status(c.Context(), limit)
				return err
			})
			if err != nil {
				return err
			}
			return a.print(map[string]any{"schema": "writ.status.v1", "epoch": epoch, "open": list, "more": more}, func() {
				a.showStatus(list, more)
			})
		},
	}
	c.Flags().IntVarP(&limit, "limit", "n", limit, "how many changes")
	return c
}

func (a *app) showStatus(list []gate.OpenChange, more bool) {
	if len(list) == 0 {
		fmt.Fprintln(a.out, "no change is open")
	}
	for _, o := range list {
		name := o.Patchset
		if name == "" {
			name = o.Change
		}
		state := a.style.yellow(o.State)
		switch o.State {
		case "ready":
			state = a.style.green(o.State)
		case "blocked":
			state = a.style.red(o.State)
		}
		fmt.Fprintf(a.out, "%s  %s  %s  %s\n", a.style.bold(name), state, line(o.Branch), line(o.Title))
		for _, b := range o.Blocks {
			fmt.Fprintf(a.out, "    %s\n", b)
		}
	}
	if more {
		fmt.Fprintln(a.out, "(there are more; raise --limit)")
	}
}

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check Git, the data directory and every record of the authority",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list := gate.Doctor(c.Context(), a.openOptions(false))
			failed := false
			for _, h := range list {
				failed = failed || h.Status == gate.HealthFailure
			}
			err := a.print(map[string]any{"schema": "writ.doctor.v1", "healthy": !failed, "checks": list}, func() {
				for _, h := range list {
					status := a.style.green(fmt.Sprintf("%-8s", h.Status))
					switch h.Status {
					case gate.HealthWarning:
						status = a.style.yellow(h.Status + " ")
					case gate.HealthFailure:
						status = a.style.red(h.Status + " ")
					}
					fmt.Fprintf(a.out, "%s %s: %s\n", status, h.Name, line(h.What))
					if h.Advice != "" {
						fmt.Fprintf(a.out, "         %s\n", line(h.Advice))
					}
				}
			})
			if err == nil && failed {
				return errBlocked
			}
			return err
		},
	}
}
