package docs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-authority/writ/server/mcp"
	"github.com/writ-authority/writ/server/operation"
)

const (
	toolsBegin = "<!-- tools -->\n"
	toolsEnd   = "<!-- end of tools -->\n"
)

// toolTable is the table of tools, as the table of operations has them.
func toolTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| tool | arguments | is | scope | safe to repeat |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range mcp.Tools {
		o, ok := operation.ByName(name)
		if !ok {
			t.Fatalf("no operation is called %s", name)
		}
		arguments := []string{}
		if len(o.Arguments()) == 0 {
			arguments = []string{"–"}
		}
		for _, f := range o.Arguments() {
			text := "`" + f.Name + "`"
			if !f.Required {
				text += "?"
			}
			arguments = append(arguments, text)
		}
		if o.Name == "job_list" {
			arguments = []string{"filters", "`limit`?", "`cursor`?"}
		}
		repeat := "no"
		switch {
		case o.ReadOnly:
			repeat = "reads only"
		case o.Destructive:
			repeat = "yes; destructive"
		case o.Idempotent:
			repeat = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s |\n", name, strings.Join(arguments, ", "), o.Summary,
			strings.Join(o.Scope.Names(), "`, `"), repeat)
	}
	return b.String()
}

// TestMCPTools holds the table of tools of mcp.md against the tools.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), toolsBegin)
	_, after, ok2 := strings.Cut(rest, toolsEnd)
	if !ok || !ok2 {
		t.Fatal("mcp.md has no place for its tools")
	}
	want := before + toolsBegin + toolTable(t) + toolsEnd + after
	if *update {
		if err := os.WriteFile("mcp.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Error("the tools of mcp.md are stale: run go test ./docs -update")
	}
	for _, v := range mcp.Versions() {
		if !strings.Contains(before, v) {
			t.Errorf("mcp.md does not say that revision %s is spoken", v)
		}
	}
}

// TestMCPSnippets reads the settings of clients that mcp.md shows.
func TestMCPSnippets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Errorf("mcp.md has %d snippets; the test no longer understands it", len(blocks))
	}
	for _, b := range blocks {
		if !json.Valid([]byte(b[1])) {
			t.Errorf("this is no JSON:\n%s", b[1])
		}
	}
}

// TestMCPTranscript says what the transcript of mcp.md says, and expects the answers
// that it shows.
func TestMCPTranscript(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, transcript, ok := strings.Cut(string(text), "<!-- transcript -->\n```text\n")
	transcript, _, ok2 := strings.Cut(transcript, "```")
	if !ok || !ok2 {
		t.Fatal("mcp.md has no transcript")
	}
	top := t.TempDir()
	env := append(tourEnvironment(t, top), "WRIT_OWNER=ada", "WRIT_TENANT=", "WRIT_SERVER=")
	cmd := exec.Command(filepath.Join(top, "bin", "writ"), "mcp", "--data", filepath.Join(top, "data"))
	cmd.Env, cmd.Stderr = env, t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	said, shown := 0, 0
	for l := range strings.Lines(transcript) {
		l = strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(l, "> "):
			said++
			if _, err := fmt.Fprintln(in, l[2:]); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(l, "< "):
			shown++
			answer, err := answers.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := json.Unmarshal([]byte(l[2:]), &want); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
			if !partOf(want, got) {
				t.Errorf("shown is\n%s\nanswered was\n%s", l[2:], answer)
			}
		case l != "":
			t.Errorf("who says %q?", l)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if said < 8 || shown < 7 {
		t.Errorf("%d messages, %d answers; the test no longer understands the transcript", said, shown)
	}
}

// partOf says whether a value is another one, from whose objects members may have been
// left out.
func partOf(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		all, ok := whole.(map[string]any)
		for name, v := range part {
			other, there := all[name]
			ok = ok && there && partOf(v, other)
		}
		return ok
	case []any:
		all, ok := whole.([]any)
		ok = ok && len(part) == len(all)
		for i := 0; ok && i < len(part); i++ {
			ok = partOf(part[i], all[i])
		}
		return ok
	}
	return reflect.DeepEqual(part, whole)
}
