package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
)

// tokenVariable is where a worker passes the token of its lease without showing
// it to whoever lists the processes.
const tokenVariable = "WRIT_LEASE_TOKEN"

func (a *app) queue() *cobra.Command {
	return a.noun("queue", "List the CI jobs of repositories, queue them, and work on them as a worker does", func(r *records) []*cobra.Command {
		return []*cobra.Command{
			r.queueList(), r.queueShow(), r.queueEnqueue(), r.queueHeartbeat(), r.queueComplete(), r.queueFail(),
		}
	}, a.queueClaim(), a.queueExpire())
}

// jobRow is one job as JSON.
type jobRow struct {
	Repository   uint32    `json:"repository_index"`
	Index        uint32    `json:"worker_job_index"`
	Kind         uint8     `json:"job_kind"`
	Type         string    `json:"job_type"`
	StateKind    uint8     `json:"state_kind"`
	State        string    `json:"state"`
	OutcomeKind  uint8     `json:"outcome_kind"`
	Outcome      string    `json:"outcome"`
	ErrorKind    uint16    `json:"error_kind"`
	Error        string    `json:"error"`
	Attempts     uint16    `json:"attempt_count"`
	MaxAttempts  uint16    `json:"max_attempts"`
	RetryPending bool      `json:"retry_pending"`
	Patchset     *uint32   `json:"patchset_index,omitempty"`
	Snapshot     *uint32   `json:"snapshot_index,omitempty"`
	AvailableAtS uint64    `json:"available_at_s"`
	LockedAtS    uint64    `json:"locked_at_s"`
	CreatedAtS   uint64    `json:"created_at_s"`
	UpdatedAtS   uint64    `json:"updated_at_s"`
	Tombstoned   bool      `json:"tombstoned"`
	PatchsetCI   *jobCI    `json:"patchset_ci,omitempty"`
	Lease        *leaseRow `json:"lease,omitempty"`
	patchsetName string
}

// jobCI is what the patchset of a patchset.ci job says about its CI.
type jobCI struct {
	Patchset         uint32  `json:"patchset_index"`
	Job              *uint32 `json:"ci_worker_job_index,omitempty"`
	RunSeq           uint32  `json:"ci_run_seq"`
	CompletedAtS     uint64  `json:"ci_completed_at_s"`
	Selected         uint16  `json:"selected_suite_count"`
	Results          uint16  `json:"suite_result_count"`
	BlockingFailures uint16  `json:"blocking_failure_count"`
	Overall          string  `json:"overall_status"`
	Tests            string  `json:"tests_status"`
	Lint             string  `json:"lint_status"`
}

// leaseRow is the live lease of a job. The token is there only in the answer to
// the claim.
type leaseRow struct {
	Attempt    uint16 `json:"attempt_count"`
	HeartbeatS uint64 `json:"heartbeat_at_s"`
	ExpiresAtS uint64 `json:"lease_expires_at_s"`
	Request    string `json:"claim_request_id,omitempty"`
	Token      string `json:"lease_token,omitempty"`
}

func leaseRowOf(l authority.Lease) *leaseRow {
	row := &leaseRow{Attempt: l.Attempt, HeartbeatS: uint64(l.Heartbeat), ExpiresAtS: uint64(l.ExpiresAt)}
	if l.Request != (authority.RequestID{}) {
		row.Request = l.Request.String()
	}
	return row
}

func refIndex(r record.Ref) *uint32 {
	if i, ok := r.Index(); ok {
		return &i
	}
	return nil
}

