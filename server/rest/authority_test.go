package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
	"github.com/writ-authority/writ/workitem/sqlite"
)

// authority is a real authority behind a server.
type authority struct {
	*resttest.Bundle
	t *testing.T
}

func open(t *testing.T) *authority {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "work.db")})
	if err != nil {
		t.Fatal(err)
	}
	zero := time.Duration(0)
	a, err := workitem.New(store, workitem.Config{RetryBase: &zero, RetryFloor: &zero})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return &authority{resttest.Serve(t, func(p workitem.Principal) operation.Jobs { return a.As(p) }), t}
}

var (
	submitter = workitem.Principal{Subject: "sub", Tenant: "tenant-a", Owner: "actor-a", Scopes: workitem.ScopeRead | workitem.ScopeWrite}
	worker    = workitem.Principal{Subject: "wrk", Tenant: "tenant-a", Owner: "worker", Scopes: workitem.ScopeRead | workitem.ScopeWork | workitem.ScopeTenant}
	operator  = workitem.Principal{Subject: "op", Tenant: "tenant-a", Owner: "op", Scopes: workitem.ScopeAdmin}
	stranger  = workitem.Principal{Subject: "sub", Tenant: "tenant-b", Owner: "actor-a", Scopes: workitem.ScopeAdmin}
)

// request is a submission with other members than those of the tenant's other
// jobs.
func request(tenant, key string, more string) []byte {
	return fmt.Appendf(nil, `{"contract_version":"1","request_id":"req-%s","idempotency_key":"%s","operation":"build",`+
		`"repository":{"repository_id":"repo-a"},"base_ref":"main","base_sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",`+
		`"owner_id":"actor-a","session_id":"session-a","tenant_id":"%s"%s}`, key, key, tenant, more)
}

// raw makes a call with a request id of its own and gives the answer as it came.
func (a *authority) raw(p workitem.Principal, method, path, body string) (int, http.Header, []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.URL+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+resttest.Token(a.t, p))
	r.Header.Set("X-Request-Id", "r-1")
	response, err := a.HTTP.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		a.t.Fatal(err)
	}
	return response.StatusCode, response.Header, text
}

func TestExampleOfTheSpecification(t *testing.T) {
	t.Parallel()
	a := open(t)
	// Section 21.
	body := string(request("tenant-a", "idem-1", ""))
	want := `{"contract_version":"1","job_id":"rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25",` +
		`"work_item_id":"workitem:repository_manager:0e64e7be-8728-5c0c-839b-4ee165705a25","request_id":"req-1","state":"ready",` +
		`"input_digest":"b14a97bf844ddb434826bcd72e1f2cbab9cc4d7829e630726034fedde5568794","deduplicated":false}`
	body = strings.Replace(body, "req-idem-1", "req-1", 1)
	status, header, got := a.raw(submitter, "POST", "/v1/jobs", body)
	if status != 201 || string(got) != want || header.Get("Location") != "/v1/jobs/"+job {
		t.Errorf("answer %d %s\nwant %s", status, got, want)
	}
	status, _, got = a.raw(submitter, "POST", "/v1/jobs", body)
	if status != 200 || string(got) != strings.Replace(want, "false", "true", 1) {
		t.Errorf("again: %d %s", status, got)
	}
	status, _, got = a.raw(submitter, "POST", "/v1/jobs", strings.Replace(body, `"build"`, `"validation"`, 1))
	if status != 409 || !bytes.Contains(got, []byte(`"code":"duplicate_request"`)) || !bytes.Contains(got, []byte(`"differs":"operation"`)) {
		t.Errorf("other operation: %d %s", status, got)
	}
	if status, _, got = a.raw(worker, "POST", "/v1/claims", `{"kind":"repository.build","worker":"worker-1","lease_ttl_s":60}`); status != 200 {
		t.Fatalf("claim: %d %s", status, got)
	}
	var claimed struct{ Claim json.RawMessage }
	if err := json.Unmarshal(got, &claimed); err != nil {
		t.Fatal(err)
	}
	status, _, got = a.raw(worker, "POST", "/v1/jobs/"+job+"/commit", `{"claim":`+string(claimed.Claim)+`,"outcome":"failed","failure_class":"validation_candidate_failure","retryable":false}`)
	if status != 200 || string(got) != `{"status":"committed"}` {
		t.Errorf("commit: %d %s", status, got)
	}
	view, err := a.Client(t, submitter).Get(t.Context(), &workitem.GetInput{JobID: job})
	if err != nil || *view.ErrorRef != "repository-error:v1:validation_candidate_failure::" {
		t.Errorf("view %+v %v", view, err)
	}
	result, err := a.Client(t, submitter).Result(t.Context(), &workitem.JobInput{JobID: job})
	if err != nil || *result.FailureClass != "validation_candidate_failure" || result.ErrorRef != nil || result.Attempt != 1 {
		t.Errorf("result %+v %v", result, err)
	}
}

