package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/server/rest/resttest"
	"github.com/writ-authority/writ/workitem"
)

var caller = workitem.Principal{Subject: "s", Tenant: "tenant-a", Owner: "o", Scopes: workitem.ScopeAdmin}

// secret stands in requests where a refusal must not repeat it.
const secret = "hunter2"

const job = "rmjob:0e64e7be-8728-5c0c-839b-4ee165705a25"

// bundle is a handler over a Fake.
type bundle struct {
	t       *testing.T
	fake    *resttest.Fake
	handler http.Handler
	calls   []rest.Call
	log     bytes.Buffer
}

func setup(t *testing.T, change ...func(*rest.Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, fake: new(resttest.Fake)}
	cfg := rest.Config{
		Authenticate: func(r *http.Request) (operation.Jobs, workitem.Principal, error) {
			if r.Header.Get("Authorization") == "" {
				return nil, workitem.Principal{}, &workitem.Error{Code: workitem.Unauthenticated, Message: "a token is needed"}
			}
			return b.fake, caller, nil
		},
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Done:   func(_ context.Context, c rest.Call) { b.calls = append(b.calls, c) },
	}
	for _, f := range change {
		f(&cfg)
	}
	b.handler = rest.New(cfg)
	return b
}

// do makes a call with a credential. Headers are pairs of name and value. Every
// answer is held against the OpenAPI document.
func (b *bundle) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return b.serve(r)
}