// jobRowOf reads what belongs to a job.
func jobRowOf(v *authority.View, repository uint32, j *authority.Job) (*jobRow, error) {
	row := &jobRow{
		Repository: repository, Index: j.Index, Kind: uint8(j.Kind), Type: j.Kind.String(),
		StateKind: uint8(j.State), State: j.State.String(), OutcomeKind: uint8(j.Outcome), Outcome: j.Outcome.String(),
		ErrorKind: uint16(j.Error), Error: j.Error.String(), Attempts: j.Attempts, MaxAttempts: j.MaxAttempts,
		RetryPending: j.State == record.JobStateQueued && j.Attempts > 0,
		Patchset:     refIndex(j.Patchset), Snapshot: refIndex(j.Snapshot),
		AvailableAtS: uint64(j.AvailableAt), LockedAtS: uint64(j.LockedAt), CreatedAtS: uint64(j.CreatedAt), UpdatedAtS: uint64(j.UpdatedAt),
		Tombstoned: j.Meta.Tombstoned(),
	}
	if row.Patchset != nil {
		p, err := v.Patchset(*row.Patchset)
		if err != nil {
			return nil, err
		}
		row.patchsetName = p.ID.String()
		if j.Kind == record.JobKindPatchsetCI {
			row.PatchsetCI = &jobCI{
				Patchset: p.Index, Job: refIndex(p.CIJob), RunSeq: p.CIRunSeq, CompletedAtS: uint64(p.CICompletedAt),
				Selected: p.CISelectedSuites, Results: p.CISuiteResults, BlockingFailures: p.CIBlockingFailures,
				Overall: p.CIStatus.Overall().String(), Tests: p.CIStatus.Tests().String(), Lint: p.CIStatus.Lint().String(),
			}
		}
	}
	if l, ok, err := v.LeaseOf(j, record.Seconds(time.Now().Unix())); err != nil {
		return nil, err
	} else if ok {
		row.Lease = leaseRowOf(l)
	}
	return row, nil
}

// label names the job.
func (j *jobRow) label() string { return record.JobLabel(j.Repository, j.Index) }

// about is what the job works on.
func (j *jobRow) about() string {
	switch {
	case j.patchsetName != "":
		return j.patchsetName
	case j.Snapshot != nil:
		return fmt.Sprint("snapshot ", *j.Snapshot)
	}
	return "-"
}

// condition is the state for people.
func (j *jobRow) condition() string {
	switch {
	case j.State == record.JobStateSucceeded.String():
		return j.Outcome
	case j.Error != record.JobErrorNone.String() && j.State != record.JobStateRunning.String():
		return fmt.Sprintf("%s (%s)", j.State, j.Error)
	}
	return j.State
}

// jobDoc is writ.job.v1.
type jobDoc struct {
	Schema  string  `json:"schema"`
	Epoch   uint64  `json:"epoch"`
	Created *bool   `json:"created,omitempty"`
	Job     *jobRow `json:"job"`
}

