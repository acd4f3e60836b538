package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

// jobBundle is a server whose Jobs only records, and the command line that calls
// it.
type jobBundle struct {
	fake *resttest.Fake
	args []string
}

func serveJobs(t *testing.T) *jobBundle {
	t.Helper()
	fake := new(resttest.Fake)
	b := resttest.Serve(t, func(workitem.Principal) operation.Jobs { return fake })
	token := resttest.Token(t, workitem.Principal{Subject: "s", Tenant: "t", Owner: "o", Scopes: workitem.ScopeAdmin})
	return &jobBundle{fake: fake, args: []string{"--repo", t.TempDir(), "job", "--server", b.URL, "--token", token, "--tenant", "t", "--owner", "o"}}
}

func (b *jobBundle) run(args ...string) (code int, out, messages string) {
	var o, e bytes.Buffer
	code = Main(append(append([]string(nil), b.args...), args...), strings.NewReader(`{"from": "standard input"}`), &o, &e)
	return code, o.String(), e.String()
}

func ptr[T any](v T) *T { return &v }

// TestCommandsSendWhatTheirFlagsSay runs every command against a server, once for
// people and once with --json.
func TestCommandsSendWhatTheirFlagsSay(t *testing.T) {
	t.Parallel()
	const id = "rmjob:00000000-0000-5000-8000-000000000001"
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, []byte("{ \"exact\": 1.0 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fence := workitem.Fence{WorkItemID: itemID(1), LeaseOwner: "w", LeaseEpoch: 3, FencingToken: 4, JobID: id, Tenant: "t"}
	tuple, err := json.Marshal(fence)
	if err != nil {
		t.Fatal(err)
	}
	claim := string(tuple)
	for _, test := range []struct {
		args   []string
		schema string
		want   any
	}{
		{[]string{"submit", file}, "writ.job-handle.v1", &workitem.SubmitInput{Request: []byte("{ \"exact\": 1.0 }\n")}},
		{
			[]string{"submit", "-", "--max-attempts", "5", "--backoff", "1500ms"}, "writ.job-handle.v1",
			&workitem.SubmitInput{Request: []byte(`{"from": "standard input"}`), MaxAttempts: ptr(5), BackoffBase: ptr(1.5)},
		},
		{[]string{"get", id}, "writ.job-view.v1", &workitem.GetInput{JobID: id}},
		{[]string{"list"}, "writ.job-page.v1", &workitem.ListInput{TenantID: "t"}},
		{
			[]string{
				"list", "--operation", "build", "--kind", "repository.build", "--state", "ready,dead-letter", "--state", "failed", "--repository", "r",
				"--lane", "l", "--candidate", "c", "--generation", "g", "--correlation", "k", "--owner-id", "o", "--resource-class", "heavy",
				"--created-after", "2026-12-02T15:04:05Z", "--created-before", "2026-12-02T15:04:05.5+01:00", "--claimable", "--blocked=false",
				"-n", "7", "--cursor", "x",
			}, "writ.job-page.v1",
			&workitem.ListInput{
				TenantID:  "t",
				Operation: "build", Kind: "repository.build", State: []string{"ready", "dead-letter", "failed"}, RepositoryID: "r", LaneID: "l",
				CandidateID: "c", GenerationID: "g", CorrelationID: "k", OwnerID: "o", ResourceClass: "heavy",
				CreatedAfter: "2026-12-02T15:04:05Z", CreatedBefore: "2026-12-02T15:04:05.5+01:00", Claimable: ptr(true), Blocked: ptr(false),
				Limit: ptr(7), Cursor: "x",
			},
		},
		{[]string{"result", id}, "writ.job-result.v1", &workitem.JobInput{JobID: id}},
		{[]string{"explain", id}, "writ.job-explain.v1", &workitem.JobInput{JobID: id}},
		{[]string{"history", id}, "writ.job-history.v1", &workitem.JobInput{JobID: id}},
		{[]string{"graph", id, "--limit", "3"}, "writ.job-graph.v1", &workitem.GraphInput{JobID: id, Limit: ptr(3)}},
		{[]string{"cancel", id, "--reason", "no", "--if-idle"}, "writ.job-cancelled.v1", &workitem.CancelInput{JobID: id, Reason: "no", Mode: "if_idle"}},
		{[]string{"retry", id, "--adopt"}, "writ.job-retry.v1", &workitem.RetryInput{JobID: id, Adopt: true}},
		{
			[]string{"claim", id, "--worker", "w", "--lease", "90s", "--request", "q"}, "writ.job-claim.v1",
			&workitem.ClaimInput{JobID: id, Worker: "w", LeaseTTL: ptr(90.0), ClaimRequestID: "q"},
		},
		{[]string{"claim", id, "--worker", "w", "--held"}, "writ.job-claim.v1", &workitem.CurrentClaimInput{JobID: id, Worker: "w"}},
		{
			[]string{"claim-next", "--kind", "repository.build", "--worker", "w", "--resource-class", "c", "--fairness-group", "g", "--request", "q"}, "writ.job-claim.v1",
			&workitem.ClaimNextInput{Kind: "repository.build", Worker: "w", ResourceClass: "c", FairnessGroup: "g", ClaimRequestID: "q"},
		},
		{
			[]string{"heartbeat", "--claim", claim, "--lease", "1m"}, "writ.job-renewal.v1",
			&workitem.HeartbeatInput{JobID: itemID(1), Claim: fence, LeaseTTL: ptr(60.0)},
		},
		{
			[]string{"checkpoint", "checkpoint:x", "--claim", claim}, "writ.job-checkpointed.v1",
			&workitem.CheckpointInput{JobID: itemID(1), Claim: fence, Checkpoint: "checkpoint:x"},
		},
		{
			[]string{"commit", "succeeded", "--claim", claim, "--result", "artifact:1"}, "writ.job-settled.v1",
			&workitem.CommitInput{JobID: itemID(1), Claim: fence, Outcome: "succeeded", ResultRef: ptr("artifact:1")},
		},
		{
			[]string{"commit", "failed", "--claim", claim, "--error", "log:1", "--failure-class", "c", "--refusal-code", "r", "--final"}, "writ.job-settled.v1",
			&workitem.CommitInput{
				JobID: itemID(1), Claim: fence, Outcome: "failed", ErrorRef: ptr("log:1"), FailureClass: ptr("c"), RefusalCode: ptr("r"), Retryable: ptr(false),
			},
		},
		{
			[]string{"defer", "--claim", claim, "--delay", "0s", "--reason", "busy"}, "writ.job-settled.v1",
			&workitem.DeferInput{JobID: itemID(1), Claim: fence, Delay: ptr(0.0), Reason: "busy"},
		},
		{
			[]string{"defer", "--claim", claim, "--until", "2026-12-02T15:04:05Z"}, "writ.job-settled.v1",
			&workitem.DeferInput{JobID: itemID(1), Claim: fence, NextRetryAt: ptr("2026-12-02T15:04:05Z")},
		},
		{[]string{"consent", "revoke", id}, "writ.job-consent.v1", &workitem.ConsentInput{JobID: id, Action: "revoke"}},
		{[]string{"consent", "restore", id}, "writ.job-consent.v1", &workitem.ConsentInput{JobID: id, Action: "restore"}},
		{
			[]string{"consent", "expire-at", id, "2026-12-02T15:04:05Z"}, "writ.job-consent.v1",
			&workitem.ConsentInput{JobID: id, Action: "expire_at", ExpiresAt: ptr("2026-12-02T15:04:05Z")},
		},
		{[]string{"reconcile", "--limit", "9"}, "writ.job-reconciled.v1", &workitem.ReconcileInput{Limit: ptr(9)}},
		{[]string{"prune", "--older-than", "720h", "--dry-run"}, "writ.job-pruned.v1", &workitem.PruneInput{OlderThan: 2592000, DryRun: true}},
		{[]string{"bump-epoch"}, "writ.job-epoch.v1", &workitem.NoInput{}},
		{[]string{"stats"}, "writ.job-stats.v1", &workitem.NoInput{}},
		{[]string{"kinds"}, "writ.job-kinds.v1", &workitem.NoInput{}},
	} {
		t.Run(strings.Join(test.args[:1], " "), func(t *testing.T) {
			t.Parallel()
			b := serveJobs(t)
			for _, args := range [][]string{test.args, append(append([]string(nil), test.args...), "--json")} {
				code, out, messages := b.run(args...)
				if code != 0 || out == "" || messages != "" {
					t.Fatalf("%q: exit %d\n%s%s", args, code, out, messages)
				}
				if n, in := b.fake.Calls(); !reflect.DeepEqual(in, test.want) {
					t.Errorf("%q: call %d has %+v, want %+v", args, n, in, test.want)
				}
				if args[len(args)-1] == "--json" && !strings.HasPrefix(out, fmt.Sprintf("{\n  \"schema\": %q,\n", test.schema)) {
					t.Errorf("%q: printed\n%s", args, out)
				}
			}
		})
	}
}

func TestRefusalsOfAServerBecomeExitCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[workitem.Code]int{
		workitem.InvalidRequest: exitUsage, workitem.PayloadTooLarge: exitUsage, workitem.Unauthenticated: exitAuth,
		workitem.UnauthorizedTarget: exitAuth, workitem.ForbiddenScope: exitAuth, workitem.NotFound: exitNotFound,
		workitem.DependencyUnavailable: exitNotFound, workitem.DuplicateRequest: exitConflict, workitem.StaleFence: exitConflict,
		workitem.ClaimMismatch: exitConflict, workitem.InvalidState: exitRefused, workitem.InFlight: exitRefused,
		workitem.ConsentDenied: exitRefused, workitem.Internal: exitCorrupt,
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			b := serveJobs(t)
			b.fake.Refuse(&workitem.Error{Code: code, Message: "it is so", Field: "some.member", Differs: "operation", Outcome: "fenced"})
			exit, out, messages := b.run("stats", "--json")
			if exit != want {
				t.Errorf("exit %d, want %d\n%s", exit, want, messages)
			}
			var doc struct {
				Schema string            `json:"schema"`
				Error  map[string]string `json:"error"`
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if doc.Schema != "writ.error.v1" || doc.Error["code"] != string(code) || !strings.Contains(messages, "writ: ") {
				t.Errorf("printed %s%s", out, messages)
			}
			if code == workitem.InvalidRequest && doc.Error["field"] != "some.member" {
				t.Errorf("the field is missing: %s", out)
			}
		})
	}
}

