package gate

import (
	"context"
	"fmt"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gitrepo"
)

// Find returns the Patchset that name means: an identity such as
// T-0001/C-01/P-02, a Change, which stands for its selected Patchset, or "" for
// the selected Patchset of the present branch, or on a detached HEAD the Patchset
// of that commit if it is the latest one.
func (w *Workspace) Find(ctx context.Context, name string) (authority.Patchset, error) {
	var head gitrepo.Head
	if name == "" {
		var err error
		if head, err = w.Git.Head(ctx); err != nil {
			return authority.Patchset{}, err
		}
	}
	var p authority.Patchset
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		if name == "" {
			p, err = w.ofHead(ctx, v, head)
		} else {
			p, err = byName(v, name, w.Repo.Info().Namespace)
		}
		return err
	})
	return p, err
}

func (w *Workspace) ofHead(ctx context.Context, v *authority.View, head gitrepo.Head) (authority.Patchset, error) {
	none := usagef("run `writ gate` first, or name a patchset such as T-0001/C-01/P-01", "branch %s has no patchset", head.Branch)
	if head.Branch == "" {
		none = usagef("name a patchset such as T-0001/C-01/P-01", "HEAD is detached and is not what was gated last without a branch")
	}
	l, ok, err := v.FindLine(w.lineName(head.Branch))
	if err == nil && !ok {
		err = none
	}
	if err != nil {
		return authority.Patchset{}, err
	}
	p, ok, err := v.LatestOnLine(l.Index)
	if err == nil && !ok {
		err = none
	}
	if err != nil {
		return p, err
	}
	if head.Branch == "" {
		return p, w.standsFor(ctx, v, &p, head.Commit, none)
	}
	c, err := v.Change(p.Change)
	if err != nil {
		return p, err
	}
	if i, ok := c.SelectedPatchset.Index(); ok {
		p, err = v.Patchset(i)
	}
	return p, dangling(bindb.Changes.File(), c.Index, err)
}

// standsFor returns the error otherwise unless the Patchset's revision is the
// commit: all detached commits share one Line, whatever they have to do with each
// other.
func (w *Workspace) standsFor(ctx context.Context, v *authority.View, p *authority.Patchset, commit gitrepo.OID, otherwise error) error {
	revision, err := v.Snapshot(p.RevisionSnapshot)
	if err != nil {
		return dangling(bindb.Patchsets.File(), p.Index, err)
	}
	id, err := w.CommitOf(ctx, &revision)
	if err == nil && id != commit {
		err = otherwise
	}
	return err
}

func byName(v *authority.View, name string, ns record.Namespace) (authority.Patchset, error) {
	id, err := record.ParseIdentity(name, ns)
	if err != nil {
		return authority.Patchset{}, usagef("give a patchset such as T-0001/C-01/P-01 or a change such as T-0001/C-01", "%v", err)
	}
	switch id.Object {
	case record.ObjectPatchset, record.ObjectReview, record.ObjectPolicyDecision:
		found, err := v.Resolve(id.Patchset(id.PatchOrdinal))
		if err != nil {
			return authority.Patchset{}, err
		}
		return v.Patchset(found.Index)
	case record.ObjectChange, record.ObjectLand:
		found, err := v.Resolve(id.Change(id.ChangeOrdinal))
		if err != nil {
			return authority.Patchset{}, err
		}
		return selected(v, found.Index)
	}
	return authority.Patchset{}, usagef("give a change such as T-0001/C-01 or a patchset such as T-0001/C-01/P-01", "%s names no change", id)
}

// selected is the Patchset that stands for a Change.
func selected(v *authority.View, change uint32) (authority.Patchset, error) {
	c, err := v.Change(change)
	if err != nil {
		return authority.Patchset{}, err
	}
	i, ok := c.SelectedPatchset.Index()
	if !ok {
		return authority.Patchset{}, fmt.Errorf("%s has no patchset: %w", c.ID, bindb.ErrNotFound)
	}
	p, err := v.Patchset(i)
	return p, dangling(bindb.Changes.File(), c.Index, err)
}

// subjectCommits finds the commits of a recorded Patchset.
func (w *Workspace) subjectCommits(ctx context.Context, p *authority.Patchset) (*recorded, error) {
	var base, revision authority.Snapshot
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		if base, err = v.Snapshot(p.BaseSnapshot); err == nil {
			revision, err = v.Snapshot(p.RevisionSnapshot)
		}
		return dangling(bindb.Patchsets.File(), p.Index, err)
	})
	if err != nil {
		return nil, err
	}
	rec := &recorded{task: p.Task, change: p.Change, patchset: p.Index}
	if rec.base.commit, err = w.CommitOf(ctx, &base); err != nil {
		return nil, err
	}
	rec.head.commit, err = w.CommitOf(ctx, &revision)
	return rec, err
}