// printJob prints a job as it is now, for people below what has happened to it.
func (r *records) printJob(ctx context.Context, repo *authority.Repository, index uint32, created *bool, happened string) error {
	d := jobDoc{Schema: "writ.job.v1", Epoch: repo.Epoch(), Created: created}
	err := repo.View(ctx, func(v *authority.View) error {
		j, err := v.Job(index)
		if err == nil {
			d.Job, err = jobRowOf(v, repo.Info().Index, &j)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.print(d, func() { r.showJob(d.Job, happened) })
}

func (a *app) showJob(j *jobRow, happened string) {
	if happened != "" {
		fmt.Fprintf(a.out, "job %s: %s\n", j.label(), happened)
	}
	rows := [][]string{
		{"job", j.label()},
		{"type", j.Type},
		{"about", j.about()},
		{"state", j.condition()},
		{"attempts", fmt.Sprintf("%d of %d", j.Attempts, j.MaxAttempts)},
		{"available", record.Seconds(j.AvailableAtS).String()},
		{"created", record.Seconds(j.CreatedAtS).String()},
		{"updated", record.Seconds(j.UpdatedAtS).String()},
	}
	if ci := j.PatchsetCI; ci != nil && ci.CompletedAtS != 0 {
		rows = append(rows, []string{"evidence", fmt.Sprintf("%s; tests %s, lint %s; %d of %d suites, %d blocking failures",
			ci.Overall, ci.Tests, ci.Lint, ci.Results, ci.Selected, ci.BlockingFailures)})
	}
	if l := j.Lease; l != nil {
		rows = append(rows, []string{"lease", "until " + record.Seconds(l.ExpiresAtS).String()})
		if l.Token != "" {
			rows = append(rows, []string{"token", l.Token})
		}
	}
	table(a.out, rows)
}

// onJob opens the Repository of the job that text names: its index, or
// REPOSITORY/INDEX.
func (r *records) onJob(ctx context.Context, text string, fn func(*authority.Repository, uint32) error) error {
	repository, job, both := strings.Cut(text, "/")
	if !both {
		repository, job = r.index, text
	} else if r.index != "" && r.index != repository {
		return &usageError{fmt.Errorf("job %q is not of the repository that --repository names", text)}
	}
	i, ok := parseIndex(job)
	if !ok {
		return &usageError{fmt.Errorf("job %q: expected its index, such as 7, or repository and index, such as 4/7", text)}
	}
	return r.withRepository(ctx, repository, func(repo *authority.Repository) error { return fn(repo, i) })
}

// jobKind reads the name of a kind.
func jobKind(s string) (record.JobKind, error) {
	k, err := record.ParseJobKind(s)
	if err != nil {
		return 0, &usageError{fmt.Errorf("--kind: %w", err)}
	}
	return k, nil
}

// jobsDoc is writ.jobs.v1.
type jobsDoc struct {
	Schema     string    `json:"schema"`
	Epoch      uint64    `json:"epoch"`
	Repository uint32    `json:"repository_index"`
	Queue      *queueDoc `json:"queue"`
	Jobs       []*jobRow `json:"jobs"`
	Count      int       `json:"count"`
}

// queueDoc counts the jobs of a repository.
type queueDoc struct {
	Queued    uint32 `json:"queued"`
	Ready     uint32 `json:"ready"`
	Running   uint32 `json:"running"`
	Succeeded uint32 `json:"succeeded"`
	Failed    uint32 `json:"failed"`
	OldestS   uint64 `json:"oldest_available_at_s,omitempty"`
}

func (r *records) queueList() *cobra.Command {
	var state, kind string
	var before uint32
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List the jobs of a repository, newest first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f := authority.JobFilter{Limit: limit, Before: before}
			var err error
			if state != "" {
				if f.State, err = record.ParseJobState(state); err != nil {
					return &usageError{fmt.Errorf("--state: %w", err)}
				}
			}
			if kind != "" {
				if f.Kind, err = jobKind(kind); err != nil {
					return err
				}
			}
			return r.withRepository(c.Context(), r.index, func(repo *authority.Repository) error {
				d := jobsDoc{Schema: "writ.jobs.v1", Epoch: repo.Epoch(), Repository: repo.Info().Index, Jobs: []*jobRow{}}
				err := repo.View(c.Context(), func(v *authority.View) error {
					s, err := v.QueueStats(record.Seconds(time.Now().Unix()))
					if err != nil {
						return err
					}
					d.Queue = &queueDoc{s.Queued, s.Ready, s.Running, s.Succeeded, s.Failed, uint64(s.Oldest)}
					list, err := v.Jobs(f)
					if err != nil {
						return err
					}
					d.Jobs = d.Jobs[:0]
					for i := range list {
						row, err := jobRowOf(v, d.Repository, &list[i])
						if err != nil {
							return err
						}
						d.Jobs = append(d.Jobs, row)
					}
					return nil
				})
				if err != nil {
					return err
				}
				d.Count = len(d.Jobs)
				return r.print(d, func() {
					rows := [][]string{{"JOB", "TYPE", "STATE", "ATTEMPTS", "AVAILABLE", "ABOUT"}}
					for _, j := range d.Jobs {
						rows = append(rows, []string{
							j.label(), j.Type, j.condition(), fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts),
							record.Seconds(j.AvailableAtS).String(), j.about(),
						})
					}
					table(r.out, rows)
					fmt.Fprintf(r.out, "%d queued (%d ready), %d running, %d succeeded, %d failed\n",
						d.Queue.Queued, d.Queue.Ready, d.Queue.Running, d.Queue.Succeeded, d.Queue.Failed)
				})
			})
		},
	}
	f := c.Flags()
	f.StringVar(&state, "state", "", "only those that are queued, running, succeeded or failed")
	f.StringVar(&kind, "kind", "", "only those of a type, such as repo.ci")
	f.Uint32Var(&before, "before", 0, "only those before this index, to go on after the last one listed")
	limitFlag(c, &limit)
	return c
}

func (r *records) queueShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show JOB",
		Short: "Show one job",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.onJob(c.Context(), args[0], func(repo *authority.Repository, index uint32) error {
				return r.printJob(c.Context(), repo, index, nil, "")
			})
		},
	}
}

