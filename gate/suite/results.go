package suite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/writ-authority/writ/internal/vfs"
)

// Status is how a suite or a kind of suites came out.
type Status string

// The statuses. StatusNone means that there is nothing to judge.
const (
	StatusNone  Status = "none"
	StatusPass  Status = "pass"
	StatusFail  Status = "fail"
	StatusError Status = "error" // it could not be run to its end
)

// Result is the outcome of one suite.
type Result struct {
	ID        string        `json:"id"`
	Kind      Kind          `json:"kind"`
	Blocking  bool          `json:"blocking"`
	Status    Status        `json:"status"`
	ExitCode  int           `json:"exit_code"` // -1 when a signal ended it
	Signal    string        `json:"signal,omitempty"`
	TimedOut  bool          `json:"timed_out"`
	StartedAt time.Time     `json:"started_at"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	Log       string        `json:"log"`
	Tail      []string      `json:"tail,omitempty"` // the last lines of the log
}

// Results are the outcomes of one run, in order of id.
type Results []Result

// Evidence sums results up. Only blocking suites count.
type Evidence struct {
	Selected         int
	Results          int
	BlockingFailures int
	Overall          Status // never none
	Tests            Status
	Lint             Status
}

// Evidence judges a run: a kind fails if one of its blocking suites failed, else
// it is an error if one could not be run, else it passes; without any it is none.
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

func worse(a, b Status) Status {
	rank := map[Status]int{StatusNone: 0, StatusPass: 1, StatusError: 2, StatusFail: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// Meta says which run results belong to.
type Meta struct {
	Repository uint32 `json:"repository_index"`
	Job        uint32 `json:"worker_job_index"`
	RunSeq     uint32 `json:"run"`
	Commit     string `json:"commit"`
	Tree       string `json:"tree"`
}

const (
	resultsFile   = "results.json"
	resultsSchema = "writ.suite-results.v1"
	maxResults    = 16 << 20
)

type resultsDocument struct {
	Schema string `json:"schema"`
	Meta
	Suites Results `json:"suites"`
}

// WriteResults puts results.json into dir, in one piece and durably.
func WriteResults(dir string, m Meta, r Results) error {
	b, err := json.MarshalIndent(resultsDocument{resultsSchema, m, r}, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(vfs.OS, filepath.Join(dir, resultsFile), append(b, '\n'), 0o600)
}

// ReadResults reads what WriteResults wrote. A missing file matches
// fs.ErrNotExist.
func ReadResults(dir string) (Meta, Results, error) {
	path := filepath.Join(dir, resultsFile)
	b, err := vfs.ReadFile(vfs.OS, path, maxResults)
	if err != nil {
		return Meta{}, nil, err
	}
	var d resultsDocument
	if err := json.Unmarshal(b, &d); err != nil {
		return Meta{}, nil, fmt.Errorf("%s: %w: %w", path, ErrResults, err)
	}
	if d.Schema != resultsSchema {
		return Meta{}, nil, fmt.Errorf("%s: %w: schema %q, expected %q", path, ErrResults, d.Schema, resultsSchema)
	}
	return d.Meta, d.Suites, nil
}
