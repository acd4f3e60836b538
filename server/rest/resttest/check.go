package resttest

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/writ-authority/writ/server/operation"
	"github.com/writ-authority/writ/server/rest"
)

// document is the OpenAPI document that answers are held against.
var document = sync.OnceValue(func() *huma.OpenAPI {
	huma.ValidateStrictCasing = true
	return rest.OpenAPI()
})

// validator guards huma's, whose buffers are for one caller.
var validator sync.Mutex

// Check holds an answer against the OpenAPI document: the status must be among
// those of the operation, and the body must match the schema of that status. An
// answer to a request that is no operation must be a problem.
func Check(method, path string, status int, header http.Header, body []byte) error {
	if header.Get("X-Request-Id") == "" {
		return fmt.Errorf("%s %s: the answer has no X-Request-Id", method, path)
	}
	if status == http.StatusNotModified || method == http.MethodHead {
		if len(body) > 0 {
			return fmt.Errorf("%s %s: an answer without a body has one", method, path)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s %s: content type: %w", method, path, err)
	}
	d := document()
	o := find(method, path)
	var response *huma.Response
	if o == nil {
		if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s: status %d, and there is no such operation", method, path, status)
		}
		response = d.Components.Responses["404"]
	} else {
		response = described(d, o).Responses[strconv.Itoa(status)]
		if response == nil {
			return fmt.Errorf("%s: the document has no status %d", o.Name, status)
		}
		if name, ok := strings.CutPrefix(response.Ref, "#/components/responses/"); ok {
			response = d.Components.Responses[name]
		}
	}
	content := response.Content[media]
	if content == nil {
		return fmt.Errorf("%s %s: status %d may not be %s", method, path, status, media)
	}
	if err := validate(d, content.Schema, body); err != nil {
		return fmt.Errorf("%s %s: status %d: %w\n%s", method, path, status, err, body)
	}
	return nil
}

// CheckRequest holds the body of a call to an operation against the document.
func CheckRequest(o *operation.Operation, body []byte) error {
	d := document()
	return validate(d, described(d, o).RequestBody.Content["application/json"].Schema, body)
}

func validate(d *huma.OpenAPI, schema *huma.Schema, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	validator.Lock()
	defer validator.Unlock()
	var result huma.ValidateResult
	huma.Validate(d.Components.Schemas, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, &result)
	if len(result.Errors) > 0 {
		return result.Errors[0]
	}
	return nil
}

// find gives the operation of a call, or nil.
func find(method, path string) *operation.Operation {
	path, _, _ = strings.Cut(path, "?")
	for _, o := range operation.Table {
		before, after, wild := strings.Cut(o.Path, "{id}")
		match := path == o.Path
		if rest, ok := strings.CutPrefix(path, before); wild && ok {
			id, ok := strings.CutSuffix(rest, after)
			match = ok && id != "" && !strings.Contains(id, "/")
		}
		if match && (o.Method == method) {
			return o
		}
	}
	return nil
}

// described gives an operation's part of the document.
func described(d *huma.OpenAPI, o *operation.Operation) *huma.Operation {
	item := d.Paths[o.Path]
	switch o.Method {
	case http.MethodGet:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPatch:
		return item.Patch
	default:
		return item.Delete
	}
}
