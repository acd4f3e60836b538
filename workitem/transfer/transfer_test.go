package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-authority/writ/internal/pgtest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/postgres"
	"github.com/writ-authority/writ/workitem/sqlite"
	"github.com/writ-authority/writ/workitem/transfer"
)

// place is where one store of an engine may be.
type place struct {
	open func(context.Context) (workitem.Store, error)
	fill func(context.Context) (workitem.Loader, error)
}

// engines make empty places.
var engines = map[string]func(*testing.T) place{
	"sqlite": func(t *testing.T) place {
		path := filepath.Join(t.TempDir(), "work.db")
		return place{
			open: func(ctx context.Context) (workitem.Store, error) {
				return sqlite.Open(ctx, sqlite.Options{Path: path})
			},
			fill: func(ctx context.Context) (workitem.Loader, error) { return sqlite.Fill(ctx, path) },
		}
	},
	"postgres": func(t *testing.T) place {
		o := postgres.Options{URL: pgtest.Shared(t, pgtest.Options{}).Database(t), AllowUnsafe: true}
		return place{
			open: func(ctx context.Context) (workitem.Store, error) { return postgres.Open(ctx, o) },
			fill: func(ctx context.Context) (workitem.Loader, error) { return postgres.Fill(ctx, o) },
		}
	},
}

// pairs runs a test from every engine to every engine.
func pairs(t *testing.T, run func(t *testing.T, from, to place)) {
	for source, from := range engines {
		for target, to := range engines {
			t.Run(source+" to "+target, func(t *testing.T) {
				t.Parallel()
				run(t, from(t), to(t))
			})
		}
	}
}

// authority is one of a store, which it closes.
func authority(t *testing.T, s workitem.Store) *workitem.Authority {
	t.Helper()
	a, _ := watched(t, s)
	return a
}

// mended counts the jobs that a reconciliation has mended or could not.
type mended struct{ atomic.Int64 }

// Count implements workitem.Observer.
func (m *mended) Count(c workitem.Counter, n int) {
	if c == workitem.Repaired || c == workitem.Faulty {
		m.Add(int64(n))
	}
}

// Batch implements workitem.Observer.
func (*mended) Batch(int, time.Duration, time.Duration) {}

