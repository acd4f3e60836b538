package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/workitem"
)

// TasksExtension is the extension of the protocol under which a job is a task. A
// client that declares it gets a task as the answer to job_submit, whose id is the
// job's, and follows it with tasks/get (decision W11).
const TasksExtension = "io.modelcontextprotocol/tasks"

// Bounds of what the methods of tasks take.
const (
	maxTaskID     = 512      // bytes
	maxInput      = 64 << 10 // bytes of the responses of an update
	maxInputItems = 4096     // values in them
	maxInputDepth = 24       // objects and arrays in one another
	maxInputText  = 16 << 10 // bytes of one string
	pollInterval  = 1000     // milliseconds, which a client is asked to wait between two questions
	instantLayout = "2006-01-02T15:04:05.000Z07:00"
)

// The methods of the extension.
var taskMethods = []string{"tasks/get", "tasks/update", "tasks/cancel"}

// Statuses of a task.
const (
	TaskWorking       = "working"
	TaskInputRequired = "input_required"
	TaskCompleted     = "completed"
	TaskFailed        = "failed"
	TaskCancelled     = "cancelled"
)

// Task is a task as the extension shows it. A tool that starts one answers with it as
// its structured content.
type Task struct {
	sdk.ResultBase
	ResultType    string `json:"resultType"` // set by the server
	ID            string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"` // RFC 3339, with milliseconds
	LastUpdatedAt string `json:"lastUpdatedAt"`
	TTL           *int   `json:"ttlMs"` // null: kept
	PollInterval  int    `json:"pollIntervalMs"`
	// Result is what the tool answered in the end. Only completed tasks have it.
	Result *sdk.CallToolResult `json:"-"`
	// Error is why there will be no answer. Only failed tasks have it.
	Error *jsonrpc.Error `json:"error,omitempty"`
	// InputRequests are what the client is asked. Only tasks that need input have it.
	InputRequests json.RawMessage `json:"inputRequests,omitempty"`
	// Content and StructuredContent are what the tool answers clients without tasks.
	// Libraries that know no tasks find it where they look, and with it the id. Only
	// the answer to a call has it.
	Content           []sdk.Content `json:"content,omitempty"`
	StructuredContent any           `json:"structuredContent,omitempty"`
}

// MarshalJSON gives the task with its result, which has a type as every result has. That
// of the SDK has one only where the SDK sends it itself.
func (t *Task) MarshalJSON() ([]byte, error) {
	type result struct {
		ResultType        string        `json:"resultType"`
		Content           []sdk.Content `json:"content"`
		StructuredContent any           `json:"structuredContent,omitempty"`
		IsError           bool          `json:"isError,omitempty"`
	}
	type task Task // without this method
	shown := struct {
		*task
		Result *result `json:"result,omitempty"`
	}{task: (*task)(t)}
	if r := t.Result; r != nil {
		shown.Result = &result{complete, r.Content, r.StructuredContent, r.IsError}
	}
	return json.Marshal(shown)
}

// Tasks has the tasks of a caller. A task that is not there or not the caller's is
// ErrUnknownTask.
type Tasks interface {
	Task(ctx context.Context, id string) (*Task, error)
	// Update takes answers to what a task asks for. Those to other questions are
	// ignored.
	Update(ctx context.Context, id string, responses map[string]json.RawMessage) error
	// Cancel asks a task to end. One that has ended stays as it is.
	Cancel(ctx context.Context, id string) error
}

// DeclaresTasks says whether the client of a request takes tasks as answers.
func DeclaresTasks[P sdk.Params](req *sdk.ServerRequest[P]) bool {
	c := req.ClientCapabilities()
	if c == nil {
		return false
	}
	_, ok := c.Extensions[TasksExtension]
	return ok
}

// acknowledged is an answer that says nothing.
type acknowledged struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// complete is the type of every result that is no task.
const complete = "complete"

// taskParams are the parameters of the methods of tasks. What is wrong with them is
// said after the capability of the client was looked at, and in our own words.
type taskParams struct {
	sdk.ParamsBase
	id    string
	input jsontext.Value
	wrong error // of the parameters
}

// UnmarshalJSON reads parameters. It never fails.
func (p *taskParams) UnmarshalJSON(text []byte) error {
	var in struct {
		Meta  map[string]any `json:"_meta"`
		ID    jsontext.Value `json:"taskId"`
		Input jsontext.Value `json:"inputResponses"`
	}
	if err := jsonv2.Unmarshal(text, &in); err != nil {
		p.wrong = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the parameters must be an object whose members are given once"}
	}
	p.Meta, p.input = in.Meta, in.Input
	if in.ID.Kind() != '"' || jsonv2.Unmarshal(in.ID, &p.id) != nil || len(p.id) > maxTaskID {
		p.id = ""
	}
	return nil
}

