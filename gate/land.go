package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gitrepo"
)

// LandOutcome says how an attempt to land ended.
type LandOutcome string

// The outcomes of a land. The refusals are spelled as the format spells them.
const (
	Landed         LandOutcome = "landed"
	AlreadyLanded  LandOutcome = "already_landed"
	BaseStale      LandOutcome = "BASE_STALE"
	PolicyBlocked  LandOutcome = "POLICY_BLOCKED"
	ReviewBlocked  LandOutcome = "REVIEW_BLOCKED"
	CIBlocked      LandOutcome = "CI_BLOCKED"
	Conflict       LandOutcome = "CONFLICT"
	UpdateFailed   LandOutcome = "TARGET_UPDATE_FAILED"
	TargetUnusable LandOutcome = "TARGET_UNUSABLE"
)

// LandReport is what a land came to.
type LandReport struct {
	Outcome LandOutcome `json:"outcome"`
	// ID is the Land's identity; "" when none was recorded.
	ID string `json:"id,omitempty"`
	// Target is the branch.
	Target string `json:"target"`
	// Mode is direct for a fast-forward, merge for a merge commit.
	Mode string `json:"mode,omitempty"`
	// From and To are the commits that the branch stood on before and stands on now.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Conflicts are the paths that conflict.
	Conflicts []string `json:"conflicts,omitempty"`
	Why       string   `json:"why"`
	Advice    string   `json:"advice,omitempty"`
}

// Done reports whether the change is on the target branch.
func (l *LandReport) Done() bool { return l.Outcome == Landed || l.Outcome == AlreadyLanded }

// landing is one attempt under way.
type landing struct {
	w    *Workspace
	s    *authority.Session
	sub  *subject
	out  *LandReport
	from gitrepo.OID // the target's present commit
	to   gitrepo.OID // what it moves to
	tree gitrepo.OID // tested
	mode record.LandMode
}

// land brings a Patchset onto the target branch, with the authority locked from
// the last evaluation until the record of the result.
func (w *Workspace) land(ctx context.Context, sub *subject) (*LandReport, error) {
	l := &landing{w: w, sub: sub, out: &LandReport{Target: w.Target}}
	if w.Target == "" {
		l.end(TargetUnusable, "the repository has no branch main or master", "create it, or name another target in writ.yaml")
		return l.out, nil
	}
	err := w.Repo.Exclusive(ctx, func(s *authority.Session) error {
		l.s = s
		return l.run(ctx)
	})
	return l.out, err
}

// end says what the attempt came to.
func (l *landing) end(o LandOutcome, why, advice string) {
	l.out.Outcome, l.out.Why, l.out.Advice = o, why, advice
}

func (l *landing) run(ctx context.Context) error {
	if ok, err := l.allowed(ctx); err != nil || !ok {
		return err
	}
	if ok, err := l.prepare(ctx); err != nil || !ok {
		return err
	}
	checkouts, ok, err := l.checkouts(ctx)
	if err != nil || !ok {
		return err
	}
	land, err := l.begin(ctx)
	if err != nil {
		return err
	}
	// From here on nothing may be left half done because the user got
	// impatient.
	ctx = context.WithoutCancel(ctx)
	if why := l.move(ctx, checkouts); why != nil {
		l.end(UpdateFailed, why.Error(), "run the command again")
		return l.s.Update(ctx, func(tx *authority.Tx) error { return tx.FailLand(land, record.LandFailureTargetUpdateFailed) })
	}
	return l.finish(ctx, land)
}