// watched is an authority whose first pass over its jobs is over, and what that has
// found.
func watched(t *testing.T, s workitem.Store) (*workitem.Authority, *mended) {
	t.Helper()
	m := &mended{}
	a, err := workitem.New(s, workitem.Config{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	<-a.Reconciled()
	return a, m
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func admin(tenant string) workitem.Principal {
	return workitem.Principal{Subject: "worker-1", Tenant: tenant, Owner: "ada", Scopes: workitem.ScopeAdmin}
}

// request is a submission; more are members in JSON, each with a comma before it.
func request(tenant, key, operation string, more ...string) *workitem.SubmitInput {
	return &workitem.SubmitInput{Request: fmt.Appendf(nil, `{"request_id":"req-%s","idempotency_key":%q,"operation":%q,
		"repository_id":"repo-a","base_ref":"main","base_sha":"%s","owner_id":"ada","session_id":"s","tenant_id":%q%s}`,
		key, key, operation, strings.Repeat("a", 40), tenant, strings.Join(more, ""))}
}

const consent = `,"consent":{"allow_push":true,"risk_acknowledged":true,"risk_marker":"m-1"}`

// held are claims that workers hold.
type held struct {
	leased, running *workitem.Claim
}

// populate makes jobs in every state, of two tenants, with everything that belongs to
// them.
func populate(t *testing.T, a *workitem.Authority) *held {
	t.Helper()
	ctx := t.Context()
	person := admin("tenant-a")
	person.Local = true
	must(a.As(person).RaiseEpoch(ctx, &workitem.NoInput{}))(t)
	c := a.As(admin("tenant-a"))
	submit := func(key, operation string, more ...string) *workitem.Handle {
		t.Helper()
		return must(c.Submit(ctx, request("tenant-a", key, operation, more...)))(t)
	}
	claim := func(h *workitem.Handle, worker, id string) *workitem.Claim {
		t.Helper()
		answer := must(c.Claim(ctx, &workitem.ClaimInput{JobID: h.JobID, Worker: worker, ClaimRequestID: id}))(t)
		if !answer.Claimed {
			t.Fatalf("not claimed: %s", answer.Reason)
		}
		return answer.Claim
	}
	commit := func(claim *workitem.Claim, outcome string, edit func(*workitem.CommitInput)) {
		t.Helper()
		in := &workitem.CommitInput{JobID: claim.JobID, Claim: claim.Fence(), Outcome: outcome}
		if edit != nil {
			edit(in)
		}
		must(c.Commit(ctx, in))(t)
	}
	no, class, ref := false, "environment", "artifact:\u00e4\u2028<&>"
	submit("ready", "build", `,"priority":7,"resources":{"queue_deadline":"2126-01-02T03:04:05.000006Z"},"lane_id":"lane-1","candidate_id":"c-1","generation_id":"g-1","correlation_id":"corr-1"`)
	submit("urgent", "build", `,"priority":10000,"resources":{"resource_class":"heavy"}`)
	leased := submit("leased", "build", `,"fairness_group":"other"`)
	running := submit("running", "merge")
	done := submit("done", "build")
	failed := submit("failed", "repair")
	submit("gated", "release", consent)
	revoked := submit("revoked", "release", consent)
	dead := must(c.Submit(ctx, func() *workitem.SubmitInput {
		in := request("tenant-a", "dead", "repair")
		one := 1
		in.MaxAttempts = &one
		return in
	}()))(t)
	cancelled := submit("cancelled", "validation")
	submit("child", "merge", fmt.Sprintf(`,"dependencies":[%q,%q]`, done.WorkItemID, running.WorkItemID))
	submit("orphan", "merge", fmt.Sprintf(`,"dependencies":[%q]`, failed.WorkItemID))
	deferred := submit("deferred", "workspace.validate")
	retried := submit("retried", "validation")
	pruned := submit("pruned", "build")

	must(c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w-5"}))(t)

	h := &held{leased: claim(leased, "w-1", "claim-1"), running: claim(running, "w-2", "claim-2")}
	must(c.Checkpoint(ctx, &workitem.CheckpointInput{JobID: running.JobID, Claim: h.running.Fence(), Checkpoint: "checkpoint:half"}))(t)
	commit(claim(done, "w-3", "claim-3"), "succeeded", func(in *workitem.CommitInput) { in.ResultRef = &ref })
	commit(claim(failed, "w-3", ""), "failed", func(in *workitem.CommitInput) {
		in.Retryable, in.FailureClass, in.ErrorRef = &no, &class, &ref
	})
	commit(claim(dead, "w-3", ""), "failed", nil)
	commit(claim(retried, "w-3", ""), "failed", nil)
	commit(claim(pruned, "w-3", "claim-4"), "succeeded", nil)
	must(c.Cancel(ctx, &workitem.CancelInput{JobID: cancelled.JobID, Reason: "no \"need\" any more"}))(t)
	must(c.Consent(ctx, &workitem.ConsentInput{JobID: revoked.JobID, Action: "revoke"}))(t)
	late := claim(deferred, "w-4", "")
	hour := 3600.0
	must(c.Defer(ctx, &workitem.DeferInput{JobID: late.JobID, Claim: late.Fence(), Delay: &hour, Reason: "busy"}))(t)
	must(c.Retry(ctx, &workitem.RetryInput{JobID: failed.JobID, Adopt: true}))(t)
	must(c.Prune(ctx, &workitem.PruneInput{OlderThan: 0}))(t) // those without a child that waits

	other := a.As(admin("tenant-b"))
	must(other.Submit(ctx, request("tenant-b", "ready", "build")))(t)
	must(other.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w-9", ClaimRequestID: "claim-1"}))(t)
	must(other.Submit(ctx, request("tenant-b", "next", "build")))(t)
	token := must(other.CreateToken(ctx, &workitem.TokenInput{Name: "ci", Subject: "ci", Scopes: []string{"jobs:read", "jobs:work"}}))(t)
	must(other.CreateToken(ctx, &workitem.TokenInput{Name: "x", Subject: "x", Owner: "someone", Scopes: []string{"jobs:admin"}}))(t)
	must(other.RevokeToken(ctx, &workitem.RevokeInput{ID: token.ID}))(t)
	return h
}

// state is everything that a store has, apart from numbers of rows.
type state struct {
	Items      []workitem.FullItem
	Edges      []workitem.Edge
	Tombstones []workitem.Tombstone
	Recalls    []workitem.Recall
	Turns      []workitem.BucketTurn
	Tokens     []workitem.Token
	Counts     map[string][]workitem.Count
	Claimable  map[string]map[workitem.Kind]int
	Epoch      int64
}

// read reads everything, in pages of three rows.
func read(t *testing.T, s workitem.Store) *state {
	t.Helper()
	all := &state{Counts: map[string][]workitem.Count{}, Claimable: map[string]map[workitem.Kind]int{}}
	err := s.View(t.Context(), func(r workitem.Reader) error {
		d, ok := r.(workitem.Dumper)
		if !ok {
			return errors.New("the reader is no Dumper")
		}
		const page = 3
		for after := int64(0); ; {
			items, err := d.Items(after, page)
			if err != nil {
				return err
			}
			for _, f := range items {
				after = f.Item.Row
				c := workitem.FullItem{Item: new(workitem.Item), Stored: f.Stored, History: f.History}
				*c.Item = *f.Item
				c.Item.Row = 0
				if c.Item.Status == workitem.Submitted {
					c.Item.DepState = workitem.DepUnverified
				}
				all.Items = append(all.Items, c)
			}
			if len(items) < page {
				break
			}
		}
		var edge workitem.Edge
		for {
			list, err := d.Edges(edge, page)
			if err != nil {
				return err
			}
			all.Edges = append(all.Edges, list...)
			if len(list) < page {
				break
			}
			edge = list[page-1]
		}
		var stone workitem.ID
		for {
			list, err := d.Tombstones(stone, page)
			if err != nil {
				return err
			}
			for _, x := range list {
				all.Tombstones = append(all.Tombstones, *x)
				stone = x.ID
			}
			if len(list) < page {
				break
			}
		}
		var recall workitem.Recall
		for {
			list, err := d.Recalls(recall, page)
			if err != nil {
				return err
			}
			all.Recalls = append(all.Recalls, list...)
			if len(list) < page {
				break
			}
			recall = list[page-1]
		}
		var turn workitem.BucketTurn
		for {
			list, err := d.Turns(turn, page)
			if err != nil {
				return err
			}
			all.Turns = append(all.Turns, list...)
			if len(list) < page {
				break
			}
			turn = list[page-1]
		}
		tokens, err := d.Tokens("")
		if err != nil {
			return err
		}
		for _, k := range tokens {
			all.Tokens = append(all.Tokens, *k)
		}
		for _, tenant := range []string{"tenant-a", "tenant-b"} {
			if all.Counts[tenant], err = d.Counts(tenant); err != nil {
				return err
			}
			if all.Claimable[tenant], err = d.ClaimableCounts(tenant); err != nil {
				return err
			}
		}
		all.Epoch, err = d.Epoch()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// export is the export of a store as a text.
func export(t *testing.T, s workitem.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	must(transfer.Export(t.Context(), s, &b, transfer.Options{}))(t)
	return b.Bytes()
}

// imported imports a text.
func imported(ctx context.Context, to place, text []byte) error {
	_, err := transfer.Import(ctx, bytes.NewReader(text), to.fill)
	return err
}

func closed(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Every row arrives as it was, and the work goes on.
func TestMove(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, from, to place) {
		a := authority(t, must(from.open(t.Context()))(t))
		h := populate(t, a)
		_ = must(a.As(admin("tenant-a")).Submit(t.Context(), request("tenant-a", "again", "build")))(t)
		closed(t, a)

		source := must(from.open(t.Context()))(t)
		before := read(t, source)
		text := export(t, source)
		closed(t, source)
		if n := len(before.Items); n < 15 || len(before.Edges) < 2 || len(before.Recalls) < 4 || len(before.Turns) < 2 ||
			len(before.Tombstones) < 2 || len(before.Tokens) != 2 {
			t.Fatalf("there is too little to move: %d jobs, %d edges, %d claims, %d turns, %d tombstones, %d tokens", n,
				len(before.Edges), len(before.Recalls), len(before.Turns), len(before.Tombstones), len(before.Tokens))
		}

		if err := imported(t.Context(), to, text); err != nil {
			t.Fatal(err)
		}
		target := must(to.open(t.Context()))(t)
		after := read(t, target)
		compare(t, before, after)
		if after.Epoch != 1 || h.leased.LeaseEpoch <= workitem.EpochStep {
			t.Errorf("the authority epoch is %d, the first lease has the epoch %d", after.Epoch, h.leased.LeaseEpoch)
		}
		again := export(t, target)
		if err := same(text, again); err != nil {
			t.Error(err)
		}

		moved, found := watched(t, target)
		defer closed(t, moved)
		goOn(t, moved, h)
		if n := found.Load(); n != 0 {
			t.Errorf("%d jobs had to be mended", n)
		}
	})
}

// compare wants every row of two stores to be the same.
func compare(t *testing.T, before, after *state) {
	t.Helper()
	x, y := reflect.ValueOf(*before), reflect.ValueOf(*after)
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		if name == "Items" {
			if len(before.Items) != len(after.Items) {
				t.Fatalf("%d jobs were moved, %d came", len(before.Items), len(after.Items))
			}
			for n := range before.Items {
				b, a := &before.Items[n], &after.Items[n]
				if !reflect.DeepEqual(b, a) {
					t.Errorf("job %s is\n%+v %+v %+v\nwant\n%+v %+v %+v", b.Item.ID.JobID(), a.Item, a.Stored, a.History, b.Item, b.Stored, b.History)
				}
			}
		} else if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			t.Errorf("%s are\n%+v\nwant\n%+v", name, y.Field(i).Interface(), x.Field(i).Interface())
		}
	}
}

// same wants two exports to differ in nothing but what they say of themselves, and in
// what is known of the parents of jobs that wait.
func same(x, y []byte) error {
	a, b := bytes.Split(x, []byte("\n")), bytes.Split(y, []byte("\n"))
	if len(a) != len(b) {
		return fmt.Errorf("one export has %d lines, the other %d", len(a), len(b))
	}
	for i := 1; i < len(a)-2; i++ { // without the header and the end
		a[i] = bytes.Replace(a[i], []byte(`"state":"submitted"`), nil, 1)
		b[i] = bytes.Replace(b[i], []byte(`"state":"submitted"`), nil, 1)
		for _, name := range []string{"verified", "unverified", "faulty"} {
			a[i] = bytes.Replace(a[i], []byte(`"dependencies":"`+name+`"`), nil, 1)
			b[i] = bytes.Replace(b[i], []byte(`"dependencies":"`+name+`"`), nil, 1)
		}
		if !bytes.Equal(a[i], b[i]) {
			return fmt.Errorf("line %d is\n%s\nwant\n%s", i+1, b[i], a[i])
		}
	}
	return nil
}

// goOn lets everybody do at the new store what they would have done at the old one.
func goOn(t *testing.T, a *workitem.Authority, h *held) {
	t.Helper()
	ctx := t.Context()
	c := a.As(admin("tenant-a"))

	again := must(c.Submit(ctx, request("tenant-a", "again", "build")))(t)
	if !again.Deduplicated {
		t.Error("a request that was known makes another job")
	}
	if _, err := c.Submit(ctx, request("tenant-a", "again", "merge")); !errors.Is(err, workitem.ErrDuplicateRequest) {
		t.Errorf("a key that is bound to other input: %v", err)
	}
	if pruned := must(c.Submit(ctx, request("tenant-a", "pruned", "build")))(t); !pruned.Deduplicated || pruned.State != "succeeded" {
		t.Errorf("a job that was pruned answers %+v", pruned)
	}

	repeated := must(c.Claim(ctx, &workitem.ClaimInput{JobID: h.leased.JobID, Worker: "w-1", ClaimRequestID: "claim-1"}))(t)
	if !repeated.Claimed || !reflect.DeepEqual(repeated.Claim, h.leased) {
		t.Errorf("the claim, repeated, is %+v, want %+v", repeated.Claim, h.leased)
	}
	if _, err := c.Claim(ctx, &workitem.ClaimInput{JobID: h.leased.JobID, Worker: "w-3", ClaimRequestID: "claim-1"}); !errors.Is(err, workitem.ErrClaimMismatch) {
		t.Errorf("a claim request id of another worker: %v", err)
	}
	done := workitem.NewID("tenant-a", "done").JobID()
	if _, err := c.Claim(ctx, &workitem.ClaimInput{JobID: done, Worker: "w-3", ClaimRequestID: "claim-3"}); !errors.Is(err, workitem.ErrInvalidState) {
		t.Errorf("a claim request id whose lease has ended: %v", err)
	}

	must(c.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: h.leased.JobID, Claim: h.leased.Fence()}))(t)
	must(c.Checkpoint(ctx, &workitem.CheckpointInput{JobID: h.running.JobID, Claim: h.running.Fence(), Checkpoint: "checkpoint:more"}))(t)
	stranger := h.running.Fence()
	stranger.LeaseEpoch--
	if _, err := c.Commit(ctx, &workitem.CommitInput{JobID: h.running.JobID, Claim: stranger, Outcome: "failed"}); !errors.Is(err, workitem.ErrStaleFence) {
		t.Errorf("a fence of another lease: %v", err)
	}
	settled := must(c.Commit(ctx, &workitem.CommitInput{JobID: h.running.JobID, Claim: h.running.Fence(), Outcome: "succeeded"}))(t)
	if settled.Status != workitem.Committed {
		t.Errorf("the commit of the old worker answers %+v", settled)
	}
	// Its other parent had succeeded before.
	child := must(c.Get(ctx, &workitem.GetInput{JobID: workitem.NewID("tenant-a", "child").JobID()}))(t)
	if child.State != "ready" {
		t.Errorf("the child is %s, want ready", child.State)
	}
	settled = must(c.Commit(ctx, &workitem.CommitInput{JobID: h.leased.JobID, Claim: h.leased.Fence(), Outcome: "succeeded"}))(t)
	if settled.Status != workitem.Committed {
		t.Errorf("the other commit answers %+v", settled)
	}
	// Whose turn it is, and that numbers of rows go on.
	must(c.Submit(ctx, request("tenant-a", "new", "build")))(t)
	urgent := must(c.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w-5"}))(t)
	if !urgent.Claimed {
		t.Errorf("nothing to claim: %s", urgent.Reason)
	}
}
