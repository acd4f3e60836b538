package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gitrepo"
)

const (
	// maxRange bounds how many commits of a range are read for its summary.
	maxRange = 1000
	// maxSummary is the length in bytes that the format allows.
	maxSummary = 65535
	cutMark    = "\n[cut]"
	// detachedLine names the authoring Line of commits without a branch.
	detachedLine = "detached"
)

// Range is what a gate is about.
type Range struct {
	Base   gitrepo.OID // the commit, or the empty tree below a root commit
	Head   gitrepo.OID
	Tree   gitrepo.OID // of Head
	Branch string      // "" when detached
	// Commits are the first ones of the range, oldest first.
	Commits []*gitrepo.Commit
	More    bool
}

// RangeOptions choose a range.
type RangeOptions struct {
	Base     string // "" for the merge base with the upstream or the target
	Head     string // "" for HEAD
	Worktree bool   // include uncommitted changes
}

// FindRange resolves a range and refuses what cannot be gated.
func (w *Workspace) FindRange(ctx context.Context, o RangeOptions) (*Range, error) {
	r := &Range{}
	if err := w.findHead(ctx, o, r); err != nil {
		return nil, err
	}
	if err := w.findBase(ctx, o.Base, r); err != nil {
		return nil, err
	}
	head, err := w.Git.Commit(ctx, r.Head)
	if err != nil {
		return nil, err
	}
	r.Tree = head.Tree
	from := r.Base
	if empty, err := w.Git.EmptyTree(ctx); err != nil {
		return nil, err
	} else if r.Base == empty {
		from = ""
	}
	r.Commits, r.More, err = w.Git.Range(ctx, from, r.Head, maxRange)
	if err != nil {
		return nil, err
	}
	if len(r.Commits) == 0 {
		return nil, w.emptyRange(r)
	}
	for _, c := range r.Commits {
		if strings.TrimSpace(c.Subject) == "" {
			return nil, usagef("give it one with `git commit --amend` or `git rebase -i`",
				"commit %.12s has an empty message, and the message is what a patchset is described by", c.ID)
		}
	}
	return r, nil
}

func (w *Workspace) findHead(ctx context.Context, o RangeOptions, r *Range) error {
	if o.Head != "" {
		if o.Worktree {
			return usagef("leave one of them out", "--worktree takes the present work tree, --head another commit")
		}
		id, err := w.Git.ResolveCommit(ctx, o.Head)
		if err != nil {
			return err
		}
		r.Head = id
		if _, ok, err := w.Git.Ref(ctx, "refs/heads/"+o.Head); err == nil && ok {
			r.Branch = o.Head
		}
		return nil
	}
	head, err := w.Git.Head(ctx)
	if err != nil {
		return err
	}
	if head.Commit == "" {
		return usagef("commit something first", "branch %s has no commit yet", head.Branch)
	}
	r.Head, r.Branch = head.Commit, head.Branch
	if w.Git.Bare() {
		return nil
	}
	st, err := w.Git.Status(ctx)
	if err != nil {
		return err
	}
	changed, untracked := 0, 0
	for _, e := range st.Entries {
		if e.Untracked() {
			untracked++
		} else {
			changed++
		}
	}
	switch {
	case o.Worktree && st.Dirty:
		message := "Work tree of " + r.branchName()
		if r.Head, err = w.Git.WorktreeCommit(ctx, head.Commit, message); err != nil {
			return err
		}
	case changed > 0:
		return usagef("commit or stash them, or add --worktree to include them",
			"%s has uncommitted changes, first of all in %q", w.Git.Top(), st.Entries[0].Path)
	case untracked > 0:
		w.Notes = append(w.Notes, fmt.Sprintf("untracked files are not part of the gate: %q and others like it", st.Entries[0].Path))
	}
	return nil
}

func (r *Range) branchName() string {
	if r.Branch == "" {
		return detachedLine
	}
	return r.Branch
}

// findBase is the merge base with what the user names, else with the upstream if
// that is another branch, else with the target. A root commit is compared with
// the empty tree.
func (w *Workspace) findBase(ctx context.Context, base string, r *Range) error {
	against, name, err := w.against(ctx, base, r)
	if err != nil {
		return err
	}
	if against == "" {
		r.Base, err = w.Git.EmptyTree(ctx)
		return err
	}
	id, ok, err := w.Git.MergeBase(ctx, against, r.Head)
	if err != nil {
		return err
	}
	if !ok {
		if base != "" {
			return usagef("choose another base", "%s and the head share no history", name)
		}
		id, err = w.Git.EmptyTree(ctx)
	}
	r.Base = id
	return err
}

