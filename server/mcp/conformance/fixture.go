//lint:file-ignore SA1019 the suite tests what newer revisions deprecate

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-authority/writ/server/mcp"
)

// fixtures are what the suite asks for by name.
func fixtures(events bool) *mcp.Extension {
	tasks := &started{running: map[string]*running{}}
	return &mcp.Extension{
		Options: func(o *sdk.ServerOptions) {
			o.Capabilities.Tools.ListChanged = true
			o.Capabilities.Resources.Subscribe = true
			o.Capabilities.Prompts = &sdk.PromptCapabilities{ListChanged: true}
			o.Capabilities.Logging = &sdk.LoggingCapabilities{}
			o.CompletionHandler = func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
				return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
			}
			o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
			o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
		},
		Add: func(s *sdk.Server) {
			addContents(s)
			addNotifying(s)
			addAsking(s)
			addInputs(s)
			addChanging(s)
			addTasks(s, tasks)
			addResources(s)
			addPrompts(s)
		},
		Tasks: func(jobs mcp.Tasks) mcp.Tasks {
			tasks.jobs = jobs
			return tasks
		},
		Events: events,
	}
}

// call is what a tool of the suite does.
type call func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)

// anything is the schema of tools whose arguments nobody looks at.
const anything = `{"type":"object"}`

func tool(s *sdk.Server, name, description, schema string, do call) {
	s.AddTool(&sdk.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}, sdk.ToolHandler(do))
}

// says is a tool that always answers the same.
func says(content ...sdk.Content) call {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: content}, nil
	}
}

func text(s string) sdk.Content { return &sdk.TextContent{Text: s} }

func answer(s string) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{text(s)}}, nil
}

func invalid(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// argument is one argument of a call.
func argument[T any](req *sdk.CallToolRequest, name string) (v T) {
	var arguments map[string]json.RawMessage
	_ = json.Unmarshal(req.Params.Arguments, &arguments) // what is malformed is missing
	_ = json.Unmarshal(arguments[name], &v)
	return v
}

func decoded(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

var (
	// picture is a PNG of one red pixel, sound a WAV file of silence.
	picture = decoded("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	sound   = decoded("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
)

func embedded(uri string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "An embedded resource."}}
}

// addContents adds tools that answer with each type of content.
func addContents(s *sdk.Server) {
	image := &sdk.ImageContent{Data: picture, MIMEType: "image/png"}
	tool(s, "test_simple_text", "Answers with text.", anything, says(text("This is a simple text response for testing.")))
	tool(s, "test_image_content", "Answers with an image.", anything, says(image))
	tool(s, "test_audio_content", "Answers with sound.", anything, says(&sdk.AudioContent{Data: sound, MIMEType: "audio/wav"}))
	tool(s, "test_embedded_resource", "Answers with a resource.", anything, says(embedded("test://embedded-resource")))
	tool(s, "test_multiple_content_types", "Answers with text, an image and a resource.", anything,
		says(text("Text, an image and a resource."), image, embedded("test://mixed-content-resource")))
	tool(s, "test_error_handling", "Always fails.", anything, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{text("This tool intentionally returns an error for testing")}}, nil
	})
	tool(s, "json_schema_2020_12_tool", "Has a schema with much of JSON Schema 2020-12.", `{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {
			"name": {"type": "string"},
			"address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"},
			"email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]},
		"else": {"required": ["email"]},
		"additionalProperties": false
	}`, says(text("called")))
	tool(s, "test_x_mcp_header", "Has an argument that a header repeats.",
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`,
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return answer("region=" + argument[string](req, "region"))
		})
}

// addResources adds resources.
func addResources(s *sdk.Server) {
	read := func(r sdk.ResourceContents) sdk.ResourceHandler {
		return func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			c := r
			c.URI = req.Params.URI
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&c}}, nil
		}
	}
	for uri, r := range map[string]sdk.ResourceContents{
		"test://static-text":      {MIMEType: "text/plain", Text: "This is the content of the static text resource."},
		"test://static-binary":    {MIMEType: "image/png", Blob: picture},
		"test://watched-resource": {MIMEType: "text/plain", Text: "Nothing has changed."},
	} {
		s.AddResource(&sdk.Resource{URI: uri, Name: uri, MIMEType: r.MIMEType, Description: "A resource of the suite."}, read(r))
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			data, err := json.Marshal(map[string]string{"uri": req.Params.URI})
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(data)}}}, err
		})
}

// addPrompts adds prompts.
func addPrompts(s *sdk.Server) {
	prompt := func(p *sdk.Prompt, messages func(map[string]string) []sdk.Content) {
		s.AddPrompt(p, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			res := &sdk.GetPromptResult{Description: p.Description}
			for _, c := range messages(req.Params.Arguments) {
				res.Messages = append(res.Messages, &sdk.PromptMessage{Role: "user", Content: c})
			}
			return res, nil
		})
	}
	required := func(names ...string) (all []*sdk.PromptArgument) {
		for _, name := range names {
			all = append(all, &sdk.PromptArgument{Name: name, Description: "An argument of the suite", Required: true})
		}
		return all
	}
	prompt(&sdk.Prompt{Name: "test_simple_prompt", Description: "Has no arguments."}, func(map[string]string) []sdk.Content {
		return []sdk.Content{text("This is a simple prompt for testing.")}
	})
	prompt(&sdk.Prompt{Name: "test_prompt_with_arguments", Description: "Has two arguments.", Arguments: required("arg1", "arg2")},
		func(a map[string]string) []sdk.Content {
			return []sdk.Content{text("Prompt with arguments: arg1='" + a["arg1"] + "', arg2='" + a["arg2"] + "'")}
		})
	prompt(&sdk.Prompt{Name: "test_prompt_with_embedded_resource", Description: "Has a resource.", Arguments: required("resourceUri")},
		func(a map[string]string) []sdk.Content {
			return []sdk.Content{embedded(a["resourceUri"]), text("Please process the embedded resource above.")}
		})
	prompt(&sdk.Prompt{Name: "test_prompt_with_image", Description: "Has an image."}, func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.ImageContent{Data: picture, MIMEType: "image/png"}, text("Please analyze the image above.")}
	})
	s.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for its context."},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			told, ok := accepted(req.Params.InputResponses, "user_context")["context"].(string)
			if !ok {
				return &sdk.GetPromptResult{InputRequests: question("user_context", "What is the context?", "context", "string")}, nil
			}
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: text("Context: " + told)}}}, nil
		})
}
