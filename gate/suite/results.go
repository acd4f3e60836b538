package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/writ-authority/writ/internal/vfs"
)

// Status is how a suite, or several of them together, ended.
type Status string

// The statuses. StatusNone stands for no suite at all; a single one never has it.
const (
	StatusNone  Status = "none"
	StatusPass  Status = "pass"
	StatusFail  Status = "fail"
	StatusError Status = "error" // not run to its end: not started, timed out
)

// Result is how a suite ended.
type Result struct {
	ID        string
	Kind      Kind
	Blocking  bool
	Added     bool // see Planned
	Detected  bool // see Planned
	Status    Status
	Reason    string // why it didn't pass, in words; "" if it did
	ExitCode  int    // 0..255; -1 if there was none
	Signal    string // the signal that ended it, or ""
	TimedOut  bool
	StartedAt time.Time     // UTC, in microseconds
	Elapsed   time.Duration // in microseconds
	Log       string        // path of the file with its output
	Tail      []string      // the last lines of it, at most 20, fit to be shown
}

// Results are the results of one run, in the order of the ids.
type Results []Result

// Evidence is what a run means for the policy (Binary DB v0, sections 8.4 and
// 16).
type Evidence struct {
	Selected         int // suites that were to run
	Results          int // suites that did
	BlockingFailures int // blocking suites that didn't pass
	Overall          Status
	Tests            Status
	Lint             Status
}

// Evidence sums the results up. Only blocking suites count for the statuses: fail
// if one failed, else error if one could not be run to its end, else pass. Tests
// and Lint are none if there is no such suite; Overall is never none.
func (r Results) Evidence() Evidence {
	e := Evidence{Selected: len(r), Results: len(r), Overall: StatusPass, Tests: StatusNone, Lint: StatusNone}
	for _, s := range r {
		if !s.Blocking {
			continue
		}
		if s.Status != StatusPass {
			e.BlockingFailures++
		}
		e.Overall = worse(e.Overall, s.Status)
		switch s.Kind {
		case KindTests:
			e.Tests = worse(e.Tests, s.Status)
		case KindLint:
			e.Lint = worse(e.Lint, s.Status)
		}
	}
	return e
}

// worse returns the one that counts when two are combined. What is not known is
// an error.
func worse(a, b Status) Status {
	rank := func(s Status) int {
		switch s {
		case StatusNone:
			return 0
		case StatusPass:
			return 1
		case StatusFail:
			return 3
		}
		return 2
	}
	if rank(b) > rank(a) {
		a = b
	}
	if rank(a) == 2 {
		return StatusError
	}
	return a
}

// Meta says what the results are of.
type Meta struct {
	Job         uint32 // index of the worker job
	Attempt     uint32 // of that job, from 1
	RunSequence uint32 // of the patchset, from 1
	Commit      string // object ids in hexadecimal
	Tree        string
}

const (
	// ResultsName is the file that WriteResults writes.
	ResultsName = "results.json"

	resultsSchema = "writ.suite-results.v1"
	maxResults    = 16 << 20 // bytes
)

// The file. Member names and their meaning are part of the schema.
type resultsFile struct {
	Schema      string       `json:"schema"`
	Job         uint32       `json:"job_index"`
	Attempt     uint32       `json:"attempt"`
	RunSequence uint32       `json:"run_sequence"`
	Commit      string       `json:"commit"`
	Tree        string       `json:"tree"`
	Suites      []resultFile `json:"suites"`
}

type resultFile struct {
	ID        string    `json:"id"`
	Kind      Kind      `json:"kind"`
	Blocking  bool      `json:"blocking"`
	Added     bool      `json:"added"`
	Detected  bool      `json:"detected"`
	Status    Status    `json:"status"`
	Reason    string    `json:"reason"`
	ExitCode  int       `json:"exit_code"`
	Signal    string    `json:"signal"`
	TimedOut  bool      `json:"timed_out"`
	StartedAt time.Time `json:"started_at"`
	ElapsedUS int64     `json:"elapsed_us"`
	Log       string    `json:"log"` // file name, in the same folder
	Tail      []string  `json:"tail"`
}

