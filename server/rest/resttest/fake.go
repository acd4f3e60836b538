package resttest

import (
	"context"
	"reflect"
	"sync"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// Fake is a Jobs that keeps nothing. It remembers the newest input and answers
// with Out if that is of the verb's type, with Err if that is set, else with a
// sample that has every member set.
type Fake struct {
	// Hook, if not nil, runs in every call. What it returns is the call's error.
	Hook func(context.Context) error

	mu  sync.Mutex
	in  any
	out any
	err error
	n   int
}

var _ operation.Jobs = (*Fake)(nil)

// Answer sets what further calls answer with: a pointer to an answer of one verb.
func (f *Fake) Answer(out any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out, f.err = out, nil
}

// Refuse sets the error of further calls.
func (f *Fake) Refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// Calls gives how many calls there were, and the input of the newest.
func (f *Fake) Calls() (n int, in any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n, f.in
}

func reply[Out any](ctx context.Context, f *Fake, in any) (*Out, error) {
	if f.Hook != nil {
		if err := f.Hook(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.in = in
	if f.err != nil {
		return nil, f.err
	}
	if out, ok := f.out.(*Out); ok {
		return out, nil
	}
	out := new(Out)
	fill(reflect.ValueOf(out).Elem())
	return out, nil
}

// Sample fills an answer with values that are not empty.
func Sample[Out any]() *Out {
	out := new(Out)
	fill(reflect.ValueOf(out).Elem())
	return out
}

// fill gives a value to everything in v. Texts are spelled as instants where the
// declaration says so, and as the first value of an enumeration where there is one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.SetMapIndex(reflect.ValueOf("ready"), one)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			fill(v.Field(i))
			if into := reflect.Indirect(v.Field(i)); into.Kind() == reflect.String {
				if f.Tag.Get("format") == "date-time" {
					into.SetString("2026-01-02T03:04:05.678901Z")
				}
				if enum := f.Tag.Get("enum"); enum != "" {
					into.SetString(first(enum))
				}
			}
		}
	case reflect.String:
		v.SetString("text \u2028 \u00fc <&>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 << 40)
	case reflect.Float64:
		v.SetFloat(1767225660.123457)
	}
}

func first(list string) string {
	for i := range len(list) {
		if list[i] == ',' {
			return list[:i]
		}
	}
	return list
}

// Submit records its input.
func (f *Fake) Submit(ctx context.Context, in *workitem.SubmitInput) (*workitem.Handle, error) {
	return reply[workitem.Handle](ctx, f, in)
}

// Get records its input.
func (f *Fake) Get(ctx context.Context, in *workitem.GetInput) (*workitem.View, error) {
	return reply[workitem.View](ctx, f, in)
}

// Result records its input.
func (f *Fake) Result(ctx context.Context, in *workitem.JobInput) (*workitem.Result, error) {
	return reply[workitem.Result](ctx, f, in)
}

// Explain records its input.
func (f *Fake) Explain(ctx context.Context, in *workitem.JobInput) (*workitem.Diagnostics, error) {
	return reply[workitem.Diagnostics](ctx, f, in)
}

// History records its input.
func (f *Fake) History(ctx context.Context, in *workitem.JobInput) (*workitem.History, error) {
	return reply[workitem.History](ctx, f, in)
}

// Graph records its input.
func (f *Fake) Graph(ctx context.Context, in *workitem.GraphInput) (*workitem.Graph, error) {
	return reply[workitem.Graph](ctx, f, in)
}

// List records its input.
func (f *Fake) List(ctx context.Context, in *workitem.ListInput) (*workitem.Page, error) {
	return reply[workitem.Page](ctx, f, in)
}

// Cancel records its input.
func (f *Fake) Cancel(ctx context.Context, in *workitem.CancelInput) (*workitem.Cancelled, error) {
	return reply[workitem.Cancelled](ctx, f, in)
}

// Retry records its input.
func (f *Fake) Retry(ctx context.Context, in *workitem.RetryInput) (*workitem.RetryHandle, error) {
	return reply[workitem.RetryHandle](ctx, f, in)
}

// Claim records its input.
func (f *Fake) Claim(ctx context.Context, in *workitem.ClaimInput) (*workitem.ClaimAnswer, error) {
	return reply[workitem.ClaimAnswer](ctx, f, in)
}

// CurrentClaim records its input.
func (f *Fake) CurrentClaim(ctx context.Context, in *workitem.CurrentClaimInput) (*workitem.Claim, error) {
	return reply[workitem.Claim](ctx, f, in)
}

// ClaimNext records its input.
func (f *Fake) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	return reply[workitem.ClaimAnswer](ctx, f, in)
}

// Heartbeat records its input.
func (f *Fake) Heartbeat(ctx context.Context, in *workitem.HeartbeatInput) (*workitem.Renewal, error) {
	return reply[workitem.Renewal](ctx, f, in)
}

// Checkpoint records its input.
func (f *Fake) Checkpoint(ctx context.Context, in *workitem.CheckpointInput) (*workitem.Checkpointed, error) {
	return reply[workitem.Checkpointed](ctx, f, in)
}

// Commit records its input.
func (f *Fake) Commit(ctx context.Context, in *workitem.CommitInput) (*workitem.Settled, error) {
	return reply[workitem.Settled](ctx, f, in)
}

// Defer records its input.
func (f *Fake) Defer(ctx context.Context, in *workitem.DeferInput) (*workitem.Settled, error) {
	return reply[workitem.Settled](ctx, f, in)
}

// Consent records its input.
func (f *Fake) Consent(ctx context.Context, in *workitem.ConsentInput) (*workitem.ConsentState, error) {
	return reply[workitem.ConsentState](ctx, f, in)
}

// Reconcile records its input.
func (f *Fake) Reconcile(ctx context.Context, in *workitem.ReconcileInput) (*workitem.Reconciled, error) {
	return reply[workitem.Reconciled](ctx, f, in)
}

// Kinds records its input.
func (f *Fake) Kinds(ctx context.Context, in *workitem.NoInput) (*workitem.Kinds, error) {
	return reply[workitem.Kinds](ctx, f, in)
}

// Stats records its input.
func (f *Fake) Stats(ctx context.Context, in *workitem.NoInput) (*workitem.Stats, error) {
	return reply[workitem.Stats](ctx, f, in)
}

// Prune records its input.
func (f *Fake) Prune(ctx context.Context, in *workitem.PruneInput) (*workitem.Pruned, error) {
	return reply[workitem.Pruned](ctx, f, in)
}

// RaiseEpoch records its input.
func (f *Fake) RaiseEpoch(ctx context.Context, in *workitem.NoInput) (*workitem.EpochRaised, error) {
	return reply[workitem.EpochRaised](ctx, f, in)
}

// CreateToken records its input.
func (f *Fake) CreateToken(ctx context.Context, in *workitem.TokenInput) (*workitem.NewToken, error) {
	return reply[workitem.NewToken](ctx, f, in)
}

// Tokens records its input.
func (f *Fake) Tokens(ctx context.Context, in *workitem.NoInput) (*workitem.TokenList, error) {
	return reply[workitem.TokenList](ctx, f, in)
}

// RevokeToken records its input.
func (f *Fake) RevokeToken(ctx context.Context, in *workitem.RevokeInput) (*workitem.TokenEntry, error) {
	return reply[workitem.TokenEntry](ctx, f, in)
}
