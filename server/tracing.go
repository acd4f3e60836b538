package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// tracing makes the spans of a server. The trace of a job begins with its submit:
// the span of that request is stored with the job. A claim gets a span in the same
// trace, linked to the request that claimed, and hands its context to the worker;
// whatever the worker calls with that context continues the trace.
//
// A nil *tracing makes no spans and costs nothing; the context of the submitter
// still goes to the worker.
type tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

const instrumentation = "github.com/writ-authority/writ/server"

var w3c propagation.TraceContext

// newTracing sets tracing up as the standard environment variables say. It is nil
// if they name no exporter.
func newTracing(ctx context.Context, getenv func(string) string, log *slog.Logger) (*tracing, error) {
	exporter, err := newExporter(ctx, getenv)
	if err != nil || exporter == nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces could not be exported", "error", err.Error())
	}))
	attributes := []attribute.KeyValue{attribute.String("service.name", "writ")}
	// What the environment says comes later and counts.
	res, err := resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, usage("OTEL_RESOURCE_ATTRIBUTES: %v", err)
	}
	return tracingTo(sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(res))), nil
}

func tracingTo(provider *sdk.TracerProvider) *tracing {
	return &tracing{provider: provider, tracer: provider.Tracer(instrumentation)}
}

// newExporter makes the exporter that the environment names, or none.
func newExporter(ctx context.Context, getenv func(string) string) (sdk.SpanExporter, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	name := getenv("OTEL_TRACES_EXPORTER")
	if name == "" && (getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") {
		name = "otlp"
	}
	switch name {
	case "", "none":
		return nil, nil
	case "console":
		return stdouttrace.New(stdouttrace.WithWriter(os.Stderr))
	case "otlp":
		protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
		if protocol == "" {
			protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
		}
		if protocol != "" && protocol != "http/protobuf" {
			return nil, usage("OTEL_EXPORTER_OTLP_PROTOCOL: this server exports traces over http/protobuf only")
		}
		return otlptracehttp.New(ctx) // reads the other variables itself
	}
	return nil, usage("OTEL_TRACES_EXPORTER: expected otlp, console or none")
}

// close exports what is left.
func (t *tracing) close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// start begins the span of a request, in the trace that its headers name.
func (t *tracing) start(r *http.Request) (context.Context, trace.Span) {
	ctx := w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return t.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", r.Method)))
}

// end ends the span of a request.
func end(span trace.Span, x *exchange) {
	if x.route != "" {
		span.SetName(x.method + " " + x.route)
		span.SetAttributes(attribute.String("http.route", x.route))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", x.status))
	if x.call.Code != "" {
		span.SetAttributes(attribute.String("writ.code", string(x.call.Code)))
	}
	if x.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// parent is how a span is named in a Traceparent header.
func parent(ctx context.Context) string {
	c := propagation.MapCarrier{}
	w3c.Inject(ctx, c)
	return c["traceparent"]
}

// traced are the verbs of one caller, with the traces of jobs.
type traced struct {
	operation.Jobs
	tracing *tracing
}

// Submit stores the context of the request's span with the job; without spans that
// of the submitter, if it is one.
func (j traced) Submit(ctx context.Context, in *workitem.SubmitInput) (*workitem.Handle, error) {
	if j.tracing != nil {
		in.Trace = parent(ctx)
	} else if in.Trace != "" {
		in.Trace = parent(remote(in.Trace))
	}
	return j.Jobs.Submit(ctx, in)
}

// Claim hands the context of the claim's span to the worker.
func (j traced) Claim(ctx context.Context, in *workitem.ClaimInput) (*workitem.ClaimAnswer, error) {
	began := time.Now()
	a, err := j.Jobs.Claim(ctx, in)
	return j.tracing.claimed(ctx, began, "job_claim", a), err
}

// ClaimNext hands the context of the claim's span to the worker.
func (j traced) ClaimNext(ctx context.Context, in *workitem.ClaimNextInput) (*workitem.ClaimAnswer, error) {
	began := time.Now()
	a, err := j.Jobs.ClaimNext(ctx, in)
	return j.tracing.claimed(ctx, began, "job_claim_next", a), err
}

// remote is a context whose parent is a Traceparent header, if that is one.
func remote(header string) context.Context {
	return w3c.Extract(context.Background(), propagation.MapCarrier{"traceparent": header})
}

// claimed makes the span of a claim in the trace of the job.
func (t *tracing) claimed(ctx context.Context, began time.Time, name string, a *workitem.ClaimAnswer) *workitem.ClaimAnswer {
	if t == nil || a == nil || !a.Claimed || a.Trace == "" {
		return a
	}
	job := remote(a.Trace)
	if !trace.SpanContextFromContext(job).IsValid() {
		return a
	}
	job, span := t.tracer.Start(job, name, trace.WithTimestamp(began),
		trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}))
	span.End()
	a.Trace = parent(job)
	return a
}