func (b *bundle) serve(r *http.Request) *httptest.ResponseRecorder {
	b.t.Helper()
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	if r.Method != http.MethodOptions && r.URL.Path != "/v1/openapi.json" {
		if err := resttest.Check(r.Method, r.URL.EscapedPath(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
			b.t.Error(err)
		}
	}
	return w
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) rest.Problem {
	t.Helper()
	var p rest.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if p.Status != w.Code || p.RequestID != w.Header().Get("X-Request-Id") || p.Type != "urn:writ:problem:"+string(p.Code) {
		t.Errorf("problem %+v does not fit the answer %d %v", p, w.Code, w.Header())
	}
	return p
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	fresh, same := resttest.Sample[workitem.Handle](), resttest.Sample[workitem.Handle]()
	fresh.Deduplicated, fresh.JobID, same.JobID = false, job, job
	again := &workitem.RetryHandle{Handle: *fresh}
	traced := &workitem.ClaimAnswer{Claimed: true, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	token := resttest.Sample[workitem.NewToken]()
	token.ID = "7"
	for _, tt := range []struct {
		name, method, path, body string
		out                      any
		status                   int
		header, value            string
	}{
		{"new job", "POST", "/v1/jobs", "{}", fresh, 201, "Location", "/v1/jobs/" + job},
		{"the same job", "POST", "/v1/jobs", "{}", same, 200, "Location", "/v1/jobs/" + job},
		{"retry", "POST", "/v1/jobs/" + job + "/retry", "", again, 201, "Location", "/v1/jobs/" + job},
		{"retry with a body", "POST", "/v1/jobs/" + job + "/retry", `{"adopt":true}`, again, 201, "Location", "/v1/jobs/" + job},
		{"token", "POST", "/v1/tokens", `{"name":"n","subject":"s","scopes":["jobs:read"]}`, token, 201, "Location", "/v1/tokens/7"},
		{"claim", "POST", "/v1/claims", `{"kind":"repository.build","worker":"w"}`, traced, 200, "Traceparent", traced.Trace},
		{"nothing to claim", "POST", "/v1/claims", `{"kind":"repository.build","worker":"w"}`,
			&workitem.ClaimAnswer{Reason: workitem.ReasonEmpty}, 200, "Traceparent", ""},
		{"list", "GET", "/v1/jobs?state=ready&state=dead-letter", "", &workitem.Page{}, 200, "Cache-Control", "no-store"},
		{"head", "HEAD", "/v1/kinds", "", &workitem.Kinds{}, 200, "Content-Type", "application/json"},
		{"id percent-encoded", "GET", "/v1/jobs/rmjob%3A0e64e7be-8728-5c0c-839b-4ee165705a25", "", nil, 200, "Cache-Control", "private, no-cache"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fake.Answer(tt.out)
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer x")
			w := httptest.NewRecorder()
			b.handler.ServeHTTP(w, r)
			if tt.method != "HEAD" { // net/http drops its body
				if err := resttest.Check(tt.method, r.URL.EscapedPath(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
					t.Error(err)
				}
			}
			if w.Code != tt.status || w.Header().Get(tt.header) != tt.value {
				t.Errorf("answer %d, %s %q; want %d, %q\n%s", w.Code, tt.header, w.Header().Get(tt.header), tt.status, tt.value, w.Body)
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Error("the answer may be sniffed")
			}
		})
	}
}

// TestListsAreNeverNull: an answer whose lists are nil has empty ones.
func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fake.Answer(&workitem.Diagnostics{})
	w := b.do("GET", "/v1/jobs/"+job+"/diagnostics", "")
	if !strings.Contains(w.Body.String(), `"blocked_by":[]`) || !strings.Contains(w.Body.String(), `"next_retry_at":null`) {
		t.Errorf("answer %s", w.Body)
	}
}

func TestSubmissionArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := " {\"idempotency_key\" : \"a\", \"idempotency_key\":\"\\u0061\",\n\"x\":1e400} trailing"
	b.do("POST", "/v1/jobs?max_attempts=7&backoff_base_s=0.5", body,
		"Idempotency-Key", "a", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	_, in := b.fake.Calls()
	got := in.(*workitem.SubmitInput)
	if string(got.Request) != body || *got.MaxAttempts != 7 || *got.BackoffBase != 0.5 || got.IdempotencyKey != "a" ||
		got.Trace != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
		t.Errorf("arrived %+v", got)
	}
	// What the authority keeps must not change with the next call.
	kept := got.Request
	b.do("POST", "/v1/jobs", strings.Repeat("z", len(body)))
	if string(kept) != body {
		t.Error("the bytes of a submission were used again")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	fence := `"claim":{"work_item_id":"w","lease_owner":"l","lease_epoch":1,"fencing_token":1}`
	heartbeat := "/v1/jobs/" + job + "/heartbeat"
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code                     workitem.Code
		field                    string
	}{
		{"no such route", "GET", "/v1/" + secret, "", 404, workitem.NotFound, ""},
		{"outside", "GET", "/" + secret, "", 404, workitem.NotFound, ""},
		{"trailing slash", "GET", "/v1/jobs/", "", 404, workitem.NotFound, ""},
		{"path that is not clean", "GET", "/v1//jobs", "", 404, workitem.NotFound, ""},
		{"path that climbs", "GET", "/v1/jobs/../kinds", "", 404, workitem.NotFound, ""},
		{"deeper", "GET", "/v1/jobs/" + job + "/claim/" + secret, "", 404, workitem.NotFound, ""},
		{"method", "PUT", "/v1/jobs", "", 405, rest.MethodNotAllowed, ""},
		{"method of the document", "POST", "/v1/openapi.json", "", 405, rest.MethodNotAllowed, ""},
		{"no JSON", "POST", heartbeat, secret, 400, workitem.InvalidRequest, ""},
		{"empty body", "POST", heartbeat, "", 400, workitem.InvalidRequest, ""},
		{"torn body", "POST", heartbeat, `{"` + secret, 400, workitem.InvalidRequest, ""},
		{"array", "POST", heartbeat, `["` + secret + `"]`, 400, workitem.InvalidRequest, ""},
		{"more behind it", "POST", heartbeat, `{` + fence + `} {}`, 400, workitem.InvalidRequest, ""},
		{"rubbish behind it", "POST", heartbeat, `{` + fence + `} ` + secret, 400, workitem.InvalidRequest, ""},
		{"unknown member", "POST", heartbeat, `{` + fence + `,"ttl":"` + secret + `"}`, 400, workitem.InvalidRequest, "ttl"},
		{"other case", "POST", heartbeat, `{` + fence + `,"Lease_TTL_s":1}`, 400, workitem.InvalidRequest, "Lease_TTL_s"},
		{"member of the path in the body", "POST", heartbeat, `{` + fence + `,"job_id":"` + secret + `"}`, 400, workitem.InvalidRequest, "job_id"},
		{"duplicate", "POST", heartbeat, `{` + fence + `,"lease_ttl_s":1,"lease_ttl_s":2}`, 400, workitem.InvalidRequest, "lease_ttl_s"},
		{"nested duplicate", "POST", heartbeat, `{"claim":{"lease_epoch":1,"lease_epoch":2}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"missing", "POST", heartbeat, `{}`, 400, workitem.InvalidRequest, "claim"},
		{"nested missing", "POST", heartbeat, `{"claim":{}}`, 400, workitem.InvalidRequest, "claim.work_item_id"},
		{"null", "POST", heartbeat, `{"claim":null}`, 400, workitem.InvalidRequest, "claim"},
		{"nested null", "POST", heartbeat, `{"claim":{"lease_epoch":null}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"string for object", "POST", heartbeat, `{"claim":"` + secret + `"}`, 400, workitem.InvalidRequest, "claim"},
		{"string for integer", "POST", heartbeat, `{"claim":{"lease_epoch":"` + secret + `"}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"fraction", "POST", heartbeat, `{"claim":{"lease_epoch":7.0}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"exponent", "POST", heartbeat, `{"claim":{"lease_epoch":7e0}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"true for integer", "POST", heartbeat, `{"claim":{"lease_epoch":true}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"too many digits", "POST", heartbeat, `{"claim":{"lease_epoch":9223372036854775808}}`, 400, workitem.InvalidRequest, "claim.lease_epoch"},
		{"string for number", "POST", heartbeat, `{` + fence + `,"lease_ttl_s":"` + secret + `"}`, 400, workitem.InvalidRequest, "lease_ttl_s"},
		{"number that is too large", "POST", heartbeat, `{` + fence + `,"lease_ttl_s":1e999}`, 400, workitem.InvalidRequest, "lease_ttl_s"},
		{"number for string", "POST", "/v1/claims", `{"kind":1}`, 400, workitem.InvalidRequest, "kind"},
		{"lone surrogate", "POST", "/v1/claims", `{"kind":"\ud800"}`, 400, workitem.InvalidRequest, ""},
		{"not UTF-8", "POST", "/v1/claims", "{\"kind\":\"\xff\"}", 400, workitem.InvalidRequest, ""},
		{"string for list", "POST", "/v1/tokens", `{"name":"n","subject":"s","scopes":"` + secret + `"}`, 400, workitem.InvalidRequest, "scopes"},
		{"list of numbers", "POST", "/v1/tokens", `{"name":"n","subject":"s","scopes":[1]}`, 400, workitem.InvalidRequest, "scopes"},
		{"number for true", "POST", "/v1/prune", `{"older_than_s":1,"dry_run":1}`, 400, workitem.InvalidRequest, "dry_run"},
		{"deep", "POST", heartbeat, strings.Repeat("[", 200000), 400, workitem.InvalidRequest, ""},
		{"body that is not asked for", "DELETE", "/v1/tokens/7", `{"x":"` + secret + `"}`, 400, workitem.InvalidRequest, ""},
		{"too large", "POST", heartbeat, strings.Repeat(" ", rest.MaxBody+1), 413, workitem.PayloadTooLarge, ""},
		{"too large to submit", "POST", "/v1/jobs", strings.Repeat(" ", rest.MaxBody+1), 413, workitem.PayloadTooLarge, ""},
		{"unknown parameter", "GET", "/v1/jobs?" + "sort=" + secret, "", 400, workitem.InvalidRequest, "sort"},
		{"parameter where there are none", "GET", "/v1/kinds?x=" + secret, "", 400, workitem.InvalidRequest, "x"},
		{"duplicate parameter", "GET", "/v1/jobs?limit=1&limit=2", "", 400, workitem.InvalidRequest, "limit"},
		{"empty parameter", "GET", "/v1/jobs?lane_id=", "", 400, workitem.InvalidRequest, "lane_id"},
		{"bad integer", "GET", "/v1/jobs?limit=" + secret, "", 400, workitem.InvalidRequest, "limit"},
		{"fraction in the query", "GET", "/v1/jobs?limit=7.0", "", 400, workitem.InvalidRequest, "limit"},
		{"sign in the query", "GET", "/v1/jobs?limit=%2B7", "", 400, workitem.InvalidRequest, "limit"},
		{"bad number", "GET", "/v1/jobs/" + job + "?wait_s=Inf", "", 400, workitem.InvalidRequest, "wait_s"},
		{"hexadecimal number", "GET", "/v1/jobs/" + job + "?wait_s=0x1p4", "", 400, workitem.InvalidRequest, "wait_s"},
		{"bad boolean", "GET", "/v1/jobs?claimable=1", "", 400, workitem.InvalidRequest, "claimable"},
		{"bad escape", "GET", "/v1/jobs?lane_id=%zz" + secret, "", 400, workitem.InvalidRequest, "lane_id"},
		{"query that is not UTF-8", "GET", "/v1/jobs?lane_id=%ff", "", 400, workitem.InvalidRequest, "lane_id"},
		{"bad escape in a name", "GET", "/v1/jobs?%zz" + secret + "=1", "", 400, workitem.InvalidRequest, ""},
		{"missing parameter", "GET", "/v1/jobs/" + job + "/claim", "", 400, workitem.InvalidRequest, "worker"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", strings.NewReader(tt.body))
			r.Method, r.RequestURI = tt.method, tt.path
			u, err := r.URL.Parse(tt.path)
			if err != nil {
				t.Fatal(err)
			}
			if path, query, _ := strings.Cut(tt.path, "?"); true {
				u.Path, u.RawQuery = path, query // Parse would clean it
			}
			r.URL = u
			r.Header.Set("Authorization", "Bearer x")
			w := httptest.NewRecorder()
			b.handler.ServeHTTP(w, r)
			p := problemOf(t, w)
			if w.Code != tt.status || p.Code != tt.code || p.Field != tt.field || p.Retryable {
				t.Errorf("answer %d %s, field %q; want %d %s, %q", w.Code, p.Code, p.Field, tt.status, tt.code, tt.field)
			}
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("the refusal repeats a value: %s", w.Body)
			}
			if n, _ := b.fake.Calls(); n != 0 {
				t.Error("the authority was called")
			}
			if tt.status == 405 && w.Header().Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
}

func TestTooLargeWithoutALength(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/v1/jobs", "/v1/claims"} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, io.MultiReader(strings.NewReader(strings.Repeat(" ", rest.MaxBody)), strings.NewReader("  ")))
		r.Header.Set("Authorization", "Bearer x")
		r.ContentLength = -1
		if p := problemOf(t, b.serve(r)); p.Code != workitem.PayloadTooLarge {
			t.Errorf("%s: %s", path, p.Code)
		}
	}
}

// TestLargestBody: a submission of exactly the limit arrives whole.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do("POST", "/v1/jobs", strings.Repeat(" ", rest.MaxBody))
	_, in := b.fake.Calls()
	if n := len(in.(*workitem.SubmitInput).Request); n != rest.MaxBody {
		t.Errorf("%d bytes arrived", n)
	}
}

func TestLongNamesAreCut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := problemOf(t, b.do("POST", "/v1/claims", `{"`+strings.Repeat("n", 1000)+"\\u0007"+`":1}`))
	if len(p.Field) > 100 {
		t.Errorf("a name of %d bytes is repeated", len(p.Field))
	}
	p = problemOf(t, b.do("POST", "/v1/claims", `{"a\u0007é":1}`))
	if p.Field != "a?é" {
		t.Errorf("field %q", p.Field)
	}
}

// TestMembersOfAClaimThatNobodyLooksAt: a worker may send the whole claim back.
func TestMembersOfAClaimThatNobodyLooksAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.do("POST", "/v1/jobs/"+job+"/heartbeat", `{"claim":`+benchFence+`,"lease_ttl_s":null}`)
	if w.Code != 200 {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	_, in := b.fake.Calls()
	got := in.(*workitem.HeartbeatInput)
	want := workitem.HeartbeatInput{JobID: job, Claim: workitem.Fence{
		WorkItemID: "workitem:repository_manager:0e64e7be-8728-5c0c-839b-4ee165705a25", JobID: job, Tenant: "tenant-a",
		LeaseOwner: "worker-1", LeaseEpoch: 1, FencingToken: 1}}
	if *got != want {
		t.Errorf("arrived %+v", got)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/v1/jobs", "/v1/kinds", "/v1/tokens"} {
		w := b.serve(httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		if p := problemOf(t, w); w.Code != 401 || p.Code != workitem.Unauthenticated || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: answer %d %v", path, w.Code, w.Header())
		}
	}
	if w := b.serve(httptest.NewRequestWithContext(t.Context(), "GET", "/v1/openapi.json", nil)); w.Code != 200 {
		t.Errorf("the document needs a credential: %d", w.Code)
	}
}

// TestEveryCode: the status and the members of each refusal.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	no := false
	statuses := map[workitem.Code]int{
		workitem.InvalidRequest: 400, workitem.Unauthenticated: 401, workitem.UnauthorizedTarget: 403,
		workitem.ForbiddenScope: 403, workitem.NotFound: 404, workitem.DuplicateRequest: 409, workitem.StaleFence: 409,
		workitem.ClaimMismatch: 409, workitem.InvalidState: 409, workitem.InFlight: 409, workitem.ConsentDenied: 409,
		workitem.DependencyUnavailable: 422, workitem.PayloadTooLarge: 413, workitem.TooManyRequests: 429,
		workitem.AuthorityUnavailable: 503, workitem.Internal: 500, "unheard_of": 500,
	}
	for code, status := range statuses {
		b := setup(t)
		e := &workitem.Error{Code: code, Message: "what was expected", Field: "claim", Outcome: "fenced",
			Renewed: &no, Applied: &no, Differs: "projection", Err: errors.New(secret)}
		b.fake.Refuse(e)
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/claims", strings.NewReader(`{"kind":"k","worker":"w"}`))
		r.Header.Set("Authorization", "Bearer x")
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		p := problemOf(t, w)
		if w.Code != status || rest.Status(code) != status {
			t.Errorf("%s: status %d and %d, want %d", code, w.Code, rest.Status(code), status)
		}
		if p.Code != code || p.Detail != e.Message || p.Field != e.Field || p.Outcome != e.Outcome || p.Renewed == nil ||
			*p.Renewed || p.Applied == nil || *p.Applied || p.Differs != e.Differs || p.Retryable != e.Retryable() || p.Title == "" {
			t.Errorf("%s: %+v", code, p)
		}
		if strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), `"error"`) {
			t.Errorf("%s: %s", code, w.Body)
		}
		if retry := w.Header().Get("Retry-After"); (retry != "") != (status == 503 || status == 429) {
			t.Errorf("%s: Retry-After %q", code, retry)
		}
		if len(b.calls) != 1 || b.calls[0].Code != code || b.calls[0].Status != status || b.calls[0].Operation.Name != "work_claim_next" ||
			b.calls[0].Principal != caller || b.calls[0].RequestID != p.RequestID {
			t.Errorf("%s: reported %+v", code, b.calls)
		}
	}
}

