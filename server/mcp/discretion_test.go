package mcp_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/mcp"
)

// TestDiscretion: parameters of another form are refused in every revision and over both
// transports without being repeated.
func TestDiscretion(t *testing.T) {
	t.Parallel()
	f, s := fake(t)
	const want = `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"the parameters are not what the method takes"}}`
	meta := withTasks
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":["SECRET"],"_meta":` + meta + `}}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":1,"x":"SECRET","_meta":` + meta + `}}`,
	} {
		for _, version := range mcp.Versions() {
			method := "tools/list"
			if strings.Contains(message, "tools/call") {
				method = "tools/call"
			}
			if version == newest && method == "tools/call" {
				continue // its header is refused before, which has to be a name
			}
			body := message
			if version != newest {
				body = strings.Replace(body, `,"_meta":`+meta, "", 1)
			}
			status, answer := s.post(t, body, func(r *http.Request) {
				r.Header.Set("Mcp-Protocol-Version", version)
				r.Header.Set("Mcp-Method", method)
			})
			if answer != want {
				t.Errorf("%s %s: %d %s", version, body, status, answer)
			}
		}
		var out bytes.Buffer
		initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{}}}`
		in := strings.NewReader(initialize + "\n" + strings.Replace(message, `,"_meta":`+meta, "", 1) + "\n")
		_ = mcp.New(mcp.Config{Open: opened(f)}).Run(t.Context(), &mcp.Lines{In: in, Out: &out}) // ends with its input
		if _, answer, _ := strings.Cut(out.String(), "\n"); strings.TrimSpace(answer) != want {
			t.Errorf("on a line: %s", out.String())
		}
	}
	// Of a batch only what needs it is changed.
	status, answer := s.post(t, `[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":["SECRET"]}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"job_kinds"}}]`, nil)
	if status != http.StatusOK || !strings.Contains(answer, want) || !strings.Contains(answer, `"structuredContent"`) || strings.Contains(answer, "SECRET") {
		t.Errorf("in a batch: %d %s", status, answer)
	}
}
