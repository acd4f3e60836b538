package gate

import (
	"context"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate/suite"
)

// ReportSchema names the form of Report as JSON.
const ReportSchema = "writ.gate.v1"

// Report is what a gate found out. Its JSON form is stable.
type Report struct {
	Schema       string        `json:"schema"`
	Installation string        `json:"installation"`
	Epoch        uint64        `json:"epoch"`
	Repository   RepositoryRef `json:"repository"`
	Task         TaskRef       `json:"task"`
	Change       ChangeRef     `json:"change"`
	Patchset     PatchsetRef   `json:"patchset"`
	Checks       ChecksReport  `json:"checks"`
	Policy       PolicyReport  `json:"policy"`
	Decision     DecisionRef   `json:"decision"`
	Requirements []Requirement `json:"requirements"`
	// Landable reports whether policy and reviews allow the Patchset to land.
	Landable bool `json:"landable"`
	// Landed reports whether it has landed: that its Change has is not enough.
	Landed bool        `json:"landed"`
	Land   *LandReport `json:"land,omitempty"`
	Notes  []string    `json:"notes"`
}

// RepositoryRef names the Repository in the authority.
type RepositoryRef struct {
	Index uint32 `json:"index"`
	Name  string `json:"name"`
}

// TaskRef names a Task.
type TaskRef struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	New   bool   `json:"new"`
}

// ChangeRef names a Change.
type ChangeRef struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Lifecycle string `json:"lifecycle"`
	Branch    string `json:"branch"`
	New       bool   `json:"new"`
}

// SnapshotRef names a Snapshot and the commit that it stands for.
type SnapshotRef struct {
	ID       string `json:"id"`
	Commit   string `json:"commit"`
	Manifest string `json:"manifest_sha256"`
	Files    uint32 `json:"files"`
	Bytes    uint64 `json:"bytes"`
}

// PatchsetRef describes a Patchset.
type PatchsetRef struct {
	ID         string      `json:"id"`
	New        bool        `json:"new"`
	Base       SnapshotRef `json:"base"`
	Revision   SnapshotRef `json:"revision"`
	Summary    string      `json:"summary"`
	AuthorMode string      `json:"author_mode"`
	CreatedAt  string      `json:"created_at"`
	Class      string      `json:"content_class"`
	Changed    int         `json:"changed_paths"`
}

// ChecksReport describes the CI run that the decision rests on.
type ChecksReport struct {
	Job      string        `json:"job,omitempty"`
	Run      uint32        `json:"run"`
	Ran      bool          `json:"ran"`
	Attached bool          `json:"attached"`
	Source   string        `json:"suites_from"`
	Selected uint16        `json:"selected"`
	Results  uint16        `json:"results"`
	Blocking uint16        `json:"blocking_failures"`
	Overall  string        `json:"overall"`
	Tests    string        `json:"tests"`
	Lint     string        `json:"lint"`
	Suites   []SuiteReport `json:"suites"`
	LogDir   string        `json:"log_dir,omitempty"`
	Checkout int64         `json:"checkout_ms,omitempty"`
}

// SuiteReport is one suite and its result in the run.
type SuiteReport struct {
	ID       string   `json:"id"`
	Command  string   `json:"command"`
	Kind     string   `json:"kind"`
	Blocking bool     `json:"blocking"`
	Added    bool     `json:"added"`
	Detected bool     `json:"detected"`
	Status   string   `json:"status"`
	ExitCode int      `json:"exit_code"`
	TimedOut bool     `json:"timed_out"`
	Elapsed  int64    `json:"elapsed_ms"`
	Log      string   `json:"log,omitempty"`
	Tail     []string `json:"tail,omitempty"`
}

// PolicyReport says which flags the decision was made with.
type PolicyReport struct {
	Flags  []string `json:"flags"`
	Source string   `json:"flags_from"`
	Target string   `json:"target"`
}

// DecisionRef names a decision.
type DecisionRef struct {
	ID        string `json:"id,omitempty"`
	Kind      string `json:"kind"`
	CreatedAt string `json:"created_at,omitempty"`
}

// subject is the Patchset that a report is about, with all that the report needs.
type subject struct {
	rec      *recorded
	rules    *rules
	run      *run
	eval     *authority.Evaluation
	decision *authority.Decision
}

