package mcp

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
	"github.com/writ-authority/writ/workitem"
)

// The resources. A job is named by either form of its identifier.
const (
	kindsURI    = "writ://kinds"
	jobPrefix   = "writ://jobs/"
	graphSuffix = "/graph"

	mediaType = "application/json"
	maxURI    = 1 << 10 // bytes
)

// resources adds the resources to a server.
func (s *surface) resources(server *sdk.Server) {
	server.AddResource(&sdk.Resource{URI: kindsURI, Name: "kinds", Title: "Registered kinds", MIMEType: mediaType,
		Description: "What job_kinds answers."}, s.read)
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: jobPrefix + "{+job_id}", Name: "job", Title: "A job", MIMEType: mediaType,
		Description: "What job_get answers."}, s.read)
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: jobPrefix + "{+job_id}" + graphSuffix, Name: "graph", Title: "What a job depends on and what depends on it",
		MIMEType: mediaType, Description: "What job_graph answers."}, s.read)
}

// noResource refuses what is no resource.
func noResource(uri string) error { return withURI(uri, errNoResource) }

// withURI adds the resource to the data of an error, where the protocol has it. It is
// the one thing that a refusal repeats of a request.
func withURI(uri string, e *jsonrpc.Error) error {
	name, err := json.Marshal(uri)
	if err != nil || len(uri) > maxURI {
		return e
	}
	with := *e
	with.Data = append(append([]byte(`{"uri":`), name...), '}')
	if rest := e.Data[1:]; len(rest) > 1 {
		with.Data = append(append(with.Data[:len(with.Data)-1], ','), rest...)
	}
	return &with
}

// resourceOf says which operation reads a resource, and of which job.
func resourceOf(uri string) (name, id string, ok bool) {
	if uri == kindsURI {
		return "job_kinds", "", true
	}
	id, ok = strings.CutPrefix(uri, jobPrefix)
	if !ok || len(uri) > maxURI {
		return "", "", false
	}
	name = "job_get"
	if of, ok := strings.CutSuffix(id, graphSuffix); ok {
		name, id = "job_graph", of
	}
	id, err := url.PathUnescape(id)
	return name, id, err == nil && id != "" && !strings.Contains(id, "/")
}

// read answers a resources/read.
func (s *surface) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	ctx = tied(ctx)
	name, id, ok := resourceOf(req.Params.URI)
	if !ok {
		return nil, noResource(req.Params.URI)
	}
	o, _ := operation.ByName(name)
	out, err := s.readOne(ctx, o, id)
	if err != nil {
		return nil, withURI(req.Params.URI, s.refusal(ctx, o, err))
	}
	record(ctx, o, "")
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: mediaType, Text: string(out)}}}, nil
}

// refusal is a failure as an error of the protocol, whose data are what REST answers.
func (s *surface) refusal(ctx context.Context, o *operation.Operation, err error) *jsonrpc.Error {
	text := s.problem(ctx, o, err)
	code := int64(jsonrpc.CodeInvalidParams)
	p, _ := rest.NewProblem(err, "")
	if p.Status >= 500 {
		code = jsonrpc.CodeInternalError
	}
	return &jsonrpc.Error{Code: code, Message: p.Title + ": " + p.Detail, Data: text}
}

func (s *surface) readOne(ctx context.Context, o *operation.Operation, id string) (text []byte, err error) {
	defer s.recovered(&err)
	in := o.NewInput()
	switch in := in.(type) {
	case *workitem.GetInput:
		in.JobID = id
	case *workitem.GraphInput:
		in.JobID = id
	}
	out, err := s.ask(ctx, func(jobs operation.Jobs) (any, error) { return o.Call(ctx, jobs, in) })
	if err != nil {
		return nil, err
	}
	if text, err = json.Marshal(out, json.Deterministic(true)); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", o.Name, err)
	}
	return text, nil
}
