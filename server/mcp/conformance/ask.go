//lint:file-ignore SA1019 the suite tests what newer revisions deprecate

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addAsking adds tools that ask the client while they are called, as the revisions
// before 2026-07-28 have it.
func addAsking(s *sdk.Server) {
	tool(s, "test_sampling", "Has the client's model say something.", `{"type":"object","properties":{"prompt":{"type":"string"}}}`,
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			said, err := req.Session.CreateMessage(ctx, sampling(argument[string](req, "prompt")))
			if err != nil {
				return nil, err
			}
			return answer(fmt.Sprintf("LLM response: %v", said.Content))
		})
	elicit := func(name, description string, message func(*sdk.CallToolRequest) string, schema string) {
		tool(s, name, description, anything, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: message(req), RequestedSchema: json.RawMessage(schema)})
			if err != nil {
				return nil, err
			}
			return answer(fmt.Sprintf("Elicitation result: action=%s, content=%v", res.Action, res.Content))
		})
	}
	fixed := func(message string) func(*sdk.CallToolRequest) string {
		return func(*sdk.CallToolRequest) string { return message }
	}
	elicit("test_elicitation", "Asks the user.", func(req *sdk.CallToolRequest) string { return argument[string](req, "message") },
		`{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username","email"]}`)
	elicit("test_elicitation_sep1034_defaults", "Asks the user, with defaults.", fixed("Defaults of every type"), `{"type":"object","properties":{
		"name":{"type":"string","default":"John Doe"},
		"age":{"type":"integer","default":30},
		"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
		"verified":{"type":"boolean","default":true}},"required":[]}`)
	elicit("test_elicitation_sep1330_enums", "Asks the user to choose.", fixed("Choices of every form"), `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}},
		"required":[]}`)
}

// question asks the user for one member of an object.
func question(key, message, member, kind string) sdk.InputRequestMap {
	return sdk.InputRequestMap{key: &sdk.ElicitParams{Message: message,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"` + member + `":{"type":"` + kind + `"}},"required":["` + member + `"]}`)}}
}

func sampling(prompt string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: text(prompt)}}}
}

// accepted is what the user has answered to a question, or nil.
func accepted(responses sdk.InputResponseMap, key string) map[string]any {
	if r, ok := responses[key].(*sdk.ElicitResult); ok && r != nil && r.Action == "accept" {
		return r.Content
	}
	return nil
}

// sampled says whether the client's model has answered, and what.
func sampled(responses sdk.InputResponseMap, key string) (string, bool) {
	r, ok := responses[key].(*sdk.CreateMessageWithToolsResult)
	if !ok || r == nil {
		return "", false
	}
	var all strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			all.WriteString(t.Text)
		}
	}
	return all.String(), true
}

// stamp marks the states that this server gives out. The suite changes their end.
const stamp = ";unchanged"

func stamped(state string) string { return state + stamp }

// addInputs adds tools that answer with what they need to know, as revision 2026-07-28
// has it.
func addInputs(s *sdk.Server) {
	needs := func(requests sdk.InputRequestMap, state string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{InputRequests: requests, RequestState: state}, nil
	}
	tool(s, "test_input_required_result_elicitation", "Asks for a name.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if name, ok := accepted(req.Params.InputResponses, "user_name")["name"].(string); ok {
			return answer("Hello, " + name + "!")
		}
		return needs(question("user_name", "What is your name?", "name", "string"), "")
	})
	tool(s, "test_input_required_result_sampling", "Asks the client's model.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if said, ok := sampled(req.Params.InputResponses, "capital_question"); ok {
			return answer("Sampling response: " + said)
		}
		return needs(sdk.InputRequestMap{"capital_question": sampling("What is the capital of France?")}, "")
	})
	tool(s, "test_input_required_result_list_roots", "Asks for the roots.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if roots, ok := req.Params.InputResponses["client_roots"].(*sdk.ListRootsResult); ok && roots != nil {
			return answer(fmt.Sprintf("%d roots", len(roots.Roots)))
		}
		return needs(sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}, "")
	})
	confirmed := func(state string) call {
		return func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if given := req.Params.RequestState; given != "" && given != stamped(state) {
				return nil, invalid("requestState was changed")
			}
			if req.Params.RequestState != "" && accepted(req.Params.InputResponses, "confirm") != nil {
				return answer("state-ok: confirmed")
			}
			return needs(question("confirm", "Please confirm", "ok", "boolean"), stamped(state))
		}
	}
	tool(s, "test_input_required_result_request_state", "Asks, and has the client keep its state.", anything, confirmed("request"))
	tool(s, "test_input_required_result_tampered_state", "Asks, and notices a changed state.", anything, confirmed("tampered"))
	tool(s, "test_input_required_result_multiple_inputs", "Asks three things at once.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in := req.Params.InputResponses
		name, _ := accepted(in, "user_name")["name"].(string)
		greeting, greeted := sampled(in, "greeting")
		roots, rooted := in["client_roots"].(*sdk.ListRootsResult)
		if name != "" && greeted && rooted {
			return answer(fmt.Sprintf("%s %s, %d roots", greeting, name, len(roots.Roots)))
		}
		all := question("user_name", "What is your name?", "name", "string")
		all["greeting"], all["client_roots"] = sampling("Generate a greeting"), &sdk.ListRootsParams{}
		return needs(all, stamped("multiple"))
	})
	tool(s, "test_input_required_result_multi_round", "Asks twice.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		state := req.Params.RequestState
		name, second := strings.CutPrefix(strings.TrimSuffix(state, stamp), "name=")
		switch {
		case state == "":
			return needs(question("step1", "Step 1: What is your name?", "name", "string"), stamped("first"))
		case state == stamped("first"):
			name, _ := accepted(req.Params.InputResponses, "step1")["name"].(string)
			return needs(question("step2", "Step 2: What is your favorite color?", "color", "string"), stamped("name="+name))
		case second && strings.HasSuffix(state, stamp):
			color, _ := accepted(req.Params.InputResponses, "step2")["color"].(string)
			return answer(name + " likes " + color)
		}
		return nil, invalid("requestState was changed")
	})
	tool(s, "test_input_required_result_capabilities", "Asks what the client can answer.", anything, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if len(req.Params.InputResponses) > 0 {
			return answer("answered")
		}
		requests := sdk.InputRequestMap{}
		if c := req.ClientCapabilities(); c != nil {
			if c.Elicitation != nil {
				requests = question("user_name", "What is your name?", "name", "string")
			}
			if c.Sampling != nil {
				requests["greeting"] = sampling("Generate a greeting")
			}
			if c.RootsV2 != nil {
				requests["client_roots"] = &sdk.ListRootsParams{}
			}
		}
		if len(requests) == 0 {
			return answer("the client can't be asked anything")
		}
		return needs(requests, "")
	})
}