// TestClaimOfNothingExitsWithTheReason also looks at the claims that wait.
func TestClaimOfNothingExitsWithTheReason(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"claim", itemID(1)},
		{"claim-next", "--kind", "repository.build"},
		{"claim-next", "--kind", "repository.build", "--wait", "10ms"},
	} {
		b := serveJobs(t)
		b.fake.Answer(&workitem.ClaimAnswer{Reason: workitem.ReasonTenantQuota})
		code, out, messages := b.run(args...)
		if code != exitRefused || out != "not claimed: the tenant has as many live leases as it may\n" || messages != "" {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, messages)
		}
		code, out, _ = b.run(append(args, "--json")...)
		if code != exitRefused || !strings.Contains(out, `"reason": "tenant_quota"`) || !strings.Contains(out, `"claim": null`) {
			t.Errorf("%q --json: exit %d\n%s", args, code, out)
		}
	}
}

func TestWatchEndsWithTheJob(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]int{"succeeded": exitOK, "failed": exitRefused, "cancelled": exitRefused, "dead-letter": exitRefused} {
		b := serveJobs(t)
		b.fake.Answer(&workitem.View{State: state, Attempt: 1, MaxAttempts: 3, ErrorRef: ptr("log:7")})
		code, out, _ := b.run("watch", itemID(1))
		if code != want || !strings.HasSuffix(out, "  "+state+"  attempt 1 of 3, log:7\n") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s", state, code, out)
		}
		code, out, _ = b.run("watch", itemID(1), "--json")
		if code != want || !strings.HasPrefix(out, "{\n  \"schema\": \"writ.job-view.v1\",\n") {
			t.Errorf("%s: exit %d\n%s", state, code, out)
		}
	}
}

