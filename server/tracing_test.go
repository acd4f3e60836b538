package server

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// keeper keeps the trace of the job that was submitted last, as the authority does.
type keeper struct {
	operation.Jobs
	trace string
}

func (k *keeper) Submit(ctx context.Context, in *workitem.SubmitInput) (*workitem.Handle, error) {
	k.trace = in.Trace
	return k.Jobs.Submit(ctx, in)
}

func (k *keeper) ClaimNext(context.Context, *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	return &workitem.ClaimAnswer{Claimed: true, Reason: workitem.ReasonClaimed, Claim: &workitem.Claim{DependsOn: []string{}}, Trace: k.trace}, nil
}

// post calls the handler and gives the Traceparent of the answer.
func (b *bundle) post(t *testing.T, path, body, trace string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewBufferString(body))
	r.Header.Set("Authorization", devToken)
	r.Header.Set("Content-Type", "application/json")
	if trace != "" {
		r.Header.Set("Traceparent", trace)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	if w.Code >= 300 {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Header().Get("Traceparent")
}

const (
	claimBody  = `{"kind":"repository.build","worker":"w"}`
	commitBody = `{"claim":{"work_item_id":"x","lease_owner":"w","lease_epoch":1,"fencing_token":1},"outcome":"succeeded"}`
)

func TestOneTraceFromSubmitThroughClaimToCommit(t *testing.T) {
	t.Parallel()
	for _, submitter := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		b := setup(t, nil)
		exporter := tracetest.NewInMemoryExporter()
		b.tracing = tracingTo(sdk.NewTracerProvider(sdk.WithSyncer(exporter)))
		k := &keeper{Jobs: b.fake}
		b.work.as = func(workitem.Principal) operation.Jobs { return k }

		b.post(t, "/v1/jobs", `{}`, submitter)
		given := b.post(t, "/v1/claims", claimBody, "")
		b.post(t, "/v1/jobs/x/commit", commitBody, given)

		spans := map[string]tracetest.SpanStub{}
		for _, s := range exporter.GetSpans() {
			spans[s.Name] = s
		}
		submit, claim, commit := spans["POST /v1/jobs"], spans["job_claim_next"], spans["POST /v1/jobs/{id}/commit"]
		request := spans["POST /v1/claims"]
		id := submit.SpanContext.TraceID()
		if !id.IsValid() || claim.SpanContext.TraceID() != id || commit.SpanContext.TraceID() != id {
			t.Fatalf("the traces differ: submit %s, claim %s, commit %s", id, claim.SpanContext.TraceID(), commit.SpanContext.TraceID())
		}
		if submitter != "" && id.String() != submitter[3:35] {
			t.Errorf("the trace of the submitter was not continued: %s", id)
		}
		if claim.Parent.SpanID() != submit.SpanContext.SpanID() {
			t.Error("the claim does not continue the submit")
		}
		if len(claim.Links) != 1 || claim.Links[0].SpanContext.SpanID() != request.SpanContext.SpanID() {
			t.Errorf("the claim is not linked to its request: %v", claim.Links)
		}
		if commit.Parent.SpanID() != claim.SpanContext.SpanID() {
			t.Error("the commit does not continue the claim")
		}
		if !strings.Contains(b.log.String(), `"trace_id":"`+id.String()+`"`) {
			t.Error("the log does not name the trace")
		}
		for _, s := range exporter.GetSpans() {
			for _, a := range s.Attributes {
				if text := a.Value.String(); strings.Contains(text, "acme") || strings.Contains(text, "lovelace") {
					t.Errorf("a span shows %s", text)
				}
			}
		}
	}
}

func TestTheTraceGoesOnWithoutSpans(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	k := &keeper{Jobs: b.fake}
	b.work.as = func(workitem.Principal) operation.Jobs { return k }
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for sent, want := range map[string]string{trace: trace, "": "", "junk": "", strings.Repeat("0", 5000): "", trace[:54]: ""} {
		b.post(t, "/v1/jobs", `{}`, sent)
		if k.trace != want {
			t.Errorf("%.60q was stored as %.60q", sent, k.trace)
		}
		if got := b.post(t, "/v1/claims", claimBody, ""); got != want {
			t.Errorf("the worker got %q, expected %q", got, want)
		}
	}
}

func TestTheEnvironmentNamesTheExporter(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		env   string
		spans bool
		part  string
	}{
		{"", false, ""},
		{"OTEL_TRACES_EXPORTER=none", false, ""},
		{"OTEL_TRACES_EXPORTER=console", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_SDK_DISABLED=true", false, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "http/protobuf only"},
		{"OTEL_TRACES_EXPORTER=zipkin", false, "expected otlp, console or none"},
	} {
		env := map[string]string{}
		for one := range strings.FieldsSeq(x.env) {
			name, value, _ := strings.Cut(one, "=")
			env[name] = value
		}
		e, err := newExporter(t.Context(), func(name string) string { return env[name] })
		if (e != nil) != x.spans || (err == nil) != (x.part == "") || err != nil && !strings.Contains(err.Error(), x.part) {
			t.Errorf("%s: %v, %v", x.env, e, err)
		}
	}
}
