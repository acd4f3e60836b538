package client

import (
	"context"

	"github.com/writ-authority/writ/workitem"
)

// Submit admits a request exactly once.
func (c *Client) Submit(ctx context.Context, in *workitem.SubmitInput) (*workitem.Handle, error) {
	return do[workitem.Handle](ctx, c, "job_submit", in)
}

// Get reads a job, at once or when it has ended.
func (c *Client) Get(ctx context.Context, in *workitem.GetInput) (*workitem.View, error) {
	return do[workitem.View](ctx, c, "job_get", in)
}

// Result reads how a job ended.
func (c *Client) Result(ctx context.Context, in *workitem.JobInput) (*workitem.Result, error) {
	return do[workitem.Result](ctx, c, "job_result", in)
}

// Explain tells why a job can or can't be claimed.
func (c *Client) Explain(ctx context.Context, in *workitem.JobInput) (*workitem.Diagnostics, error) {
	return do[workitem.Diagnostics](ctx, c, "job_explain", in)
}

// History lists what happened to a job.
func (c *Client) History(ctx context.Context, in *workitem.JobInput) (*workitem.History, error) {
	return do[workitem.History](ctx, c, "job_history", in)
}

// Graph shows what a job depends on and what depends on it.
func (c *Client) Graph(ctx context.Context, in *workitem.GraphInput) (*workitem.Graph, error) {
	return do[workitem.Graph](ctx, c, "job_graph", in)
}

// List gives one page of jobs, oldest first.
func (c *Client) List(ctx context.Context, in *workitem.ListInput) (*workitem.Page, error) {
	return do[workitem.Page](ctx, c, "job_list", in)
}

// Cancel cancels a job.
func (c *Client) Cancel(ctx context.Context, in *workitem.CancelInput) (*workitem.Cancelled, error) {
	return do[workitem.Cancelled](ctx, c, "job_cancel", in)
}

// Retry submits a job again that ended without success.
func (c *Client) Retry(ctx context.Context, in *workitem.RetryInput) (*workitem.RetryHandle, error) {
	return do[workitem.RetryHandle](ctx, c, "job_retry", in)
}

// Claim claims one job.
func (c *Client) Claim(ctx context.Context, in *workitem.ClaimInput) (*workitem.ClaimAnswer, error) {
	return do[workitem.ClaimAnswer](ctx, c, "work_claim", in)
}

// CurrentClaim reads the claim of a lease that the caller holds.
func (c *Client) CurrentClaim(ctx context.Context, in *workitem.CurrentClaimInput) (*workitem.Claim, error) {
	return do[workitem.Claim](ctx, c, "work_current_claim", in)
}

// ClaimNext claims the next job of a kind.
func (c *Client) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	return do[workitem.ClaimAnswer](ctx, c, "work_claim_next", in)
}

// Heartbeat renews a lease.
func (c *Client) Heartbeat(ctx context.Context, in *workitem.HeartbeatInput) (*workitem.Renewal, error) {
	return do[workitem.Renewal](ctx, c, "work_heartbeat", in)
}

// Checkpoint records how far a job has come, and renews its lease.
func (c *Client) Checkpoint(ctx context.Context, in *workitem.CheckpointInput) (*workitem.Checkpointed, error) {
	return do[workitem.Checkpointed](ctx, c, "work_checkpoint", in)
}

// Commit ends an attempt.
func (c *Client) Commit(ctx context.Context, in *workitem.CommitInput) (*workitem.Settled, error) {
	return do[workitem.Settled](ctx, c, "work_commit", in)
}

// Defer gives a lease back without using the attempt up.
func (c *Client) Defer(ctx context.Context, in *workitem.DeferInput) (*workitem.Settled, error) {
	return do[workitem.Settled](ctx, c, "work_defer", in)
}

// Consent changes the consent of a gated job.
func (c *Client) Consent(ctx context.Context, in *workitem.ConsentInput) (*workitem.ConsentState, error) {
	return do[workitem.ConsentState](ctx, c, "job_consent", in)
}

// Reconcile checks and repairs what the jobs of the tenant wait for.
func (c *Client) Reconcile(ctx context.Context, in *workitem.ReconcileInput) (*workitem.Reconciled, error) {
	return do[workitem.Reconciled](ctx, c, "jobs_reconcile", in)
}

// Kinds lists the registered kinds.
func (c *Client) Kinds(ctx context.Context, in *workitem.NoInput) (*workitem.Kinds, error) {
	return do[workitem.Kinds](ctx, c, "job_kinds", in)
}

// Stats counts the jobs of the tenant.
func (c *Client) Stats(ctx context.Context, in *workitem.NoInput) (*workitem.Stats, error) {
	return do[workitem.Stats](ctx, c, "job_stats", in)
}

// Prune drops jobs that ended long ago.
func (c *Client) Prune(ctx context.Context, in *workitem.PruneInput) (*workitem.Pruned, error) {
	return do[workitem.Pruned](ctx, c, "jobs_prune", in)
}

// RaiseEpoch makes all leases, cursors and claim request ids of the store worthless.
func (c *Client) RaiseEpoch(ctx context.Context, in *workitem.NoInput) (*workitem.EpochRaised, error) {
	return do[workitem.EpochRaised](ctx, c, "jobs_raise_epoch", in)
}

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, in *workitem.TokenInput) (*workitem.NewToken, error) {
	return do[workitem.NewToken](ctx, c, "token_create", in)
}

// Tokens lists tokens.
func (c *Client) Tokens(ctx context.Context, in *workitem.NoInput) (*workitem.TokenList, error) {
	return do[workitem.TokenList](ctx, c, "token_list", in)
}

// RevokeToken revokes a token.
func (c *Client) RevokeToken(ctx context.Context, in *workitem.RevokeInput) (*workitem.TokenEntry, error) {
	return do[workitem.TokenEntry](ctx, c, "token_revoke", in)
}
