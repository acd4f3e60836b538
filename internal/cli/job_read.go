package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

func (a *app) jobGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get JOB",
		Short: "Show one job",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				v, err := jobs.Get(c.Context(), &workitem.GetInput{JobID: args[0]})
				if err != nil {
					return err
				}
				return a.answer("writ.job-view.v1", v, func() { a.showView(v) })
			})
		},
	}
}

func (a *app) jobList() *cobra.Command {
	var in workitem.ListInput
	var limit int
	var all, claimable, blocked bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List jobs, oldest first",
		Long: "List shows the jobs that all filters fit. It ends after --limit jobs and says with which\n" +
			"--cursor to go on; --all goes on by itself.",
		Example: "  writ job list --state ready,running\n  writ job list --operation build --created-after 24h --all\n  writ job list --blocked",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in.TenantID = a.at.tenant // a server refuses one that is not the token's
			in.Limit, in.Claimable, in.Blocked = set(c, "limit", limit), set(c, "claimable", claimable), set(c, "blocked", blocked)
			for flag, text := range map[string]*string{"created-after": &in.CreatedAfter, "created-before": &in.CreatedBefore} {
				if *text == "" {
					continue
				}
				var err error
				if *text, err = pastFlag(flag, *text); err != nil {
					return err
				}
			}
			p := a.progress()
			defer p.clear()
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				page := &workitem.Page{Items: []workitem.View{}}
				for {
					next, err := jobs.List(c.Context(), &in)
					if err != nil {
						return err
					}
					page.Items = append(page.Items, next.Items...)
					page.Scanned += next.Scanned
					page.Corrupt += next.Corrupt
					page.NextCursor, page.Exhausted = next.NextCursor, next.Exhausted
					if !all || next.NextCursor == nil {
						break
					}
					in.Cursor = *next.NextCursor
					p.step(plural(len(page.Items), "job", "jobs"))
				}
				p.clear()
				return a.answer("writ.job-page.v1", page, func() { a.showPage(page) })
			})
		},
	}
	f := c.Flags()
	f.StringVar(&in.Operation, "operation", "", "only those of an operation, such as build")
	f.StringVar(&in.Kind, "kind", "", "only those of a kind, such as repository.build")
	f.StringSliceVar(&in.State, "state", nil, "only those in one of these states: submitted, ready, leased, running, succeeded, failed, cancelled, dead-letter")
	f.StringVar(&in.RepositoryID, "repository", "", "only those of a repository")
	f.StringVar(&in.LaneID, "lane", "", "only those of a lane")
	f.StringVar(&in.CandidateID, "candidate", "", "only those of a candidate")
	f.StringVar(&in.GenerationID, "generation", "", "only those of a generation")
	f.StringVar(&in.CorrelationID, "correlation", "", "only those with this correlation id")
	f.StringVar(&in.OwnerID, "owner-id", "", "only those of an owner")
	f.StringVar(&in.ResourceClass, "resource-class", "", "only those of a resource class")
	f.StringVar(&in.CreatedAfter, "created-after", "", "only those created after a time, or so long ago at most, such as 24h")
	f.StringVar(&in.CreatedBefore, "created-before", "", "only those created before a time, or so long ago at least")
	f.BoolVar(&claimable, "claimable", false, "only those that could be claimed now, or with =false the others")
	f.BoolVar(&blocked, "blocked", false, "only those that wait for a parent which has ended without success, or with =false the others")
	f.IntVarP(&limit, "limit", "n", 100, "how many, 1 to 1000; with --all how many at a time")
	f.StringVar(&in.Cursor, "cursor", "", "go on after the list that ended with this cursor")
	f.BoolVar(&all, "all", false, "go on to the end")
	completes(c, "operation", operationNames())
	completes(c, "kind", kindNames())
	completes(c, "state", jobStates)
	return c
}

// showPage prints a list of jobs.
func (a *app) showPage(p *workitem.Page) {
	if len(p.Items) == 0 {
		fmt.Fprintln(a.out, "no jobs")
	} else {
		now := time.Now()
		rows := [][]string{{"JOB", a.style.plain("STATE"), "OPERATION", "REPOSITORY", "PRIORITY", "ATTEMPTS", "CREATED"}}
		for i := range p.Items {
			v := &p.Items[i]
			rows = append(rows, []string{
				v.JobID, a.style.stateCell(v.State), v.Operation, line(v.RepositoryID), strconv.Itoa(v.Priority),
				fmt.Sprintf("%d/%d", v.Attempt, v.MaxAttempts), since(v.CreatedAt, now),
			})
		}
		table(a.out, rows)
	}
	if p.Corrupt > 0 {
		fmt.Fprintf(a.out, "%s and left out\n", plural(p.Corrupt, "row is corrupt", "rows are corrupt"))
	}
	if p.NextCursor != nil {
		fmt.Fprintf(a.out, "(there may be more: --all, or --cursor %s)\n", *p.NextCursor)
	}
}