// WriteResults writes results.json into dir, the folder of the logs. The file is
// replaced as a whole and durable when the call returns. Calls for the same
// folder must exclude each other.
func WriteResults(dir string, meta Meta, results Results) error {
	f := resultsFile{
		Schema: resultsSchema, Job: meta.Job, Attempt: meta.Attempt, RunSequence: meta.RunSequence,
		Commit: meta.Commit, Tree: meta.Tree, Suites: make([]resultFile, len(results)),
	}
	for i, r := range results {
		f.Suites[i] = resultFile{
			ID: r.ID, Kind: r.Kind, Blocking: r.Blocking, Added: r.Added, Detected: r.Detected,
			Status: r.Status, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut,
			StartedAt: r.StartedAt, ElapsedUS: r.Elapsed.Microseconds(), Log: filepath.Base(r.Log), Tail: r.Tail,
		}
		if r.Tail == nil {
			f.Suites[i].Tail = []string{}
		}
	}
	if err := f.check(); err != nil {
		return fmt.Errorf("write %s: %w", ResultsName, err)
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(vfs.OS, filepath.Join(dir, ResultsName), append(data, '\n'), 0o600)
}

// ReadResults reads what WriteResults has written into dir. The error wraps
// fs.ErrNotExist if there is no such file, ErrResults if it can't be trusted.
func ReadResults(dir string) (Meta, Results, error) {
	path := filepath.Join(dir, ResultsName)
	data, err := vfs.ReadFile(vfs.OS, path, maxResults)
	if errors.Is(err, vfs.ErrTooLarge) {
		return Meta{}, nil, fmt.Errorf("%w: %w", ErrResults, err)
	}
	if err != nil {
		return Meta{}, nil, err
	}
	meta, results, err := decodeResults(dir, data)
	if err != nil {
		return Meta{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	return meta, results, nil
}

func decodeResults(dir string, data []byte) (Meta, Results, error) {
	var f resultsFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return Meta{}, nil, fmt.Errorf("%w: %w", ErrResults, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Meta{}, nil, fmt.Errorf("%w: something follows the JSON value", ErrResults)
	}
	if err := f.check(); err != nil {
		return Meta{}, nil, err
	}
	results := make(Results, len(f.Suites))
	for i, r := range f.Suites {
		results[i] = Result{
			ID: r.ID, Kind: r.Kind, Blocking: r.Blocking, Added: r.Added, Detected: r.Detected,
			Status: r.Status, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut,
			StartedAt: r.StartedAt, Elapsed: time.Duration(r.ElapsedUS) * time.Microsecond,
			Log: filepath.Join(dir, r.Log), Tail: r.Tail,
		}
	}
	return Meta{Job: f.Job, Attempt: f.Attempt, RunSequence: f.RunSequence, Commit: f.Commit, Tree: f.Tree}, results, nil
}

// check refuses what Run never makes.
func (f *resultsFile) check() error {
	if f.Schema != resultsSchema {
		return fmt.Errorf("%w: schema %s, this program knows %s", ErrResults, quote(f.Schema), resultsSchema)
	}
	if f.Suites == nil {
		return fmt.Errorf("%w: suites is missing", ErrResults)
	}
	for _, id := range []string{f.Commit, f.Tree} {
		if len(id) != 40 && len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" {
			return fmt.Errorf("%w: %s is no object id", ErrResults, quote(id))
		}
	}
	for i, s := range f.Suites {
		wrong := func(member string, value any) error {
			return fmt.Errorf("%w: suite %s has %s %v", ErrResults, quote(s.ID), member, value)
		}
		switch {
		case !validID(s.ID):
			return wrong("id", quote(s.ID))
		case i > 0 && s.ID <= f.Suites[i-1].ID:
			return fmt.Errorf("%w: suite %s is not in the order of the ids", ErrResults, s.ID)
		case s.Kind != KindTests && s.Kind != KindLint && s.Kind != KindOther:
			return wrong("kind", quote(string(s.Kind)))
		case s.Status != StatusPass && s.Status != StatusFail && s.Status != StatusError:
			return wrong("status", quote(string(s.Status)))
		case s.Status == StatusPass && (s.ExitCode != 0 || s.TimedOut || s.Signal != ""):
			return wrong("status", "pass, but did not end with exit code 0")
		case s.Log != s.ID+".log":
			return wrong("log", quote(s.Log))
		case s.ElapsedUS < 0 || s.ElapsedUS > int64(365*24*time.Hour/time.Microsecond):
			return wrong("elapsed_us", s.ElapsedUS)
		}
	}
	return nil
}