func (w *Workspace) against(ctx context.Context, base string, r *Range) (gitrepo.OID, string, error) {
	if base != "" {
		id, err := w.Git.ResolveCommit(ctx, base)
		return id, base, err
	}
	if r.Branch != "" {
		up, ok, err := w.Git.Upstream(ctx, r.Branch)
		if err != nil {
			return "", "", err
		}
		// A branch that follows its own copy on a remote has that copy as its
		// upstream; what it is to be compared with is the target then.
		if ok && (r.Branch == w.Target || !strings.HasSuffix(up, "/"+r.Branch)) {
			id, err := w.Git.ResolveCommit(ctx, up)
			return id, up, err
		}
	}
	if w.Target == "" {
		return "", "", nil
	}
	id, err := w.Git.ResolveCommit(ctx, "refs/heads/"+w.Target)
	if err != nil || id != r.Head || r.Branch != w.Target {
		return id, w.Target, err
	}
	c, err := w.Git.Commit(ctx, id)
	if err == nil && len(c.Parents) == 0 {
		return "", "", nil // the first commit of all
	}
	return id, w.Target, err
}

func (w *Workspace) emptyRange(r *Range) error {
	where := r.branchName()
	if r.Branch == w.Target && w.Target != "" {
		return usagef("work on a branch of its own (`git switch -c NAME`), or gate the last commit with --base HEAD~1",
			"there is nothing to gate: %s is the target branch itself", where)
	}
	return usagef("commit something, or choose another base with --base; `writ log` tells what has landed",
		"there is nothing to gate: %s has no commit that its base %.12s does not have", where, r.Base)
}

// Summary is the human text of the range, at most 65,535 bytes.
func (r *Range) Summary() string {
	var b strings.Builder
	for i, c := range r.Commits {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(c.Subject)
		if c.Body != "" {
			b.WriteString("\n\n")
			b.WriteString(c.Body)
		}
	}
	if r.More {
		b.WriteString("\n\n[more commits follow]")
	}
	return cut(strings.ToValidUTF8(b.String(), "\uFFFD"), maxSummary)
}

// cut shortens text to at most limit bytes, on a rune boundary and with a mark.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := limit - len(cutMark)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + cutMark
}

// lineName is the name of the authoring Line of a branch. The names that Writ
// itself uses are spelled out in full when a branch has them.
func (w *Workspace) lineName(branch string) string {
	switch branch {
	case "":
		return detachedLine
	case w.Target:
		return authority.MainLine
	case authority.MainLine, detachedLine:
		return "refs/heads/" + branch
	}
	return strings.ToValidUTF8(branch, "\uFFFD")
}

// content is what a Snapshot records of a commit, computed outside of any lock.
type content struct {
	commit   gitrepo.OID
	hash     uint64
	message  string
	manifest *gitrepo.Manifest // nil while the Snapshot is known
}

func (w *Workspace) content(commit gitrepo.OID, subject string) (content, error) {
	h, err := hash48(commit)
	return content{commit: commit, hash: h, message: cut(strings.ToValidUTF8(subject, "\uFFFD"), 1000)}, err
}

func (c *content) compute(ctx context.Context, git *gitrepo.Repo) error {
	if c.manifest != nil {
		return nil
	}
	m, err := git.Manifest(ctx, c.commit)
	c.manifest = &m
	return err
}

// maxSameCommit bounds how many Snapshots of one commit are looked at.
const maxSameCommit = 64

// find returns the Snapshots that stand for the commit, newest first.
func (w *Workspace) find(ctx context.Context, v *authority.View, c *content) ([]authority.Snapshot, error) {
	list, err := v.SnapshotsByHash(c.hash, maxSameCommit)
	if err != nil {
		return nil, err
	}
	var same []authority.Snapshot
	for _, s := range list {
		id, ok, err := w.Git.Ref(ctx, w.snapshotRef(s.Index))
		if err != nil {
			return nil, err
		}
		if ok && id == c.commit {
			same = append(same, s)
		}
	}
	return same, nil
}

// errNeedManifest asks the caller to compute what a new Snapshot needs, outside of
// the lock, and to come again.
var errNeedManifest = errors.New("the manifest is needed")