// addTasks adds the extension to a server.
func (s *surface) addTasks(server *sdk.Server) {
	add(server, taskMethods[0], func(ctx context.Context, p *taskParams) (*Task, error) {
		t, err := s.tasks.Task(ctx, p.id)
		if err != nil {
			return nil, err
		}
		t.ResultType = complete
		return t, nil
	})
	add(server, taskMethods[1], func(ctx context.Context, p *taskParams) (*acknowledged, error) {
		responses, err := readInput(p.input)
		if err == nil {
			err = s.tasks.Update(ctx, p.id, responses)
		}
		return &acknowledged{ResultType: complete}, err
	})
	add(server, taskMethods[2], func(ctx context.Context, p *taskParams) (*acknowledged, error) {
		return &acknowledged{ResultType: complete}, s.tasks.Cancel(ctx, p.id)
	})
}

// misnamed says what is wrong with the header Mcp-Name of a request that names a task,
// and gives its id. The revision that has the header needs it there; the SDK checks
// only that of its own methods, and that Mcp-Method is the method.
func misnamed(header http.Header, body []byte) (id jsontext.Value, message string) {
	if header.Get("Mcp-Protocol-Version") < "2026-07-28" || !slices.Contains(taskMethods, header.Get("Mcp-Method")) {
		return nil, ""
	}
	var m struct {
		ID     jsontext.Value `json:"id"`
		Params struct {
			ID jsontext.Value `json:"taskId"`
		} `json:"params"`
	}
	if jsonv2.Unmarshal(body, &m, jsontext.AllowDuplicateNames(true)) != nil {
		return nil, "" // the SDK refuses it
	}
	names, given := header["Mcp-Name"]
	var task string
	switch {
	case !given:
		return m.ID, "the header Mcp-Name is missing; it repeats taskId"
	case m.Params.ID.Kind() != '"' || jsonv2.Unmarshal(m.Params.ID, &task) != nil:
		return nil, "" // an unknown task, whatever the header says
	case len(names) > 1 || names[0] != task:
		return m.ID, "the header Mcp-Name is not taskId"
	}
	return nil, ""
}

// add adds one method of the extension.
func add[R sdk.Result](server *sdk.Server, method string, answer func(context.Context, *taskParams) (R, error)) {
	err := sdk.AddReceivingCustomMethod(server, method, func(ctx context.Context, session *sdk.ServerSession, p *taskParams) (R, error) {
		var none R
		if p == nil {
			p = new(taskParams)
		}
		switch {
		case !DeclaresTasks(&sdk.ServerRequest[*taskParams]{Session: session, Params: p}):
			return none, ErrNoTasks
		case p.wrong != nil:
			return none, p.wrong
		case p.id == "":
			return none, ErrUnknownTask
		}
		ctx = tied(ctx)
		res, err := answer(ctx, p)
		if err != nil {
			return none, err
		}
		return res, nil
	})
	if err != nil {
		panic("mcp: " + err.Error()) // the SDK has this method now: ours must give way
	}
}

// created answers a call of a tool with the task that the tool started.
func created(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if r, ok := res.(*sdk.CallToolResult); ok && err == nil {
			if t, ok := r.StructuredContent.(*Task); ok {
				t.ResultType, t.Content = "task", r.Content
				return t, nil
			}
		}
		return res, err
	}
}

// readInput reads the responses of an update within their bounds. They are an object,
// or missing.
func readInput(input jsontext.Value) (map[string]json.RawMessage, error) {
	if len(input) == 0 {
		return nil, nil
	}
	if message := outOfBounds(input); message != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses " + message}
	}
	responses := map[string]json.RawMessage{}
	if input.Kind() != '{' || jsonv2.Unmarshal(input, &responses) != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses must be an object"}
	}
	return responses, nil
}

// outOfBounds says which bound of an update a value breaks.
func outOfBounds(input jsontext.Value) string {
	if len(input) > maxInput {
		return "may have " + strconv.Itoa(maxInput) + " bytes"
	}
	d := jsontext.NewDecoder(strings.NewReader(string(input)))
	for items := 0; ; {
		t, err := d.ReadToken()
		if err != nil {
			return "" // the end: the value was valid JSON when the parameters were read
		}
		name := false
		if kind, n := d.StackIndex(d.StackDepth()); t.Kind() == '"' {
			name = kind == '{' && n%2 == 1
			if len(t.String()) > maxInputText {
				return "may have strings of " + strconv.Itoa(maxInputText) + " bytes"
			}
		}
		if d.StackDepth() > maxInputDepth {
			return "may have " + strconv.Itoa(maxInputDepth) + " objects and arrays in one another"
		}
		if t.Kind() != '}' && t.Kind() != ']' && !name {
			if items++; items > maxInputItems {
				return "may have " + strconv.Itoa(maxInputItems) + " values"
			}
		}
	}
}

// jobTasks are the jobs as tasks.
type jobTasks struct{ *surface }

