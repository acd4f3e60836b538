//lint:file-ignore SA1019 the suite tests what newer revisions deprecate

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// pause is the time between two notifications of a call.
const pause = 50 * time.Millisecond

// addNotifying adds tools that send notifications while they are called.
func addNotifying(s *sdk.Server) {
	tool(s, "test_tool_with_logging", "Sends three messages of a log.", anything, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for _, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if err := log(ctx, req, message); err != nil {
				return nil, err
			}
			time.Sleep(pause)
		}
		return answer("logged")
	})
	tool(s, "test_tool_with_progress", "Sends its progress three times.", anything, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		token := req.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100,
				Message: fmt.Sprintf("Completed step %g of 100", done)})
			if err != nil {
				return nil, err
			}
			time.Sleep(pause)
		}
		return answer(fmt.Sprint(token))
	})
	tool(s, "test_logging_tool", "Logs, if the request wants that.", anything, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if err := log(ctx, req, "called"); err != nil {
			return nil, err
		}
		return answer("logged, if a level was given")
	})
	tool(s, "test_streaming_elicitation", "Answers while its stream is watched for requests.", anything, says(text("no requests were sent")))
	tool(s, "test_reconnection", "Closes its stream before it answers.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if req.Extra != nil && req.Extra.CloseSSEStream != nil {
			req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		time.Sleep(2 * pause)
		return answer("reconnected")
	})
	tool(s, "test_missing_capability", "Needs a client that samples.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if c := req.ClientCapabilities(); c != nil && c.Sampling != nil {
			return answer("the client samples")
		}
		return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "sampling is needed",
			Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`)}
	})
}

func log(ctx context.Context, req *sdk.CallToolRequest, message string) error {
	return req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: message})
}

// addChanging adds tools that change the lists of the server.
func addChanging(s *sdk.Server) {
	tool(s, "test_trigger_tool_change", "Changes the list of tools.", anything, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		tool(s, "transient_tool", "Is there since a change.", anything, says(text("changed")))
		return answer("changed")
	})
	tool(s, "test_trigger_prompt_change", "Changes the list of prompts.", anything, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddPrompt(&sdk.Prompt{Name: "transient_prompt", Description: "Is there since a change."},
			func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
				return &sdk.GetPromptResult{}, nil
			})
		return answer("changed")
	})
}