// TestScopesAreThoseOfTheTable: each operation needs each scope that its row
// names, and no other.
func TestScopesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	a := open(t)
	all := []workitem.Scope{workitem.ScopeRead, workitem.ScopeWrite, workitem.ScopeWork, workitem.ScopeTenant, workitem.ScopeOnBehalf, workitem.ScopeAdmin}
	for _, o := range operation.Table {
		call := func(scopes workitem.Scope) error {
			in := o.NewInput()
			v := reflect.ValueOf(in).Elem()
			for name, text := range map[string]string{"JobID": job, "ID": "0123456789abcdef", "Worker": "w", "Checkpoint": "checkpoint:x"} {
				if f := v.FieldByName(name); f.IsValid() {
					f.SetString(text)
				}
			}
			p := submitter
			p.Scopes = scopes
			_, err := o.Call(t.Context(), a.Client(t, p), in)
			return err
		}
		if err := call(o.Scope); errors.Is(err, &workitem.Error{Code: workitem.ForbiddenScope}) {
			t.Errorf("%s: its own scope is not enough: %v", o.Name, err)
		}
		for _, s := range all {
			if o.Scope&s == 0 {
				continue
			}
			var without workitem.Scope
			for _, other := range all {
				if other != s && other != workitem.ScopeAdmin {
					without |= other
				}
			}
			if err := call(without); !errors.Is(err, &workitem.Error{Code: workitem.ForbiddenScope}) {
				t.Errorf("%s: allowed without %v: %v", o.Name, s.Names(), err)
			}
		}
	}
}

