package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
)

// started has the tasks of the suite's tools, and beside them the jobs.
type started struct {
	jobs mcp.Tasks

	mu      sync.Mutex
	running map[string]*running
}

// running is a task of the suite. All of it is guarded by the mutex of started.
type running struct {
	shown    mcp.Task
	asked    map[string]json.RawMessage // what has not been answered
	answers  map[string]json.RawMessage
	answered chan struct{} // closed when nothing is asked any more
	cancel   context.CancelFunc
}

// work is what a task does. With an error it fails.
type work func(ctx context.Context, answers func() map[string]json.RawMessage) (*sdk.CallToolResult, error)

// start begins a task that first asks something, if asked has anything.
func (s *started) start(asked map[string]json.RawMessage, do work) (*sdk.CallToolResult, error) {
	now := instant()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{asked: asked, answers: map[string]json.RawMessage{}, answered: make(chan struct{}), cancel: cancel,
		shown: mcp.Task{ID: "task:" + rand.Text(), Status: mcp.TaskWorking, CreatedAt: now, LastUpdatedAt: now, PollInterval: 100}}
	if len(asked) > 0 {
		r.shown.Status = mcp.TaskInputRequired
	} else {
		close(r.answered)
	}
	s.mu.Lock()
	s.running[r.shown.ID] = r
	shown := r.shown
	s.mu.Unlock()
	go func() {
		res, err := do(ctx, func() map[string]json.RawMessage {
			select {
			case <-r.answered:
			case <-ctx.Done():
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return maps.Clone(r.answers)
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.shown.Status == mcp.TaskCancelled {
			return
		}
		r.shown.Status, r.shown.Result = mcp.TaskCompleted, res
		if err != nil {
			r.shown.Status, r.shown.Error = mcp.TaskFailed, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
		}
		r.shown.LastUpdatedAt = instant()
	}()
	return &sdk.CallToolResult{StructuredContent: &shown}, nil
}

func instant() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// Task gives a task.
func (s *started) Task(ctx context.Context, id string) (*mcp.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[id]
	if r == nil {
		return s.jobs.Task(ctx, id)
	}
	shown := r.shown
	if shown.Status == mcp.TaskInputRequired {
		text, err := json.Marshal(r.asked)
		if err != nil {
			return nil, err
		}
		shown.InputRequests = text
	}
	return &shown, nil
}

// Update answers what a task asks.
func (s *started) Update(ctx context.Context, id string, responses map[string]json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[id]
	if r == nil {
		return s.jobs.Update(ctx, id, responses)
	}
	for key, response := range responses {
		if _, ok := r.asked[key]; ok {
			delete(r.asked, key)
			r.answers[key] = response
		}
	}
	if r.shown.Status == mcp.TaskInputRequired && len(r.asked) == 0 {
		r.shown.Status, r.shown.LastUpdatedAt = mcp.TaskWorking, instant()
		close(r.answered)
	}
	return nil
}

// Cancel ends a task.
func (s *started) Cancel(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[id]
	if r == nil {
		return s.jobs.Cancel(ctx, id)
	}
	r.cancel()
	if r.shown.Status == mcp.TaskWorking || r.shown.Status == mcp.TaskInputRequired {
		r.shown.Status, r.shown.LastUpdatedAt = mcp.TaskCancelled, instant()
	}
	return nil
}

// asks is the question of a task.
func asks(message, member, kind string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"method":"elicitation/create","params":{"mode":"form","message":%q,`+
		`"requestedSchema":{"type":"object","properties":{%q:{"type":%q}},"required":[%[2]q]}}}`, message, member, kind))
}

// addTasks adds tools that start tasks, and one that never does.
func addTasks(s *sdk.Server, tasks *started) {
	tool(s, "greet", "Greets.", `{"type":"object","properties":{"name":{"type":"string"}}}`, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return answer("Hello, " + argument[string](req, "name") + "!")
	})
	tool(s, "slow_compute", "Takes its time.", `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`,
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			label := argument[string](req, "label")
			do := func(ctx context.Context, _ func() map[string]json.RawMessage) (*sdk.CallToolResult, error) {
				timer := time.NewTimer(time.Duration(argument[float64](req, "seconds") * float64(time.Second)))
				defer timer.Stop()
				select {
				case <-timer.C:
					return answer("computed " + label)
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			if !mcp.DeclaresTasks(req) {
				return do(ctx, nil)
			}
			return tasks.start(nil, do)
		})
	// Lists are sorted: this is the tool that scenarios take for any tool.
	tool(s, "confirm_delete", "Asks before it does anything, if it can.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if !mcp.DeclaresTasks(req) {
			return answer("nothing was deleted")
		}
		return tasks.start(map[string]json.RawMessage{rand.Text(): asks("Delete it?", "confirm", "boolean")},
			func(_ context.Context, answers func() map[string]json.RawMessage) (*sdk.CallToolResult, error) {
				return answer(fmt.Sprintf("%d answers", len(answers())))
			})
	})
	// only adds a tool that always starts a task.
	only := func(name, description string, start call) {
		tool(s, name, description, anything, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if !mcp.DeclaresTasks(req) {
				return nil, mcp.ErrNoTasks
			}
			return start(ctx, req)
		})
	}
	only("failing_job", "Answers with an error.", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return tasks.start(nil, func(context.Context, func() map[string]json.RawMessage) (*sdk.CallToolResult, error) {
			time.Sleep(pause)
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{text("the job has failed")}}, nil
		})
	})
	only("protocol_error_job", "Fails without an answer.", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return tasks.start(nil, func(context.Context, func() map[string]json.RawMessage) (*sdk.CallToolResult, error) {
			return nil, errors.New("the tool has broken")
		})
	})
	only("multi_input", "Asks two things.", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return tasks.start(map[string]json.RawMessage{rand.Text(): asks("What is your name?", "name", "string"), rand.Text(): asks("Go on?", "confirm", "boolean")},
			func(_ context.Context, answers func() map[string]json.RawMessage) (*sdk.CallToolResult, error) {
				return answer(fmt.Sprintf("%d answers", len(answers())))
			})
	})
	only("test_tool_with_task", "Asks, and then starts a task.", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		name, ok := accepted(req.Params.InputResponses, "user_name")["name"].(string)
		if !ok {
			return &sdk.CallToolResult{InputRequests: question("user_name", "What is your name?", "name", "string"), RequestState: stamped("task")}, nil
		}
		return tasks.start(nil, func(context.Context, func() map[string]json.RawMessage) (*sdk.CallToolResult, error) {
			return answer("done for " + name)
		})
	})
}
