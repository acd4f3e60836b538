package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-authority/writ/authority/authoritytest"
	"github.com/writ-authority/writ/gitrepo/gitrepotest"
)

var writ string // the built binary

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if url := os.Getenv(postgresVariable); url != "" {
		return postgresProcess(url)
	}
	gitrepotest.Isolate()
	dir, err := os.MkdirTemp("", "writ-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	writ = filepath.Join(dir, "writ")
	build := exec.Command("go", "build", "-C", "..", "-o", writ, "./cmd/writ")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// subject is a repository of 10,000 files and 5,000 commits on branch feature. It
// has no suites, so that a gate is all of Writ's work and nothing else.
type subject struct {
	*gitrepotest.Repo
	n int
}

func newSubject(b *testing.B, file string) *subject {
	b.Helper()
	s := &subject{Repo: gitrepotest.New(b)}
	s.Generate(10_000, 5_000)
	s.Commit(map[string]string{"writ.yaml": file}, "Add the gate")
	s.Git("switch", "-q", "-c", "feature")
	return s
}

const noSuites = "version: 1\nsuites: []\npolicy:\n  require_tests: false\n"

// gate commits one change and gates it. It returns the time and the peak resident
// size in bytes of the process alone.
func (s *subject) gate(b *testing.B) (time.Duration, float64) {
	b.Helper()
	s.n++
	s.Commit(map[string]string{"changed.txt": fmt.Sprintln(s.n)}, fmt.Sprintf("Change %d", s.n))
	cmd := exec.Command(writ, "gate")
	cmd.Dir = s.Dir
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return took, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024
}

func report(b *testing.B, took []time.Duration, rss []float64) {
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
	if len(rss) > 0 {
		b.ReportMetric(slices.Max(rss)/(1<<20), "peak-MiB")
	}
}

// BenchmarkGateKnown gates one more commit of a branch whose base is known.
func BenchmarkGateKnown(b *testing.B) {
	s := newSubject(b, noSuites)
	s.gate(b)
	var took []time.Duration
	var rss []float64
	for b.Loop() {
		d, m := s.gate(b)
		took, rss = append(took, d), append(rss, m)
	}
	report(b, took, rss)
}

// BenchmarkGateCold makes the authority and records base and head for the first
// time.
func BenchmarkGateCold(b *testing.B) {
	s := newSubject(b, noSuites)
	var took []time.Duration
	var rss []float64
	for b.Loop() {
		s.forget(b)
		d, m := s.gate(b)
		took, rss = append(took, d), append(rss, m)
	}
	report(b, took, rss)
}

// forget removes the authority with its refs.
func (s *subject) forget(b *testing.B) {
	b.Helper()
	if err := os.RemoveAll(filepath.Join(s.Dir, ".git", "writ")); err != nil {
		b.Fatal(err)
	}
	if refs := s.Git("for-each-ref", "--format=delete %(refname)", "refs/writ"); refs != "" {
		s.Feed(refs+"\n", "update-ref", "--stdin")
	}
}

// BenchmarkGateHistory compares the same gate with 100 and with 50,000 patchsets
// in the authority, with the refs of all their Snapshots, in pairs.
func BenchmarkGateHistory(b *testing.B) {
	small, large := newSubject(b, noSuites), newSubject(b, noSuites)
	small.fill(b, 100)
	large.fill(b, 50_000)
	small.gate(b)
	large.gate(b)
	var few, many []time.Duration
	for b.Loop() {
		d, _ := small.gate(b)
		few = append(few, d)
		d, _ = large.gate(b)
		many = append(many, d)
	}
	slices.Sort(few)
	slices.Sort(many)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(few[len(few)/2].Microseconds())/1000, "100-ms")
	b.ReportMetric(float64(many[len(many)/2].Microseconds())/1000, "50000-ms")
	b.ReportMetric(float64(many[len(many)/2])/float64(few[len(few)/2]), "ratio")
}

// fill makes an authority with a history and gives each of its Snapshots a ref.
func (s *subject) fill(b *testing.B, patchsets int) {
	b.Helper()
	data := filepath.Join(s.Dir, ".git", "writ")
	authoritytest.Bulk(b, data, patchsets)
	raw, err := os.ReadFile(filepath.Join(data, "active.json"))
	if err != nil {
		b.Fatal(err)
	}
	var active struct{ Installation string }
	if err := json.Unmarshal(raw, &active); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(data, "generations", "1", "repositories", "4", "snapshot.bin"))
	if err != nil {
		b.Fatal(err)
	}
	head := s.Git("rev-parse", "HEAD")
	var refs strings.Builder
	for i := range (info.Size() - 4) / 88 {
		fmt.Fprintf(&refs, "create refs/writ/%s/s/4/%d %s\n", active.Installation, i, head)
	}
	s.Feed(refs.String(), "update-ref", "--stdin")
	s.Git("pack-refs", "--all")
}

// BenchmarkCheckout states the cost of a suite's checkout, which the other figures
// leave out.
func BenchmarkCheckout(b *testing.B) {
	s := newSubject(b, "version: 1\nsuites:\n  - id: nothing\n    run: \"true\"\n    kind: tests\n")
	var took []time.Duration
	for b.Loop() {
		s.n++
		s.Commit(map[string]string{"changed.txt": fmt.Sprintln(s.n)}, fmt.Sprintf("Change %d", s.n))
		cmd := exec.Command(writ, "gate", "--json")
		cmd.Dir = s.Dir
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		var r struct {
			Checks struct {
				CheckoutMS int64 `json:"checkout_ms"`
			} `json:"checks"`
		}
		if err := json.Unmarshal(out, &r); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Duration(r.Checks.CheckoutMS)*time.Millisecond)
	}
	report(b, took, nil)
}
