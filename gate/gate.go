package gate

import (
	"context"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate/suite"
)

// Options say what to gate and how.
type Options struct {
	RangeOptions
	// Range is what FindRange gave for RangeOptions; nil to have it found.
	Range *Range
	// Task is the title of a Task that has to be opened; "" for the subject of
	// the first commit.
	Task string
	// AuthorMode says who wrote the change.
	AuthorMode record.AuthorMode
	// Rerun runs the checks again although there is evidence.
	Rerun bool
	// Land brings the Patchset onto the target branch if it may.
	Land bool
	// Progress is told of every step of a suite; nil for nobody.
	Progress func(suite.Event)
	// Waiting is told, again and again, that another command runs these checks;
	// nil for nobody.
	Waiting func()
	// Planned is told which suites count before they run; nil for nobody.
	Planned func(*suite.Plan)
}

// Run is the main job: record the range, run its checks, decide, explain, and land
// if asked to. A Patchset that may not land is a Report, not an error.
func (w *Workspace) Run(ctx context.Context, o Options) (*Report, error) {
	r := o.Range
	if r == nil {
		var err error
		if r, err = w.FindRange(ctx, o.RangeOptions); err != nil {
			return nil, err
		}
	}
	rl, err := w.rules(ctx, r.Base, r.Head)
	if err != nil {
		return nil, err
	}
	if o.Planned != nil {
		o.Planned(rl.Plan)
	}
	if err := w.sweep(ctx); err != nil {
		return nil, err
	}
	rec, err := w.record(ctx, r, o.Task, o.AuthorMode)
	if err != nil {
		return nil, err
	}
	s := &subject{rec: rec, rules: rl, run: &run{}}
	if rec.closed {
		return w.closedReport(ctx, s, o.Land)
	}
	if s.run, err = w.check(ctx, rec, rl, &o); err != nil {
		return nil, err
	}
	if err := w.decide(ctx, s, nil); err != nil {
		return nil, err
	}
	var land *LandReport
	if o.Land {
		if land, err = w.land(ctx, s); err != nil {
			return nil, err
		}
	}
	out, err := w.report(ctx, s)
	if err == nil {
		out.Land = land
	}
	return out, err
}

// closedReport tells what became of a Patchset whose Change is closed. Nothing is
// run and nothing is recorded.
func (w *Workspace) closedReport(ctx context.Context, s *subject, land bool) (*Report, error) {
	if err := w.look(ctx, s); err != nil {
		return nil, err
	}
	out, err := w.report(ctx, s)
	if err == nil && land {
		out.Land = &LandReport{Outcome: AlreadyLanded, Target: w.Target, Why: "the change has landed before"}
	}
	return out, err
}

// look evaluates a Patchset without recording anything.
func (w *Workspace) look(ctx context.Context, s *subject) error {
	var f authority.Facts
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		if f, err = v.Facts(s.rec.patchset, w.now()); err != nil {
			return err
		}
		s.decision, err = v.Decision(&f.Patchset)
		return err
	})
	if err != nil {
		return err
	}
	w.findResults(s, &f.Patchset)
	s.eval = authority.Evaluate(s.rules.input(&f.Patchset, s.run.results), f)
	return nil
}

// findResults reads the results of the selected run when this command has not
// just made them.
func (w *Workspace) findResults(s *subject, p *authority.Patchset) {
	job, ok := p.CIJob.Index()
	if !ok || s.run.results != nil {
		return
	}
	s.run.logDir = w.logDir(job)
	s.run.results = w.results(job, p.CIRunSeq)
}

// decide evaluates a Patchset and records the decision, together with what before
// adds to the same batch.
func (w *Workspace) decide(ctx context.Context, s *subject, before func(*authority.Tx) error) error {
	return w.Repo.Update(ctx, func(tx *authority.Tx) error {
		if before != nil {
			if err := before(tx); err != nil {
				return err
			}
		}
		return w.decideIn(tx, s)
	})
}

func (w *Workspace) decideIn(tx *authority.Tx, s *subject) error {
	p, err := tx.Patchset(s.rec.patchset)
	if err != nil {
		return err
	}
	w.findResults(s, &p)
	s.eval, s.decision, err = tx.Decide(s.rec.patchset, s.rules.input(&p, s.run.results))
	return err
}
