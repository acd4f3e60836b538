package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/writ-authority/writ/gitrepo"
	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// maxRequest bounds what is read of a request, in bytes. The authority takes at
// most 256 KiB and says so itself.
const maxRequest = 1 << 20

// jobRequest is a request that is made of flags. Only members whose flags were
// given are in it, since the digests of a request cover it as it was sent.
type jobRequest struct {
	operation, repository, baseRef, baseSHA, key, request, session string
	lane, candidate, generation, correlation, configDigest         string
	group, class, concurrency, deadline, target, risk              string
	dependsOn, stages, labels, avoid                               []string
	priority, cpu, memory, disk, slots                             int
	allowPush, allowCleanup                                        bool
}

func (a *app) jobSubmit() *cobra.Command {
	var q jobRequest
	var attempts int
	var backoff time.Duration
	var requestFlags *pflag.FlagSet
	c := &cobra.Command{
		Use:   "submit [FILE]",
		Short: "Submit a job, at most once",
		Long: "Submit sends a request as it stands in a file, or on standard input for -, or makes one of\n" +
			"the flags. A request that was admitted before, known by its tenant and idempotency key, is\n" +
			"answered by the job that is there; with another content it is refused with the code\n" +
			"duplicate_request and changes nothing.\n\n" +
			"Of flags: base ref and commit are those of the checkout unless they are given. Without --key the\n" +
			"idempotency key is derived from everything else in the request, so that the same command on\n" +
			"the same commit finds the same job; --key NAME asks for another run. The request id is the key\n" +
			"and \":request\" unless it is given.",
		Example: "  writ job submit request.json\n" +
			"  writ job submit --operation build --priority 2\n" +
			"  writ job submit --operation merge --depends-on rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25 --key merge-7",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in := &workitem.SubmitInput{
				MaxAttempts: set(c, "max-attempts", attempts), BackoffBase: seconds(c, "backoff", backoff),
			}
			var err error
			if len(args) == 1 {
				requestFlags.VisitAll(func(f *pflag.Flag) {
					if f.Changed && err == nil {
						err = &usageError{fmt.Errorf("--%s and a file: the file is the whole request; leave one of them out", f.Name)}
					}
				})
				if err == nil {
					in.Request, err = a.readRequest(args[0])
				}
			} else {
				in.Request, err = a.makeRequest(c, &q)
			}
			if err != nil {
				return err
			}
			if a.serverURL() == "" {
				// A request that is refused anyway makes no store.
				if _, err := workitem.ParseRequest(in.Request, false); err != nil {
					return err
				}
			}
			return a.withNewJobs(c.Context(), func(jobs operation.Jobs) error {
				h, err := jobs.Submit(c.Context(), in)
				if err != nil {
					return err
				}
				return a.answer("writ.job-handle.v1", h, func() { a.showHandle(h) })
			})
		},
	}
	f := pflag.NewFlagSet("request", pflag.ContinueOnError)
	f.StringVar(&q.operation, "operation", "", "what the job does, such as build; see writ job kinds")
	f.StringVar(&q.repository, "repository", "", "id of the repository (default: the name of the checkout's directory)")
	f.StringVar(&q.baseRef, "base-ref", "", "branch that the job starts from (default: the one checked out)")
	f.StringVar(&q.baseSHA, "base-sha", "", "its commit, 40 hexadecimal digits (default: where base-ref stands)")
	f.StringVar(&q.key, "key", "", "idempotency key (default: derived from the request)")
	f.StringVar(&q.request, "request-id", "", "id of this request (default: the key and \":request\")")
	f.StringVar(&q.session, "session", "cli", "session of the submitter")
	f.StringSliceVar(&q.dependsOn, "depends-on", nil, "jobs that must succeed first")
	f.IntVar(&q.priority, "priority", 0, "0 to 10000, larger is more urgent")
	f.StringVar(&q.group, "fairness-group", "", "fairness group (default \"default\")")
	f.StringVar(&q.class, "resource-class", "", "resource class (default \"light-check\")")
	f.StringVar(&q.concurrency, "concurrency-key", "", "concurrency key (default \"light-check\")")
	f.StringVar(&q.deadline, "deadline", "", "time after which it must not be claimed, such as 2026-12-02T15:04:05Z")
	f.StringVar(&q.target, "target", "", "alias of the inventory entry to run on (default: local)")
	f.StringSliceVar(&q.labels, "label", nil, "labels that the host must have")
	f.StringSliceVar(&q.avoid, "avoid", nil, "anti-affinity: what must not run on the same host")
	f.IntVar(&q.cpu, "cpu-weight", 0, "1 to 1000 (default 1)")
	f.IntVar(&q.memory, "memory", 0, "MiB of memory (default 256)")
	f.IntVar(&q.disk, "disk", 0, "MiB of disk (default 256)")
	f.IntVar(&q.slots, "slots", 0, "process slots, 1 to 256 (default 1)")
	f.StringSliceVar(&q.stages, "stage", nil, "validation stages")
	f.StringVar(&q.lane, "lane", "", "id of the lane")
	f.StringVar(&q.candidate, "candidate", "", "id of the candidate")
	f.StringVar(&q.generation, "generation", "", "id of the generation")
	f.StringVar(&q.correlation, "correlation", "", "correlation id (default: the request id)")
	f.StringVar(&q.configDigest, "config-digest", "", "SHA-256 of the configuration, 64 hexadecimal digits")
	f.BoolVar(&q.allowPush, "allow-push", false, "consent to a push; needs --risk")
	f.BoolVar(&q.allowCleanup, "allow-destructive-cleanup", false, "consent to a cleanup that destroys; needs --risk")
	f.StringVar(&q.risk, "risk", "", "acknowledge the risk; the marker says which")
	requestFlags = f
	c.Flags().AddFlagSet(f)
	completes(c, "operation", operationNames())
	c.Flags().IntVar(&attempts, "max-attempts", 3, "attempts before the job becomes a dead letter, 1 to 100")
	c.Flags().DurationVar(&backoff, "backoff", 30*time.Second, "delay of the first retry, doubled for each further one")
	return c
}