// report reads the records behind a subject and puts the report together.
func (w *Workspace) report(ctx context.Context, s *subject) (*Report, error) {
	info := w.Repo.Info()
	out := &Report{
		Schema: ReportSchema, Installation: w.Authority.Installation(), Epoch: w.Authority.Epoch(),
		Repository: RepositoryRef{info.Index, info.Name}, Notes: []string{},
	}
	var base, revision authority.Snapshot
	var p authority.Patchset
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		if p, err = v.Patchset(s.rec.patchset); err != nil {
			return err
		}
		t, err := v.Task(p.Task)
		if err != nil {
			return err
		}
		c, err := v.Change(p.Change)
		if err != nil {
			return err
		}
		if base, err = v.Snapshot(p.BaseSnapshot); err != nil {
			return err
		}
		if revision, err = v.Snapshot(p.RevisionSnapshot); err != nil {
			return err
		}
		branch, err := branchOf(v, &revision)
		if err != nil {
			return err
		}
		out.Landed = c.Meta.Lifecycle() == record.ChangeLifecycleLanded && c.SelectedPatchset == record.RefTo(p.Index)
		summary, err := v.Summary(&p)
		out.Task = TaskRef{t.ID.String(), t.Title, s.rec.newTask}
		out.Change = ChangeRef{c.ID.String(), c.Title, c.Meta.Lifecycle().String(), branch, s.rec.newChange}
		out.Patchset = PatchsetRef{
			ID: p.ID.String(), New: s.rec.newPatchset, Summary: summary,
			AuthorMode: p.Meta.AuthorMode().String(), CreatedAt: stamp(p.CreatedAt),
			Class: s.rules.class.String(), Changed: len(s.rules.diff),
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Patchset.Base = snapshotRef(&base, string(s.rec.base.commit))
	out.Patchset.Revision = snapshotRef(&revision, string(s.rec.head.commit))
	out.Checks = checksReport(info.Index, &p, s)
	out.Policy = PolicyReport{record.PolicyFlags(s.rules.Flags).Names(), s.rules.FlagsSource, w.Target}
	out.Decision = DecisionRef{Kind: s.eval.Decision.String()}
	if s.decision != nil {
		out.Decision.ID, out.Decision.CreatedAt = s.decision.ID.String(), stamp(s.decision.CreatedAt)
	}
	out.Requirements = explain(s, &p)
	out.Landable = s.eval.Landable()
	for _, n := range s.rules.Notes {
		out.Notes = append(out.Notes, n.String())
	}
	if s.rec.note != "" {
		out.Notes = append(out.Notes, s.rec.note)
	}
	out.Notes = append(out.Notes, w.Notes...)
	return out, nil
}

// branchOf is the name of the Line that a Snapshot was authored on, "" for none.
func branchOf(v *authority.View, s *authority.Snapshot) (string, error) {
	i, ok := s.Line.Index()
	if !ok {
		return "", nil
	}
	l, err := v.Line(i)
	return l.Name, err
}

func snapshotRef(s *authority.Snapshot, commit string) SnapshotRef {
	return SnapshotRef{s.Name(), commit, hexString(s.ManifestHash[:]), s.FileCount, s.TotalBytes}
}

func checksReport(repository uint32, p *authority.Patchset, s *subject) ChecksReport {
	c := ChecksReport{
		Run: p.CIRunSeq, Ran: s.run.ran, Attached: s.run.attached, Source: s.rules.SuitesSource,
		Selected: p.CISelectedSuites, Results: p.CISuiteResults, Blocking: p.CIBlockingFailures,
		Overall: p.CIStatus.Overall().String(), Tests: p.CIStatus.Tests().String(), Lint: p.CIStatus.Lint().String(),
		Suites: []SuiteReport{}, Checkout: s.run.checkout.Milliseconds(),
	}
	if j, ok := p.CIJob.Index(); ok {
		c.Job, c.LogDir = record.JobLabel(repository, j), s.run.logDir
	}
	for _, planned := range s.rules.Suites {
		r := SuiteReport{
			ID: planned.ID, Command: planned.Run.String(), Kind: string(planned.Kind), Blocking: planned.Blocking,
			Added: planned.Added, Detected: planned.Detected, Status: "none",
		}
		for _, got := range s.run.results {
			if got.ID == planned.ID {
				r.Status, r.ExitCode, r.TimedOut = string(got.Status), got.ExitCode, got.TimedOut
				r.Elapsed, r.Log = got.Elapsed.Milliseconds(), got.Log
				if got.Status != suite.StatusPass {
					r.Tail = got.Tail
				}
			}
		}
		c.Suites = append(c.Suites, r)
	}
	return c
}

// stamp shows an instant, and nothing for an unknown one.
func stamp(s record.Seconds) string {
	if s == 0 {
		return ""
	}
	return s.String()
}
