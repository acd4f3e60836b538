package mcp

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// typedResults is the first revision whose results have types.
const typedResults = "2026-07-28"

// answer is the result of a tool that succeeded: its structured content, which is also
// its text. It is written at once, where the SDK would encode each member and then
// compact what it got, and again around it.
type answer struct {
	sdk.ResultBase
	text       jsontext.Value
	resultType string // empty in revisions that have none
}

// MarshalJSON writes the result.
func (a *answer) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2*len(a.text)+len(a.text)/4+256)
	b = append(b, '{')
	if len(a.Meta) > 0 {
		meta, err := json.Marshal(a.Meta)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, `"_meta":`...), meta...), ',')
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b, err := jsontext.AppendQuote(b, a.text)
	if err != nil {
		return nil, err
	}
	b = append(append(b, `}],"structuredContent":`...), a.text...)
	if a.resultType != "" {
		b = append(append(append(b, `,"resultType":"`...), a.resultType...), '"')
	}
	return append(b, '}'), nil
}

// answered makes an answer of the result of a tool that has only an encoded content.
func answered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		r, ok := res.(*sdk.CallToolResult)
		if !ok || err != nil {
			return res, err
		}
		text, ok := r.StructuredContent.(jsontext.Value)
		if !ok {
			return res, nil
		}
		a := &answer{text: text}
		a.Meta = r.Meta
		if call, ok := req.(*sdk.CallToolRequest); ok {
			if p := call.Session.InitializeParams(); p != nil && p.ProtocolVersion >= typedResults {
				a.resultType = complete
			}
		}
		return a, nil
	}
}