// readRequest reads a request as it stands.
func (a *app) readRequest(file string) ([]byte, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err == nil && len(b) > maxRequest {
		err = &usageError{fmt.Errorf("%s is no request: it has more than %d bytes", file, maxRequest)}
	}
	return b, err
}

// makeRequest makes a request of flags.
func (a *app) makeRequest(c *cobra.Command, q *jobRequest) ([]byte, error) {
	if q.operation == "" {
		return nil, &usageError{errors.New("expected a file with a request, or --operation; see `writ job submit --help`")}
	}
	if err := a.complete(c.Context(), q); err != nil {
		return nil, err
	}
	tenant, owner, err := a.caller()
	if err != nil {
		return nil, err
	}
	request := map[string]any{
		"contract_version": "1", "operation": q.operation, "repository_id": q.repository, "base_ref": q.baseRef,
		"base_sha": q.baseSHA, "session_id": q.session, "tenant_id": tenant, "owner_id": owner,
	}
	resources, target, consent := map[string]any{}, map[string]any{}, map[string]any{}
	add := func(object map[string]any, flag, member string, value any) {
		if c.Flags().Changed(flag) {
			object[member] = value
		}
	}
	add(request, "depends-on", "dependencies", q.dependsOn)
	add(request, "priority", "priority", q.priority)
	add(request, "fairness-group", "fairness_group", q.group)
	add(request, "lane", "lane_id", q.lane)
	add(request, "candidate", "candidate_id", q.candidate)
	add(request, "generation", "generation_id", q.generation)
	add(request, "correlation", "correlation_id", q.correlation)
	add(request, "config-digest", "config_digest", q.configDigest)
	add(request, "stage", "validation_policy", map[string]any{"stages": q.stages})
	add(resources, "resource-class", "resource_class", q.class)
	add(resources, "concurrency-key", "concurrency_key", q.concurrency)
	add(resources, "deadline", "queue_deadline", q.deadline)
	add(resources, "label", "host_labels", q.labels)
	add(resources, "avoid", "anti_affinity", q.avoid)
	add(resources, "cpu-weight", "cpu_weight", q.cpu)
	add(resources, "memory", "memory_mib", q.memory)
	add(resources, "disk", "disk_mib", q.disk)
	add(resources, "slots", "process_slots", q.slots)
	add(target, "target", "kind", "inventory_alias")
	add(target, "target", "alias", q.target)
	add(consent, "allow-push", "allow_push", q.allowPush)
	add(consent, "allow-destructive-cleanup", "allow_destructive_cleanup", q.allowCleanup)
	add(consent, "risk", "risk_acknowledged", true)
	add(consent, "risk", "risk_marker", q.risk)
	for member, object := range map[string]map[string]any{"resources": resources, "target": target, "consent": consent} {
		if len(object) > 0 {
			request[member] = object
		}
	}
	if q.key == "" {
		b, err := json.Marshal(request) // its members are sorted
		if err != nil {
			return nil, err
		}
		q.key = fmt.Sprintf("cli:%.16x", sha256.Sum256(b))
	}
	if q.request == "" {
		q.request = q.key + ":request"
	}
	request["idempotency_key"], request["request_id"] = q.key, q.request
	return json.Marshal(request)
}

// complete fills in what the checkout knows.
func (a *app) complete(ctx context.Context, q *jobRequest) (err error) {
	if q.repository != "" && q.baseRef != "" && q.baseSHA != "" {
		return nil
	}
	git, err := gitrepo.Open(ctx, a.directory())
	if errors.Is(err, gitrepo.ErrNotRepository) {
		return &usageError{errors.New("outside of a checkout a job needs --repository, --base-ref and --base-sha")}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, git.Close()) }()
	if q.repository == "" {
		dir := strings.TrimSuffix(git.CommonDir(), string(filepath.Separator)+".git")
		q.repository = strings.TrimSuffix(filepath.Base(dir), ".git")
	}
	if q.baseRef == "" {
		head, err := git.Head(ctx)
		if err != nil {
			return err
		}
		if head.Branch == "" {
			return &usageError{errors.New("no branch is checked out; --base-ref says which one the job starts from")}
		}
		q.baseRef = head.Branch
	}
	if q.baseSHA == "" {
		id, err := git.ResolveCommit(ctx, q.baseRef)
		if err != nil {
			return err
		}
		q.baseSHA = string(id)
	}
	return nil
}

// showHandle prints what became of a submission.
func (a *app) showHandle(h *workitem.Handle) {
	happened := "new"
	if h.Deduplicated {
		happened = "known"
	}
	fmt.Fprintf(a.out, "%s  %s  %s\n", a.style.bold(h.JobID), a.style.stateCell(h.State), happened)
}
