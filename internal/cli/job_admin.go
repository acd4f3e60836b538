package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

func (a *app) jobCancel() *cobra.Command {
	var in workitem.CancelInput
	var idle bool
	c := &cobra.Command{
		Use:   "cancel JOB",
		Short: "Cancel a job, also one that somebody works on",
		Long: "Cancel ends a job that has not ended. A worker that holds it learns of it at its next\n" +
			"heartbeat. Cancelling it again changes nothing; a job that has ended otherwise is refused.\n" +
			"Jobs that wait for it go on waiting: `writ job list --blocked` finds them.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in.JobID = args[0]
			if idle {
				in.Mode = "if_idle"
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Cancel(c.Context(), &in)
				if err != nil {
					return err
				}
				return a.answer("writ.job-cancelled.v1", r, func() {
					happened := "it is cancelled"
					if !r.Changed {
						happened = "it was cancelled before"
					}
					fmt.Fprintf(a.out, "%s  %s\n", a.style.bold(r.Job.JobID), happened)
				})
			})
		},
	}
	c.Flags().StringVar(&in.Reason, "reason", "", "why, at most 512 bytes")
	c.Flags().BoolVar(&idle, "if-idle", false, "not while somebody holds a lease of it")
	return c
}

func (a *app) jobRetry() *cobra.Command {
	var adopt bool
	c := &cobra.Command{
		Use:   "retry JOB",
		Short: "Submit a job again that has failed, was cancelled or is a dead letter",
		Long: "Retry makes a new job of one that has ended without success; repeated, it finds the new one.\n" +
			"With --adopt the jobs that wait for the old one wait for the new one instead, and are released\n" +
			"by its success.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Retry(c.Context(), &workitem.RetryInput{JobID: args[0], Adopt: adopt})
				if err != nil {
					return err
				}
				return a.answer("writ.job-retry.v1", r, func() {
					a.showHandle(&r.Handle)
					fmt.Fprintf(a.out, "  instead of %s\n", publicID(r.RetryOf))
					if adopt {
						fmt.Fprintf(a.out, "  %s for it\n", plural(r.Adopted, "job more waits", "jobs more wait"))
					}
				})
			})
		},
	}
	c.Flags().BoolVar(&adopt, "adopt", false, "jobs that wait for the old one wait for the new one")
	return c
}

func (a *app) jobConsent() *cobra.Command {
	verb := func(action, use, short string, args int) *cobra.Command {
		return &cobra.Command{
			Use:   use,
			Short: short,
			Args:  cobra.ExactArgs(args),
			RunE: func(c *cobra.Command, args []string) error {
				in := &workitem.ConsentInput{JobID: args[0], Action: action}
				if len(args) == 2 {
					in.ExpiresAt = &args[1]
				}
				return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
					s, err := jobs.Consent(c.Context(), in)
					if err != nil {
						return err
					}
					return a.answer("writ.job-consent.v1", s, func() { a.showConsent(s) })
				})
			},
		}
	}
	c := group("consent", "Take the consent of a gated job back, restore it, or let it end",
		verb("revoke", "revoke JOB", "Take the consent back: nobody can claim the job or renew its lease", 1),
		verb("restore", "restore JOB", "Give the consent again, without an end", 1),
		verb("expire_at", "expire-at JOB TIME", "Let the consent end at a time, such as 2026-12-02T15:04:05Z", 2))
	return c
}

func (a *app) showConsent(s *workitem.ConsentState) {
	now := time.Now()
	rows := [][]string{{"  for", line(s.Scope) + " on " + line(s.Subject)}, {"  because", line(s.Basis)}}
	if s.GrantedAt != nil {
		rows = append(rows, []string{"  given", when(*s.GrantedAt, now)})
	}
	if s.ExpiresAt != nil {
		rows = append(rows, []string{"  ends", when(*s.ExpiresAt, now)})
	}
	fmt.Fprintf(a.out, "%s  the consent is %s\n", a.style.bold(publicID(s.JobID)), s.State)
	table(a.out, rows)
}

func (a *app) jobReconcile() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare every waiting job with its parents and mend what differs",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Reconcile(c.Context(), &workitem.ReconcileInput{Limit: set(c, "limit", limit)})
				if err != nil {
					return err
				}
				return a.answer("writ.job-reconciled.v1", r, func() {
					fmt.Fprintf(a.out, "%s looked at, %d mended, %d faulty\n", plural(r.Scanned, "waiting job", "waiting jobs"), r.Repaired, r.Faults)
				})
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 100, "jobs a page, 1 to 1000; the pass always reaches the end")
	return c
}

func (a *app) jobPrune() *cobra.Command {
	var older time.Duration
	var dry bool
	c := &cobra.Command{
		Use:   "prune --older-than DURATION",
		Short: "Drop jobs that have ended long ago",
		Long: "Prune drops jobs that ended longer ago than --older-than, but none that a job still waits for.\n" +
			"What remains of one is enough to answer its submission again, so that nothing runs twice.",
		Example: "  writ job prune --older-than 720h --dry-run",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("older-than") {
				return &usageError{errors.New("--older-than is required, such as 720h for thirty days")}
			}
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.Prune(c.Context(), &workitem.PruneInput{OlderThan: older.Seconds(), DryRun: dry})
				if err != nil {
					return err
				}
				return a.answer("writ.job-pruned.v1", r, func() {
					happened := "dropped"
					if dry {
						happened = "would be dropped"
					}
					fmt.Fprintf(a.out, "%s %s", plural(r.Pruned, "job", "jobs"), happened)
					if r.Kept > 0 {
						fmt.Fprintf(a.out, "; %d stay, since others wait for them", r.Kept)
					}
					fmt.Fprintln(a.out)
				})
			})
		},
	}
	c.Flags().DurationVar(&older, "older-than", 0, "how long ago they ended, such as 720h")
	c.Flags().BoolVar(&dry, "dry-run", false, "only count")
	return c
}

func (a *app) jobBumpEpoch() *cobra.Command {
	return &cobra.Command{
		Use:   "bump-epoch",
		Short: "Make every lease worthless that was handed out before, after a restore of the jobs",
		Long: "Bump-epoch is for jobs that were restored to an earlier state: since the backup leases may have been\n" +
			"handed out of which nothing is known any more. It raises the authority epoch of all jobs of all tenants.\n" +
			"Every worker's lease from before is refused, every job that somebody held can be claimed at once, with\n" +
			"a fence that was never handed out, and listings begin anew. Nothing is asked and nothing is lost but\n" +
			"the work of the attempts that were under way. Raise it before workers call the restored jobs.\n" +
			"writ backup restore has done it already; a database that its own tools have restored needs it.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withJobs(c.Context(), func(jobs operation.Jobs) error {
				r, err := jobs.RaiseEpoch(c.Context(), &workitem.NoInput{})
				if err != nil {
					return err
				}
				return a.answer("writ.job-epoch.v1", r, func() {
					fmt.Fprintf(a.out, "the authority epoch was %d and is %d: leases, cursors and claim request ids from before are refused,\n"+
						"and every job that was held can be claimed again\n", r.Previous, r.Epoch)
				})
			})
		},
	}
}
