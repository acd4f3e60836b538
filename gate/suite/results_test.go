package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEvidence(t *testing.T) {
	t.Parallel()
	const none, pass, fail, broken = StatusNone, StatusPass, StatusFail, StatusError
	for _, tc := range []struct {
		results                string // kind, blocking (!) or not, status
		failures               int
		overall, tests, lintIs Status
	}{
		{"", 0, pass, none, none},
		{"tests! pass", 0, pass, pass, none},
		{"tests pass, lint fail, other error", 0, pass, none, none},
		{"tests! pass, lint! pass", 0, pass, pass, pass},
		{"tests! pass, lint! fail", 1, fail, pass, fail},
		{"tests! error, tests! pass", 1, broken, broken, none},
		{"tests! error, tests! fail", 2, fail, fail, none},
		{"tests! fail, tests! error", 2, fail, fail, none},
		{"tests! pass, tests fail", 0, pass, pass, none},
		{"other! fail, tests! pass", 1, fail, pass, none},
		{"other! error, lint! pass", 1, broken, none, pass},
		{"tests! odd", 1, broken, broken, none},
	} {
		t.Run(tc.results, func(t *testing.T) {
			t.Parallel()
			var r Results
			for word := range strings.SplitSeq(tc.results, ", ") {
				if word == "" {
					continue
				}
				kind, status, _ := strings.Cut(word, " ")
				kind, blocking := strings.CutSuffix(kind, "!")
				r = append(r, Result{ID: fmt.Sprint(len(r)), Kind: Kind(kind), Blocking: blocking, Status: Status(status)})
			}
			want := Evidence{len(r), len(r), tc.failures, tc.overall, tc.tests, tc.lintIs}
			if got := r.Evidence(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func someResults(dir string) (Meta, Results) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	return Meta{
			Job: 7, Attempt: 1, RunSequence: 2,
			Commit: strings.Repeat("ab", 20), Tree: strings.Repeat("01", 32),
		}, Results{
			{
				ID: "lint", Kind: KindLint, Blocking: true, Status: StatusPass, StartedAt: at, Elapsed: 1500 * time.Microsecond,
				Log: filepath.Join(dir, "lint.log"), Tail: []string{"fine"}, Detected: true,
			},
			{
				ID: "unit", Kind: KindTests, Status: StatusError, Reason: "not finished within its time limit of 1s", ExitCode: -1,
				Signal: "SIGTERM", TimedOut: true, StartedAt: at.Add(time.Second), Elapsed: time.Second,
				Log: filepath.Join(dir, "unit.log"), Tail: []string{}, Added: true,
			},
		}
}

const someJSON = `{
  "schema": "writ.suite-results.v1",
  "job_index": 7,
  "attempt": 1,
  "run_sequence": 2,
  "commit": "abababababababababababababababababababab",
  "tree": "0101010101010101010101010101010101010101010101010101010101010101",
  "suites": [
    {
      "id": "lint",
      "kind": "lint",
      "blocking": true,
      "added": false,
      "detected": true,
      "status": "pass",
      "reason": "",
      "exit_code": 0,
      "signal": "",
      "timed_out": false,
      "started_at": "2026-01-02T03:04:05.000678Z",
      "elapsed_us": 1500,
      "log": "lint.log",
      "tail": [
        "fine"
      ]
    },
    {
      "id": "unit",
      "kind": "tests",
      "blocking": false,
      "added": true,
      "detected": false,
      "status": "error",
      "reason": "not finished within its time limit of 1s",
      "exit_code": -1,
      "signal": "SIGTERM",
      "timed_out": true,
      "started_at": "2026-01-02T03:04:06.000678Z",
      "elapsed_us": 1000000,
      "log": "unit.log",
      "tail": []
    }
  ]
}
`

func TestResultsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := ReadResults(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	meta, results := someResults(dir)
	if err := WriteResults(dir, meta, results); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, ResultsName))
	if err != nil || string(data) != someJSON {
		t.Errorf("%v\n%s", err, data)
	}
	gotMeta, got, err := ReadResults(dir)
	if err != nil || gotMeta != meta || !reflect.DeepEqual(got, results) {
		t.Errorf("%v\n%+v\n%+v", err, gotMeta, got)
	}
	// A second run replaces the first.
	if err := WriteResults(dir, meta, results[:0]); err != nil {
		t.Fatal(err)
	}
	if _, got, err := ReadResults(dir); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestResultsFileRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, old, new, want string }{
		{"other version", "results.v1", "results.v2", `schema "writ.suite-results.v2", this program knows writ.suite-results.v1`},
		{"not JSON", "{", "?", "invalid character"},
		{"cut", someJSON[len(someJSON)-20:], "", "unexpected EOF"},
		{"something behind", "\n}\n", "\n}\n{}", "something follows"},
		{"unknown member", `"added"`, `"addedd"`, "unknown field"},
		{"no suites", `"suites": [`, `"suites": null, "x": [`, "unknown field"},
		{"bad commit", "abab", "ABAB", "is no object id"},
		{"short tree", "0101", "", "is no object id"},
		{"bad id", `"id": "lint"`, `"id": "../x"`, `has id "../x"`},
		{"order", `"id": "lint"`, `"id": "zlint"`, "suite \"zlint\" has log"},
		{"log elsewhere", `"lint.log"`, `"../lint.log"`, `has log "../lint.log"`},
		{"kind", `"kind": "lint"`, `"kind": ""`, `has kind ""`},
		{"status", `"pass"`, `"passed"`, `has status "passed"`},
		{"no status", `"pass"`, `"none"`, `has status "none"`},
		{"pass with an exit code", `"exit_code": 0`, `"exit_code": 1`, "did not end with exit code 0"},
		{"time", `"elapsed_us": 1500`, `"elapsed_us": -1`, "has elapsed_us -1"},
		{"overflow", `"elapsed_us": 1500`, `"elapsed_us": 9223372036854775807`, "has elapsed_us"},
		{"index", `"job_index": 7`, `"job_index": 4294967296`, "cannot unmarshal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(someJSON, tc.old, tc.new, 1)
			if text == someJSON {
				t.Fatal("the file is unchanged")
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ResultsName), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := ReadResults(dir); !errors.Is(err, ErrResults) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
	dir := t.TempDir()
	meta, results := someResults(dir)
	results[0], results[1] = results[1], results[0]
	if err := WriteResults(dir, meta, results); !errors.Is(err, ErrResults) {
		t.Errorf("results out of order are written: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ResultsName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, ResultsName), maxResults+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadResults(dir); !errors.Is(err, ErrResults) {
		t.Errorf("a huge file: %v", err)
	}
}

func FuzzDecodeResults(f *testing.F) {
	f.Add([]byte(someJSON))
	f.Add([]byte(`{"schema":"writ.suite-results.v1","suites":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, results, err := decodeResults("/logs", data)
		if err != nil {
			if !errors.Is(err, ErrResults) {
				t.Fatalf("%v is not the documented error", err)
			}
			return
		}
		for _, r := range results {
			if filepath.Dir(r.Log) != "/logs" {
				t.Fatalf("log %s is elsewhere", r.Log)
			}
		}
		results.Evidence()
	})
}