// allowed evaluates the Patchset once more, now that nobody can change it.
func (l *landing) allowed(ctx context.Context) (bool, error) {
	var open, landed, other bool
	err := l.s.Update(ctx, func(tx *authority.Tx) error {
		c, err := tx.Change(l.sub.rec.change)
		if err != nil {
			return err
		}
		open, landed = c.Open(), c.Meta.Lifecycle() == record.ChangeLifecycleLanded
		other = c.SelectedPatchset != record.RefTo(l.sub.rec.patchset)
		if !open {
			return nil
		}
		return l.w.decideIn(tx, l.sub)
	})
	e := l.sub.eval
	switch {
	case err != nil:
		return false, err
	case landed && other:
		l.end(PolicyBlocked, "another patchset of the change has landed", "")
	case landed:
		l.end(AlreadyLanded, "the change has landed before", "")
	case !open:
		l.end(PolicyBlocked, "the change is archived", "")
	case e.Landable():
		return true, nil
	case len(e.Objections) > 0:
		l.end(ReviewBlocked, fmt.Sprintf("%s objects", e.Objections[0].Actor), "settle the objection; its author can approve or dismiss")
	case failsChecks(e):
		l.end(CIBlocked, "a required check does not pass", "see the requirements above")
	default:
		l.end(PolicyBlocked, fmt.Sprintf("the decision is %s", e.Decision), "see the requirements above")
	}
	return false, nil
}

func failsChecks(e *authority.Evaluation) bool {
	for _, c := range e.Checks {
		switch c.Kind {
		case record.CheckKindTests, record.CheckKindLint, record.CheckKindCIPatchsetSuite:
			if c.Status == record.CheckStatusHardFail {
				return true
			}
		}
	}
	return false
}

// prepare finds out what the target would move to and that its tree is the tested
// one.
func (l *landing) prepare(ctx context.Context) (bool, error) {
	git := l.w.Git
	head := l.sub.rec.head.commit
	var ok bool
	var err error
	if l.from, ok, err = git.Ref(ctx, l.w.targetRef()); err != nil {
		return false, err
	}
	if !ok {
		l.end(TargetUnusable, fmt.Sprintf("branch %s does not exist", l.w.Target), "create it")
		return false, nil
	}
	l.out.From = string(l.from)
	c, err := git.Commit(ctx, head)
	if err != nil {
		return false, err
	}
	l.tree = c.Tree
	if in, err := git.IsAncestor(ctx, head, l.from); err != nil || in {
		l.end(AlreadyLanded, fmt.Sprintf("branch %s contains %.12s already", l.w.Target, head), "")
		return false, err
	}
	if in, err := git.IsAncestor(ctx, l.from, head); err != nil {
		return false, err
	} else if in {
		l.to, l.mode = head, record.LandModeDirect
		return true, nil
	}
	return l.merge(ctx)
}