// snapshot returns the Snapshot of a commit and records it when there is none. A
// line restricts it to those authored there.
func (w *Workspace) snapshot(ctx context.Context, tx *authority.Tx, c *content, line uint32, exact bool, refs *[]gitrepo.RefUpdate) (uint32, error) {
	same, err := w.find(ctx, &tx.View, c)
	if err != nil {
		return 0, err
	}
	for _, s := range same {
		if !exact || s.Line == record.RefTo(line) {
			return s.Index, nil
		}
	}
	if c.manifest == nil {
		return 0, errNeedManifest
	}
	index, err := tx.AddSnapshot(authority.SnapshotSpec{
		Hash48: c.hash, Line: line, Manifest: c.manifest.Hash, Files: c.manifest.Files, Bytes: c.manifest.Bytes, Message: c.message,
	})
	// What an interrupted batch left under this name stands for nothing.
	*refs = append(*refs, gitrepo.RefUpdate{Name: w.snapshotRef(index), New: c.commit, Old: gitrepo.AnyOID})
	return index, err
}

// recorded is a range as the authority has it.
type recorded struct {
	task, change, patchset uint32
	newTask, newChange     bool
	newPatchset            bool
	closed                 bool // the Change takes nothing any more
	base, head             content
	note                   string
}

// record finds or creates Task, Change, Snapshots and Patchset of a range, in one
// batch. The commits are durable in Git, and kept by refs, before the records
// exist.
func (w *Workspace) record(ctx context.Context, r *Range, title string, mode record.AuthorMode) (*recorded, error) {
	out := &recorded{}
	var err error
	if out.base, err = w.content(r.Base, ""); err != nil {
		return nil, err
	}
	if len(r.Commits) > 0 {
		if out.head, err = w.content(r.Head, r.Commits[len(r.Commits)-1].Subject); err != nil {
			return nil, err
		}
	}
	spec := taskSpec(r, title)
	for {
		err := w.Repo.Update(ctx, func(tx *authority.Tx) error {
			*out = recorded{base: out.base, head: out.head}
			return w.recordOnce(ctx, tx, r, spec, mode, out)
		})
		if !errors.Is(err, errNeedManifest) {
			return out, err
		}
		if err := w.computeMissing(ctx, out); err != nil {
			return nil, err
		}
	}
}

// computeMissing reads the manifests that new Snapshots need and makes the head's
// objects durable.
func (w *Workspace) computeMissing(ctx context.Context, out *recorded) error {
	err := w.Repo.View(ctx, func(v *authority.View) error {
		known, err := w.find(ctx, v, &out.base)
		if err == nil && len(known) == 0 {
			err = errNeedManifest
		}
		return err
	})
	if errors.Is(err, errNeedManifest) {
		err = out.base.compute(ctx, w.Git)
	}
	if err != nil {
		return err
	}
	if err := out.head.compute(ctx, w.Git); err != nil {
		return err
	}
	if empty, err := w.Git.EmptyTree(ctx); err != nil || out.base.commit == empty {
		return errors.Join(err, w.Git.Persist(ctx, out.head.commit))
	}
	if out.base.manifest != nil {
		// The base is new to us too; nothing proves that it is durable.
		if err := w.Git.Persist(ctx, out.base.commit, w.durableTip(ctx)...); err != nil {
			return err
		}
	}
	return w.Git.Persist(ctx, out.head.commit, out.base.commit)
}

type taskText struct{ given, title, intent, change string }

func taskSpec(r *Range, title string) taskText {
	first := r.Commits[0]
	t := taskText{given: title, title: title, intent: first.Body, change: cut(first.Subject, 4000)}
	if t.title == "" {
		t.title = first.Subject
	}
	if strings.TrimSpace(t.intent) == "" {
		t.intent = first.Subject
	}
	t.title, t.intent = cut(t.title, 4000), cut(t.intent, 60000)
	return t
}