// subjectOf gathers what a report about a recorded Patchset needs.
func (w *Workspace) subjectOf(ctx context.Context, p *authority.Patchset) (*subject, error) {
	rec, err := w.subjectCommits(ctx, p)
	if err != nil {
		return nil, err
	}
	rl, err := w.rules(ctx, rec.base.commit, rec.head.commit)
	return &subject{rec: rec, run: &run{}, rules: rl}, err
}

// Explain reports on a recorded Patchset without changing anything.
func (w *Workspace) Explain(ctx context.Context, p *authority.Patchset) (*Report, error) {
	s, err := w.subjectOf(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := w.look(ctx, s); err != nil {
		return nil, err
	}
	return w.report(ctx, s)
}

// act records new input about a Patchset and the decision that follows from it,
// in one batch.
func (w *Workspace) act(ctx context.Context, p *authority.Patchset, verb func(*authority.Tx) error) (*Report, error) {
	s, err := w.subjectOf(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := w.decide(ctx, s, verb); err != nil {
		return nil, err
	}
	return w.report(ctx, s)
}

// Who is the Actor of a review.
type Who struct{ Name, Email string }

// Review records a Review of a Patchset and decides again.
func (w *Workspace) Review(ctx context.Context, p *authority.Patchset, who Who, action record.ReviewAction, blocking bool, text string) (*Report, error) {
	return w.act(ctx, p, func(tx *authority.Tx) error {
		actor, err := tx.EnsureActor(who.Name, who.Email)
		if err != nil {
			return err
		}
		_, err = tx.AddReview(authority.ReviewSpec{Patchset: p.Index, Action: action, Blocking: blocking, Text: text, Actor: actor})
		return err
	})
}

// RequestReview asks exactly one team for a Review of a Patchset and decides again.
func (w *Workspace) RequestReview(ctx context.Context, p *authority.Patchset, team, note string) (*Report, error) {
	return w.act(ctx, p, func(tx *authority.Tx) error {
		_, err := tx.RequestReview(p.Index, team, note)
		return err
	})
}

// Evaluate decides on a Patchset again with what is recorded, for instance once a
// Waiver has expired.
func (w *Workspace) Evaluate(ctx context.Context, p *authority.Patchset) (*Report, error) {
	return w.act(ctx, p, nil)
}

// Land lands a recorded Patchset as it was gated, if it may. One that may not is a
// Report, not an error.
func (w *Workspace) Land(ctx context.Context, p *authority.Patchset) (*Report, error) {
	s, err := w.subjectOf(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := w.look(ctx, s); err != nil {
		return nil, err
	}
	land, err := w.land(ctx, s)
	if err != nil {
		return nil, err
	}
	out, err := w.report(ctx, s)
	if err == nil {
		out.Land = land
	}
	return out, err
}

// Attest records an Attestation of a Patchset and decides again. Its Patchset is
// the one that p names, whatever s says.
func (w *Workspace) Attest(ctx context.Context, p *authority.Patchset, s authority.AttestSpec) (*Report, error) {
	s.Patchset = p.Index
	return w.act(ctx, p, func(tx *authority.Tx) error {
		_, err := tx.Attest(s)
		return err
	})
}

// Waive records a Waiver for a Patchset and decides again.
func (w *Workspace) Waive(ctx context.Context, p *authority.Patchset, s authority.WaiverSpec) (*Report, error) {
	s.Patchset = p.Index
	return w.act(ctx, p, func(tx *authority.Tx) error {
		_, err := tx.Waive(s)
		return err
	})
}

// RevokeAttestation takes an Attestation of a Patchset back and decides again.
func (w *Workspace) RevokeAttestation(ctx context.Context, p *authority.Patchset, attestation uint32) (*Report, error) {
	return w.act(ctx, p, func(tx *authority.Tx) error { return tx.RevokeAttestation(attestation) })
}

// RevokeWaiver ends a Waiver of a Patchset and decides again.
func (w *Workspace) RevokeWaiver(ctx context.Context, p *authority.Patchset, waiver uint32) (*Report, error) {
	return w.act(ctx, p, func(tx *authority.Tx) error { return tx.RevokeWaiver(waiver) })
}