var (
	submitJob = mustOperation("job_submit")
	getJob    = mustOperation("job_get")
	cancelJob = mustOperation("job_cancel")
)

func mustOperation(name string) *operation.Operation {
	o, ok := operation.ByName(name)
	if !ok {
		panic("mcp: there is no operation " + name)
	}
	return o
}

// Task gives the task that a job is.
func (j jobTasks) Task(ctx context.Context, id string) (*Task, error) {
	var t *Task
	return t, j.do(ctx, getJob, id, func(jobs operation.Jobs, v *workitem.View) (err error) {
		t, err = taskOf(ctx, jobs, v)
		return err
	})
}

// Update finds the job. No job asks for anything, so there is nothing to do.
func (j jobTasks) Update(ctx context.Context, id string, _ map[string]json.RawMessage) error {
	return j.do(ctx, getJob, id, func(operation.Jobs, *workitem.View) error { return nil })
}

// Cancel cancels the job, if it has not ended by then.
func (j jobTasks) Cancel(ctx context.Context, id string) error {
	return j.do(ctx, cancelJob, id, func(jobs operation.Jobs, v *workitem.View) error {
		_, err := jobs.Cancel(ctx, &workitem.CancelInput{JobID: v.JobID})
		if errors.Is(err, workitem.ErrInvalidState) {
			return nil // what it ended as is what counts
		}
		return err
	})
}

// do finds a job of the caller and does something with it.
func (j jobTasks) do(ctx context.Context, o *operation.Operation, id string, what func(operation.Jobs, *workitem.View) error) (err error) {
	defer func() {
		switch {
		case err == nil:
			record(ctx, o, "")
		case errors.Is(err, workitem.ErrNotFound), errors.Is(err, workitem.ErrInvalidRequest):
			record(ctx, o, workitem.NotFound)
			err = ErrUnknownTask
		default:
			err = j.refusal(ctx, o, err)
		}
	}()
	defer j.recovered(&err)
	_, err = j.ask(ctx, func(jobs operation.Jobs) (any, error) {
		v, err := jobs.Get(ctx, &workitem.GetInput{JobID: id})
		if err != nil {
			return nil, err
		}
		if v.JobID != id || !j.own(ctx, v) {
			return nil, workitem.ErrNotFound
		}
		return nil, what(jobs, v)
	})
	return err
}

// own says whether a job is a task of the caller: one of its owner, even if the caller
// may read the jobs of others.
func (s *surface) own(ctx context.Context, v *workitem.View) bool {
	if s.cfg.Owner == nil {
		return true
	}
	owner := s.cfg.Owner(ctx)
	return owner == "" || owner == v.OwnerID
}

// submitted gives the task of a job that was just submitted, or nil if the caller may
// not follow it or it can't be read: then the handle is the answer.
func (s *surface) submitted(ctx context.Context, h *workitem.Handle) (t *Task) {
	out, err := s.ask(ctx, func(jobs operation.Jobs) (any, error) {
		return jobs.Get(ctx, &workitem.GetInput{JobID: h.JobID})
	})
	if err != nil {
		return nil
	}
	if v := out.(*workitem.View); s.own(ctx, v) {
		return bareTask(v)
	}
	return nil
}

// taskOf is a job as a task, with its result if it has ended.
func taskOf(ctx context.Context, jobs operation.Jobs, v *workitem.View) (*Task, error) {
	t := bareTask(v)
	if t.Status != TaskCompleted {
		return t, nil
	}
	res, err := jobs.Result(ctx, &workitem.JobInput{JobID: v.JobID})
	if err != nil {
		return nil, err
	}
	text, err := jsonv2.Marshal(res, jsonv2.Deterministic(true))
	if err != nil {
		return nil, err
	}
	t.Result = &sdk.CallToolResult{StructuredContent: jsontext.Value(text), Content: []sdk.Content{&sdk.TextContent{Text: string(text)}},
		IsError: v.State != workitem.Succeeded.State()}
	return t, nil
}

// bareTask is a job as a task. That a tool has run to an error is an answer of the
// tool, so a failed job is a completed task; a task that failed would have none.
func bareTask(v *workitem.View) *Task {
	status := TaskWorking
	switch v.State {
	case workitem.Succeeded.State(), workitem.Failed.State(), workitem.DeadLetter.State():
		status = TaskCompleted
	case workitem.StatusCancelled.State():
		status = TaskCancelled
	}
	return &Task{ID: v.JobID, Status: status, StatusMessage: "the job is " + v.State,
		CreatedAt: milliseconds(v.CreatedAt), LastUpdatedAt: milliseconds(v.UpdatedAt), PollInterval: pollInterval}
}

// milliseconds spells an instant of a view with milliseconds.
func milliseconds(at string) string {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return at // of an authority that spells them in another way
	}
	return t.UTC().Format(instantLayout)
}