func (w *Workspace) recordOnce(ctx context.Context, tx *authority.Tx, r *Range, spec taskText, mode record.AuthorMode, out *recorded) error {
	var refs []gitrepo.RefUpdate
	main, err := tx.EnsureLine(authority.MainLine)
	if err != nil {
		return err
	}
	line, err := tx.EnsureLine(w.lineName(r.Branch))
	if err != nil {
		return err
	}
	base, err := w.snapshot(ctx, tx, &out.base, main, false, &refs)
	if err != nil {
		return err
	}
	if p, ok, err := w.known(ctx, tx, base, &out.head); err != nil {
		return err
	} else if ok {
		out.patchset, out.change, out.task = p.Index, p.Change, p.Task
		c, err := tx.Change(p.Change)
		if out.closed = !c.Open(); err != nil || out.closed {
			return err
		}
		return tx.SelectPatchset(p.Index)
	}
	revision, err := w.snapshot(ctx, tx, &out.head, line, true, &refs)
	if err != nil {
		return err
	}
	if err := w.place(tx, line, main, base, r.Branch == "", spec, out); err != nil {
		return err
	}
	out.newPatchset = true
	out.patchset, err = tx.Publish(authority.PatchsetSpec{
		Change: out.change, Base: base, Revision: revision, Summary: r.Summary(), AuthorMode: mode,
	})
	if err != nil {
		return err
	}
	if len(refs) > 0 {
		tx.Prepare(func() error { return w.Git.UpdateRefs(ctx, "", refs...) })
	}
	return tx.SelectPatchset(out.patchset)
}

// known finds the Patchset with the same base and head. One that has landed
// counts only while the target still contains it.
func (w *Workspace) known(ctx context.Context, tx *authority.Tx, base uint32, head *content) (authority.Patchset, bool, error) {
	same, err := w.find(ctx, &tx.View, head)
	if err != nil {
		return authority.Patchset{}, false, err
	}
	for _, s := range same {
		p, ok, err := tx.FindPatchset(base, s.Index)
		if err != nil {
			return p, false, err
		}
		if !ok {
			continue
		}
		c, err := tx.Change(p.Change)
		if err != nil || c.Open() {
			return p, err == nil, err
		}
		if c.Meta.Lifecycle() != record.ChangeLifecycleLanded || w.Target == "" {
			continue
		}
		tip, ok, err := w.Git.Ref(ctx, "refs/heads/"+w.Target)
		if err != nil || !ok {
			return p, false, err
		}
		if in, err := w.Git.IsAncestor(ctx, head.commit, tip); err != nil || in {
			return p, in, err
		}
	}
	return authority.Patchset{}, false, nil
}

// place finds the open Change of the branch or opens one, and its Task (G3).
func (w *Workspace) place(tx *authority.Tx, line, main, base uint32, detached bool, spec taskText, out *recorded) error {
	task, haveTask := uint32(0), false
	if !detached {
		p, ok, err := tx.LatestOnLine(line)
		if err != nil {
			return err
		}
		if ok {
			c, err := tx.Change(p.Change)
			if err != nil {
				return err
			}
			full, err := tx.ChangeIsFull(p.Change)
			if err != nil {
				return err
			}
			if c.Open() && !full {
				out.change, out.task = p.Change, c.Task
				return w.noteTask(tx, spec, out)
			}
			task, haveTask = c.Task, true
		}
	}
	if haveTask {
		t, err := tx.Task(task)
		if err != nil {
			return err
		}
		full, err := tx.TaskIsFull(task)
		if err != nil {
			return err
		}
		if full || !t.Open() || spec.given != "" && spec.given != t.Title {
			haveTask = false
		}
	}
	if !haveTask {
		var err error
		if task, err = tx.OpenTask(spec.title, spec.intent); err != nil {
			return err
		}
		out.newTask = true
	}
	out.task, out.newChange = task, true
	var err error
	out.change, err = tx.OpenChange(task, spec.change, main, record.RefTo(base))
	return err
}

func (w *Workspace) noteTask(tx *authority.Tx, spec taskText, out *recorded) error {
	if spec.given == "" {
		return nil
	}
	t, err := tx.Task(out.task)
	if err == nil && t.Title != spec.given {
		out.note = fmt.Sprintf("the branch goes on with %s %q; --task is used when a task is opened", t.ID, t.Title)
	}
	return err
}

// durableTip is a commit whose history is known to be durable: the head of the
// newest Snapshot, if there is one.
func (w *Workspace) durableTip(ctx context.Context) []gitrepo.OID {
	var tips []gitrepo.OID
	_ = w.Repo.View(ctx, func(v *authority.View) error {
		n, err := bindb.Snapshots.Count(v)
		if err != nil || n == 0 {
			return err
		}
		if id, ok, err := w.Git.Ref(ctx, w.snapshotRef(n-1)); err == nil && ok {
			if _, err := w.Git.Commit(ctx, id); err == nil {
				tips = append(tips, id)
			}
		}
		return nil
	}) // without a tip the whole history is looked at
	return tips
}