// watchStep is how long one question of `writ job watch` lasts: also how late a
// change that does not end the job may be seen.
const watchStep = 2 * time.Second

func (a *app) jobWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch JOB",
		Short: "Follow a job until it ends",
		Long: "Watch prints a line whenever the job has changed, until it has ended. It exits with 0 if the\n" +
			"job has succeeded, with 1 if it has failed, was cancelled or is a dead letter. With --json it\n" +
			"prints the job once, when it has ended. Ctrl-C ends the watching, not the job.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			last := ""
			var v *workitem.View
			err := a.follow(c.Context(), forever, watchStep, func(jobs operation.Jobs, wait float64) (bool, error) {
				in := &workitem.GetInput{JobID: args[0]}
				if last != "" && wait > 0 {
					in.Wait, in.Until = &wait, "terminal"
				}
				var err error
				if v, err = jobs.Get(c.Context(), in); err != nil {
					return false, err
				}
				if now := watched(v); now != last {
					last = now
					if !a.json {
						fmt.Fprintf(a.out, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), a.style.stateCell(v.State), now)
					}
				}
				return terminal(v.State), nil
			})
			if err != nil {
				return err
			}
			if a.json {
				if err := a.answer("writ.job-view.v1", v, nil); err != nil {
					return err
				}
			}
			if v.State != "succeeded" {
				return errBlocked
			}
			return nil
		},
	}
}

// terminal says whether a job in this state has ended.
func terminal(state string) bool {
	return slices.Contains([]string{"succeeded", "failed", "cancelled", "dead-letter"}, state)
}

// watched is what a line of `writ job watch` says besides the state.
func watched(v *workitem.View) string {
	parts := []string{fmt.Sprintf("attempt %d of %d", v.Attempt, v.MaxAttempts)}
	if v.State == "submitted" {
		parts = []string{"waits for " + plural(len(v.Dependencies), "parent", "parents")}
	}
	if v.Lease != nil && !terminal(v.State) {
		parts = append(parts, "held by "+line(v.Lease.Owner))
	}
	for _, text := range []*string{v.Checkpoint, v.ResultRef, v.ErrorRef} {
		if text != nil {
			parts = append(parts, line(*text))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) jobResult() *cobra.Command {
	return &cobra.Command{
		Use:   "result JOB",
		Short: "Show how a job ended",
		Long:  "Result shows how a job has ended. A job that has not is refused with the code\ninvalid_state_combination; `writ job watch` waits.",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Result(c.Context(), &workitem.JobInput{JobID: args[0]})
				if err != nil {
					return err
				}
				return a.answer("writ.job-result.v1", r, func() { a.showResult(r) })
			})
		},
	}
}

func (a *app) showResult(r *workitem.Result) {
	fmt.Fprintf(a.out, "%s  %s  %s\n", a.style.bold(r.JobID), r.Operation, a.style.stateCell(r.State))
	rows := [][]string{{"  attempts", strconv.Itoa(r.Attempt)}}
	for _, o := range []struct {
		label string
		text  *string
	}{
		{"result", r.ResultRef}, {"failure class", r.FailureClass}, {"refusal code", r.RefusalCode}, {"error", r.ErrorRef},
		{"checkpoint", r.Checkpoint},
	} {
		if o.text != nil {
			rows = append(rows, []string{"  " + o.label, line(*o.text)})
		}
	}
	table(a.out, rows)
}

func (a *app) jobHistory() *cobra.Command {
	return &cobra.Command{
		Use:   "history JOB",
		Short: "Show what happened to a job, oldest first",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				h, err := jobs.History(c.Context(), &workitem.JobInput{JobID: args[0]})
				if err != nil {
					return err
				}
				return a.answer("writ.job-history.v1", h, func() {
					rows := [][]string{{"AT", "EVENT", "FROM", "TO", "EPOCH", "BY", "DETAIL"}}
					for _, t := range h.Items {
						rows = append(rows, []string{
							t.At, t.Event, dash(t.From), dash(t.To), strconv.FormatInt(t.Epoch, 10), dash(line(t.Subject)), line(t.Detail),
						})
					}
					table(a.out, rows)
				})
			})
		},
	}
}

func (a *app) jobExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain JOB",
		Short: "Say why a job can or cannot be claimed",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				d, err := jobs.Explain(c.Context(), &workitem.JobInput{JobID: args[0]})
				if err != nil {
					return err
				}
				return a.answer("writ.job-explain.v1", d, func() { a.showDiagnostics(d) })
			})
		},
	}
}

