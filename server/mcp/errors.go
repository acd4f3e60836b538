package mcp

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ErrUnknownTask refuses ids that are malformed, of nothing, or of what the caller may
// not know of: there is no difference between them.
var ErrUnknownTask error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown task"}

// ErrNoTasks refuses what only clients with tasks can do.
var ErrNoTasks error = &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities,
	Message: "the client has not declared the extension " + TasksExtension,
	Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + TasksExtension + `":{}}}}`)}

// What the SDK would refuse in words of the request, or not at all.
var (
	errNoMethod   = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the server has no such method; it says what it has when a session begins"}
	errNoPrompt   = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there are no prompts"}
	errNoTool     = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such tool; tools/list has all of them"}
	errNoResource = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Data: []byte("{}"),
		Message: "no such resource; there are " + kindsURI + ", " + jobPrefix + "JOB and " + jobPrefix + "JOB" + graphSuffix}
)