func (r *records) queueEnqueue() *cobra.Command {
	var patchset, snapshot, outcome string
	var after time.Duration
	var attempts uint16
	c := &cobra.Command{
		Use:   "enqueue TYPE",
		Short: "Queue a job",
		Long: "Enqueue queues a job. content.gc, content.optimize, content.pack and reconcile.repo are\n" +
			"about the repository; land.process, patchset.ci, patchset.ci.aggregate and policy.evaluate\n" +
			"need --patchset, repo.ci needs --snapshot, and main-seed.refresh takes both. A patchset.ci\n" +
			"job is not queued while another one of the patchset is queued or running.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			kind, err := record.ParseJobKind(args[0])
			if err != nil {
				return &usageError{err}
			}
			s := authority.JobSpec{Kind: kind, MaxAttempts: attempts}
			if outcome != "" {
				if s.Outcome, err = record.ParseJobOutcome(outcome); err != nil {
					return &usageError{fmt.Errorf("--outcome: %w", err)}
				}
			}
			if c.Flags().Changed("max-attempts") && attempts == 0 {
				return &usageError{fmt.Errorf("--max-attempts: expected a positive number")}
			}
			if after < 0 {
				return &usageError{fmt.Errorf("--after: expected a positive duration such as 10m")}
			}
			return r.withRepository(c.Context(), r.index, func(repo *authority.Repository) error {
				var index uint32
				var created bool
				err := repo.Update(c.Context(), func(tx *authority.Tx) error {
					if patchset != "" {
						i, err := find(&tx.View, patchset, record.ObjectPatchset)
						if err != nil {
							return err
						}
						s.Patchset = record.RefTo(i)
					}
					if snapshot != "" {
						i, err := find(&tx.View, snapshot, record.ObjectSnapshot)
						if err != nil {
							return err
						}
						s.Snapshot = record.RefTo(i)
					}
					s.AvailableAt = tx.Now() + record.Seconds((after+time.Second-1)/time.Second)
					var err error
					index, created, err = tx.Enqueue(s)
					return err
				})
				if err != nil {
					return err
				}
				happened := "queued"
				if created && s.Outcome != 0 {
					happened = "recorded as ended"
				}
				if !created {
					happened = "it was queued or running already"
				}
				return r.printJob(c.Context(), repo, index, &created, happened)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&patchset, "patchset", "", "patchset that the job is about, such as T-0001/C-01/P-01")
	f.StringVar(&snapshot, "snapshot", "", "snapshot that the job is about, such as SNP-0123456789AB")
	f.DurationVar(&after, "after", 0, "how long it waits before it may be claimed, such as 10m")
	f.Uint16Var(&attempts, "max-attempts", 0, "how often it may be claimed (default: 3)")
	f.StringVar(&outcome, "outcome", "", "record it as ended without having run: attached, skipped or superseded")
	return c
}

// claimDoc is writ.claim.v1.
type claimDoc struct {
	Schema     string  `json:"schema"`
	Epoch      uint64  `json:"epoch"`
	Claimed    bool    `json:"claimed"`
	Repository string  `json:"repository_name,omitempty"`
	Job        *jobRow `json:"job,omitempty"`
}

func (a *app) queueClaim() *cobra.Command {
	var kinds, repositories []string
	var request string
	c := &cobra.Command{
		Use:   "claim [JOB]",
		Short: "Take a job to work on it",
		Long: "Claim takes a job and prints the token of its lease, which the other commands of a worker\n" +
			"need: keep it secret and pass it in " + tokenVariable + ". Without JOB, which is the index of a\n" +
			"job and its repository, such as 4/7, it takes the one that has waited longest in any\n" +
			"repository. The same --request gets the same lease again while it holds.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f := authority.ClaimFilter{}
			for _, s := range kinds {
				k, err := jobKind(s)
				if err != nil {
					return err
				}
				f.Kinds = append(f.Kinds, k)
			}
			for _, s := range repositories {
				i, ok := parseIndex(s)
				if !ok {
					return &usageError{fmt.Errorf("--repository %q: expected the index of a repository, such as 4", s)}
				}
				f.Repositories = append(f.Repositories, i)
			}
			if request != "" {
				var err error
				if f.Request, err = authority.ParseRequestID(request); err != nil {
					return &usageError{fmt.Errorf("--request: %w", err)}
				}
			}
			return a.withAuthority(c.Context(), func(au *authority.Authority) error {
				for _, i := range f.Repositories { // a typing error would wait for ever
					if _, err := au.RepositoryInfo(c.Context(), i); err != nil {
						return err
					}
				}
				got, ok, err := a.claim(c.Context(), au, f, args)
				if err != nil {
					return err
				}
				d := claimDoc{Schema: "writ.claim.v1", Epoch: au.Epoch(), Claimed: ok}
				if ok {
					info := got.Repository.Info()
					d.Repository = info.Name
					err = got.Repository.View(c.Context(), func(v *authority.View) error {
						d.Job, err = jobRowOf(v, info.Index, &got.Job)
						return err
					})
					if err != nil {
						return err
					}
					d.Job.Lease = leaseRowOf(got.Lease)
					d.Job.Lease.Token = got.Lease.Token.Hex()
				}
				return a.print(d, func() {
					if !ok {
						fmt.Fprintln(a.out, "nothing to claim")
						return
					}
					a.showJob(d.Job, "claimed")
				})
			})
		},
	}
	f := c.Flags()
	f.StringArrayVar(&kinds, "kind", nil, "take only jobs of this type, such as repo.ci; may be repeated")
	f.StringArrayVar(&repositories, "repository", nil, "take only jobs of the repository with this index; may be repeated")
	f.StringVar(&request, "request", "", "id of the claim, 32 hexadecimal digits")
	return c
}

// claim takes the job that args name, or the next one.
func (a *app) claim(ctx context.Context, au *authority.Authority, f authority.ClaimFilter, args []string) (got authority.Claimed, ok bool, err error) {
	if len(args) == 0 {
		return au.ClaimNext(ctx, f)
	}
	repository, job, both := strings.Cut(args[0], "/")
	if !both && len(f.Repositories) == 1 {
		repository, job = strconv.FormatUint(uint64(f.Repositories[0]), 10), args[0]
	}
	ri, okR := parseIndex(repository)
	ji, okJ := parseIndex(job)
	switch {
	case len(f.Kinds) > 0:
		return got, false, &usageError{errors.New("--kind is for a claim of whatever job is next")}
	case !okR || !okJ:
		return got, false, &usageError{fmt.Errorf("job %q: expected repository and index, such as 4/7", args[0])}
	case len(f.Repositories) > 0 && !slices.Contains(f.Repositories, ri):
		return got, false, &usageError{fmt.Errorf("job %q is not of a repository that --repository names", args[0])}
	}
	if got.Repository, err = au.Repository(ctx, ri); err != nil {
		return got, false, err
	}
	if got.Lease, err = got.Repository.ClaimJob(ctx, ji, f.Request); err != nil {
		return got, false, err
	}
	err = got.Repository.View(ctx, func(v *authority.View) error {
		got.Job, err = v.Job(ji)
		return err
	})
	return got, err == nil, err
}

// expiredDoc is writ.expired.v1.
type expiredDoc struct {
	Schema  string `json:"schema"`
	Epoch   uint64 `json:"epoch"`
	Expired int    `json:"expired"`
}

func (a *app) queueExpire() *cobra.Command {
	return &cobra.Command{
		Use:   "expire",
		Short: "Give back the jobs whose workers are gone",
		Long: "Expire queues the running jobs of all repositories again whose leases have expired, or\n" +
			"fails them when their attempts are used. A claim does the same before it chooses.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withAuthority(c.Context(), func(au *authority.Authority) error {
				n, err := au.ExpireLeases(c.Context())
				if err != nil {
					return err
				}
				d := expiredDoc{"writ.expired.v1", au.Epoch(), n}
				return a.print(d, func() { fmt.Fprintf(a.out, "%d given back\n", n) })
			})
		},
	}
}