func (a *app) showDiagnostics(d *workitem.Diagnostics) {
	verdict := a.style.yellow("cannot be claimed")
	if d.Claimable {
		verdict = a.style.green("can be claimed")
	}
	fmt.Fprintf(a.out, "%s  %s\n", a.style.bold(d.JobID), verdict)
	var rows [][]string
	for _, w := range d.WhyNot {
		rows = append(rows, []string{"  " + strings.ReplaceAll(w.Reason, "_", " "), sentence(d, &w)})
	}
	if d.Quota.Reached {
		rows = append(rows, []string{"  tenant quota", fmt.Sprintf("%d leases of the tenant are live, which is the limit; one has to end first", d.Quota.LiveLeases)})
	}
	if d.Fault != nil {
		rows = append(rows, []string{"  fault", line(*d.Fault)})
	}
	table(a.out, rows)
	rows = nil
	for _, r := range d.BlockedBy {
		rows = append(rows, []string{"  waits for", publicID(r.WorkItemID), a.style.stateCell(r.State)})
	}
	for _, r := range d.Downstream {
		rows = append(rows, []string{"  is awaited by", publicID(r.WorkItemID), a.style.stateCell(r.State)})
	}
	if d.DownstreamTruncated {
		rows = append(rows, []string{"  is awaited by", "others; `writ job graph` shows more", ""})
	}
	table(a.out, rows)
	if d.CancelReason != nil {
		fmt.Fprintf(a.out, "  cancelled: %s\n", line(*d.CancelReason))
	}
	if d.DeferCount > 0 {
		fmt.Fprintf(a.out, "  given back %s\n", plural(d.DeferCount, "time", "times"))
	}
}

// sentence says for people why a job cannot be claimed and what ends that.
func sentence(d *workitem.Diagnostics, w *workitem.Why) string {
	switch w.Reason {
	case workitem.ReasonSubmitted:
		for _, r := range d.BlockedBy {
			if terminal(r.State) && r.State != "succeeded" {
				id := publicID(r.WorkItemID)
				return fmt.Sprintf("a parent has ended as %s and releases nothing; `writ job retry %s --adopt` runs it again for this job, `writ job cancel %s` gives this job up",
					r.State, id, d.JobID)
			}
		}
		return fmt.Sprintf("it is released when %s succeeded", plural(d.DepCount, "parent has", "parents have"))
	case workitem.ReasonBackoff:
		if d.NextRetryAt != nil {
			return "it waits before the next attempt and can be claimed " + when(*d.NextRetryAt, time.Now())
		}
	case workitem.ReasonDeadlinePassed:
		return fmt.Sprintf("its deadline has passed, so nobody gets it any more; `writ job cancel %s` ends it", d.JobID)
	case workitem.ReasonConsentDenied:
		return fmt.Sprintf("it needs consent, which is %s; an administrator gives it with `writ job consent restore %s`", d.ConsentState, d.JobID)
	case workitem.ReasonTerminal:
		return line(w.Detail) + "; `writ job result " + d.JobID + "` says more"
	}
	return line(w.Detail)
}

func (a *app) jobKinds() *cobra.Command {
	return &cobra.Command{
		Use:   "kinds",
		Short: "List the operations and the kinds of jobs that they make",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				k, err := jobs.Kinds(c.Context(), &workitem.NoInput{})
				if err != nil {
					return err
				}
				return a.answer("writ.job-kinds.v1", k, func() {
					rows := [][]string{{"OPERATION", "KIND"}}
					for _, e := range k.Items {
						rows = append(rows, []string{e.Operation, e.Kind})
					}
					table(a.out, rows)
				})
			})
		},
	}
}

func (a *app) jobStats() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Count the jobs of the tenant",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				s, err := jobs.Stats(c.Context(), &workitem.NoInput{})
				if err != nil {
					return err
				}
				return a.answer("writ.job-stats.v1", s, func() { a.showStats(s) })
			})
		},
	}
}

// jobStates are all states, in the order in which a job goes through them.
var jobStates = []string{"submitted", "ready", "leased", "running", "succeeded", "failed", "cancelled", "dead-letter"}

func (a *app) showStats(s *workitem.Stats) {
	rows := [][]string{{"KIND"}}
	for _, state := range jobStates {
		rows[0] = append(rows[0], strings.ToUpper(state))
	}
	rows[0] = append(rows[0], "CLAIMABLE")
	for _, k := range s.Kinds {
		row := []string{k.Kind}
		for _, state := range jobStates {
			row = append(row, strconv.Itoa(k.States[state]))
		}
		rows = append(rows, append(row, strconv.Itoa(k.Claimable)))
	}
	if len(s.Kinds) > 0 {
		table(a.out, rows)
	}
	oldest := ""
	if s.OldestReadyAge != nil {
		oldest = ", the oldest for " + amount(time.Duration(*s.OldestReadyAge*float64(time.Second)))
	}
	fmt.Fprintf(a.out, "%d can be claimed%s; %d of %d leases are live\n", s.Claimable, oldest, s.LiveLeases, s.Quota)
	if s.Faults > 0 {
		fmt.Fprintf(a.out, "%s; `writ job reconcile` looks at them again\n", plural(s.Faults, "job is faulty", "jobs are faulty"))
	}
}
