package gate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/writ-authority/writ/authority"
	"github.com/writ-authority/writ/bindb"
	"github.com/writ-authority/writ/bindb/record"
	"github.com/writ-authority/writ/gate/suite"
	"github.com/writ-authority/writ/gitrepo"
)

// OpenOptions say which Git repository and which authority to join.
type OpenOptions struct {
	// Dir is a directory inside the Git repository; "" means the current one.
	Dir string
	// Data is the data directory; "" means writ inside the common Git directory.
	Data string
	// Create makes the authority, or registers the repository, when it is not
	// there. Without it the error is authority.ErrNoAuthority.
	Create bool
	// Before runs once Git is open and before the authority is made or opened.
	// What it refuses leaves nothing behind. It may be nil.
	Before func(*Workspace) error
	// Clock is nil for the real one.
	Clock func() time.Time
	// Lease is how long a claim holds; zero means a minute.
	Lease time.Duration
}

// Workspace is a Git repository with its authority.
type Workspace struct {
	Git       *gitrepo.Repo
	Authority *authority.Authority
	Repo      *authority.Repository
	// Target is the short name of the branch that changes land on, "" when the
	// repository has none.
	Target string
	// Notes are remarks about the opening, for the report.
	Notes []string

	clock func() time.Time
	lease time.Duration
}