// TestFollowingOutlastsARestart watches a job of a server that does not answer for
// a while, and waits for a claim of it.
func TestFollowingOutlastsARestart(t *testing.T) {
	t.Parallel()
	const away = 4 // calls: as often as the client itself repeats one
	for _, test := range []struct {
		args   []string
		before any // answers to the first call
		after  any
	}{
		{[]string{"watch", itemID(1)}, &workitem.View{State: "ready", MaxAttempts: 3}, &workitem.View{State: "succeeded", MaxAttempts: 3}},
		{
			[]string{"claim-next", "--kind", "repository.build", "--wait", "1h"},
			&workitem.ClaimAnswer{Reason: workitem.ReasonEmpty}, &workitem.ClaimAnswer{Claimed: true, Reason: workitem.ReasonClaimed, Claim: &workitem.Claim{}},
		},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			t.Parallel()
			b := serveJobs(t)
			var calls atomic.Int64
			b.fake.Hook = func(context.Context) error {
				switch n := calls.Add(1); {
				case n == 1:
					b.fake.Answer(test.before)
				case n <= 1+away:
					return &workitem.Error{Code: workitem.AuthorityUnavailable, Message: "it restarts"}
				default:
					b.fake.Answer(test.after)
				}
				return nil
			}
			code, out, messages := b.run(test.args...)
			if code != 0 || !strings.Contains(messages, "trying again") || strings.Count(messages, "\n") != 1 {
				t.Errorf("exit %d\n%s%s", code, out, messages)
			}
			if n := calls.Load(); n != 2+away {
				t.Errorf("%d calls, want %d", n, 2+away)
			}
		})
	}
}