// TestFailuresWithoutACode are internal, shown without their texts, and logged.
func TestFailuresWithoutACode(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New(secret) },
		"panic": func(context.Context) error { panic(secret) },
	} {
		b := setup(t)
		b.fake.Hook = fail
		w := b.do("GET", "/v1/kinds", "")
		if p := problemOf(t, w); p.Code != workitem.Internal || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: %s", name, w.Body)
		}
		if !strings.Contains(b.log.String(), secret) || !strings.Contains(b.log.String(), w.Header().Get("X-Request-Id")) {
			t.Errorf("%s: the log has not the cause: %s", name, &b.log)
		}
	}
}

func TestEntityTag(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := resttest.Sample[workitem.View]()
	b.fake.Answer(v)
	tag := b.do("GET", "/v1/jobs/"+job, "").Header().Get("ETag")
	if !strings.HasPrefix(tag, `W/"`) {
		t.Fatalf("tag %q", tag)
	}
	for _, value := range []string{tag, strings.TrimPrefix(tag, "W/"), `"other", ` + tag, "*"} {
		if w := b.do("GET", "/v1/jobs/"+job, "", "If-None-Match", value); w.Code != 304 || w.Header().Get("ETag") != tag || w.Body.Len() != 0 {
			t.Errorf("If-None-Match %s: %d", value, w.Code)
		}
	}
	v.Lease.Epoch++
	if w := b.do("GET", "/v1/jobs/"+job, "", "If-None-Match", tag); w.Code != 200 || w.Header().Get("ETag") == tag {
		t.Errorf("changed, but the answer is %d", w.Code)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var seen string
	b.fake.Hook = func(ctx context.Context) error {
		seen = rest.RequestID(ctx)
		return nil
	}
	for given, taken := range map[string]bool{
		"": false, "abc-1.2_3:4": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "a b": false, "ü": false, "a\tb": false,
	} {
		id := b.do("GET", "/v1/kinds", "", "X-Request-Id", given).Header().Get("X-Request-Id")
		if (id == given) != taken || id != seen || len(id) == 0 {
			t.Errorf("given %q: %q, in the context %q", given, id, seen)
		}
	}
	// An id that a handler outside has given stays.
	w := httptest.NewRecorder()
	r := rest.Identify(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/none", nil))
	id := rest.RequestID(r.Context())
	b.handler.ServeHTTP(w, r)
	if p := problemOf(t, w); p.RequestID != id {
		t.Errorf("id %q became %q", id, p.RequestID)
	}
}

// TestCallEndsWithItsClient: a long poll ends when its client goes away.
func TestCallEndsWithItsClient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	entered, left := make(chan struct{}), make(chan error, 1)
	b.fake.Hook = func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return ctx.Err()
	}
	server := httptest.NewServer(b.handler)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/jobs/"+job+"?wait_s=60&until=terminal", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer x")
	if response, err := server.Client().Do(r); err == nil {
		_ = response.Body.Close()
		t.Error("the call was answered")
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestServerEndsCalls: a call that the server ends is answered with a status that
// tells to repeat it.
func TestServerEndsCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.fake.Hook = func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	r := httptest.NewRequestWithContext(ctx, "GET", "/v1/kinds", nil)
	r.Header.Set("Authorization", "Bearer x")
	w := b.serve(r)
	if p := problemOf(t, w); p.Code != workitem.AuthorityUnavailable || !p.Retryable || w.Header().Get("Retry-After") == "" {
		t.Errorf("answer %s", w.Body)
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	preflight := []string{"Access-Control-Request-Method", "POST", "Origin"}
	off := setup(t)
	if w := off.do("OPTIONS", "/v1/jobs", "", append(preflight, "https://app.example")...); w.Code != 405 || w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("off: %d %v", w.Code, w.Header())
	}
	on := setup(t, func(c *rest.Config) { c.Origins = []string{"https://app.example"} })
	w := on.do("OPTIONS", "/v1/jobs", "", append(preflight, "https://app.example")...)
	if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") || w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	if w := on.do("GET", "/v1/kinds", "", "Origin", "https://app.example"); w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") == "" || w.Header().Get("Vary") != "Origin" {
		t.Errorf("call: %d %v", w.Code, w.Header())
	}
	for _, origin := range []string{"https://evil.example", "https://app.example.evil", "null", ""} {
		if w := on.do("GET", "/v1/kinds", "", "Origin", origin); w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q may read", origin)
		}
	}
}
