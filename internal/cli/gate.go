package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate"
	"github.com/writ-authority/writ/gate/suite"
)

func (a *app) gate() *cobra.Command {
	var o gate.Options
	mode := authorMode(record.AuthorModeHumanOnly)
	c := &cobra.Command{
		Use:   "gate",
		Short: "Record a change, run its checks, decide whether it may land",
		Long: "Gate records the commits between base and head as a patchset, runs the suites in a\n" +
			"clean checkout, decides by policy whether it may land, and says why. With --land it\n" +
			"lands it. It exits with 0 when the change may land or has landed, with 1 when it is\n" +
			"blocked.",
		Example: "  writ gate\n  writ gate --land\n  writ gate --base HEAD~3 --task 'Retry failed uploads'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.AuthorMode = record.AuthorMode(mode)
			return a.runGate(c, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Base, "base", "", "compare with the merge base with this revision (default: upstream, else the target branch)")
	f.StringVar(&o.Head, "head", "", "revision to gate (default: HEAD)")
	f.StringVar(&o.Task, "task", "", "title of the task, when one has to be opened")
	f.BoolVar(&o.Worktree, "worktree", false, "include uncommitted changes, as a commit that no branch points to")
	f.BoolVar(&o.Rerun, "rerun", false, "run the checks again although there is evidence")
	f.BoolVar(&o.Land, "land", false, "land the change if it may")
	f.Var(&mode, "author-mode", "who wrote it: human_only, human_with_ai_assist, ai_with_human_review or ai_only_experimental")
	return c
}

func (a *app) runGate(c *cobra.Command, o gate.Options) error {
	p := a.progress()
	defer p.clear()
	o.Progress, o.Waiting = p.event, p.waiting
	if !a.json {
		o.Planned = a.planned
	}
	var r *gate.Report
	open := a.openOptions(true)
	open.Before = func(w *gate.Workspace) error {
		var err error
		o.Range, err = w.FindRange(c.Context(), o.RangeOptions)
		return err
	}
	err := a.within(c.Context(), open, func(w *gate.Workspace) error {
		var err error
		r, err = w.Run(c.Context(), o)
		return err
	})
	p.clear()
	if err != nil {
		return err
	}
	return a.gateReport(r)
}

// planned shows detected suites with the advice to write them down.
func (a *app) planned(plan *suite.Plan) {
	var detected []string
	for _, s := range plan.Suites {
		if s.Detected {
			detected = append(detected, fmt.Sprintf("  %s  %s", s.ID, s.Run))
		}
	}
	if len(detected) > 0 {
		fmt.Fprintf(a.err, "no suites are written down in %s, so these were found; `writ init` writes them down:\n%s\n",
			suite.FileName, printable(strings.Join(detected, "\n")))
	}
}

// gateReport prints a report and turns a blocked one into the exit code.
func (a *app) gateReport(r *gate.Report) error {
	if err := a.print(r, func() { a.showReport(r) }); err != nil {
		return err
	}
	done := r.Landable || r.Landed
	if r.Land != nil {
		done = r.Land.Done()
	}
	if !done {
		return errBlocked
	}
	return nil
}

func (a *app) showReport(r *gate.Report) {
	s := a.style
	known := ""
	if !r.Patchset.New {
		known = "  (known)"
	}
	fmt.Fprintf(a.out, "%s  %s%s\n", s.bold(r.Patchset.ID), line(r.Change.Title), s.faint(known))
	fmt.Fprintf(a.out, "  %s  %.12s..%.12s  %s  %s\n", line(r.Change.Branch), r.Patchset.Base.Commit, r.Patchset.Revision.Commit,
		plural(r.Patchset.Changed, "path changed", "paths changed"), r.Patchset.Class)
	for _, n := range r.Notes {
		fmt.Fprintf(a.out, "  %s %s\n", s.yellow("note:"), line(n))
	}
	fmt.Fprintln(a.out)
	var rows [][]string
	for _, q := range r.Requirements {
		if q.Name == "ci_rollout_phase" {
			continue
		}
		name := q.Name
		if q.Suite != "" {
			name = "suite " + q.Suite
		}
		rows = append(rows, []string{"  " + a.mark(q.Standing), name, line(q.Why)})
	}
	table(a.out, rows)
	for _, t := range r.Checks.Suites {
		if len(t.Tail) > 0 {
			fmt.Fprintf(a.out, "\n  %s\n", s.bold("the end of "+t.Log))
			for _, l := range t.Tail {
				fmt.Fprintf(a.out, "  %s %s\n", s.faint("|"), line(l))
			}
		}
	}
	a.next(r)
}

// next says what was decided and what would move it.
func (a *app) next(r *gate.Report) {
	s := a.style
	verdict := s.red("blocked")
	switch {
	case r.Landed:
		verdict = s.green("landed")
	case r.Landable:
		verdict = s.green("may land")
	case r.Decision.Kind == "pending":
		verdict = s.yellow("pending")
	}
	decision := strings.TrimSpace(r.Decision.Kind + " " + s.faint(r.Decision.ID))
	if r.Decision.ID == "" {
		decision = "no decision is recorded"
	}
	fmt.Fprintf(a.out, "\n%s  %s\n", verdict, decision)
	for _, q := range r.Requirements {
		if q.Next != "" && (q.Standing == gate.Failed || q.Standing == gate.Pending) {
			name := q.Name
			if q.Suite != "" {
				name = q.Suite
			}
			fmt.Fprintf(a.out, "  %s: %s\n", name, line(q.Next))
		}
	}
	if l := r.Land; l != nil {
		fmt.Fprintf(a.out, "  %s: %s\n", l.Outcome, line(l.Why))
		if l.Advice != "" {
			fmt.Fprintf(a.out, "  %s\n", line(l.Advice))
		}
	} else if r.Landable && r.Change.Lifecycle == "active" {
		fmt.Fprintf(a.out, "  `writ gate --land` lands it on %s\n", line(r.Policy.Target))
	}
}

func (a *app) mark(st gate.Standing) string {
	s := a.style
	text := fmt.Sprintf("%-14s", strings.ReplaceAll(string(st), "_", " "))
	switch st {
	case gate.Satisfied:
		return s.green(text)
	case gate.Failed:
		return s.red(text)
	case gate.Pending, gate.Waived:
		return s.yellow(text)
	}
	return s.faint(text)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// authorMode is the flag value of an author mode that new patchsets may have.
type authorMode record.AuthorMode

func (m *authorMode) String() string { return record.AuthorMode(*m).String() }
func (m *authorMode) Type() string   { return "mode" }

func (m *authorMode) Set(text string) error {
	v, err := record.ParseAuthorMode(text)
	if err != nil || v > record.AuthorModeAIOnlyExperimental {
		return fmt.Errorf("expected human_only, human_with_ai_assist, ai_with_human_review or ai_only_experimental")
	}
	*m = authorMode(v)
	return nil
}
