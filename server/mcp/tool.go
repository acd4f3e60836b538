package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// Tools are the names of the tools, in the order in which they are of use. They are
// those of section 17, and three that read: the claim of a worker that was restarted,
// the graph of a job and the counts of the tenant. What only an operator does is left
// to REST and the command line, and so is the history of a job, which has no bound.
var Tools = []string{
	"job_submit", "job_get", "job_list", "job_result", "job_explain", "job_graph", "job_cancel", "job_retry",
	"work_claim", "work_claim_next", "work_current_claim", "work_heartbeat", "work_checkpoint", "work_commit", "work_defer",
	"jobs_reconcile", "job_kinds", "job_stats",
}

// listLimit is how many jobs a list has if nobody says: a model reads all of it.
const listLimit = 20

// tools gives every tool with its operation.
func tools() (all []*sdk.Tool, operations []*operation.Operation) {
	for _, name := range Tools {
		o := mustOperation(name)
		in := inputSchema(o)
		if o.In == listInput {
			at(in, "properties", "limit").(object)["description"] = "1 to 1000 (default " + strconv.Itoa(listLimit) + ")"
		}
		out := outputSchema(o)
		if o == submitJob {
			// The task that a job is ends with its result, which has all other members.
			out["required"] = slices.DeleteFunc(out["required"].([]any), func(name any) bool { return name == "deduplicated" })
		}
		no := false
		destructive := o.Destructive
		all = append(all, &sdk.Tool{
			Name: o.Name, Title: o.Summary,
			Description: o.Summary + ". " + o.Description + "\n\nScope: " + strings.Join(o.Scope.Names(), " and ") + ".",
			Annotations: &sdk.ToolAnnotations{Title: o.Summary, ReadOnlyHint: o.ReadOnly, IdempotentHint: o.Idempotent,
				DestructiveHint: &destructive, OpenWorldHint: &no},
			InputSchema: written(in), OutputSchema: written(out),
		})
		operations = append(operations, o)
	}
	return all, operations
}

// written is a schema as it is sent. The SDK encodes that of the arguments with every
// call of the newest revision, to see which of them headers repeat.
func written(schema object) jsontext.Value {
	text, err := json.Marshal(schema, json.Deterministic(true))
	if err != nil {
		panic("mcp: a schema is not JSON: " + err.Error()) // it was made from JSON
	}
	return text
}

// handler runs an operation as a tool.
func (s *surface) handler(o *operation.Operation) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		ctx = tied(ctx)
		out, err := s.run(ctx, o, req)
		if err != nil {
			return s.refused(ctx, o, err), nil
		}
		text, err := json.Marshal(out, json.Deterministic(true))
		if err != nil {
			return s.refused(ctx, o, fmt.Errorf("answer of %s: %w", o.Name, err)), nil
		}
		record(ctx, o, "")
		res := &sdk.CallToolResult{StructuredContent: jsontext.Value(text)} // answered and created write the rest
		if h, ok := out.(*workitem.Handle); ok && DeclaresTasks(req) {
			if t := s.submitted(ctx, h); t != nil {
				t.StructuredContent, res.StructuredContent = res.StructuredContent, t
				res.Content = []sdk.Content{&sdk.TextContent{Text: string(text)}}
			}
		}
		if a, ok := out.(*workitem.ClaimAnswer); ok && a.Trace != "" {
			res.Meta = sdk.Meta{traceparent: a.Trace}
		}
		return res, nil
	}
}

// run reads the arguments of a call and runs it. A panic becomes its error: these
// handlers run in goroutines of their own, in which it would end the process.
func (s *surface) run(ctx context.Context, o *operation.Operation, req *sdk.CallToolRequest) (out any, err error) {
	defer s.recovered(&err)
	in := o.NewInput()
	if err := o.DecodeArguments(req.Params.Arguments, in); err != nil {
		return nil, err
	}
	switch in := in.(type) {
	case *workitem.SubmitInput:
		if len(in.Request) > rest.MaxBody {
			return nil, &workitem.Error{Code: workitem.PayloadTooLarge, Field: "request",
				Message: "is larger than " + strconv.Itoa(rest.MaxBody) + " bytes"}
		}
		in.Trace = trace(req)
	case *workitem.ListInput:
		if in.Limit == nil {
			limit := listLimit
			in.Limit = &limit
		}
	}
	return s.ask(ctx, func(jobs operation.Jobs) (any, error) { return o.Call(ctx, jobs, in) })
}

// recovered turns a panic into an error.
func (s *surface) recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// ask opens the authority and asks it.
func (s *surface) ask(ctx context.Context, question func(operation.Jobs) (any, error)) (any, error) {
	jobs, release, err := s.cfg.Open(ctx)
	if err != nil {
		return nil, err
	}
	out, err := question(jobs)
	if err := errors.Join(err, release()); err != nil {
		return nil, err
	}
	return out, nil
}

// refused is the result of a call that was refused or has failed.
func (s *surface) refused(ctx context.Context, o *operation.Operation, err error) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(s.problem(ctx, o, err))}}}
}

// problem is a failure as REST shows it. An internal one is logged with its cause.
func (s *surface) problem(ctx context.Context, o *operation.Operation, err error) []byte {
	id := rest.RequestID(ctx)
	if id == "" {
		id = rest.NewRequestID()
	}
	p, e := rest.NewProblem(err, id)
	record(ctx, o, e.Code)
	if e.Code == workitem.Internal {
		s.cfg.Logger.ErrorContext(ctx, "internal error", "request_id", id, "operation", o.Name, "error", err, "cause", errors.Unwrap(e))
	}
	text, err := json.Marshal(&p, json.Deterministic(true))
	if err != nil { // a member of the message is not UTF-8: nothing of it can be shown
		p, _ = rest.NewProblem(errors.New("a refusal can't be shown"), id)
		text, _ = json.Marshal(&p, json.Deterministic(true)) // fixed texts only
	}
	return text
}

// traceparent is where requests and results carry a W3C trace context in their _meta.
const traceparent = "traceparent"

// trace gives the trace context of a call: of its _meta, else of its HTTP request.
func trace(req *sdk.CallToolRequest) string {
	v, _ := req.Params.Meta[traceparent].(string)
	if v == "" && req.Extra != nil {
		v = http.Header(req.Extra.Header).Get("Traceparent")
	}
	if len(v) != len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") || strings.Trim(v, "0123456789abcdef-") != "" {
		return ""
	}
	return v
}