// TestFollowingEndsWithItsTime ends a wait for a claim whose server has gone.
func TestFollowingEndsWithItsTime(t *testing.T) {
	t.Parallel()
	b := serveJobs(t)
	var calls atomic.Int64
	b.fake.Answer(&workitem.ClaimAnswer{Reason: workitem.ReasonEmpty})
	b.fake.Hook = func(context.Context) error {
		if calls.Add(1) > 1 {
			return &workitem.Error{Code: workitem.AuthorityUnavailable, Message: "it is gone"}
		}
		return nil
	}
	code, out, messages := b.run("claim-next", "--kind", "repository.build", "--wait", "100ms")
	if code != exitUnavailable || out != "" || !strings.Contains(messages, "it is gone") {
		t.Errorf("exit %d\n%s%s", code, out, messages)
	}
}

// TestFollowingNeedsAFirstAnswer refuses at once what cannot be reached at all.
func TestFollowingNeedsAFirstAnswer(t *testing.T) {
	t.Parallel()
	b := serveJobs(t)
	b.fake.Refuse(&workitem.Error{Code: workitem.AuthorityUnavailable, Message: "it is gone"})
	if code, _, messages := b.run("watch", itemID(1)); code != exitUnavailable || strings.Contains(messages, "trying again") {
		t.Errorf("exit %d\n%s", code, messages)
	}
}