func (l *landing) merge(ctx context.Context) (bool, error) {
	git := l.w.Git
	head := l.sub.rec.head.commit
	m, err := git.MergeTree(ctx, l.from, head)
	if errors.Is(err, gitrepo.ErrUnrelated) {
		l.end(BaseStale, fmt.Sprintf("branch %s and the head share no history", l.w.Target), "rebase onto it and run the gate again")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rebase := fmt.Sprintf("run `git rebase %s`, then the gate again", l.w.Target)
	switch {
	case !m.Clean:
		l.out.Conflicts = make([]string, len(m.Conflicts))
		for i, p := range m.Conflicts {
			l.out.Conflicts[i] = strings.ToValidUTF8(p, "\uFFFD")
		}
		l.end(Conflict, fmt.Sprintf("branch %s has moved and conflicts in %s", l.w.Target, strings.Join(l.out.Conflicts, ", ")), rebase)
		return false, nil
	case m.Tree != l.tree:
		l.end(BaseStale, fmt.Sprintf("branch %s has moved; merged with it, the tree is not the one that was tested", l.w.Target), rebase)
		return false, nil
	}
	message, err := l.mergeMessage()
	if err != nil {
		return false, err
	}
	l.mode = record.LandModeMerge
	l.to, err = git.CommitTree(ctx, gitrepo.CommitSpec{Tree: m.Tree, Parents: []gitrepo.OID{l.from, head}, Message: message})
	return err == nil, err
}

func (l *landing) mergeMessage() (string, error) {
	var message string
	err := l.s.View(func(v *authority.View) error {
		p, err := v.Patchset(l.sub.rec.patchset)
		if err != nil {
			return err
		}
		c, err := v.Change(p.Change)
		message = fmt.Sprintf("Land %s: %s\n", p.ID, c.Title)
		return err
	})
	return message, err
}

// checkouts are the work trees that have the target checked out. All of them must
// be clean.
func (l *landing) checkouts(ctx context.Context) ([]string, bool, error) {
	paths, err := l.w.Git.CheckedOut(ctx, l.w.Target)
	if err != nil {
		return nil, false, err
	}
	for _, path := range paths {
		clean, err := l.w.Git.WorktreeClean(ctx, path, l.from)
		if err != nil {
			return nil, false, err
		}
		if !clean {
			l.end(TargetUnusable, fmt.Sprintf("%s has branch %s checked out with changes that are not committed", path, l.w.Target),
				"commit or stash them, or check out another branch there")
			return nil, false, nil
		}
	}
	return paths, true, nil
}

// begin brings the Line to the branch's present commit and records the Land as
// running. The commit that the branch is to move to is kept under a ref.
func (l *landing) begin(ctx context.Context) (uint32, error) {
	w := l.w
	from, err := w.content(l.from, "")
	if err != nil {
		return 0, err
	}
	var land uint32
	update := func(tx *authority.Tx) error {
		var refs []gitrepo.RefUpdate
		main, err := tx.EnsureLine(authority.MainLine)
		if err != nil {
			return err
		}
		pre, err := w.snapshot(ctx, tx, &from, main, false, &refs)
		if err != nil {
			return err
		}
		if err := tx.SetLineHead(main, pre); err != nil {
			return err
		}
		land, err = tx.BeginLand(authority.LandSpec{Patchset: l.sub.rec.patchset, TargetLine: main, PreTarget: pre, Mode: l.mode})
		if err != nil {
			return err
		}
		refs = append(refs, gitrepo.RefUpdate{Name: w.landRef(land), New: l.to, Old: gitrepo.AnyOID})
		tx.Prepare(func() error { return w.Git.UpdateRefs(ctx, "", refs...) })
		return nil
	}
	if err = l.s.Update(ctx, update); errors.Is(err, errNeedManifest) {
		if err = from.compute(ctx, w.Git); err == nil {
			err = l.s.Update(ctx, update)
		}
	}
	if err != nil {
		return 0, err
	}
	return land, l.s.View(func(v *authority.View) error {
		rec, err := v.Land(land)
		l.out.ID = rec.ID.String()
		return err
	})
}

// move updates the checkouts and then the branch. When it fails, both are as they
// were.
func (l *landing) move(ctx context.Context, checkouts []string) error {
	git := l.w.Git
	var moved []string
	back := func(why error) error {
		for _, path := range moved {
			why = errors.Join(why, git.UpdateWorktree(ctx, path, l.to, l.from))
		}
		return why
	}
	for _, path := range checkouts {
		if err := git.UpdateWorktree(ctx, path, l.from, l.to); err != nil {
			return back(err)
		}
		moved = append(moved, path)
	}
	err := git.UpdateRefs(ctx, "writ: land "+l.out.ID, gitrepo.RefUpdate{Name: l.w.targetRef(), New: l.to, Old: l.from})
	if err != nil {
		return back(err)
	}
	return nil
}

// finish proves that the branch holds the tested tree and records the success.
func (l *landing) finish(ctx context.Context, land uint32) error {
	if err := l.w.finishLand(ctx, l.s, land, l.to, l.sub.rec.head.commit); err != nil {
		return err
	}
	l.out.To, l.out.Mode = string(l.to), l.mode.String()
	l.end(Landed, fmt.Sprintf("branch %s moved from %.12s to %.12s", l.w.Target, l.from, l.to), "")
	return nil
}

// errOtherTree says that a landed commit does not have the tested tree.
var errOtherTree = errors.New("the landed tree is not the tested tree")

func (w *Workspace) targetRef() string { return "refs/heads/" + w.Target }

// finishLand recomputes the manifest of the landed commit, compares it with the
// tested Snapshot's and records the success.
func (w *Workspace) finishLand(ctx context.Context, s *authority.Session, land uint32, to, head gitrepo.OID) error {
	landed, err := w.content(to, "")
	if err != nil {
		return err
	}
	if err := landed.compute(ctx, w.Git); err != nil {
		return err
	}
	return s.Update(ctx, func(tx *authority.Tx) error {
		l, err := tx.Land(land)
		if err != nil {
			return err
		}
		p, err := tx.Patchset(l.Patchset)
		if err != nil {
			return err
		}
		revision, err := tx.Snapshot(p.RevisionSnapshot)
		if err != nil {
			return err
		}
		if landed.manifest.Hash != revision.ManifestHash {
			return fmt.Errorf("%.12s, %s: %w", to, p.ID, errOtherTree)
		}
		index := p.RevisionSnapshot
		if to != head {
			var refs []gitrepo.RefUpdate
			line, _ := l.TargetLine.Index()
			if index, err = w.snapshot(ctx, tx, &landed, line, false, &refs); err != nil {
				return err
			}
			if len(refs) > 0 {
				tx.Prepare(func() error { return w.Git.UpdateRefs(ctx, "", refs...) })
			}
		}
		return tx.FinishLand(land, index)
	})
}

// settleLand ends a Land that was under way when its command died: it succeeded
// if the branch contains the commit that it was to move to, else it failed and
// checkouts that had been brought forward are brought back.
func (w *Workspace) settleLand(ctx context.Context) error {
	running, err := w.runningLand(ctx)
	if err != nil || running == nil {
		return err
	}
	return w.Repo.Exclusive(ctx, func(s *authority.Session) error {
		var land *authority.Land
		var revision authority.Snapshot
		err := s.View(func(v *authority.View) error {
			var err error
			if land, err = v.RunningLand(); err != nil || land == nil {
				return err
			}
			p, err := v.Patchset(land.Patchset)
			if err != nil {
				return err
			}
			revision, err = v.Snapshot(p.RevisionSnapshot)
			return err
		})
		if err != nil || land == nil {
			return err
		}
		return w.settle(ctx, s, land, &revision)
	})
}

func (w *Workspace) runningLand(ctx context.Context) (*authority.Land, error) {
	var land *authority.Land
	err := w.Repo.View(ctx, func(v *authority.View) error {
		var err error
		land, err = v.RunningLand()
		return err
	})
	return land, err
}

func (w *Workspace) settle(ctx context.Context, s *authority.Session, land *authority.Land, revision *authority.Snapshot) error {
	to, kept, err := w.Git.Ref(ctx, w.landRef(land.Index))
	if err != nil {
		return err
	}
	tip, there, err := w.Git.Ref(ctx, w.targetRef())
	if err != nil {
		return err
	}
	if kept && there {
		in, err := w.Git.IsAncestor(ctx, to, tip)
		if err != nil {
			return err
		}
		if in {
			head, err := w.CommitOf(ctx, revision)
			if err != nil {
				return err
			}
			err = w.finishLand(ctx, s, land.Index, to, head)
			if err == nil {
				w.Notes = append(w.Notes, fmt.Sprintf("%s was interrupted after branch %s had moved; it is recorded as landed now", land.ID, w.Target))
			}
			if !errors.Is(err, errOtherTree) {
				return err
			}
		} else if err := w.restoreCheckouts(ctx, to, tip); err != nil {
			return err
		}
	}
	w.Notes = append(w.Notes, fmt.Sprintf("%s was interrupted and branch %s does not hold its tested tree; it is recorded as failed", land.ID, w.Target))
	return s.Update(ctx, func(tx *authority.Tx) error { return tx.FailLand(land.Index, record.LandFailureTargetUpdateFailed) })
}

// restoreCheckouts brings checkouts of the target that stand exactly on the tree
// of an abandoned land back to their branch.
func (w *Workspace) restoreCheckouts(ctx context.Context, from, to gitrepo.OID) error {
	paths, err := w.Git.CheckedOut(ctx, w.Target)
	if err != nil {
		return err
	}
	for _, path := range paths {
		clean, err := w.Git.WorktreeClean(ctx, path, from)
		if err != nil {
			return err
		}
		if clean {
			if err := w.Git.UpdateWorktree(ctx, path, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}