// holder is a command about a job that the caller holds.
type holder struct {
	*records
	token   string
	attempt uint16
}

func (r *records) worker(c *cobra.Command, verb func(ctx context.Context, repo *authority.Repository, l authority.Lease) (string, error)) *cobra.Command {
	w := &holder{records: r}
	c.Use += " JOB"
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		token, err := w.leaseToken()
		if err != nil {
			return err
		}
		return w.onJob(c.Context(), args[0], func(repo *authority.Repository, index uint32) error {
			l := authority.Lease{Job: index, Attempt: w.attempt, Token: token}
			if l.Attempt == 0 {
				err := repo.View(c.Context(), func(v *authority.View) error {
					j, err := v.Job(index)
					l.Attempt = j.Attempts
					return err
				})
				if err != nil {
					return err
				}
			}
			happened, err := verb(c.Context(), repo, l)
			if err != nil {
				return err
			}
			return w.printJob(c.Context(), repo, index, nil, happened)
		})
	}
	f := c.Flags()
	f.StringVar(&w.token, "token", "", "token of the lease; others can see it while the command runs, unlike "+tokenVariable)
	f.Uint16Var(&w.attempt, "attempt", 0, "attempt that was claimed (default: the present one)")
	return c
}

func (w *holder) leaseToken() (authority.LeaseToken, error) {
	s := w.token
	if s == "" {
		s = os.Getenv(tokenVariable)
	}
	if s == "" {
		return authority.LeaseToken{}, &usageError{errors.New("the token of the lease is missing; set " + tokenVariable + " or --token to what the claim has printed")}
	}
	t, err := authority.ParseLeaseToken(s)
	if err != nil {
		return t, &usageError{err}
	}
	return t, nil
}

