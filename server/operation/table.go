package operation

import (
	"context"
	"net/http"
	"reflect"

	"github.com/writ-authority/writ/workitem"
)

// CopyPath is where the person who runs a server gets a copy of its jobs, for backups. It
// is no operation: what it sends is read by the same version only.
const CopyPath = "/local/copy"

// Operation is one verb as every surface presents it.
type Operation struct {
	// Name is the verb's name as a tool and as the id of a REST operation.
	Name string
	// Group is one of the Groups.
	Group string
	// Method and Path place the verb in REST. A path has at most the one wildcard
	// {id}.
	Method, Path string
	// Scope is what a caller must hold.
	Scope workitem.Scope

	ReadOnly    bool // changes nothing
	Idempotent  bool // repeated with the same input it has no further effect
	Destructive bool // takes something away that can't be given back

	Summary     string // one line
	Description string // what else a caller should know

	// Success are the statuses that answer it in REST: 201 if it made something.
	Success []int
	// Refusals are the codes that are peculiar to it, apart from those that any
	// call may get.
	Refusals []workitem.Code

	// In and Out are the struct types of input and answer.
	In, Out reflect.Type
	// Fields are the members of the input, in their order.
	Fields []Field

	arguments []Field
	input     func() any
	call      func(context.Context, Jobs, any) (any, error)
}

// Groups are the headings under which the operations are shown.
var Groups = []struct{ Name, Description string }{
	{"jobs", "Submit jobs and see what becomes of them."},
	{"work", "Claim jobs, keep their leases and end their attempts."},
	{"operation", "Run the authority: consent, reconciliation, retention, counts."},
	{"tokens", "Make, list and revoke static tokens."},
}

// NewInput gives a pointer to an empty input.
func (o *Operation) NewInput() any { return o.input() }

// Call runs the verb. The input is a pointer as NewInput gives it; the answer is a
// pointer to Out.
func (o *Operation) Call(ctx context.Context, jobs Jobs, in any) (any, error) {
	return o.call(ctx, jobs, in)
}

// HasBody says whether the operation takes a request body in REST.
func (o *Operation) HasBody() bool {
	for _, f := range o.Fields {
		if f.Place == Body || f.Place == Whole {
			return true
		}
	}
	return false
}

// BodyRequired says whether the request body may not be left out.
func (o *Operation) BodyRequired() bool {
	for _, f := range o.Fields {
		if f.Place == Whole || f.Place == Body && f.Required {
			return true
		}
	}
	return false
}

