package gate

import (
	"context"
	"errors"
	"strings"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate/suite"
	"github.com/writ-authority/writ/gitrepo"
)

// tree lets package suite read one commit's files.
type tree struct {
	ctx context.Context
	git *gitrepo.Repo
	id  gitrepo.OID
}

func (t tree) List() ([]string, error) {
	entries, err := t.git.ListTop(t.ctx, t.id)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names, err
}

// Read finds nothing where a folder or a symbolic link is.
func (t tree) Read(path string) ([]byte, bool, error) {
	b, ok, err := t.git.ReadFile(t.ctx, t.id, path, suite.MaxFile)
	if errors.Is(err, gitrepo.ErrNotRegular) {
		return nil, false, nil
	}
	return b, ok, err
}

// rules is what a Patchset is judged by besides its records: flags and suites as
// its base has them, and the class of its content.
type rules struct {
	*suite.Plan
	class authority.ContentClass
	diff  []gitrepo.FileChange
}

func (w *Workspace) rules(ctx context.Context, base, head gitrepo.OID) (*rules, error) {
	var from suite.Tree
	if empty, err := w.Git.EmptyTree(ctx); err != nil {
		return nil, err
	} else if base != empty {
		from = tree{ctx, w.Git, base}
	}
	plan, err := suite.Resolve(from, tree{ctx, w.Git, head}, uint8(w.Repo.Info().PolicyFlags))
	if err != nil {
		return nil, err
	}
	diff, err := w.Git.Diff(ctx, base, head)
	if err != nil {
		return nil, err
	}
	return &rules{plan, classify(diff), diff}, nil
}

// classify tells documentation from code (section 16.2 of the format).
func classify(diff []gitrepo.FileChange) authority.ContentClass {
	for _, c := range diff {
		if !strings.HasSuffix(strings.ToLower(c.Path), ".md") {
			return authority.CodeChange
		}
	}
	if len(diff) == 0 {
		return authority.CodeChange
	}
	return authority.DocsOnly
}

// input joins the rules with the results of the selected run.
func (r *rules) input(p *authority.Patchset, results suite.Results) authority.PolicyInput {
	in := authority.PolicyInput{Flags: record.PolicyFlags(r.Flags), Class: r.class, Suites: []authority.SuiteRow{}}
	for _, s := range r.Suites {
		in.Suites = append(in.Suites, authority.SuiteRow{Blocking: s.Blocking, Result: resultOf(p, s, results)})
	}
	return in
}

// resultOf is the result of one suite in the completed run of a Patchset. When
// the detailed results are gone, the compact evidence still proves that every
// blocking suite passed, if none failed.
func resultOf(p *authority.Patchset, s suite.Planned, results suite.Results) record.CIStatus {
	if p.CICompletedAt == 0 {
		return record.CIStatusNone
	}
	for _, r := range results {
		if r.ID == s.ID {
			return ciStatus(r.Status)
		}
	}
	if len(results) == 0 && s.Blocking && p.CIBlockingFailures == 0 && p.CISuiteResults == p.CISelectedSuites && p.CISelectedSuites > 0 {
		return record.CIStatusPass
	}
	return record.CIStatusNone
}

// ciStatus gives a suite's status as the format keeps it; both spell it alike.
func ciStatus(s suite.Status) record.CIStatus {
	v, _ := record.ParseCIStatus(string(s)) // none for what is no status
	return v
}