func (r *records) queueHeartbeat() *cobra.Command {
	return r.worker(&cobra.Command{Use: "heartbeat", Short: "Say that you are still working on a job"},
		func(ctx context.Context, repo *authority.Repository, l authority.Lease) (string, error) {
			_, err := repo.HeartbeatJob(ctx, l)
			return "the lease goes on", err
		})
}

func (r *records) queueComplete() *cobra.Command {
	var skipped bool
	var ev authority.Evidence
	var overall, tests, lint string
	c := r.worker(&cobra.Command{
		Use:   "complete",
		Short: "Report that a job is done",
		Long: "Complete ends a job as done, or as skipped. For a patchset.ci job --overall and the counts\n" +
			"are its evidence; a job whose patchset has another one by now is recorded as superseded,\n" +
			"and its evidence is not kept.",
	}, func(ctx context.Context, repo *authority.Repository, l authority.Lease) (string, error) {
		result := authority.JobResult{Outcome: record.JobOutcomeCompleted}
		if skipped {
			result.Outcome = record.JobOutcomeSkipped
		}
		if overall != "" {
			for _, x := range []struct {
				flag, value string
				to          *record.CIStatus
			}{{"overall", overall, &ev.Overall}, {"tests", tests, &ev.Tests}, {"lint", lint, &ev.Lint}} {
				status, err := record.ParseCIStatus(x.value)
				if err != nil {
					return "", &usageError{fmt.Errorf("--%s: %w", x.flag, err)}
				}
				*x.to = status
			}
			result.Evidence = &ev
		}
		outcome, err := repo.CompleteJob(ctx, l, result)
		return outcome.String(), err
	})
	f := c.Flags()
	f.BoolVar(&skipped, "skipped", false, "there was nothing to do")
	f.StringVar(&overall, "overall", "", "evidence: pass, fail or error")
	f.StringVar(&tests, "tests", "none", "evidence of the tests: none, pass, fail or error")
	f.StringVar(&lint, "lint", "none", "evidence of the lint suites: none, pass, fail or error")
	f.Uint16Var(&ev.Selected, "selected", 0, "how many suites were chosen")
	f.Uint16Var(&ev.Results, "results", 0, "how many have a result")
	f.Uint16Var(&ev.BlockingFailures, "blocking-failures", 0, "how many blocking ones did not pass")
	return c
}

func (r *records) queueFail() *cobra.Command {
	var retryable bool
	c := r.worker(&cobra.Command{
		Use:   "fail",
		Short: "Report that a job could not be done",
	}, func(ctx context.Context, repo *authority.Repository, l authority.Lease) (string, error) {
		if err := repo.FailJob(ctx, l, retryable); err != nil {
			return "", err
		}
		happened := "failed"
		err := repo.View(ctx, func(v *authority.View) error {
			j, err := v.Job(l.Job)
			if j.State == record.JobStateQueued {
				happened = "queued again"
			}
			return err
		})
		return happened, err
	})
	c.Flags().BoolVar(&retryable, "retryable", false, "queue it again, if it has attempts left")
	return c
}