// TestRequestsOfFlags compares the request that a command makes. Its members are
// only those that were given.
func TestRequestsOfFlags(t *testing.T) {
	t.Parallel()
	const sha = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	least := []string{"submit", "--operation", "build", "--repository", "r", "--base-ref", "main", "--base-sha", sha}
	base := `"base_ref":"main","base_sha":"` + sha + `",`
	for _, test := range []struct {
		name string
		more []string
		want string
	}{
		{"the least", nil, `{` + base + `"contract_version":"1","idempotency_key":"cli:129c746b13a007bf6d12175dbe559d9f",` +
			`"operation":"build","owner_id":"o","repository_id":"r","request_id":"cli:129c746b13a007bf6d12175dbe559d9f:request",` +
			`"session_id":"cli","tenant_id":"t"}`},
		{"everything", []string{
			"--key", "k", "--request-id", "q", "--session", "s", "--depends-on", itemID(1) + "," + itemID(2), "--priority", "7", "--fairness-group", "g",
			"--resource-class", "heavy", "--concurrency-key", "c", "--deadline", "2026-12-02T15:04:05Z", "--target", "farm", "--label", "linux", "--avoid", "x",
			"--cpu-weight", "2", "--memory", "3", "--disk", "4", "--slots", "5", "--stage", "unit", "--lane", "l", "--candidate", "c", "--generation", "g",
			"--correlation", "z", "--config-digest", "d", "--allow-push", "--allow-destructive-cleanup", "--risk", "m",
		}, `{` + base + `"candidate_id":"c","config_digest":"d","consent":{"allow_destructive_cleanup":true,"allow_push":true,"risk_acknowledged":true,` +
			`"risk_marker":"m"},"contract_version":"1","correlation_id":"z","dependencies":["` + itemID(1) + `","` + itemID(2) + `"],"fairness_group":"g",` +
			`"generation_id":"g","idempotency_key":"k","lane_id":"l","operation":"build","owner_id":"o","priority":7,"repository_id":"r","request_id":"q",` +
			`"resources":{"anti_affinity":["x"],"concurrency_key":"c","cpu_weight":2,"disk_mib":4,"host_labels":["linux"],"memory_mib":3,"process_slots":5,` +
			`"queue_deadline":"2026-12-02T15:04:05Z","resource_class":"heavy"},"session_id":"s","target":{"alias":"farm","kind":"inventory_alias"},` +
			`"tenant_id":"t","validation_policy":{"stages":["unit"]}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := serveJobs(t)
			for range 2 { // the key does not change from one time to the next
				if code, out, messages := b.run(append(append([]string(nil), least...), test.more...)...); code != 0 {
					t.Fatalf("exit %d\n%s%s", code, out, messages)
				}
				_, in := b.fake.Calls()
				if got := string(in.(*workitem.SubmitInput).Request); got != test.want {
					t.Errorf("sent\n%s\nwant\n%s", got, test.want)
				}
			}
		})
	}
}

func TestWrongUseOfJobCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want string
		args []string
	}{
		{"expected a file with a request, or --operation", []string{"submit"}},
		{"outside of a checkout a job needs --repository, --base-ref and --base-sha", []string{"submit", "--operation", "build"}},
		{"--priority and a file", []string{"submit", "-", "--priority", "1"}},
		{"--kind is required", []string{"claim-next"}},
		{"--claim: expected the file", []string{"heartbeat"}},
		{"expected --delay or --until, one of them", []string{"defer", "--claim", "{}"}},
		{"expected --delay or --until, one of them", []string{"defer", "--claim", "{}", "--delay", "1s", "--until", "x"}},
		{"--older-than is required", []string{"prune"}},
		{"--created-after \"yesterday\": expected a duration such as 90m", []string{"list", "--created-after", "yesterday"}},
		{"--dot and --json exclude one another", []string{"graph", itemID(1), "--dot", "--json"}},
		{"accepts 1 arg(s)", []string{"get"}},
		{"--server, --data and --jobs-db exclude one another", []string{"stats", "--data", "x"}},
		{"the URL must be", []string{"stats", "--server", "ftp://example.org"}},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			t.Parallel()
			b := serveJobs(t)
			code, _, messages := b.run(test.args...)
			if code != exitUsage || !strings.Contains(messages, test.want) {
				t.Errorf("%q: exit %d, want %d and %q\n%s", test.args, code, exitUsage, test.want, messages)
			}
			if n, _ := b.fake.Calls(); n != 0 {
				t.Errorf("%q: the server was called", test.args)
			}
		})
	}
}