// Open joins a Git repository with its authority. With Create it also brings a
// Land that a crash has interrupted to its end.
func Open(ctx context.Context, o OpenOptions) (*Workspace, error) {
	if o.Dir == "" {
		o.Dir = "."
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	git, err := gitrepo.Open(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Git: git, clock: o.Clock, lease: o.Lease}
	if err := w.open(ctx, o); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// DefaultData is where the authority of a Git repository lives by default.
func DefaultData(git *gitrepo.Repo) string { return filepath.Join(git.CommonDir(), "writ") }

func (w *Workspace) open(ctx context.Context, o OpenOptions) error {
	var err error
	if w.Target, err = w.findTarget(ctx); err != nil {
		return err
	}
	if o.Before != nil {
		if err := o.Before(w); err != nil {
			return err
		}
	}
	data := o.Data
	if data == "" {
		data = DefaultData(w.Git)
	}
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	opt := authority.Options{Dir: data, Clock: o.Clock, Lease: o.Lease, RetryDelay: time.Second}
	w.Authority, err = authority.Open(ctx, opt)
	if errors.Is(err, authority.ErrNoAuthority) && o.Create {
		w.Authority, err = authority.Create(ctx, opt, w.name(), authority.DefaultFlags)
		if errors.Is(err, authority.ErrExists) {
			w.Authority, err = authority.Open(ctx, opt) // another command was faster
		}
	}
	if err != nil {
		return err
	}
	index, err := w.bind(ctx, data == DefaultData(w.Git), o.Create)
	if err != nil {
		return err
	}
	if w.Repo, err = w.Authority.Repository(ctx, index); err != nil {
		return err
	}
	if o.Create {
		return w.settleLand(ctx)
	}
	return nil
}

// Close leaves the authority clean and ends the processes that were kept.
func (w *Workspace) Close() error {
	var errs []error
	if w.Authority != nil {
		errs = append(errs, w.Authority.Close())
	}
	return errors.Join(append(errs, w.Git.Close())...)
}

// now is the clock in whole seconds, never zero.
func (w *Workspace) now() record.Seconds { return record.Seconds(max(w.clock().Unix(), 1)) }

// name is the display name of the repository.
func (w *Workspace) name() string {
	dir := w.Git.Top()
	if dir == "" {
		dir = strings.TrimSuffix(w.Git.CommonDir(), ".git")
	}
	name := strings.ToValidUTF8(filepath.Base(dir), "\uFFFD")
	if name == "" || name == "/" || name == "." {
		return "repository"
	}
	return name
}

// refPrefix is the name space of this installation in Git.
func (w *Workspace) refPrefix() string { return "refs/writ/" + w.Authority.Installation() }

func (w *Workspace) bindingRef(index uint32) string {
	return fmt.Sprintf("%s/repository/%d", w.refPrefix(), index)
}

func (w *Workspace) snapshotRef(snapshot uint32) string {
	return fmt.Sprintf("%s/s/%d/%d", w.refPrefix(), w.Repo.Info().Index, snapshot)
}

func (w *Workspace) landRef(land uint32) string {
	return fmt.Sprintf("%s/l/%d/%d", w.refPrefix(), w.Repo.Info().Index, land)
}

// bind finds the Repository that stands for this Git repository. A data directory
// inside the Git directory serves this one alone. Any other may serve several:
// then a ref in Git says which one it is.
func (w *Workspace) bind(ctx context.Context, own, create bool) (uint32, error) {
	if own {
		return authority.FirstRepository, nil
	}
	list, err := w.Authority.Repositories(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range list[authority.FirstRepository:] {
		_, ok, err := w.Git.Ref(ctx, w.bindingRef(r.Index))
		if err != nil {
			return 0, err
		}
		if ok {
			return r.Index, nil
		}
	}
	if !create {
		return 0, fmt.Errorf("%w for this repository: %s has no entry for it", authority.ErrNoAuthority, w.Authority.Dir())
	}
	index, err := w.register(ctx, list)
	if err != nil {
		return 0, err
	}
	tree, err := w.Git.EmptyTree(ctx)
	if err != nil {
		return 0, err
	}
	return index, w.Git.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: w.bindingRef(index), New: tree})
}

// register takes the Repository that creation has made, if it is still unused,
// or adds one.
func (w *Workspace) register(ctx context.Context, list []authority.RepositoryInfo) (uint32, error) {
	if len(list) == authority.FirstRepository+1 && list[authority.FirstRepository].Name == w.name() {
		repo, err := w.Authority.Repository(ctx, authority.FirstRepository)
		if err != nil {
			return 0, err
		}
		unused := false
		err = repo.View(ctx, func(v *authority.View) error {
			n, err := bindb.Snapshots.Count(v)
			unused = n == 0
			return err
		})
		if err != nil || unused {
			return authority.FirstRepository, err
		}
	}
	index, _, err := w.Authority.AddRepository(ctx, w.name(), record.Namespace{}, authority.DefaultFlags)
	return index, err
}

// findTarget is the branch that changes land on: what writ.yaml at the tip of the
// default branch says, else the default branch.
func (w *Workspace) findTarget(ctx context.Context) (string, error) {
	branch, ok, err := w.Git.DefaultBranch(ctx)
	if err != nil || !ok {
		return "", err
	}
	tip, ok, err := w.Git.Ref(ctx, "refs/heads/"+branch)
	if err != nil || !ok {
		return branch, err
	}
	b, ok, err := w.Git.ReadFile(ctx, tip, suite.FileName, suite.MaxFile)
	if err != nil || !ok {
		return branch, err
	}
	cfg, err := suite.Parse(suite.FileName, b)
	if err != nil || cfg.Target == "" || cfg.Target == branch {
		return branch, nil // a malformed file is reported by the gate that reads it as policy
	}
	if _, ok, err := w.Git.Ref(ctx, "refs/heads/"+cfg.Target); err != nil || !ok {
		return "", errors.Join(err, usagef("create the branch, or change `target`",
			"%s on %s names the target branch %q, which does not exist", suite.FileName, branch, cfg.Target))
	}
	return cfg.Target, nil
}

// hash48 ties a Snapshot to its commit: the first 48 bits of the object id.
func hash48(id gitrepo.OID) (uint64, error) {
	if len(id) < 12 {
		return 0, fmt.Errorf("object id %q is too short", id)
	}
	return strconv.ParseUint(string(id[:12]), 16, 64)
}

// CommitOf returns the commit, or for the base of a root commit the empty tree,
// that a Snapshot stands for. A ref that was lost is found again by the hash and
// proven by the manifest.
func (w *Workspace) CommitOf(ctx context.Context, s *authority.Snapshot) (gitrepo.OID, error) {
	id, ok, err := w.Git.Ref(ctx, w.snapshotRef(s.Index))
	if err != nil || ok {
		return id, err
	}
	short := fmt.Sprintf("%012x", s.Hash48)
	if id, err = w.Git.EmptyTree(ctx); err == nil && !strings.HasPrefix(string(id), short) {
		id, err = w.Git.ResolveCommit(ctx, short)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s has no ref and %s names no commit: %w", ErrLostContent, s.Name(), short, err)
	}
	m, err := w.Git.Manifest(ctx, id)
	if err != nil {
		return "", err
	}
	if m.Hash != s.ManifestHash {
		return "", fmt.Errorf("%w: %s has no ref and commit %s has another tree", ErrLostContent, s.Name(), id)
	}
	w.Notes = append(w.Notes, fmt.Sprintf("the ref of %s was lost and has been restored from commit %s", s.Name(), short))
	return id, w.Git.UpdateRefs(ctx, "", gitrepo.RefUpdate{Name: w.snapshotRef(s.Index), New: id})
}
