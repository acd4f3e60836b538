package docs

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/executor"
	"github.com/writ-authority/writ/nox"
	"github.com/writ-authority/writ/rune"
	"github.com/writ-authority/writ/rune/machine"
)

// TestExecutorsPrograms runs the programs of executors.md with the adapters.
func TestExecutorsPrograms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("executors.md")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/shop" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("ok"))
	}))
	defer server.Close()
	publish := filepath.Join(t.TempDir(), "publish")
	script := "#!/bin/sh\n[ -n \"$WRIT_ATTEMPT\" ] && [ -n \"$WRIT_OPERATION\" ] && [ -n \"$WRIT_CELL\" ] && [ \"$1\" = 1.2 ]\n"
	if err := os.WriteFile(publish, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	exec, err1 := executor.NewExec(executor.ExecOptions{Commands: map[string]string{"publish": publish}})
	get, err2 := executor.NewHTTPGet(executor.HTTPOptions{Hosts: []string{server.URL}})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	adapters := map[string]executor.Adapter{
		"clock":  &executor.Clock{Now: func() time.Time { return time.Unix(1000, 0) }},
		"random": &executor.Random{Source: bytes.NewReader([]byte{7, 8})},
		"exec":   exec, "http-get": get,
	}
	registry := executor.NewRegistry(adapters)
	programs := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```rune\n// ([a-z]+)\\.rune: .*?\n(.*?)^```$").FindAllSubmatch(text, -1) {
		programs[string(m[1])] = string(m[2])
	}
	for _, x := range []struct{ program, state, event, want string }{
		{"minute", `940`, `0`, `1000`},
		{"minute", `941`, `0`, `941`},
		{"draw", `0`, `[5, 6]`, `6`}, // 7 is drawn
		{"draw", `0`, `[5, 6]`, `5`}, // 8 is drawn
		{"publish", `0`, `"1.2"`, `["1.2", 0]`},
		{"publish", `9`, `"1.3"`, `9`},
		{"status", `0`, `"shop"`, `0`},
		{"status", `0`, `"other"`, `1`},
	} {
		source, ok := programs[x.program]
		if !ok {
			t.Fatalf("there is no program %s", x.program)
		}
		if formatted, err := rune.Format([]byte(source)); err != nil || string(formatted) != source {
			t.Errorf("%s has not the one layout, which is\n%s%v", x.program, formatted, err)
		}
		source = strings.ReplaceAll(source, "https://status.example.org", server.URL)
		got := perform(t, registry, source, value(t, x.state), value(t, x.event))
		if want := value(t, x.want); !nox.Equal(got, want) {
			t.Errorf("%s of %s with state %s is %s, expected %s", x.program, x.event, x.state, got, want)
		}
	}
	// The table has the requests as the adapters tell them, and the text their limits.
	for name, a := range adapters {
		if row := "| [`" + name + "`](#" + name + ") | `" + a.Usage() + "` |"; !bytes.Contains(text, []byte(row)) {
			t.Errorf("executors.md has no row %s", row)
		}
	}
	for _, variable := range []string{executor.EnvAttempt, executor.EnvOperation, executor.EnvCell} {
		if !bytes.Contains(text, []byte("| `"+variable+"` |")) {
			t.Errorf("executors.md does not explain %s", variable)
		}
	}
}

func value(t *testing.T, expression string) nox.Noun {
	t.Helper()
	n, err := machine.Eval([]byte(expression))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// perform runs a program and has its acts performed.
func perform(t *testing.T, e cell.Executor, source string, state, event nox.Noun) nox.Noun {
	t.Helper()
	p, err := rune.Compile([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.Load(p, machine.Input{State: state, Event: event}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := m.Run(1000)
		if err != nil {
			t.Fatal(err)
		}
		switch r.Status {
		case machine.Done:
			return r.Value
		case machine.Act:
			got, err := e.Do(t.Context(), cell.Request{Tag: r.Tag, Arguments: r.Arguments})
			if err != nil || got.Outcome != cell.OutcomeSucceeded {
				t.Fatalf("%s: %v %q %v", r.Arguments, got.Outcome, got.Reason, err)
			}
			if err := m.Resume(got.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
}