// TestWorkersRound goes through the life of two jobs, and holds each answer
// against the document on its way.
func TestWorkersRound(t *testing.T) {
	t.Parallel()
	a := open(t)
	ctx := t.Context()
	sub, wrk, op := a.Client(t, submitter), a.Client(t, worker), a.Client(t, operator)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parent, err := sub.Submit(ctx, &workitem.SubmitInput{Request: request("tenant-a", "parent", ""), Trace: trace, IdempotencyKey: "parent"})
	if err != nil {
		t.Fatal(err)
	}
	child, err := sub.Submit(ctx, &workitem.SubmitInput{Request: request("tenant-a", "child", `,"dependencies":["`+parent.JobID+`"]`)})
	if err != nil || child.State != "submitted" {
		t.Fatalf("%+v %v", child, err)
	}
	why, err := sub.Explain(ctx, &workitem.JobInput{JobID: child.JobID})
	if err != nil || why.Claimable || len(why.BlockedBy) != 1 || why.BlockedBy[0].WorkItemID != parent.WorkItemID {
		t.Errorf("%+v %v", why, err)
	}
	graph, err := sub.Graph(ctx, &workitem.GraphInput{JobID: parent.JobID})
	if err != nil || len(graph.Nodes) != 2 || len(graph.Edges) != 1 {
		t.Errorf("%+v %v", graph, err)
	}
	if _, err := sub.Result(ctx, &workitem.JobInput{JobID: parent.JobID}); !errors.Is(err, workitem.ErrInvalidState) {
		t.Errorf("a result before the end: %v", err)
	}

	claim := &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w-1", ClaimRequestID: "c-1"}
	first, err := wrk.ClaimNext(ctx, claim)
	if err != nil || !first.Claimed || first.Trace != trace || first.Job.JobID != parent.JobID {
		t.Fatalf("%+v %v", first, err)
	}
	again, err := wrk.ClaimNext(ctx, claim)
	if err != nil || !reflect.DeepEqual(again.Claim, first.Claim) {
		t.Errorf("repeated: %+v %v", again, err)
	}
	if empty, err := wrk.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w-2"}); err != nil || empty.Claimed || empty.Reason != workitem.ReasonEmpty {
		t.Errorf("%+v %v", empty, err)
	}
	own, err := wrk.CurrentClaim(ctx, &workitem.CurrentClaimInput{JobID: parent.JobID, Worker: "w-1"})
	if err != nil || !reflect.DeepEqual(own, first.Claim) {
		t.Errorf("%+v %v", own, err)
	}
	fence := first.Claim.Fence()
	ttl := 120.0
	if r, err := wrk.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: parent.JobID, Claim: fence, LeaseTTL: &ttl}); err != nil || !r.Renewed {
		t.Errorf("%+v %v", r, err)
	}
	if c, err := wrk.Checkpoint(ctx, &workitem.CheckpointInput{JobID: parent.JobID, Claim: fence, Checkpoint: "checkpoint:half"}); err != nil || !c.Applied {
		t.Errorf("%+v %v", c, err)
	}
	stale := fence
	stale.LeaseEpoch--
	var refusal *workitem.Error
	_, err = wrk.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: parent.JobID, Claim: stale})
	if !errors.As(err, &refusal) || refusal.Code != workitem.StaleFence || refusal.Outcome != "fenced" || refusal.Renewed == nil || *refusal.Renewed {
		t.Errorf("%+v", err)
	}
	_, err = wrk.Checkpoint(ctx, &workitem.CheckpointInput{JobID: parent.JobID, Claim: stale, Checkpoint: "checkpoint:x"})
	if !errors.As(err, &refusal) || refusal.Outcome != "fenced" || refusal.Applied == nil || *refusal.Applied {
		t.Errorf("%+v", err)
	}
	_, err = wrk.Heartbeat(ctx, &workitem.HeartbeatInput{JobID: child.JobID, Claim: fence})
	if !errors.Is(err, workitem.ErrClaimMismatch) {
		t.Errorf("a claim of another job: %v", err)
	}
	result := "result:1"
	commit := &workitem.CommitInput{JobID: parent.JobID, Claim: fence, Outcome: "succeeded", ResultRef: &result}
	for _, want := range []string{workitem.Committed, workitem.Noop} {
		if s, err := wrk.Commit(ctx, commit); err != nil || s.Status != want {
			t.Errorf("%+v %v", s, err)
		}
	}

	second, err := wrk.Claim(ctx, &workitem.ClaimInput{JobID: child.WorkItemID, Worker: "w-1"})
	if err != nil || !second.Claimed || second.Job != nil {
		t.Fatalf("%+v %v", second, err)
	}
	zero := 0.0
	if s, err := wrk.Defer(ctx, &workitem.DeferInput{JobID: child.JobID, Claim: second.Claim.Fence(), Delay: &zero}); err != nil || s.Status != workitem.Deferred {
		t.Errorf("%+v %v", s, err)
	}
	cancelled, err := sub.Cancel(ctx, &workitem.CancelInput{JobID: child.JobID, Reason: "no longer wanted", Mode: "if_idle"})
	if err != nil || !cancelled.Changed || cancelled.Job.State != "cancelled" {
		t.Errorf("%+v %v", cancelled, err)
	}
	retry, err := sub.Retry(ctx, &workitem.RetryInput{JobID: child.JobID, Adopt: true})
	if err != nil || retry.Deduplicated || retry.RetryOf != child.JobID {
		t.Errorf("%+v %v", retry, err)
	}
	history, err := sub.History(ctx, &workitem.JobInput{JobID: parent.JobID})
	if err != nil || len(history.Items) < 4 || history.Items[len(history.Items)-1].To != "succeeded" {
		t.Errorf("%+v %v", history, err)
	}

	var seen []string
	limit, cursor := 1, ""
	for {
		page, err := sub.List(ctx, &workitem.ListInput{Operation: "build", Limit: &limit, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Items {
			seen = append(seen, v.JobID)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if len(seen) != 3 || seen[0] != parent.JobID || seen[1] != child.JobID {
		t.Errorf("listed %v", seen)
	}
	if _, err := a.Client(t, stranger).List(ctx, &workitem.ListInput{Cursor: cursor}); !errors.Is(err, workitem.ErrUnauthorizedTarget) {
		t.Errorf("a cursor of another tenant: %v", err)
	}

	if r, err := op.Reconcile(ctx, &workitem.ReconcileInput{}); err != nil || r.Repaired != 0 {
		t.Errorf("%+v %v", r, err)
	}
	if s, err := op.Stats(ctx, &workitem.NoInput{}); err != nil || s.LiveLeases != 0 || s.Claimable != 1 {
		t.Errorf("%+v %v", s, err)
	}
	if k, err := op.Kinds(ctx, &workitem.NoInput{}); err != nil || len(k.Items) != 14 {
		t.Errorf("%+v %v", k, err)
	}
	if _, err := op.Consent(ctx, &workitem.ConsentInput{JobID: parent.JobID, Action: "revoke"}); !errors.Is(err, workitem.ErrInvalidState) {
		t.Errorf("the consent of a job that needs none: %v", err)
	}
	if p, err := op.Prune(ctx, &workitem.PruneInput{DryRun: true}); err != nil || p.Pruned == 0 {
		t.Errorf("%+v %v", p, err)
	}
	token, err := op.CreateToken(ctx, &workitem.TokenInput{Name: "ci", Subject: "ci", Scopes: []string{"jobs:read"}})
	if err != nil || token.Token == "" {
		t.Fatalf("%+v %v", token, err)
	}
	if list, err := op.Tokens(ctx, &workitem.NoInput{}); err != nil || len(list.Items) != 1 || list.Items[0].RevokedAt != nil {
		t.Errorf("%+v %v", list, err)
	}
	if r, err := op.RevokeToken(ctx, &workitem.RevokeInput{ID: token.ID}); err != nil || r.RevokedAt == nil {
		t.Errorf("%+v %v", r, err)
	}
}

// TestNothingTellsForeignFromMissing: to the byte.
func TestNothingTellsForeignFromMissing(t *testing.T) {
	t.Parallel()
	a := open(t)
	foreign, err := a.Client(t, stranger).Submit(t.Context(), &workitem.SubmitInput{Request: request("tenant-b", "k", "")})
	if err != nil {
		t.Fatal(err)
	}
	others, err := a.Client(t, operator).Submit(t.Context(), &workitem.SubmitInput{Request: bytes.Replace(request("tenant-a", "k2", ""), []byte("actor-a"), []byte("actor-b"), 1)})
	if err != nil {
		t.Fatal(err)
	}
	const missing = "rmjob:00000000-0000-5000-8000-000000000000"
	for _, o := range operation.Table {
		if !strings.HasPrefix(o.Path, "/v1/jobs/{id}") || o.Scope == workitem.ScopeAdmin {
			continue
		}
		ask := func(id string) string {
			path, body := strings.Replace(o.Path, "{id}", id, 1), ""
			switch o.Name {
			case "work_current_claim":
				path += "?worker=w"
			case "work_claim":
				body = `{"worker":"w"}`
			case "work_heartbeat", "work_checkpoint", "work_commit", "work_defer":
				body = `{"claim":{"work_item_id":"` + strings.Replace(id, "rmjob:", "workitem:repository_manager:", 1) + `","lease_owner":"w","lease_epoch":1,"fencing_token":1}`
				body += map[string]string{"work_heartbeat": `}`, "work_checkpoint": `,"checkpoint":"checkpoint:x"}`,
					"work_commit": `,"outcome":"succeeded"}`, "work_defer": `,"delay_s":0}`}[o.Name]
			}
			p := submitter
			p.Scopes |= workitem.ScopeWork
			status, header, text := a.raw(p, o.Method, path, body)
			if status != 404 {
				t.Errorf("%s: %d %s", o.Name, status, text)
			}
			header.Del("Date")
			return fmt.Sprint(status, header, string(text))
		}
		want := ask(missing)
		for _, id := range []string{foreign.JobID, others.JobID} {
			if got := ask(id); got != want {
				t.Errorf("%s: %s\nand %s", o.Name, got, want)
			}
		}
	}
	submit := func(parent string) string {
		status, header, text := a.raw(submitter, "POST", "/v1/jobs", string(request("tenant-a", "child", `,"dependencies":["`+parent+`"]`)))
		if status != 422 {
			t.Errorf("%d %s", status, text)
		}
		header.Del("Date")
		return fmt.Sprint(status, header, string(text))
	}
	if got, want := submit(foreign.JobID), submit(missing); got != want {
		t.Errorf("%s\nand %s", got, want)
	}
}

// TestLongPolls: a waiting read is answered by the end of its job, and a waiting
// claim by a submission.
func TestLongPolls(t *testing.T) {
	t.Parallel()
	a := open(t)
	sub, wrk := a.Client(t, submitter), a.Client(t, worker)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	wait := 60.0
	claims := make(chan *workitem.ClaimAnswer, 1)
	go func() {
		answer, err := wrk.ClaimNext(ctx, &workitem.ClaimNextInput{Kind: "repository.build", Worker: "w", Wait: &wait})
		if err != nil {
			t.Error(err)
		}
		claims <- answer
	}()
	handle, err := sub.Submit(ctx, &workitem.SubmitInput{Request: request("tenant-a", "k", "")})
	if err != nil {
		t.Fatal(err)
	}
	answer := <-claims
	if answer == nil || !answer.Claimed {
		t.Fatalf("%+v", answer)
	}
	views := make(chan *workitem.View, 1)
	go func() {
		view, err := sub.Get(ctx, &workitem.GetInput{JobID: handle.JobID, Wait: &wait, Until: "terminal"})
		if err != nil {
			t.Error(err)
		}
		views <- view
	}()
	if _, err := wrk.Commit(ctx, &workitem.CommitInput{JobID: handle.JobID, Claim: answer.Claim.Fence(), Outcome: "cancelled"}); err != nil {
		t.Fatal(err)
	}
	if view := <-views; view == nil || view.State != "cancelled" {
		t.Errorf("%+v", view)
	}
}

// TestJobRequestIsWhatTheAuthorityTakes: a request with every member that the
// document has is taken, and each of its refusals names the member.
func TestJobRequestIsWhatTheAuthorityTakes(t *testing.T) {
	t.Parallel()
	target := map[string]any{"contract_version": "1", "kind": "inventory_alias", "alias": "alias-1", "target_alias": "alias-1", "capability_labels": []string{"c"}}
	digest := strings.Repeat("a", 64)
	full := map[string]any{
		"contract_version": "1", "request_id": "r", "id": "r", "idempotency_key": "k", "operation": "build",
		"repository":    map[string]any{"contract_version": "1", "repository_id": "repo", "canonical_path": "/srv/repo", "configured_roots": []string{"/srv"}, "origin": "o"},
		"repository_id": "repo", "base_ref": "main", "base_sha": strings.Repeat("a", 40), "owner_id": "o", "session_id": "s",
		"tenant_id": "t", "tenant": "t", "fairness_group": "g", "dependencies": []string{job}, "depends_on": []string{job}, "priority": 1,
		"resources": map[string]any{"contract_version": "1", "resource_class": "c", "concurrency_key": "c", "cpu_weight": 1, "memory_mib": 1, "disk_mib": 1,
			"process_slots": 1, "host_labels": []string{"l"}, "anti_affinity": []string{"l"}, "preferred_target": target, "required_target": target, "priority": 1,
			"fairness_group": "g", "queue_deadline": "2030-01-01T00:00:00Z", "disk_low_watermark_mib": 0, "disk_high_watermark_mib": 1},
		"resource_class": "c", "concurrency_key": "c", "target": target,
		"validation_policy": map[string]any{"contract_version": "1", "stages": []string{"a"}, "differential": true, "changed_paths": []string{"p"}, "blocking": false},
		"consent":           map[string]any{"contract_version": "1", "allow_push": true, "allow_destructive_cleanup": true, "risk_acknowledged": true, "risk_marker": "m"},
		"lane_id":           "l", "candidate_id": "c", "generation_id": "g", "config_digest": digest, "input_digest": digest, "correlation_id": "c",
		"retry_class": "m", "repair_intent_digest": digest,
	}
	whole(t, reflect.TypeFor[operation.JobRequest](), full, "")
	body, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	submit, _ := operation.ByName("job_submit")
	if err := resttest.CheckRequest(submit, body); err != nil {
		t.Error(err)
	}
	if _, err := workitem.ParseRequest(body, false); err != nil {
		t.Error(err)
	}
	var typed operation.JobRequest
	if err := json.Unmarshal(body, &typed); err != nil {
		t.Error(err)
	}
	// Null is taken where the document says so.
	schema := rest.OpenAPI().Components.Schemas.Map()["JobRequest"]
	for name, property := range schema.Properties {
		if !property.Nullable && property.AnyOf == nil {
			continue
		}
		one := maps.Clone(full)
		one[name] = nil
		body, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workitem.ParseRequest(body, false); err != nil {
			t.Errorf("the document takes %s: null, the authority refuses it: %v", name, err)
		}
	}
}

// whole fails if a sample lacks a member of a type.
func whole(t *testing.T, typ reflect.Type, sample any, path string) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return
	}
	m := sample.(map[string]any)
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		value, ok := m[name]
		if !ok {
			t.Errorf("the sample lacks %s%s", path, name)
			continue
		}
		whole(t, typ.Field(i).Type, value, path+name+".")
	}
}
