package operation

import (
	"context"

	"github.com/writ-authority/writ/workitem"
)

// Jobs has every verb of the work item authority for one caller: an authority in
// this process (workitem.Caller) or a server (client.Client). A refusal is a
// *workitem.Error in both.
type Jobs interface {
	Submit(context.Context, *workitem.SubmitInput) (*workitem.Handle, error)
	Get(context.Context, *workitem.GetInput) (*workitem.View, error)
	Result(context.Context, *workitem.JobInput) (*workitem.Result, error)
	Explain(context.Context, *workitem.JobInput) (*workitem.Diagnostics, error)
	History(context.Context, *workitem.JobInput) (*workitem.History, error)
	Graph(context.Context, *workitem.GraphInput) (*workitem.Graph, error)
	List(context.Context, *workitem.ListInput) (*workitem.Page, error)
	Cancel(context.Context, *workitem.CancelInput) (*workitem.Cancelled, error)
	Retry(context.Context, *workitem.RetryInput) (*workitem.RetryHandle, error)
	Claim(context.Context, *workitem.ClaimInput) (*workitem.ClaimAnswer, error)
	CurrentClaim(context.Context, *workitem.CurrentClaimInput) (*workitem.Claim, error)
	ClaimNext(context.Context, *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error)
	Heartbeat(context.Context, *workitem.HeartbeatInput) (*workitem.Renewal, error)
	Checkpoint(context.Context, *workitem.CheckpointInput) (*workitem.Checkpointed, error)
	Commit(context.Context, *workitem.CommitInput) (*workitem.Settled, error)
	Defer(context.Context, *workitem.DeferInput) (*workitem.Settled, error)
	Consent(context.Context, *workitem.ConsentInput) (*workitem.ConsentState, error)
	Reconcile(context.Context, *workitem.ReconcileInput) (*workitem.Reconciled, error)
	Kinds(context.Context, *workitem.NoInput) (*workitem.Kinds, error)
	Stats(context.Context, *workitem.NoInput) (*workitem.Stats, error)
	Prune(context.Context, *workitem.PruneInput) (*workitem.Pruned, error)
	RaiseEpoch(context.Context, *workitem.NoInput) (*workitem.EpochRaised, error)
	CreateToken(context.Context, *workitem.TokenInput) (*workitem.NewToken, error)
	Tokens(context.Context, *workitem.NoInput) (*workitem.TokenList, error)
	RevokeToken(context.Context, *workitem.RevokeInput) (*workitem.TokenEntry, error)
}