// row completes an Operation from the method of Jobs that runs it.
func row[In, Out any](call func(Jobs, context.Context, *In) (*Out, error), o Operation) *Operation {
	o.In, o.Out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	o.Fields = fieldsOf(o.In)
	o.arguments = argumentsOf(o.Fields)
	o.input = func() any { return new(In) }
	o.call = func(ctx context.Context, jobs Jobs, in any) (any, error) {
		out, err := call(jobs, ctx, in.(*In))
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	if o.Success == nil {
		o.Success = []int{http.StatusOK}
	}
	return &o
}

var (
	made       = []int{http.StatusCreated}
	madeOrSame = []int{http.StatusOK, http.StatusCreated}
	fenced     = []workitem.Code{workitem.NotFound, workitem.StaleFence, workitem.ClaimMismatch}
	renewing   = append([]workitem.Code{workitem.ConsentDenied}, fenced...)
	one        = []workitem.Code{workitem.NotFound}
)

// Table has every operation.
var Table = []*Operation{
	row(Jobs.Submit, Operation{
		Name: "job_submit", Group: "jobs", Method: http.MethodPost, Path: "/v1/jobs",
		Scope: workitem.ScopeWrite, Idempotent: true, Success: madeOrSame,
		Refusals:    []workitem.Code{workitem.UnauthorizedTarget, workitem.DuplicateRequest, workitem.DependencyUnavailable},
		Summary:     "Submit a job",
		Description: "Admits the request exactly once per tenant and idempotency key. The same request again is answered with the job that is there and deduplicated true; the key with other input is refused, and differs says in what. Nothing is answered before the job is durable.",
	}),
	row(Jobs.List, Operation{
		Name: "job_list", Group: "jobs", Method: http.MethodGet, Path: "/v1/jobs",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true,
		Refusals:    []workitem.Code{workitem.UnauthorizedTarget},
		Summary:     "List jobs, oldest first",
		Description: "Filters narrow the list together. next_cursor continues behind the last row that was looked at, whether it matched or not; it is null when the list is exhausted.",
	}),
	row(Jobs.Get, Operation{
		Name: "job_get", Group: "jobs", Method: http.MethodGet, Path: "/v1/jobs/{id}",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true, Refusals: one,
		Summary:     "Read a job",
		Description: "With wait_s and until=terminal the answer comes when the job has ended or the time is over, whichever is first.",
	}),
	row(Jobs.Result, Operation{
		Name: "job_result", Group: "jobs", Method: http.MethodGet, Path: "/v1/jobs/{id}/result",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true,
		Refusals:    []workitem.Code{workitem.NotFound, workitem.InvalidState},
		Summary:     "Read how a job ended",
		Description: "Refused with invalid_state_combination before the end.",
	}),
	row(Jobs.Explain, Operation{
		Name: "job_explain", Group: "jobs", Method: http.MethodGet, Path: "/v1/jobs/{id}/diagnostics",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true, Refusals: one,
		Summary:     "Explain why a job can or can't be claimed",
		Description: "why_not has the reasons in the order in which a claim meets them. The quota of the tenant is reported apart. downstream names at most 100 jobs that depend on it; downstream_truncated says that there are more.",
	}),
	row(Jobs.History, Operation{
		Name: "job_history", Group: "jobs", Method: http.MethodGet, Path: "/v1/jobs/{id}/history",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true, Refusals: one,
		Summary:     "List what happened to a job",
		Description: "Every change of status, oldest first. Plain heartbeats are not among them.",
	}),
	row(Jobs.Graph, Operation{
		Name: "job_graph", Group: "jobs", Method: http.MethodGet, Path: "/v1/jobs/{id}/graph",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true, Refusals: one,
		Summary:     "Show what a job depends on and what depends on it",
		Description: "truncated is true if the graph has more jobs than limit.",
	}),
	row(Jobs.Cancel, Operation{
		Name: "job_cancel", Group: "jobs", Method: http.MethodPost, Path: "/v1/jobs/{id}/cancel",
		Scope: workitem.ScopeWrite, Idempotent: true, Destructive: true,
		Refusals:    []workitem.Code{workitem.NotFound, workitem.InvalidState, workitem.InFlight},
		Summary:     "Cancel a job",
		Description: "A job that is cancelled already answers changed false. Another end is never overwritten. Children of a cancelled job stay submitted.",
	}),
	row(Jobs.Retry, Operation{
		Name: "job_retry", Group: "jobs", Method: http.MethodPost, Path: "/v1/jobs/{id}/retry",
		Scope: workitem.ScopeWrite, Idempotent: true, Success: madeOrSame,
		Refusals:    []workitem.Code{workitem.NotFound, workitem.InvalidState},
		Summary:     "Submit a job again that ended without success",
		Description: "Makes a new job with the old one's input; the old one stays as it ended. Repeated calls answer with the same new job.",
	}),

	row(Jobs.Claim, Operation{
		Name: "work_claim", Group: "work", Method: http.MethodPost, Path: "/v1/jobs/{id}/claim",
		Scope:       workitem.ScopeWork,
		Refusals:    []workitem.Code{workitem.NotFound, workitem.ClaimMismatch, workitem.InvalidState},
		Summary:     "Claim one job",
		Description: "A job that can't be claimed is no error: claimed is false, and reason says why. A claim repeated with its claim_request_id gets the same lease.",
	}),
	row(Jobs.CurrentClaim, Operation{
		Name: "work_current_claim", Group: "work", Method: http.MethodGet, Path: "/v1/jobs/{id}/claim",
		Scope: workitem.ScopeWork, ReadOnly: true, Idempotent: true, Refusals: one,
		Summary:     "Read the claim of a lease that the caller holds",
		Description: "For a worker that was restarted. It grants nothing new.",
	}),
	row(Jobs.ClaimNext, Operation{
		Name: "work_claim_next", Group: "work", Method: http.MethodPost, Path: "/v1/claims",
		Scope:       workitem.ScopeWork | workitem.ScopeTenant,
		Refusals:    []workitem.Code{workitem.ClaimMismatch, workitem.InvalidState},
		Summary:     "Claim the next job of a kind",
		Description: "Nothing to claim is no error: claimed is false, and reason says why. With wait_s the answer waits for a job. A claim repeated with its claim_request_id gets the same lease.",
	}),
	row(Jobs.Heartbeat, Operation{
		Name: "work_heartbeat", Group: "work", Method: http.MethodPost, Path: "/v1/jobs/{id}/heartbeat",
		Scope: workitem.ScopeWork, Idempotent: true, Refusals: renewing,
		Summary:     "Renew a lease",
		Description: "The lease then runs out lease_ttl_s seconds from now, also if that is sooner than before.",
	}),
	row(Jobs.Checkpoint, Operation{
		Name: "work_checkpoint", Group: "work", Method: http.MethodPost, Path: "/v1/jobs/{id}/checkpoint",
		Scope: workitem.ScopeWork, Idempotent: true, Refusals: renewing,
		Summary:     "Record how far a job has come, and renew its lease",
		Description: "Both or none. The checkpoint survives retries and expired leases.",
	}),
	row(Jobs.Commit, Operation{
		Name: "work_commit", Group: "work", Method: http.MethodPost, Path: "/v1/jobs/{id}/commit",
		Scope: workitem.ScopeWork, Idempotent: true, Refusals: fenced,
		Summary:     "End an attempt",
		Description: "A success releases the job's children in the same transaction. A commit of a job that has ended already answers noop and overwrites nothing.",
	}),
	row(Jobs.Defer, Operation{
		Name: "work_defer", Group: "work", Method: http.MethodPost, Path: "/v1/jobs/{id}/defer",
		Scope: workitem.ScopeWork, Refusals: fenced,
		Summary:     "Give a lease back without using the attempt up",
		Description: "The job can be claimed again after next_retry_at or delay_s.",
	}),

	row(Jobs.Consent, Operation{
		Name: "job_consent", Group: "operation", Method: http.MethodPatch, Path: "/v1/jobs/{id}/consent",
		Scope: workitem.ScopeAdmin, Idempotent: true,
		Refusals:    []workitem.Code{workitem.NotFound, workitem.InvalidState},
		Summary:     "Revoke, restore or limit the consent of a gated job",
		Description: "Refused for jobs that need no consent.",
	}),
	row(Jobs.Reconcile, Operation{
		Name: "jobs_reconcile", Group: "operation", Method: http.MethodPost, Path: "/v1/reconcile",
		Scope: workitem.ScopeWork, Idempotent: true,
		Summary:     "Check and repair what the jobs of the tenant wait for",
		Description: "Always goes to the end; limit is only the size of its pages. A second call finds nothing to repair.",
	}),
	row(Jobs.Prune, Operation{
		Name: "jobs_prune", Group: "operation", Method: http.MethodPost, Path: "/v1/prune",
		Scope: workitem.ScopeAdmin, Idempotent: true, Destructive: true,
		Summary:     "Drop jobs that ended long ago",
		Description: "A tombstone stays of each, so that its idempotency key still answers.",
	}),
	row(Jobs.RaiseEpoch, Operation{
		Name: "jobs_raise_epoch", Group: "operation", Method: http.MethodPost, Path: "/v1/epoch",
		Scope: workitem.ScopeAdmin, Destructive: true,
		Refusals:    []workitem.Code{workitem.UnauthorizedTarget, workitem.InvalidState},
		Summary:     "Make all leases, cursors and claim request ids of the store worthless",
		Description: "For a store that was restored to an earlier state. It concerns every tenant: an admin of one may do it as long as no other has jobs. Jobs that were held can be claimed at once. Each call raises the epoch.",
	}),
	row(Jobs.Kinds, Operation{
		Name: "job_kinds", Group: "operation", Method: http.MethodGet, Path: "/v1/kinds",
		Scope: workitem.ScopeRead, ReadOnly: true, Idempotent: true,
		Summary:     "List the registered kinds",
		Description: "Each operation of a request has one durable kind.",
	}),
	row(Jobs.Stats, Operation{
		Name: "job_stats", Group: "operation", Method: http.MethodGet, Path: "/v1/stats",
		Scope: workitem.ScopeRead | workitem.ScopeTenant, ReadOnly: true, Idempotent: true,
		Summary:     "Count the jobs of the tenant",
		Description: "By kind and state, with live leases and the age of the oldest ready job.",
	}),

	row(Jobs.Tokens, Operation{
		Name: "token_list", Group: "tokens", Method: http.MethodGet, Path: "/v1/tokens",
		Scope: workitem.ScopeAdmin, ReadOnly: true, Idempotent: true,
		Summary:     "List tokens",
		Description: "Without their secrets, which are not stored.",
	}),
	row(Jobs.CreateToken, Operation{
		Name: "token_create", Group: "tokens", Method: http.MethodPost, Path: "/v1/tokens",
		Scope: workitem.ScopeAdmin, Success: made,
		Refusals:    []workitem.Code{workitem.UnauthorizedTarget},
		Summary:     "Make a token",
		Description: "The answer has its secret, which is shown only this once.",
	}),
	row(Jobs.RevokeToken, Operation{
		Name: "token_revoke", Group: "tokens", Method: http.MethodDelete, Path: "/v1/tokens/{id}",
		Scope: workitem.ScopeAdmin, Idempotent: true, Destructive: true, Refusals: one,
		Summary:     "Revoke a token",
		Description: "For good. Leases that were claimed with it stay until they run out.",
	}),
}

// ByName finds an operation.
func ByName(name string) (*Operation, bool) {
	for _, o := range Table {
		if o.Name == name {
			return o, true
		}
	}
	return nil, false
}
